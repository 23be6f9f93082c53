//! A job at one moment, from the records of its units and the sessions of those who work on it.

use crate::exit::Failure;
use crate::keys::JobName;
use crate::output::view::{Sessions, State, View};
use crate::stores::pages::Pages;
use crate::work::job::unit::{Status, Unit};
use crate::work::units::text_of;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::{AnyStore, Leases, Listed, Metadata, Value, Wall};

/// How far back the rate looks.
pub(super) const WINDOW: Duration = Duration::from_secs(300);

/// A job.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) done: usize,
    /// To be run, by nobody at the moment.
    pub(super) waiting: usize,
    pub(super) running: Vec<Running>,
    pub(super) failed: Vec<Failed>,
    pub(super) damaged: usize,
    /// When the first run of those that are known began, and when the last one ended, in Unix milliseconds.
    pub(super) began: Option<u64>,
    pub(super) ended: Option<u64>,
    /// Units that came to a result of late.
    recent: usize,
    pub(super) workers: Vec<Worker>,
}

/// A unit that somebody holds.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) unit: String,
    pub(super) holder: String,
    pub(super) since: Wall,
}

/// A unit that has failed, and why.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) unit: String,
    pub(super) exit: Option<i64>,
    pub(super) host: Option<String>,
    pub(super) finished: Option<Wall>,
    pub(super) attempts: u32,
    pub(super) reason: Option<String>,
    pub(super) output: Option<String>,
}

/// A process that works on the job.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) holder: String,
    pub(super) host: String,
    pub(super) pid: i64,
    pub(super) since: Wall,
    pub(super) held: usize,
}

impl Survey {
    pub(super) fn units(&self) -> usize {
        self.done + self.waiting + self.running.len() + self.failed.len() + self.damaged
    }

    /// Units that are to come to a result yet.
    pub(super) fn open(&self) -> usize {
        self.waiting + self.running.len()
    }

    /// Results a second, of late.
    pub(super) fn rate(&self, now: Wall) -> Option<f64> {
        let span = now.since(Wall(self.began?)).min(WINDOW);
        (self.recent > 0 && !span.is_zero()).then(|| self.recent as f64 / span.as_secs_f64())
    }

    /// How long it takes yet at this rate, if anybody is at work.
    pub(super) fn left(&self, now: Wall) -> Option<Duration> {
        let rate = self.rate(now).filter(|_| !self.workers.is_empty() && self.open() > 0)?;
        Duration::try_from_secs_f64(self.open() as f64 / rate).ok()
    }

    fn add(&mut self, view: View, now: Wall) {
        let Ok(stored) = view.stored else {
            self.damaged += 1;
            return;
        };
        let metadata = &stored.record.metadata;
        let Some(unit) = Unit::name(&view.key, metadata).map(|name| text_of(&name)) else {
            self.damaged += 1;
            return;
        };
        let unit = unit.as_str();
        let Some(seen) = Unit::of(metadata) else {
            self.damaged += 1;
            return;
        };
        let whole =
            |name: &str| metadata.get(name).and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok());
        let (started, finished) = (whole("started"), whole("finished"));
        self.began = self.began.into_iter().chain(started).min();
        self.ended = self.ended.max(finished);
        let is_settled = seen.status != Status::Pending;
        let is_recent = finished.is_some_and(|at| now.since(Wall(at)) < WINDOW);
        self.recent += usize::from(is_settled && is_recent);
        let tenure = stored.record.tenure.as_ref().filter(|_| view.state == State::Held);
        match (seen.status, tenure) {
            (Status::Done, _) => self.done += 1,
            (Status::Failed, _) => self.failed.push(Failed::of(unit, &seen, metadata)),
            (Status::Pending, None) => self.waiting += 1,
            (Status::Pending, Some(tenure)) => {
                let (unit, holder) = (unit.to_owned(), tenure.holder.to_string());
                self.running.push(Running { unit, holder, since: tenure.since });
            }
        }
    }
}

impl Failed {
    fn of(unit: &str, seen: &Unit, metadata: &Metadata) -> Failed {
        let text = |name: &str| metadata.get(name).and_then(Value::as_text).map(str::to_owned);
        let finished = Unit::finished(metadata);
        Failed {
            unit: unit.to_owned(),
            exit: metadata.get("exit").and_then(Value::as_i64),
            host: text("host"),
            finished: (finished > 0).then_some(Wall(finished)),
            attempts: seen.attempts,
            reason: text("reason"),
            output: text("output"),
        }
    }
}

/// All jobs whose keys begin so, by name.
pub(super) async fn survey(leases: &Leases, prefix: &str) -> Result<BTreeMap<String, Survey>, Failure> {
    let store = leases.store();
    let now = || leases.clock().now().wall;
    let (mut sessions, mut pages) = (Sessions::default(), Pages::default());
    let mut jobs = BTreeMap::<String, Survey>::new();
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
            survey.workers.push(Worker { held, ..worker });
        }
    }
    Ok(jobs)
}

/// All processes that live and work on a job, with its name.
async fn workers(
    store: &AnyStore,
    sessions: &mut Sessions,
    now: Wall,
) -> Result<Vec<(String, Worker)>, Failure> {
    let (mut pages, mut workers) = (Pages::default(), Vec::new());
    while let Some(page) = pages.next(store, "session/").await? {
        for listed in page {
            workers.extend(worker(View::of(store, sessions, listed, now).await));
        }
    }
    Ok(workers)
}

fn worker(view: View) -> Option<(String, Worker)> {
    let stored = view.stored.ok().filter(|_| view.state == State::Held)?;
    let (tenure, about) = (stored.record.tenure?, &stored.record.metadata);
    let job = about.get("work")?.as_text()?.to_owned();
    let host = about.get("host").and_then(Value::as_text).unwrap_or("?").to_owned();
    let pid = about.get("pid").and_then(Value::as_i64).unwrap_or_default();
    Some((job, Worker { holder: tenure.holder.to_string(), host, pid, since: tenure.since, held: 0 }))
}

/// The job of this name; none if it has no units.
pub(super) async fn of_job(leases: &Leases, name: &JobName) -> Result<Option<Survey>, Failure> {
    Ok(survey(leases, &name.prefix()).await?.remove(name.as_str()))
}

/// The records of all its units.
pub(super) async fn records(store: &AnyStore, name: &JobName) -> Result<Vec<Listed>, Failure> {
    let (mut pages, mut all) = (Pages::default(), Vec::new());
    while let Some(page) = pages.next(store, &name.prefix()).await? {
        all.extend(page);
    }
    Ok(all)
}
