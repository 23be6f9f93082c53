//! An attempt that begins again on the next session, and attempts on a store in trouble. Plan: answers to what was asked
//! before the session was lost are not taken for answers to what is asked now, whatever that is; looks that fail are
//! repeated ever less often, and one that succeeds begins anew; what was given up is looked for as long as it may land; what
//! may have landed is nobody else's; who waits long behind a session asks it; a moment's trouble delays nobody for a part of a long ttl.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common::*;
use std::time::Duration;
use tenure_core::op::{Answer, Event, Expect, Hint, Machine, Op, OpId, Outcome, Step};
use tenure_core::{
    Ask, Command, Holder, KeepAlive, LeaseId, Letter, Metadata, MetadataPolicy, Nonce, Notice, Occupant,
    Record, StoreError, Tick, Ttl, WaitPolicy, Want,
};

fn failed(op: u64) -> Event<Command> {
    Event::Answer(OpId(op), Err(StoreError::unavailable("away")))
}

/// A record that was written 20 s ago, by all witnesses.
fn old(op: u64, record: Record, as_refusal: bool) -> Event<Command> {
    let stored = stored(record).aged(Some(TTL * 2));
    let answer =
        if as_refusal { Answer::Write(Outcome::Lost(Some(stored))) } else { Answer::Read(Some(stored)) };
    Event::Answer(OpId(op), Ok(answer))
}

fn by_another() -> Record {
    held("b", Nonce(50), Nonce(50), 8, 0, 0)
}

fn on_another_session() -> Record {
    attached_to(by_another(), "session/b", 3)
}

/// The session begins anew once it was lost with an operation of a lease under way; the lease is being got on the next one. What
/// is asked after that is returned.
fn on_the_next_session(mut a: Holder) -> (Holder, u64) {
    let over = a.step(now(20_000), Event::Wake);
    let op = over.requests.last().unwrap().id.0;
    let up = a.step(now(20_005), won(op, Nonce(1), 5));
    let claim = up.requests.last().unwrap();
    assert!(matches!(&claim.op, Op::Write(write) if write.key == key("k")), "{up:?}");
    (a, claim.id.0)
}

/// A claim, by operation 2, was under way when the session was lost.
fn with_an_old_claim() -> (Holder, u64) {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    on_the_next_session(a)
}

/// A look, by operation 3, was under way when the session was lost.
fn with_an_old_look() -> (Holder, u64) {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    a.step(now(10), lost(2, Some(by_another())));
    assert_eq!(a.step(now(3_000), Event::Wake).requests, vec![read(3, "k")]);
    on_the_next_session(a)
}

fn is_ignored(a: &Holder, events: &[Event<Command>]) {
    // The operation under way is still awaited, so there is nothing else to wake up for.
    let wake_at = a.clone().step(now(20_020), Event::Wake).wake_at;
    for event in events {
        assert_eq!(a.clone().step(now(20_020), event.clone()), step(vec![], vec![], wake_at), "{event:?}");
    }
}

/// Answers to operation 2, which wrote.
fn old_answers_to_a_claim() -> [Event<Command>; 4] {
    [won(2, nonce(2), 7), lost(2, None), unknown(2), failed(2)]
}

/// A session of another process is being fenced by operation `op`.
fn fencing() -> (Holder, u64) {
    let (mut a, op) = with_an_old_claim();
    let asks = a.step(now(20_010), lost(op, Some(on_another_session())));
    assert_eq!(asks.requests, vec![read(op + 1, "session/b")]);
    let session = held("b", Nonce(60), Nonce(61), 3, 0, 0);
    let fences = a.step(now(20_015), old(op + 1, session, false));
    assert!(matches!(&fences.requests[0].op, Op::Write(write) if write.record.tenure.is_none()));
    (a, op + 2)
}

#[test]
fn s1_an_old_claims_answer_is_not_that_of_the_claim_under_way() {
    let (mut a, op) = with_an_old_claim();
    is_ignored(&a, &old_answers_to_a_claim());
    // And what is told of it in the end is of this claim.
    a.step(now(20_020), won(2, nonce(2), 7));
    let told = a.step(now(20_030), won(op, Nonce(4), 9)).notices;
    assert_eq!(told, vec![acquired(LEASE, 9, tenure_core::Tick::NEVER)]);
}

#[test]
fn an_old_claims_answer_says_nothing_of_a_session_that_is_being_fenced() {
    let (a, _) = fencing();
    is_ignored(&a, &old_answers_to_a_claim());
}

#[test]
fn a_session_that_somebody_else_has_fenced_meanwhile_frees_the_key_too() {
    let (a, op) = fencing();
    let fenced = vacant(Nonce(70), 9, 20_000);
    let takes = a.clone().step(now(20_020), lost(op, Some(fenced)));
    assert!(
        matches!(&takes.requests[..], [request] if matches!(&request.op, Op::Write(write) if write.key == key("k"))),
        "{takes:?}"
    );
    // One that beats again does not.
    let alive = held("b", Nonce(60), Nonce(71), 3, 0, 20_000);
    assert_eq!(a.clone().step(now(20_020), lost(op, Some(alive))).requests, vec![]);
    // And trouble with it is trouble: it is looked at again.
    let mut trouble = a;
    let step = trouble.step(now(20_020), failed(op));
    assert!(step.wake_at <= Some(tick(20_020).after(TTL / 64)), "{step:?}");
    assert_eq!(trouble.step(now(20_200), Event::Wake).requests, vec![read(op + 1, "k")]);
}

#[test]
fn an_old_looks_answer_is_not_that_of_the_look_under_way() {
    let (mut a, op) = with_an_old_look();
    a.step(now(20_010), lost(op, Some(held("b", Nonce(50), Nonce(51), 8, 0, 0))));
    let hinted = a.step(now(20_012), Event::Changed(Hint::Any));
    assert_eq!(hinted.requests, vec![read(op + 1, "k")]);
    is_ignored(&a, &[seen(3, None), seen(3, Some(by_another())), failed(3)]);
}

#[test]
fn an_old_looks_answer_says_nothing_of_a_session() {
    let (mut a, op) = with_an_old_look();
    let asks = a.step(now(20_010), lost(op, Some(on_another_session())));
    assert_eq!(asks.requests, vec![read(op + 1, "session/b")]);
    is_ignored(&a, &[seen(3, None), seen(3, Some(vacant(Nonce(70), 9, 0))), failed(3)]);
}

fn waiting(wait_policy: WaitPolicy) -> Holder {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), wait_policy));
    assert_eq!(a.step(now(5), lost(1, Some(by_another()))).notices, vec![]);
    a
}

/// Hinted at, it looks, and that fails: how long until it looks again.
fn pause_after_failure(a: &mut Holder, ms: u64) -> Duration {
    let looks = a.step(now(ms), Event::Changed(Hint::Any));
    let step = a.step(now(ms), failed(looks.requests[0].id.0));
    assert_eq!(step.notices, vec![]);
    step.wake_at.unwrap().since(tick(ms))
}

#[test]
fn looks_that_fail_are_repeated_ever_less_often_and_one_that_succeeds_begins_anew() {
    let mut a = waiting(WaitPolicy::Forever);
    let is_about = |pause: Duration, part: u32| (TTL / part * 3 / 4..=TTL / part).contains(&pause);
    for (ms, part) in [(100, 64), (200, 32), (300, 16), (400, 8), (500, 4), (600, 4)] {
        let pause = pause_after_failure(&mut a, ms);
        assert!(is_about(pause, part), "at {ms}: {pause:?}");
    }
    let looks = a.step(now(700), Event::Changed(Hint::Any));
    a.step(now(705), seen(looks.requests[0].id.0, Some(by_another())));
    let pause = pause_after_failure(&mut a, 800);
    assert!(is_about(pause, 64), "{pause:?}");
}

#[test]
fn patience_that_ends_in_trouble_is_told_so_and_after_it_who_holds_the_key() {
    let end = tick(1_000);
    let mut a = waiting(WaitPolicy::Until(end));
    pause_after_failure(&mut a, 900);
    let told = a.step(now(1_000), Event::Wake).notices;
    assert_eq!(told, vec![Notice::Failed(LEASE, StoreError::unavailable("away"))]);
    let mut a = waiting(WaitPolicy::Until(end));
    pause_after_failure(&mut a, 800);
    let looks = a.step(now(900), Event::Changed(Hint::Any));
    a.step(now(905), seen(looks.requests[0].id.0, Some(by_another())));
    let told = a.step(now(1_000), Event::Wake).notices;
    assert_eq!(told, vec![Notice::Held(LEASE, Occupant::of(&by_another()))]);
}

fn release() -> Event<Command> {
    Event::Command(Command::Release(LEASE, None))
}

#[test]
fn a_claim_that_was_given_up_and_did_not_reach_the_store_is_over() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    a.step(now(1), release());
    assert_eq!(a.step(now(5), failed(1)), step(vec![], vec![Notice::Released(LEASE, false)], None));
}

#[test]
fn s4_a_claim_that_was_given_up_is_looked_for_until_nobody_could_believe_in_it() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Forever));
    a.step(now(1), release());
    let mut told: Step<Notice> = a.step(now(2_500), unknown(1));
    let mut ms = 2_500;
    while told.notices.is_empty() {
        ms = later(&told, ms);
        assert!(ms < 15_000, "it looks for ever");
        let looks = a.step(now(ms), Event::Wake);
        assert_eq!(looks.requests.len(), 1, "at {ms}: {looks:?}");
        told = a.step(now(ms), failed(looks.requests[0].id.0));
    }
    assert_eq!(told.notices, vec![Notice::Released(LEASE, false)]);
    assert!(ms >= 10_000, "it may land, and stand for a ttl: {ms}");
}

/// A claim of `k` on the session may have landed, and a second attempt sees what stands there.
#[test]
fn what_may_have_landed_is_not_taken_from_this_process_and_what_nobody_wants_is() {
    for (standing, is_taken) in [(nonce(2), false), (nonce(99), true)] {
        let mut a = holder();
        a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
        a.step(now(5), won(1, nonce(1), 3));
        a.step(now(2_500), unknown(2));
        let want = Want {
            key: key("k"),
            keep_alive: KeepAlive::Session,
            metadata_policy: MetadataPolicy::Replace(Metadata::new()),
            wait_policy: WaitPolicy::Try,
        };
        let sends = a.step(now(2_501), Event::Command(Command::Acquire(LeaseId(2), want)));
        let standing = attached_to(held("a", standing, standing, 7, 5, 5), "session/a", 3);
        let step = a.step(now(2_505), lost(sends.requests[0].id.0, Some(standing)));
        assert_eq!(!step.requests.is_empty(), is_taken, "{step:?}");
    }
}

/// What is written to `session/b` while `k` is waited for behind it, by when; each look shows a session that beats and has
/// these letters.
fn questions(wait_policy: WaitPolicy, end_ms: u64, mail: &[Letter]) -> Vec<(u64, Vec<Letter>)> {
    let mut a = holder();
    let mut questions = Vec::new();
    let mut step = a.step(now(0), acquire("k", own(), wait_policy));
    let mut ms = 1;
    while ms < end_ms {
        let Some(request) = step.requests.first() else {
            ms = step.wake_at.unwrap().0.div_ceil(1_000_000).max(ms + 1);
            step = a.step(now(ms), Event::Wake);
            continue;
        };
        let op = request.id.0;
        let session = |ms: u64| {
            let mut record = held("b", Nonce(40), Nonce(u128::from(10_000 + op)), 3, 0, ms);
            if let Some(tenure) = &mut record.tenure {
                tenure.mail = mail.to_vec();
            }
            record
        };
        ms += 1;
        step = match &request.op {
            Op::Write(write) if write.key == key("k") => {
                a.step(now(ms), lost(op, Some(on_another_session())))
            }
            Op::Read(read) if *read == key("k") => a.step(now(ms), seen(op, Some(on_another_session()))),
            Op::Read(_) => a.step(now(ms), seen(op, Some(session(ms)))),
            other => panic!("{other:?}"),
        };
        step.requests.retain(|request| match &request.op {
            Op::Write(write) if write.key == key("session/b") => {
                assert!(matches!(write.expect, Expect::Unchanged(_)));
                let tenure = write.record.tenure.as_ref().unwrap();
                questions.push((ms, tenure.mail.clone()));
                false
            }
            _ => true,
        });
    }
    questions
}

#[test]
fn l1_who_waits_behind_a_live_session_asks_it_once_in_two_ttls_whether_it_knows_of_the_claim() {
    let asked = questions(WaitPolicy::Forever, 45_000, &[]);
    let letter = Letter::new(key("k"), Ask::Confirm);
    assert_eq!(
        asked.iter().map(|(_, mail)| mail.clone()).collect::<Vec<_>>(),
        [[letter.clone()], [letter.clone()]]
    );
    let times: Vec<u64> = asked.iter().map(|(ms, _)| *ms).collect();
    assert!((20_000..=23_000).contains(&times[0]) && times[1] - times[0] >= 20_000, "{times:?}");
    // Beside letters about other keys; but not where there is no room, and not twice.
    let other = Letter::new(key("x"), Ask::Revoke);
    let asked = questions(WaitPolicy::Forever, 25_000, std::slice::from_ref(&other));
    assert_eq!(
        asked.iter().map(|(_, mail)| mail.clone()).collect::<Vec<_>>(),
        [[other.clone(), letter.clone()]]
    );
    assert_eq!(questions(WaitPolicy::Forever, 25_000, &vec![other; tenure_core::MAILBOX]), []);
    assert_eq!(questions(WaitPolicy::Forever, 25_000, &[letter]), []);
    assert_eq!(
        questions(WaitPolicy::Watch { every: TTL }, 45_000, &[]),
        [],
        "who only watches writes nothing"
    );
}

#[test]
fn patience_that_ends_as_the_answer_comes_is_over() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Until(tick(500))));
    let told = a.step(now(500), lost(1, Some(by_another()))).notices;
    assert_eq!(told, vec![Notice::Held(LEASE, Occupant::of(&by_another()))]);
}

/// A day's ttl, and a call that is refused once, in a moment.
#[test]
fn l1_a_moments_trouble_delays_nobody_for_a_part_of_a_long_ttl() {
    let long = || KeepAlive::Own(Ttl::new(Duration::from_secs(86_400)).unwrap());
    let soon = |at: Option<Tick>, ms| assert!(at.is_some_and(|at| at <= tick(ms + 5_000)), "{at:?}");
    // Who waits, and who gives up.
    let mut a = holder();
    a.step(now(0), acquire("k", long(), WaitPolicy::Forever));
    for n in 0..9_u64 {
        soon(a.step(now(n * 5_000), failed(n + 1)).wake_at, n * 5_000);
        assert_eq!(a.step(now(n * 5_000 + 5_000), Event::Wake).requests.len(), 1);
    }
    a.step(now(50_000), seen(10, None));
    a.step(now(50_001), won(11, nonce(2), 7));
    a.step(now(60_000), Event::Command(Command::Release(LEASE, None)));
    soon(a.step(now(60_001), failed(12)).wake_at, 60_001);
}
