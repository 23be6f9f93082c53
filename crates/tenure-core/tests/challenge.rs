//! What tries ask about claims that have stood for long. Plan: one try of many asks the session, waits for that and says so in the
//! claim's record; the next question is due when as much time has passed again; what is younger, or asked about already, is left
//! alone; without ages the wall clock tells; whoever waits for long goes by what it watches; what only a newer version asks stays; a store
//! that refuses ends a try at once, and a short wait goes on without a spin.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::time::Duration;
use tenure_core::op::{Answer, Event, Hint, Machine, OpId, Outcome, Request, Step};
use tenure_core::{Ask, Command, Holder, Letter, MAILBOX, Notice, Record, StoreError, WaitPolicy, Wall};

/// When the tries are made.
const AT: u64 = 500_000;

/// What `b` claimed at 0 ms, attached to its session; written so at `stamp`.
fn claimed(stamp: u64) -> Record {
    attached_to(held("b", nonce(90), nonce(90), 7, 0, stamp), "session/b", 3)
}

/// `b`'s session, which was renewed a second ago.
fn session() -> Record {
    held("b", nonce(91), nonce(92), 3, 0, AT - 1000)
}

fn asking() -> Letter {
    Letter::new(key("k"), Ask::Confirm)
}

/// A fresh process finds that claim there, written so long ago, and the session behind it.
fn finds_both(
    wait_policy: WaitPolicy,
    claim: Record,
    age: Option<u64>,
    session: Record,
) -> (Holder, Step<Notice>) {
    let mut a = holder();
    a.step(now(AT), acquire("k", own(), wait_policy));
    let age = age.map(Duration::from_millis);
    let stands = stored(claim).aged(age);
    let lost = Answer::Write(Outcome::Lost(Some(stands)));
    let asks = a.step(now(AT), Event::<Command>::Answer(OpId(1), Ok(lost)));
    assert_eq!(asks.requests, vec![read(2, "session/b")]);
    let step = a.step(now(AT), seen(2, Some(session)));
    (a, step)
}

fn finds(wait_policy: WaitPolicy, claim: Record, age: Option<u64>) -> (Holder, Step<Notice>) {
    finds_both(wait_policy, claim, age, session())
}

/// The letter, by operation 3.
fn question() -> Request {
    let mut asked = Record { nonce: nonce(2), ..session() };
    asked.tenure.as_mut().unwrap().mail = vec![asking()];
    write(3, "session/b", unchanged(nonce(92)), asked)
}

fn asks(wait_policy: WaitPolicy, claim: Record, age: Option<u64>) -> bool {
    let (_, step) = finds(wait_policy, claim, age);
    let asks = step.requests == vec![question()];
    assert!(asks || step.requests.is_empty(), "{step:?}");
    asks
}

#[test]
fn l3_a_try_asks_about_a_claim_that_has_stood_for_long_and_says_so_in_its_record() {
    let (mut a, step) = finds(WaitPolicy::Try, claimed(0), Some(20_000));
    assert_eq!((step.requests, step.notices), (vec![question()], vec![]));
    let marks = a.step(now(AT + 5), won(3, nonce(2), 3));
    let marked = Record { nonce: nonce(3), stamp: now(20_000).wall, ..claimed(0) };
    assert_eq!(marks.requests, vec![write(4, "k", unchanged(nonce(90)), marked)]);
    assert_eq!(marks.notices, vec![], "a process that is told may end before that is sent");
    let told = a.step(now(AT + 9), won(4, nonce(3), 7));
    assert!(matches!(told.notices[..], [Notice::Held(LEASE, Some(_))]) && told.requests.is_empty());
}

#[test]
fn c1_a_claim_is_asked_about_when_it_is_old_and_then_ever_more_seldom() {
    let tries = |stamp, age| asks(WaitPolicy::Try, claimed(stamp), Some(age));
    assert!(tries(0, 20_000) && !tries(0, 19_999));
    assert!(tries(70_000, 70_000) && !tries(70_000, 69_999), "asked about at 70 s");
    assert!(tries(10_000_000, 640_000) && !tries(10_000_000, 639_999), "or by a clock that is ahead");
    let asked = |mail| {
        let mut session = session();
        session.tenure.as_mut().unwrap().mail = mail;
        !finds_both(WaitPolicy::Try, claimed(0), Some(20_000), session).1.requests.is_empty()
    };
    let other = |n| Letter::new(key(&format!("k{n}")), Ask::Confirm);
    assert!(asked(vec![other(1)]));
    assert!(!asked(vec![asking()]), "somebody just did");
    assert!(!asked((0..MAILBOX).map(other).collect()), "there is no room");
}

#[test]
fn l3_without_ages_the_wall_clock_tells_what_is_old() {
    let claim = |ago| {
        let record = claimed(AT - ago);
        let tenure =
            record.tenure.map(|tenure| tenure_core::Tenure { since: Wall(WALL + AT - ago), ..tenure });
        Record { tenure, ..record }
    };
    assert!(asks(WaitPolicy::Try, claim(20_000), None) && !asks(WaitPolicy::Try, claim(19_999), None));
}

#[test]
fn who_waits_for_long_goes_by_what_it_watches_and_who_waits_for_short_does_not() {
    let until = |ms| asks(WaitPolicy::Until(tick(AT + ms)), claimed(0), Some(20_000));
    assert!(until(19_999) && !until(20_000));
    assert!(!asks(WaitPolicy::Forever, claimed(0), Some(20_000)));
}

#[test]
fn a_question_replaces_a_mark_that_says_the_session_is_missing() {
    let mut claim = claimed(0);
    claim.tenure.as_mut().unwrap().mail = vec![asking()];
    let (mut a, step) = finds(WaitPolicy::Try, claim, Some(20_000));
    assert_eq!(step.requests, vec![question()]);
    let marks = a.step(now(AT + 5), won(3, nonce(2), 3));
    let marked = Record { nonce: nonce(3), stamp: now(20_000).wall, ..claimed(0) };
    assert_eq!(marks.requests, vec![write(4, "k", unchanged(nonce(90)), marked)]);
}

#[test]
fn what_only_a_newer_version_asks_stays_in_a_record_that_says_a_question_was_asked() {
    let newer = || Letter::new(key("k"), Ask::of_code(99));
    let mut claim = claimed(0);
    claim.tenure.as_mut().unwrap().mail = vec![newer(), asking()];
    let (mut a, step) = finds(WaitPolicy::Try, claim, Some(20_000));
    assert_eq!(step.requests, vec![question()]);
    let marks = a.step(now(AT + 5), won(3, nonce(2), 3));
    let mut marked = Record { nonce: nonce(3), stamp: now(20_000).wall, ..claimed(0) };
    marked.tenure.as_mut().unwrap().mail = vec![newer()];
    assert_eq!(marks.requests, vec![write(4, "k", unchanged(nonce(90)), marked)]);
}

#[test]
fn l1_a_change_that_is_told_while_a_question_is_under_way_is_looked_at_after_it() {
    let (mut a, _) = finds(WaitPolicy::Until(tick(AT + 9000)), claimed(0), Some(20_000));
    let told = a.step(now(AT + 5), Event::Changed(Hint::Key(key("k"))));
    assert!(told.requests.is_empty(), "one thing at a time");
    let step = a.step(now(AT + 5), Event::Answer(OpId(3), Err(StoreError::unsupported("no access"))));
    assert_eq!(step.requests, vec![read(4, "k")]);
}

#[test]
fn c1_a_store_that_refuses_questions_is_not_asked_over_and_over() {
    let refused = |op| Event::Answer(OpId(op), Err(StoreError::unsupported("no access")));
    let (mut a, _) = finds(WaitPolicy::Try, claimed(0), Some(20_000));
    assert!(matches!(a.step(now(AT + 5), refused(3)).notices[..], [Notice::Held(..)]));
    let (mut a, _) = finds(WaitPolicy::Until(tick(AT + 9000)), claimed(0), Some(20_000));
    let step = a.step(now(AT + 5), refused(3));
    assert!(step.requests.is_empty() && step.notices.is_empty());
    let at = later(&step, AT + 5);
    assert!(at >= AT + 5 + 1875, "most of a quarter of a ttl");
    let look = a.step(now(at), Event::Wake);
    assert_eq!(look.requests, vec![read(4, "k")]);
    a.step(now(at), seen(4, Some(claimed(0))));
    let step = a.step(now(at), seen(5, Some(session())));
    assert!(step.requests.is_empty(), "it has asked: {step:?}");
}
