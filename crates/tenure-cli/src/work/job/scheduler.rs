//! The scheduler: takes units, has them run, records what became of them, until every unit of the job is settled.
//!
//! One task does all of this; claims, listings and records are under way beside it and come back as events. Units are claimed
//! ahead of the slots, as many as it takes for no slot to wait for the store, and no more: what one process has claimed,
//! others can't run. The parts, which own their state; only the scheduler knows two of them:
//!
//! | part | knows |
//! |---|---|
//! | `board`, `slots` | what has become of each unit, as far as is known here; what runs, and what is about to |
//! | `rounds` | when to look for open units, and when to list all; whether everything is settled |
//! | `given`, `incoming` | the units that this process was given; those that are still to come |
//! | `prefetch`, `suspects` | the claims under way, and how many more there are to be; what is run alone |
//! | `outputs`, `awaited` | what commands have written, on its way out; whose turn it is that others have (`--keep-order`) |
//! | `others` | who has the units that this process waits for, which has nothing to run |
//! | `pending` | results that are not recorded yet |
//! | `lost`, `trouble`, `unstarted` | leases that were being lost, which is to be told; for how long the store, or no start, has worked |
//!
//! `results.rs` has what follows from a claim or a run, `stopping.rs` why it stops early, and `ending.rs` the end.

mod awaited;
mod claims;
mod ending;
mod given;
mod incoming;
mod kept;
mod losses;
mod outputs;
mod pending;
mod prefetch;
mod results;
mod rounds;
mod stopping;
mod suspects;
mod trouble;

use super::board::{Board, Local};
use super::pacing::Pacing;
use super::pieces::capture::{Captured, Captures};
use super::pieces::joblog::Joblog;
use super::pieces::printer::{Piece, Printer};
use super::pieces::saver::Saver;
use super::progress::{JobState, Progress};
use super::slots::{EndedUnit, Setup, Slots};
use super::summary::Tally;
use super::turns::Turn;
use crate::config;
use crate::exit::Failure;
use crate::keys::JobName;
use crate::stores::file::FileWatch;
use crate::supervise::outage::Outage;
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::work::units::Named;
use awaited::OthersUnits;
use claims::{From, Trust};
use given::GivenUnits;
use incoming::Incoming;
use kept::AwaitedPlace;
use losses::LostUnits;
use outputs::Outputs;
use pending::PendingResults;
use prefetch::Prefetch;
use rounds::Rounds;
use std::sync::Arc;
use std::time::Duration;
use suspects::Suspects;
use tenure::clock::boottime;
use tenure::store::{Listed, Outcome, Write};
use tenure::{AcquireError, Guard, Key, LeaseError, Leases, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use trouble::FailureStreak;

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
        ended: EndedUnit,
        captured: Option<Captured>,
    },
    Registered {
        writes: Vec<Write>,
        result: Result<Vec<Outcome>, StoreError>,
    },
    /// New units can't be registered for now.
    NotRegistered(StoreError),
    /// A unit that is waited for, and who has it, if anybody has it still; and how many more are waited for.
    Others {
        found: Option<(String, String)>,
        more: usize,
    },
    /// What a run has written is saved; or is not to be, since its unit is not ours any more.
    Saved {
        piece: Piece,
        is_ours: bool,
    },
    /// What this run has written is written out.
    Written(usize),
    /// What commands have written can't be saved.
    Unsavable(std::io::Error),
    /// What they have written can't be written out.
    Unwritable(std::io::Error),
    Recorded {
        key: Key,
        /// As people are told of it.
        unit: String,
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
    host: String,
    began: Duration,

    slots: Slots,
    board: Board,
    rounds: Rounds,
    given: GivenUnits,
    incoming: Incoming,
    outputs: Outputs,
    awaited: AwaitedPlace,
    others: OthersUnits,
    pending: PendingResults,
    prefetch: Prefetch,
    suspects: Suspects,
    lost: LostUnits,
    trouble: FailureStreak,
    /// Commands that can't be started.
    unstarted: FailureStreak,
    /// The store's, if it is one.
    file: FileWatch,

    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    tally: Tally,
    progress: Progress,
    joblog: Option<Joblog>,
    /// Runs that have ended here.
    runs: usize,
    /// What was to be written was not read in time.
    is_unread: bool,
    /// Units whose commands run on, as they can't be killed, on their way to be left to expire.
    lapsing: Vec<JoinHandle<()>>,
    looked_after: Duration,
    /// Why the scheduler stops before the job is settled.
    stop: Option<Failure>,
    /// Whether what runs was killed, as the user has asked for the end at once.
    is_killed: bool,
}

/// What ends who writes where nobody reads.
const SIGPIPE: i32 = nix::sys::signal::Signal::SIGPIPE as i32;
/// How long it is waited for that the last outputs are read where the user has asked to stop.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a result waits for its output to be read, once that may be written.
const PATIENCE: Duration = Duration::from_secs(1);
/// The shortest pause between two rounds.
const SHORT: Duration = Duration::from_millis(10);
/// How long the result of a short run waits for others.
const MOMENT: Duration = Duration::from_millis(25);

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
                let (told, sender) = (sender.clone(), sender.clone());
                let written = move |run| drop(told.send(Event::Written(run)));
                let trouble = move |error| drop(sender.send(Event::Unwritable(error)));
                Some(Printer::start(form.clone(), Arc::clone(captures), written, trouble)?)
            }
            _ => None,
        };
        let saver = match plan.form.as_ref().and_then(|form| form.results.clone()) {
            Some(results) => {
                let (told, sender) = (sender.clone(), sender.clone());
                let leases = leases.clone();
                // A process that has stood still for long may not have been told yet of what it has lost.
                let is_ours = move |piece: &Piece| piece.is_wanted() && !leases.session_remaining().is_zero();
                let saved = move |piece, is_ours| drop(told.send(Event::Saved { piece, is_ours }));
                let trouble = move |error| drop(sender.send(Event::Unsavable(error)));
                Some(Saver::start(results, is_ours, saved, trouble)?)
            }
            None => None,
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
            outputs: Outputs::new(printer, saver),
            awaited: AwaitedPlace::default(),
            others: OthersUnits::default(),
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
            prefetch: Prefetch::new(),
            suspects: Suspects::default(),
            lapsing: Vec::new(),
            lost: LostUnits::default(),
            trouble: FailureStreak::default(),
            unstarted: FailureStreak::default(),
            file: FileWatch::default(),
            looked_after: Duration::ZERO,
            stop: None,
            is_killed: false,
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
            self.look_for_others(boottime());
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
        let is_read = self.write_out(signals).await?;
        self.conclude(is_read).await
    }

    /// One thing that has come back.
    fn on(&mut self, event: Event) {
        match event {
            Event::Claimed { key, from, turn, took, trust, result } => {
                self.prefetch.claimed(took);
                if let Some(turn) = turn {
                    self.slots.answered(turn);
                }
                self.on_claimed(key, from, turn, trust, result);
            }
            Event::Ended { key, guard, ended, captured } => {
                let slot = self.slots.free(&key);
                self.on_over(key, guard, slot, ended, captured);
            }
            Event::Registered { writes, result } => self.on_registered(&writes, result),
            Event::NotRegistered(error) => self.on_trouble(&error),
            Event::Others { found, more } => self.on_others(found, more),
            Event::Saved { piece, is_ours } => self.on_saved(piece, is_ours),
            Event::Written(run) => self.on_written(run),
            Event::Unsavable(error) => self.on_unsavable(&error),
            Event::Unwritable(error) => self.on_unwritable(&error),
            Event::Recorded { key, unit, to, result } => {
                self.pending.answered();
                self.on_recorded(&key, &unit, to, result);
            }
            Event::Page { page, took } => self.on_page(page, took),
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
        let (counts, running, resting) = (self.board.counts(), self.slots.running(), self.board.resting());
        let elsewhere = self.others.elsewhere();
        self.progress.show(JobState { counts, running, elsewhere, resting, wall: self.wall() }, asked_at);
        if self.progress.wants_counts(asked_at) {
            self.list_now_and_then();
        }
    }

    /// How long nothing needs to be looked at if nothing happens.
    fn pause(&mut self) -> Duration {
        let now = boottime();
        let pause = (self.plan.ttl / 40).clamp(Duration::from_millis(5), Duration::from_millis(100));
        let sooner = [self.rounds.pause(now), self.slots.pause(), self.pending.pause(now)];
        sooner.into_iter().flatten().fold(pause, Duration::min)
    }

    /// Whether this process had nothing to run.
    pub(crate) fn is_idle(&self) -> bool {
        self.tally.done + self.tally.failures + self.tally.handed_back == 0
    }

    fn wall(&self) -> u64 {
        self.leases.clock().now().wall.0
    }
}
