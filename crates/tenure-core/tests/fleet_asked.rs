//! Plan: what users ask about their units, of workers on one store without faults: each request has its own answer, and what it
//! says is so; a request that is refused changes nothing; fields that outsiders write stay; and what an operator
//! asks of a whole worker.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::harness::{Harness, Store, TTL};
use std::time::Duration;
use tenure_core::fleet::{About, FleetCommand, RequestId, Status, UnitSpec};
use tenure_core::{Ask, HolderId, LeaseId, Metadata, RESERVED, Value};

/// A worker with one unit.
fn one() -> (Harness, LeaseId) {
    let mut harness = Harness::new(Store { age: true, push: true });
    harness.create(1);
    harness.join(About::default());
    harness.run(TTL * 2);
    let lease = harness.lease_on(0, UNIT).unwrap();
    (harness, lease)
}

const STORES: [Store; 2] = [Store { age: false, push: false }, Store { age: true, push: true }];
const UNIT: &str = "000000";

fn fields(of: &[(&str, i64)]) -> Metadata {
    of.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

fn update(harness: &mut Harness, lease: LeaseId, request: u64, of: &[(&str, i64)]) {
    harness.order(0, FleetCommand::Update(lease, RequestId(request), fields(of)));
}

fn merge(harness: &mut Harness, lease: LeaseId, request: u64, of: &[(&str, i64)]) {
    harness.order(0, FleetCommand::Merge(lease, RequestId(request), fields(of)));
}

fn moment(harness: &mut Harness) {
    harness.run(Duration::from_millis(10));
}

#[test]
fn a_change_that_cant_be_written_is_refused_and_so_is_the_next() {
    let (mut harness, lease) = one();
    let unit = harness.unit(UNIT);
    harness.damaged.insert(unit);
    update(&mut harness, lease, 1, &[("a", 1)]);
    merge(&mut harness, lease, 2, &[("b", 1)]);
    moment(&mut harness);
    assert_eq!(harness.answers, [(1, "failed"), (2, "failed")]);
    harness.damaged.clear();
    update(&mut harness, lease, 3, &[("c", 1)]);
    moment(&mut harness);
    assert_eq!(harness.answers[2..], [(3, "updated")]);
}

#[test]
fn s4_changes_that_come_at_once_are_written_in_two_and_answered_each() {
    let (mut harness, lease) = one();
    let writes = harness.calls.writes;
    update(&mut harness, lease, 1, &[("a", 1), ("b", 1)]);
    merge(&mut harness, lease, 2, &[("a", 2)]);
    merge(&mut harness, lease, 3, &[("c", 3)]);
    assert_eq!(harness.answers, [], "nothing is written yet");
    moment(&mut harness);
    assert_eq!(harness.answers, [(1, "updated"), (2, "updated"), (3, "updated")]);
    let all = fields(&[("a", 2), ("b", 1), ("c", 3)]);
    assert_eq!((harness.shows(UNIT).1, &harness.told_fields), (all.clone(), &all));
    assert_eq!(harness.calls.writes - writes, 2);
    update(&mut harness, lease, 4, &[("x", 1)]);
    merge(&mut harness, lease, 5, &[("y", 1)]);
    update(&mut harness, lease, 6, &[("z", 1)]);
    moment(&mut harness);
    assert_eq!(harness.answers[3..], [(4, "updated"), (5, "updated"), (6, "updated")]);
    assert_eq!((harness.shows(UNIT).1, &harness.told_fields), (fields(&[("z", 1)]), &fields(&[("z", 1)])));
}

#[test]
fn s4_an_end_is_answered_after_the_change_under_way_and_what_waits_is_not_written() {
    for how in ["finish", "decline", "hand"] {
        let (mut harness, lease) = one();
        harness.join(About::default());
        harness.run(TTL);
        update(&mut harness, lease, 1, &[("a", 1)]);
        update(&mut harness, lease, 2, &[("a", 2)]);
        harness.end_work(0, lease);
        let request = RequestId(3);
        harness.order(
            0,
            match how {
                "finish" => FleetCommand::Finish(lease, request, None),
                "decline" => FleetCommand::Decline(lease, request),
                _ => FleetCommand::HandTo(lease, request, HolderId::new("w001").unwrap()),
            },
        );
        update(&mut harness, lease, 4, &[("a", 4)]);
        harness.order(0, FleetCommand::Decline(lease, RequestId(5)));
        moment(&mut harness);
        let answers = [(4, "failed"), (5, "failed"), (1, "updated"), (3, "released")];
        assert_eq!(harness.answers, answers, "{how}");
        let status = if how == "finish" { Status::Done } else { Status::Open };
        let (mut spec, shown) = harness.shows(UNIT);
        assert_eq!(spec.retry.map(|retry| retry.failures), (how == "decline").then_some(1), "{how}");
        spec.retry = None;
        assert_eq!((spec, shown), (UnitSpec::default().status(status), fields(&[("a", 1)])), "{how}");
        update(&mut harness, lease, 6, &[("a", 6)]);
        harness.order(0, FleetCommand::Finish(lease, RequestId(7), None));
        harness.run(TTL);
        assert_eq!(harness.answers[4..], [(7, "not ours")], "{how}");
        assert_eq!(harness.shows(UNIT).1, fields(&[("a", 1)]), "{how}");
    }
}

#[test]
fn s4_what_waits_when_a_worker_stops_is_not_written_and_is_no_mistake() {
    let (mut harness, lease) = one();
    update(&mut harness, lease, 1, &[("a", 1)]);
    update(&mut harness, lease, 2, &[("a", 2)]);
    harness.end_work(0, lease);
    harness.order(0, FleetCommand::Stop);
    moment(&mut harness);
    assert_eq!(harness.answers, [(1, "updated")], "the end of the unit answers the other");
    assert_eq!(harness.shows(UNIT).1, fields(&[("a", 1)]));
}

#[test]
fn a_finish_that_is_refused_changes_nothing() {
    let (mut harness, lease) = one();
    let bad = Metadata::from([(RESERVED.to_owned(), Value::Null)]);
    harness.order(0, FleetCommand::Finish(lease, RequestId(1), Some(bad.clone())));
    harness.order(0, FleetCommand::Update(lease, RequestId(2), bad.clone()));
    harness.order(0, FleetCommand::Merge(lease, RequestId(3), bad));
    merge(&mut harness, lease, 4, &[("a", 1)]);
    moment(&mut harness);
    assert_eq!(harness.answers, [(1, "failed"), (2, "failed"), (3, "failed"), (4, "updated")]);
    assert_eq!(harness.shows(UNIT), (UnitSpec::default(), fields(&[("a", 1)])), "it is open, and ours");
    harness.end_work(0, lease);
    harness.order(0, FleetCommand::Finish(lease, RequestId(5), Some(fields(&[("b", 1)]))));
    moment(&mut harness);
    assert_eq!(harness.answers[4..], [(5, "released")]);
    assert_eq!((harness.shows(UNIT).0.status, harness.shows(UNIT).1), (Status::Done, fields(&[("b", 1)])));
}

#[test]
fn s4_what_outsiders_write_stays_unless_it_is_replaced() {
    let (mut harness, lease) = one();
    let heavy = UnitSpec::default().weight(7);
    merge(&mut harness, lease, 1, &[("a", 1)]);
    moment(&mut harness);
    harness.write_over(UNIT, &heavy, fields(&[("a", 1), ("x", 1)]));
    merge(&mut harness, lease, 2, &[("a", 2)]);
    moment(&mut harness);
    assert_eq!(harness.shows(UNIT), (heavy.clone(), fields(&[("a", 2), ("x", 1)])));
    harness.write_over(UNIT, &heavy, fields(&[("a", 2), ("y", 1)]));
    harness.end_work(0, lease);
    harness.order(0, FleetCommand::Finish(lease, RequestId(3), None));
    moment(&mut harness);
    let done = heavy.clone().status(Status::Done);
    assert_eq!(harness.shows(UNIT), (done, fields(&[("a", 2), ("y", 1)])));
}

#[test]
fn s4_of_two_changes_that_wait_the_later_one_is_written() {
    let (mut harness, lease) = one();
    update(&mut harness, lease, 1, &[("a", 1)]);
    merge(&mut harness, lease, 2, &[("b", 2), ("c", 2)]);
    merge(&mut harness, lease, 3, &[("b", 3)]);
    moment(&mut harness);
    assert_eq!(harness.shows(UNIT).1, fields(&[("a", 1), ("b", 3), ("c", 2)]));
}

#[test]
fn s6_a_worker_whose_session_is_withdrawn_ends_what_is_done_and_gives_it_up_while_it_is_believed() {
    for (store, leaves) in STORES.into_iter().flat_map(|store| [(store, false), (store, true)]) {
        let mut harness = Harness::new(store);
        harness.create(6);
        for _ in 0..2 {
            harness.join(About::default());
        }
        harness.run(TTL * 2);
        let other = 1 - harness.planner();
        if leaves {
            harness.order(other, FleetCommand::Leave);
        }
        harness.ask_worker(other, Ask::Revoke);
        let left = harness.run_until(TTL, |harness| !harness.is_up(other));
        assert!(left.is_some_and(|left| left < TTL * 8 / 10), "{store:?} {leaves}: {left:?}");
        let lost: Vec<_> = harness.troubles.iter().filter(|trouble| trouble.contains("lost")).collect();
        assert!(lost.is_empty(), "{store:?} {leaves}: {lost:?}");
        assert!(harness.run_until(TTL, |harness| harness.idle() == 0).is_some(), "{store:?} {leaves}");
    }
}
