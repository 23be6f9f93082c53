//! The end: what is written gets out, the summary is told, and everything is given back.

use super::{Event, LAST_WORDS, Scheduler};
use crate::exit::{self, Failure};
use crate::output;
use crate::supervise::signals::Signals;
use crate::work::job::say_goodbye;
use crate::work::job::slots::EndedUnit;
use crate::work::job::summary::{JobSummary, UnitDetails};
use std::time::Duration;
use tenure::clock::boottime;

/// How long it is waited for that the lines of `--joblog` are out.
const LOGGING: Duration = Duration::from_secs(5);
/// How long a store has to take back what whoever asked for the end at once had. It takes some milliseconds, usually.
const AT_ONCE: Duration = Duration::from_secs(3);

impl Scheduler {
    /// Whether nothing is under way, and nothing more is to be begun.
    pub(super) fn is_over(&self) -> bool {
        let busy =
            self.prefetch.claiming() + self.slots.tasks() + self.pending.count() + self.outputs.unwritten()
                > 0;
        !busy && (self.stop.is_some() || (self.rounds.is_settled() && !self.incoming.is_open()))
    }

    /// What waits to be written gets out. Whether standard output is read, and not full for as long as nobody does.
    pub(super) async fn write_out(&mut self, signals: &mut Signals) -> Result<bool, Failure> {
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
        Ok(is_read)
    }

    /// `is_read`: whether standard output is not full for as long as nobody reads it.
    pub(super) async fn conclude(&mut self, is_read: bool) -> Result<u8, Failure> {
        self.progress.end();
        self.tell_losses(true);
        let took = boottime().saturating_sub(self.began);
        if self.is_unread_stop() && self.lapsing.is_empty() {
            return Err(self.stop.take().unwrap_or_else(|| Failure::silent(exit::OK)));
        }
        let as_json = self.plan.json && is_read;
        if self.plan.form.is_none() && self.runs > 0 {
            output::may_be_within_line();
        }
        // Whoever asks to stop does not wait for the store.
        let details = if self.is_asked() {
            UnitDetails::default()
        } else {
            UnitDetails::read(self.leases.store(), &self.board, as_json).await
        };
        let (board, names, tally) = (&self.board, self.given.names(), &self.tally);
        let summary = JobSummary::of(&self.name, board, names, tally, details, took);
        let written = summary.print(as_json);
        match self.stop.take() {
            // Whoever stops us has to know that not all has stopped.
            Some(Failure { by: Some(_), .. }) if !self.lapsing.is_empty() => Err(Failure::silent(exit::LOST)),
            // What could not be written is worse than what --halt has asked for, and so is what has failed since.
            Some(failure) if failure.code == exit::OK => {
                let is_well = self.tally.failed == 0;
                written.and(Err(if is_well { failure } else { Failure::silent(exit::SOME_FAILED) }))
            }
            Some(failure) => Err(failure),
            None if self.board.bad() > 0 => Ok(exit::SOME_FAILED),
            None => written.map(|()| exit::OK),
        }
    }

    /// Gives everything back, and says goodbye to the watchdog if nothing can be running.
    pub(crate) async fn leave(mut self, signals: &mut Signals, result: &Result<u8, Failure>) {
        self.progress.end();
        drop(self.outputs.give_back());
        if self.is_killed {
            signals.wait(AT_ONCE, self.give_back_killed()).await;
        }
        if self.slots.tasks() > 0 && result.is_err() {
            // At once was asked for: the watchdogs do the rest, and give back what is held.
            return;
        }
        if self.slots.tasks() == 0 && self.lapsing.is_empty() && !self.is_killed {
            self.slots.policy().watchdogs.dismiss();
        }
        let end = async {
            // What is not left to expire by then would be given back.
            for lapsing in self.lapsing {
                let _let_go = lapsing.await;
            }
            say_goodbye(&self.leases).await;
        };
        // Who was asked to end at once waits for the store no longer than a moment: the watchdogs are there still.
        let patience = if self.is_killed { AT_ONCE } else { self.plan.ttl };
        signals.wait(patience, end).await;
    }

    /// Units are given back once their commands are dead, which takes a moment. One whose lease only expires would look as if its worker had died.
    async fn give_back_killed(&mut self) {
        while self.slots.tasks() > 0 {
            // What else comes back is let go of by its drop.
            if let Some(Event::Ended { key, guard, ended, .. }) = self.events.recv().await {
                self.slots.free(&key);
                if matches!(ended, EndedUnit::Stuck) {
                    self.lapsing.push(tokio::spawn(guard.lapse()));
                }
            }
        }
    }
}
