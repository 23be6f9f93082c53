//! Plan: when the others hear of a unit that was given up, and of one that was left to expire; whom units are passed to.
use super::*;
use crate::fleet::talk::FleetCommand;
use crate::fleet::worker::alone::*;
use crate::fleet::worker::choice::EndedUnit;
use crate::op::{Answer, Event, Machine, Op, Outcome, Request};

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
        assert_eq!(worker.advance.wanted_at(), Some(at(secs).held), "{done} {transferee:?} {chosen} {going}");
        assert_eq!(told(&mut worker), [FleetNotice::Released(lease, Some(RequestId(5)), true)]);
        assert!(!worker.own.contains_key(&unit(0)));
    }
}

#[test]
fn the_others_hear_of_the_last_unit_of_who_leaves_at_once() {
    for (transferee, left, secs) in
        [(None, false, 100), (Some(1), false, 100), (None, true, 108), (Some(1), true, 104)]
    {
        let mut worker = worker(1);
        worker.life.leaving = true;
        let lease = has(&mut worker, 0, Stage::Going, transferee);
        if left {
            has(&mut worker, 1, Stage::Held, Some(0));
        }
        worker.released(at(100), lease, true);
        assert_eq!(worker.advance.wanted_at(), Some(at(secs).held), "{transferee:?} {left}");
    }
}

#[test]
fn a_unit_is_handed_to_whom_a_user_names_if_that_one_stays() {
    for (to, leaving, goes) in [(1, false, true), (2, false, true), (1, true, false), (3, false, false)] {
        let mut worker = worker(2);
        worker.roster.get_mut(&session(1)).unwrap().about.leaving = leaving;
        let lease = has(&mut worker, 0, Stage::Held, Some(0));
        worker.choose(at(100), lease, RequestId(4), EndedUnit::HandedTo(holder(to)));
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
    worker.roster.get_mut(&session(1)).unwrap().about.leaving = true;
    for (transferee, passed) in [(1, false), (2, true)] {
        let lease = has(&mut worker, transferee, Stage::Held, Some(transferee));
        assert_eq!(
            worker.transferee(lease).map(|transferee| transferee.holder),
            passed.then(|| holder(transferee))
        );
    }
}

/// Lets so many seconds go by, with all writes won. When it has written this unit.
fn goes_on(worker: &mut FleetWorker, secs: std::ops::Range<u64>, n: usize) -> Option<u64> {
    for at_secs in secs {
        let mut asked = worker.step(at(at_secs), Event::Wake).requests;
        while let Some(Request { id, op, .. }) = asked.pop() {
            let Op::Write(write) = op else { continue };
            let won = Outcome::Won { version: write.record.version(), fence: write.record.fence };
            asked.extend(worker.step(at(at_secs), Event::Answer(id, Ok(Answer::Write(won)))).requests);
            if write.key == unit(n) {
                return Some(at_secs);
            }
        }
    }
    None
}

#[test]
fn l3_the_others_hear_of_a_unit_that_was_left_to_expire_whoever_it_was_planned_for() {
    for transferee in [0, 1] {
        let mut worker = led(1, false);
        let lease = gets(&mut worker, 0);
        worker.own.get_mut(&unit(0)).unwrap().transferee = Some(session(transferee));
        worker.step(at(2), Event::Command(FleetCommand::Lapse(lease)));
        assert!(!worker.own.contains_key(&unit(0)));
        // The others heard that it was given up, and their next plan left it where its record showed it.
        worker.advance.end();
        let vacated = goes_on(&mut worker, 2..60, 0);
        assert_eq!(vacated, Some(50), "{transferee}");
        worker.tell_vacated(at(50));
        assert_eq!(worker.advance.wanted_at(), Some(at(50).held), "{transferee}");
    }
}
