//! `--fresh`: units are to be run once more, whatever was recorded of them.
//!
//! Nothing is removed: the record of each settled unit becomes that of one that waits to be run, on condition that its
//! result is still the one that was seen. So does that of a unit that has been tried, and waits for another attempt: it begins
//! with all its attempts, and at once. So each unit is held by one process at a time as ever, and whoever joins
//! meanwhile helps. It is refused while a process that came before is at work on the job: what that one has done
//! a moment ago would be run twice. Of two that begin anew at the same time, the later one is refused.
//!
//! No clock decides what is run twice. The results are gathered before others are looked for, and only these are reset.
//! Whoever has recorded one of them and lives came before, whatever the clocks say; what others record later stays.

use super::presence::{LivingProcess, job_of, living};
use super::unit::{Status, Unit};
use super::writes::vacant;
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::stores::pages::Pages;
use crate::stores::patiently;
use crate::text::{brief, count, escaped};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tenure::store::{Expect, Listed, Outcome, StoreExt, Stored, Write};
use tenure::{AcquireError, AnyStore, Fence, Key, Leases, Metadata, Store, Value};
use tenure_core::Nonces;

/// Between two looks at what others have under their hands for a moment.
const PAUSE: Duration = Duration::from_millis(50);

/// What had come of a job before others were looked for.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Digests of the results of the given units: a job may be large.
    results: BTreeSet<u64>,
    /// Who has recorded a result of any unit, or has one.
    workers: BTreeSet<String>,
}

impl Earlier {
    /// Gathers it from all units of the job.
    pub(super) async fn gather(
        store: &AnyStore,
        prefix: &str,
        is_given: impl Fn(&Key) -> bool,
    ) -> Result<Earlier, Failure> {
        let (mut earlier, mut pages) = (Earlier::default(), Pages::default());
        while let Some(page) = patiently(async || pages.next(store, prefix).await).await? {
            page.iter().for_each(|listed| earlier.see(listed, is_given(&listed.key)));
        }
        Ok(earlier)
    }

    fn see(&mut self, Listed { key, stored }: &Listed, is_given: bool) {
        let Ok(stored) = stored else { return };
        let result = result(&stored.record.metadata);
        let recorded_by = result.as_ref().and_then(|result| result.worker.as_deref());
        let held_by = stored.record.tenure.as_ref().map(|tenure| tenure.holder.as_str());
        for worker in recorded_by.into_iter().chain(held_by) {
            if !self.workers.contains(worker) {
                self.workers.insert(worker.to_owned());
            }
        }
        if let Some(result) = result.filter(|_| is_given) {
            self.results.insert(result.digest(key));
        }
    }

    fn has(&self, key: &Key, result: &Recorded) -> bool {
        self.results.contains(&result.digest(key))
    }
}

/// What was recorded of a settled unit, or of one that has been tried: how it ended, when, and who ran it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Recorded {
    status: Status,
    finished: u64,
    worker: Option<String>,
}

impl Recorded {
    fn digest(&self, key: &Key) -> u64 {
        let mut hasher = DefaultHasher::new();
        (key.as_str(), self).hash(&mut hasher);
        hasher.finish()
    }
}

/// Fails if another process was at work on the job before this one. Our own session is to be up, and `earlier` to be gathered since.
pub(super) async fn check_alone(leases: &Leases, name: &JobName, earlier: &Earlier) -> Result<(), Failure> {
    let own = leases.session_key();
    let ours = patiently(async || leases.store().read(own).await).await?;
    // Fences begin with the wall clock, so whoever came later has the higher one. A clock that is off makes no difference to who has
    // done something already.
    let ours = ours.map(|stored| (stored.record.fence, own));
    let is_before = |listed: &Listed| {
        let has_worked = holder(listed).is_some_and(|holder| earlier.workers.contains(holder));
        let rank = listed.stored.as_ref().ok().map(|stored| (stored.record.fence, &listed.key));
        has_worked || ours.is_none() || rank < ours
    };
    let is_asked_for =
        |listed: &Listed| listed.key != *own && job_of(listed) == Some(name.as_str()) && is_before(listed);
    match living(leases, is_asked_for).await? {
        Some(LivingProcess { session: Listed { stored: Ok(stored), .. }, left }) => {
            Err(refusal(name, &stored.record.metadata, left))
        }
        _ => Ok(()),
    }
}

fn holder(session: &Listed) -> Option<&str> {
    Some(session.stored.as_ref().ok()?.record.tenure.as_ref()?.holder.as_str())
}

fn refusal(name: &JobName, about: &Metadata, left: Duration) -> Failure {
    let host = about.get("host").and_then(Value::as_text).unwrap_or("another host");
    let pid =
        about.get("pid").and_then(Value::as_i64).map_or_else(String::new, |pid| format!(", pid {pid},"));
    let (name, host) = (name.shown(), escaped(host));
    let left = brief(left);
    Failure::new(
        exit::HELD,
        format!(
            "the job \"{name}\" is being worked on by a process on {host}{pid} that was there before: --fresh would run again \
             what it has just done; leave --fresh out to join it, or wait for its end (if it has died, that is in {left})"
        ),
    )
}

/// Has units run anew that are settled or have been tried: those of them whose results were there before others were looked for, and stay
/// until each is written.
pub(super) async fn reset(
    leases: &Leases,
    nonces: &mut Nonces,
    units: impl Iterator<Item = &Listed>,
    earlier: &Earlier,
) -> Result<usize, Failure> {
    const ATTEMPTS: usize = 40;
    let tried = |listed: &Listed| {
        let stored = listed.stored.as_ref().ok()?;
        let is_earlier =
            result(&stored.record.metadata).is_some_and(|result| earlier.has(&listed.key, &result));
        is_earlier.then(|| (listed.key.clone(), stored.clone()))
    };
    let mut todo: Vec<(Key, Stored)> = units.filter_map(tried).collect();
    let mut n = todo.len();
    for _ in 0..ATTEMPTS {
        let (held, free) = todo.into_iter().partition(|(_, seen)| seen.record.tenure.is_some());
        todo = write_over(leases, nonces, free).await?;
        let (rest, others) = take_over(leases, held).await?;
        n -= others;
        todo.extend(rest);
        if todo.is_empty() {
            return Ok(n);
        }
        tokio::time::sleep(PAUSE).await;
    }
    let (key, _) = &todo[0];
    Err(Failure::new(
        exit::HELD,
        format!(
            "{} could not be had, {key} for one: others have them under their hands; try again",
            count(todo.len(), "unit")
        ),
    ))
}

/// What was recorded of a unit, if it is settled or has been tried.
fn result(metadata: &Metadata) -> Option<Recorded> {
    let unit = Unit::of(metadata)?;
    let is_tried = unit.status != Status::Pending || unit.is_tried();
    is_tried.then(|| Recorded {
        status: unit.status,
        finished: Unit::finished(metadata),
        worker: unit.worker,
    })
}

/// Returns those that have changed meanwhile, but for their results.
async fn write_over(
    leases: &Leases,
    nonces: &mut Nonces,
    units: Vec<(Key, Stored)>,
) -> Result<Vec<(Key, Stored)>, Failure> {
    let write = |(key, seen): &(Key, Stored)| {
        let metadata = Unit::reset(seen.record.metadata.clone());
        let fence: Fence = seen.record.fence;
        let record = vacant(leases, nonces, fence, metadata);
        Write { key: key.clone(), expect: Expect::Unchanged(seen.version), record }
    };
    let writes: Vec<Write> = units.iter().map(write).collect();
    let outcomes = patiently(async || leases.store().write_all(writes.clone()).await).await?;
    let mut rest = Vec::new();
    for ((key, seen), outcome) in units.into_iter().zip(outcomes) {
        // One without a result was reset by another, or by us, if the answer was lost; another result is of a later run.
        if let Outcome::Lost(Some(now)) = outcome
            && result(&now.record.metadata) == result(&seen.record.metadata)
        {
            rest.push((key, now));
        }
    }
    Ok(rest)
}

/// A settled unit is held for a moment by whoever took it for an open one; or for longer, if that process died. Those are returned, and how many
/// others are left alone: who lives and has a unit that was not settled tries it already.
async fn take_over(
    leases: &Leases,
    units: Vec<(Key, Stored)>,
) -> Result<(Vec<(Key, Stored)>, usize), Failure> {
    let (mut rest, mut others) = (Vec::new(), 0);
    for (key, seen) in units {
        let was = result(&seen.record.metadata);
        let lock = leases.lock(key.as_str()).keep_metadata(None);
        match lock.try_acquire().await {
            Ok(guard) => {
                let now = guard.metadata().clone();
                let metadata = if result(&now) == was { Unit::reset(now) } else { now };
                guard.release_with(metadata).await?;
            }
            Err(AcquireError::Held(_)) if was.is_none_or(|was| was.status == Status::Pending) => others += 1,
            Err(AcquireError::Held(_)) => rest.push((key, seen)),
            Err(AcquireError::Absent) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((rest, others))
}

#[cfg(test)]
mod tests {
    //! Plan: what others have under their hands for a moment is waited for; what was run anew meanwhile is left alone; a
    //! process that came later is no reason to refuse, one that came before is, and so is one that has done something, whatever its
    //! clock says; what is done after the results were gathered is left alone; what waits for another attempt begins anew, unless somebody has it.
    use super::*;
    use crate::stepped_clock::SteppedClock;
    use crate::work::job::presence::await_session;
    use std::ffi::OsStr;
    use tenure::{Guard, MemoryStore};

    /// Starts processes on one store, in simulated time, with what they say of themselves.
    fn processes() -> impl Fn(Metadata) -> Leases {
        let clock = SteppedClock::start();
        let store = MemoryStore::new("simulated", clock.clone());
        move |about| Leases::builder(store.clone()).clock(clock.clone()).metadata(about).start().unwrap()
    }

    fn two() -> (Leases, Leases) {
        let start = processes();
        (start(Metadata::new()), start(Metadata::new()))
    }

    /// One that is at work on a job.
    fn at_work(start: &impl Fn(Metadata) -> Leases, job: &str) -> Leases {
        let leases = start(Metadata::from([("work".to_owned(), Value::from(job))]));
        leases.begin_session();
        leases
    }

    async fn unit(leases: &Leases, status: &str, finished: i64) -> Listed {
        let metadata =
            Metadata::from([("status".into(), status.into()), ("finished".into(), finished.into())]);
        let mut nonces = Nonces::new(7);
        let record = vacant(leases, &mut nonces, Fence(1), metadata);
        let key = Key::new("work/j/u").unwrap();
        let write = Write { key, expect: Expect::Absent, record };
        leases.store().write_all(vec![write]).await.unwrap();
        leases.store().list_all("work/j/").await.unwrap().remove(0)
    }

    async fn claimed(leases: &Leases) -> Guard {
        leases.lock("work/j/u").keep_metadata(None).try_acquire().await.unwrap()
    }

    async fn earlier(leases: &Leases) -> Earlier {
        Earlier::gather(leases.store(), "work/j/", |_| true).await.unwrap()
    }

    async fn status(leases: &Leases) -> String {
        let listed = leases.store().list_all("work/j/").await.unwrap().remove(0);
        listed.stored.unwrap().record.metadata["status"].as_text().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_unit_that_another_has_taken_by_mistake_is_run_anew_once_it_is_given_back() {
        let ((here, there), mut nonces) = (two(), Nonces::new(1));
        let seen = unit(&here, "done", 5).await;
        let earlier = earlier(&here).await;
        let guard = claimed(&there).await;
        let giving_back = async {
            tokio::time::sleep(PAUSE * 2).await;
            guard.release().await;
        };
        let (reset, ()) = tokio::join!(reset(&here, &mut nonces, [&seen].into_iter(), &earlier), giving_back);
        assert_eq!((reset.unwrap(), status(&here).await.as_str()), (1, "pending"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_run_anew_meanwhile_is_not_run_once_more() {
        let ((here, there), mut nonces) = (two(), Nonces::new(1));
        let seen = unit(&here, "done", 5).await;
        let earlier = earlier(&here).await;
        let guard = claimed(&there).await;
        let later = Metadata::from([("status".into(), "done".into()), ("finished".into(), 6.into())]);
        guard.release_with(later).await.unwrap();
        reset(&here, &mut nonces, [&seen].into_iter(), &earlier).await.unwrap();
        assert_eq!(status(&here).await, "done");
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_that_begin_anew_the_later_one_is_refused() {
        let start = processes();
        let name = JobName::new(OsStr::new("j")).unwrap();
        let first = at_work(&start, "j");
        await_session(&first).await.unwrap();
        check_alone(&first, &name, &Earlier::default()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        let (second, other) = (at_work(&start, "j"), at_work(&start, "k"));
        for later in [&second, &other] {
            await_session(later).await.unwrap();
        }
        assert_eq!(check_alone(&second, &name, &Earlier::default()).await.unwrap_err().code, exit::HELD);
        check_alone(&first, &name, &Earlier::default()).await.unwrap();
        check_alone(&other, &JobName::new(OsStr::new("k")).unwrap(), &Earlier::default()).await.unwrap();
        first.stop().await;
        check_alone(&second, &name, &Earlier::default()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_lives_and_has_done_or_has_a_unit_was_there_before_though_its_clock_says_otherwise() {
        let start = processes();
        let name = JobName::new(OsStr::new("j")).unwrap();
        let here = at_work(&start, "j");
        await_session(&here).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        // Its fence is higher, as that of a process whose clock is ahead.
        let ahead = at_work(&start, "j");
        await_session(&ahead).await.unwrap();
        unit(&here, "pending", 0).await;
        check_alone(&here, &name, &earlier(&here).await).await.unwrap();
        let guard = claimed(&ahead).await;
        let refused = check_alone(&here, &name, &earlier(&here).await).await;
        assert_eq!(refused.unwrap_err().code, exit::HELD, "it has a unit");
        let done = Metadata::from([
            ("status".into(), "done".into()),
            ("worker".into(), ahead.holder().as_str().into()),
        ]);
        guard.release_with(done).await.unwrap();
        let refused = check_alone(&here, &name, &earlier(&here).await).await;
        assert_eq!(refused.unwrap_err().code, exit::HELD, "it has done one");
        ahead.stop().await;
        check_alone(&here, &name, &earlier(&here).await).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_done_while_others_are_looked_for_is_not_run_once_more() {
        let ((here, there), mut nonces) = (two(), Nonces::new(1));
        unit(&here, "pending", 0).await;
        let before = earlier(&here).await;
        // By one that has joined since, and is therefore no reason to refuse.
        let done = Metadata::from([("status".into(), "done".into()), ("finished".into(), 6.into())]);
        claimed(&there).await.release_with(done).await.unwrap();
        let seen = here.store().list_all("work/j/").await.unwrap().remove(0);
        assert_eq!(reset(&here, &mut nonces, [&seen].into_iter(), &before).await.unwrap(), 0);
        assert_eq!(status(&here).await, "done");
        let now = earlier(&here).await;
        assert_eq!(reset(&here, &mut nonces, [&seen].into_iter(), &now).await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_another_attempt_begins_anew_unless_who_lives_has_it() {
        let ((here, there), mut nonces) = (two(), Nonces::new(1));
        let of_it = async |leases: &Leases| {
            let stored = leases.store().list_all("work/j/").await.unwrap().remove(0).stored.unwrap();
            Unit::of(&stored.record.metadata).unwrap()
        };
        unit(&here, "pending", 0).await;
        let seen = here.store().list_all("work/j/").await.unwrap().remove(0);
        let begun = reset(&here, &mut nonces, [&seen].into_iter(), &earlier(&here).await).await.unwrap();
        assert_eq!(begun, 0, "it was never tried");
        let tried = Metadata::from([
            ("status".into(), "pending".into()),
            ("attempts".into(), 2.into()),
            ("takeovers".into(), 1.into()),
            ("not_before".into(), i64::MAX.into()),
        ]);
        claimed(&there).await.release_with(tried.clone()).await.unwrap();
        let guard = claimed(&there).await;
        let held = here.store().list_all("work/j/").await.unwrap().remove(0);
        let begun = reset(&here, &mut nonces, [&held].into_iter(), &earlier(&here).await).await.unwrap();
        assert_eq!((begun, of_it(&here).await.attempts), (0, 2), "somebody has it");
        guard.release().await;
        let seen = here.store().list_all("work/j/").await.unwrap().remove(0);
        let begun = reset(&here, &mut nonces, [&seen].into_iter(), &earlier(&here).await).await.unwrap();
        assert_eq!((begun, of_it(&here).await.is_tried()), (1, false));
        // Its worker has died.
        claimed(&there).await.release_with(tried).await.unwrap();
        let ttl = Duration::from_millis(300);
        there.lock("work/j/u").ttl(ttl).keep_metadata(None).try_acquire().await.unwrap().lapse().await;
        tokio::time::sleep(ttl * 2).await;
        let seen = here.store().list_all("work/j/").await.unwrap().remove(0);
        assert!(seen.stored.as_ref().unwrap().record.tenure.is_some());
        let begun = reset(&here, &mut nonces, [&seen].into_iter(), &earlier(&here).await).await.unwrap();
        assert_eq!((begun, of_it(&here).await.is_tried()), (1, false));
    }
}
