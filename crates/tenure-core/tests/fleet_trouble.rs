//! Plan: a fleet whose records somebody has damaged, whose store is away, whose changes are told to nobody, whose alarm was
//! false, whose hints name no key: what can go on does, what can't is named, and little is asked meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::harness::{Harness, Store, TTL};
use std::time::Duration;
use tenure_core::fleet::{About, FleetCommand, RequestId, Uncovered, UnitSpec};
use tenure_core::{HolderId, Metadata, Nonce, RESERVED, Value};

const PLAIN: Store = Store { age: false, push: false };
const PUSH: Store = Store { age: false, push: true };

/// A fleet at rest.
fn fleet(store: Store, workers: usize, units: usize) -> Harness {
    let mut harness = Harness::new(store);
    harness.create(units);
    for _ in 0..workers {
        harness.join(About::default());
    }
    harness.run(TTL * 2);
    harness.longest_idle = Duration::ZERO;
    harness
}

#[test]
fn a_board_that_cant_be_read_stops_no_takeover_and_no_leave() {
    for store in [PLAIN, PUSH] {
        let mut harness = fleet(store, 4, 12);
        let board = harness.board();
        harness.damaged.insert(board);
        harness.kill(0);
        let took = harness.run_until(TTL * 4, |harness| harness.idle() == 0);
        assert!(took.is_some_and(|took| took <= TTL * 2), "{store:?}: {took:?}");
        harness.order(1, FleetCommand::Leave);
        assert!(harness.run_until(TTL * 2, |harness| !harness.is_up(1)).is_some(), "{store:?}");
        assert!(harness.run_until(TTL * 2, |harness| harness.idle() == 0).is_some(), "{store:?}");
        harness.run(TTL);
        let before = harness.calls;
        harness.run(TTL * 10);
        let calls = harness.calls.since(before);
        // Two workers list two pages in each interval, and try to tell no more often.
        assert!(calls.lists <= 2 * 2 * 33 && calls.writes <= 2 * 2 * 33, "{store:?}: {calls:?}");
        harness.damaged.clear();
        harness.run(TTL);
        let before = harness.calls;
        harness.run(TTL * 4);
        assert_eq!(harness.calls.since(before).lists, 0, "{store:?}");
    }
}

#[test]
fn units_behind_a_session_that_cant_be_read_are_named_and_left_alone() {
    for store in [PLAIN, PUSH] {
        let mut harness = fleet(store, 3, 9);
        let session = harness.session(0);
        harness.kill(0);
        harness.damaged.insert(session);
        harness.run(TTL * 4);
        let why: Vec<Uncovered> = harness.last_plan.uncovered.iter().map(|(_, why)| *why).collect();
        assert_eq!(why, [Uncovered::Damaged; 3], "{store:?}");
        let (before, generation) = (harness.calls, harness.generation());
        harness.run(TTL * 20);
        let calls = harness.calls.since(before);
        assert_eq!(harness.generation(), generation, "{store:?}");
        assert!(calls.reads <= 2 * 62 && calls.lists <= 2 * 6, "{store:?}: {calls:?}");
        harness.damaged.clear();
        assert!(harness.run_until(TTL * 24, |harness| harness.idle() == 0).is_some(), "{store:?}: the audit");
    }
}

#[test]
fn units_behind_a_session_that_says_nothing_of_a_worker_are_left_alone() {
    for store in [PLAIN, PUSH] {
        let mut harness = fleet(store, 3, 9);
        let session = harness.session(0);
        for _ in 0..30 {
            // Over and over: its owner may put it right.
            harness.deface(&session, Metadata::from([(RESERVED.to_owned(), Value::Bool(true))]));
            harness.run(TTL / 5);
        }
        let generation = harness.generation();
        for _ in 0..30 {
            harness.deface(&session, Metadata::from([(RESERVED.to_owned(), Value::Bool(true))]));
            harness.run(TTL / 5);
        }
        assert_eq!(harness.generation(), generation, "{store:?}");
        assert_eq!(harness.idle(), 0, "{store:?}: its owner goes on with them");
    }
}

#[test]
fn a_false_alarm_of_long_ago_delays_no_takeover() {
    for phase in 0..10_u32 {
        // So many that most of them don't watch the one that dies.
        let mut harness = fleet(PLAIN, 20, 40);
        let board = harness.board();
        harness.deface(&board, Metadata::from([("alarm".to_owned(), Value::Bool(true))]));
        harness.run(TTL * 5 + TTL / 30 * phase);
        harness.kill(2);
        let took = harness.run_until(TTL * 3, |harness| harness.idle() == 0);
        // All may look a third of a ttl after the alarm was raised anew, and then list.
        let bound = TTL * 13 / 10 + Duration::from_millis(60);
        assert!(took.is_some_and(|took| took <= bound), "{phase}: {took:?}");
    }
}

#[test]
fn who_leaves_while_the_store_is_away_ends_with_his_session() {
    for store in [PLAIN, PUSH] {
        let mut harness = fleet(store, 2, 4);
        harness.away = true;
        harness.order(0, FleetCommand::Leave);
        assert!(harness.run_until(TTL * 2, |harness| !harness.is_up(0)).is_some(), "{store:?}");
    }
}

#[test]
fn whom_a_user_chose_hears_of_it_at_once() {
    let mut harness = fleet(PUSH, 3, 9);
    let owner = harness.who_has("000004").unwrap();
    let other = (owner + 1) % 3;
    let lease = harness.lease_on(owner, "000004").unwrap();
    harness.end_work(owner, lease);
    harness.order(
        owner,
        FleetCommand::HandTo(lease, RequestId(1), HolderId::new(format!("w{other:03}")).unwrap()),
    );
    let took = harness.run_until(TTL, |harness| harness.idle() == 0);
    assert!(took.is_some_and(|took| took <= TTL / 32 + Duration::from_millis(20)), "{took:?}");
}

#[test]
fn a_declined_unit_stays_with_others_for_a_ttl_and_is_worked_on() {
    for store in [PLAIN, PUSH] {
        let mut harness = fleet(store, 2, 4);
        let owner = harness.who_has("000000").unwrap();
        let lease = harness.lease_on(owner, "000000").unwrap();
        harness.end_work(owner, lease);
        harness.order(owner, FleetCommand::Decline(lease, RequestId(1)));
        let other = |harness: &Harness| harness.who_has("000000") == Some(1 - owner);
        assert!(harness.run_until(TTL / 2, other).is_some(), "{store:?}");
        for _ in 0..18 {
            harness.run(TTL / 40);
            assert!(other(&harness), "{store:?}");
        }
        harness.run(TTL * 6);
        assert_eq!((harness.counts(), harness.idle()), (vec![2, 2], 0), "{store:?}");
    }
}

#[test]
fn what_the_only_worker_declines_comes_back_after_a_ttl() {
    let mut harness = fleet(PLAIN, 1, 2);
    let lease = harness.lease_on(0, "000000").unwrap();
    harness.end_work(0, lease);
    harness.order(0, FleetCommand::Decline(lease, RequestId(1)));
    harness.run(TTL * 8 / 10);
    assert_eq!(harness.idle(), 1);
    harness.tell();
    harness.run(TTL / 10);
    let name = harness.unit("000000");
    assert_eq!(harness.last_plan.uncovered, [(name, Uncovered::Declined)]);
    assert!(harness.run_until(TTL, |harness| harness.idle() == 0).is_some());
}

#[test]
fn hints_that_name_no_key_are_followed_now_and_then_only() {
    let mut harness = fleet(PUSH, 2, 6);
    let before = harness.calls;
    for _ in 0..1000 {
        harness.hint_vaguely();
        harness.run(TTL / 200);
    }
    let calls = harness.calls.since(before);
    assert!(calls.reads <= 2 * 5 * 33, "{calls:?}");
    // And a change is seen soon all the same.
    harness.hint_vaguely();
    harness.create(0);
    harness.put("new", &UnitSpec::default());
    harness.tell();
    assert!(harness.run_until(TTL / 8, |harness| harness.idle() == 0).is_some());
}

#[test]
fn what_nobody_was_told_of_is_found_by_the_audit() {
    for store in [PLAIN, PUSH] {
        let mut harness = fleet(store, 4, 8);
        harness.put("untold", &UnitSpec::default());
        assert!(harness.run_until(TTL * 16, |harness| harness.idle() == 0).is_some(), "{store:?}");
    }
}

#[test]
fn a_unit_that_the_store_refuses_for_good_is_told_and_harms_no_other() {
    for store in [PLAIN, PUSH] {
        let mut harness = fleet(store, 3, 9);
        let unit = harness.unit("000001");
        let owner = harness.who_has("000001").unwrap();
        harness.forbidden.insert(unit);
        // It goes on where it is, also when the others change.
        let joined = harness.join(About::default());
        harness.run(TTL * 2);
        assert_eq!((harness.who_has("000001"), harness.idle()), (Some(owner), 0), "{store:?}");
        assert!(harness.held(joined) >= 2, "{store:?}");
        harness.kill(owner);
        let rest = harness.run_until(TTL * 2, |harness| harness.idle() == 1);
        assert!(rest.is_some_and(|rest| rest <= TTL * 3 / 2), "{store:?}: {rest:?}");
        harness.run(TTL);
        assert!(
            harness.troubles.iter().any(|told| told.contains("denied")),
            "{store:?}: {:?}",
            harness.troubles
        );
        harness.run(TTL * 20);
        let before = harness.calls;
        harness.run(TTL * 20);
        let calls = harness.calls.since(before);
        // Audits, and an attempt with each.
        assert!(calls.lists <= 3 * 2 * 4 && calls.extra <= 3 * 4, "{store:?}: {calls:?}");
        assert_eq!(harness.idle(), 1, "{store:?}");
    }
}

#[test]
fn s10_a_unit_that_another_tenure_holds_is_examined_by_id_and_fence() {
    for (id, higher, is_lost) in
        [(None, 0, false), (Some(Nonce(7)), 0, true), (None, 1, true), (Some(Nonce(7)), 1, true)]
    {
        let mut harness = fleet(PLAIN, 2, 4);
        let owner = harness.who_has("000001").unwrap();
        harness.usurp("000001", id, higher);
        harness.run(TTL);
        assert_eq!(harness.who_has("000001"), Some(owner), "nobody has looked");
        harness.tell();
        // Whoever plans looks twice before it has somebody look into what he has.
        harness.run(TTL * 3);
        let lost = harness.troubles.iter().filter(|told| told.contains("lost")).count();
        assert_eq!(lost, usize::from(is_lost), "{id:?} {higher}: {:?}", harness.troubles);
        assert_eq!(harness.idle(), 0, "somebody has it again");
    }
    let mut harness = fleet(PLAIN, 2, 4);
    let unit = harness.unit("000001");
    harness.delete(&unit);
    harness.tell();
    harness.run(TTL * 3);
    assert!(harness.troubles.len() == 1 && harness.troubles[0].contains("Deleted"), "{:?}", harness.troubles);
}

#[test]
fn a_unit_whose_own_record_is_damaged_goes_on_where_it_is() {
    for store in [PLAIN, PUSH] {
        let mut harness = fleet(store, 2, 4);
        let unit = harness.unit("000001");
        let owner = harness.who_has("000001");
        harness.damaged.insert(unit);
        harness.tell();
        harness.run(TTL * 3);
        assert_eq!(harness.who_has("000001"), owner, "{store:?}");
        assert_eq!(harness.last_plan.damaged.len(), 1, "{store:?}");
    }
}
