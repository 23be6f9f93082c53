//! Taking a lease away by force. Plan: the letter comes first, to whom the holder renews, and the vacating a full ttl later, by
//! the clock that a waiter counts; it ends sooner only when the key is given up, its session is over, or that is asked for;
//! whoever goes on after another has died half-way waits anew and writes no second letter; what changed meanwhile is looked at again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common::*;
use tenure_core::op::{Answer, Event, Machine, Op, OpId, Outcome, Step, Write};
use tenure_core::{Ask, Fence, Letter, Record, Rules, Seized, Seizure, StoreError, Version};

fn seizure(at_once: bool) -> Seizure {
    Seizure::new(key("k"), at_once, Rules::default(), 0xb)
}

fn answer(answer: Answer, step: &Step<Seized>) -> Event<()> {
    Event::Answer(step.requests[0].id, Ok(answer))
}

/// What a read shows.
fn shows(step: &Step<Seized>, record: Option<Record>) -> Event<()> {
    assert!(matches!(step.requests[0].op, Op::Read(_)), "{step:?}");
    answer(Answer::Read(record.map(stored)), step)
}

fn wins(step: &Step<Seized>, fence: u64) -> Event<()> {
    let nonce = write_of(step).record.nonce;
    answer(Answer::Write(Outcome::Won { version: Version(nonce.0), fence: Fence(fence) }), step)
}

fn write_of(step: &Step<Seized>) -> &Write {
    match &step.requests[0].op {
        Op::Write(write) => write,
        op => panic!("{op:?}"),
    }
}

fn reads(step: &Step<Seized>, name: &str) -> bool {
    step.requests.len() == 1 && step.requests[0].op == Op::Read(key(name))
}

fn vacates(step: &Step<Seized>) -> bool {
    let write = write_of(step);
    write.key == key("k") && write.record.tenure.is_none() && write.record.fence == Fence(7)
}

fn letter() -> Vec<Letter> {
    vec![Letter::new(key("k"), Ask::Revoke).of(Fence(7))]
}

fn attached() -> Record {
    attached_to(held("b", nonce(90), nonce(90), 7, 0, 0), "session/b", 3)
}

/// Its session, by the heartbeat of that number.
fn session(heartbeat: u128) -> Record {
    held("b", nonce(91), nonce(heartbeat), 3, 0, 0)
}

fn with_letter(record: Record) -> Record {
    let tenure = record.tenure.map(|tenure| tenure_core::Tenure { mail: letter(), ..tenure });
    Record { tenure, ..record }
}

/// It has looked at the key and the session behind it, at 0 ms.
fn asked(behind: Option<Record>) -> (Seizure, Step<Seized>) {
    let mut seizure = seizure(false);
    let looks = seizure.step(now(0), Event::Wake);
    assert!(reads(&looks, "k"));
    let asks = seizure.step(now(0), shows(&looks, Some(attached())));
    assert!(reads(&asks, "session/b"));
    let step = seizure.step(now(0), shows(&asks, behind));
    (seizure, step)
}

/// Looks at the key whenever it wants to, up to the first step that does something else, and says when that is.
fn until_other(
    mut ms: u64,
    seizure: &mut Seizure,
    mut step: Step<Seized>,
    record: &Record,
) -> (u64, Step<Seized>) {
    loop {
        if step.requests.is_empty() && step.notices.is_empty()
            || matches!(step.notices[..], [Seized::Told { .. }])
        {
            ms = step.wake_at.unwrap().0.div_ceil(1_000_000).max(ms);
            step = seizure.step(now(ms), Event::Wake);
        }
        if !reads(&step, "k") {
            return (ms, step);
        }
        step = seizure.step(now(ms), shows(&step, Some(record.clone())));
    }
}

#[test]
fn s10_an_attached_leases_session_is_told_first_and_the_key_vacated_a_full_ttl_later() {
    let (mut seizure, tells) = asked(Some(session(92)));
    let write = write_of(&tells);
    assert_eq!((&write.key, write.expect), (&key("session/b"), unchanged(nonce(92))));
    let tenure = write.record.tenure.clone().unwrap();
    assert_eq!((tenure.mail, tenure.heartbeat), (letter(), nonce(92)), "nothing is prolonged by it");
    assert!(matches!(tells.notices[..], [Seized::Told { within, .. }] if within == TTL));
    let looks = seizure.step(now(1_000), wins(&tells, 3));
    let (ms, vacating) = until_other(1_000, &mut seizure, looks, &attached());
    assert!(vacates(&vacating) && (11_000..11_100).contains(&ms), "at {ms}");
    assert_eq!(write_of(&vacating).expect, unchanged(nonce(90)));
    let done = seizure.step(now(ms + 5), wins(&vacating, 7));
    assert_eq!(done.notices, vec![Seized::Free { fence: Fence(7), vacated: true }]);
}

#[test]
fn s10_time_that_a_waiter_does_not_count_does_not_count() {
    let (mut seizure, tells) = asked(Some(session(92)));
    let looks = seizure.step(now(0), wins(&tells, 3));
    seizure.step(now(0), shows(&looks, Some(attached())));
    let suspended = tenure_core::Now { waited: tick(9_000), ..now(30_000) };
    let looks = seizure.step(suspended, Event::Wake);
    let waits = seizure.step(suspended, shows(&looks, Some(attached())));
    assert!(waits.requests.is_empty() && waits.wake_at.is_some(), "{waits:?}");
}

#[test]
fn s10_whoever_goes_on_for_another_waits_anew_and_writes_no_second_letter() {
    let (mut seizure, waits) = asked(Some(with_letter(session(92))));
    assert_eq!(waits.requests, vec![]);
    let (ms, vacating) = until_other(0, &mut seizure, waits, &attached());
    assert!(vacates(&vacating) && (10_000..10_100).contains(&ms), "at {ms}");
}

#[test]
fn what_is_given_up_or_had_by_another_or_by_nobody_is_left_alone() {
    let next = held("c", nonce(95), nonce(95), 8, 0, 0);
    for after in [None, Some(vacant(nonce(99), 7, 0)), Some(next)] {
        let (mut seizure, tells) = asked(Some(session(92)));
        let looks = seizure.step(now(0), wins(&tells, 3));
        let done = seizure.step(now(10), shows(&looks, after));
        assert_eq!(done.notices, vec![Seized::Free { fence: Fence(7), vacated: false }]);
        assert!(done.requests.is_empty() && done.wake_at.is_none());
    }
    for nobody in [None, Some(vacant(nonce(99), 7, 0))] {
        let mut seizure = seizure(false);
        let looks = seizure.step(now(0), Event::Wake);
        assert_eq!(seizure.step(now(5), shows(&looks, nobody)).notices, vec![Seized::NotHeld]);
    }
}

#[test]
fn what_is_attached_to_a_session_that_is_over_is_vacated_at_once_and_on_a_missing_one_after_a_ttl() {
    for over in [vacant(nonce(99), 3, 0), held("b", nonce(97), nonce(97), 4, 0, 0)] {
        assert!(vacates(&asked(Some(over)).1));
    }
    let (mut seizure, waits) = asked(None);
    assert_eq!(waits.requests, vec![]);
    let again = seizure.step(now(10_000), Event::Wake);
    let asks = seizure.step(now(10_000), shows(&again, Some(attached())));
    assert!(vacates(&seizure.step(now(10_000), shows(&asks, None))));
}

#[test]
fn what_renews_itself_has_the_letter_in_its_own_record_and_must_fall_silent() {
    let own = held("b", nonce(90), nonce(90), 7, 0, 0);
    let mut seizure = seizure(false);
    let looks = seizure.step(now(0), Event::Wake);
    let tells = seizure.step(now(0), shows(&looks, Some(own.clone())));
    assert_eq!((&write_of(&tells).key, write_of(&tells).expect), (&key("k"), unchanged(nonce(90))));
    assert_eq!(write_of(&tells).record.tenure.clone().unwrap().mail, letter());
    let looks = seizure.step(now(10), wins(&tells, 7));
    let (ms, vacating) = until_other(10, &mut seizure, looks, &with_letter(own));
    assert!(vacates(&vacating) && (10_000..10_100).contains(&ms), "at {ms}");
}

#[test]
fn who_does_not_wait_vacates_at_once_and_looks_again_at_what_changed() {
    let mut seizure = seizure(true);
    let looks = seizure.step(now(0), Event::Wake);
    let vacating = seizure.step(now(0), shows(&looks, Some(attached())));
    assert!(vacates(&vacating) && write_of(&vacating).expect == unchanged(nonce(90)));
    let changed = Record { nonce: nonce(93), ..attached() };
    let again = seizure.step(now(5), answer(Answer::Write(Outcome::Lost(Some(stored(changed)))), &vacating));
    assert!(vacates(&again) && write_of(&again).expect == unchanged(nonce(93)));
}

#[test]
fn a_letter_whose_fate_is_unknown_is_looked_for_and_a_refusal_for_good_is_told() {
    let (mut seizure, tells) = asked(Some(session(92)));
    let cut = Event::Answer(tells.requests[0].id, Err(StoreError::unknown("cut")));
    let pause = seizure.step(now(100), cut);
    assert!(pause.requests.is_empty() && pause.notices.is_empty());
    let looks = seizure.step(now(2_000), Event::Wake);
    let asks = seizure.step(now(2_000), shows(&looks, Some(attached())));
    assert!(reads(&asks, "session/b"), "whether the letter is there");
    let denied = Event::Answer(OpId(asks.requests[0].id.0), Err(StoreError::unsupported("no access")));
    assert!(matches!(seizure.step(now(2_005), denied).notices[..], [Seized::Failed(_)]));
}

#[test]
fn s10_the_tenure_that_is_meant_ends_and_no_other() {
    let of = |fence: u64, record: Record| {
        let mut seizure = seizure(false).of_tenure(Fence(fence));
        let looks = seizure.step(now(0), Event::Wake);
        let step = seizure.step(now(0), shows(&looks, Some(record)));
        (seizure, step)
    };
    for fence in [6, 8] {
        let (_, step) = of(fence, attached());
        assert_eq!((step.notices, step.requests.len()), (vec![Seized::NotHeld], 0));
    }
    // Another has it by the time that the letter is there.
    let (mut seizure, asks) = of(7, attached());
    let tells = seizure.step(now(0), shows(&asks, Some(session(92))));
    assert_eq!(write_of(&tells).record.tenure.clone().unwrap().mail, letter());
    let looks = seizure.step(now(5), wins(&tells, 3));
    let next = Record { fence: Fence(8), ..attached() };
    let step = seizure.step(now(5), shows(&looks, Some(next)));
    assert_eq!(step.notices, [Seized::Free { fence: Fence(7), vacated: false }]);
    // A letter about an earlier tenure tells the holder of this one nothing.
    let (mut seizure, asks) = of(7, attached());
    let mut earlier = session(92);
    earlier.tenure.as_mut().unwrap().mail = vec![Letter::new(key("k"), Ask::Revoke).of(Fence(6))];
    let tells = seizure.step(now(0), shows(&asks, Some(earlier)));
    assert_eq!(write_of(&tells).record.tenure.clone().unwrap().mail.last(), letter().last());
}

#[test]
fn what_the_dead_held_is_given_back_at_once_and_nothing_of_anybody_elses() {
    let of_dead = |record: Option<Record>| {
        let holder = tenure_core::HolderId::new("b").unwrap();
        let mut seizure = Seizure::of_dead(key("k"), holder, Rules::default(), 0xb);
        let looks = seizure.step(now(0), Event::Wake);
        assert!(reads(&looks, "k"));
        let step = seizure.step(now(0), shows(&looks, record));
        (seizure, step)
    };
    // A successor's, and a vacant record.
    let others = held("c", nonce(92), nonce(92), 7, 0, 0);
    let vacant = Record { tenure: None, ..others.clone() };
    for record in [Some(others.clone()), Some(vacant), None] {
        let (_, step) = of_dead(record);
        assert_eq!((step.notices, step.requests.len()), (vec![Seized::NotHeld], 0));
    }
    // Its own, attached to its session or not: no letter, no wait.
    for record in [attached(), held("b", nonce(90), nonce(90), 7, 0, 0)] {
        let (mut seizure, step) = of_dead(Some(record));
        assert!(vacates(&step), "{step:?}");
        let over = seizure.step(now(1), wins(&step, 7));
        assert_eq!(over.notices, [Seized::Free { fence: Fence(7), vacated: true }]);
    }
    // Another has it by the time of the write.
    let (mut seizure, step) = of_dead(Some(attached()));
    let lost = Answer::Write(Outcome::Lost(Some(stored(others))));
    let over = seizure.step(now(1), answer(lost, &step));
    assert_eq!(over.notices, [Seized::Free { fence: Fence(7), vacated: false }]);
    assert!(over.requests.is_empty());
}
