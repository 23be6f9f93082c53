//! Bids that follow a key. Plan: whoever stands aside looks before it claims, and leaves a free key alone for so long, counted from
//! when it was first seen free; everybody looks as often as asked, or at each quarter of the ttl; what is told is told once.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use crate::common::*;
use std::time::Duration;
use tenure_core::op::{Event, Expect, Hint, Machine};
use tenure_core::{Metadata, Nonce, Notice, Record, Sighting, WaitPolicy};

fn follow(every_ms: u64, after_ms: u64) -> WaitPolicy {
    WaitPolicy::Follow { every: Duration::from_millis(every_ms), after: Duration::from_millis(after_ms) }
}

fn by_another(heartbeat: u128) -> Record {
    held("b", Nonce(50), Nonce(heartbeat), 8, 0, 0)
}

#[test]
fn whoever_stands_aside_looks_first_and_others_claim() {
    let begins = |wait_policy| holder().step(now(0), acquire("k", own(), wait_policy)).requests;
    assert_eq!(begins(follow(10_000, 1)), vec![read(1, "k")]);
    assert_eq!(begins(follow(10_000, 0)), vec![write(1, "k", Expect::Vacant, claim(1, WALL, 0))]);
}

#[test]
fn a_free_key_is_left_alone_for_as_long_as_was_asked() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), follow(10_000, 700)));
    let waits = a.step(now(5), seen(1, None));
    assert_eq!(waits, step(vec![], vec![Notice::Seen(LEASE, None)], Some(tick(705))));
    // A hint has it look, and does not prolong that.
    assert_eq!(a.step(now(300), Event::Changed(Hint::Any)).requests, vec![read(2, "k")]);
    assert_eq!(a.step(now(305), seen(2, None)), step(vec![], vec![], Some(tick(705))), "told once");
    assert_eq!(a.step(now(705), Event::Wake).requests, vec![read(3, "k")]);
    let claims = a.step(now(710), seen(3, None));
    assert_eq!(claims.requests, vec![write(4, "k", Expect::Vacant, claim(1, WALL + 710, 710))]);
}

#[test]
fn who_comes_and_goes_is_told_and_the_time_to_stand_aside_begins_anew() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), follow(10_000, 700)));
    a.step(now(5), seen(1, None));
    a.step(now(300), Event::Changed(Hint::Any));
    let told = a.step(now(305), seen(2, Some(by_another(50)))).notices;
    assert_eq!(told, vec![Notice::Seen(LEASE, Sighting::of(&by_another(50)).map(Box::new))]);
    a.step(now(600), Event::Changed(Hint::Any));
    assert_eq!(
        a.step(now(605), seen(3, Some(by_another(51)))).notices,
        vec![],
        "it is renewed, and is the same"
    );
    a.step(now(900), Event::Changed(Hint::Any));
    let free = a.step(now(905), seen(4, None));
    assert_eq!(free, step(vec![], vec![Notice::Seen(LEASE, None)], Some(tick(1_605))));
}

#[test]
fn everybody_looks_as_often_as_asked_or_at_each_quarter_of_the_ttl() {
    let pause = |wait_policy| {
        let mut a = holder();
        let op = a.step(now(0), acquire("k", own(), wait_policy)).requests[0].id.0;
        let event = if matches!(wait_policy, WaitPolicy::Watch { .. }) {
            seen(op, Some(by_another(50)))
        } else {
            lost(op, Some(by_another(50)))
        };
        a.step(now(0), event).wake_at.unwrap().since(tick(0))
    };
    let is_about = |pause: Duration, longest: Duration| (longest * 3 / 4..=longest).contains(&pause);
    let often = Duration::from_millis(400);
    assert!(is_about(pause(follow(400, 0)), often));
    assert!(is_about(pause(WaitPolicy::Watch { every: often }), often));
    for wait_policy in [follow(60_000, 0), WaitPolicy::Watch { every: TTL * 6 }, WaitPolicy::Forever] {
        assert!(is_about(pause(wait_policy), TTL / 4), "{wait_policy:?}");
    }
}

#[test]
fn what_a_leader_says_is_told_when_it_changes() {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), follow(10_000, 0)));
    a.step(now(5), lost(1, Some(by_another(50))));
    let fields = Metadata::from([("at".to_owned(), "y".into())]);
    let other = Record { metadata: fields, ..by_another(51) };
    a.step(now(300), Event::Changed(Hint::Any));
    let told = a.step(now(305), seen(2, Some(other.clone()))).notices;
    assert_eq!(told, vec![Notice::Seen(LEASE, Sighting::of(&other).map(Box::new))]);
}
