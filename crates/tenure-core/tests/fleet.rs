//! Plan: workers of a fleet on one store without faults, in simulated time: who ends up with what, how fast, at what cost,
//! and that nothing is ever held twice or lies idle for long. (Faults are the simulator's.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod yard;

use std::time::Duration;
use tenure_core::HolderId;
use tenure_core::fleet::{About, Balance, FleetCommand, RequestId, Status, Uncovered, UnitSpec, Worker};
use yard::{Store, TTL, Yard};

const INTERVAL: Duration = TTL.checked_div(3).unwrap();

/// A fleet at rest.
fn fleet(store: Store, workers: usize, units: usize) -> Yard {
    let mut yard = Yard::new(store);
    yard.create(units);
    for _ in 0..workers {
        yard.join(About::default());
    }
    yard.run(INTERVAL * 4);
    yard.longest_idle = Duration::ZERO;
    yard
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
        let mut yard = fleet(store, 3, 100);
        assert_eq!(yard.counts(), [33, 33, 34], "{store:?}");
        let plan = &yard.last_plan;
        assert_eq!((plan.generation, plan.workers, plan.units), (yard.generation(), 3, 100), "{store:?}");
        let mut held: Vec<usize> = yard.take_machines().iter().map(Worker::held).collect();
        held.sort_unstable();
        assert_eq!(held, [33, 33, 34], "{store:?}");
    }
}

#[test]
fn who_has_nothing_leaves_as_soon_as_the_others_can_have_heard() {
    for store in STORES {
        let mut yard = fleet(store, 3, 0);
        yard.order(1, FleetCommand::Leave);
        let took = yard.run_until(TTL, |yard| !yard.is_up(1)).unwrap_or_else(|| panic!("{store:?}"));
        let heard = TTL / 16 + if store.push { Duration::ZERO } else { INTERVAL };
        assert!((heard..heard + Duration::from_millis(20)).contains(&took), "{store:?}: {took:?}");
    }
}

#[test]
fn with_nothing_changing_nothing_moves_and_little_is_asked() {
    for store in STORES {
        for units in [10, 1000] {
            let mut yard = fleet(store, 4, units);
            yard.run(INTERVAL * 10);
            let (moves, before) = (yard.moves, yard.calls);
            yard.run(INTERVAL * 30);
            assert_eq!(yard.moves, moves, "{store:?}");
            let calls = yard.calls.since(before);
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
        let mut yard = fleet(store, 10, 1000);
        let moves = yard.moves;
        let joiner = yard.join(About::default());
        let took = yard
            .run_until(INTERVAL * 4, |yard| yard.held(joiner) >= 90)
            .unwrap_or_else(|| panic!("{store:?}"));
        assert!(took <= INTERVAL * 3, "{store:?}: {took:?}");
        yard.run(INTERVAL * 6);
        assert_eq!((yard.counts()[0], yard.counts()[10]), (90, 91), "{store:?}");
        assert_eq!(yard.moves - moves, yard.held(joiner), "{store:?}");
    }
}

#[test]
fn l3_what_dead_workers_had_is_held_again_in_time() {
    for store in STORES {
        for dead in [1, 4] {
            let mut yard = fleet(store, 10, 100);
            yard.run(Duration::from_millis(1234));
            for worker in 0..dead {
                yard.kill(worker * 2);
            }
            let took =
                yard.run_until(TTL * 3, |yard| yard.idle() == 0).unwrap_or_else(|| panic!("{store:?}"));
            let bound = if store.age || store.push { TTL * 115 / 100 } else { TTL * 14 / 10 };
            assert!(took <= bound, "{store:?}, {dead} dead: {took:?}");
            yard.run(INTERVAL * 6);
            let counts = yard.counts();
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
    }
}

#[test]
fn a_worker_that_leaves_passes_everything_on_without_a_gap() {
    for store in STORES {
        let mut yard = fleet(store, 4, 40);
        yard.order(0, FleetCommand::Leave);
        let took = yard.run_until(TTL * 2, |yard| !yard.is_up(0)).unwrap_or_else(|| panic!("{store:?}"));
        assert!(took <= INTERVAL * 3, "{store:?}: {took:?}");
        let idle = yard.longest_idle;
        // The body's own stop takes 20 ms here; beyond that, a push, or the pace of those who wait.
        let bound = if store.push { Duration::from_millis(30) } else { TTL / 32 + Duration::from_millis(30) };
        assert!(idle <= bound, "{store:?}: {idle:?}");
        yard.run(INTERVAL * 4);
        assert_eq!(yard.counts(), [13, 13, 14], "{store:?}");
    }
}

#[test]
fn all_ten_restart_one_after_the_other_and_no_unit_lies_idle() {
    for store in STORES {
        let mut yard = fleet(store, 10, 200);
        for worker in 0..10 {
            yard.order(worker, FleetCommand::Leave);
            assert!(yard.run_until(TTL * 2, |yard| !yard.is_up(worker)).is_some(), "{store:?}");
            yard.join(About::default());
        }
        yard.run(INTERVAL * 6);
        assert_eq!(yard.counts(), [20; 10], "{store:?}");
        let bound = if store.push { Duration::from_millis(30) } else { TTL / 32 + Duration::from_millis(30) };
        assert!(yard.longest_idle <= bound, "{store:?}: {:?}", yard.longest_idle);
    }
}

#[test]
fn room_labels_and_weights_are_respected_and_what_nobody_can_have_is_named() {
    for store in STORES {
        let mut yard = Yard::new(store);
        let gpu = |n: u64| UnitSpec { needs: ["gpu".to_owned()].into(), weight: n, ..UnitSpec::default() };
        yard.put("a", &gpu(1));
        yard.put("b", &UnitSpec { needs: ["tpu".to_owned()].into(), ..UnitSpec::default() });
        for n in 0..6 {
            yard.put(&format!("c{n}"), &UnitSpec::default());
        }
        let small = yard.join(About { units: 2, ..About::default() });
        let labelled = yard.join(About { units: 3, labels: ["gpu".to_owned()].into(), ..About::default() });
        yard.tell();
        yard.run(INTERVAL * 4);
        assert_eq!((yard.held(small), yard.held(labelled)), (2, 3), "{store:?}");
        assert_eq!(yard.who_has("a"), Some(labelled));
        let why: Vec<Uncovered> = yard.last_plan.uncovered.iter().map(|(_, why)| *why).collect();
        assert_eq!(why.iter().filter(|why| **why == Uncovered::NoLabels).count(), 1, "{why:?}");
        assert_eq!(why.iter().filter(|why| **why == Uncovered::NoRoom).count(), 2, "{why:?}");
    }
}

#[test]
fn weights_are_evened_out_where_workers_ask_for_that() {
    let mut yard = Yard::new(STORES[3]);
    for n in 0..40_u64 {
        yard.put(&format!("{n:02}"), &UnitSpec { weight: 1 + n % 10, ..UnitSpec::default() });
    }
    for _ in 0..4 {
        yard.join(About { balance: Balance::Weight, ..About::default() });
    }
    yard.run(INTERVAL * 6);
    let weight = |worker| -> u64 {
        let has = |n: &u64| yard.lease_on(worker, &format!("{n:02}")).is_some();
        (0..40).filter(has).map(|n| 1 + n % 10).sum()
    };
    let weights: Vec<u64> = (0..4).map(weight).collect();
    assert_eq!(weights.iter().sum::<u64>(), 220);
    assert!(weights.iter().all(|weight| weight.abs_diff(55) <= 2), "{weights:?}");
}

#[test]
fn a_finished_or_deleted_unit_is_given_to_nobody() {
    for store in STORES {
        let mut yard = fleet(store, 2, 4);
        let owner = yard.who_has("000000").unwrap();
        let lease = yard.lease_on(owner, "000000").unwrap();
        yard.end_work(owner, lease);
        yard.order(owner, FleetCommand::Finish(lease, RequestId(1), None));
        yard.revise("000001", &UnitSpec { status: Status::Deleted, ..UnitSpec::default() });
        yard.run(TTL * 3);
        assert_eq!((yard.who_has("000000"), yard.who_has("000001"), yard.counts()), (None, None, vec![1, 1]));
    }
}

#[test]
fn a_unit_that_is_declined_or_handed_on_goes_to_another() {
    for store in STORES {
        let mut yard = fleet(store, 3, 9);
        let owner = yard.who_has("000004").unwrap();
        let lease = yard.lease_on(owner, "000004").unwrap();
        yard.end_work(owner, lease);
        yard.order(owner, FleetCommand::Decline(lease, RequestId(1)));
        let other = |yard: &Yard| yard.who_has("000004").is_some_and(|next| next != owner);
        assert!(yard.run_until(TTL, other).is_some(), "{store:?}");
        let third = (0..3).find(|w| *w != owner && Some(*w) != yard.who_has("000004")).unwrap();
        let has = yard.who_has("000004").unwrap();
        let lease = yard.lease_on(has, "000004").unwrap();
        yard.end_work(has, lease);
        yard.order(
            has,
            FleetCommand::HandTo(lease, RequestId(2), HolderId::new(format!("w{third:03}")).unwrap()),
        );
        assert!(yard.run_until(TTL, |yard| yard.who_has("000004") == Some(third)).is_some(), "{store:?}");
        yard.run(TTL * 3);
        assert_eq!(yard.idle(), 0);
    }
}

#[test]
fn a_store_that_was_away_for_long_is_taken_up_again() {
    for store in STORES {
        let mut yard = fleet(store, 3, 30);
        yard.away = true;
        yard.run(TTL * 2);
        assert_eq!(yard.idle(), 30, "belief ends without the store");
        yard.away = false;
        assert!(yard.run_until(TTL * 2, |yard| yard.idle() == 0).is_some(), "{store:?}");
        yard.run(TTL);
        assert_eq!(yard.counts(), [10, 10, 10]);
    }
}
