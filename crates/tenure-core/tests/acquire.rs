//! Getting a key. Plan: one write when nobody is in the way, also right after a release; held by another; waiting; a claim
//! whose answer was lost; taking over from the silent, from processes that only try too; an answer that comes too late.

use crate::common::*;
use tenure_core::op::{Event, Expect, Hint, Machine};
use tenure_core::{Nonce, Notice, Occupant, StoreError, Tick, WaitPolicy};

const OTHER: Nonce = Nonce(77);

fn by_another(heartbeat: u128) -> tenure_core::Record {
    held("b", OTHER, Nonce(heartbeat), 7, 0, 0)
}

#[test]
fn uncontended_it_is_one_write_and_belief_counts_from_before_it() {
    let mut a = holder();
    let first = a.step(now(0), acquire("k", own(), WaitPolicy::Try));
    assert_eq!(first, step(vec![write(1, "k", Expect::Vacant, claim(1, WALL, 0))], vec![], None));
    let second = a.step(now(400), won(1, nonce(1), WALL));
    assert_eq!(second, step(vec![], vec![acquired(LEASE, WALL, until(0))], renewal(0)));
}

#[test]
fn right_after_a_release_it_is_one_write_too_and_the_store_raises_the_fence() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Try));
    let won = a.step(now(5), won(1, nonce(1), WALL + 900));
    assert_eq!(won, step(vec![], vec![acquired(LEASE, WALL + 900, until(0))], renewal(0)));
}

#[test]
fn who_only_tries_is_told_who_holds_it() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Try));
    let occupant = Occupant::of(&by_another(77));
    assert_eq!(
        a.step(now(5), lost(1, Some(by_another(77)))),
        step(vec![], vec![Notice::Held(LEASE, occupant)], None)
    );
}

#[test]
fn who_only_tries_takes_over_from_the_dead_in_the_end() {
    let mut a = holder();
    for (op, ms) in [(1, 0), (2, 4_000), (3, 9_990)] {
        a.step(now(ms), acquire("k", own(), WaitPolicy::Try));
        let told = a.step(now(ms + 5), lost(op, Some(by_another(77))));
        assert!(matches!(told.notices[..], [Notice::Held(..)]), "{told:?}");
    }
    a.step(now(10_000), acquire("k", own(), WaitPolicy::Try));
    let takes = a.step(now(10_005), lost(4, Some(by_another(77))));
    let fence = WALL + 10_005;
    assert_eq!(takes, step(vec![write(5, "k", unchanged(OTHER), claim(5, fence, 10_005))], vec![], None));
}

#[test]
fn a_waiter_counts_a_full_ttl_from_the_first_sight_of_the_last_heartbeat() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    let waits = a.step(now(5), lost(1, Some(by_another(77))));
    assert!(waits.requests.is_empty() && waits.notices.is_empty());
    let poll = waits.wake_at.unwrap();
    assert!(
        poll >= tick(5).after(TTL * 3 / 16) && poll <= tick(5).after(TTL / 4),
        "a jittered quarter of the ttl"
    );
    // The holder beats at the second look, so patience starts anew.
    assert_eq!(a.step(now(3_000), Event::Wake).requests, vec![read(2, "k")]);
    a.step(now(3_005), seen(2, Some(by_another(78))));
    for (op, ms) in [(3, 8_000), (4, 13_000)] {
        assert_eq!(a.step(now(ms), Event::Wake).requests, vec![read(op, "k")]);
        assert!(a.step(now(ms + 4), seen(op, Some(by_another(78)))).requests.is_empty());
    }
    assert_eq!(a.step(now(13_006), Event::Wake).requests, vec![read(5, "k")]);
    let takes = a.step(now(13_010), seen(5, Some(by_another(78))));
    let record = claim(2, WALL + 13_010, 13_010);
    assert_eq!(takes, step(vec![write(6, "k", unchanged(Nonce(78)), record)], vec![], None));
}

#[test]
fn a_hint_while_the_key_is_being_read_is_not_lost() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    a.step(now(5), lost(1, Some(by_another(77))));
    a.step(now(3_000), Event::Wake);
    for hint in [Hint::Key(key("k")), Hint::Any] {
        assert!(a.step(now(3_001), Event::Changed(hint)).requests.is_empty());
    }
    assert_eq!(a.step(now(3_005), seen(2, Some(by_another(77)))).requests, vec![read(3, "k")]);
}

#[test]
fn a_claim_whose_answer_was_lost_is_looked_for_and_counts_from_when_it_was_sent() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Try));
    let told = a.step(now(2_500), unknown(1));
    assert!(told.requests.is_empty() && told.notices.is_empty(), "neither won nor lost: {told:?}");
    assert!(told.wake_at.is_some_and(|at| at <= tick(2_500).after(TTL / 64)));
    assert_eq!(a.step(now(2_700), Event::Wake).requests, vec![read(2, "k")]);
    let landed = a.step(now(2_705), seen(2, Some(claim(1, 9, 0))));
    assert_eq!(landed, step(vec![], vec![acquired(LEASE, 9, until(0))], renewal(0)));
}

#[test]
fn a_claim_that_did_not_land_is_sent_anew() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Try));
    a.step(now(2_500), unknown(1));
    a.step(now(2_700), Event::Wake);
    let again = a.step(now(2_705), seen(2, None));
    assert_eq!(again.requests, vec![write(3, "k", Expect::Vacant, claim(2, WALL + 2_705, 2_705))]);
    // Now the first one lands after all, and is found.
    let landed = a.step(now(2_710), lost(3, Some(claim(1, 9, 0))));
    assert_eq!(landed, step(vec![], vec![acquired(LEASE, 9, until(0))], renewal(0)));
}

#[test]
fn an_answer_that_outlasts_the_lease_is_not_believed_but_claimed_over() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    let late = a.step(now(9_000), won(1, nonce(1), 7));
    let record = claim(2, WALL + 9_000, 9_000);
    assert_eq!(late, step(vec![write(2, "k", unchanged(nonce(1)), record)], vec![], None));
}

#[test]
fn patience_ends_when_it_was_to_end() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Until(tick(1_000))));
    assert_eq!(a.step(now(5), lost(1, Some(by_another(77)))).wake_at, Some(tick(1_000)));
    let over = a.step(now(1_000), Event::Wake);
    assert_eq!(over, step(vec![], vec![Notice::Held(LEASE, Occupant::of(&by_another(77)))], None));
}

#[test]
fn an_error_that_cannot_pass_is_told_at_once() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    let error = StoreError::foreign("not ours");
    let told = a.step(now(5), Event::Answer(tenure_core::op::OpId(1), Err(error.clone())));
    assert_eq!(told, step(vec![], vec![Notice::Failed(LEASE, error)], None));
}

#[test]
fn early_late_and_repeated_events_are_harmless() {
    let mut a = holding();
    let before = a.clone();
    for event in [
        Event::Wake,
        Event::Changed(Hint::Any),
        Event::Changed(Hint::Key(key("x"))),
        won(1, nonce(1), 7),
        unknown(99),
    ] {
        assert_eq!(a.step(now(10), event), step(vec![], vec![], renewal(0)));
    }
    assert_eq!(a, before);
    assert_eq!(until(0), Tick(BELIEF));
}
