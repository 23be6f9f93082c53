//! Attempts at their edges. Plan: one that only waits ends at once when it is given up, one whose claim is under way or may
//! stand does not; early and spurious wake-ups end nothing; a process's own claims that are under way are not taken for
//! nobody's, and nobody's are.

mod common;

use common::*;
use tenure_core::op::{Event, Expect, Machine};
use tenure_core::{Beat, Carry, Command, LeaseId, Metadata, Nonce, Notice, Patience, Want};

fn release() -> Event<Command> {
    Event::Command(Command::Release(LEASE, None))
}

fn waiting() -> tenure_core::Holder {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), Patience::Forever));
    let other = held("b", Nonce(50), Nonce(50), 8, 0, 0);
    assert_eq!(a.step(now(5), lost(1, Some(other))).notices, vec![]);
    a
}

#[test]
fn an_attempt_that_only_waits_ends_at_once() {
    let mut a = waiting();
    assert_eq!(a.step(now(100), release()), step(vec![], vec![Notice::Released(LEASE, false)], None));
    assert_eq!(a.leases(), 0);
}

#[test]
fn early_wake_ups_end_nothing_and_hints_are_looked_into() {
    let mut a = waiting();
    let early = a.step(now(100), Event::Wake);
    assert!(early.requests.is_empty() && early.notices.is_empty() && early.wake_at.is_some(), "{early:?}");
    let hinted = a.step(now(200), Event::Changed(Some(key("k"))));
    assert_eq!(hinted, step(vec![read(2, "k")], vec![], None));
}

#[test]
fn a_claim_under_way_is_awaited_and_undone() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), Patience::Forever));
    assert_eq!(a.step(now(1), release()), step(vec![], vec![], None), "it may yet be won");
    let undone = a.step(now(5), won(1, nonce(1), 7));
    assert_eq!(undone.requests, vec![write(2, "k", unchanged(nonce(1)), vacant(nonce(2), 7, 5))]);
    assert_eq!(undone.notices, vec![]);
    assert_eq!(a.step(now(10), won(2, nonce(2), 7)).notices, vec![Notice::Released(LEASE, true)]);
}

#[test]
fn s4_a_claim_that_may_stand_is_looked_for_beyond_the_users_patience() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), Patience::Until(tick(2_601))));
    let told = a.step(now(2_600), unknown(1));
    assert_eq!(told.notices, vec![]);
    assert!(told.wake_at > Some(tick(2_601)), "{told:?}");
    let looks = a.step(now(3_000), Event::Wake);
    assert_eq!(looks.requests, vec![read(2, "k")]);
    let found = a.step(now(3_005), seen(2, Some(claim(1, 7, 0))));
    assert_eq!(found.notices, vec![acquired(LEASE, 7, until(0))]);
}

/// The session is up, a claim of `k` that rides on it is under way, and a second attempt shows what stands there.
fn second_attempt(standing: Nonce) -> tenure_core::op::Step<Notice> {
    let mut a = holder();
    a.step(now(0), acquire("k", Beat::Session, Patience::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    let want = Want {
        key: key("k"),
        beat: Beat::Session,
        carry: Carry::Replace(Metadata::new()),
        patience: Patience::Forever,
    };
    let second = a.step(now(6), Event::Command(Command::Acquire(LeaseId(2), want)));
    let rides = riding(claim(3, WALL + 6, 6), "session/a", 3);
    assert_eq!(second.requests, vec![write(3, "k", Expect::Vacant, rides)]);
    a.step(now(10), lost(3, Some(riding(held("a", standing, standing, 7, 5, 5), "session/a", 3))))
}

#[test]
fn a_claim_of_this_process_that_is_under_way_is_not_taken_from_it() {
    assert_eq!(second_attempt(nonce(2)).requests, vec![]);
}

#[test]
fn a_claim_of_this_process_that_nobody_wants_is_taken_at_once() {
    let takes = second_attempt(nonce(99));
    let rides = riding(claim(4, WALL + 10, 10), "session/a", 3);
    assert_eq!(takes.requests, vec![write(4, "k", unchanged(nonce(99)), rides)]);
}
