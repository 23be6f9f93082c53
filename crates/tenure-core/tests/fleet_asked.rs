//! Plan: what users ask about their units, of workers on one store without faults: each request has its own answer, and what it
//! says is so; a request that is refused changes nothing; fields that outsiders write stay.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod yard;

use std::time::Duration;
use tenure_core::fleet::{About, FleetCommand, RequestId, Status, UnitSpec};
use tenure_core::{HolderId, LeaseId, Metadata, RESERVED, Value};
use yard::{Store, TTL, Yard};

/// A worker with one unit.
fn one() -> (Yard, LeaseId) {
    let mut yard = Yard::new(Store { age: true, push: true });
    yard.create(1);
    yard.join(About::default());
    yard.run(TTL * 2);
    let lease = yard.lease_on(0, UNIT).unwrap();
    (yard, lease)
}

const UNIT: &str = "000000";

fn fields(of: &[(&str, i64)]) -> Metadata {
    of.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

fn update(yard: &mut Yard, lease: LeaseId, request: u64, of: &[(&str, i64)]) {
    yard.order(0, FleetCommand::Update(lease, RequestId(request), fields(of)));
}

fn merge(yard: &mut Yard, lease: LeaseId, request: u64, of: &[(&str, i64)]) {
    yard.order(0, FleetCommand::Merge(lease, RequestId(request), fields(of)));
}

fn moment(yard: &mut Yard) {
    yard.run(Duration::from_millis(10));
}

#[test]
fn a_change_that_cant_be_written_is_refused_and_so_is_the_next() {
    let (mut yard, lease) = one();
    let unit = yard.unit(UNIT);
    yard.damaged.insert(unit);
    update(&mut yard, lease, 1, &[("a", 1)]);
    merge(&mut yard, lease, 2, &[("b", 1)]);
    moment(&mut yard);
    assert_eq!(yard.answers, [(1, "failed"), (2, "failed")]);
    yard.damaged.clear();
    update(&mut yard, lease, 3, &[("c", 1)]);
    moment(&mut yard);
    assert_eq!(yard.answers[2..], [(3, "updated")]);
}

#[test]
fn s4_changes_that_come_at_once_are_written_in_two_and_answered_each() {
    let (mut yard, lease) = one();
    let writes = yard.calls.writes;
    update(&mut yard, lease, 1, &[("a", 1), ("b", 1)]);
    merge(&mut yard, lease, 2, &[("a", 2)]);
    merge(&mut yard, lease, 3, &[("c", 3)]);
    assert_eq!(yard.answers, [], "nothing is written yet");
    moment(&mut yard);
    assert_eq!(yard.answers, [(1, "updated"), (2, "updated"), (3, "updated")]);
    let all = fields(&[("a", 2), ("b", 1), ("c", 3)]);
    assert_eq!((yard.shows(UNIT).1, &yard.told_fields), (all.clone(), &all));
    assert_eq!(yard.calls.writes - writes, 2);
    update(&mut yard, lease, 4, &[("x", 1)]);
    merge(&mut yard, lease, 5, &[("y", 1)]);
    update(&mut yard, lease, 6, &[("z", 1)]);
    moment(&mut yard);
    assert_eq!(yard.answers[3..], [(4, "updated"), (5, "updated"), (6, "updated")]);
    assert_eq!((yard.shows(UNIT).1, &yard.told_fields), (fields(&[("z", 1)]), &fields(&[("z", 1)])));
}

#[test]
fn s4_an_end_is_answered_after_the_change_under_way_and_what_waits_is_not_written() {
    for how in ["finish", "decline", "hand"] {
        let (mut yard, lease) = one();
        yard.join(About::default());
        yard.run(TTL);
        update(&mut yard, lease, 1, &[("a", 1)]);
        update(&mut yard, lease, 2, &[("a", 2)]);
        yard.end_work(0, lease);
        let request = RequestId(3);
        yard.order(
            0,
            match how {
                "finish" => FleetCommand::Finish(lease, request, None),
                "decline" => FleetCommand::Decline(lease, request),
                _ => FleetCommand::HandTo(lease, request, HolderId::new("w001").unwrap()),
            },
        );
        update(&mut yard, lease, 4, &[("a", 4)]);
        yard.order(0, FleetCommand::Decline(lease, RequestId(5)));
        moment(&mut yard);
        let answers = [(4, "failed"), (5, "failed"), (1, "updated"), (3, "released")];
        assert_eq!(yard.answers, answers, "{how}");
        let status = if how == "finish" { Status::Done } else { Status::Open };
        let (spec, shown) = yard.shows(UNIT);
        assert_eq!(spec.retry.map(|retry| retry.failures), (how == "decline").then_some(1), "{how}");
        let spec = UnitSpec { retry: None, ..spec };
        assert_eq!((spec, shown), (UnitSpec { status, ..UnitSpec::default() }, fields(&[("a", 1)])), "{how}");
        update(&mut yard, lease, 6, &[("a", 6)]);
        yard.order(0, FleetCommand::Finish(lease, RequestId(7), None));
        yard.run(TTL);
        assert_eq!(yard.answers[4..], [(7, "not ours")], "{how}");
        assert_eq!(yard.shows(UNIT).1, fields(&[("a", 1)]), "{how}");
    }
}

#[test]
fn s4_what_waits_when_a_worker_stops_is_not_written_and_is_no_mistake() {
    let (mut yard, lease) = one();
    update(&mut yard, lease, 1, &[("a", 1)]);
    update(&mut yard, lease, 2, &[("a", 2)]);
    yard.end_work(0, lease);
    yard.order(0, FleetCommand::Stop);
    moment(&mut yard);
    assert_eq!(yard.answers, [(1, "updated")], "the end of the unit answers the other");
    assert_eq!(yard.shows(UNIT).1, fields(&[("a", 1)]));
}

#[test]
fn a_finish_that_is_refused_changes_nothing() {
    let (mut yard, lease) = one();
    let bad = Metadata::from([(RESERVED.to_owned(), Value::Null)]);
    yard.order(0, FleetCommand::Finish(lease, RequestId(1), Some(bad.clone())));
    yard.order(0, FleetCommand::Update(lease, RequestId(2), bad.clone()));
    yard.order(0, FleetCommand::Merge(lease, RequestId(3), bad));
    merge(&mut yard, lease, 4, &[("a", 1)]);
    moment(&mut yard);
    assert_eq!(yard.answers, [(1, "failed"), (2, "failed"), (3, "failed"), (4, "updated")]);
    assert_eq!(yard.shows(UNIT), (UnitSpec::default(), fields(&[("a", 1)])), "it is open, and ours");
    yard.end_work(0, lease);
    yard.order(0, FleetCommand::Finish(lease, RequestId(5), Some(fields(&[("b", 1)]))));
    moment(&mut yard);
    assert_eq!(yard.answers[4..], [(5, "released")]);
    assert_eq!((yard.shows(UNIT).0.status, yard.shows(UNIT).1), (Status::Done, fields(&[("b", 1)])));
}

#[test]
fn s4_what_outsiders_write_stays_unless_it_is_replaced() {
    let (mut yard, lease) = one();
    let heavy = UnitSpec { weight: 7, ..UnitSpec::default() };
    merge(&mut yard, lease, 1, &[("a", 1)]);
    moment(&mut yard);
    yard.write_over(UNIT, &heavy, fields(&[("a", 1), ("x", 1)]));
    merge(&mut yard, lease, 2, &[("a", 2)]);
    moment(&mut yard);
    assert_eq!(yard.shows(UNIT), (heavy.clone(), fields(&[("a", 2), ("x", 1)])));
    yard.write_over(UNIT, &heavy, fields(&[("a", 2), ("y", 1)]));
    yard.end_work(0, lease);
    yard.order(0, FleetCommand::Finish(lease, RequestId(3), None));
    moment(&mut yard);
    let done = UnitSpec { status: Status::Done, ..heavy };
    assert_eq!(yard.shows(UNIT), (done, fields(&[("a", 2), ("y", 1)])));
}

#[test]
fn s4_of_two_changes_that_wait_the_later_one_is_written() {
    let (mut yard, lease) = one();
    update(&mut yard, lease, 1, &[("a", 1)]);
    merge(&mut yard, lease, 2, &[("b", 2), ("c", 2)]);
    merge(&mut yard, lease, 3, &[("b", 3)]);
    moment(&mut yard);
    assert_eq!(yard.shows(UNIT).1, fields(&[("a", 1), ("b", 3), ("c", 2)]));
}
