//! A job at one moment, from the records of its units and the sessions of those who work on it.

use crate::exit::Failure;
use crate::keys::JobName;
use crate::output::view::{Sessions, State, View};
use crate::stores::pages::Pages;
use crate::work::job::damaged::DamagedUnit;
use crate::work::job::failed::Failed;
use crate::work::job::presence::job_of;
use crate::work::job::unit::{Status, Unit};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::store::Listed;
use tenure::store::reserved::SESSION;
use tenure::{AnyStore, Leases, Value, Wall};

/// How far back the rate looks.
pub(super) const WINDOW: Duration = Duration::from_secs(300);

/// A job.
#[derive(Debug, Default)]
pub(super) struct JobSurvey {
    pub(super) done: usize,
    /// To be run, by nobody at the moment.
    pub(super) waiting: usize,
    /// Those of them that have failed before.
    pub(super) retrying: Vec<RetryingUnit>,
    pub(super) running: Vec<RunningUnit>,
    pub(super) failed: Vec<Failed>,
    /// Those whose records this version does not read as units'.
    pub(super) damaged: Vec<DamagedUnit>,
    /// When the first run of those that are known began, and when the last one ended, in Unix milliseconds.
    pub(super) began: Option<u64>,
    pub(super) ended: Option<u64>,
    /// Units that came to a result of late, and when the first of these runs began: a job may have rested before that.
    recent: usize,
    recent_since: Option<u64>,
    pub(super) workers: Vec<JobWorker>,
}

/// A unit that waits for its next attempt, and why.
#[derive(Debug)]
pub(super) struct RetryingUnit {
    pub(super) failed: Failed,
    /// When that is due at the earliest, if the record tells.
    pub(super) due: Option<Wall>,
}

/// A unit that somebody holds.
#[derive(Debug)]
pub(super) struct RunningUnit {
    pub(super) unit: Vec<u8>,
    pub(super) holder: String,
    pub(super) since: Wall,
}

/// A process that works on the job.
#[derive(Debug)]
pub(super) struct JobWorker {
    pub(super) holder: String,
    pub(super) host: String,
    pub(super) pid: i64,
    pub(super) since: Wall,
    pub(super) held: usize,
}

impl JobSurvey {
    pub(super) fn units(&self) -> usize {
        self.done + self.waiting + self.running.len() + self.failed.len() + self.damaged.len()
    }

    /// Units that are to come to a result yet.
    pub(super) fn open(&self) -> usize {
        self.waiting + self.running.len()
    }

    /// Results a second, of late. A job on which nobody works is as fast as it was, for as long as that is of late.
    pub(super) fn rate(&self, now: Wall) -> Option<f64> {
        let ended = self.ended.filter(|_| self.workers.is_empty());
        let span = ended.map_or(now, Wall).since(Wall(self.recent_since?)).min(WINDOW);
        (self.recent > 0 && !span.is_zero()).then(|| self.recent as f64 / span.as_secs_f64())
    }

    /// How long it takes yet at this rate, if anybody is at work.
    pub(super) fn left(&self, now: Wall) -> Option<Duration> {
        let rate = self.rate(now).filter(|_| !self.workers.is_empty() && self.open() > 0)?;
        Duration::try_from_secs_f64(self.open() as f64 / rate).ok()
    }

    fn add(&mut self, view: View, now: Wall) {
        let stored = match view.stored {
            Ok(stored) => stored,
            Err(problem) => return self.damaged.push(DamagedUnit::of(view.key, None, Some(problem))),
        };
        let metadata = &stored.record.metadata;
        let problem = Unit::problem(&view.key, metadata);
        let (unit, seen) = match (problem, Unit::name(&view.key, metadata), Unit::of(metadata)) {
            (None, Some(unit), Some(seen)) => (unit, seen),
            (problem, unit, _) => {
                let damaged = DamagedUnit::of(view.key, unit, problem);
                return self.damaged.push(damaged.held(stored.record.tenure.is_some()));
            }
        };
        let whole =
            |name: &str| metadata.get(name).and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok());
        let (started, finished) = (whole("started"), whole("finished"));
        self.began = self.began.into_iter().chain(started).min();
        self.ended = self.ended.max(finished);
        let is_settled = seen.status != Status::Pending;
        let is_recent = finished.is_some_and(|at| now.since(Wall(at)) < WINDOW);
        if is_settled && is_recent {
            self.recent += 1;
            self.recent_since = self.recent_since.into_iter().chain(started).min();
        }
        // Whoever holds it by a session that can't be read may be at work.
        let tenure = stored.record.tenure.as_ref().filter(|_| view.state != State::Expired);
        match (seen.status, tenure) {
            (Status::Done, _) => self.done += 1,
            (Status::Failed, _) => self.failed.push(Failed::of(&unit, &seen, metadata)),
            (Status::Pending, None) => {
                self.waiting += 1;
                if seen.attempts > 0 {
                    let due = (seen.not_before > 0).then_some(Wall(seen.not_before));
                    self.retrying.push(RetryingUnit { failed: Failed::of(&unit, &seen, metadata), due });
                }
            }
            (Status::Pending, Some(tenure)) => {
                let holder = tenure.holder.to_string();
                self.running.push(RunningUnit { unit, holder, since: tenure.since });
            }
        }
    }
}

/// All jobs whose keys begin so, by name.
pub(super) async fn survey(leases: &Leases, prefix: &str) -> Result<BTreeMap<String, JobSurvey>, Failure> {
    let store = leases.store();
    let now = || leases.clock().now().wall;
    let (mut sessions, mut pages) = (Sessions::default(), Pages::default());
    let mut jobs = BTreeMap::<String, JobSurvey>::new();
    while let Some(page) = pages.next(store, prefix).await? {
        sessions.follow(store, &page, now()).await?;
        for listed in page {
            let key = listed.key.clone();
            let Some((job, _)) = JobName::of_key(&key) else { continue };
            let view = View::of(store, &mut sessions, listed, now()).await;
            jobs.entry(job.to_owned()).or_default().add(view, now());
        }
    }
    for (job, worker) in workers(store, &mut sessions, now()).await? {
        if let Some(survey) = jobs.get_mut(&job) {
            let held = survey.running.iter().filter(|running| running.holder == worker.holder).count();
            survey.workers.push(JobWorker { held, ..worker });
        }
    }
    Ok(jobs)
}

/// All processes that live and work on a job, with its name.
async fn workers(
    store: &AnyStore,
    sessions: &mut Sessions,
    now: Wall,
) -> Result<Vec<(String, JobWorker)>, Failure> {
    let (mut pages, mut workers) = (Pages::default(), Vec::new());
    while let Some(page) = pages.next(store, SESSION).await? {
        for session in page {
            let Some(job) = job_of(&session).map(str::to_owned) else { continue };
            let (worker, view) = (worker(&session), View::of(store, sessions, session, now).await);
            workers.extend(worker.filter(|_| view.state == State::Held).map(|worker| (job, worker)));
        }
    }
    Ok(workers)
}

/// Whose session this is.
pub(super) fn worker(session: &Listed) -> Option<JobWorker> {
    let record = &session.stored.as_ref().ok()?.record;
    let (tenure, about) = (record.tenure.as_ref()?, &record.metadata);
    let host = about.get("host").and_then(Value::as_text).unwrap_or("?").to_owned();
    let pid = about.get("pid").and_then(Value::as_i64).unwrap_or_default();
    Some(JobWorker { holder: tenure.holder.to_string(), host, pid, since: tenure.since, held: 0 })
}

/// The job of this name; none if it has no units.
pub(super) async fn of_job(leases: &Leases, name: &JobName) -> Result<Option<JobSurvey>, Failure> {
    Ok(survey(leases, &name.prefix()).await?.remove(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::job::unit::Ran;
    use tenure::store::{Record, Stored};
    use tenure::{Fence, Key};

    const NOW: u64 = 10_000_000;

    /// A job whose units were run so, in seconds before now; and one that waits.
    fn job(runs: &[(u64, u64)]) -> JobSurvey {
        let at = |secs: u64| NOW - secs * 1000;
        let mut job = JobSurvey::default();
        let waiting = std::iter::once(Unit::fresh());
        let ran = runs.iter().map(|(began, ended)| {
            let (started, finished) = (at(*began), at(*ended));
            let ran = Ran { exit: 0, host: "h", worker: "w", started, finished, output: None };
            Unit::record(Unit::fresh(), Status::Done, 0, None, &ran)
        });
        for (n, metadata) in ran.chain(waiting).enumerate() {
            let key = Key::new(format!("work/j/{n}")).unwrap();
            let nonce = Default::default();
            let record = Record { fence: Fence(1), nonce, stamp: Wall(0), tenure: None, metadata };
            let stored = Ok(Stored::new(record));
            let (left, leased, shared, doubt) = (None, None, None, None);
            let (state, is_doubtful) = (State::Vacant, false);
            job.add(View { key, state, left, is_doubtful, leased, shared, doubt, stored }, Wall(NOW));
        }
        job
    }

    #[test]
    fn a_job_that_was_resumed_is_as_fast_as_it_is_since_then() {
        let run = [(60, 40), (40, 20), (20, 0)];
        let fresh = job(&run).rate(Wall(NOW)).unwrap();
        assert!((fresh - 0.05).abs() < 1e-9, "{fresh}");
        let before: Vec<(u64, u64)> = (0..100).map(|n| (4000 + n, 3999 + n)).collect();
        let resumed = job(&[&before[..], &run].concat());
        assert_eq!(resumed.rate(Wall(NOW)), Some(fresh), "what was long before makes no difference");
        assert_eq!(job(&before).rate(Wall(NOW)), None);
        assert_eq!(job(&[]).rate(Wall(NOW)), None);
    }

    #[test]
    fn a_run_that_began_long_ago_counts_for_the_time_that_is_looked_at() {
        assert_eq!(job(&[(9000, 1)]).rate(Wall(NOW)), Some(1.0 / WINDOW.as_secs_f64()));
    }

    #[test]
    fn a_job_that_has_ended_is_as_fast_whenever_one_asks() {
        let mut ended = job(&[(120, 110), (110, 100)]);
        assert_eq!(ended.rate(Wall(NOW)), Some(0.1));
        assert_eq!(ended.rate(Wall(NOW + 60_000)), Some(0.1));
        let holder = "w".to_owned();
        ended.workers.push(JobWorker { host: "h".into(), pid: 1, since: Wall(0), held: 0, holder });
        assert_eq!(ended.rate(Wall(NOW)), Some(2.0 / 120.0), "somebody is at work, and slow");
    }

    #[test]
    fn time_left_is_told_while_somebody_is_at_work() {
        let mut job = job(&[(20, 10)]);
        assert_eq!(job.left(Wall(NOW)), None);
        let holder = "w".to_owned();
        job.workers.push(JobWorker { host: "h".into(), pid: 1, since: Wall(0), held: 0, holder });
        assert_eq!(job.left(Wall(NOW)), Some(Duration::from_secs(20)), "one unit, at one in 20 s");
    }
}
