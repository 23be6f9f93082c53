//! Plan: what becomes of each kind of job, and what its user is told, when it is given up or left to expire. The same when the store fails,
//! when the session can't be begun, and when all ends with it. When somebody's patience ends, and when to wake for that.
use super::*;
use crate::holder::acquisition::WaitPolicy;
use crate::op::OpId;
use crate::semaphore::{Mode, Wish, key};
use crate::values::time::Wall;

const LEASE: LeaseId = LeaseId(1);

fn at(held: u64) -> Now {
    Now { held: Tick(held), ..Now::default() }
}

fn wanted(wait_policy: WaitPolicy, sent: Option<u64>) -> SemaphoreJob {
    let key = key("s").unwrap();
    let wish = Wish { key, permits: 2, take: 1, mode: Mode::Shared, barges: false, wait_policy };
    let (id, born, since, sent) = (Nonce(1), OpId(0), Wall(0), sent.map(Tick));
    SemaphoreJob::Wanted(Box::new(WantedPermits { wish, id, born, since, sent, last_error: None }))
}

const HELD: SemaphoreJob = SemaphoreJob::Held { id: Nonce(1), fence: Fence(7) };

fn giving(is_awaited: bool, was_held: bool, not_before: Option<u64>) -> SemaphoreJob {
    let not_before = not_before.map(Tick);
    SemaphoreJob::Giving(Giving { id: Nonce(1), is_awaited, tried: false, was_held, not_before })
}

/// What is left of a job, and what was told, after this.
fn after(job: &SemaphoreJob, act: impl Fn(&mut SemaphoreJobs)) -> (Option<SemaphoreJob>, Vec<Notice>) {
    let mut jobs = SemaphoreJobs { jobs: [(LEASE, job.clone())].into(), notices: Vec::new() };
    act(&mut jobs);
    let notices = jobs.take_notices();
    (jobs.jobs.remove(&LEASE), notices)
}

fn released() -> Vec<Notice> {
    vec![Notice::Released(LEASE, false)]
}

#[test]
fn what_may_stand_in_the_record_is_taken_out_before_its_end_is_told() {
    let (unsent, sent) = (wanted(WaitPolicy::Forever, None), wanted(WaitPolicy::Forever, Some(1)));
    for (job, left, told, writes) in [
        (unsent, None, released(), false),
        (sent, Some(giving(true, false, None)), vec![], true),
        (HELD, Some(giving(true, true, None)), vec![], true),
        (giving(true, true, None), Some(giving(true, true, None)), vec![], false),
        (giving(false, true, Some(9)), Some(giving(false, true, Some(9))), released(), false),
    ] {
        assert_eq!(after(&job, |jobs| assert_eq!(jobs.release(LEASE), writes)), (left, told), "{job:?}");
    }
    let mut jobs = SemaphoreJobs::default();
    assert!(!jobs.release(LEASE));
    assert_eq!((jobs.is_empty(), jobs.take_notices()), (true, released()), "nobody knows of it");
}

#[test]
fn only_what_was_held_is_left_to_expire() {
    let sent = wanted(WaitPolicy::Forever, Some(1));
    for (job, left, told, lapses) in [
        (sent.clone(), Some(sent), vec![], false),
        (HELD, Some(giving(false, true, Some(50))), released(), true),
        (giving(true, true, None), Some(giving(true, true, None)), vec![], false),
        (giving(false, true, Some(9)), Some(giving(false, true, Some(50))), released(), true),
    ] {
        let lapsed = |jobs: &mut SemaphoreJobs| {
            assert_eq!(jobs.lapse(LEASE, Tick(50), Bugs::default()), lapses);
            assert_eq!(jobs.lapses_at(at(49)), lapses.then_some(Tick(50)));
            assert_eq!(jobs.lapses_at(at(50)), None);
        };
        assert_eq!(after(&job, lapsed), (left, told), "{job:?}");
    }
}

#[test]
fn who_waits_outlasts_what_passes_and_who_tries_waits_for_what_may_have_landed() {
    let (away, denied) = (StoreError::unavailable("away"), StoreError::invalid("denied"));
    let (waits, tries) = (WaitPolicy::Until(Tick(10)), WaitPolicy::Try);
    for (job, error, may_land, over) in [
        (wanted(waits, Some(1)), &away, false, false),
        (wanted(tries, None), &away, false, true),
        (wanted(tries, Some(1)), &away, false, true),
        (wanted(tries, None), &away, true, true),
        (wanted(tries, Some(1)), &away, true, false),
        (wanted(waits, Some(1)), &denied, true, true),
    ] {
        let SemaphoreJob::Wanted(before) = &job else { continue };
        let told = if over { vec![Notice::Failed(LEASE, error.clone())] } else { vec![] };
        let goes_on = SemaphoreJob::Wanted(Box::new(WantedPermits {
            last_error: Some(error.clone()),
            ..(**before).clone()
        }));
        let left = if over { before.sent.map(|_| giving(false, false, None)) } else { Some(goes_on) };
        assert_eq!(after(&job, |jobs| jobs.fail(at(5), error, may_land)), (left, told), "{job:?}");
    }
    for job in [HELD, giving(true, true, None)] {
        assert_eq!(after(&job, |jobs| jobs.fail(at(5), &denied, true)), (Some(job.clone()), vec![]));
        assert_eq!(after(&job, |jobs| jobs.session_failed(at(5), &denied)), (Some(job.clone()), vec![]));
    }
}

#[test]
fn all_ends_with_the_session_but_what_is_left_to_expire() {
    for (job, left, told) in [
        (HELD, None, vec![]),
        (giving(true, true, None), None, released()),
        (giving(false, false, None), None, vec![]),
        (giving(false, true, Some(9)), Some(giving(false, true, Some(9))), vec![]),
    ] {
        assert_eq!(after(&job, SemaphoreJobs::end_with_session), (left, told), "{job:?}");
    }
}

#[test]
fn patience_ends_in_its_time_or_a_ttl_after_an_attempt_that_is_unclear() {
    let ttl = Ttl::clamped(10_000);
    let resolved = Tick(3).after(ttl.duration());
    for (wait_policy, error, ends) in [
        (WaitPolicy::Forever, true, None),
        (WaitPolicy::Until(Tick(10)), true, Some(Tick(10))),
        (WaitPolicy::Try, false, None),
        (WaitPolicy::Try, true, Some(resolved)),
    ] {
        let cut = error.then(|| StoreError::unknown("cut"));
        let mut job = wanted(wait_policy, Some(3));
        if let SemaphoreJob::Wanted(wanted) = &mut job {
            wanted.last_error.clone_from(&cut);
        }
        let mut jobs = SemaphoreJobs { jobs: [(LEASE, job)].into(), notices: Vec::new() };
        assert_eq!(jobs.wake_at(at(0), ttl), ends);
        jobs.give_up_overdue(Now { held: Tick(9), ..at(0) }, ttl, None);
        assert!(jobs.is_wanted());
        jobs.give_up_overdue(Now { held: resolved, ..at(0) }, ttl, None);
        let told = ends.map(|_| Notice::Failed(LEASE, StoreError::unknown("cut")));
        assert_eq!((jobs.is_wanted(), jobs.take_notices()), (ends.is_none(), Vec::from_iter(told)));
    }
}
