//! Plan: units that fail whenever they are worked on, in a fleet without faults: what a retry costs, and that nobody lists for it;
//! that failures are counted through changes of owner and deaths; that whoever can do a unit gets it; that its rest ends when somebody
//! changes it; that a unit which is worked on for a while has not failed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::harness::{Harness, Store, TTL};
use std::time::Duration;
use tenure_core::fleet::{About, FleetCommand, RequestId, Retry, UnitSpec};

const STORES: [Store; 2] = [Store { age: false, push: false }, Store { age: true, push: true }];
const UNIT: &str = "000000";

/// A fleet at rest.
fn fleet(store: Store, workers: usize, units: usize) -> Harness {
    let mut harness = Harness::new(store);
    harness.create(units);
    for _ in 0..workers {
        harness.join(About::default());
    }
    harness.run(TTL * 2);
    harness
}

/// Whoever is given the unit fails at once, but for those who can do it. How often that was so within `span`.
fn fails(harness: &mut Harness, span: Duration, can: impl Fn(usize) -> bool) -> u64 {
    let mut tries = 0;
    let steps = span.as_millis() / 50;
    for step in 0..steps {
        if let Some(worker) = harness.who_has(UNIT).filter(|worker| !can(*worker)) {
            let lease = harness.lease_on(worker, UNIT).unwrap();
            harness.end_work(worker, lease);
            harness.order(worker, FleetCommand::Decline(lease, RequestId(step as u64)));
            tries += 1;
        }
        harness.run(Duration::from_millis(50));
    }
    tries
}

fn retry(harness: &Harness) -> Retry {
    harness.shows(UNIT).0.retry.unwrap()
}

#[test]
fn a_unit_that_fails_always_costs_four_calls_a_retry_and_nobody_lists_for_it() {
    for store in STORES {
        let mut harness = fleet(store, 10, 1000);
        let before = harness.calls;
        let first = fails(&mut harness, TTL * 5, |_| false);
        let calls = harness.calls.since(before);
        println!("{store:?}: {first} tries at first, with {} calls", calls.extra);
        assert!((8..=14).contains(&first) && calls.extra <= first * 6, "{store:?}: {first}, {calls:?}");
        let (before, generation) = (harness.calls, harness.generation());
        let tries = fails(&mut harness, TTL * 300, |_| false);
        let calls = harness.calls.since(before);
        println!("{store:?}: {tries} retries with {} calls, {} pages", calls.extra, calls.lists);
        assert!((14..=30).contains(&tries) && calls.extra <= tries * 4, "{store:?}: {tries}, {calls:?}");
        assert_eq!(harness.generation(), generation, "{store:?}");
        // One audit in seven and a half to twelve and a half ttls, of three pages, and another one where a unit moved meanwhile; and a page of
        // the roster for each unit that goes on.
        assert!(calls.lists <= 50 * 3 + tries, "{store:?}: {calls:?}");
    }
}

#[test]
fn a_unit_that_one_worker_can_do_gets_there_with_the_next_letters() {
    for store in STORES {
        for able in [3, 7] {
            let mut harness = fleet(store, 8, 16);
            fails(&mut harness, TTL * 4, |worker| worker == able);
            assert_eq!(harness.who_has(UNIT), Some(able), "{store:?}");
        }
    }
}

#[test]
fn a_unit_that_a_worker_can_do_after_a_long_time_gets_there_in_bounded_time() {
    let mut harness = fleet(STORES[0], 4, 8);
    fails(&mut harness, TTL * 200, |_| false);
    assert_eq!(retry(&harness).rest, TTL * 32);
    for able in 0..4 {
        // Each of the others has it for a rest, and for two tries that take no time here.
        fails(&mut harness, TTL * (4 * 34), |worker| worker == able);
        assert_eq!(harness.who_has(UNIT), Some(able));
        assert_eq!(fails(&mut harness, TTL * 20, |worker| worker == able), 0, "it stays there");
        fails(&mut harness, TTL / 10, |_| false);
    }
}

#[test]
fn failures_are_counted_and_the_rest_goes_on_when_the_owner_dies_or_leaves() {
    for (store, dies) in STORES.into_iter().flat_map(|store| [(store, true), (store, false)]) {
        let mut harness = fleet(store, 3, 6);
        fails(&mut harness, TTL * 20, |_| false);
        // It rests for four ttls or more by now, with whoever has failed last.
        let before = retry(&harness);
        assert!(before.failures >= 6 && before.rest >= TTL * 4, "{before:?}");
        assert_eq!(harness.who_has(UNIT), None);
        let ended = (0..3)
            .filter(|worker| harness.is_up(*worker))
            .find(|worker| harness.owner(UNIT) == Some(*worker))
            .unwrap();
        if dies {
            harness.kill(ended);
        } else {
            harness.order(ended, FleetCommand::Leave);
        }
        let since = harness.since_wall(before.since);
        let rested = harness.run_until(TTL * 40, |harness| harness.who_has(UNIT).is_some()).unwrap() + since;
        assert!(
            rested >= before.rest && rested <= before.rest + TTL * 2,
            "{store:?} {dies}: {rested:?}, {before:?}"
        );
        assert_eq!(retry(&harness), before, "{store:?} {dies}");
        fails(&mut harness, TTL / 10, |_| false);
        assert_eq!(retry(&harness).failures, before.failures + 1, "{store:?} {dies}");
    }
}

#[test]
fn a_change_from_outside_ends_the_rest() {
    let mut harness = fleet(STORES[0], 2, 4);
    fails(&mut harness, TTL * 30, |_| false);
    assert!(retry(&harness).rest >= TTL * 4 && harness.who_has(UNIT).is_none());
    harness.revise(UNIT, &UnitSpec::default().weight(2));
    assert!(harness.run_until(TTL, |harness| harness.who_has(UNIT).is_some()).is_some());
    fails(&mut harness, TTL / 20, |_| false);
    assert!(retry(&harness).failures <= 2, "{:?}", retry(&harness));
}

#[test]
fn what_is_worked_on_for_a_while_has_not_failed_and_is_counted_again() {
    for store in STORES {
        let mut harness = fleet(store, 2, 4);
        fails(&mut harness, TTL / 20, |_| false);
        harness.run(TTL);
        assert_eq!((retry(&harness).failures, harness.idle()), (1, 0), "{store:?}");
        let with = harness.who_has(UNIT);
        harness.run(TTL * 6);
        assert_eq!((retry(&harness).failures, harness.counts()), (0, vec![2, 2]), "{store:?}");
        assert_eq!(harness.who_has(UNIT), with, "{store:?}: another unit moves");
    }
}
