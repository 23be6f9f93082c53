//! Keeping a key. Plan: renewals at a third of the ttl, and how soon those that fail are repeated; one whose answer was lost extends nothing until the record shows it;
//! the end comes at the deadline whatever else comes; who else is there is told; mail; hidden time.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::time::Duration;
use tenure_core::op::{Event, Machine, OpId};
use tenure_core::{
    Ask, Command, Letter, Loss, Metadata, Nonce, Notice, Now, Occupant, Rules, StoreError, Tick, WaitPolicy,
    Wall,
};

/// The record as `a` renews it at `ms` with its `n`-th nonce.
fn renewed(n: u128, ms: u64) -> tenure_core::Record {
    held("a", nonce(1), nonce(n), 7, 0, ms)
}

fn with_mail(record: tenure_core::Record, written: u128, asks: &[Ask]) -> tenure_core::Record {
    let mut record = record;
    record.nonce = Nonce(written);
    if let Some(tenure) = &mut record.tenure {
        tenure.mail = asks.iter().map(|ask| Letter::new(key("k"), *ask)).collect();
    }
    record
}

#[test]
fn it_is_renewed_at_a_third_and_believed_from_before_the_renewal() {
    let mut a = holding();
    let sends = a.step(now(3_334), Event::Wake);
    assert_eq!(sends, step(vec![renew(2, "k", nonce(1), renewed(2, 3_334))], vec![], renewal(3_334)));
    let done = a.step(now(3_400), won(2, nonce(2), 7));
    assert_eq!(done, step(vec![], vec![Notice::Valid(LEASE, until(3_334))], renewal(3_334)));
}

#[test]
fn s4_a_renewal_without_an_answer_extends_nothing_until_the_record_shows_it() {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    let failed = a.step(now(5_000), unknown(2));
    assert!(failed.notices.is_empty() && failed.requests.is_empty());
    let again = a.step(now(5_200), Event::Wake);
    assert_eq!(again, step(vec![renew(3, "k", nonce(1), renewed(3, 5_200))], vec![], Some(until(0))));
    let refused = a.step(now(5_300), lost(3, Some(renewed(2, 3_334))));
    let next = renew(4, "k", nonce(2), renewed(4, 5_300));
    assert_eq!(refused, step(vec![next], vec![Notice::Valid(LEASE, until(3_334))], renewal(5_300)));
}

#[test]
fn s5_at_the_deadline_it_is_lost_without_any_answer() {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    a.step(now(5_000), unknown(2));
    let over = a.step(now(8_182), Event::Wake);
    let loss = Loss::Unreachable(StoreError::unknown("cut"));
    assert_eq!(over, step(vec![], vec![Notice::Lost(LEASE, loss)], None));
    assert_eq!(a.leases(), 0);
}

#[test]
fn s5_an_answer_that_comes_with_the_deadline_comes_too_late() {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    let over = a.step(now(8_182), won(2, nonce(2), 7));
    let loss = Loss::Unreachable(StoreError::unknown("the store has not answered a renewal"));
    assert_eq!(over, step(vec![], vec![Notice::Lost(LEASE, loss)], None));
}

#[test]
fn s3_a_command_after_the_deadline_writes_nothing() {
    let mut a = holding();
    let over = a.step(now(9_000), Event::Command(Command::Update(LEASE, Metadata::new())));
    let told = vec![Notice::Lost(LEASE, Loss::Expired), Notice::Lost(LEASE, Loss::Released)];
    assert_eq!(over, step(vec![], told, None));
}

#[test]
fn whoever_took_it_is_told() {
    let other = held("b", Nonce(50), Nonce(50), 8, 3_000, 3_000);
    let over = |current: Option<tenure_core::Record>| {
        let mut a = holding();
        a.step(now(3_334), Event::Wake);
        a.step(now(3_400), lost(2, current)).notices
    };
    assert_eq!(over(Some(other.clone())), vec![Notice::Lost(LEASE, Loss::Taken(Occupant::of(&other)))]);
    assert_eq!(over(Some(vacant(Nonce(51), 7, 3_000))), vec![Notice::Lost(LEASE, Loss::Released)]);
    assert_eq!(over(Some(vacant(Nonce(51), 8, 3_000))), vec![Notice::Lost(LEASE, Loss::Taken(None))]);
    assert_eq!(over(None), vec![Notice::Lost(LEASE, Loss::Deleted)]);
    let landed_again = renewed(1, 0);
    let landed_again = tenure_core::Record { fence: tenure_core::Fence(9), ..landed_again };
    assert!(
        matches!(over(Some(landed_again))[..], [Notice::Lost(LEASE, Loss::Taken(_))]),
        "a claim that a network repeated is not this tenure"
    );
}

#[test]
fn mail_is_told_and_the_mailbox_emptied() {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    let told = a.step(now(3_400), lost(2, Some(with_mail(claim(1, 7, 0), 60, &[Ask::HandOver]))));
    let next = renew(3, "k", Nonce(60), renewed(3, 3_400));
    assert_eq!(told, step(vec![next], vec![Notice::Asked(LEASE, Ask::HandOver)], renewal(3_400)));
}

#[test]
fn what_is_revoked_is_not_renewed_any_more() {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    let told = a.step(now(3_400), lost(2, Some(with_mail(claim(1, 7, 0), 60, &[Ask::Revoke]))));
    assert_eq!(told, step(vec![], vec![Notice::Asked(LEASE, Ask::Revoke)], renewal(3_400)));
    // It looks whether time was hidden.
    assert_eq!(a.step(now(6_734), Event::Wake), step(vec![], vec![], Some(until(0))));
    let over = a.step(now(8_182), Event::Wake);
    assert_eq!(over, step(vec![], vec![Notice::Lost(LEASE, Loss::Revoked)], None));
}

#[test]
fn time_that_the_wall_clock_alone_has_seen_suspends_belief_until_a_renewal() {
    let mut a = holding();
    let woken = Now { wall: Wall(WALL + 3_600_000), ..now(3_334) };
    let suspended = a.step(woken, Event::Wake);
    assert_eq!(suspended.notices, vec![Notice::Valid(LEASE, Tick(0))]);
    assert_eq!(suspended.requests.len(), 1);
    let later = Now { wall: Wall(WALL + 3_600_100), ..now(3_434) };
    let done = a.step(later, won(2, nonce(2), 7));
    assert_eq!(done, step(vec![], vec![Notice::Valid(LEASE, until(3_334))], renewal(3_334)));
}

#[test]
fn a_wall_clock_that_gains_a_second_at_a_time_suspends_nothing() {
    let gains = |ms: u64| {
        let mut a = holding();
        a.step(Now { wall: Wall(WALL + 3_334 + ms), ..now(3_334) }, Event::Wake).notices
    };
    assert_eq!(gains(1_000), vec![]);
    assert_eq!(gains(1_001), vec![Notice::Valid(LEASE, Tick(0))]);
}

/// The pauses after each of some renewals in a row that fail with this error.
fn pauses(mut a: tenure_core::Holder, first_ms: u64, count: u64, error: &StoreError) -> Vec<Duration> {
    let mut ms = first_ms;
    let mut fails = |op: u64| {
        a.step(now(ms), Event::Wake);
        let failed = a.step(now(ms), Event::Answer(OpId(op), Err(error.clone())));
        let at = failed.wake_at.unwrap();
        let pause = at.since(tick(ms));
        ms = at.0.div_ceil(1_000_000);
        pause
    };
    (2..2 + count).map(&mut fails).collect()
}

#[test]
fn renewals_that_fail_are_repeated_ever_less_often() {
    let (unknown, refused) = (StoreError::unknown("lost"), StoreError::unavailable("busy"));
    for (error, parts) in [(unknown, [64, 32, 16, 8]), (refused, [64, 32, 16, 16])] {
        let pauses = pauses(holding(), 3_334, 4, &error);
        for (pause, part) in pauses.iter().zip(parts) {
            let longest = TTL / part;
            assert!((longest * 3 / 4..=longest).contains(pause), "{pauses:?}");
        }
    }
}

#[test]
fn where_a_rate_is_asked_for_renewals_that_fail_are_repeated_at_a_quarter_of_that() {
    let every = Duration::from_secs(1);
    let mut a = holder_by(Rules { renew: Some(every), ..Rules::default() });
    a.step(now(0), acquire("k", own(), WaitPolicy::Try));
    let due = a.step(now(5), won(1, nonce(1), 7)).wake_at.unwrap();
    assert!((tick(750)..=tick(1_000)).contains(&due), "{due:?}");
    let pauses = pauses(a, 1_001, 5, &StoreError::unavailable("away"));
    assert!(pauses.iter().all(|pause| *pause <= every / 4), "{pauses:?}");
    assert!(pauses[4] >= every * 3 / 16, "{pauses:?}");
}

#[test]
fn metadata_is_written_with_a_renewal_at_once() {
    let mut a = holding();
    let fields = Metadata::from([("n".to_owned(), 1.into())]);
    let sends = a.step(now(1_000), Event::Command(Command::Update(LEASE, fields.clone())));
    let record = tenure_core::Record { metadata: fields, ..renewed(2, 1_000) };
    assert_eq!(sends, step(vec![renew(2, "k", nonce(1), record)], vec![], renewal(5)));
    let done = a.step(now(1_005), won(2, nonce(2), 7));
    let told = vec![Notice::Valid(LEASE, until(1_000)), Notice::Updated(LEASE)];
    assert_eq!(done, step(vec![], told, renewal(1_000)));
}
