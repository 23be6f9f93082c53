//! The scheduler: takes units, has them run, records what became of them, until every unit of the job is settled.
//!
//! One task does all of this; claims, listings and records are under way beside it and come back as events. Units are claimed
//! ahead of the slots, as many as it takes for no slot to wait for the store, and no more: what one process has claimed,
//! others can't run.

mod claims;
mod ending;
mod given;
mod incoming;
mod kept;
mod outputs;
mod pending;
mod results;
mod rounds;

use super::board::{Board, Local, Terms};
use super::pacing::Pacing;
use super::pieces::capture::{Captured, Captures};
use super::pieces::joblog::Joblog;
use super::pieces::printer::Printer;
use super::progress::Progress;
use super::slots::{Ended, Setup, Slots};
use super::summary::{self, Tally};
use super::turns::Turn;
use crate::config;
use crate::exit::{self, Asked, Failure};
use crate::keys::JobName;
use crate::supervise::outage::Outage;
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::work::units::Named;
use claims::{From, Trust};
use given::GivenUnits;
use incoming::Incoming;
use outputs::Outputs;
use pending::{PendingResults, UnitResult};
use rounds::Rounds;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{AcquireError, Guard, Key, LeaseError, Leases, Listed, Outcome, StoreError, Write};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What comes back to the scheduler.
enum Event {
    Claimed {
        key: Key,
        from: Option<From>,
        turn: Option<Turn>,
        took: Duration,
        trust: Trust,
        result: Result<Guard, AcquireError>,
    },
    Ended {
        key: Key,
        guard: Guard,
        ended: Ended,
        captured: Option<Captured>,
    },
    Registered {
        writes: Vec<Write>,
        result: Result<Vec<Outcome>, StoreError>,
    },
    /// What this run has written is written out.
    Written(usize),
    /// What commands have written can't be written out.
    Unwritable(std::io::Error),
    Recorded {
        key: Key,
        to: Local,
        result: Result<bool, LeaseError>,
    },
    Page {
        page: Result<Vec<Listed>, StoreError>,
        took: Duration,
    },
    Audit {
        page: Result<Vec<Listed>, StoreError>,
        took: Duration,
    },
}

pub(crate) struct Scheduler {
    plan: config::Work,
    name: JobName,
    leases: Leases,
    outage: Arc<Outage>,
    slots: Slots,
    board: Board,
    rounds: Rounds,
    given: GivenUnits,
    incoming: Incoming,
    outputs: Outputs,
    /// The place of the unit that outputs wait for, if another process has it, and since when.
    awaited: Option<(usize, Duration)>,
    /// What was to be written was not read in time.
    is_unread: bool,
    pending: PendingResults,
    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    host: String,
    began: Duration,
    tally: Tally,
    progress: Progress,
    joblog: Option<Joblog>,
    /// Runs that have ended here.
    runs: usize,
    /// Units to be run alone: their workers have died as often as is allowed.
    suspects: VecDeque<(Key, Guard)>,
    /// One of those runs.
    alone: bool,
    /// Claims that are not answered yet.
    claiming: usize,
    /// Units whose commands run on, as they can't be killed, on their way to be left to expire.
    lapsing: Vec<JoinHandle<()>>,
    /// Units whose leases were being lost, which was not told yet, and since when.
    losing: Vec<Key>,
    losing_since: Duration,
    looked_after: Duration,
    /// Running averages, in seconds: of a claim, and of a run.
    claim_secs: f64,
    run_secs: Option<f64>,
    /// Since when nothing has worked, and what was said last.
    trouble: Option<(Duration, String)>,
    /// Why the scheduler stops before the job is settled.
    stop: Option<Failure>,
}

/// What ends who writes where nobody reads.
const SIGPIPE: i32 = nix::sys::signal::Signal::SIGPIPE as i32;
/// How long it is waited for that the last outputs are read where the user has asked to stop.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long it is waited for that the lines of `--joblog` are out.
const LOGGING: Duration = Duration::from_secs(5);
/// How long a result waits for its output to be read, once that may be written.
const PATIENCE: Duration = Duration::from_secs(1);
/// The shortest pause between two rounds.
const SHORT: Duration = Duration::from_millis(10);
/// How long the result of a short run waits for others.
const MOMENT: Duration = Duration::from_millis(25);
/// Results under way that hold up further claims.
const MOST_RECORDING: usize = 1024;

impl Scheduler {
    pub(crate) fn new(
        plan: config::Work,
        name: JobName,
        leases: Leases,
        outage: Arc<Outage>,
        policy: Policy,
        board: Board,
        named: Vec<Named>,
    ) -> Result<Scheduler, Failure> {
        let (sender, events) = mpsc::unbounded_channel();
        let ended = {
            let sender = sender.clone();
            move |key, guard, ended, captured| {
                let _over = sender.send(Event::Ended { key, guard, ended, captured });
            }
        };
        let captures = plan.form.is_some().then(Arc::<Captures>::default);
        let printer = match (&plan.form, &captures) {
            (Some(form), Some(captures)) => {
                let sender = sender.clone();
                let again = sender.clone();
                let written = move |run| drop(again.send(Event::Written(run)));
                let trouble = move |error| drop(sender.send(Event::Unwritable(error)));
                Some(Printer::start(form.clone(), Arc::clone(captures), written, trouble)?)
            }
            _ => None,
        };
        let has_numbers = plan.command.is_numbered()
            || plan.joblog.is_some()
            || plan.form.as_ref().is_some_and(|form| form.keep_order);
        let mut given = GivenUnits::new(has_numbers);
        given.add(named.iter());
        let is_kept = plan.form.as_ref().is_some_and(|form| form.keep_order && form.results.is_none());
        let (is_progress_wanted, passes_through) = (plan.progress && !plan.quiet, plan.form.is_none());
        let policy = policy.at_most(plan.timeout);
        let (command, is_verbose) = (plan.command.clone(), plan.verbose);
        let setup = Setup { command, policy, captures, is_kept, is_verbose, ended: Box::new(ended) };
        let now = boottime();
        Ok(Scheduler {
            rounds: Rounds::new(super::writes::instance(&leases), now),
            slots: Slots::new(plan.slots, Pacing::new(plan.delay, plan.load), setup),
            outputs: Outputs::new(printer),
            awaited: None,
            is_unread: false,
            pending: PendingResults::default(),
            given,
            incoming: Incoming::default(),
            plan,
            name,
            leases,
            outage,
            board,
            sender,
            events,
            host: tenure::clock::host_name(),
            began: now,
            tally: Tally::default(),
            progress: Progress::new(is_progress_wanted, passes_through, now),
            joblog: None,
            runs: 0,
            suspects: VecDeque::new(),
            alone: false,
            claiming: 0,
            lapsing: Vec::new(),
            losing: Vec::new(),
            losing_since: Duration::ZERO,
            looked_after: Duration::ZERO,
            claim_secs: 0.003,
            run_secs: None,
            trouble: None,
            stop: None,
        })
    }

    /// Adds a line there for each run, if anywhere.
    pub(crate) fn log_to(&mut self, joblog: Option<Joblog>) {
        self.joblog = joblog;
    }

    /// Works until every unit is settled, or until told to stop.
    pub(crate) async fn work(&mut self, signals: &mut Signals) -> Result<u8, Failure> {
        loop {
            for task in self.slots.hold(self.outputs.is_behind(self.plan.slots)) {
                self.board.set(&task.key, Local::Open);
            }
            self.slots.fill();
            self.pump();
            self.write_results();
            self.tell_losses(false);
            self.write_in_order(boottime());
            self.on_slowly_written(boottime());
            self.settle_kept(boottime());
            if self.is_over() {
                break;
            }
            let pause = self.pause();
            tokio::select! {
                biased;
                signal = signals.next() => self.on_signal(signal)?,
                event = self.events.recv() => if let Some(event) = event {
                    self.on(event);
                    while let Ok(event) = self.events.try_recv() {
                        self.on(event);
                    }
                },
                part = self.incoming.next() => self.on_given(part),
                () = tokio::time::sleep(pause) => {}
            }
            self.look_after();
        }
        let mut is_read = !self.is_unread;
        if let Some(printer) = self.outputs.take_printer().filter(|_| is_read) {
            // Whoever has asked us to stop does not wait for who does not read.
            let patience = if self.is_asked() { LAST_WORDS } else { Duration::MAX };
            tokio::select! {
                ended = tokio::time::timeout(patience, printer.end()) => is_read = ended.is_ok(),
                signal = signals.next() => {
                    is_read = false;
                    self.on_signal(signal)?;
                }
            }
            while let Ok(event) = self.events.try_recv() {
                self.on(event);
            }
        }
        if let Some(joblog) = self.joblog.take() {
            let patience = if self.is_asked() { LAST_WORDS } else { LOGGING };
            tokio::select! {
                () = joblog.end(patience) => {}
                signal = signals.next() => self.on_signal(signal)?,
            }
        }
        self.conclude(is_read).await
    }

    /// Whether the user has asked us to stop.
    fn is_asked(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.by.is_some())
    }

    /// Whether this process had nothing to run.
    pub(crate) fn is_idle(&self) -> bool {
        self.tally.done + self.tally.failures + self.tally.handed_back == 0
    }

    /// Gives everything back, and says goodbye to the watchdog if nothing can be running.
    pub(crate) async fn leave(mut self, signals: &mut Signals, result: &Result<u8, Failure>) {
        self.progress.end();
        drop(self.outputs.give_back());
        if self.slots.tasks() > 0 && result.is_err() {
            // At once was asked for: the watchdogs do the rest, and give back what is held.
            return;
        }
        if self.slots.tasks() == 0 && self.lapsing.is_empty() {
            self.slots.policy().watchdogs.dismiss();
        }
        let end = async {
            // What is not left to expire by then would be given back.
            for lapsing in self.lapsing {
                let _let_go = lapsing.await;
            }
            super::say_goodbye(&self.leases).await;
        };
        signals.wait(self.plan.ttl, end).await;
    }

    fn is_over(&self) -> bool {
        let busy = self.claiming + self.slots.tasks() + self.pending.count() + self.outputs.unwritten() > 0;
        !busy && (self.stop.is_some() || (self.rounds.is_settled() && !self.incoming.is_open()))
    }

    /// `is_read`: whether standard output is not full for as long as nobody reads it.
    async fn conclude(&mut self, is_read: bool) -> Result<u8, Failure> {
        self.progress.end();
        self.tell_losses(true);
        let took = boottime().saturating_sub(self.began);
        let is_unread = self.stop.as_ref().is_some_and(|stop| stop.by == Some(Asked::Signal(SIGPIPE)));
        if is_unread {
            return Err(self.stop.take().unwrap_or_else(|| Failure::silent(exit::OK)));
        }
        let as_json = self.plan.json && is_read;
        // Whoever asks to stop does not wait for the store.
        let mut failed = if self.is_asked() {
            BTreeMap::new()
        } else {
            summary::failed(self.leases.store(), &self.board, as_json).await
        };
        let (board, names, tally) = (&self.board, self.given.names(), &self.tally);
        let written = summary::print(&self.name, board, names, tally, &mut failed, took, as_json);
        match self.stop.take() {
            // Whoever stops us has to know that not all has stopped.
            Some(Failure { by: Some(_), .. }) if !self.lapsing.is_empty() => Err(Failure::silent(exit::LOST)),
            // What could not be written is worse than what --halt has asked for.
            Some(failure) if failure.code == exit::OK => written.and(Err(failure)),
            Some(failure) => Err(failure),
            None if self.board.bad() > 0 => Ok(exit::SOME_FAILED),
            None => written.map(|()| exit::OK),
        }
    }

    /// Starts whatever can be started.
    fn pump(&mut self) {
        if self.stop.is_some() {
            return;
        }
        self.start_alone();
        let is_enough = self.room() >= self.batch();
        loop {
            // The next page is fetched before the last candidate is gone.
            let few = self.board.candidates.len() < 2 * self.plan.slots.min(64);
            if !self.rounds.is_fetching()
                && few
                && (self.room() > 0 || self.ahead() > 0)
                && let Some((after, limit)) = self.board.next_page()
            {
                self.fetch(after, limit);
            }
            if self.room() == 0 || !is_enough {
                return;
            }
            let page_is_due = self.rounds.is_fetching() || !self.board.is_round_over();
            match self.board.candidates.pop_front() {
                Some(candidate) => self.claim(candidate),
                None if page_is_due => return,
                None => match self.board.next_probe() {
                    Some(candidate) => self.claim(candidate),
                    None => break,
                },
            }
        }
        self.next_round();
    }

    fn record(&mut self, result: UnitResult) {
        self.pending.add(result, boottime());
    }

    /// Writes the results that have gathered, if it is time.
    fn write_results(&mut self) {
        let is_more_to_come = self.slots.running() > 0;
        for UnitResult { key, guard, to, metadata } in
            self.pending.due(self.batch(), is_more_to_come, boottime())
        {
            let sender = self.sender.clone();
            tokio::spawn(async move {
                let result = guard.release_with(metadata).await;
                let _over = sender.send(Event::Recorded { key, to, result });
            });
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Claimed { key, from, turn, took, trust, result } => {
                self.claiming -= 1;
                if let Some(turn) = turn {
                    self.slots.answered(turn);
                }
                self.claim_secs += (took.as_secs_f64() - self.claim_secs) / 16.0;
                self.on_claimed(key, from, turn, trust, result);
            }
            Event::Ended { key, guard, ended, captured } => {
                let slot = self.slots.free(&key);
                self.on_over(key, guard, slot, ended, captured);
            }
            Event::Registered { writes, result } => self.on_registered(&writes, result),
            Event::Written(run) => self.on_written(run),
            Event::Unwritable(error) => self.on_unwritable(&error),
            Event::Recorded { key, to, result } => {
                self.pending.answered();
                self.on_recorded(&key, to, result);
            }
            Event::Page { page, took } => {
                self.rounds.fetched(took);
                match page {
                    Ok(page) => {
                        self.trouble = None;
                        let worker = self.leases.holder().as_str();
                        let terms = Terms { now: self.leases.clock().now().wall.0, worker };
                        if !self.board.take_in(page, &terms, self.rounds.seed()) {
                            // A unit seems to be gone: only a listing of all tells for certain.
                            self.rounds.list_all();
                        }
                    }
                    Err(error) => self.on_trouble(&error),
                }
            }
            Event::Audit { page, took } => self.on_audit(page, took),
        }
    }

    /// Sees to the deadline that the watchdogs go by, and to what is shown.
    fn look_after(&mut self) {
        const OFTEN: Duration = Duration::from_millis(4);
        let asked_at = boottime();
        if asked_at < self.looked_after + OFTEN {
            return;
        }
        self.looked_after = asked_at;
        let left = self.leases.session_remaining();
        if !left.is_zero() {
            self.slots.prolong(asked_at, left);
        }
        self.progress.show(self.board.counts(), self.slots.running(), asked_at);
        if self.progress.is_shown() && self.rounds.may_list(boottime()) {
            self.audit();
        }
    }

    /// How long nothing needs to be looked at if nothing happens.
    fn pause(&mut self) -> Duration {
        let now = boottime();
        let pause = (self.plan.ttl / 40).clamp(Duration::from_millis(5), Duration::from_millis(100));
        let sooner = [self.rounds.pause(now), self.slots.pause(), self.pending.pause(now)];
        sooner.into_iter().flatten().fold(pause, Duration::min)
    }

    fn wall(&self) -> u64 {
        self.leases.clock().now().wall.0
    }
}
