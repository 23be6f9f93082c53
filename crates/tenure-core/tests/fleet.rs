//! Plan: workers of a fleet on one store without faults, in simulated time: who ends up with what, how fast, at what cost,
//! and that nothing is ever held twice or lies idle for long. (Faults are the simulator's.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::harness::{Harness, Store, TTL};
use std::time::Duration;
use tenure_core::fleet::{About, Balance, FleetCommand, FleetWorker, RequestId, Status, Uncovered, UnitSpec};
use tenure_core::{HolderId, Metadata};

const INTERVAL: Duration = TTL.checked_div(3).unwrap();

/// A fleet at rest.
fn fleet(store: Store, workers: usize, units: usize) -> Harness {
    let mut harness = Harness::new(store);
    harness.create(units);
    for _ in 0..workers {
        harness.join(About::default());
    }
    harness.run(INTERVAL * 4);
    harness.longest_idle = Duration::ZERO;
    harness
}

const STORES: [Store; 4] = [
    Store { age: false, push: false },
    Store { age: true, push: false },
    Store { age: false, push: true },
    Store { age: true, push: true },
];

#[test]
fn every_unit_is_held_and_counts_are_within_one() {
    for store in STORES {
        let mut harness = fleet(store, 3, 100);
        assert_eq!(harness.counts(), [33, 33, 34], "{store:?}");
        let plan = &harness.last_plan;
        assert_eq!((plan.generation, plan.workers, plan.units), (harness.generation(), 3, 100), "{store:?}");
        let mut held: Vec<usize> = harness.take_machines().iter().map(FleetWorker::held).collect();
        held.sort_unstable();
        assert_eq!(held, [33, 33, 34], "{store:?}");
    }
}

#[test]
fn who_has_nothing_leaves_as_soon_as_the_others_can_have_heard() {
    for store in STORES {
        let mut harness = fleet(store, 3, 0);
        harness.order(1, FleetCommand::Leave);
        let took = harness.run_until(TTL, |harness| !harness.is_up(1)).unwrap_or_else(|| panic!("{store:?}"));
        let heard = TTL / 16 + if store.push { Duration::ZERO } else { INTERVAL };
        assert!((heard..heard + Duration::from_millis(20)).contains(&took), "{store:?}: {took:?}");
    }
}

#[test]
fn with_nothing_changing_nothing_moves_and_little_is_asked() {
    for store in STORES {
        for units in [10, 1000] {
            let mut harness = fleet(store, 4, units);
            harness.run(INTERVAL * 10);
            let (moves, before) = (harness.moves, harness.calls);
            harness.run(INTERVAL * 30);
            assert_eq!(harness.moves, moves, "{store:?}");
            let calls = harness.calls.since(before);
            // One renewal and one look for each of four workers.
            assert!((4 * 29..=4 * 31).contains(&calls.writes), "{store:?}: {calls:?}");
            assert!((4 * 29..=4 * 31).contains(&calls.reads), "{store:?}: {calls:?}");
            // And an audit or two of some pages.
            assert!(calls.lists <= 2 * 3, "{store:?}: {calls:?}");
        }
    }
}

#[test]
fn l2_a_worker_that_joins_gets_its_share_and_no_more_is_moved() {
    for store in STORES {
        let mut harness = fleet(store, 10, 1000);
        let moves = harness.moves;
        let joiner = harness.join(About::default());
        let took = harness
            .run_until(INTERVAL * 4, |harness| harness.held(joiner) >= 90)
            .unwrap_or_else(|| panic!("{store:?}"));
        assert!(took <= INTERVAL * 3, "{store:?}: {took:?}");
        harness.run(INTERVAL * 6);
        assert_eq!((harness.counts()[0], harness.counts()[10]), (90, 91), "{store:?}");
        assert_eq!(harness.moves - moves, harness.held(joiner), "{store:?}");
    }
}

#[test]
fn l3_what_dead_workers_had_is_held_again_in_time() {
    for store in STORES {
        for dead in [1, 4] {
            let mut harness = fleet(store, 10, 100);
            harness.run(Duration::from_millis(1234));
            for worker in 0..dead {
                harness.kill(worker * 2);
            }
            let took = harness
                .run_until(TTL * 3, |harness| harness.idle() == 0)
                .unwrap_or_else(|| panic!("{store:?}"));
            let bound = if store.age || store.push { TTL * 115 / 100 } else { TTL * 14 / 10 };
            assert!(took <= bound, "{store:?}, {dead} dead: {took:?}");
            harness.run(INTERVAL * 6);
            let counts = harness.counts();
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
    }
}

#[test]
fn a_worker_that_leaves_passes_everything_on_without_a_gap() {
    for store in STORES {
        let mut harness = fleet(store, 4, 40);
        harness.order(0, FleetCommand::Leave);
        let took =
            harness.run_until(TTL * 2, |harness| !harness.is_up(0)).unwrap_or_else(|| panic!("{store:?}"));
        assert!(took <= INTERVAL * 3, "{store:?}: {took:?}");
        let idle = harness.longest_idle;
        // The body's own stop takes 20 ms here; beyond that, a push, or the pace of those who wait.
        let bound = if store.push { Duration::from_millis(30) } else { TTL / 32 + Duration::from_millis(30) };
        assert!(idle <= bound, "{store:?}: {idle:?}");
        harness.run(INTERVAL * 4);
        assert_eq!(harness.counts(), [13, 13, 14], "{store:?}");
    }
}

#[test]
fn all_ten_restart_one_after_the_other_and_no_unit_lies_idle() {
    for store in STORES {
        let mut harness = fleet(store, 10, 200);
        for worker in 0..10 {
            harness.order(worker, FleetCommand::Leave);
            assert!(harness.run_until(TTL * 2, |harness| !harness.is_up(worker)).is_some(), "{store:?}");
            harness.join(About::default());
        }
        harness.run(INTERVAL * 6);
        assert_eq!(harness.counts(), [20; 10], "{store:?}");
        let bound = if store.push { Duration::from_millis(30) } else { TTL / 32 + Duration::from_millis(30) };
        assert!(harness.longest_idle <= bound, "{store:?}: {:?}", harness.longest_idle);
    }
}

/// As whoever keeps in a unit's record how much there is to do.
#[test]
fn l3_a_unit_whose_record_is_written_all_the_time_is_held_all_the_same() {
    for store in STORES {
        let mut harness = fleet(store, 2, 4);
        // One for each of the two, of whom one plans.
        let new = ["new 0", "new 1"];
        new.iter().for_each(|unit| harness.put(unit, &UnitSpec::default()));
        harness.tell();
        let mut steps = 0..TTL.as_millis() / 5;
        let is_held = steps.any(|_| {
            for unit in new {
                if harness.owner(unit).is_none() {
                    harness.write_fields(unit);
                }
            }
            harness.run(Duration::from_millis(5));
            harness.counts() == [3, 3]
        });
        assert!(is_held, "{store:?}: {:?}", harness.counts());
    }
}

/// Who joins learns of hundreds of units by its part of the plan, and lists none of them.
#[test]
fn a_worker_that_gets_hundreds_of_units_is_told_of_them_all() {
    for store in STORES {
        let mut harness = fleet(store, 4, 2_000);
        harness.run(TTL * 3);
        let before = harness.calls;
        harness.join(About::default());
        let took = harness.run_until(TTL * 2, |harness| harness.counts() == [400; 5]);
        let pages = harness.calls.since(before).lists;
        // Where it listed for itself, that would be 16 more.
        let most = if store.push { 12 } else { 40 };
        assert!(took.is_some_and(|took| took <= TTL) && pages <= most, "{store:?}: {pages} pages, {took:?}");
    }
}

#[test]
fn room_labels_and_weights_are_respected_and_what_nobody_can_have_is_named() {
    for store in STORES {
        let mut harness = Harness::new(store);
        let gpu = |n: u64| UnitSpec::default().needs("gpu").weight(n);
        harness.put("a", &gpu(1));
        harness.put("b", &UnitSpec::default().needs("tpu"));
        for n in 0..6 {
            harness.put(&format!("c{n}"), &UnitSpec::default());
        }
        let small = harness.join(About::default().units(2));
        let labelled = harness.join(About::default().units(3).label("gpu"));
        harness.tell();
        harness.run(INTERVAL * 4);
        assert_eq!((harness.held(small), harness.held(labelled)), (2, 3), "{store:?}");
        assert_eq!(harness.who_has("a"), Some(labelled));
        let why: Vec<Uncovered> = harness.last_plan.uncovered.iter().map(|(_, why)| *why).collect();
        assert_eq!(why.iter().filter(|why| **why == Uncovered::NoLabels).count(), 1, "{why:?}");
        assert_eq!(why.iter().filter(|why| **why == Uncovered::NoRoom).count(), 2, "{why:?}");
    }
}

#[test]
fn weights_are_evened_out_where_workers_ask_for_that() {
    let mut harness = Harness::new(STORES[3]);
    for n in 0..40_u64 {
        harness.put(&format!("{n:02}"), &UnitSpec::default().weight(1 + n % 10));
    }
    for _ in 0..4 {
        harness.join(About::default().balance(Balance::Weight));
    }
    harness.run(INTERVAL * 6);
    let weight = |worker| -> u64 {
        let has = |n: &u64| harness.lease_on(worker, &format!("{n:02}")).is_some();
        (0..40).filter(has).map(|n| 1 + n % 10).sum()
    };
    let weights: Vec<u64> = (0..4).map(weight).collect();
    assert_eq!(weights.iter().sum::<u64>(), 220);
    assert!(weights.iter().all(|weight| weight.abs_diff(55) <= 2), "{weights:?}");
}

#[test]
fn a_finished_or_deleted_unit_is_given_to_nobody() {
    for store in STORES {
        let mut harness = fleet(store, 2, 4);
        let owner = harness.who_has("000000").unwrap();
        let lease = harness.lease_on(owner, "000000").unwrap();
        harness.end_work(owner, lease);
        harness.order(owner, FleetCommand::Finish(lease, RequestId(1), None));
        harness.revise("000001", &UnitSpec::default().status(Status::Deleted));
        harness.run(TTL * 3);
        assert_eq!(
            (harness.who_has("000000"), harness.who_has("000001"), harness.counts()),
            (None, None, vec![1, 1])
        );
    }
}

#[test]
fn a_unit_that_is_declined_or_handed_on_goes_to_another() {
    for store in STORES {
        let mut harness = fleet(store, 3, 9);
        let owner = harness.who_has("000004").unwrap();
        let lease = harness.lease_on(owner, "000004").unwrap();
        harness.end_work(owner, lease);
        harness.order(owner, FleetCommand::Decline(lease, RequestId(1)));
        let other = |harness: &Harness| harness.who_has("000004").is_some_and(|next| next != owner);
        assert!(harness.run_until(TTL, other).is_some(), "{store:?}");
        let third = (0..3).find(|w| *w != owner && Some(*w) != harness.who_has("000004")).unwrap();
        let has = harness.who_has("000004").unwrap();
        let lease = harness.lease_on(has, "000004").unwrap();
        harness.end_work(has, lease);
        harness.order(
            has,
            FleetCommand::HandTo(lease, RequestId(2), HolderId::new(format!("w{third:03}")).unwrap()),
        );
        assert!(
            harness.run_until(TTL, |harness| harness.who_has("000004") == Some(third)).is_some(),
            "{store:?}"
        );
        harness.run(TTL * 3);
        assert_eq!(harness.idle(), 0);
    }
}

#[test]
fn a_store_that_was_away_for_long_is_taken_up_again() {
    for store in STORES {
        let mut harness = fleet(store, 3, 30);
        harness.away = true;
        harness.run(TTL * 2);
        assert_eq!(harness.idle(), 30, "belief ends without the store");
        harness.away = false;
        assert!(harness.run_until(TTL * 2, |harness| harness.idle() == 0).is_some(), "{store:?}");
        harness.run(TTL);
        assert_eq!(harness.counts(), [10, 10, 10]);
    }
}

#[test]
fn a_unit_that_drains_for_long_and_writes_checkpoints_meanwhile_goes_on_by_one_push() {
    let store = Store { age: false, push: true };
    let mut harness = fleet(store, 1, 2);
    harness.body_ends = TTL * 6;
    let joiner = harness.join(About::default());
    let mut point = 0;
    while harness.held(joiner) == 0 && point < 30 {
        harness.run(INTERVAL);
        point += 1;
        for unit in ["000000", "000001"] {
            if let Some(lease) = harness.lease_on(0, unit) {
                let request = RequestId(point * 2 + u64::from(unit.ends_with('1')));
                harness.order(0, FleetCommand::Merge(lease, request, Metadata::new()));
            }
        }
    }
    assert_eq!(harness.held(joiner), 1);
    assert!(harness.longest_idle <= Duration::from_millis(30), "{:?}", harness.longest_idle);
}
