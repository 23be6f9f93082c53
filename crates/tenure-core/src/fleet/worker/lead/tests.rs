//! Plan: what is made of sessions that are renewed, fall silent or go; who ends a session, and how often one that may not be ended; who plans when nobody does; a worker tells of the
//! board once each time that it says something else of planning, and of its own role.
use super::*;
use crate::fleet::board;
use crate::fleet::planning::Planning;
use crate::fleet::worker::alone::*;
use crate::fleet::worker::known_board::KnownBoard;
use crate::op::{Event, Expect, Machine, Request};
use crate::values::fence::Version;
use crate::values::record::{Attachment, Record};
use std::collections::BTreeSet;

fn dead(n: usize, fence: u64) -> Attachment {
    Attachment { session: session(n), fence: Fence(fence) }
}

/// What the worker 1 is to the other after these looks at its session, each with its heartbeat, so many seconds after 100.
fn watches(worker: &mut FleetWorker, looks: &[(u64, u128)]) {
    for (secs, heartbeat) in looks {
        worker.look.shows(true);
        let now = at(100 + secs);
        worker.saw_session(now, &session(1), Fence(7), Some(Ok(session_record(1, 7, *heartbeat))));
    }
}

#[test]
fn one_that_is_overdue_is_kept_in_sight_and_the_others_are_alarmed() {
    for (looks, overdue) in [
        (&[(0, 1), (20, 1)][..], false),
        (&[(0, 1), (21, 1)], true),
        (&[(0, 1), (21, 1), (40, 1)], true),
        (&[(0, 1), (21, 1), (40, 2)], false),
    ] {
        let mut worker = led(1, true);
        watches(&mut worker, looks);
        assert_eq!(worker.look.overdue().contains(&session(1)), overdue, "{looks:?}");
        let alarms = asked(&mut worker).iter().filter(|asked| matches!(asked.op, Op::Write(_))).count();
        assert_eq!(alarms, usize::from(looks.len() > 1 && looks[1].0 > 20), "once: {looks:?}");
    }
    // What a recent look shows may be old.
    let mut worker = led(1, true);
    watches(&mut worker, &[(0, 1)]);
    worker.look.shows(false);
    worker.saw_session(at(130), &session(1), Fence(7), Some(Ok(session_record(1, 7, 1))));
    assert_eq!((worker.look.next(), worker.look.overdue().len()), (at(130).held, 0));
    assert!(asked(&mut worker).is_empty());
}

#[test]
fn a_session_that_was_silent_for_a_ttl_is_ended_once_and_all_are_told() {
    let mut worker = led(1, true);
    watches(&mut worker, &[(0, 1)]);
    worker.look.shows(false);
    worker.saw_session(at(148), &session(1), Fence(7), Some(Ok(session_record(1, 7, 1))));
    assert!(
        worker.roster.contains_key(&session(1)) && asked(&mut worker).is_empty(),
        "it may have renewed since"
    );
    assert_eq!(worker.look.next(), at(148).held);
    watches(&mut worker, &[(48, 1)]);
    assert!(!worker.roster.contains_key(&session(1)));
    worker.fence_session(at(149), session(1), session_record(1, 7, 1));
    let requests = asked(&mut worker);
    let [Request { op: Op::Write(write), .. }] = &requests[..] else { panic!("{requests:?}") };
    let old = session_record(1, 7, 1);
    assert_eq!((&write.key, write.expect), (&session(1), Expect::Unchanged(old.version)));
    let Record { fence, nonce, stamp, tenure, metadata } = &write.record;
    assert!(*fence > Fence(7) && *nonce != old.record.nonce && *stamp == at(148).wall && tenure.is_none());
    assert_eq!(*metadata, old.record.metadata);
    for (result, tells) in
        [(Ok(Answer::Write(Outcome::Lost(None))), 0), (Err(StoreError::unavailable("away")), 1)]
    {
        worker.advance.end();
        worker.fenced(at(150), &dead(1, 7), None, result);
        assert_eq!(worker.advance.wanted_at(), Some(at(150).held), "won or lost or unknown");
        assert_eq!(told(&mut worker).len(), tells);
    }
}

#[test]
fn a_session_that_is_another_process_now_or_gone_has_left() {
    let stopped = || Stored { record: Record { tenure: None, ..board(7, 1).record }, ..board(7, 1) };
    for (found, leaving, left) in [
        (Some(Ok(session_record(1, 7, 1))), false, false),
        (Some(Ok(session_record(1, 8, 1))), false, true),
        (Some(Ok(stopped())), false, true),
        (Some(Ok(stopped())), true, true),
        (Some(Err(StoreError::foreign("damaged"))), false, true),
        (None, false, true),
    ] {
        let mut worker = led(1, true);
        worker.roster.get_mut(&session(1)).unwrap().about.leaving = leaving;
        worker.look.shows(true);
        let says = format!("{found:?} {leaving}");
        worker.saw_session(at(100), &session(1), Fence(7), found);
        assert_eq!(!worker.roster.contains_key(&session(1)), left, "{says}");
        assert_eq!(!worker.advance.is_idle(), left && !leaving, "who leaves has told: {says}");
    }
}

#[test]
fn whoever_sees_that_nobody_plans_does_so_itself() {
    let other = |n| Attachment { session: session(n), fence: Fence(7) };
    let stopped = || Stored { record: Record { tenure: None, ..board(7, 1).record }, ..board(7, 1) };
    let mut worker = led(1, false);
    worker.life.joined = true;
    worker.look.shows(true);
    worker.saw_session(at(100), &session(1), Fence(7), Some(Ok(stopped())));
    assert_eq!(worker.advance.wanted_at(), Some(at(100).held));
    worker.wake_advance(at(100));
    let claim = asked(&mut worker).into_iter().find_map(|asked| match asked.op {
        Op::Write(write) if write.key == worker.env.board_key => board::planner(&write.record),
        _ => None,
    });
    assert_eq!(claim, Some(myself()));
    // Somebody else was sooner.
    let lost = Ok(Answer::Write(Outcome::Lost(Some(board_by(8, 2, &other(2))))));
    worker.advanced(at(101), lost);
    assert_eq!((worker.advance.is_idle(), worker.board.planner().cloned()), (true, Some(other(2))));
    // Who plans anew lives.
    worker.saw_board(at(102), Some(board_by(9, 3, &other(1))));
    assert!(worker.advance.is_idle());
    // Whoever leaves plans only if nobody else does.
    worker.life.leaving = true;
    worker.saw_board(at(103), Some(board(10, 4)));
    assert_eq!(worker.advance.wanted_at(), Some(at(111).held));
}

fn plannings(worker: &mut FleetWorker) -> Vec<(Role, Planning)> {
    let planning =
        |told| if let FleetNotice::Planning(role, what) = told { Some((role, *what)) } else { None };
    told(worker).into_iter().filter_map(planning).collect()
}

#[test]
fn a_worker_tells_who_plans_and_its_own_role_whenever_either_changes() {
    let mut worker = led(2, true);
    told(&mut worker);
    worker.saw_board(at(100), Some(board_by(8, 8, &myself())));
    let now = Planning { planner: Some(myself()), ..Planning::default() };
    assert_eq!(now.holder(&fleet()), Some(holder(0)));
    assert_eq!(Planning::default().holder(&fleet()), None);
    assert_eq!(plannings(&mut worker), [(Role::Planner, now.clone())]);
    // A generation alone says nothing of that.
    worker.saw_board(at(101), Some(board_by(9, 9, &myself())));
    assert_eq!(plannings(&mut worker), []);
    let (ttls, told) = ((ttl(), ttl()), Some(BTreeSet::new()));
    let mark = board::ToldPlan { number: 3, told, counts: (2, 5), ttls, rest: 1 };
    let seen = worker.board.stored().unwrap().clone();
    let by = BTreeSet::from([holder(1)]);
    let write = board::mark(worker.env.board_key.clone(), &seen, &mark, &by, Nonce(1), at(77).wall);
    let won = Ok(Answer::Write(Outcome::Won { version: Version(10), fence: write.record.fence }));
    worker.marked(at(102), write.clone(), won);
    let marked = Planning { standbys: by, plan: Some(3), told: Some(at(77).wall), ..now };
    assert_eq!(plannings(&mut worker), [(Role::Planner, marked)]);
    // Somebody else plans now, and this worker stands by.
    let mut other = write.record;
    let me = worker.env.id.clone();
    other.metadata.insert(
        "planner".to_owned(),
        board_by(9, 9, &{
            let mut other = myself();
            other.session = session(1);
            other
        })
        .record
        .metadata
        .remove("planner")
        .unwrap(),
    );
    other
        .metadata
        .insert("standbys".to_owned(), crate::values::metadata::Value::List(vec![me.as_str().into()]));
    worker.saw_board(at(103), Some(Stored::new(other).versioned(Version(11))));
    let role = plannings(&mut worker).into_iter().map(|(role, _)| role).collect::<Vec<_>>();
    assert_eq!(role, [Role::Standby]);
    worker.saw_board(at(104), None);
    assert_eq!(plannings(&mut worker), [(Role::Member, Planning::default())]);
}

#[test]
fn c1_a_dead_session_that_may_not_be_ended_is_tried_ever_more_seldom() {
    for plans in [true, false] {
        let mut worker = led(2, plans);
        let (mut secs, mut tries) = (100, Vec::new());
        while secs < 100 + 48 * 150 {
            worker.advance.end();
            worker.doubts.list_at = None;
            // Each listing shows it again, for whatever reason there is one.
            worker.bury(at(secs), vec![(session(2), session_record(2, 7, 1))], true);
            let writes = asked(&mut worker).into_iter().filter(|asked| matches!(asked.op, Op::Write(_)));
            if writes.count() > 0 {
                tries.push(secs - 100);
                worker.io.in_flight.clear();
                worker.fenced(at(secs), &dead(2, 7), None, Err(StoreError::unsupported("denied")));
            }
            let is_soon = worker.advance.wanted_at().is_some();
            assert!(is_soon || worker.doubts.list_at.is_some() == plans, "the planner looks again some time");
            secs += 1;
        }
        let gaps: Vec<u64> = tries.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(gaps.is_sorted() && tries.len() < 20 && gaps.last() == Some(&(32 * 48)), "{gaps:?}");
        // Somebody has ended it since, and another one of the name is another matter.
        worker.bury(at(secs), Vec::new(), true);
        worker.bury(at(secs), vec![(session(2), session_record(2, 9, 1))], true);
        assert_eq!(asked(&mut worker).len(), 1);
    }
}

#[test]
fn l1_a_letter_that_comes_before_a_dead_session_s_end_is_no_sign_of_life() {
    for (fence, beat, asks) in [(7, 1, 1), (7, 2, 0), (8, 1, 0)] {
        let mut worker = led(2, true);
        worker.fence_session(at(100), session(2), session_record(2, 7, 1));
        let ends = asked(&mut worker).pop().unwrap();
        let seen = session_record(2, fence, beat).versioned(Version(99));
        let lost = Ok(Answer::Write(Outcome::Lost(Some(seen))));
        let step = worker.step(at(101), Event::Answer(ends.id, lost));
        let again = step.requests.into_iter().filter_map(|asked| match asked.op {
            Op::Write(write) if write.key == session(2) => Some(write.expect),
            _ => None,
        });
        let again: Vec<Expect> = again.collect();
        assert_eq!(again, vec![Expect::Unchanged(Version(99)); asks], "{fence} {beat}");
    }
}

#[test]
fn who_could_not_end_the_planner_s_session_takes_its_place_in_turn_like_others() {
    for error in [StoreError::unavailable("throttled"), StoreError::unsupported("denied")] {
        let mut worker = led(3, false);
        worker.life.joined = true;
        let (seen, by) = (worker.board.stored().unwrap().clone(), BTreeSet::from([holder(2)]));
        let mark = board::ToldPlan { number: 3, told: None, counts: (2, 5), ttls: (ttl(), ttl()), rest: 1 };
        let write = board::mark(worker.env.board_key.clone(), &seen, &mark, &by, Nonce(1), at(77).wall);
        let board = Stored::new(write.record).versioned(Version(10));
        worker.board.see(Some(board.clone()));
        worker.fenced(at(100), &dead(1, 7), None, Err(error.clone()));
        assert_eq!((worker.advance.wanted_at(), worker.advance.only_fills()), (Some(at(103).held), true));
        // Seen again before that is tried again, it is missed all the same.
        worker.fenced(at(101), &dead(1, 7), None, Err(error));
        worker.advance.end();
        worker.board = KnownBoard::default();
        worker.board.see(Some(board));
        worker.fence_session(at(101), session(1), session_record(1, 7, 1));
        assert_eq!((worker.advance.wanted_at(), worker.advance.only_fills()), (Some(at(104).held), true));
    }
}

#[test]
fn l1_another_session_of_the_same_worker_is_another_matter() {
    let mut worker = led(2, true);
    worker.fenced(at(100), &dead(2, 7), None, Err(StoreError::unsupported("denied")));
    worker.fenced(at(9000), &dead(2, 7), None, Err(StoreError::unsupported("denied")));
    for (fence, asks) in [(7, 0), (9, 1)] {
        worker.fence_session(at(9001), session(2), session_record(2, fence, 1));
        assert_eq!(asked(&mut worker).len(), asks, "{fence}");
    }
}
