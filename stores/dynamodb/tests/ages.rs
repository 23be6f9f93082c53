//! Ages are told by the service's dates and by nothing else.
//!
//! Plan: a service whose clock runs ahead of this host makes records old, one whose clock is set back makes them young, and a
//! date that lacks makes them ageless; who writes a letter dates nothing; whether ages are told at all is seen when the store is opened, and can be switched off.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tenure_core::{Ask, ErrorKind, Letter, Record};
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{client, key, make, plain, store_by, wins};
use tenure_store::{Expiry, Store};
use tenure_testkit::{RealClock, RecordFactory, unique};

const TABLE: &str = "tenure-ages";

async fn age(store: &DynamoStore) -> Option<Duration> {
    store.read(&key("a")).await.unwrap().expect("the record stands").age()
}

#[tokio::test]
async fn an_age_goes_by_the_service_s_clock() {
    let later = Arc::new(AtomicI64::new(0));
    let shown = Arc::clone(&later);
    let stub = Stub::start(move |_, _| Fate::Redated(Some(shown.load(Ordering::SeqCst)))).await;
    let store = store_by(client(&stub.endpoint), TABLE, &unique("ages")).await;
    assert_eq!(store.capabilities().expiry, Expiry::AttestedAge);
    let factory = RecordFactory::new();
    let record = factory.held(5);
    assert!(wins(&store, factory.absent(&key("a"), record.clone())).await);
    assert!(age(&store).await < Some(Duration::from_secs(20)), "this test itself takes less than that");

    later.store(1000, Ordering::SeqCst);
    let old = age(&store).await.unwrap();
    assert!(old > Duration::from_secs(990) && old < Duration::from_secs(1020), "{old:?}");

    // Written by a clock that is then set back: never below zero.
    let again = factory.held(5);
    assert!(wins(&store, factory.unchanged(&key("a"), record.version(), again)).await);
    later.store(0, Ordering::SeqCst);
    assert_eq!(age(&store).await, Some(Duration::ZERO));
}

#[tokio::test]
async fn s1_a_write_from_behind_hidden_time_is_no_win_and_the_next_one_is_dated_right() {
    let later = Arc::new(AtomicI64::new(0));
    let shown = Arc::clone(&later);
    let stub = Stub::start(move |_, _| Fate::Redated(Some(shown.load(Ordering::SeqCst)))).await;
    let store = store_by(client(&stub.endpoint), TABLE, &unique("hidden")).await;
    let factory = RecordFactory::new();
    let (first, renewed) = (factory.held(5), factory.held(5));
    assert!(wins(&store, factory.absent(&key("a"), first.clone())).await);
    // This host has counted nothing of these minutes, its wall clock, which stamps the record, included.
    later.store(500, Ordering::SeqCst);
    let unbelievable =
        store.write(factory.unchanged(&key("a"), first.version(), renewed.clone())).await.unwrap_err();
    assert_eq!(unbelievable.kind(), ErrorKind::Unknown, "{unbelievable}");
    assert!(unbelievable.to_string().contains("time was hidden"), "{unbelievable}");
    let old = store.read(&key("a")).await.unwrap().unwrap();
    assert_eq!(old.version, renewed.version(), "it took effect all the same");
    assert!(old.age() > Some(Duration::from_secs(400)), "and looks like a dead one's: {old:?}");
    assert!(wins(&store, factory.unchanged(&key("a"), renewed.version(), factory.held(5))).await);
    assert!(age(&store).await < Some(Duration::from_secs(100)));
}

#[tokio::test]
async fn s1_a_letter_dates_nothing_and_the_next_renewal_does() {
    let later = Arc::new(AtomicI64::new(0));
    let shown = Arc::clone(&later);
    let stub = Stub::start(move |_, _| Fate::Redated(Some(shown.load(Ordering::SeqCst)))).await;
    let (namespace, factory) = (unique("letters"), RecordFactory::new());
    let writer = store_by(client(&stub.endpoint), TABLE, &namespace).await;
    // A host from which minutes are hidden by the time at which it writes.
    let hidden = store_by(client(&stub.endpoint), TABLE, &namespace).await;
    later.store(500, Ordering::SeqCst);
    assert!(writer.read(&key("none")).await.unwrap().is_none(), "it knows the time");
    let record = factory.held(5);
    assert!(wins(&writer, factory.absent(&key("a"), record.clone())).await);
    assert!(age(&writer).await < Some(Duration::from_secs(100)) && age(&writer).await.is_some());
    let mut letter = Record { nonce: factory.vacant(5).nonce, ..record.clone() };
    let asks = Letter::new(key("a"), Ask::Revoke);
    assert!(letter.tenure.as_mut().is_some_and(|tenure| tenure.post(asks)));
    assert!(wins(&hidden, factory.unchanged(&key("a"), record.version(), letter.clone())).await);
    let seen = writer.read(&key("a")).await.unwrap().unwrap();
    assert_eq!((seen.age(), seen.record), (None, letter.clone()), "its holder has just written");
    assert!(wins(&writer, factory.unchanged(&key("a"), letter.version(), factory.held(5))).await);
    assert!(age(&writer).await.is_some());
}

#[tokio::test]
async fn without_dates_there_are_no_ages() {
    let stub = Stub::start(|_, _| Fate::Redated(None)).await;
    let store = store_by(client(&stub.endpoint), TABLE, &unique("dateless")).await;
    assert_eq!(store.capabilities().expiry, Expiry::ObservedSilence);
    let factory = RecordFactory::new();
    assert!(wins(&store, factory.absent(&key("a"), factory.held(5))).await);
    assert_eq!(age(&store).await, None);
}

#[tokio::test]
async fn ages_can_be_switched_off() {
    make(TABLE).await;
    let namespace = unique("off");
    let open = async |attested_ages: bool| {
        let client = plain();
        let config = DynamoConfig::new(TABLE).namespace(&namespace).attested_ages(attested_ages);
        DynamoStore::with_client(&client, config, Arc::new(RealClock::new())).await.unwrap()
    };
    let (off, on) = (open(false).await, open(true).await);
    assert_eq!(off.capabilities().expiry, Expiry::ObservedSilence);
    let factory = RecordFactory::new();
    let record = factory.held(5);
    assert!(wins(&off, factory.absent(&key("a"), record.clone())).await);
    assert_eq!((age(&off).await, age(&on).await), (None, None), "nobody wrote down when");
    assert!(wins(&on, factory.unchanged(&key("a"), record.version(), factory.held(5))).await);
    assert_eq!(age(&off).await, None);
    assert!(age(&on).await.is_some());
    // What the other wrote down goes away with the record that it was about.
    let version = on.read(&key("a")).await.unwrap().unwrap().version;
    assert!(wins(&off, factory.unchanged(&key("a"), version, factory.held(5))).await);
    assert_eq!(age(&on).await, None);
}
