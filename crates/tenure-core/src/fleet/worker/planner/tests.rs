//! Plan: what each worker's part of a plan is; who is told, and who is not, since nothing or nothing new is left to do; what a planner does that
//! has not told anything before; that the board is marked last, and again until it is; what an earlier
//! plan has sent is overwritten; what a planner does whom the store refuses parts; who is looked into; what it costs.
use super::alone::*;
use super::*;
use crate::fleet::digest::Digest;
use crate::fleet::part::{Shows, Task};
use crate::fleet::plan::Uncovered;
use crate::fleet::unit::Status;
use crate::fleet::worker::alone::*;
use crate::fleet::worker::listed::Owner;
use crate::op::Expect;
use crate::values::fence::{Fence, Version};
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Record};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[test]
fn each_worker_is_told_what_it_is_to_do_with_which_units() {
    let worker = RoleAlone::of(2);
    let (open, done) = (Status::Open, Status::Done);
    let (listing, targets) = planned(
        &worker,
        vec![
            (0, of(1), open, Some(Ok(1))),
            (1, Owner::Nobody((*vacant()).into()), open, Some(Ok(1))),
            (2, Owner::Missing((*vacant()).into()), open, Some(Ok(1))),
            (3, of(2), open, Some(Ok(1))),
            (4, of(2), open, Some(Err(Uncovered::NoRoom))),
            (5, of(2), done, None),
            (6, Owner::Outsider, open, None),
            (7, of(1), open, Some(Ok(0))),
        ],
    );
    let (parts, _) = parts(&worker.env, &myself(), &listing, &targets);
    let tasks = |n: usize| -> Vec<(&str, Task)> {
        let tasks = parts[&session(n)].tasks.iter();
        tasks.map(|(name, (_, task))| (name.as_str(), task.clone())).collect()
    };
    let await_two = Task::Await(holder(2));
    assert_eq!(
        tasks(1),
        [("u1", Task::Take), ("u2", Task::TakeMissing), ("u3", await_two), ("u7", Task::Pass(holder(0)))]
    );
    assert_eq!(
        tasks(2),
        [
            ("u3", Task::Pass(holder(1))),
            ("u4", Task::Drop(Uncovered::NoRoom)),
            ("u5", Task::Close(Status::Done))
        ]
    );
    assert_eq!(parts[&session(2)].peers, BTreeMap::from([(holder(1), (Fence(7), ttl()))]));
    assert_eq!(parts.len(), 2, "this worker needs nobody to tell it");
}

#[test]
fn c1_a_part_that_stays_undone_is_told_ever_more_seldom() {
    let mut worker = RoleAlone::of(2);
    let plan = planned(&worker, vec![(0, Owner::Nobody((*vacant()).into()), Status::Open, Some(Ok(1)))]);
    let ttl = worker.env.part(1).as_secs();
    let told = |worker: &mut RoleAlone| {
        let halves = (0..200).filter(|n| !worker.tells(100 + n * ttl / 2, &plan).is_empty());
        halves.map(|n| n as f64 / 2.0).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut worker), [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 95.0], "by ttls, and not by plans");
    let other = planned(&worker, vec![(1, Owner::Nobody((*vacant()).into()), Status::Open, Some(Ok(1)))]);
    assert_eq!(worker.tells(100, &other), [holder(1)], "another one");
}

#[test]
fn c1_all_is_listed_when_somebody_is_to_be_told_again_but_half_a_pause_after_the_last_time() {
    let mut worker = RoleAlone::of(2);
    let free = |n: usize| (n, Owner::Nobody((*vacant()).into()), Status::Open, Some(Ok(1 + n)));
    let one = planned(&worker, vec![free(0)]);
    let both = planned(&worker, vec![free(0), free(1)]);
    // With a ttl of 48 s.
    let plans =
        [(100, &one, 148), (124, &both, 148), (148, &both, 172), (172, &both, 244), (244, &both, 292)];
    for (secs, plan, again) in plans {
        worker.tells(secs, plan);
        assert_eq!(worker.list_at.take(), Some(at(again).held), "{secs}");
    }
}

#[test]
fn s10_what_stays_undone_is_told_again_once_all_are_to_look_again() {
    let mut worker = RoleAlone::of(2);
    let mut plan = planned(&worker, vec![(0, Owner::Nobody((*vacant()).into()), Status::Open, Some(Ok(1)))]);
    let ttl = worker.env.part(1).as_secs();
    let told = [100, 100 + ttl, 100 + 2 * ttl].map(|secs| worker.tells(secs, &plan).len());
    assert_eq!(told, [1, 1, 0]);
    plan.0.generation = Fence(9);
    let told = [2, 2, 3, 4].map(|ttls| worker.tells(100 + ttls * ttl, &plan).len());
    assert_eq!(told, [1, 0, 0, 1], "once, and the pause is no longer for that");
}

/// More tasks than a record has room for.
#[test]
fn c1_a_part_that_is_too_large_and_stays_undone_is_told_ever_more_seldom() {
    let mut worker = RoleAlone::of(2);
    let free = || Owner::Nobody((*vacant()).into());
    let many = |n: usize| (0..n).map(|n| (n, free(), Status::Open, Some(Ok(1)))).collect();
    let plan = planned(&worker, many(3_000));
    let ttl = worker.env.part(1).as_secs();
    let told = |worker: &mut RoleAlone| {
        (0..20).filter(|n| !worker.tells(100 + n * ttl, &plan).is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut worker), [0, 1, 3, 7, 15]);
    assert!(worker.part(1).lists.is_some());
    let fewer = planned(&worker, many(2_999));
    assert_eq!(worker.tells(100, &fewer), [holder(1)], "another one");
    assert_eq!(worker.tells(99 + ttl, &fewer), []);
    assert_eq!(worker.tells(100 + ttl, &fewer), [holder(1)], "and once more after a ttl");
    assert_eq!(worker.tells(100 + ttl, &fewer), []);
}

#[test]
fn whoever_has_done_its_part_or_is_doing_it_is_not_told_again() {
    let mut worker = RoleAlone::of(2);
    let free = || Owner::Nobody((*vacant()).into());
    let open = Status::Open;
    let both = planned(&worker, vec![(0, free(), open, Some(Ok(1))), (1, free(), open, Some(Ok(1)))]);
    assert_eq!(worker.tells(100, &both), [holder(1)]);
    let mut half = planned(&worker, vec![(0, of(1), open, Some(Ok(1))), (1, free(), open, Some(Ok(1)))]);
    half.0.units.get_mut(&unit(0)).unwrap().shows = Shows::of_tenure(Nonce(77));
    assert_eq!(worker.tells(100, &half), [], "half of it is done");
    half.0.units.get_mut(&unit(1)).unwrap().owner = of(1);
    half.0.units.get_mut(&unit(1)).unwrap().shows = Shows::of_tenure(Nonce(78));
    assert_eq!(worker.tells(100, &half), [], "and the rest");
    // What was planned is not wanted any more.
    assert_eq!(worker.tells(100, &both), [holder(1)]);
    let none = planned(&worker, vec![(0, free(), open, None), (1, free(), open, None)]);
    assert_eq!(worker.tells(100, &none), [holder(1)]);
}

#[test]
fn a_new_planner_goes_by_what_stands_there() {
    let open = Status::Open;
    let plan = |worker: &RoleAlone, stands: Option<Nonce>| {
        let mut plan = planned(worker, vec![(0, of(1), open, Some(Ok(1)))]);
        if let Some(id) = stands {
            let former = Attachment { session: session(2), fence: Fence(7) };
            let mut part = Part::new(former, Fence(7));
            part.tasks.insert("u0".to_owned(), (Shows::of_tenure(id), Task::Pass(holder(2))));
            plan.0.parts.insert(fleet().part(&holder(1)).unwrap(), standing(&part));
        }
        plan
    };
    for (stands, tells_it) in [(None, false), (Some(Nonce(0)), true), (Some(Nonce(9)), false)] {
        let mut worker = RoleAlone::of(2);
        let plan = plan(&worker, stands);
        let told = worker.tells(100, &plan);
        assert_eq!(!told.is_empty(), tells_it, "{stands:?}");
    }
}

#[test]
fn a_part_that_was_overwritten_is_told_again() {
    let mut worker = RoleAlone::of(2);
    let mut plan = planned(&worker, vec![(0, Owner::Nobody((*vacant()).into()), Status::Open, Some(Ok(1)))]);
    assert_eq!(worker.tells(100, &plan), [holder(1)]);
    assert_eq!(worker.tells(100, &plan), [], "it is to do that yet");
    let former = Part::new(Attachment { session: session(2), fence: Fence(7) }, Fence(7));
    plan.0.parts.insert(fleet().part(&holder(1)).unwrap(), standing(&former));
    assert_eq!(worker.tells(100, &plan), [holder(1)]);
}

#[test]
fn what_was_sent_for_an_earlier_plan_does_not_come_to_stand_unheeded() {
    let open = Status::Open;
    let free = || Owner::Nobody((*vacant()).into());
    // It is under way when the next plan is made.
    let mut worker = RoleAlone::of(2);
    let one = planned(&worker, vec![(0, free(), open, Some(Ok(1)))]);
    assert_eq!(writes(worker.plan(100, &one)).len(), 1);
    let two = planned(&worker, vec![(0, free(), open, Some(Ok(2)))]);
    let wrote = writes(worker.plan(101, &two)).into_iter();
    let wrote = wrote.map(|write| (write.key, Part::parse(&write.record.metadata)));
    let tasks = |(key, part): (Key, Option<Part>)| (key, part.unwrap().tasks.len());
    let part = |n| fleet().part(&holder(n)).unwrap();
    assert_eq!(wrote.map(tasks).collect::<Vec<_>>(), [(part(1), 0), (part(2), 1)]);
    // It arrives when it was forgotten.
    let mut worker = RoleAlone::of(2);
    let mut none = planned(&worker, vec![(0, free(), open, None)]);
    assert_eq!(worker.tells(100, &none), []);
    let mut late = Part::new(myself(), Fence(7));
    late.tasks.insert("u0".to_owned(), (Shows::of_tenure(Nonce(0)), Task::Take));
    none.0.parts.insert(part(1), standing(&late));
    assert_eq!(worker.tells(100, &none), [holder(1)]);
}

#[test]
fn a_plan_is_told_again_in_each_interval_while_the_store_refuses_parts_of_it_and_for_no_longer_than_a_ttl() {
    let mut worker = RoleAlone::of(2);
    let plan = planned(&worker, vec![(0, Owner::Nobody((*vacant()).into()), Status::Open, Some(Ok(1)))]);
    let denied = StoreError::unsupported("denied");
    let away = || Err(StoreError::unavailable("away"));
    for (secs, resigns) in [(100, false), (116, false), (147, false), (148, true)] {
        worker.role.end();
        let part = writes(worker.plan(secs, &plan)).remove(0);
        let steps = worker.answers(secs, &part, Err(denied.clone()));
        assert_eq!(steps[0], PlannerStep::Trouble(denied.clone()));
        assert_eq!(lists_at(&steps), (!resigns).then(|| at(secs + 16).held), "{secs}");
        let board = writes(steps).pop().unwrap();
        assert_eq!(board.key, worker.env.board_key);
        assert_eq!(board::planner(&board.record).is_none(), resigns, "{secs}");
        worker.role.board_answered(at(secs), &worker.env, board, away());
    }
    // One damaged record does not make its planner unfit.
    let mut worker = RoleAlone::of(2);
    for secs in [100, 200] {
        worker.role.end();
        let part = writes(worker.plan(secs, &plan)).remove(0);
        let board = writes(worker.answers(secs, &part, Err(StoreError::foreign("damaged")))).pop().unwrap();
        assert!(board::planner(&board.record).is_some());
        worker.role.board_answered(at(secs), &worker.env, board, away());
    }
}

#[test]
fn l3_a_part_that_a_busy_store_refuses_is_sent_again_after_a_pause_and_for_a_ttl() {
    let mut worker = RoleAlone::of(2);
    let plan = planned(&worker, vec![(0, Owner::Nobody((*vacant()).into()), Status::Open, Some(Ok(1)))]);
    let part = writes(worker.plan(100, &plan)).remove(0);
    let busy = || Err(StoreError::unavailable("throttled"));
    for (refused, again) in [(100, 114), (116, 130), (132, 146), (147, 175)] {
        assert_eq!(writes(worker.answers(refused, &part, busy())), [], "{refused}");
        assert_eq!(worker.role.wake(at(refused)), [], "{refused}");
        assert!(worker.role.wake_at().is_some_and(|at| at > self::at(refused).held));
        assert_eq!(worker.role.wake(at(again)), [PlannerStep::WritePart(Box::new(part.clone()))], "{again}");
    }
    // The others are to know of theirs: all is listed again.
    let steps = worker.answers(190, &part, busy());
    assert_eq!(lists_at(&steps), Some(at(206).held));
    assert_eq!(writes(steps).pop().map(|board| board.key), Some(worker.env.board_key.clone()));
    assert_eq!(worker.role.wake_at(), None);
}

#[test]
fn who_could_not_give_its_role_up_lists_again() {
    let mut worker = RoleAlone::of(2);
    let write = board::resign(worker.env.board_key.clone(), &own_board(7, 1), Nonce(1), at(100).wall);
    let error = StoreError::unavailable("throttled");
    let outcome = worker.role.board_answered(at(100), &worker.env, write, Err(error.clone()));
    let steps = vec![PlannerStep::Trouble(error), PlannerStep::ListAgain(at(116).held)];
    assert_eq!(outcome, MarkOutcome::Failed(steps));
}

#[test]
fn the_board_is_marked_once_all_parts_are_written_and_until_it_is() {
    let mut worker = RoleAlone::of(2);
    let plan = planned(&worker, vec![(0, of(2), Status::Open, Some(Ok(1)))]);
    let parts = writes(worker.plan(100, &plan));
    assert_eq!(parts.len(), 2);
    assert_eq!(worker.answers(100, &parts[0], won(&parts[0])), []);
    // Somebody has written there meanwhile.
    let standing =
        Stored::new(Record { fence: Fence(u64::MAX / 4), ..vacant().record }).versioned(Version(6));
    let lost = Ok(Answer::Write(Outcome::Lost(Some(standing))));
    let again = writes(worker.answers(100, &parts[1], lost));
    assert_eq!(
        (again[0].expect, again[0].record.fence),
        (Expect::Unchanged(Version(6)), Fence(u64::MAX / 4))
    );
    let mut other = again[0].clone();
    other.record.nonce = Nonce(0);
    assert_eq!(worker.answers(100, &other, won(&other)), [], "that was another write");
    let mark = writes(worker.answers(100, &again[0], won(&again[0]))).remove(0);
    let told = board::marked(&mark.record).and_then(|mark| mark.told);
    assert_eq!(told, Some(BTreeSet::from([holder(1), holder(2)])));
    assert_eq!(board::standbys(&mark.record), BTreeSet::from([holder(1), holder(2)]));
    assert_eq!(worker.step(100, PlannerRole::mark), [], "one at a time");
    let error = StoreError::unavailable("away");
    let outcome = worker.role.board_answered(at(101), &worker.env, mark, Err(error.clone()));
    assert_eq!(outcome, MarkOutcome::Failed(vec![PlannerStep::Trouble(error)]), "a look comes first");
    let mark = writes(worker.step(102, PlannerRole::mark)).remove(0);
    worker.marks(103, &mark);
    assert_eq!((worker.step(104, PlannerRole::mark), worker.role.is_telling()), (vec![], false));
}

#[test]
fn whoever_has_something_else_than_is_listed_before_and_after_a_renewal_is_to_list_it_itself() {
    let mut worker = RoleAlone::of(2);
    let has = Digest::default().with(Digest::share(&unit(5), (Nonce(1), Fence(1))));
    worker.peers.get_mut(&session(1)).unwrap().has = Some(has);
    worker.peers.get_mut(&session(2)).unwrap().has = Some(Digest::default());
    for _ in 0..3 {
        let plan = planned(&worker, vec![]);
        assert_eq!(worker.tells(100, &plan), []);
        assert_eq!(worker.list_at.take(), Some(at(124).held), "it may just have moved");
    }
    worker.peers.get_mut(&session(1)).unwrap().heartbeat = Nonce(2);
    let plan = planned(&worker, vec![]);
    assert_eq!(worker.tells(100, &plan), [holder(1)]);
    assert!(worker.part(1).lists.is_some());
    let mut metadata = Metadata::new();
    has.compose(&mut metadata);
    assert_eq!(Digest::parse(&metadata), None, "only what a worker says of itself");
}

/// Says what each of so many workers has to do, if 20,000 units move, and how long that takes.
#[allow(clippy::disallowed_methods, reason = "it measures a computation, and nothing goes by it")]
fn tells_moves(workers: usize) -> impl Fn() -> Duration {
    let worker = RoleAlone::of(workers);
    let moves = (0..20_000).map(|n| {
        let (from, to) = (1 + n % workers, 1 + (n + 1) % workers);
        (n, of(from), Status::Open, Some(Ok(to)))
    });
    let (listing, targets) = planned(&worker, moves.collect());
    move || {
        let began = Instant::now();
        let (parts, _) = parts(&worker.env, &myself(), &listing, &targets);
        assert_eq!(parts.values().map(|part| part.tasks.len()).sum::<usize>(), 40_000);
        began.elapsed()
    }
}

#[test]
fn c1_what_it_takes_to_tell_moves_grows_with_the_moves_and_not_with_the_workers_each_time() {
    let (few, many) = (tells_moves(200), tells_moves(4_000));
    // In turn, so that a machine that is busy for a while makes both slow.
    let took: Vec<(Duration, Duration)> = (0..4).map(|_| (few(), many())).collect();
    let (few, many) =
        (took.iter().map(|took| took.0).min().unwrap(), took.iter().map(|took| took.1).min().unwrap());
    assert!(many < few * 8, "{few:?} for 200 workers, and {many:?} for 4,000");
}

#[test]
fn whoever_waits_for_what_has_gone_elsewhere_is_told_that_it_is_not_its_own_any_more() {
    for (owner, target, concerned) in [
        // It came, or is still to come.
        (of(2), Some(Ok(2)), false),
        (of(1), Some(Ok(2)), false),
        // Its owner passed it to somebody else, who keeps it; or it is no unit any more.
        (of(0), Some(Ok(0)), true),
        (Owner::Nobody((*vacant()).into()), None, true),
    ] {
        let mut worker = RoleAlone::of(2);
        let before = planned(&worker, vec![(0, of(1), Status::Open, Some(Ok(2)))]);
        assert_eq!(worker.tells(100, &before), [holder(1), holder(2)]);
        let (mut listing, targets) = planned(&worker, vec![(0, owner.clone(), Status::Open, target)]);
        if owner != of(1) {
            // Whoever has it now has written it.
            listing.units.get_mut(&unit(0)).unwrap().shows = Shows::of_tenure(Nonce(77));
        }
        let told = worker.tells(101, &(listing.clone(), targets.clone()));
        assert_eq!(told.contains(&holder(2)), concerned, "{owner:?}: {told:?}");
        assert_eq!(worker.tells(102, &(listing, targets)), [], "once");
    }
    // What an earlier planner told is over by itself.
    let mut worker = RoleAlone::of(2);
    let (mut listing, targets) = planned(&worker, vec![(0, of(0), Status::Open, Some(Ok(0)))]);
    let mut part = Part::new(Attachment { session: session(1), fence: Fence(7) }, Fence(7));
    part.tasks.insert("u0".to_owned(), (Shows::of_tenure(Nonce(77)), Task::Await(holder(1))));
    listing.parts.insert(fleet().part(&holder(2)).unwrap(), standing(&part));
    assert!(!worker.tells(100, &(listing, targets)).contains(&holder(2)));
}
