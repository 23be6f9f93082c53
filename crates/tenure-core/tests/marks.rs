//! What those leave who live too short to watch. Plan: a silent holder's stamp of the future is replaced, once and by those
//! alone who give up before they could judge it; a missing session is marked in the rider's record; with a mark, two witnesses
//! tell how old it is, and one is never enough; without ages nothing is written.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::*;
use std::time::Duration;
use tenure_core::op::{Answer, Event, Machine, Op, OpId, Outcome, Step};
use tenure_core::{Ask, Command, Holder, Letter, Notice, Patience, Record, Stored, Version};

const TTL_MS: u64 = 10_000;

/// As a store returns it that was written so long ago.
fn aged(record: Record, ms: Option<u64>) -> Stored {
    let version = Version(record.nonce.0);
    Stored::new(record).versioned(version).aged(ms.map(Duration::from_millis))
}

/// A fresh process wants `k` and finds `stands` there.
fn finds(patience: Patience, at: u64, stands: Stored) -> (Holder, Step<Notice>) {
    let mut a = holder();
    a.step(now(at), acquire("k", own(), patience));
    let lost = Answer::Write(Outcome::Lost(Some(stands)));
    let step = a.step(now(at), Event::<Command>::Answer(OpId(1), Ok(lost)));
    (a, step)
}

fn written(step: &Step<Notice>) -> Option<Record> {
    match &step.requests.first()?.op {
        Op::Write(write) => Some(write.record.clone()),
        _ => None,
    }
}

#[test]
fn l1_a_silent_holders_stamp_of_the_future_is_replaced_by_who_can_not_wait() {
    let ahead = || held("b", nonce(90), nonce(91), 7, 0, 365 * 86_400_000);
    let (mut a, step) = finds(Patience::Try, 50_000, aged(ahead(), Some(12_501)));
    let mark = Record { nonce: nonce(2), stamp: now(50_000).wall, ..ahead() };
    assert_eq!(step.requests, vec![write(2, "k", unchanged(nonce(91)), mark)]);
    assert_eq!(step.notices, vec![], "it is told once that is done");
    let told = a.step(now(50_010), won(2, nonce(2), 7));
    assert!(matches!(told.notices[..], [Notice::Held(LEASE, Some(_))]) && told.requests.is_empty());
    // Whoever waits for a ttl judges by himself; what is younger may be alive; without an age nobody could tell later.
    let writes = |patience, stored| written(&finds(patience, 50_000, stored).1).is_some();
    assert!(!writes(Patience::Forever, aged(ahead(), Some(12_501))));
    assert!(!writes(Patience::Until(tick(60_001)), aged(ahead(), Some(12_501))));
    assert!(writes(Patience::Until(tick(59_999)), aged(ahead(), Some(12_501))));
    assert!(!writes(Patience::Try, aged(ahead(), Some(12_500))));
    assert!(!writes(Patience::Try, aged(ahead(), None)));
}

#[test]
fn a_replaced_stamp_is_judged_like_any_other() {
    let marked = || held("b", nonce(90), nonce(91), 7, 0, 50_000);
    let takes = |at, age| {
        let (_, step) = finds(Patience::Try, at, aged(marked(), Some(age)));
        written(&step).and_then(|record| record.tenure).is_some_and(|tenure| tenure.holder.as_str() == "a")
    };
    assert!(takes(50_001 + TTL_MS, TTL_MS + 1));
    assert!(!takes(50_000 + TTL_MS, TTL_MS + 1) && !takes(50_001 + TTL_MS, TTL_MS));
}

/// A fresh process finds that `k` rides on a session that is missing.
fn misses(at: u64, rider: Record, age: Option<u64>) -> Step<Notice> {
    let (mut a, asks) = finds(Patience::Try, at, aged(rider, age));
    assert_eq!(asks.requests, vec![read(2, "session/b")]);
    a.step(now(at), seen(2, None))
}

#[test]
fn l1_a_missing_session_is_marked_and_two_witnesses_tell_since_when() {
    let rider = || riding(held("b", nonce(90), nonce(90), 7, 0, 0), "session/b", 3);
    let mark = written(&misses(500_000, rider(), Some(500_000))).unwrap();
    let tenure = mark.tenure.clone().unwrap();
    assert_eq!(tenure.mail, vec![Letter { key: key("k"), ask: Ask::Confirm }]);
    assert_eq!((tenure.id, tenure.beat, mark.stamp), (nonce(90), nonce(90), now(500_000).wall));
    assert_eq!(written(&misses(500_000, rider(), None)), None, "without ages nobody could tell later");
    let later = |ms, age| {
        let record = written(&misses(500_000 + ms, mark.clone(), Some(age)));
        record.map(|record| record.tenure.unwrap().holder.as_str().to_owned())
    };
    assert_eq!(later(TTL_MS + 1, TTL_MS + 1).as_deref(), Some("a"));
    assert_eq!(later(TTL_MS, TTL_MS + 1), None, "the wall clocks say less");
    assert_eq!(later(3_600_000, TTL_MS), None, "the store says less");
    assert_eq!(
        later(0, TTL_MS + 2_501).as_deref(),
        Some("b"),
        "by a clock that was ahead: it is marked anew"
    );
}

#[test]
fn a_mark_says_nothing_of_a_session_that_is_there() {
    let mut rider = riding(held("b", nonce(90), nonce(90), 7, 0, 0), "session/b", 3);
    rider.tenure.as_mut().unwrap().mail = vec![Letter { key: key("k"), ask: Ask::Confirm }];
    let (mut a, _) = finds(Patience::Try, 500_000, aged(rider, Some(19_000)));
    let session = held("b", nonce(91), nonce(92), 3, 0, 499_000);
    let told = a.step(now(500_000), seen(2, Some(session)));
    assert!(matches!(told.notices[..], [Notice::Held(..)]), "{told:?}");
}
