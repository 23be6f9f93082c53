//! Withdrawn leases that are, or are to become, plain data. Plan: a revocation outlasts that, whether it came before the change, to
//! the record or to the session while that was under way, or when it had landed unknown; what is plain data is not prolonged once
//! it is withdrawn, and other letters reach whoever takes it up.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common::*;
use tenure_core::op::{Event, Machine, Op, OpId, Step};
use tenure_core::{
    Ask, Command, Fence, Holder, KeepAlive, Letter, Loss, Nonce, Notice, Record, StoreError, WaitPolicy,
};

fn command(command: Command) -> Event<Command> {
    Event::Command(command)
}

fn letter(ask: Ask) -> Letter {
    Letter::new(key("k"), ask)
}

/// `record` after somebody has left that letter in it.
fn with_letter(record: Record, ask: Ask) -> Record {
    let mut record = Record { nonce: Nonce(60), ..record };
    record.tenure.as_mut().unwrap().mail.push(letter(ask));
    record
}

/// `a` holds `k` for itself, and its renewal at 3.334 s, by operation 2, has shown it that letter.
fn told_of(ask: Ask) -> Holder {
    let mut a = holding();
    a.step(now(3_334), Event::Wake);
    let told = a.step(now(3_340), lost(2, Some(with_letter(claim(1, 7, 0), ask))));
    assert!(told.notices.contains(&Notice::Asked(LEASE, ask)), "{told:?}");
    a
}

/// `a` holds `k` on its session, and the renewal of that has shown it a revocation. The one after that is operation 4.
fn told_by_session(a: &mut Holder, renewal: u64) {
    let record = held("a", nonce(1), nonce(1), 3, 0, 0);
    let told = a.step(now(3_340), lost(renewal, Some(with_letter(record, Ask::Revoke))));
    assert!(told.notices.contains(&Notice::Asked(LEASE, Ask::Revoke)), "{told:?}");
}

fn detach() -> Event<Command> {
    command(Command::Detach(LEASE, ttl()))
}

fn is_lost(step: &Step<Notice>) -> bool {
    step.notices == vec![Notice::Lost(LEASE, Loss::Revoked)]
}

/// What a step writes for `k`.
fn written(step: &Step<Notice>) -> Option<Record> {
    step.requests.iter().find_map(|request| match &request.op {
        Op::Write(write) if write.key == key("k") => Some(write.record.clone()),
        _ => None,
    })
}

fn vacates(step: &Step<Notice>) -> bool {
    written(step).is_some_and(|record| record.tenure.is_none())
}

#[test]
fn a_lease_that_was_withdrawn_does_not_become_plain_data() {
    let mut a = told_of(Ask::Revoke);
    let step = a.step(now(3_350), detach());
    assert!(is_lost(&step) && vacates(&step), "{step:?}");
    let mut a = told_of(Ask::HandOver);
    let step = a.step(now(3_350), detach());
    assert!(step.notices.is_empty() && !vacates(&step), "{step:?}");
}

#[test]
fn an_attached_lease_that_was_withdrawn_does_not_become_plain_data_and_is_given_up_for_certain() {
    let mut a = holding_on_session();
    a.step(now(3_334), Event::Wake);
    told_by_session(&mut a, 3);
    let step = a.step(now(3_350), detach());
    assert!(is_lost(&step) && vacates(&step), "{step:?}");
    // The session keeps it alive, so one refusal is not the end of it.
    let denied =
        a.step(now(3_355), Event::Answer(op(&step), Err(tenure_core::StoreError::unsupported("no"))));
    a.step(now(3_356), Event::Wake);
    assert!(denied.wake_at.is_some() && denied.notices.is_empty(), "{denied:?}");
    let looks = a.step(now(3_357), Event::Wake);
    let reads = |step: &Step<Notice>| step.requests.iter().any(|request| request.op == Op::Read(key("k")));
    assert!(
        reads(&denied) || reads(&looks) || denied.wake_at.unwrap() <= tick(3_356),
        "{denied:?} {looks:?}"
    );
}

#[test]
fn s10_a_letter_about_another_tenure_is_not_heard() {
    for (fence, is_heard) in [(6, false), (7, true), (8, false)] {
        let mut a = holding_on_session();
        a.step(now(3_334), Event::Wake);
        let mut record = held("a", nonce(1), nonce(1), 3, 0, 0);
        record.nonce = Nonce(60);
        record.tenure.as_mut().unwrap().mail = vec![letter(Ask::Revoke).of(Fence(fence))];
        let step = a.step(now(3_340), lost(3, Some(record)));
        assert_eq!(step.notices.contains(&Notice::Asked(LEASE, Ask::Revoke)), is_heard, "{fence}: {step:?}");
    }
}

/// A claim on the session whose answer is still to come is withdrawn by a letter about that fence.
#[test]
fn s10_a_claim_that_is_not_answered_yet_is_withdrawn_under_its_own_fence_alone() {
    for (fence, is_had) in [(6, true), (7, false)] {
        let mut a = holder();
        a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
        a.step(now(5), won(1, nonce(1), 3));
        a.step(now(3_334), Event::Wake);
        let mut record = held("a", nonce(1), nonce(1), 3, 0, 0);
        record.nonce = Nonce(60);
        record.tenure.as_mut().unwrap().mail = vec![letter(Ask::Revoke).of(Fence(fence))];
        a.step(now(3_340), lost(3, Some(record)));
        let step = a.step(now(3_345), won(2, nonce(2), 7));
        let had = step.notices.iter().any(|notice| matches!(notice, Notice::Acquired { .. }));
        assert_eq!(had, is_had, "{fence}: {step:?}");
    }
}

fn op(step: &Step<Notice>) -> tenure_core::op::OpId {
    step.requests
        .iter()
        .find(|request| matches!(&request.op, Op::Write(write) if write.key == key("k")))
        .unwrap()
        .id
}

#[test]
fn a_revocation_that_comes_while_a_lease_becomes_plain_data_ends_it() {
    // Into the record, before the change.
    let mut a = holding();
    a.step(now(1_000), detach());
    let step = a.step(now(1_005), lost(2, Some(with_letter(claim(1, 7, 0), Ask::Revoke))));
    assert!(is_lost(&step) && vacates(&step), "{step:?}");
    // Into the record, after a change whose answer was lost.
    let mut a = holding();
    a.step(now(1_000), detach());
    let retry = a.step(now(3_400), unknown(2));
    let at = later(&retry, 3_400);
    a.step(now(at), Event::Wake);
    let landed = held("a", nonce(1), nonce(2), 7, 0, 1_000);
    let step = a.step(now(at + 5), lost(3, Some(with_letter(landed, Ask::Revoke))));
    assert!(is_lost(&step) && vacates(&step), "{step:?}");
    // Into the session's record.
    let mut a = holding_on_session();
    a.step(now(3_330), detach());
    a.step(now(3_334), Event::Wake);
    told_by_session(&mut a, 4);
    let step = a.step(now(3_350), won(3, nonce(3), 7));
    assert!(is_lost(&step) && vacates(&step), "{step:?}");
}

#[test]
fn whoever_has_given_it_up_meanwhile_hears_of_both() {
    let mut a = holding();
    a.step(now(1_000), detach());
    a.step(now(1_001), command(Command::Release(LEASE, None)));
    let step = a.step(now(1_005), lost(2, Some(with_letter(claim(1, 7, 0), Ask::Revoke))));
    assert!(is_lost(&step) && vacates(&step), "{step:?}");
    let told = a.step(now(1_010), won(3, nonce(3), 7));
    assert_eq!(told.notices, vec![Notice::Released(LEASE, true)]);
}

#[test]
fn every_end_is_told_once_and_every_release_answered() {
    // A stop tells no more of what is being vacated, and was told as lost.
    let mut a = told_of(Ask::Revoke);
    a.step(now(3_350), detach());
    a.step(now(3_351), command(Command::Stop));
    let done = a.step(now(3_355), won(3, nonce(3), 7));
    assert!(!done.notices.iter().any(|notice| notice.lease() == Some(LEASE)), "{done:?}");
    // What is left to expire is released in vain, and that is said.
    let mut a = holding_on_session();
    a.step(now(1_000), command(Command::Lapse(LEASE)));
    let told = a.step(now(1_001), command(Command::Release(LEASE, None)));
    assert_eq!((told.notices, told.requests), (vec![Notice::Released(LEASE, false)], vec![]));
    // A claim that may have landed, and the store lets nobody look: it is looked for as an orphaned claim.
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    a.step(now(10), command(Command::Release(LEASE, None)));
    let lost = a.step(now(100), unknown(2));
    let at = later(&lost, 100);
    assert_eq!(a.step(now(at), Event::Wake).requests, vec![read(3, "k")]);
    let denied = StoreError::unsupported("no access");
    let told = a.step(now(at + 5), Event::Answer(OpId(3), Err(denied)));
    assert_eq!(told.notices, vec![Notice::Released(LEASE, false)]);
    assert_eq!(a.step(now(at + 6), Event::Wake).requests, vec![read(4, "k")]);
}

fn plain(ask: Ask) -> Record {
    with_letter(held("z", Nonce(40), Nonce(41), 7, 0, 0), ask)
}

#[test]
fn what_is_plain_data_is_not_prolonged_once_it_is_withdrawn() {
    let mut a = holder();
    a.step(now(0), command(Command::Refresh(LEASE, Box::new(token("k")))));
    let step = a.step(now(5), lost(1, Some(plain(Ask::Revoke))));
    assert!(is_lost(&step) && step.requests.is_empty(), "it is left to expire: {step:?}");
    assert_eq!(a.leases(), 0);
    // Whoever takes it up is told, and does not renew it.
    let mut a = holder();
    a.step(now(0), command(Command::Adopt(LEASE, Box::new(token("k")))));
    a.step(now(5), lost(1, Some(plain(Ask::Revoke))));
    let told = a.step(now(10), won(2, nonce(2), 7));
    assert_eq!(told.notices, vec![acquired(LEASE, 7, until(5)), Notice::Asked(LEASE, Ask::Revoke)]);
    assert_eq!(a.step(now(3_400), Event::Wake).requests, vec![], "no renewal");
}

#[test]
fn a_letter_in_the_record_of_plain_data_reaches_whoever_takes_that_up() {
    let mut a = holder();
    a.step(now(0), command(Command::Refresh(LEASE, Box::new(token("k")))));
    let carries = a.step(now(5), lost(1, Some(plain(Ask::HandOver))));
    assert_eq!(written(&carries).unwrap().tenure.unwrap().mail, vec![letter(Ask::HandOver)]);
    let told = a.step(now(10), won(2, nonce(2), 7));
    let [Notice::Detached(_, token)] = &told.notices[..] else { panic!("{told:?}") };
    let mut b = holder();
    let adopts = b.step(now(20), command(Command::Adopt(LEASE, token.clone())));
    let Op::Write(write) = &adopts.requests[0].op else { panic!("{adopts:?}") };
    assert_ne!(write.expect, unchanged(nonce(2)), "it would be written over, unread");
}
