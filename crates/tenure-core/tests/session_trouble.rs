//! A session that can't be begun, and what users ask of one. Plan: who waits is kept, and the store is asked ever less often;
//! who only tries, and who meets an error that can't pass, is told; where nobody
//! waits that is told of the session itself; patience ends on time; a session is begun once, and not
//! by whoever stops; letters about the session itself; a lease on it that is withdrawn, also while belief is
//! suspended.

use crate::common::*;
use std::time::Duration;
use tenure_core::op::{Event, Expect, Machine, OpId};
use tenure_core::{
    Ask, Command, Holder, KeepAlive, Letter, Loss, Metadata, Nonce, Notice, Now, StoreError, Tick,
    WaitPolicy, Wall,
};

fn unavailable(op: u64) -> Event<Command> {
    Event::Answer(OpId(op), Err(StoreError::unavailable("away")))
}

#[test]
fn who_waits_for_the_session_is_kept_and_the_store_is_asked_ever_less_often() {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    let mut ms = 5;
    for (op, part) in (1..).zip([64, 32, 16, 8, 4, 4, 4]) {
        let failed = a.step(now(ms), unavailable(op));
        assert!(failed.requests.is_empty() && failed.notices.is_empty(), "{failed:?}");
        let pause = failed.wake_at.map(|at| at.since(tick(ms)));
        let longest = TTL / part;
        assert!(pause >= Some(longest * 3 / 4) && pause <= Some(longest), "{pause:?} of {longest:?}");
        ms += longest.as_millis() as u64 + 1;
        let again = a.step(now(ms), Event::Wake);
        assert_eq!(again.requests.len(), 1, "{again:?}");
        ms += 5;
    }
    let up = a.step(now(ms), won(8, nonce(8), 3));
    assert_eq!(up.notices.len(), 1);
    assert_eq!(up.requests.len(), 1, "the lease that waited is tried for: {up:?}");
}

#[test]
fn who_only_tries_is_told_that_the_session_could_not_be_begun() {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Try));
    let told = a.step(now(5), unavailable(1));
    assert_eq!(told, step(vec![], vec![Notice::Failed(LEASE, StoreError::unavailable("away"))], None));
    assert_eq!(a.leases(), 0);
}

#[test]
fn an_error_that_cannot_pass_is_told_to_who_waits() {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    let error = StoreError::foreign("not ours");
    let told = a.step(now(5), Event::Answer(OpId(1), Err(error.clone())));
    assert_eq!(told, step(vec![], vec![Notice::Failed(LEASE, error)], None));
}

#[test]
fn patience_for_a_session_ends_when_it_was_to_end() {
    let mut a = holder();
    let end = tick(1_000);
    let waits = a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Until(end)));
    assert_eq!(waits.wake_at, Some(end));
    assert_eq!(a.step(now(900), unavailable(1)).notices, vec![]);
    let over = a.step(now(1_000), Event::Wake);
    assert!(matches!(over.notices[..], [Notice::Failed(LEASE, _)]), "{over:?}");
    assert_eq!(a.leases(), 0);
}

#[test]
fn a_session_that_is_up_is_not_begun_again() {
    let mut a = holding_on_session();
    assert_eq!(a.step(now(100), Event::Command(Command::Start)), step(vec![], vec![], renewal(0)));
}

#[test]
fn whoever_stops_begins_no_session() {
    let mut a = holding();
    a.step(now(1_000), Event::Command(Command::Stop));
    assert_eq!(a.step(now(1_001), Event::Command(Command::Start)), step(vec![], vec![], None));
}

#[test]
fn what_is_announced_is_written_at_once_or_when_the_session_begins() {
    let fields = Metadata::from([("host".to_owned(), "x".into())]);
    let mut a = holding_on_session();
    let sends = a.step(now(1_000), Event::Command(Command::Announce(fields.clone())));
    let record = held("a", nonce(1), nonce(3), 3, 0, 1_000);
    let record = tenure_core::Record { metadata: fields.clone(), ..record };
    assert_eq!(sends, step(vec![renew(3, "session/a", nonce(1), record)], vec![], renewal(5)));
    let told = a.step(now(1_005), won(3, nonce(3), 3));
    assert_eq!(told.notices, vec![Notice::SessionValid(until(1_000)), Notice::Announced]);
    let mut a = holder();
    a.step(now(0), Event::Command(Command::Announce(fields.clone())));
    let begins = a.step(now(1), Event::Command(Command::Start));
    let record = tenure_core::Record { metadata: fields, ..claim(1, WALL + 1, 1) };
    assert_eq!(begins.requests, vec![write(1, "session/a", Expect::Vacant, record)]);
}

/// The session's renewal at 3.334 s shows a letter.
fn reads(a: &mut Holder, about: &str, ask: Ask) -> tenure_core::op::Step<Notice> {
    a.step(now(3_334), Event::Wake);
    let mut record = held("a", nonce(1), nonce(1), 3, 0, 0);
    record.nonce = Nonce(90);
    if let Some(tenure) = &mut record.tenure {
        tenure.mail = vec![Letter::new(key(about), ask)];
    }
    a.step(now(3_340), lost(3, Some(record)))
}

#[test]
fn what_is_asked_of_the_session_itself_is_told_and_that_it_lives_needs_no_word() {
    for (ask, told, renewals) in [
        (Ask::HandOver, vec![Notice::SessionAsked(Ask::HandOver)], 1),
        (Ask::Revoke, vec![Notice::SessionAsked(Ask::Revoke)], 0),
        (Ask::Confirm, vec![], 1),
        (Ask::of_code(99), vec![], 1),
    ] {
        let mut a = holding_on_session();
        let step = reads(&mut a, "session/a", ask);
        assert_eq!((step.notices, step.requests.len()), (told, renewals), "{ask:?}");
        assert_eq!(a.step(now(3_341), Event::Wake).requests, vec![], "nothing is looked for: {ask:?}");
    }
}

#[test]
fn what_only_a_newer_version_asks_of_a_lease_is_told_to_nobody() {
    let mut a = holding_on_session();
    let told = reads(&mut a, "k", Ask::of_code(99));
    assert_eq!((told.notices, told.requests.len()), (vec![], 1), "the session is renewed once more");
}

#[test]
fn a_lease_on_the_session_that_is_withdrawn_ends_in_time_and_is_vacated_later() {
    let mut a = holding_on_session();
    let told = reads(&mut a, "k", Ask::Revoke);
    assert_eq!(told.notices, vec![Notice::Valid(LEASE, until(0)), Notice::Asked(LEASE, Ask::Revoke)]);
    a.step(now(3_345), won(4, nonce(4), 3));
    // The session has been renewed meanwhile; the lease ends with what was believed when the letter was read.
    assert_eq!(a.step(now(6_700), Event::Wake).notices, vec![]);
    let renewed = a.step(now(6_705), won(5, nonce(5), 3));
    assert_eq!(renewed.wake_at, Some(until(0)));
    let over = a.step(now(8_182), Event::Wake);
    assert_eq!(over.notices, vec![Notice::Lost(LEASE, Loss::Revoked)]);
    // Whoever acted under it may not have ended: one that renews itself would have expired only then.
    let vacated = tick(8_182).after(TTL - Duration::from_nanos(BELIEF));
    assert_eq!((over.requests, over.wake_at), (vec![], Some(vacated)));
    let vacates = a.step(now(10_001), Event::Wake);
    assert_eq!(vacates.requests[0], write(6, "k", unchanged(nonce(2)), vacant(nonce(6), 7, 10_001)));
}

/// A lease whose change is under way has been withdrawn, as of the end of what is believed at 3.34 s.
fn withdrawn_while_it_is_changed() -> Holder {
    let mut a = holding_on_session();
    a.step(now(3_000), Event::Command(Command::Update(LEASE, Metadata::new())));
    a.step(now(3_334), Event::Wake);
    let mut record = held("a", nonce(1), nonce(1), 3, 0, 0);
    record.nonce = Nonce(90);
    if let Some(tenure) = &mut record.tenure {
        tenure.mail = vec![Letter::new(key("k"), Ask::Revoke)];
    }
    let told = a.step(now(3_340), lost(4, Some(record)));
    assert_eq!(told.notices, vec![Notice::Valid(LEASE, until(0)), Notice::Asked(LEASE, Ask::Revoke)]);
    a.step(now(3_345), won(5, nonce(5), 3));
    a
}

#[test]
fn a_lease_that_is_withdrawn_while_it_is_changed_ends_in_time_too() {
    let mut a = withdrawn_while_it_is_changed();
    a.step(now(6_700), Event::Wake);
    let renewed = a.step(now(6_705), won(6, nonce(6), 3));
    assert_eq!(renewed.wake_at, Some(until(0)), "the change is still under way");
    assert_eq!(a.step(now(8_181), Event::Wake).notices, vec![]);
    assert_eq!(a.step(now(8_182), Event::Wake).notices, vec![Notice::Lost(LEASE, Loss::Revoked)]);
}

#[test]
fn a_lease_that_is_withdrawn_and_given_up_while_it_is_changed_is_given_up_after_that() {
    let mut a = withdrawn_while_it_is_changed();
    a.step(now(4_000), Event::Command(Command::Release(LEASE, None)));
    a.step(now(6_700), Event::Wake);
    assert_eq!(a.step(now(6_705), won(6, nonce(6), 3)).wake_at, renewal(6_700));
    assert_eq!(a.step(now(8_182), Event::Wake).notices, vec![], "nobody believes in it any more");
    let changed = a.step(now(8_200), won(3, nonce(3), 7));
    assert_eq!(changed.notices, vec![Notice::Updated(LEASE)]);
    assert_eq!(changed.requests[0], write(7, "k", unchanged(nonce(3)), vacant(nonce(7), 7, 8_200)));
}

/// The same, where the wall clock says that time was hidden before the letter was read.
#[test]
fn a_lease_that_is_withdrawn_while_belief_is_suspended_ends_no_sooner_than_another() {
    let mut a = holding_on_session();
    let gap = |ms: u64| Now { wall: Wall(WALL + ms + 5_000), ..now(ms) };
    let suspended = a.step(gap(3_334), Event::Wake);
    assert_eq!(suspended.notices, vec![Notice::SessionValid(Tick(0))]);
    let mut record = held("a", nonce(1), nonce(1), 3, 0, 0);
    record.nonce = Nonce(90);
    record.tenure.as_mut().unwrap().mail = vec![Letter::new(key("k"), Ask::Revoke)];
    let told = a.step(gap(3_340), lost(3, Some(record)));
    assert_eq!(told.notices, vec![Notice::Valid(LEASE, until(0)), Notice::Asked(LEASE, Ask::Revoke)]);
    assert_eq!(a.step(gap(3_342), Event::Wake).notices, vec![]);
    let renewed = a.step(gap(3_345), won(4, nonce(4), 3));
    assert_eq!(renewed.notices, vec![Notice::SessionValid(until(3_340))]);
    assert_eq!(a.step(gap(6_700), Event::Wake).notices, vec![]);
    a.step(gap(6_705), won(5, nonce(5), 3));
    assert_eq!(a.step(gap(8_181), Event::Wake).notices, vec![]);
    let over = a.step(gap(8_182), Event::Wake);
    assert_eq!(over.notices, vec![Notice::Lost(LEASE, Loss::Revoked)]);
    let vacated = tick(8_182).after(TTL - Duration::from_nanos(BELIEF));
    assert_eq!((over.requests, over.wake_at), (vec![], Some(vacated)));
}

#[test]
fn that_a_session_can_not_be_begun_is_told_where_no_lease_waits_for_it() {
    let mut a = holder();
    a.step(now(0), Event::Command(Command::Start));
    let told = a.step(now(5), unavailable(1));
    assert_eq!(told.notices, vec![Notice::SessionFailed(StoreError::unavailable("away"))]);
}
