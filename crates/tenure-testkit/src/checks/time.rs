//! The age of records. A store that doesn't attest ages must not tell any that are wrong either.

use super::{won, write};
use crate::{AnySubject, RecordFactory};
use std::time::Duration;
use tenure_core::Times;
use tenure_core::op::Outcome;
use tenure_store::{Expiry, Store, StoreExt};

const SPAN: Duration = Duration::from_millis(30);

/// An age counts from no earlier than the write was sent, and goes on growing.
pub async fn an_age_is_never_over_the_truth_and_grows(subject: &AnySubject) {
    let (store, other, factory, clock) =
        (subject.store().await, subject.store().await, RecordFactory::new(), subject.clock());
    let key = factory.key("a");
    let sent = clock.now().held;
    won(write(&store, factory.absent(&key, factory.held(5))).await);
    let mut last = None;
    for round in 1..=3u32 {
        subject.pass(SPAN).await;
        for store in [&store, &other] {
            let age = store.read(&key).await.unwrap().expect("the record stands").age();
            let truth = clock.now().held.since(sent);
            assert_eq!(age.is_some(), store.capabilities().expiry == Expiry::AttestedAge, "{age:?}");
            assert!(age <= Some(truth), "{age:?} is more than the truth, {truth:?}");
            assert!(age >= last, "{age:?} is less than {last:?} before");
            // What passed after the answer to the write must show, but for what rounding takes.
            let least = SPAN * round - Duration::from_millis(1);
            assert!(age.is_none_or(|age| age >= least), "{age:?} after {least:?} at least");
            last = age;
        }
    }
}

/// Reads, listings and refusals tell the age alike.
pub async fn an_age_is_told_with_every_answer(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    won(write(&store, factory.absent(&key, factory.held(5))).await);
    subject.pass(SPAN).await;
    let read = store.read(&key).await.unwrap().expect("the record stands").age();
    let Outcome::Lost(Some(standing)) = write(&store, factory.if_vacant(&key, factory.held(5))).await else {
        panic!("a held key was taken");
    };
    let mut ages = vec![read, standing.age()];
    if store.capabilities().list {
        let listed = store.list_all("").await.unwrap();
        ages.push(listed[0].stored.as_ref().unwrap().age());
    }
    let is_told = store.capabilities().expiry == Expiry::AttestedAge;
    for age in &ages {
        let is_right = age.map_or(!is_told, |age| is_told && age >= SPAN - Duration::from_millis(1));
        assert!(is_right, "{ages:?}");
    }
}

/// The age is that of the last write, not of the key.
pub async fn a_write_makes_the_record_young_again(subject: &AnySubject) {
    let (store, factory, clock) = (subject.store().await, RecordFactory::new(), subject.clock());
    let key = factory.key("a");
    let (version, _) = won(write(&store, factory.absent(&key, factory.held(5))).await);
    subject.pass(SPAN * 10).await;
    let sent = clock.now().held;
    won(write(&store, factory.unchanged(&key, version, factory.held(5))).await);
    let age = store.read(&key).await.unwrap().expect("the record stands").age();
    let truth = clock.now().held.since(sent);
    assert!(age <= Some(truth), "{age:?} is more than the truth, {truth:?}");
}

/// Readings of one clock can be compared across writes: sections count by that for how long a lease has stood.
pub async fn times_of_successive_writes_are_of_one_clock(subject: &AnySubject) {
    let (store, other, factory, clock) =
        (subject.store().await, subject.store().await, RecordFactory::new(), subject.clock());
    let key = factory.key("a");
    let sent = clock.now().held;
    let (version, _) = won(write(&store, factory.absent(&key, factory.held(5))).await);
    let first = store.read(&key).await.unwrap().expect("the record stands").times;
    let again = other.read(&key).await.unwrap().expect("the record stands").times;
    let of_write = |times: Option<Times>| times.map(|times| (times.clock, times.written));
    assert_eq!(of_write(first), of_write(again), "who reads makes no difference");
    subject.pass(SPAN).await;
    won(write(&other, factory.unchanged(&key, version, factory.held(5))).await);
    subject.pass(SPAN).await;
    let last = store.read(&key).await.unwrap().expect("the record stands").times;
    let Some((first, last)) = first.zip(last).filter(|(first, last)| first.clock == last.clock) else {
        return;
    };
    let span = Times { written: first.written, ..last }.age();
    let truth = clock.now().held.since(sent);
    assert!(span <= truth, "{span:?} from the first write on is more than the truth, {truth:?}");
    assert!(span >= SPAN * 2 - Duration::from_millis(1), "{span:?} from the first write on after {truth:?}");
}
