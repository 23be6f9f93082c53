//! Attempts at their edges. Plan: one that only waits ends at once when it is given up, one whose claim is under way or may
//! stand does not; early and spurious wake-ups end nothing; a process's own claims that are under way are not taken for
//! nobody's, and nobody's are; one that only watches looks again soon once the key is free; what changes elsewhere costs the same for
//! any number of waits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::*;
use tenure_core::op::{Event, Expect, Hint, Machine, Op};
use tenure_core::{
    Command, KeepAlive, LeaseId, Metadata, MetadataPolicy, Nonce, Notice, Sighting, Version, WaitPolicy, Want,
};

fn release() -> Event<Command> {
    Event::Command(Command::Release(LEASE, None))
}

fn waiting() -> tenure_core::Holder {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
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
    let hinted = a.step(now(200), Event::Changed(Hint::Key(key("k"))));
    assert_eq!(hinted, step(vec![read(2, "k")], vec![], None));
}

#[test]
fn a_claim_under_way_is_awaited_and_undone() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    assert_eq!(a.step(now(1), release()), step(vec![], vec![], None), "it may yet be won");
    let undone = a.step(now(5), won(1, nonce(1), 7));
    assert_eq!(undone.requests, vec![write(2, "k", unchanged(nonce(1)), vacant(nonce(2), 7, 5))]);
    assert_eq!(undone.notices, vec![]);
    assert_eq!(a.step(now(10), won(2, nonce(2), 7)).notices, vec![Notice::Released(LEASE, true)]);
}

#[test]
fn one_that_is_given_up_while_it_asks_for_a_session_is_told_so_and_not_who_holds_the_key() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Try));
    a.step(now(2_500), unknown(1));
    a.step(now(2_700), Event::Wake);
    let is_attached = attached_to(held("b", Nonce(50), Nonce(50), 8, 0, 0), "session/b", 3);
    assert_eq!(a.step(now(2_705), seen(2, Some(is_attached))).requests, vec![read(3, "session/b")]);
    assert_eq!(a.step(now(2_706), release()).notices, vec![], "its claim may yet land");
    let session = held("b", Nonce(40), Nonce(41), 3, 0, 2_700);
    assert_eq!(a.step(now(2_710), seen(3, Some(session))).notices, vec![Notice::Released(LEASE, false)]);
}

#[test]
fn s4_a_claim_that_may_stand_is_looked_for_beyond_the_users_patience() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Until(tick(2_601))));
    let told = a.step(now(2_600), unknown(1));
    assert_eq!(told.notices, vec![]);
    assert!(told.wake_at > Some(tick(2_601)), "{told:?}");
    let looks = a.step(now(3_000), Event::Wake);
    assert_eq!(looks.requests, vec![read(2, "k")]);
    let found = a.step(now(3_005), seen(2, Some(claim(1, 7, 0))));
    assert_eq!(found.notices, vec![acquired(LEASE, 7, until(0))]);
}

/// The session is up, a claim of `k` that is attached to it is under way, and a second attempt shows what stands there.
fn second_attempt(standing: Nonce) -> tenure_core::op::Step<Notice> {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    let want = Want {
        key: key("k"),
        keep_alive: KeepAlive::Session,
        metadata_policy: MetadataPolicy::Replace(Metadata::new()),
        wait_policy: WaitPolicy::Try,
    };
    let second = a.step(now(6), Event::Command(Command::Acquire(LeaseId(2), want)));
    let is_attached = attached_to(claim(3, WALL + 6, 6), "session/a", 3);
    assert_eq!(second.requests, vec![write(3, "k", Expect::Vacant, is_attached)]);
    a.step(now(10), lost(3, Some(attached_to(held("a", standing, standing, 7, 5, 5), "session/a", 3))))
}

#[test]
fn a_claim_of_this_process_that_is_under_way_is_not_taken_from_it() {
    assert_eq!(second_attempt(nonce(2)).requests, vec![]);
}

#[test]
fn a_claim_of_this_process_that_nobody_wants_is_taken_at_once() {
    let takes = second_attempt(nonce(99));
    let is_attached = attached_to(claim(4, WALL + 10, 10), "session/a", 3);
    assert_eq!(takes.requests, vec![write(4, "k", unchanged(nonce(99)), is_attached)]);
}

#[test]
fn whoever_follows_is_told_who_holds_it_and_what_they_say() {
    let mut a = holder();
    let wait_policy = WaitPolicy::Follow { every: TTL, after: std::time::Duration::ZERO };
    a.step(now(0), acquire("k", own(), wait_policy));
    let fields = Metadata::from([("at".to_owned(), "x".into())]);
    let other = held("b", Nonce(50), Nonce(50), 8, 0, 0);
    let other = tenure_core::Record { metadata: fields, ..other };
    let told = a.step(now(5), lost(1, Some(other.clone())));
    assert_eq!(told.notices, vec![Notice::Seen(LEASE, Sighting::of(&other).map(Box::new))]);
    assert_eq!(Sighting::of(&other).map(|seen| seen.metadata), Some(other.metadata));
}

/// The milliseconds at which an acquisition that only watches looks at a key that stays free from `free_ms`, up to `end_ms`.
fn looks_while_free(a: &mut tenure_core::Holder, op: &mut u64, free_ms: u64, end_ms: u64) -> Vec<u64> {
    let (mut looks, mut step) = (Vec::new(), a.step(now(free_ms), seen(*op, None)));
    loop {
        let at = step.wake_at.unwrap().0.div_ceil(1_000_000);
        if at > end_ms {
            return looks;
        }
        assert!(looks.last().is_none_or(|last| at > *last), "{at} after {looks:?}");
        looks.push(at);
        *op += 1;
        assert_eq!(a.step(now(at), Event::Wake).requests, vec![read(*op, "k")], "it never claims");
        step = a.step(now(at), seen(*op, None));
    }
}

#[test]
fn whoever_only_watches_looks_again_soon_after_the_key_became_free() {
    let every = std::time::Duration::from_secs(2);
    let (mut a, mut op) = (holder(), 1);
    a.step(now(0), acquire("k", own(), WaitPolicy::Watch { every }));
    let looks = looks_while_free(&mut a, &mut op, 5, 12_000);
    assert!(looks[0] <= 5 + 35, "a leader that comes at once is seen: {looks:?}");
    for pair in looks.windows(2) {
        let (pause, free_for) = (pair[1] - pair[0], (pair[0] - 5).max(31));
        assert!(pause <= free_for + 1 && pause <= 2_000, "{pair:?} of {looks:?}");
    }
    assert!(looks.len() <= 18, "less and less often: {looks:?}");
    // Someone leads and goes: it starts over.
    op += 1;
    a.step(now(12_100), Event::Changed(Hint::Any));
    a.step(now(12_100), seen(op, Some(held("b", Nonce(50), Nonce(50), 8, 12_000, 12_000))));
    op += 1;
    a.step(now(13_000), Event::Changed(Hint::Any));
    assert!(looks_while_free(&mut a, &mut op, 13_000, 14_000)[0] <= 13_035);
}

/// The session that a claim is attached to may have been renewed for the last time well before it is looked at next.
#[test]
fn l1_silence_is_counted_from_when_the_store_told_of_the_sessions_renewal() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    let is_attached = || Some(attached_to(held("b", Nonce(50), Nonce(50), 8, 0, 0), "session/b", 3));
    let session = |heartbeat, ms| Some(held("b", Nonce(40), Nonce(heartbeat), 3, 0, ms));
    a.step(now(5), lost(1, is_attached()));
    a.step(now(10), seen(2, session(41, 0)));
    let renewed = Hint::Written(key("session/b"), Version(42));
    assert_eq!(a.step(now(500), Event::Changed(renewed)).requests, vec![], "nobody waits for that key");
    let mut op = 2;
    let mut looks_at = |ms| {
        op += 2;
        a.step(now(ms), Event::Wake);
        assert_eq!(a.step(now(ms), seen(op - 1, is_attached())).requests, vec![read(op, "session/b")]);
        a.step(now(ms), seen(op, session(42, 500))).requests
    };
    assert_eq!(looks_at(4_000), vec![]);
    assert_eq!(looks_at(10_499), vec![]);
    let fences = looks_at(10_500);
    assert!(
        matches!(&fences[..], [fences] if matches!(&fences.op, Op::Write(write) if write.key == key("session/b")))
    );
}

/// What it takes a process that waits for so many keys to hear of 1,000 changes of others, and of one of its own.
fn hints_take(keys: u64) -> std::time::Duration {
    let mut a = holder();
    for lease in 0..keys {
        let Event::Command(Command::Acquire(_, want)) =
            acquire(&format!("k/{lease}"), own(), WaitPolicy::Forever)
        else {
            panic!("it is an acquisition")
        };
        a.step(now(0), Event::Command(Command::Acquire(LeaseId(lease), want)));
        let other = held("b", Nonce(50), Nonce(50), 8, 0, 0);
        a.step(now(1), lost(lease + 1, Some(other)));
    }
    let before = core_time();
    for n in 0..1_000 {
        let told = a.step(now(2), Event::Changed(Hint::Written(key(&format!("other/{n}")), Version(9))));
        assert_eq!(told.requests, vec![]);
    }
    let told = a.step(now(2), Event::Changed(Hint::Written(key("k/7"), Version(9))));
    assert_eq!(told.requests.len(), 1, "it looks");
    core_time() - before
}

#[test]
fn a_change_of_another_key_costs_no_more_for_all_that_is_waited_for() {
    let (few, many) = (hints_take(10), hints_take(20_000));
    assert!(many < few.max(std::time::Duration::from_millis(1)) * 20, "{few:?} {many:?}");
}

/// As a database whose standby is gone: it reads, and never says what became of a write. The claim of each look must not begin the
/// time for finding out anew.
#[test]
fn a_try_ends_where_looks_are_answered_and_claims_are_not() {
    let mut a = holder();
    let mut next = a.step(now(0), acquire("k", own(), WaitPolicy::Try));
    let mut at = 0;
    while next.notices.is_empty() {
        assert!(at < 20_000, "it goes on for longer than two ttls");
        next = match next.requests.first().map(|request| (request.id, &request.op)) {
            Some((id, Op::Read(..))) => a.step(now(at), seen(id.0, None)),
            Some((id, _)) => {
                at += 2_500;
                a.step(now(at), unknown(id.0))
            }
            None => {
                at = next.wake_at.unwrap().0.div_ceil(1_000_000);
                a.step(now(at), Event::Wake)
            }
        };
    }
    assert!(matches!(next.notices[..], [Notice::Failed(LEASE, _)]), "{next:?}");
    assert!(at >= 10_000, "until then a claim may turn out to have been won");
}
