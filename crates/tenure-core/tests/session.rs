//! The session and what is attached to it. Plan: begun with the first lease that wants it; one renewal for all; lost with all; the
//! next tenure at once over the process's own old one, by the session's own attempt only; a dead session is fenced before its leases are taken; letters to a
//! session; a question about a claim that nobody has; what is announced, whatever the session is doing.

use crate::common::*;
use tenure_core::op::{Event, Expect, Machine, OpId};
use tenure_core::{
    Ask, Command, Fence, KeepAlive, LeaseId, Letter, Loss, Metadata, MetadataPolicy, Nonce, Notice,
    StoreError, Tick, WaitPolicy, Want,
};

fn session(n: u128, fence: u64, ms: u64) -> tenure_core::Record {
    held("a", nonce(1), nonce(n), fence, 0, ms)
}

#[test]
fn the_first_lease_that_wants_it_begins_it_and_is_attached() {
    let mut a = holder();
    let begins = a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    assert_eq!(begins, step(vec![write(1, "session/a", Expect::Vacant, claim(1, WALL, 0))], vec![], None));
    let up = a.step(now(5), won(1, nonce(1), 3));
    let is_attached = attached_to(claim(2, WALL + 5, 5), "session/a", 3);
    let told = vec![Notice::SessionValid(until(0))];
    assert_eq!(up, step(vec![write(2, "k", Expect::Vacant, is_attached)], told, renewal(0)));
    assert_eq!(a.session_fence(), Some(Fence(3)));
    let held = a.step(now(10), won(2, nonce(2), 7));
    assert_eq!(held, step(vec![], vec![acquired(LEASE, 7, Tick::NEVER)], renewal(0)));
}

#[test]
fn c1_one_renewal_keeps_all_that_is_attached() {
    let mut a = holding_on_session();
    let sends = a.step(now(3_334), Event::Wake);
    assert_eq!(sends.requests, vec![renew(3, "session/a", nonce(1), session(3, 3, 3_334))]);
    let done = a.step(now(3_340), won(3, nonce(3), 3));
    assert_eq!(done, step(vec![], vec![Notice::SessionValid(until(3_334))], renewal(3_334)));
}

#[test]
fn s5_with_the_session_all_that_rode_on_it_is_lost_before_anything_is_written() {
    let mut a = holding_on_session();
    let over = a.step(now(8_182), Event::Wake);
    let told = vec![Notice::SessionValid(Tick(0)), Notice::Lost(LEASE, Loss::Expired)];
    assert_eq!(over, step(vec![], told, None));
    assert_eq!((a.leases(), a.session_fence()), (0, None));
}

#[test]
fn its_own_old_session_is_taken_over_at_once() {
    let mut a = holding_on_session();
    a.step(now(8_182), Event::Wake);
    let begins = a.step(now(8_200), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    assert_eq!(begins.requests, vec![write(3, "session/a", Expect::Vacant, claim(3, WALL + 8_200, 8_200))]);
    let takes = a.step(now(8_205), lost(3, Some(session(1, 3, 0))));
    let record = claim(4, WALL + 8_205, 8_205);
    assert_eq!(takes, step(vec![write(4, "session/a", unchanged(nonce(1)), record)], vec![], None));
}

#[test]
fn s1_an_attempt_to_lock_ones_own_session_does_not_depose_it() {
    let mut a = holding_on_session();
    let want = Want {
        key: key("session/a"),
        keep_alive: own(),
        metadata_policy: MetadataPolicy::Replace(Metadata::new()),
        wait_policy: WaitPolicy::Try,
    };
    a.step(now(20), Event::Command(Command::Acquire(LeaseId(2), want)));
    let told = a.step(now(25), lost(3, Some(session(1, 3, 0))));
    assert_eq!(told.requests, vec![], "the session is up, and others are attached to it");
    assert!(matches!(told.notices[..], [Notice::Held(LeaseId(2), Some(_))]), "{told:?}");
}

/// `k` is looked at again, and shows a claim that is attached to `session/b`; then that is read, and answered by `session`.
fn look_again(
    a: &mut tenure_core::Holder,
    ms: u64,
    op: u64,
    session: Option<tenure_core::Record>,
) -> tenure_core::op::Step<Notice> {
    let is_attached = attached_to(held("b", Nonce(50), Nonce(50), 8, 0, 0), "session/b", 3);
    if op == 1 {
        a.step(now(ms), acquire("k", own(), WaitPolicy::Forever));
        a.step(now(ms + 5), lost(1, Some(is_attached)));
    } else {
        assert_eq!(a.step(now(ms), Event::Wake).requests, vec![read(op, "k")]);
        assert_eq!(
            a.step(now(ms + 5), seen(op, Some(is_attached))).requests,
            vec![read(op + 1, "session/b")]
        );
    }
    a.step(now(ms + 10), seen(op + 1, session))
}

#[test]
fn a_session_that_is_missing_a_second_time_has_a_full_ttl_once_more() {
    let mut a = holder();
    look_again(&mut a, 0, 1, None);
    let back = held("b", Nonce(40), Nonce(41), 3, 0, 5_000);
    look_again(&mut a, 5_000, 3, Some(back));
    let missing = look_again(&mut a, 11_000, 5, None);
    assert_eq!(missing.requests, vec![], "it was there 6 s ago");
    let silent = look_again(&mut a, 21_020, 7, None);
    assert!(!silent.requests.is_empty(), "a full ttl has passed since it was missing");
}

#[test]
fn a_dead_session_is_fenced_before_what_rode_on_it_is_taken() {
    let mut a = holder();
    let attached = attached_to(held("b", Nonce(70), Nonce(70), 7, 0, 0), "session/b", 5);
    let dead = held("b", Nonce(60), Nonce(61), 5, 0, 0);
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    let asks = a.step(now(5), lost(1, Some(attached.clone())));
    assert_eq!(asks, step(vec![read(2, "session/b")], vec![], None));
    assert!(a.step(now(10), seen(2, Some(dead.clone()))).requests.is_empty(), "it may live");
    a.step(now(10_005), Event::Wake);
    a.step(now(10_006), seen(3, Some(attached.clone())));
    let fences = a.step(now(10_010), seen(4, Some(dead.clone())));
    let record = tenure_core::Record { metadata: dead.metadata, ..vacant(nonce(2), WALL + 10_010, 10_010) };
    assert_eq!(fences, step(vec![write(5, "session/b", unchanged(Nonce(61)), record)], vec![], None));
    let takes = a.step(now(10_015), won(5, nonce(2), WALL + 10_010));
    let record = claim(3, WALL + 10_015, 10_015);
    assert_eq!(takes, step(vec![write(6, "k", unchanged(Nonce(70)), record)], vec![], None));
}

#[test]
fn what_is_attached_to_a_fenced_or_vacant_session_is_free() {
    let attached = attached_to(held("b", Nonce(70), Nonce(70), 7, 0, 0), "session/b", 5);
    for session in [held("b", Nonce(60), Nonce(61), 6, 0, 0), vacant(Nonce(62), 5, 0)] {
        let mut a = holder();
        a.step(now(0), acquire("k", own(), WaitPolicy::Try));
        a.step(now(5), lost(1, Some(attached.clone())));
        let takes = a.step(now(10), seen(2, Some(session)));
        let record = claim(2, WALL + 10, 10);
        assert_eq!(takes, step(vec![write(3, "k", unchanged(Nonce(70)), record)], vec![], None));
    }
}

#[test]
fn a_letter_to_the_session_reaches_the_lease_that_it_is_about() {
    let mut a = holding_on_session();
    a.step(now(3_334), Event::Wake);
    let mut record = session(1, 3, 0);
    record.nonce = Nonce(90);
    if let Some(tenure) = &mut record.tenure {
        tenure.mail = vec![Letter::new(key("k"), Ask::HandOver)];
    }
    let told = a.step(now(3_340), lost(3, Some(record)));
    let next = renew(4, "session/a", Nonce(90), session(4, 3, 3_340));
    assert_eq!(told, step(vec![next], vec![Notice::Asked(LEASE, Ask::HandOver)], renewal(3_340)));
}

#[test]
fn asked_about_a_claim_that_it_does_not_have_it_vacates_it() {
    let mut a = holding_on_session();
    a.step(now(3_334), Event::Wake);
    let mut record = session(1, 3, 0);
    record.nonce = Nonce(90);
    if let Some(tenure) = &mut record.tenure {
        tenure.mail = vec![Letter::new(key("orphan"), Ask::Confirm)];
    }
    a.step(now(3_340), lost(3, Some(record)));
    let looks = a.step(now(3_341), Event::Wake);
    assert_eq!(looks.requests, vec![read(5, "orphan")]);
    let orphan = attached_to(held("a", nonce(99), nonce(99), 4, 0, 0), "session/a", 3);
    let vacates = a.step(now(3_345), seen(5, Some(orphan)));
    assert_eq!(vacates.requests, vec![write(6, "orphan", unchanged(nonce(99)), vacant(nonce(5), 4, 3_345))]);
    assert!(vacates.notices.is_empty());
}

fn announce(text: &str) -> (Metadata, Event<Command>) {
    let fields = Metadata::from([("about".to_owned(), text.into())]);
    (fields.clone(), Event::Command(Command::Announce(fields)))
}

#[test]
fn what_is_announced_while_the_session_is_being_begun_is_shown_once_it_is_up_and_nothing_is_dropped() {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    let (fields, command) = announce("x");
    assert_eq!(a.step(now(2), command), step(vec![], vec![], None));
    let up = a.step(now(5), won(1, nonce(1), 3));
    let mut shows = session(2, 3, 5);
    shows.metadata = fields;
    assert_eq!(up.requests[0], renew(2, "session/a", nonce(1), shows));
    assert_eq!((up.requests.len(), up.notices), (2, vec![Notice::SessionValid(until(0))]));
    let told = a.step(now(8), won(2, nonce(2), 3));
    assert_eq!(told.notices, vec![Notice::SessionValid(until(5)), Notice::Announced]);
    let held = a.step(now(10), won(3, nonce(3), 7));
    assert_eq!(held.notices, vec![acquired(LEASE, 7, Tick::NEVER)]);
}

#[test]
fn what_was_announced_before_the_session_or_is_shown_already_is_told_without_another_write() {
    let mut a = holder();
    let (_, command) = announce("x");
    assert_eq!(a.step(now(0), command.clone()), step(vec![], vec![], None));
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    let up = a.step(now(5), won(1, nonce(1), 3));
    assert_eq!(up.notices, vec![Notice::SessionValid(until(0)), Notice::Announced]);
    assert_eq!(up.requests.len(), 1, "the claim of k");
    let again = a.step(now(6), command);
    assert_eq!((again.requests, again.notices), (vec![], vec![Notice::Announced]));
}

#[test]
fn what_is_announced_after_a_stop_is_told_to_nobody_and_all_stays_stopped() {
    let mut a = holder();
    assert_eq!(
        a.step(now(0), Event::Command(Command::Stop)).notices,
        vec![Notice::SessionValid(Tick(0)), Notice::Stopped]
    );
    assert_eq!(a.step(now(1), announce("x").1), step(vec![], vec![], None));
    assert_eq!(a.step(now(2), Event::Wake), step(vec![], vec![], None));
}

#[test]
fn what_cant_be_written_is_refused_and_the_session_goes_on_with_what_it_said_before() {
    let mut a = holding_on_session();
    assert_eq!(a.step(now(100), announce("too much").1).requests.len(), 1);
    let error = StoreError::invalid("too large");
    let refused = a.step(now(105), Event::Answer(OpId(3), Err(error.clone())));
    assert_eq!(refused.notices, vec![Notice::NotAnnounced(error)]);
    assert_eq!(refused.requests, vec![renew(4, "session/a", nonce(1), session(4, 3, 105))]);
    let kept = a.step(now(110), won(4, nonce(4), 3));
    assert_eq!(kept.notices, vec![Notice::SessionValid(until(105))]);
}
