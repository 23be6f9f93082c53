//! Plan: when a worker reads its part, and which one counts; what it does of it, what it gives up though it does not know of it, and what it
//! leaves alone as units' records show something else by now; whom it tells when it has none, or is overtaken; what is read again after a failure.
use super::*;
use crate::fleet::About;
use crate::fleet::board::{self, ToldPlan};
use crate::fleet::part::{Part, Shows, Task};
use crate::fleet::plan::Uncovered;
use crate::fleet::talk::Reason;
use crate::fleet::unit::{Status, UnitSpec};
use crate::fleet::worker::alone::*;
use crate::fleet::worker::hear::MANY;
use crate::fleet::worker::own::Stage;
use crate::op::Listed;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Record, Stored};
use std::collections::{BTreeMap, BTreeSet};

fn planner() -> Attachment {
    Attachment { session: session(1), fence: Fence(7) }
}

/// The worker 0, whose board tells of this plan of whoever plans, for these workers or for too many to be named.
fn news(worker: &mut FleetWorker, number: u64, told: Option<&[usize]>) {
    let told = told.map(|told| told.iter().map(|n| holder(*n)).collect());
    let mark = ToldPlan { number, told, counts: (3, 9), ttls: (ttl(), ttl()), rest: 1 };
    let seen = worker.board.stored().unwrap().clone();
    let write =
        board::mark(worker.env.board_key.clone(), &seen, &mark, &BTreeSet::new(), Nonce(1), at(0).wall);
    worker.board.see(Some(Stored::new(write.record).versioned(Version(u128::from(number)))));
}

/// Whether it reads its part, at the latest state.
fn reads(worker: &mut FleetWorker) -> bool {
    worker.wake_hearing(at(100));
    let part = fleet().part(&holder(0)).unwrap();
    asked(worker).iter().any(|asked| asked.op == Op::ReadMany(vec![part.clone()], Freshness::Latest))
}

fn listed(found: &[(Key, Stored)]) -> Result<Answer, StoreError> {
    let found = found.iter().cloned();
    Ok(Answer::Listed(found.map(|(key, stored)| Listed { key, stored: Ok(stored) }).collect()))
}

/// A unit's record that shows the tenure or the write with this number.
fn shows(id: u128, attachment: Option<Attachment>) -> Stored {
    let mut stored = record(attachment.map(Some), &UnitSpec::default());
    stored.record.nonce = Nonce(id);
    if let Some(tenure) = &mut stored.record.tenure {
        tenure.id = Nonce(id);
    }
    stored
}

/// It hears of a plan that concerns it, with these tasks for units in these states, whose records show something, if they are read.
fn hears(worker: &mut FleetWorker, part: &Part, units: &[(Key, Stored)]) {
    news(worker, 5, Some(&[0]));
    worker.hearing = Hearing::after(planner(), 4);
    assert!(reads(worker));
    let record = Record { metadata: part.compose(), ..vacant().record };
    worker.heard(at(101), listed(&[(fleet().part(&holder(0)).unwrap(), Stored::new(record))]));
    if worker.hearing.is_reading() {
        worker.heard(at(102), listed(units));
    }
}

fn part(tasks: Vec<(usize, u128, Task)>) -> Part {
    let tasks = tasks.into_iter().map(|(n, id, task)| (format!("u{n}"), (Shows::of_tenure(Nonce(id)), task)));
    let peers = BTreeMap::from([(holder(2), (Fence(7), ttl()))]);
    Part { tasks: tasks.collect(), peers, ..Part::new(planner(), Fence(5)) }
}

#[test]
fn a_part_is_read_if_a_plan_concerns_it_or_the_one_before_was_missed() {
    for (heard, number, told, wants) in [
        (Some(4), 5, Some(&[0, 2][..]), true),
        (Some(4), 5, Some(&[2][..]), false),
        (Some(4), 5, None, true),
        (Some(5), 5, Some(&[0][..]), false),
        (Some(3), 5, Some(&[2][..]), true),
        (None, 5, Some(&[2][..]), true),
    ] {
        let mut worker = led(2, false);
        worker.hearing = heard.map_or_else(Hearing::default, |number| Hearing::after(planner(), number));
        news(&mut worker, number, told);
        assert_eq!(reads(&mut worker), wants, "{heard:?} {told:?}");
        assert_eq!(worker.has_news(), wants, "it is heard at once, or when it was read");
    }
    let mut other = led(2, false);
    other.hearing = Hearing::after(Attachment { session: session(2), fence: Fence(7) }, 9);
    news(&mut other, 5, Some(&[2]));
    assert!(reads(&mut other), "another planner's");
    let mut planner = led(2, true);
    news(&mut planner, 5, Some(&[0]));
    assert!(!reads(&mut planner));
}

#[test]
fn a_part_is_read_again_only_while_the_same_worker_plans() {
    for (who, again) in [(planner(), true), (Attachment { session: session(2), fence: Fence(7) }, false)] {
        let mut worker = led(2, false);
        worker.hearing = Hearing::after(who, 5);
        worker.doubts.list_at = Some(at(99).held);
        assert_eq!((reads(&mut worker), worker.doubts.list_at), (again, None));
    }
}

#[test]
fn a_read_that_failed_is_made_again_and_a_part_that_cant_be_read_has_all_listed() {
    let mut worker = led(2, false);
    news(&mut worker, 5, Some(&[0]));
    assert!(reads(&mut worker));
    worker.heard(at(101), Err(StoreError::unavailable("away")));
    assert_eq!(worker.hearing_wake_at(), Some(at(104).held));
    worker.wake_hearing(at(104));
    let damaged =
        Listed { key: fleet().part(&holder(0)).unwrap(), stored: Err(StoreError::foreign("damaged")) };
    worker.heard(at(105), Ok(Answer::Listed(vec![damaged])));
    assert!(worker.hearing.lists());
    let mut worker = led(2, false);
    hears(&mut worker, &Part { lists: Some(3), ..part(vec![]) }, &[]);
    assert!(worker.hearing.lists(), "it was told so");
}

/// How many units it asks for, at this time.
fn reads_units(worker: &mut FleetWorker, secs: u64) -> Option<usize> {
    worker.wake_hearing(at(secs));
    asked(worker).into_iter().find_map(|asked| match asked.op {
        Op::ReadMany(keys, Freshness::Latest) if fleet().unit_of(&keys[0]).is_some() => Some(keys.len()),
        _ => None,
    })
}

#[test]
fn of_many_units_those_are_read_again_whose_read_has_failed() {
    let units: Vec<(Key, Stored)> = (0..MANY + 9).map(|n| (unit(n), shows(3, None))).collect();
    let tasks = || (0..units.len()).map(|n| (n, 3, Task::Take)).collect();
    for (again, number, goes_on) in [(105, 5, true), (105, 6, false), (160, 5, false)] {
        let mut worker = led(2, false);
        hears(&mut worker, &part(tasks()), &units[..MANY]);
        asked(&mut worker);
        worker.heard(at(102), Err(StoreError::unavailable("away")));
        assert_eq!(reads_units(&mut worker, 104), None);
        news(&mut worker, number, Some(&[0]));
        assert_eq!(reads_units(&mut worker, again), goes_on.then_some(9), "{again} {number}");
        if goes_on {
            worker.heard(at(again), listed(&units[MANY..]));
            assert_eq!(worker.own.len(), units.len());
            assert!(!worker.has_news());
        }
    }
}

#[test]
fn a_part_counts_only_from_who_plans_now_and_for_this_session() {
    let take = || part(vec![(0, 3, Task::Take)]);
    let deposed = Part { planner: Attachment { session: session(2), fence: Fence(7) }, ..take() };
    let older = Part { to: Fence(4), ..take() };
    for (part, counts) in [(take(), true), (deposed, false), (older, false)] {
        let mut worker = led(2, false);
        worker.awaited.insert(unit(1));
        hears(&mut worker, &part, &[(unit(0), shows(3, None))]);
        assert_eq!(worker.own.contains_key(&unit(0)), counts, "{part:?}");
        assert!(worker.awaited.is_empty(), "an earlier plan's");
        let tells = (!counts).then(|| at(109).held);
        assert_eq!(worker.advance.wanted_at(), tells, "it was to have one");
    }
}

#[test]
fn what_it_is_to_have_is_claimed_or_awaited_unless_its_record_shows_something_else() {
    let of = |n: usize, fence| Some(Attachment { session: session(n), fence: Fence(fence) });
    let awaits = || Task::Await(holder(2));
    for (task, stored, claims, waits, overtaken) in [
        (Task::Take, shows(3, None), true, false, false),
        (Task::Take, shows(4, None), true, false, false),
        (Task::Take, shows(3, of(2, 6)), true, false, false),
        (Task::Take, shows(4, of(2, 7)), false, false, true),
        (Task::Take, shows(4, of(0, 5)), true, false, false),
        (awaits(), shows(3, of(2, 7)), false, true, false),
        (awaits(), shows(4, None), true, false, false),
        (awaits(), shows(4, of(0, 5)), true, false, false),
        (awaits(), shows(4, of(2, 7)), false, false, true),
        (Task::TakeMissing, shows(3, of(2, 6)), false, false, false),
    ] {
        let mut worker = led(2, false);
        let says = format!("{task:?} {stored:?}");
        hears(&mut worker, &part(vec![(0, 3, task)]), &[(unit(0), stored)]);
        let found = (worker.own.contains_key(&unit(0)), worker.awaited.contains(&unit(0)));
        assert_eq!(found, (claims, waits), "{says}");
        assert_eq!(!worker.advance.is_idle(), overtaken, "{says}");
    }
    // It came before, or is only to be passed on.
    for (task, to) in [(None, 0), (Some(Task::Pass(holder(2))), 2)] {
        let mut worker = led(2, false);
        worker.awaited.insert(unit(0));
        let tasks = task.into_iter().map(|task| (0, 4, task)).collect();
        hears(&mut worker, &part(tasks), &[(unit(0), shows(4, of(0, 5)))]);
        assert_eq!(worker.own[&unit(0)].transferee, Some(session(to)));
        assert!(worker.awaited.is_empty());
    }
    // What somebody has written meanwhile may be another's by that.
    let plain = UnitSpec::default;
    let declined = fleet().unit_of(&unit(0)).unwrap().to_owned();
    for (about, spec, claims) in [
        (About::default(), plain().needs("gpu"), false),
        (About::default(), UnitSpec { pin: Some(holder(2)), ..plain() }, false),
        (About::default().weight(5), plain().weight(6), false),
        (About::default().weight(5), plain().weight(5), true),
        (About { declines: BTreeSet::from([declined]), ..About::default() }, plain(), false),
    ] {
        let mut worker = led(2, false);
        worker.env.options.about = about;
        let mut stored = shows(4, None);
        stored.record.metadata = spec.compose(Metadata::new()).unwrap();
        hears(&mut worker, &part(vec![(0, 3, Task::Take)]), &[(unit(0), stored)]);
        assert_eq!((worker.own.is_empty(), !worker.advance.is_idle()), (!claims, !claims), "{spec:?}");
    }
    let mut worker = led(2, false);
    let done = UnitSpec { status: Status::Done, ..UnitSpec::default() };
    let mut stored = shows(3, None);
    stored.record.metadata = done.compose(Metadata::new()).unwrap();
    hears(&mut worker, &part(vec![(0, 3, Task::Take)]), &[(unit(0), stored)]);
    assert!(worker.own.is_empty());
}

#[test]
fn c1_what_is_closed_and_was_claimed_here_and_forgotten_is_given_up() {
    for (n, is_claimed) in [(0, true), (2, false)] {
        let mut worker = led(2, false);
        let mut stored = shows(3, Some(Attachment { session: session(n), fence: Fence(5) }));
        let deleted = UnitSpec { status: Status::Deleted, ..UnitSpec::default() };
        stored.record.metadata = deleted.compose(Metadata::new()).unwrap();
        let metadata = stored.record.metadata.clone();
        hears(&mut worker, &part(vec![(0, 3, Task::Close(Status::Deleted))]), &[(unit(0), stored)]);
        assert_eq!(worker.own.contains_key(&unit(0)), is_claimed);
        if let Some(lease) = worker.own.get(&unit(0)).map(|own| own.lease) {
            worker.acquired(at(103), lease, Fence(8), metadata);
            assert!(worker.own.is_empty(), "it is given up");
            assert!(!told(&mut worker).iter().any(|told| matches!(told, FleetNotice::Assigned { .. })));
        }
    }
}

/// It may be another's by a plan that is made just now.
#[test]
fn a_part_that_is_read_again_is_about_units_as_they_were() {
    for (id, claims) in [(3, true), (4, false)] {
        let mut worker = led(2, false);
        news(&mut worker, 5, Some(&[0]));
        worker.hearing = Hearing::after(planner(), 5);
        worker.doubts.list_at = Some(at(99).held);
        assert!(reads(&mut worker));
        let record = Record { metadata: part(vec![(0, 3, Task::Take)]).compose(), ..vacant().record };
        worker.heard(at(101), listed(&[(fleet().part(&holder(0)).unwrap(), Stored::new(record))]));
        worker.heard(at(102), listed(&[(unit(0), shows(id, None))]));
        assert_eq!(worker.own.contains_key(&unit(0)), claims);
    }
}

#[test]
fn who_may_not_list_does_what_a_part_says_besides() {
    for is_refused in [false, true] {
        let mut worker = led(2, false);
        if is_refused {
            worker.refused_listing(at(99), false);
        }
        let part = Part { lists: Some(3), ..part(vec![(0, 3, Task::Take)]) };
        hears(&mut worker, &part, &[(unit(0), shows(3, None))]);
        assert_eq!((worker.own.contains_key(&unit(0)), worker.hearing.lists()), (is_refused, !is_refused));
    }
}

#[test]
fn what_it_has_goes_for_the_reason_that_its_part_tells_and_else_stays() {
    let moved = Reason::Moved(holder(2));
    let full = Uncovered::NoRoom;
    for (task, leaving, goes, to) in [
        (None, false, None, Some(0)),
        (Some((1, Task::Pass(holder(2)))), false, Some(moved), Some(2)),
        (Some((1, Task::Pass(holder(2)))), true, Some(Reason::Leaving), Some(2)),
        (Some((9, Task::Pass(holder(2)))), false, None, Some(0)),
        (Some((1, Task::Close(Status::Deleted))), false, Some(Reason::Closed(Status::Deleted)), None),
        (Some((1, Task::Drop(full))), false, Some(Reason::Uncovered(full)), None),
        (Some((1, Task::Drop(full))), true, Some(Reason::Leaving), None),
    ] {
        let mut worker = led(2, false);
        worker.life.leaving = leaving;
        // Its tenure has the id 1.
        has(&mut worker, 0, Stage::Held, Some(0));
        let says = format!("{task:?} {leaving}");
        let tasks = task.into_iter().map(|(id, task)| (0, id, task)).collect();
        hears(&mut worker, &part(tasks), &[]);
        let own = &worker.own[&unit(0)];
        assert_eq!((own.goes.clone(), own.transferee.clone()), (goes.clone(), to.map(session)), "{says}");
        // The others look within an interval.
        let wait =
            worker.env.part(16) + if leaving { worker.env.interval() } else { std::time::Duration::ZERO };
        assert_eq!(worker.drains.planned_for(), goes.map(|_| at(101).held.after(wait)), "{says}");
    }
}

#[test]
fn who_does_not_list_forgets_others_whom_parts_have_named_long_ago() {
    let mut worker = led(0, false);
    let planner = worker.board.planner().unwrap().clone();
    for n in 0..200 {
        let mut part = Part::new(planner.clone(), Fence(5));
        part.peers.insert(holder(n), (Fence(7), ttl()));
        worker.follow_part(at(3), &part, BTreeMap::new(), true);
    }
    assert!(worker.roster.len() <= 33, "{}", worker.roster.len());
    assert!(worker.roster.contains_key(&session(199)));
}
