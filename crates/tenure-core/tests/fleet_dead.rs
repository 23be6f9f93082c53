//! Plan: many units behind one session that is missing altogether, a third of the fleet dead side by side, workers with
//! different ttls: all that the dead had is held again within L1's bound, by the dead one's own ttl. And what is handed on
//! while it is being written is handed on all the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::harness::{Harness, Store, TTL};
use std::time::Duration;
use tenure_core::fleet::{About, FleetCommand, RequestId, UnitSpec};
use tenure_core::{HolderId, Metadata};

const STORES: [Store; 4] = [
    Store { age: false, push: false },
    Store { age: true, push: false },
    Store { age: false, push: true },
    Store { age: true, push: true },
];

/// Time for the calls themselves, each of which takes 2 ms here.
const WRITING: Duration = Duration::from_millis(60);

/// One worker has all, dies, and its session is deleted; `others` who were there before take over, or a new one.
fn session_vanishes(store: Store, units: usize, others: usize, bound: Duration) {
    let mut harness = Harness::new(store);
    harness.create(units);
    harness.join(About::default());
    assert!(harness.run_until(TTL * 2, |harness| harness.idle() == 0).is_some(), "{store:?}");
    for _ in 0..others {
        harness.join(About::default());
    }
    harness.run(TTL * 2);
    let (session, had) = (harness.session(0), harness.held(0) as u64);
    harness.kill(0);
    harness.delete(&session);
    let before = harness.calls;
    if others == 0 {
        harness.join(About::default());
    }
    let took = harness.run_until(TTL * 5, |harness| harness.idle() == 0);
    assert!(took.is_some_and(|took| took <= bound + WRITING), "{store:?}, {others} others: {took:?}");
    // Each unit is claimed once, and its session asked after once by that; beside that looks, and some listings.
    let (calls, workers) = (harness.calls.since(before), others.max(1) as u64);
    assert!(calls.reads <= had + 100 * workers && calls.writes <= had + 20 * workers, "{store:?}: {calls:?}");
    assert!(calls.lists <= 6 * (units as u64 / 1000 + 2) * workers, "{store:?}: {calls:?}");
}

#[test]
fn l3_more_units_than_fit_behind_one_missing_session_are_held_again_in_time() {
    session_vanishes(STORES[0], 12_000, 0, TTL * 14 / 10);
    for store in STORES {
        session_vanishes(store, 5_000, 0, TTL * 14 / 10);
    }
}

#[test]
fn l3_those_who_were_there_share_what_is_behind_a_missing_session() {
    for store in STORES {
        // Those who don't watch it hear of it within an interval, and begin to wait only then.
        let heard = if store.push { Duration::ZERO } else { TTL / 3 };
        session_vanishes(store, 900, 3, TTL * 14 / 10 + heard);
    }
}

#[test]
fn l1_a_third_to_a_half_of_the_fleet_that_dies_at_once_is_noticed_in_time() {
    for store in STORES {
        for (dead, first) in [(8, 0), (9, 5), (10, 11), (11, 10), (12, 3), (12, 9)] {
            let mut harness = Harness::new(store);
            harness.create(48);
            for _ in 0..24 {
                harness.join(About::default());
            }
            harness.run(TTL * 3 + Duration::from_millis(777));
            assert_eq!(harness.counts(), [2; 24]);
            // The planner, and others who may stand by.
            let planner = harness.planner();
            for at in 0..dead {
                harness.kill(if at == 0 { planner } else { (planner + first + at) % 24 });
            }
            let foreseen = harness.has_standby();
            let took = harness.run_until(TTL * 4, |harness| harness.idle() == 0);
            let bound = match () {
                () if store.age => TTL * 115 / 100,
                () if foreseen => TTL * 14 / 10,
                () => TTL * 25 / 10,
            };
            assert!(took.is_some_and(|took| took <= bound + WRITING), "{store:?}, {dead} dead: {took:?}");
        }
    }
}

#[test]
fn l1_goes_by_the_ttl_of_the_one_that_dies() {
    for store in STORES {
        for dies in 0..6 {
            for phase in 0..5_u32 {
                let mut harness = Harness::new(store);
                harness.create(24);
                let ttls = [TTL / 4, TTL / 2, TTL, TTL / 4, TTL / 2, TTL];
                for ttl in ttls {
                    harness.join_for(About::default(), ttl);
                }
                harness.run(TTL * 5 + TTL / 15 * phase);
                assert_eq!(harness.counts(), [4; 6], "{store:?}");
                harness.kill(dies);
                let took = harness.run_until(TTL * 4, |harness| harness.idle() == 0);
                let bound = if store.age { ttls[dies] * 115 / 100 } else { ttls[dies] * 14 / 10 };
                let what = format!("{store:?}, {dies} dies in phase {phase}");
                assert!(took.is_some_and(|took| took <= bound + WRITING), "{what}: {took:?}");
            }
        }
    }
}

#[test]
fn l2_workers_with_different_ttls_get_their_shares_in_time() {
    for store in STORES {
        for ttl in [TTL / 4, TTL] {
            let mut harness = Harness::new(store);
            harness.create(60);
            for ttl in [TTL / 4, TTL / 2, TTL, TTL] {
                harness.join_for(About::default(), ttl);
            }
            harness.run(TTL * 3);
            let (moves, joiner) = (harness.moves, harness.join_for(About::default(), ttl));
            let took = harness.run_until(TTL * 2, |harness| harness.held(joiner) >= 12);
            assert!(took.is_some_and(|took| took <= TTL + WRITING), "{store:?}, {ttl:?}: {took:?}");
            harness.run(TTL * 3);
            assert_eq!((harness.counts(), harness.moves - moves), (vec![12; 5], 12), "{store:?}, {ttl:?}");
        }
    }
}

/// Its session says so with its next renewal, and there is nothing to learn before that.
#[test]
fn c1_a_unit_that_moves_to_a_worker_with_a_long_ttl_brings_no_listing_in_each_short_one() {
    for store in STORES {
        let mut harness = Harness::new(store);
        harness.create(6);
        harness.join(About::default());
        let slow = harness.join_for(About::default(), TTL * 60);
        harness.run(TTL * 60);
        assert_eq!((harness.counts(), harness.planner()), (vec![3, 3], 0), "{store:?}");
        let before = harness.calls;
        for n in 0..3 {
            // It renews once in 20 short ttls.
            harness.run(TTL * 27);
            let unit =
                (0..6).map(|n| format!("{n:06}")).find(|unit| harness.who_has(unit) == Some(0)).unwrap();
            let mut pinned = UnitSpec::default();
            pinned.pin = Some(HolderId::new("w001").unwrap());
            harness.revise(&unit, &pinned);
            assert!(
                harness.run_until(TTL * 8, |harness| harness.who_has(&unit) == Some(slow)).is_some(),
                "{store:?} {n}"
            );
        }
        let pages = harness.calls.since(before).lists;
        // One audit of three pages in about ten ttls, and three listings or so for each move.
        assert!(pages <= 90, "{store:?}: {pages}");
    }
}

#[test]
fn what_is_handed_on_while_it_is_written_is_written_and_handed_on_without_a_gap() {
    for store in STORES {
        let mut harness = Harness::new(store);
        harness.create(3);
        for _ in 0..3 {
            harness.join(About::default());
        }
        harness.run(TTL * 2);
        let owner = harness.who_has("000001").unwrap();
        let other = (owner + 1) % 3;
        let lease = harness.lease_on(owner, "000001").unwrap();
        let vacated = harness.vacated;
        let fields = Metadata::from([("point".to_owned(), 7.into())]);
        harness.order(owner, FleetCommand::Update(lease, RequestId(1), fields.clone()));
        harness.end_work(owner, lease);
        let to = HolderId::new(format!("w{other:03}")).unwrap();
        harness.order(owner, FleetCommand::HandTo(lease, RequestId(2), to));
        let took = harness.run_until(TTL, |harness| harness.who_has("000001") == Some(other));
        assert!(took.is_some(), "{store:?}");
        assert_eq!(harness.vacated, vacated, "{store:?}: there was an instant without an owner");
        assert_eq!(harness.shows("000001").1, fields, "{store:?}");
        assert_eq!(harness.answers, [(1, "updated"), (2, "released")], "{store:?}");
    }
}
