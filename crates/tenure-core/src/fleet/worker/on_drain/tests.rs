//! Plan: when what has to go is drained, and until when that may last; what somebody asks for goes whatever is planned; what was drained
//! stays if it is planned so by then.
use super::*;
use crate::fleet::worker::Drains;
use crate::fleet::worker::alone::*;
use crate::fleet::worker::listed::Owner;
use crate::fleet::worker::listing::Lister;
use crate::values::fence::Fence;
use crate::values::time::Tick;

#[test]
fn what_goes_is_drained_once_the_others_have_made_the_same_plan() {
    let mut worker = worker(1);
    has(&mut worker, 0, Stage::Held, Some(0));
    let plan = |target| vec![(0, Owner::Worker(session(0)), target)];
    assert_eq!(follow(&mut worker, 100, plan(Ok(0))).outgoing, 0);
    assert_eq!(worker.drains.wake_at(&worker.life), None);
    follow(&mut worker, 101, plan(Ok(1)));
    assert_eq!(worker.drains.wake_at(&worker.life), Some(at(104).held));
    follow(&mut worker, 103, plan(Ok(1)));
    assert_eq!(worker.drains.wake_at(&worker.life), Some(at(104).held), "another plan puts nothing off");
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
        worker.lister = Lister::rested(Fence(listed), Tick(0), Tick::NEVER);
        worker.own.plan_from(at(planned).held);
        worker.look.answered_from(at(seen).held);
        worker.look.plan(at(900).held);
        worker.drains = Drains::planned(Some(at(100).held), false);
        worker.wake_drains(at(99));
        assert_eq!(
            (worker.look.next(), worker.drains.wake_at(&worker.life)),
            (at(900).held, Some(at(100).held))
        );
        worker.wake_drains(at(101));
        assert_eq!(worker.look.next(), at(101).held, "it looks whether the plan is the newest");
        worker.look.plan(at(900).held);
        assert_eq!(worker.drains.wake_at(&worker.life), None, "the look will wake it");
        let says = format!("{seen} {listed} {planned}");
        let draining = FleetNotice::Draining(LeaseId(1), Reason::Moved(holder(1)), at(106).held);
        assert_eq!(told(&mut worker), if drains { vec![draining] } else { vec![] }, "{says}");
        assert_eq!(worker.drains.planned_for(), if drains { None } else { Some(at(100).held) }, "{says}");
        worker.wake_drains(at(102));
        assert_eq!(worker.look.next(), at(900).held, "once is enough: {says}");
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
fn a_drain_says_until_when_it_may_last() {
    let mut worker = worker(1);
    let lease = has(&mut worker, 0, Stage::Held, Some(1));
    worker.asked(at(100), lease, Reason::Asked);
    let drains = FleetNotice::Draining(lease, Reason::Asked, at(105).held);
    assert!(told(&mut worker).contains(&drains));
}

#[test]
fn what_was_drained_stays_if_the_plan_has_changed_its_mind() {
    for (transferee, leaving, stays) in
        [(Some(0), false, true), (Some(0), true, false), (Some(1), false, false)]
    {
        let mut worker = worker(1);
        let lease = has(&mut worker, 0, Stage::Draining, transferee);
        worker.life.leaving = leaving;
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
fn what_somebody_asked_for_goes_whatever_is_planned_meanwhile() {
    for reason in [Reason::Asked, Reason::Revoked] {
        let mut worker = worker(1);
        let lease = has(&mut worker, 0, Stage::Held, Some(0));
        worker.asked(at(100), lease, reason.clone());
        let own = |worker: &FleetWorker| {
            (worker.own[&unit(0)].transferee.clone(), worker.own[&unit(0)].goes.clone())
        };
        assert_eq!(own(&worker), (None, Some(reason.clone())));
        follow(&mut worker, 101, vec![(0, Owner::Worker(session(0)), Ok(0))]);
        assert_eq!(own(&worker), (None, Some(reason)), "the plan would have it stay");
        assert_eq!(worker.own[&unit(0)].stage, Stage::Draining);
    }
}
