//! The slots: so many units' commands run at a time, and the next one begins as soon as one has ended.

use crate::config::Template;
use crate::output;
use crate::supervise::run::{Outcome, Policy, run};
use crate::supervise::stopping::{Stopper, Why};
use crate::text::escaped;
use std::collections::{BTreeMap, VecDeque};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{Guard, Key};

/// A unit that this process holds, to be run.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) key: Key,
    /// The unit's text: the end of its key.
    pub(crate) unit: String,
    pub(crate) guard: Guard,
}

/// What became of a task.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The command ended with this status by itself.
    Ran { status: ExitStatus, started: u64, finished: u64, took: Duration },
    /// It was stopped by us.
    Stopped(Why),
    /// It was not started: its lease was being lost, or it was to stop already.
    TooLate,
    /// It can't be killed, or what it left running can't, and may still act.
    Stuck,
    /// It could not be started.
    NotStarted(std::io::Error),
}

/// How commands are run, and who is told of each that has ended.
pub(crate) struct Setup {
    pub(crate) command: Template,
    pub(crate) policy: Policy,
    pub(crate) ended: Box<dyn Fn(Key, Guard, Ended) + Send + Sync>,
}

pub(crate) struct Slots {
    n: usize,
    setup: Arc<Setup>,
    waiting: VecDeque<Task>,
    running: BTreeMap<Key, Arc<Stopper>>,
}

impl Slots {
    pub(crate) fn new(n: usize, setup: Setup) -> Slots {
        Slots { n, setup: Arc::new(setup), waiting: VecDeque::new(), running: BTreeMap::new() }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.setup.policy
    }

    /// Tasks that run, or wait for a slot.
    pub(crate) fn tasks(&self) -> usize {
        self.waiting.len() + self.running()
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn push(&mut self, task: Task) {
        self.waiting.push_back(task);
        self.fill();
    }

    /// A task's slot is free: it has ended, or nobody waits for it any more.
    pub(crate) fn free(&mut self, key: &Key) {
        self.running.remove(key);
        self.fill();
    }

    /// Stops what runs. Returns what was not begun.
    pub(crate) fn stop(&mut self, grace: Duration) -> Vec<Task> {
        self.running.values().for_each(|stopper| stopper.stop(Why::Asked, grace));
        self.waiting.drain(..).collect()
    }

    /// Kills what runs, without waiting for anything.
    pub(crate) fn kill(&self) {
        self.running.values().for_each(|stopper| stopper.kill());
    }

    fn fill(&mut self) {
        while self.running.len() < self.n
            && let Some(Task { key, unit, guard }) = self.waiting.pop_front()
        {
            let (setup, stopper) = (Arc::clone(&self.setup), Arc::<Stopper>::default());
            self.running.insert(key.clone(), Arc::clone(&stopper));
            tokio::spawn(async move {
                let ended = setup.run(&unit, &guard, &stopper).await;
                (setup.ended)(key, guard, ended);
            });
        }
    }
}

impl Setup {
    /// Runs a unit's command.
    async fn run(&self, unit: &str, guard: &Guard, stopper: &Arc<Stopper>) -> Ended {
        let wall = || self.policy.clock.now().wall.0;
        let asked_at = boottime();
        self.policy.watchdogs.prolong(asked_at, guard.remaining());
        let (started, began) = (wall(), boottime());
        match run(guard, self.command.for_unit(unit), &self.policy, stopper).await {
            Outcome::Ended { status, stopped, left } => {
                if let Some(text) = left {
                    output::note(format!("{}: {text}", escaped(unit)));
                }
                match stopped {
                    // It ended well in the time that it was given: that counts.
                    Some(why) if !status.success() => Ended::Stopped(why),
                    _ => Ended::Ran {
                        status,
                        started,
                        finished: wall(),
                        took: boottime().saturating_sub(began),
                    },
                }
            }
            Outcome::TooLate => Ended::TooLate,
            Outcome::NotStarted(error) => Ended::NotStarted(error),
            Outcome::Stuck(_) => Ended::Stuck,
        }
    }
}
