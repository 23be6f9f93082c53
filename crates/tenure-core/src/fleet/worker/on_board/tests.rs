//! Plan: who raises the alarm, and what whoever was not first makes of the board; until when a board is raised, and how soon again; what it is
//! like where the store refuses that.
use super::*;
use crate::fleet::talk::FleetCommand;
use crate::fleet::worker::alone::*;
use crate::op::{Event, Machine};
use crate::values::fence::Version;

#[test]
fn an_alarm_is_raised_where_it_helps() {
    let alarms = |change: &dyn Fn(&mut FleetWorker)| {
        let mut worker = led(1, true);
        change(&mut worker);
        worker.raise_alarm(at(100));
        (asked(&mut worker).len(), !worker.advance.is_idle())
    };
    assert_eq!(alarms(&|_| ()), (1, false));
    assert_eq!(alarms(&|worker| worker.env.options.push = true), (0, false), "a push tells all");
    assert_eq!(alarms(&|worker| worker.board.alarms(at(5))), (0, false), "there is one");
    assert_eq!(alarms(&|worker| worker.board.alarms(at(4))), (1, false), "a false one");
    assert_eq!(alarms(&|worker| worker.board.reads(false)), (0, false), "nobody can read it");
    assert_eq!(alarms(&|worker| worker.board.see(None)), (0, true), "there is no board");
}

#[test]
fn who_was_not_first_with_the_alarm_looks_whether_there_is_one() {
    for (standing, looks) in [(own_board(8, 2), true), (alarm(&own_board(7, 1), 2), false)] {
        let mut worker = led(1, true);
        worker.raise_alarm(at(100));
        worker.alarmed(at(101), Ok(Answer::Write(Outcome::Lost(Some(standing)))));
        assert_eq!(worker.look.next() == at(101).held, looks);
    }
}

#[test]
fn a_board_is_raised_until_it_is_higher_than_when_that_was_wanted() {
    let lost = |generation, version| Ok(Answer::Write(Outcome::Lost(Some(own_board(generation, version)))));
    for (second, over) in [(8, false), (9, true), (7, false)] {
        let mut worker = led(1, true);
        worker.want_advance(at(100).held);
        assert_eq!(worker.advance.wanted_at(), Some(at(100).held));
        worker.wake_advance(at(100));
        assert_eq!((asked(&mut worker).len(), worker.advance.wanted_at()), (1, None));
        worker.advanced(at(101), lost(8, 2));
        assert_eq!(asked(&mut worker).len(), 1, "the first winner may not know of what we have to tell");
        worker.advanced(at(102), lost(second, 3));
        assert_eq!(
            (asked(&mut worker).len(), worker.advance.is_idle()),
            (usize::from(!over), over),
            "{second}"
        );
    }
}

#[test]
fn what_happens_while_the_board_is_raised_is_told_by_another_raise() {
    let won = Ok(Answer::Write(Outcome::Won { version: Version(2), fence: Fence(8) }));
    for more in [false, true] {
        let mut worker = led(1, true);
        worker.want_advance(at(100).held);
        worker.wake_advance(at(100));
        asked(&mut worker);
        if more {
            worker.want_advance(at(101).held);
        }
        worker.advanced(at(102), won.clone());
        let soon = worker.advance.wanted_at().is_some_and(|next| next > at(102).held && next <= at(104).held);
        assert_eq!((soon, worker.advance.is_idle()), (more, !more));
    }
}

#[test]
fn a_raise_that_failed_is_made_again() {
    for error in [StoreError::unavailable("away"), StoreError::unknown("cut")] {
        let mut worker = led(1, true);
        worker.want_advance(at(100).held);
        worker.wake_advance(at(100));
        asked(&mut worker);
        worker.advanced(at(101), Err(error));
        assert!(worker.advance.wanted_at().is_some_and(|next| next > at(101).held && next <= at(104).held));
    }
}

#[test]
fn c1_a_board_that_the_store_refuses_is_raised_ever_more_seldom_whatever_happens() {
    let mut worker = led(1, true);
    let (mut secs, mut gaps) = (100, Vec::new());
    for _ in 0..14 {
        worker.want_advance(at(secs).held);
        let next = worker.advance.wake_at().map(|next| next.0.div_ceil(1_000_000_000)).unwrap().max(secs);
        worker.wake_advance(at(next));
        assert_eq!(asked(&mut worker).len(), 1);
        worker.advanced(at(next), Err(StoreError::unsupported("denied")));
        gaps.push(next - secs);
        secs = next;
    }
    assert!(gaps.is_sorted() && gaps[5] >= 16 && gaps[13] == 32 * ttl().duration().as_secs(), "{gaps:?}");
    // Once it is written, that is over.
    secs += gaps[13];
    worker.wake_advance(at(secs));
    worker.advanced(at(secs), Ok(Answer::Write(Outcome::Won { version: Version(2), fence: Fence(8) })));
    worker.want_advance(at(secs).held);
    assert_eq!(worker.advance.wake_at(), Some(at(secs).held));
}

#[test]
fn who_may_not_write_the_board_can_leave_all_the_same() {
    let mut worker = led(1, false);
    worker.life.joined = true;
    worker.life.leaving = true;
    worker.life.leave_from = Some(at(100).held);
    worker.want_advance(at(100).held);
    worker.wake_leaving(at(100));
    assert!(!worker.is_stopping(), "the others are to be told yet");
    worker.wake_advance(at(100));
    worker.advanced(at(101), Err(StoreError::unsupported("denied")));
    worker.wake_leaving(at(101));
    assert!(!worker.is_stopping(), "it may be for a moment");
    worker.wake_advance(at(114));
    worker.wake_leaving(at(114));
    assert!(!worker.is_stopping(), "what is under way is waited for");
    asked(&mut worker);
    worker.advanced(at(115), Err(StoreError::unsupported("denied")));
    worker.wake_leaving(at(115));
    assert!(worker.is_stopping());
}

/// The planner, whom the store has not let raise the board for long, and by when it tries again, in seconds.
fn refused() -> (FleetWorker, u64) {
    let (mut worker, mut secs) = (led(1, true), 1);
    for _ in 0..10 {
        worker.want_advance(at(secs).held);
        secs = worker.advance.wake_at().map(|next| next.0.div_ceil(1_000_000_000)).unwrap();
        worker.wake_advance(at(secs));
        asked(&mut worker);
        worker.advanced(at(secs), Err(StoreError::unsupported("denied")));
    }
    worker.doubts.list_at = None;
    (worker, secs + 1)
}

#[test]
fn l1_what_was_refused_before_a_session_began_or_a_worker_leaves_is_tried_at_once() {
    let ((mut begins, secs), (mut leaves, _)) = (refused(), refused());
    assert!(begins.advance.wake_at() > Some(at(secs + 100).held));
    begins.life.session = None;
    begins.follow_session(at(secs));
    leaves.step(at(secs), Event::Command(FleetCommand::Leave));
    for mut worker in [begins, leaves] {
        worker.want_advance(at(secs).held);
        assert_eq!(worker.advance.wake_at(), Some(at(secs).held));
    }
}

#[test]
fn l1_a_planner_lists_though_it_may_not_raise_the_board_and_a_write_there_shows_that_it_may() {
    let (mut worker, secs) = refused();
    worker.want_advance(at(secs).held);
    assert_eq!(worker.doubts.list_at, Some(at(secs).held));
    worker.alarmed(at(secs + 1), Ok(Answer::Write(Outcome::Won { version: Version(2), fence: Fence(7) })));
    assert_eq!(worker.advance.wake_at(), Some(at(secs).held));
}
