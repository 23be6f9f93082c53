//! The scheduler: takes units, has them run, records what became of them, until every unit of the job is settled.
//!
//! One task does all of this; claims, listings and records are under way beside it and come back as events. Units are claimed
//! ahead of the slots, as many as it takes for no slot to wait for the store, and no more: what one process has claimed,
//! others can't run.

mod claims;
mod ending;
mod incoming;
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
use crate::work::units::{Named, text_of};
use claims::{From, Trust};
use incoming::Incoming;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{AcquireError, Guard, Key, LeaseError, Leases, Listed, Metadata, Outcome, StoreError, Write};
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

/// A run that is over, whose output is on its way out.
struct Unwritten {
    since: Duration,
    key: Key,
    guard: Guard,
    ended: Ended,
    tail: Option<String>,
}

pub(crate) struct Scheduler {
    plan: config::Work,
    name: JobName,
    leases: Leases,
    outage: Arc<Outage>,
    slots: Slots,
    board: Board,
    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    host: String,
    seed: u64,
    began: Duration,
    tally: Tally,
    progress: Progress,
    printer: Option<Printer>,
    /// Runs that are over, whose output is on its way out: until it is, they are not recorded, unless whoever reads it is slow.
    unwritten: BTreeMap<usize, Unwritten>,
    /// What is on its way out won't get there.
    is_unwritable: bool,
    /// There was no room for what a command wrote.
    is_full: bool,
    joblog: Option<Joblog>,
    /// The places of the given units among them, from 0, where they matter; and the units by their places.
    numbers: BTreeMap<Key, usize>,
    given: Vec<Key>,
    incoming: Incoming,
    has_numbers: bool,
    /// The names of those whose keys don't tell them.
    names: BTreeMap<Key, String>,
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
    /// Results that are being written, or are about to be.
    recording: usize,
    /// Those that wait for others to be written with, and since when the first does.
    results: Vec<(Key, Guard, Local, Metadata)>,
    results_since: Duration,
    is_fetching: bool,
    is_auditing: bool,
    /// What the pages of this listing have taken.
    audit_took: Duration,
    /// Units may have been added: list them all.
    audit_due: bool,
    /// Nothing open is left, and a listing after that showed nothing new.
    is_settled: bool,
    next_audit: Duration,
    looked_after: Duration,
    /// What the listings of this round have taken.
    fetching_took: Duration,
    next_round: Duration,
    gap: Duration,
    won_in_round: usize,
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
        let has_numbers =
            plan.command.is_numbered() || plan.form.as_ref().is_some_and(|form| form.keep_order);
        let names = named.iter().filter_map(|unit| Some((unit.key.clone(), text_of(unit.name.as_ref()?))));
        let names = names.collect();
        let given: Vec<Key> =
            if has_numbers { named.into_iter().map(|unit| unit.key).collect() } else { Vec::new() };
        let (is_progress_wanted, passes_through) = (plan.progress && !plan.quiet, plan.form.is_none());
        let policy = policy.at_most(plan.timeout);
        let (command, is_verbose) = (plan.command.clone(), plan.verbose);
        let setup = Setup { command, policy, captures, is_verbose, ended: Box::new(ended) };
        let now = boottime();
        Ok(Scheduler {
            seed: super::writes::instance(&leases),
            slots: Slots::new(plan.slots, Pacing::new(plan.delay, plan.load), setup),
            printer,
            unwritten: BTreeMap::new(),
            is_unwritable: false,
            is_full: false,
            joblog: None,
            numbers: given.iter().enumerate().map(|(number, key)| (key.clone(), number)).collect(),
            given,
            incoming: Incoming::default(),
            has_numbers,
            names,
            runs: 0,
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
            suspects: VecDeque::new(),
            alone: false,
            claiming: 0,
            lapsing: Vec::new(),
            recording: 0,
            losing: Vec::new(),
            losing_since: Duration::ZERO,
            results: Vec::new(),
            results_since: Duration::ZERO,
            is_fetching: false,
            is_auditing: false,
            audit_took: Duration::ZERO,
            audit_due: false,
            is_settled: false,
            next_audit: now + Duration::from_secs(1),
            looked_after: Duration::ZERO,
            fetching_took: Duration::ZERO,
            next_round: now,
            gap: SHORT,
            won_in_round: 0,
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
            self.slots.fill();
            self.pump();
            self.write_results();
            self.tell_losses(false);
            if let Some(printer) = &mut self.printer {
                let is_over = |number: usize| {
                    let local = self.given.get(number).and_then(|key| self.board.local(key));
                    !matches!(local, Some(Local::Open | Local::Ours))
                };
                printer.go_on(self.given.len(), is_over);
            }
            self.on_slowly_written(boottime());
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
        let mut is_read = true;
        if let Some(printer) = self.printer.take() {
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
        let busy = self.claiming + self.slots.tasks() + self.recording + self.unwritten.len() > 0;
        !busy && (self.stop.is_some() || (self.is_settled && !self.incoming.is_open()))
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
        let (board, names, tally) = (&self.board, &self.names, &self.tally);
        let written = summary::print(&self.name, board, names, tally, &mut failed, took, as_json);
        match self.stop.take() {
            // Whoever stops us has to know that not all has stopped.
            Some(Failure { by: Some(_), .. }) if !self.lapsing.is_empty() => Err(Failure::silent(exit::LOST)),
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
            if !self.is_fetching
                && few
                && (self.room() > 0 || self.ahead() > 0)
                && let Some((after, limit)) = self.board.next_page()
            {
                self.fetch(after, limit);
            }
            if self.room() == 0 || !is_enough {
                return;
            }
            let page_is_due = self.is_fetching || !self.board.is_round_over();
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

    fn record(&mut self, key: Key, guard: Guard, to: Local, metadata: Metadata) {
        self.recording += 1;
        if self.results.is_empty() {
            self.results_since = boottime();
        }
        self.results.push((key, guard, to, metadata));
    }

    /// Writes the results that have gathered, together, if there are enough of them or they have waited long enough.
    fn write_results(&mut self) {
        let is_more_to_come = self.slots.running() > 0 && self.results.len() < self.batch();
        if is_more_to_come && boottime() < self.results_since + MOMENT {
            return;
        }
        for (key, guard, to, metadata) in self.results.drain(..) {
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
                self.recording -= 1;
                self.on_recorded(&key, to, result);
            }
            Event::Page { page, took } => {
                self.is_fetching = false;
                self.fetching_took += took;
                match page {
                    Ok(page) => {
                        self.trouble = None;
                        let worker = self.leases.holder().as_str();
                        let terms = Terms { now: self.leases.clock().now().wall.0, worker };
                        self.board.take_in(page, &terms, self.seed);
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
            self.slots.policy().watchdogs.prolong(asked_at, left);
        }
        self.progress.show(self.board.counts(), self.slots.running(), asked_at);
        if self.progress.is_shown() && !self.is_auditing && boottime() >= self.next_audit {
            self.audit();
        }
    }

    /// How long nothing needs to be looked at if nothing happens.
    fn pause(&mut self) -> Duration {
        let now = boottime();
        let pause = (self.plan.ttl / 40).clamp(Duration::from_millis(5), Duration::from_millis(100));
        let pause = if self.next_round > now { pause.min(self.next_round - now) } else { pause };
        let pause = self.slots.pause().map_or(pause, |next| next.min(pause));
        if self.results.is_empty() {
            pause
        } else {
            pause.min((self.results_since + MOMENT).saturating_sub(now))
        }
    }

    fn wall(&self) -> u64 {
        self.leases.clock().now().wall.0
    }
}
