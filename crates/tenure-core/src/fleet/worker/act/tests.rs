//! Plan: what a plan comes to for one worker: what it counts, whom it tells, what it waits for, why a unit has to go; what it makes of a unit
//! that it has got, or that is gone.
use super::*;
use crate::fleet::worker::Drains;
use crate::fleet::worker::alone::*;
use crate::values::record::Attachment;

#[test]
fn a_plan_is_summed_up_by_what_comes_and_what_goes() {
    let mut worker = worker(2);
    has(&mut worker, 0, Stage::Held, Some(0));
    has(&mut worker, 1, Stage::Held, Some(0));
    has(&mut worker, 2, Stage::Draining, Some(1));
    let mut plan = vec![
        (0, Owner::Worker(session(0)), Ok(0)),
        (1, Owner::Worker(session(0)), Ok(1)),
        (2, Owner::Worker(session(0)), Ok(1)),
        (3, Owner::Missing((*vacant()).into()), Ok(0)),
        (4, Owner::Missing((*vacant()).into()), Ok(1)),
        (5, Owner::Worker(session(1)), Ok(0)),
        (6, Owner::Worker(session(2)), Ok(0)),
        (7, Owner::Worker(session(1)), Ok(1)),
    ];
    plan.extend((8..11).map(|n| (n, Owner::Nobody((*vacant()).into()), Ok(0))));
    let summary = follow(&mut worker, 100, plan);
    assert_eq!((summary.incoming, summary.outgoing), (6, 1));
    assert_eq!(*worker.awaited, BTreeSet::from([unit(5), unit(6)]));
    assert!((8..11).all(|n| worker.own.contains_key(&unit(n))), "it claims what is free");
}

#[test]
fn only_what_is_planned_for_this_worker_is_in_doubt() {
    for (target, span) in [(Ok(0), 64), (Ok(1), 32), (Err(Uncovered::NoRoom), 32)] {
        let mut worker = worker(1);
        let misses = |worker: &mut FleetWorker, secs| {
            worker.advance.end();
            worker.try_unit(at(secs), unit(0), None);
            worker.try_unit(at(secs), unit(0), None);
            let lease = worker.own.first_key_value().unwrap().1.lease;
            worker.missed(at(secs), lease);
            assert!(worker.own.is_empty() && worker.own.unit_of(lease).is_none(), "it was claimed once");
            worker.doubts.wake_at()
        };
        assert_eq!(misses(&mut worker, 100), Some(at(132).held));
        follow(&mut worker, 120, vec![(0, Owner::Outsider, target)]);
        assert_eq!(misses(&mut worker, 200), Some(at(200 + span).held), "{target:?}");
    }
}

#[test]
fn each_unit_that_goes_is_told_why() {
    let why = |target, leaving| {
        let mut worker = worker(1);
        worker.life.leaving = leaving;
        has(&mut worker, 0, Stage::Held, Some(0));
        follow(&mut worker, 100, vec![(0, Owner::Worker(session(0)), target)]);
        worker.own[&unit(0)].goes.clone()
    };
    assert_eq!(why(Ok(0), false), None);
    assert_eq!(why(Ok(0), true), None);
    assert_eq!(why(Ok(1), false), Some(Reason::Moved(holder(1))));
    assert_eq!(why(Ok(1), true), Some(Reason::Leaving));
    let none = Uncovered::NoLabels;
    assert_eq!(why(Err(none), false), Some(Reason::Uncovered(none)));
    assert_eq!(why(Err(none), true), Some(Reason::Leaving));
}

#[test]
fn what_was_awaited_is_claimed_once_nobody_who_lives_has_it() {
    let attachment = |n, fence| Some(Some(Attachment { session: session(n), fence: Fence(fence) }));
    let done = UnitSpec { status: Status::Done, ..UnitSpec::default() };
    for (attachment, spec, claims, waits) in [
        (None, UnitSpec::default(), true, false),
        (Some(None), UnitSpec::default(), false, true),
        (attachment(1, 7), UnitSpec::default(), false, true),
        (attachment(1, 6), UnitSpec::default(), true, false),
        (attachment(5, 7), UnitSpec::default(), true, false),
        (None, done.clone(), false, false),
        (attachment(1, 7), done, false, false),
    ] {
        let mut worker = worker(2);
        worker.awaited.insert(unit(0));
        let says = format!("{attachment:?} {spec:?}");
        worker.saw_awaited(at(100), unit(0), record(attachment, &spec));
        let found = (worker.own.contains_key(&unit(0)), worker.awaited.contains(&unit(0)));
        assert_eq!(found, (claims, waits), "{says}");
    }
}

/// What it was given, what it is planned for, and so on; whether it is told of the unit, and when it drains it.
#[test]
fn what_was_got_is_assigned_or_goes_on_to_whom_it_is_planned_for() {
    let open = UnitSpec::default;
    let done = || UnitSpec { status: Status::Done, ..open() };
    for (transferee, given, leaving, spec, stays) in [
        (Some(0), false, false, open(), true),
        (Some(0), false, false, done(), false),
        (None, false, false, open(), false),
        (Some(0), false, true, open(), false),
        (Some(1), false, false, open(), false),
        (Some(1), true, false, open(), true),
        (Some(1), true, true, open(), false),
    ] {
        for drains in [None, Some(at(90).held)] {
            let mut worker = worker(1);
            let lease = has(&mut worker, 0, Stage::Acquiring, transferee);
            let own = worker.own.get_mut(&unit(0)).unwrap();
            (own.told, own.given) = (false, given);
            worker.life.leaving = leaving;
            worker.drains = Drains::planned(drains, false);
            let metadata = spec.compose(Metadata::new()).unwrap();
            worker.acquired(at(100), lease, Fence(4), metadata);
            let assigned = told(&mut worker).iter().any(|told| matches!(told, FleetNotice::Assigned { .. }));
            let says = format!("{transferee:?} {given} {leaving} {spec:?}");
            assert_eq!(assigned, stays, "{says}");
            let goes = (stays && given).then_some(at(103).held);
            assert_eq!(worker.drains.planned_for(), drains.or(goes), "{says}");
        }
    }
}

#[test]
fn a_claim_that_comes_to_nothing_is_over() {
    let mut worker = worker(1);
    let lease = has(&mut worker, 0, Stage::Acquiring, Some(0));
    worker.vanished(lease);
    assert!(worker.own.is_empty() && worker.awaited.is_empty(), "its record is gone");
    let lease = has(&mut worker, 0, Stage::Acquiring, Some(0));
    worker.failed(at(100), lease, StoreError::foreign("damaged"));
    assert!(worker.own.is_empty() && worker.awaited.is_empty(), "looks would not show it");
    assert_eq!(worker.doubts.list_at, Some(at(103).held), "it is tried again");
    assert_eq!(told(&mut worker), [FleetNotice::Trouble(StoreError::foreign("damaged"))]);
}

#[test]
fn who_gets_a_unit_is_told_how_it_came_there() {
    let gone = Attachment { session: session(9), fence: Fence(7) };
    let of_gone = Box::new(record(Some(Some(gone)), &UnitSpec::default()));
    for (seen, how) in [(None, Taken::Passed), (Some(vacant()), Taken::Vacant), (Some(of_gone), Taken::Gone)]
    {
        let mut worker = up();
        worker.try_unit(at(100), unit(0), seen);
        let lease = worker.own[&unit(0)].lease;
        worker.acquired(at(100), lease, Fence(4), UnitSpec::default().compose(Metadata::new()).unwrap());
        let told = told(&mut worker).into_iter().find_map(|told| match told {
            FleetNotice::Assigned { how, .. } => Some(how),
            _ => None,
        });
        assert_eq!(told, Some(how));
    }
}

#[test]
fn who_was_passed_what_it_can_never_bear_gives_it_back() {
    for (weight, most, stays) in [(5, 10, true), (5, 4, false), (5, 5, true), (5, u64::MAX, true)] {
        let mut worker = led(1, true);
        // By itself it fits, and the next plan moves something else.
        has(&mut worker, 1, Stage::Held, Some(0));
        worker.env.options.about.weight = most;
        let lease = has(&mut worker, 0, Stage::Acquiring, Some(0));
        let own = worker.own.get_mut(&unit(0)).unwrap();
        (own.given, own.letter, own.told) = (true, true, false);
        let spec = UnitSpec { weight, ..UnitSpec::default() };
        worker.acquired(at(100), lease, Fence(9), spec.compose(Metadata::new()).unwrap());
        let assigned = told(&mut worker).iter().any(|told| matches!(told, FleetNotice::Assigned { .. }));
        assert_eq!(assigned, stays, "{weight} of {most}");
    }
}
