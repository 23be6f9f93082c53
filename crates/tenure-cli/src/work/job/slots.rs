//! The slots: so many units' commands run at a time, and the next one begins as soon as one has ended.

use crate::config::Template;
use crate::output;
use crate::supervise::run::{CommandOutcome, Policy, run};
use crate::supervise::stopping::{Stopper, Why};
use crate::text::escaped;
use crate::work::job::pacing::{Pacing, load_average};
use crate::work::job::pieces::capture::{Captured, Captures, are_too_many_open};
use crate::work::job::turns::{ClaimQueue, Turn};
use crate::work::job::unit::Unit;
use crate::work::template::Filling;
use crate::work::units::text_of;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{Cancelled, Guard, Key};

/// A unit that this process holds, to be run.
#[derive(Debug)]
pub(crate) struct UnitTask {
    pub(crate) key: Key,
    /// What it is called.
    pub(crate) unit: Vec<u8>,
    /// Its place among those that were given, from 0.
    pub(crate) number: Option<usize>,
    pub(crate) guard: Guard,
}

/// What became of a task.
#[derive(Debug)]
pub(crate) enum EndedUnit {
    /// The command ended with this status by itself.
    Ran { status: ExitStatus, started: u64, finished: u64, took: Duration },
    /// It was stopped because it had run for as long as it may.
    Overran { started: u64, finished: u64 },
    /// It was stopped by us.
    Stopped { why: Why, started: u64, finished: u64 },
    /// It was not started: its lease was being lost, or it was to stop already.
    TooLate,
    /// It can't be killed, or what it left running can't, and may still act.
    Stuck,
    /// It could not be started.
    NotStarted(std::io::Error),
    /// It was not started: there is no file to be had for what it writes, or too many are open for that.
    Uncaught(std::io::Error),
}

/// How commands are run, and who is told of each that has ended.
pub(crate) struct Setup {
    pub(crate) command: Template,
    pub(crate) policy: Policy,
    /// Files for what they write; none if it passes through.
    pub(crate) captures: Option<Arc<Captures>>,
    /// What came of a run may wait long until it is recorded.
    pub(crate) is_kept: bool,
    /// Each start is told.
    pub(crate) is_verbose: bool,
    pub(crate) ended: Box<dyn Fn(Key, Guard, EndedUnit, Option<Captured>) + Send + Sync>,
}

pub(crate) struct Slots {
    n: usize,
    setup: Arc<Setup>,
    pacing: Pacing,
    waiting: ClaimQueue<UnitTask>,
    running: BTreeMap<Key, RunningUnit>,
    /// Nothing is started for now.
    is_held: bool,
    /// Since when more is claimed than may be started soon.
    surplus_since: Option<Duration>,
    /// Since when all slots are taken, and none has come free.
    full_since: Option<Duration>,
}

/// How long what was claimed ahead waits for its start: others are to have it then.
const PATIENCE: Duration = Duration::from_secs(1);

/// One slot that is taken.
struct RunningUnit {
    stopper: Arc<Stopper>,
    /// From 1; no two that run at the same time have the same.
    slot: usize,
    /// Its lease was withdrawn, or lost.
    cancelled: Cancelled,
}

impl Slots {
    pub(crate) fn new(n: usize, pacing: Pacing, setup: Setup) -> Slots {
        let (waiting, running) = (ClaimQueue::default(), BTreeMap::new());
        Slots {
            n,
            setup: Arc::new(setup),
            pacing,
            waiting,
            running,
            is_held: false,
            surplus_since: None,
            full_since: None,
        }
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

    /// A unit is being claimed: those claimed later begin after it, once it is `answered`.
    pub(crate) fn claiming(&mut self) -> Turn {
        self.waiting.ask(boottime())
    }

    /// What was won by that claim is pushed next.
    pub(crate) fn answered(&mut self, turn: Turn) {
        self.waiting.answered(turn);
    }

    /// Without a turn it is the last one.
    pub(crate) fn push(&mut self, turn: Option<Turn>, task: UnitTask) {
        let turn = turn.unwrap_or_else(|| self.waiting.last());
        self.waiting.won(turn, task);
        self.fill();
    }

    /// A task's slot is free: it has ended, or nobody waits for it any more. What follows from that may be that nothing more is begun, so
    /// the next one is not begun here. Its number is returned.
    pub(crate) fn free(&mut self, key: &Key) -> Option<usize> {
        self.full_since = None;
        self.running.remove(key).map(|running| running.slot)
    }

    /// How many more units are to be claimed, by when they may be started. `claiming`: how many are being claimed already.
    pub(crate) fn soon(&mut self, claiming: usize) -> usize {
        let soon = self.pacing.soon(boottime(), self.running.is_empty(), load_average);
        soon.saturating_sub(self.waiting.len() + claiming)
    }

    /// Whether what runs takes long, however short other runs were: nothing is claimed ahead of it.
    pub(crate) fn are_long_full(&self) -> bool {
        self.full_since.is_some_and(|since| boottime().saturating_sub(since) > PATIENCE)
    }

    /// Starts nothing from now on, or goes on to start. What was claimed ahead and can't be started soon, be it for that, for its pace or for what runs,
    /// is returned once that has been so for long enough.
    pub(crate) fn hold(&mut self, is_held: bool) -> Vec<UnitTask> {
        let now = boottime();
        self.is_held = is_held;
        let soon = self.pacing.soon(now, self.running.is_empty(), load_average);
        let may_start = if is_held { 0 } else { soon };
        let is_surplus = self.waiting.len() > may_start;
        self.surplus_since = is_surplus.then(|| self.surplus_since.unwrap_or(now));
        let is_long = self.surplus_since.is_some_and(|since| now.saturating_sub(since) > PATIENCE);
        if self.are_long_full() {
            self.waiting.drain_after(0)
        } else if is_long {
            self.waiting.drain_after(may_start)
        } else {
            Vec::new()
        }
    }

    /// Stops what runs.
    pub(crate) fn stop(&mut self, grace: Duration) {
        self.running.values().for_each(|running| running.stopper.stop(Why::Asked, grace));
    }

    /// What was not begun, and isn't to be.
    pub(crate) fn drain(&mut self) -> Vec<UnitTask> {
        self.waiting.drain_after(0)
    }

    /// How long what waits for its time, and not for a slot, has to.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let now = boottime();
        let is_due = !self.is_held && self.running.len() < self.n && self.waiting.is_due(now);
        is_due.then(|| self.pacing.wait(now, self.running.is_empty(), load_average))
    }

    /// Kills what runs, without waiting for anything.
    pub(crate) fn kill(&self) {
        self.running.values().for_each(|running| running.stopper.kill());
    }

    /// Tells the watchdogs that what runs here is good for `left`, from the time *before* that was asked. Not while a lease is withdrawn whose
    /// command runs: such a one ends at the deadline that it had, however long the session lives, and they know one deadline for all. It was
    /// withdrawn before the session was renewed, so to look for that after `left` was asked is in time.
    pub(crate) fn prolong(&self, asked_at: Duration, left: Duration) {
        let is_none_withdrawn = || !self.running.values().any(|running| running.cancelled.is_cancelled());
        self.setup.policy.watchdogs.prolong_if(asked_at, left, is_none_withdrawn);
    }

    fn first_free(&self) -> usize {
        let taken: BTreeSet<usize> = self.running.values().map(|running| running.slot).collect();
        (1..=self.n).find(|slot| !taken.contains(slot)).unwrap_or(self.n)
    }

    /// Starts what may be started now.
    pub(crate) fn fill(&mut self) {
        while !self.is_held
            && self.running.len() < self.n
            && self.pacing.wait(boottime(), self.running.is_empty(), load_average).is_zero()
            && let Some(UnitTask { key, unit, number, guard }) = self.waiting.pop(boottime())
        {
            let (setup, stopper) = (Arc::clone(&self.setup), Arc::<Stopper>::default());
            let slot = self.first_free();
            let asked_at = boottime();
            self.prolong(asked_at, guard.remaining());
            let running = RunningUnit { stopper: Arc::clone(&stopper), slot, cancelled: guard.cancelled() };
            self.running.insert(key.clone(), running);
            self.pacing.started(boottime());
            tokio::spawn(async move {
                let mut guard = guard;
                let (ended, captured) = setup.run(&unit, number, slot, &guard, &stopper).await;
                let is_kept =
                    setup.is_kept && matches!(ended, EndedUnit::Ran { .. } | EndedUnit::Overran { .. });
                if let Some(metadata) = Unit::survived(guard.metadata()).filter(|_| is_kept) {
                    // A process that dies from now on does not die of this unit. What fails here fails when the result is recorded as well.
                    let _told = guard.update(metadata).await;
                }
                (setup.ended)(key, guard, ended, captured);
            });
        }
        if self.running.len() >= self.n {
            self.full_since.get_or_insert_with(boottime);
        }
    }
}

impl Setup {
    /// Runs a unit's command.
    async fn run(
        &self,
        unit: &[u8],
        number: Option<usize>,
        slot: usize,
        guard: &Guard,
        stopper: &Arc<Stopper>,
    ) -> (EndedUnit, Option<Captured>) {
        let mut command =
            self.command.filled(&Filling { unit, number: number.map(|n| n + 1), slot: Some(slot) });
        let mut captured = match self.captures.as_ref().map(|captures| captures.take()).transpose() {
            Ok(captured) => captured,
            Err(error) => return (EndedUnit::Uncaught(error), None),
        };
        match captured.as_ref().map(Captured::stdio).transpose() {
            Ok(Some((out, err))) => {
                command.stdout(out).stderr(err);
            }
            Ok(None) => {}
            Err(error) => return (EndedUnit::Uncaught(error), None),
        }
        if self.is_verbose {
            output::note(format!("{}: starts", escaped(&text_of(unit))));
        }
        (self.run_it(command, unit, guard, stopper, captured.as_mut()).await, captured)
    }

    async fn run_it(
        &self,
        command: Command,
        unit: &[u8],
        guard: &Guard,
        stopper: &Arc<Stopper>,
        captured: Option<&mut Captured>,
    ) -> EndedUnit {
        if guard.is_revoked() {
            // Before it had its slot, perhaps: the watchdogs may have been told a later deadline by then.
            return EndedUnit::TooLate;
        }
        let wall = || self.policy.clock.now().wall.0;
        let (started, began) = (wall(), boottime());
        match run(guard, command, &self.policy, stopper).await {
            CommandOutcome::Ended { status, stopped, left, is_all_over } => {
                if let Some(captured) = captured.filter(|_| !is_all_over) {
                    captured.is_open_elsewhere = true;
                }
                if let Some(text) = left {
                    output::note(format!(
                        "{}: CMD {text}, since the lease goes with CMD",
                        escaped(&text_of(unit))
                    ));
                }
                match stopped {
                    // Many end well when they are told to end, in the middle of their work: as for timeout(1), that is no success.
                    Some(Why::Overran) => EndedUnit::Overran { started, finished: wall() },
                    // It ended well in the time that it was given: that counts.
                    Some(why) if !status.success() => EndedUnit::Stopped { why, started, finished: wall() },
                    _ => EndedUnit::Ran {
                        status,
                        started,
                        finished: wall(),
                        took: boottime().saturating_sub(began),
                    },
                }
            }
            CommandOutcome::TooLate => EndedUnit::TooLate,
            // Those that catch output are among them.
            CommandOutcome::NotStarted(error) if self.captures.is_some() && are_too_many_open(&error) => {
                EndedUnit::Uncaught(error)
            }
            CommandOutcome::NotStarted(error) => EndedUnit::NotStarted(error),
            CommandOutcome::Stuck(_) => EndedUnit::Stuck,
        }
    }
}
