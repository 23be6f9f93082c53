//! What comes back to the scheduler, and what follows from it: claims won and lost, runs that have ended, results recorded.

use super::claims::{From, Trust};
use super::outputs::{Kept, Next, Unwritten};
use super::pending::UnitResult;
use super::{PATIENCE, Scheduler};
use crate::exit;
use crate::output;
use crate::output::problem::RecordProblem;
use crate::supervise::process::{not_started, shell_status};
use crate::supervise::stopping::Why;
use crate::text::{brief, count, escaped};
use crate::work::job::board::{ClaimTerms, Local};
use crate::work::job::pieces::capture::Captured;
use crate::work::job::pieces::joblog::Run;
use crate::work::job::pieces::printer::Piece;
use crate::work::job::slots::{EndedUnit, UnitTask};
use crate::work::job::turns::Turn;
use crate::work::job::unit::{Ran, Status, Unit};
use crate::work::pace::doubled;
use crate::work::template::Filling;
use crate::work::units::text_of;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{AcquireError, ErrorKind, Guard, Key, LeaseError};
use tenure_core::time::millis;

/// The exit code of a command that ran for too long, as timeout(1) tells it.
const TIMED_OUT: i64 = 124;

impl Scheduler {
    pub(super) fn on_claimed(
        &mut self,
        key: Key,
        from: Option<From>,
        turn: Option<Turn>,
        trust: Trust,
        result: Result<Guard, AcquireError>,
    ) {
        match result {
            Ok(guard) => {
                self.trouble.end();
                self.on_won(key, guard, from, turn, trust);
            }
            Err(AcquireError::Held(_)) => {
                self.board.leave_to_others(&key);
                if from.is_none() {
                    // Another process is on the same page: leave it to that one.
                    self.board.drop_page();
                }
            }
            Err(AcquireError::Absent) => self.board.set(&key, Local::Gone),
            Err(AcquireError::Store(error)) if error.kind() == ErrorKind::Foreign => {
                let (unit, problem) = (self.shown(&key), RecordProblem::of(&key, &error));
                output::note(format!("{unit}: {problem}; it is left as it is, and not run"));
                self.board.set(&key, Local::unread(error.is_newer()));
            }
            Err(AcquireError::Store(error)) => {
                self.board.set(&key, Local::Open);
                self.on_trouble(&error);
            }
            Err(error) => {
                self.board.set(&key, Local::Open);
                self.give_up(error.into());
            }
        }
    }

    /// The record as it was when it was claimed is certain, unlike the board.
    pub(super) fn on_won(
        &mut self,
        key: Key,
        guard: Guard,
        from: Option<From>,
        turn: Option<Turn>,
        trust: Trust,
    ) {
        let terms = ClaimTerms { now: self.wall(), worker: self.leases.holder().as_str() };
        let now_is = match self.stop {
            Some(_) => Local::Open,
            None => terms.claimed(&key, guard.metadata()),
        };
        if now_is != Local::Ours {
            // Given back as it was.
            drop(guard);
            self.board.set(&key, now_is);
            self.board.drop_page();
            return;
        }
        self.rounds.won();
        self.board.won(&key);
        if let Some(From { attachment, has_died }) = from {
            self.tally.taken_over += usize::from(has_died);
            if let Some(attachment) = attachment {
                // What else its holder had is free as well: look again at once.
                self.board.bury(attachment);
                self.rounds.look_at(boottime());
            }
        }
        let unit = Unit::name(&key, guard.metadata()).unwrap_or_default();
        match trust {
            Trust::Good => {
                let number = self.given.place_at_start(&key);
                self.slots.push(turn, UnitTask { key, unit, number, guard });
            }
            Trust::Suspect => self.suspects.add(key, guard),
            Trust::Spent => self.give_up_on(key, guard),
        }
    }

    /// A unit that kills its workers, or is believed to, is not given another.
    fn give_up_on(&mut self, key: Key, guard: Guard) {
        let takeovers = Unit::of(guard.metadata()).map_or(0, |unit| unit.takeovers);
        let times = count(usize::try_from(takeovers).unwrap_or(usize::MAX).saturating_add(1), "worker");
        let reason = format!("{times} died while they had it, one after the other");
        let unit = Unit::shown(&key, guard.metadata());
        output::note(format!("{unit}: failed: {reason}; --retry-failed tries it again"));
        self.tally.failures += 1;
        let metadata = Unit::give_up(guard.metadata().clone(), &reason, &self.host, self.wall());
        self.record(UnitResult { key, guard, to: Local::Failed, metadata });
        self.tally.failed += 1;
        self.halt_if_asked();
    }

    /// A run is over: what it has written goes out, and what came of it is recorded.
    pub(super) fn on_over(
        &mut self,
        key: Key,
        guard: Guard,
        slot: Option<usize>,
        ended: EndedUnit,
        captured: Option<Captured>,
    ) {
        let has_run = matches!(ended, EndedUnit::Ran { .. } | EndedUnit::Overran { .. });
        if has_run || matches!(ended, EndedUnit::Stopped { .. } | EndedUnit::Stuck) {
            self.unstarted.end();
        }
        let is_cut = captured.as_ref().is_some_and(|captured| self.outputs.is_cut(captured));
        if has_run && is_cut {
            // What is missing of its output would be missing for ever: it is run again, where there is room.
            let place = std::env::temp_dir();
            let unit = Unit::shown(&key, guard.metadata());
            let full = format!("{} is full: the output of {unit} is not complete", place.display());
            let ended = EndedUnit::Uncaught(io::Error::other(full));
            let (since, _waits) = (boottime(), Arc::default());
            return self.on_ended(Unwritten { since, key, guard, ended, tail: None, _waits }, None);
        }
        // One that was stopped meanwhile is run again as well.
        let captured = captured.filter(|_| !is_cut);
        let name = Unit::name(&key, guard.metadata()).unwrap_or_default();
        let unit = text_of(&name);
        let number = self.given.place(&key);
        self.runs += 1;
        let (exit, span) = match &ended {
            EndedUnit::Ran { status, started, finished, .. } => (
                Some(i64::from(shell_status(*status))),
                Some((*started, *finished, status.signal().unwrap_or(0))),
            ),
            EndedUnit::Overran { started, finished } => (Some(TIMED_OUT), Some((*started, *finished, 0))),
            EndedUnit::Stopped { why: Why::Revoked, started, finished } => {
                (Some(i64::from(exit::LOST)), Some((*started, *finished, 0)))
            }
            _ => (None, None),
        };
        if let (Some(joblog), Some((started, finished, signal))) = (&mut self.joblog, span) {
            let length = |captured: &Captured| captured.out.metadata().map_or(0, |file| file.len());
            let received = captured.as_ref().map_or(0, length);
            let number = number.map_or(self.runs, |number| number + 1);
            let command = self.plan.command.in_one_line(&Filling { unit: &name, number: Some(number), slot });
            let exit = exit.unwrap_or_default();
            let run = Run { number, started, finished, exit, signal, received, command };
            joblog.add(&run);
        }
        if let (true, Some(exit), Some((started, finished, _))) = (self.plan.verbose, exit, span) {
            let took = brief(Duration::from_millis(finished.saturating_sub(started)));
            output::note(format!("{}: exit {exit}, in {took}", escaped(&unit)));
        }
        let tail = captured.as_ref().filter(|_| exit != Some(0)).and_then(Captured::tail);
        let captured = captured
            .filter(|_| !matches!(ended, EndedUnit::Stuck | EndedUnit::TooLate | EndedUnit::NotStarted(_)));
        let (run, waits, lease) = (self.runs, Arc::default(), guard.cancelled());
        let (wanted, is_retried) = (Arc::downgrade(&waits), self.is_retried(&ended, &guard));
        let piece =
            captured.map(|captured| Piece { run, unit: name, captured, exit, is_retried, lease, wanted });
        let run = Unwritten { since: boottime(), key, guard, ended, tail, _waits: waits };
        if let Next::Now(run, kept) = self.outputs.write(number, self.runs, piece, run) {
            self.on_ended(run, kept);
        }
    }

    /// The output of this run is out.
    pub(super) fn on_written(&mut self, run: usize) {
        if let Some(run) = self.outputs.on_written(run) {
            self.on_ended(run, None);
        } else if let Some(result) = self.outputs.on_kept_written(run) {
            self.record(result);
        }
    }

    /// The output of a run is saved. Whoever reads it is not waited for. Where it is not, since the lease was lost or withdrawn meanwhile, a unit
    /// that has run to its end is run again.
    pub(super) fn on_saved(&mut self, piece: Piece, is_ours: bool) {
        match self.outputs.on_saved(piece) {
            Some(run)
                if !is_ours && matches!(run.ended, EndedUnit::Ran { .. } | EndedUnit::Overran { .. }) =>
            {
                self.hand_back(&run.key);
                let unit = Unit::shown(&run.key, run.guard.metadata());
                self.lost.add(unit, run.guard.loss(), boottime());
            }
            Some(run) => self.on_ended(run, None),
            None => {}
        }
    }

    /// What becomes of runs whose outputs are neither saved nor out. That they can't be is known at once. Who only reads slowly is not waited
    /// for, nor is anybody at the end. What is to be saved is waited for, but not for long once the user has asked to stop.
    pub(super) fn on_slowly_written(&mut self, now: Duration) {
        let late = now.saturating_sub(PATIENCE);
        let given_up = match self.outputs.is_unwritable() {
            true => self.outputs.give_up(),
            false if self.is_asked() => self.outputs.give_up_saving(late),
            false => Vec::new(),
        };
        // They are run again, for somebody who reads them.
        given_up.iter().for_each(|run| self.hand_back(&run.key));
        let since = if self.stop.is_some() { Duration::MAX } else { late };
        while let Some(run) = self.outputs.next_since(since) {
            self.on_ended(run, None);
        }
    }

    /// `kept`: what came of the unit is recorded once the output that is kept is out.
    fn on_ended(&mut self, run: Unwritten, kept: Option<Kept>) {
        let Unwritten { key, guard, ended, tail, .. } = run;
        let result = match ended {
            EndedUnit::Ran { status, started, finished, took } => {
                self.prefetch.ran(took);
                self.on_ran(key, guard, status, started, finished, tail)
            }
            EndedUnit::Overran { started, finished } => {
                let unit = Unit::shown(&key, guard.metadata());
                let after = brief(self.plan.timeout.unwrap_or_default());
                output::note(format!("{unit}: stopped after {after} (--timeout)"));
                Some(self.failed(key, guard, TIMED_OUT, started, finished, tail))
            }
            EndedUnit::Stopped { why: Why::Revoked, started, finished } => {
                let unit = Unit::shown(&key, guard.metadata());
                output::note(format!(
                    "{unit}: the lease was withdrawn, and the command was stopped; that is a failed attempt"
                ));
                let result = self.failed(key, guard, i64::from(exit::LOST), started, finished, tail);
                // Whoever has withdrawn it waits for it.
                return self.record(result);
            }
            EndedUnit::Stopped { why: Why::Losing, .. } => {
                self.hand_back(&key);
                self.lost.add(Unit::shown(&key, guard.metadata()), guard.loss(), boottime());
                None
            }
            EndedUnit::Stopped { why: Why::Asked | Why::Overran | Why::Unwell, .. } | EndedUnit::TooLate => {
                self.hand_back(&key);
                None
            }
            EndedUnit::NotStarted(error) => self.on_not_started(key, guard, &error),
            EndedUnit::Uncaught(error) => {
                self.hand_back(&key);
                self.on_uncaught(&error);
                None
            }
            EndedUnit::Stuck => {
                let unit = Unit::shown(&key, guard.metadata());
                output::note(format!("{unit}: the command can't be killed; the unit is left to expire"));
                self.lapsing.push(tokio::spawn(guard.lapse()));
                self.hand_back(&key);
                None
            }
        };
        match (result, kept) {
            // One that is to be tried again does not wait for its own end.
            (Some(result), Some(kept)) if result.to != Local::Open => self.outputs.keep(kept, result),
            (Some(result), _) => self.record(result),
            (None, _) => {}
        }
    }

    pub(super) fn hand_back(&mut self, key: &Key) {
        self.tally.handed_back += 1;
        self.board.set(key, Local::Open);
    }

    /// A unit's result is not recorded after all. It does not count twice for `--halt`.
    pub(super) fn take_back(&mut self, key: &Key, to: Local) {
        self.tally.succeeded -= usize::from(to == Local::Done);
        self.tally.failed -= usize::from(to == Local::Failed);
        self.hand_back(key);
    }

    fn on_ran(
        &mut self,
        key: Key,
        guard: Guard,
        status: ExitStatus,
        started: u64,
        finished: u64,
        tail: Option<String>,
    ) -> Option<UnitResult> {
        let exit = i64::from(shell_status(status));
        if !status.success() {
            if self.plan.form.is_none() && output::is_unread() {
                // It may well have failed for that.
                self.hand_back(&key);
                self.on_unwritable(&std::io::ErrorKind::BrokenPipe.into());
                return None;
            }
            return Some(self.failed(key, guard, exit, started, finished, tail));
        }
        let attempts = Unit::of(guard.metadata()).map_or(0, |unit| unit.attempts);
        let worker = self.leases.holder().as_str();
        let ran = Ran { exit, host: &self.host, worker, started, finished, output: None };
        let metadata = Unit::record(guard.metadata().clone(), Status::Done, attempts, None, &ran);
        self.tally.succeeded += 1;
        self.halt_if_asked();
        Some(UnitResult { key, guard, to: Local::Done, metadata })
    }

    /// Whether the unit is run again after this run.
    fn is_retried(&self, ended: &EndedUnit, guard: &Guard) -> bool {
        let has_failed = match ended {
            EndedUnit::Ran { status, .. } => !status.success(),
            EndedUnit::Overran { .. } | EndedUnit::Stopped { why: Why::Revoked, .. } => true,
            // That is no attempt.
            EndedUnit::Stopped { .. } => return true,
            _ => false,
        };
        has_failed && attempts_with(guard) <= self.plan.retries
    }

    fn failed(
        &mut self,
        key: Key,
        guard: Guard,
        exit: i64,
        started: u64,
        finished: u64,
        output: Option<String>,
    ) -> UnitResult {
        self.tally.failures += 1;
        let attempts = attempts_with(&guard);
        let worker = self.leases.holder().as_str();
        let ran = Ran { exit, host: &self.host, worker, started, finished, output };
        let is_last = attempts > self.plan.retries;
        let (status, to, not_before) = if is_last {
            (Status::Failed, Local::Failed, None)
        } else {
            let pause = millis(doubled(self.plan.backoff, attempts - 1));
            (Status::Pending, Local::Open, Some(self.wall().saturating_add(pause)))
        };
        let metadata = Unit::record(guard.metadata().clone(), status, attempts, not_before, &ran);
        self.tally.failed += usize::from(is_last);
        self.halt_if_asked();
        UnitResult { key, guard, to, metadata }
    }

    fn on_not_started(&mut self, key: Key, guard: Guard, error: &std::io::Error) -> Option<UnitResult> {
        let program = &self.plan.command.program;
        match error.kind() {
            std::io::ErrorKind::ArgumentListTooLong => {
                let now = self.wall();
                return Some(self.failed(key, guard, i64::from(exit::CANNOT_EXECUTE), now, now, None));
            }
            std::io::ErrorKind::OutOfMemory | std::io::ErrorKind::WouldBlock => {
                // This machine's want of processes or memory is not the unit's fault.
                let failure = not_started(program, error);
                self.hand_back(&key);
                self.on_unstarted(&failure.text);
            }
            _ => {
                let failure = not_started(program, error);
                self.hand_back(&key);
                self.give_up(failure);
            }
        }
        None
    }

    /// `unit`: as people are told of it.
    pub(super) fn on_recorded(&mut self, key: &Key, unit: &str, to: Local, result: Result<bool, LeaseError>) {
        match result {
            Ok(true) => {
                self.tally.done += usize::from(to == Local::Done);
                self.board.set(key, to);
            }
            Ok(false) => {
                output::note(format!(
                    "{unit}: the lease was lost before the result could be recorded; the unit is run again"
                ));
                self.take_back(key, to);
            }
            Err(error) => {
                // Its fields are too large for another: it would be run for ever.
                output::note(format!("{unit}: the result can't be recorded: {error}"));
                self.board.set(key, Local::Damaged);
            }
        }
    }
}

impl Scheduler {
    /// A unit whose record is not read, as people are told of it: by its key, as far as that tells the name.
    pub(super) fn shown(&self, key: &Key) -> String {
        Unit::shown_as(key, self.given.names().get(key).map(Vec::as_slice))
    }

    /// A unit of which no more is at hand than its key, as people are told of it.
    pub(super) fn name_of(&self, key: &Key) -> String {
        Unit::called_as(key, self.given.names().get(key).map(Vec::as_slice))
    }
}

/// How often the unit has failed, with the present attempt.
fn attempts_with(guard: &Guard) -> u32 {
    Unit::of(guard.metadata()).map_or(0, |unit| unit.attempts).saturating_add(1)
}
