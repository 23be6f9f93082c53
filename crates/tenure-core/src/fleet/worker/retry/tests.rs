//! Plan: as often as there are workers a unit goes on at once, then it rests longer and longer, every other time; only those come
//! next who may have it and want it, in order, and nobody where it is pinned; who hears no letters is told as all are; whoever
//! gets it goes by what its record says, for no longer than the longest rest; the last one that leaves writes the count, too. A unit whose body may go on
//! rests under no tenure.
use super::*;
use crate::fleet::worker::alone::*;
use crate::fleet::{About, FleetCommand, RequestId};
use crate::op::{Event, Machine};
use crate::values::fence::Fence;
use crate::values::key::HolderId;
use crate::values::metadata::Metadata;
use crate::values::time::Wall;

#[test]
fn a_unit_goes_around_at_once_and_then_rests_longer_and_longer() {
    let rests = |workers: usize| {
        let mut has_rested = false;
        let mut next = |failures| {
            let rests = rest(failures, workers, has_rested);
            has_rested = rests.is_some();
            rests.unwrap_or(0)
        };
        (1..=20).map(&mut next).collect::<Vec<_>>()
    };
    assert_eq!(rests(3)[..14], [0, 0, 1, 0, 2, 0, 4, 0, 8, 0, 16, 0, 32, 0]);
    assert_eq!(rests(3)[14..], [32, 0, 32, 0, 32, 0]);
    assert_eq!(rests(1)[..6], [1, 1, 2, 2, 4, 4]);
    assert_eq!((rests(8), rests(1000)[7]), (rests(1000), 1), "so many at the most are tried at once");
    assert_eq!((rest(u32::MAX, 1000, true), rest(u32::MAX, 1000, false)), (None, Some(32)));
}

#[test]
fn those_come_next_who_may_have_it_in_the_order_of_their_turns() {
    let mut worker = worker(7);
    worker.env.me = session(4);
    let mut about = |n: usize, about: About, planned| {
        let peer = worker.roster.get_mut(&session(n)).unwrap();
        (peer.about, peer.planned) = (about, planned);
    };
    let may = || About { labels: named(&["x", "y"]), ..About::default() };
    about(1, may(), 9);
    about(2, About { declines: named(&["u0"]), ..may() }, 0);
    about(3, About { labels: named(&["y"]), ..may() }, 0);
    about(5, About { units: 3, ..may() }, 3);
    about(6, About { units: 3, ..may() }, 2);
    about(7, About { leaving: true, ..may() }, 0);
    let spec = |pin: Option<HolderId>| UnitSpec { needs: named(&["x"]), pin, ..UnitSpec::default() };
    assert_eq!(worker.next_in_turn(&unit(0), &spec(None)), [session(6), session(1)]);
    assert_eq!(worker.next_in_turn(&unit(0), &spec(Some(holder(6)))), [session(6), session(1)]);
    assert_eq!(worker.next_in_turn(&unit(0), &spec(Some(holder(0)))), Vec::<Key>::new());
}

/// The worker 0 gives up a unit that has failed so often, with one other who hears letters or not.
fn declined(failures: u32, letters: bool) -> (FleetWorker, LeaseId) {
    let mut worker = worker(1);
    worker.roster.get_mut(&session(1)).unwrap().letters = letters;
    let lease = has(&mut worker, 0, Stage::Held, Some(0));
    let own = worker.own.get_mut(&unit(0)).unwrap();
    own.since = at(99).held;
    own.spec.retry = Some(Retry { failures, since: Wall(0), rest: Duration::from_secs(1) });
    worker.decline(at(100), lease, MayStay::Yes);
    (worker, lease)
}

#[test]
fn one_is_told_by_a_letter_and_who_hears_none_as_all_are() {
    for letters in [true, false] {
        // Its lease is none that the holder knows, so what became of it is told at once.
        let (mut worker, _) = declined(2, letters);
        assert_eq!(worker.own.len(), 0);
        assert_eq!(worker.advance.wanted_at(), Some(at(100).held), "it was not passed on");
        worker.advance.end();
        let lease = has(&mut worker, 0, Stage::Going, Some(1));
        worker.own.get_mut(&unit(0)).unwrap().chosen = true;
        if letters {
            worker.retries.passed.insert(unit(0), session(1));
        }
        worker.released(at(100), lease, true);
        assert_eq!(worker.advance.wanted_at(), (!letters).then(|| at(100).held));
        assert_eq!(worker.letters.are_owed(), letters);
    }
}

#[test]
fn whoever_gets_it_goes_by_its_record_and_never_waits_for_long() {
    for (since, secs, rests) in
        [(100, 40, 40), (90, 40, 30), (60, 40, 0), (100, 48 * 99, 48 * 32), (9_000, 40, 40)]
    {
        let mut worker = worker(1);
        let lease = has(&mut worker, 0, Stage::Acquiring, Some(0));
        worker.own.get_mut(&unit(0)).unwrap().told = false;
        let retry = Retry { failures: 7, since: Wall(since * 1000), rest: Duration::from_secs(secs) };
        let spec = UnitSpec { retry: Some(retry), ..UnitSpec::default() };
        worker.acquired(at(100), lease, Fence(4), spec.compose(Metadata::new()).unwrap());
        let assigned = |told: &FleetNotice| matches!(told, FleetNotice::Assigned { .. });
        assert_eq!(told(&mut worker).iter().any(assigned), rests == 0, "{since} {secs}");
        worker.life.valid = at(99_999).held;
        let wakes = if rests == 0 { 100 + 48 * 4 } else { 100 + rests };
        assert_eq!(worker.retries_wake_at(at(100)), Some(at(wakes).held), "{since} {secs}");
        worker.wake_retries(at(wakes));
        assert_eq!(told(&mut worker).iter().any(assigned), rests > 0, "{since} {secs}");
    }
}

#[test]
fn s6_what_is_being_given_up_is_not_begun_when_its_rest_is_over() {
    let begins = |stage| {
        let mut worker = worker(1);
        has(&mut worker, 0, stage, Some(0));
        worker.own.get_mut(&unit(0)).unwrap().told = false;
        worker.retries.rests.insert(unit(0), at(200).held);
        worker.life.valid = at(9999).held;
        worker.wake_retries(at(200));
        assert_eq!(worker.retries_wake_at(at(200)), None);
        told(&mut worker).iter().any(|told| matches!(told, FleetNotice::Assigned { .. }))
    };
    assert!(begins(Stage::Held));
    assert!(!begins(Stage::Going));
}

#[test]
fn what_rests_is_over_to_its_users_and_goes_without_a_drain() {
    let mut worker = worker(1);
    let lease = has(&mut worker, 0, Stage::Held, Some(0));
    worker.own.get_mut(&unit(0)).unwrap().told = false;
    worker.retries.rests.insert(unit(0), at(900).held);
    let told = worker.step(at(100), Event::Command(FleetCommand::Drained(lease))).notices;
    assert_eq!(told, [FleetNotice::Released(lease, None, false)]);
    assert!(worker.own.contains_key(&unit(0)));
    worker.asked(at(100), lease, crate::fleet::Reason::Asked);
    assert!(worker.own.is_empty() && worker.retries.rests.is_empty());
}

#[test]
fn the_last_worker_that_leaves_writes_how_often_a_unit_has_failed() {
    let mut worker = up();
    let lease = gets(&mut worker, 0);
    worker.life.leaving = true;
    worker.command(at(2), FleetCommand::Decline(lease, RequestId(1)));
    worker.choose_from_roster(at(2));
    let (_, left) = writes_unit(&mut worker, 0).unwrap();
    assert_eq!(left.record.tenure, None);
    let (spec, _) = UnitSpec::parse(left.record.metadata).unwrap();
    assert_eq!(spec.retry, Some(Retry { failures: 1, since: at(2).wall, rest: Duration::ZERO }));
}

#[test]
fn s2_a_unit_whose_body_may_go_on_is_vacated_and_rests_under_no_tenure() {
    let mut worker = up();
    let lease = gets(&mut worker, 0);
    worker.command(at(2), FleetCommand::Abandon(lease, RequestId(1)));
    worker.choose_from_roster(at(2));
    let (_, left) = writes_unit(&mut worker, 0).unwrap();
    assert_eq!(left.record.tenure, None);
    let (spec, _) = UnitSpec::parse(left.record.metadata).unwrap();
    let rest = worker.env.ttl.duration();
    assert_eq!(spec.retry, Some(Retry { failures: 1, since: at(2).wall, rest }), "whoever has it next waits");
}

#[test]
fn s2_a_unit_whose_body_may_go_on_rests_with_the_next_worker() {
    let mut worker = led(1, true);
    let lease = gets(&mut worker, 0);
    let own = worker.own.get_mut(&unit(0)).unwrap();
    let fence = own.fence;
    own.spec.retry = Some(Retry { failures: 1, since: Wall(0), rest: Duration::ZERO });
    worker.command(at(2), FleetCommand::Abandon(lease, RequestId(1)));
    let (_, passed) = writes_unit(&mut worker, 0).unwrap();
    let attachment = passed.record.tenure.unwrap().attachment.unwrap();
    assert!(attachment.session == session(1) && passed.record.fence > fence);
    let (spec, _) = UnitSpec::parse(passed.record.metadata).unwrap();
    let rest = worker.env.ttl.duration();
    assert_eq!(spec.retry, Some(Retry { failures: 2, since: at(2).wall, rest }), "each of two has tried it");
}

#[test]
fn s2_a_unit_that_is_planned_to_stay_is_vacated_all_the_same_if_its_body_may_go_on() {
    let mut worker = led(1, false);
    let lease = gets(&mut worker, 0);
    let me = worker.env.me.clone();
    let own = worker.own.get_mut(&unit(0)).unwrap();
    (own.stage, own.transferee) = (Stage::Draining, Some(me));
    worker.command(at(2), FleetCommand::Abandon(lease, RequestId(1)));
    // At once: nobody has to be listed for that.
    let (_, left) = writes_unit(&mut worker, 0).unwrap();
    assert_eq!(left.record.tenure, None);
    let (spec, _) = UnitSpec::parse(left.record.metadata).unwrap();
    assert_eq!(spec.retry, None, "what was to end has not failed");
}
