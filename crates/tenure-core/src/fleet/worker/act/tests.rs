//! Plan: what a plan comes to for one worker: what it counts, whom it tells, what it waits for; when it drains, and why; whom it
//! passes units to; what it makes of a unit that it has got, that is gone, or that somebody wants.
use super::*;
use crate::fleet::part::Shows;
use crate::fleet::worker::alone::*;
use crate::fleet::worker::raise::Bump;

/// Follows a plan of units, with their owners and the workers that they are planned for.
fn follow(worker: &mut Worker, secs: u64, plan: Vec<(usize, Owner, Result<usize, Uncovered>)>) -> Summary {
    let targets = plan.iter().map(|(n, _, target)| (unit(*n), target.map(session))).collect();
    let shows = Shows::of(&vacant().record);
    let unit = |(n, owner, _)| (unit(n), Unit { spec: UnitSpec::default().into(), owner, held: None, shows });
    let units = plan.into_iter().map(unit).collect();
    worker.follow_plan(at(secs), units, targets, Summary::default());
    let planned = |notice| match notice {
        FleetNotice::Planned(summary) => Some(*summary),
        _ => None,
    };
    told(worker).into_iter().find_map(planned).unwrap()
}

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
    assert_eq!(worker.awaited, BTreeSet::from([unit(5), unit(6)]));
    assert!((8..11).all(|n| worker.own.contains_key(&unit(n))), "it claims what is free");
}

#[test]
fn only_what_is_planned_for_this_worker_is_in_doubt() {
    for (target, span) in [(Ok(0), 64), (Ok(1), 32), (Err(Uncovered::NoRoom), 32)] {
        let mut worker = worker(1);
        let misses = |worker: &mut Worker, secs| {
            worker.bump = Bump::Idle;
            worker.try_unit(at(secs), unit(0), None);
            worker.try_unit(at(secs), unit(0), None);
            let lease = *worker.units.first_key_value().unwrap().0;
            worker.missed(at(secs), lease);
            assert!(worker.units.is_empty(), "it was claimed once");
            worker.doubts.wake_at()
        };
        assert_eq!(misses(&mut worker, 100), Some(at(132).held));
        follow(&mut worker, 120, vec![(0, Owner::Outsider, target)]);
        assert_eq!(misses(&mut worker, 200), Some(at(200 + span).held), "{target:?}");
    }
}

#[test]
fn what_goes_is_drained_once_the_others_have_made_the_same_plan() {
    let mut worker = worker(1);
    has(&mut worker, 0, Stage::Held, Some(0));
    let plan = |target| vec![(0, Owner::Worker(session(0)), target)];
    assert_eq!(follow(&mut worker, 100, plan(Ok(0))).outgoing, 0);
    assert_eq!(worker.drains_at(), None);
    follow(&mut worker, 101, plan(Ok(1)));
    assert_eq!(worker.drains_at(), Some(at(104).held));
    follow(&mut worker, 103, plan(Ok(1)));
    assert_eq!(worker.drains_at(), Some(at(104).held), "another plan puts nothing off");
}

#[test]
fn each_unit_that_goes_is_told_why() {
    let why = |target, leaving| {
        let mut worker = worker(1);
        worker.leaving = leaving;
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
fn a_drain_waits_for_the_newest_plan_or_for_one_that_was_made_since() {
    for (seen, listed, planned, drains) in [
        (100, 7, 50, true),
        (99, 7, 50, false),
        (100, 6, 50, false),
        (99, 6, 99, false),
        (99, 6, 100, true),
        (99, 6, 101, true),
    ] {
        let mut worker = led(1, true);
        has(&mut worker, 0, Stage::Held, Some(1));
        has(&mut worker, 1, Stage::Held, Some(0));
        (worker.listed, worker.planned_from) = (Some(Fence(listed)), at(planned).held);
        (worker.look.seen_from, worker.look.next) = (at(seen).held, at(900).held);
        worker.drain_at = Some(at(100).held);
        worker.wake_drains(at(99));
        assert_eq!((worker.look.next, worker.drains_at()), (at(900).held, Some(at(100).held)));
        worker.wake_drains(at(101));
        assert_eq!(worker.look.next, at(101).held, "it looks whether the plan is the newest");
        worker.look.next = at(900).held;
        assert_eq!(worker.drains_at(), None, "the look will wake it");
        let says = format!("{seen} {listed} {planned}");
        let draining = FleetNotice::Draining(LeaseId(1), Reason::Moved(holder(1)), at(106).held);
        assert_eq!(told(&mut worker), if drains { vec![draining] } else { vec![] }, "{says}");
        assert_eq!(worker.drain_at, if drains { None } else { Some(at(100).held) }, "{says}");
        worker.wake_drains(at(102));
        assert_eq!(worker.look.next, at(900).held, "once is enough: {says}");
    }
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
            worker.leaving = leaving;
            worker.drain_at = drains;
            let metadata = spec.compose(Metadata::new()).unwrap();
            worker.acquired(at(100), lease, Fence(4), metadata);
            let assigned = told(&mut worker).iter().any(|told| matches!(told, FleetNotice::Assigned { .. }));
            let says = format!("{transferee:?} {given} {leaving} {spec:?}");
            assert_eq!(assigned, stays, "{says}");
            let goes = (stays && given).then_some(at(103).held);
            assert_eq!(worker.drain_at, drains.or(goes), "{says}");
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
fn the_others_hear_of_a_unit_that_was_given_up_as_soon_as_they_need_to() {
    for (done, transferee, chosen, going, secs) in [
        (true, Some(0), false, false, 116),
        (false, None, false, false, 108),
        (false, Some(0), false, false, 108),
        (false, Some(1), true, false, 100),
        (false, Some(1), false, false, 104),
        (false, Some(1), false, true, 116),
    ] {
        let mut worker = worker(1);
        let lease = has(&mut worker, 0, Stage::Going, transferee);
        has(&mut worker, 1, Stage::Held, Some(0));
        if going {
            has(&mut worker, 2, Stage::Draining, Some(1));
        }
        let own = worker.own.get_mut(&unit(0)).unwrap();
        own.chosen = chosen;
        own.asked.end = Some(RequestId(5));
        if done {
            own.spec.status = Status::Done;
        }
        worker.released(at(100), lease, true);
        assert_eq!(worker.bump, Bump::At(at(secs).held), "{done} {transferee:?} {chosen} {going}");
        assert_eq!(told(&mut worker), [FleetNotice::Released(lease, Some(RequestId(5)), true)]);
        assert!(!worker.own.contains_key(&unit(0)));
    }
}

#[test]
fn what_somebody_asks_for_is_drained_for_nobody() {
    let mut worker = worker(1);
    let lease = has(&mut worker, 0, Stage::Held, Some(1));
    worker.asked(at(100), lease, Reason::Revoked);
    assert_eq!(told(&mut worker), [FleetNotice::Draining(lease, Reason::Revoked, at(105).held)]);
    assert_eq!((&worker.own[&unit(0)].transferee, worker.own[&unit(0)].stage), (&None, Stage::Draining));
    worker.asked(at(101), lease, Reason::Asked);
    assert_eq!(told(&mut worker), [], "it is drained already");
}

#[test]
fn what_was_drained_stays_if_the_plan_has_changed_its_mind() {
    for (transferee, leaving, stays) in
        [(Some(0), false, true), (Some(0), true, false), (Some(1), false, false)]
    {
        let mut worker = worker(1);
        let lease = has(&mut worker, 0, Stage::Draining, transferee);
        worker.leaving = leaving;
        worker.drained(at(100), lease);
        let told = told(&mut worker);
        let assigned =
            |told: &FleetNotice| matches!(told, FleetNotice::Assigned { lease: on, .. } if *on == lease);
        assert_eq!(told.iter().any(assigned), stays, "{transferee:?} {leaving}: {told:?}");
        assert_eq!(worker.own.get(&unit(0)).is_some_and(|own| own.stage == Stage::Held), stays);
    }
}

#[test]
fn what_somebody_asks_for_while_it_drains_goes_though_the_plan_has_changed_its_mind() {
    for (reason, is_first) in [(Reason::Asked, true), (Reason::Revoked, true), (Reason::Revoked, false)] {
        let mut worker = worker(1);
        let lease = has(&mut worker, 0, Stage::Draining, Some(1));
        let plan = || vec![(0, Owner::Worker(session(0)), Ok(0))];
        if !is_first {
            follow(&mut worker, 99, plan());
        }
        worker.asked(at(100), lease, reason.clone());
        assert_eq!(told(&mut worker), [], "it is drained already");
        follow(&mut worker, 101, plan());
        worker.drained(at(102), lease);
        let told = told(&mut worker);
        assert!(
            !told.iter().any(|told| matches!(told, FleetNotice::Assigned { .. })),
            "{reason:?}: {told:?}"
        );
        assert!(worker.own.get(&unit(0)).is_none_or(|own| own.stage == Stage::Going));
    }
}

#[test]
fn a_unit_is_handed_to_whom_a_user_names_if_that_one_stays() {
    for (to, leaving, goes) in [(1, false, true), (2, false, true), (1, true, false), (3, false, false)] {
        let mut worker = worker(2);
        worker.peers.get_mut(&session(1)).unwrap().about.leaving = leaving;
        let lease = has(&mut worker, 0, Stage::Held, Some(0));
        worker.choose(at(100), lease, RequestId(4), Some(holder(to)));
        worker.choose_from_roster(at(101));
        let told = told(&mut worker);
        let refused = |told: &FleetNotice| matches!(told, FleetNotice::Failed(_, RequestId(4), _));
        assert_eq!(!told.iter().any(refused), goes, "{to} {leaving}: {told:?}");
        assert_eq!(worker.own.get(&unit(0)).is_some_and(|own| own.stage == Stage::Held), !goes);
    }
}

#[test]
fn nothing_is_passed_to_who_leaves() {
    let mut worker = worker(2);
    worker.peers.get_mut(&session(1)).unwrap().about.leaving = true;
    for (transferee, passed) in [(1, false), (2, true)] {
        let lease = has(&mut worker, transferee, Stage::Held, Some(transferee));
        assert_eq!(
            worker.transferee(lease).map(|transferee| transferee.holder),
            passed.then(|| holder(transferee))
        );
    }
}

#[test]
fn what_somebody_asked_for_goes_whatever_is_planned_meanwhile() {
    for reason in [Reason::Asked, Reason::Revoked] {
        let mut worker = worker(1);
        let lease = has(&mut worker, 0, Stage::Held, Some(0));
        worker.asked(at(100), lease, reason.clone());
        let own =
            |worker: &Worker| (worker.own[&unit(0)].transferee.clone(), worker.own[&unit(0)].goes.clone());
        assert_eq!(own(&worker), (None, Some(reason.clone())));
        follow(&mut worker, 101, vec![(0, Owner::Worker(session(0)), Ok(0))]);
        assert_eq!(own(&worker), (None, Some(reason)), "the plan would have it stay");
        assert_eq!(worker.own[&unit(0)].stage, Stage::Draining);
    }
}

#[test]
fn a_drain_says_until_when_it_may_last() {
    let mut worker = worker(1);
    let lease = has(&mut worker, 0, Stage::Held, Some(1));
    worker.asked(at(100), lease, Reason::Asked);
    let drains = FleetNotice::Draining(lease, Reason::Asked, at(105).held);
    assert!(told(&mut worker).contains(&drains));
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
