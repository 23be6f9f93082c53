//! Plan: a fleet whose records somebody has damaged, whose store is away, whose changes are told to nobody, whose alarm was
//! false, whose hints name no key: what can go on does, what can't is named, and little is asked meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod yard;

use std::time::Duration;
use tenure_core::fleet::{About, FleetCommand, RequestId, Uncovered, UnitSpec};
use tenure_core::{HolderId, Metadata, Nonce, RESERVED, Value};
use yard::{Store, TTL, Yard};

const PLAIN: Store = Store { age: false, push: false };
const PUSH: Store = Store { age: false, push: true };

/// A fleet at rest.
fn fleet(store: Store, workers: usize, units: usize) -> Yard {
    let mut yard = Yard::new(store);
    yard.create(units);
    for _ in 0..workers {
        yard.join(About::default());
    }
    yard.run(TTL * 2);
    yard.longest_idle = Duration::ZERO;
    yard
}

#[test]
fn a_board_that_cant_be_read_stops_no_takeover_and_no_leave() {
    for store in [PLAIN, PUSH] {
        let mut yard = fleet(store, 4, 12);
        let board = yard.board();
        yard.damaged.insert(board);
        yard.kill(0);
        let took = yard.run_until(TTL * 4, |yard| yard.idle() == 0);
        assert!(took.is_some_and(|took| took <= TTL * 2), "{store:?}: {took:?}");
        yard.order(1, FleetCommand::Leave);
        assert!(yard.run_until(TTL * 2, |yard| !yard.is_up(1)).is_some(), "{store:?}");
        assert!(yard.run_until(TTL * 2, |yard| yard.idle() == 0).is_some(), "{store:?}");
        yard.run(TTL);
        let before = yard.calls;
        yard.run(TTL * 10);
        let calls = yard.calls.since(before);
        // Two workers list two pages in each interval, and try to tell no more often.
        assert!(calls.lists <= 2 * 2 * 33 && calls.writes <= 2 * 2 * 33, "{store:?}: {calls:?}");
        yard.damaged.clear();
        yard.run(TTL);
        let before = yard.calls;
        yard.run(TTL * 4);
        assert_eq!(yard.calls.since(before).lists, 0, "{store:?}");
    }
}

#[test]
fn units_behind_a_session_that_cant_be_read_are_named_and_left_alone() {
    for store in [PLAIN, PUSH] {
        let mut yard = fleet(store, 3, 9);
        let session = yard.session(0);
        yard.kill(0);
        yard.damaged.insert(session);
        yard.run(TTL * 4);
        let why: Vec<Uncovered> = yard.last_plan.uncovered.iter().map(|(_, why)| *why).collect();
        assert_eq!(why, [Uncovered::Damaged; 3], "{store:?}");
        let (before, generation) = (yard.calls, yard.generation());
        yard.run(TTL * 20);
        let calls = yard.calls.since(before);
        assert_eq!(yard.generation(), generation, "{store:?}");
        assert!(calls.reads <= 2 * 62 && calls.lists <= 2 * 6, "{store:?}: {calls:?}");
        yard.damaged.clear();
        assert!(yard.run_until(TTL * 24, |yard| yard.idle() == 0).is_some(), "{store:?}: the audit");
    }
}

#[test]
fn units_behind_a_session_that_says_nothing_of_a_worker_are_left_alone() {
    for store in [PLAIN, PUSH] {
        let mut yard = fleet(store, 3, 9);
        let session = yard.session(0);
        for _ in 0..30 {
            // Over and over: its owner may put it right.
            yard.deface(&session, Metadata::from([(RESERVED.to_owned(), Value::Bool(true))]));
            yard.run(TTL / 5);
        }
        let generation = yard.generation();
        for _ in 0..30 {
            yard.deface(&session, Metadata::from([(RESERVED.to_owned(), Value::Bool(true))]));
            yard.run(TTL / 5);
        }
        assert_eq!(yard.generation(), generation, "{store:?}");
        assert_eq!(yard.idle(), 0, "{store:?}: its owner goes on with them");
    }
}

#[test]
fn a_false_alarm_of_long_ago_delays_no_takeover() {
    for phase in 0..10_u32 {
        // So many that most of them don't watch the one that dies.
        let mut yard = fleet(PLAIN, 20, 40);
        let board = yard.board();
        yard.deface(&board, Metadata::from([("alarm".to_owned(), Value::Bool(true))]));
        yard.run(TTL * 5 + TTL / 30 * phase);
        yard.kill(2);
        let took = yard.run_until(TTL * 3, |yard| yard.idle() == 0);
        // All may look a third of a ttl after the alarm was raised anew, and then list.
        assert!(took.is_some_and(|took| took <= TTL * 13 / 10), "{phase}: {took:?}");
    }
}

#[test]
fn who_leaves_while_the_store_is_away_ends_with_his_session() {
    for store in [PLAIN, PUSH] {
        let mut yard = fleet(store, 2, 4);
        yard.away = true;
        yard.order(0, FleetCommand::Leave);
        assert!(yard.run_until(TTL * 2, |yard| !yard.is_up(0)).is_some(), "{store:?}");
    }
}

#[test]
fn whom_a_user_chose_hears_of_it_at_once() {
    let mut yard = fleet(PUSH, 3, 9);
    let owner = yard.who_has("000004").unwrap();
    let other = (owner + 1) % 3;
    let lease = yard.lease_on(owner, "000004").unwrap();
    yard.end_work(owner, lease);
    yard.order(
        owner,
        FleetCommand::HandTo(lease, RequestId(1), HolderId::new(format!("w{other:03}")).unwrap()),
    );
    let took = yard.run_until(TTL, |yard| yard.idle() == 0);
    assert!(took.is_some_and(|took| took <= TTL / 32 + Duration::from_millis(20)), "{took:?}");
}

#[test]
fn a_declined_unit_stays_with_others_for_a_ttl_and_is_worked_on() {
    for store in [PLAIN, PUSH] {
        let mut yard = fleet(store, 2, 4);
        let owner = yard.who_has("000000").unwrap();
        let lease = yard.lease_on(owner, "000000").unwrap();
        yard.end_work(owner, lease);
        yard.order(owner, FleetCommand::Decline(lease, RequestId(1)));
        let other = |yard: &Yard| yard.who_has("000000") == Some(1 - owner);
        assert!(yard.run_until(TTL / 2, other).is_some(), "{store:?}");
        for _ in 0..18 {
            yard.run(TTL / 40);
            assert!(other(&yard), "{store:?}");
        }
        yard.run(TTL * 6);
        assert_eq!((yard.counts(), yard.idle()), (vec![2, 2], 0), "{store:?}");
    }
}

#[test]
fn what_the_only_worker_declines_comes_back_after_a_ttl() {
    let mut yard = fleet(PLAIN, 1, 2);
    let lease = yard.lease_on(0, "000000").unwrap();
    yard.end_work(0, lease);
    yard.order(0, FleetCommand::Decline(lease, RequestId(1)));
    yard.run(TTL * 8 / 10);
    assert_eq!(yard.idle(), 1);
    yard.tell();
    yard.run(TTL / 10);
    let name = yard.unit("000000");
    assert_eq!(yard.last_plan.uncovered, [(name, Uncovered::Declined)]);
    assert!(yard.run_until(TTL, |yard| yard.idle() == 0).is_some());
}

#[test]
fn hints_that_name_no_key_are_followed_now_and_then_only() {
    let mut yard = fleet(PUSH, 2, 6);
    let before = yard.calls;
    for _ in 0..1000 {
        yard.hint_vaguely();
        yard.run(TTL / 200);
    }
    let calls = yard.calls.since(before);
    assert!(calls.reads <= 2 * 5 * 33, "{calls:?}");
    // And a change is seen soon all the same.
    yard.hint_vaguely();
    yard.create(0);
    yard.put("new", &UnitSpec::default());
    yard.tell();
    assert!(yard.run_until(TTL / 8, |yard| yard.idle() == 0).is_some());
}

#[test]
fn what_nobody_was_told_of_is_found_by_the_audit() {
    for store in [PLAIN, PUSH] {
        let mut yard = fleet(store, 4, 8);
        yard.put("untold", &UnitSpec::default());
        assert!(yard.run_until(TTL * 16, |yard| yard.idle() == 0).is_some(), "{store:?}");
    }
}

#[test]
fn a_unit_that_the_store_refuses_for_good_is_told_and_harms_no_other() {
    for store in [PLAIN, PUSH] {
        let mut yard = fleet(store, 3, 9);
        let unit = yard.unit("000001");
        let owner = yard.who_has("000001").unwrap();
        yard.forbidden.insert(unit);
        // It goes on where it is, also when the others change.
        let joined = yard.join(About::default());
        yard.run(TTL * 2);
        assert_eq!((yard.who_has("000001"), yard.idle()), (Some(owner), 0), "{store:?}");
        assert!(yard.held(joined) >= 2, "{store:?}");
        yard.kill(owner);
        let rest = yard.run_until(TTL * 2, |yard| yard.idle() == 1);
        assert!(rest.is_some_and(|rest| rest <= TTL * 3 / 2), "{store:?}: {rest:?}");
        yard.run(TTL);
        assert!(yard.troubles.iter().any(|told| told.contains("denied")), "{store:?}: {:?}", yard.troubles);
        yard.run(TTL * 20);
        let before = yard.calls;
        yard.run(TTL * 20);
        let calls = yard.calls.since(before);
        // Audits, and an attempt with each.
        assert!(calls.lists <= 3 * 2 * 4 && calls.extra <= 3 * 4, "{store:?}: {calls:?}");
        assert_eq!(yard.idle(), 1, "{store:?}");
    }
}

#[test]
fn s10_a_unit_that_another_tenure_holds_is_examined_by_id_and_fence() {
    for (id, higher, is_lost) in
        [(None, 0, false), (Some(Nonce(7)), 0, true), (None, 1, true), (Some(Nonce(7)), 1, true)]
    {
        let mut yard = fleet(PLAIN, 2, 4);
        let owner = yard.who_has("000001").unwrap();
        yard.usurp("000001", id, higher);
        yard.run(TTL);
        assert_eq!(yard.who_has("000001"), Some(owner), "nobody has looked");
        yard.tell();
        yard.run(TTL);
        let lost = yard.troubles.iter().filter(|told| told.contains("lost")).count();
        assert_eq!(lost, usize::from(is_lost), "{id:?} {higher}: {:?}", yard.troubles);
        assert_eq!(yard.idle(), 0, "somebody has it again");
    }
    let mut yard = fleet(PLAIN, 2, 4);
    let unit = yard.unit("000001");
    yard.delete(&unit);
    yard.tell();
    yard.run(TTL);
    assert!(yard.troubles.len() == 1 && yard.troubles[0].contains("Deleted"), "{:?}", yard.troubles);
}

#[test]
fn a_unit_whose_own_record_is_damaged_goes_on_where_it_is() {
    for store in [PLAIN, PUSH] {
        let mut yard = fleet(store, 2, 4);
        let unit = yard.unit("000001");
        let owner = yard.who_has("000001");
        yard.damaged.insert(unit);
        yard.tell();
        yard.run(TTL * 3);
        assert_eq!(yard.who_has("000001"), owner, "{store:?}");
        assert_eq!(yard.last_plan.damaged.len(), 1, "{store:?}");
    }
}
