//! Why and how the scheduler stops before its job is settled.

use super::{SIGPIPE, Scheduler};
use crate::config::{Counted, Halt};
use crate::exit::{self, Asked, Failure};
use crate::output;
use crate::supervise::signals;
use crate::text::count;
use crate::work::job::board::Local;
use crate::work::job::pieces::capture::{are_too_many_open, is_wrong_place, wrong_place};

impl Scheduler {
    /// Whether the user has asked us to stop.
    pub(super) fn is_asked(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.by.is_some())
    }

    /// Whether that is because nobody reads what commands write any more.
    pub(super) fn is_unread_stop(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.by == Some(Asked::Signal(SIGPIPE)))
    }

    /// Stops before the job is settled. Of several reasons the user's signal counts, or else the first; what --halt asks for is none beside
    /// something that went wrong. That nobody reads any more hides nothing that went wrong before.
    pub(super) fn give_up(&mut self, failure: Failure) {
        let is_halted = self.stop.as_ref().is_some_and(Failure::is_silent);
        let counts = match failure.by {
            // Who reads has often got the user's signal, too.
            Some(Asked::Signal(SIGPIPE)) => self.stop.is_none() || is_halted,
            Some(_) => true,
            None => self.stop.is_none() || is_halted && !failure.is_silent(),
        };
        if !counts {
            return;
        }
        self.slots.stop(self.plan.grace);
        self.start_no_more(failure);
    }

    /// What runs is waited for, and nothing more is begun.
    pub(super) fn start_no_more(&mut self, failure: Failure) {
        self.stop = Some(failure);
        self.board.drop_candidates();
        for task in self.slots.drain() {
            self.board.set(&task.key, Local::Open);
        }
        for key in self.suspects.give_back() {
            self.board.set(&key, Local::Open);
        }
    }

    /// Nobody reads what commands write any more, or it can't be written: there is no use in going on.
    pub(super) fn on_unwritable(&mut self, error: &std::io::Error) {
        let failure = match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::by_signal(SIGPIPE),
            std::io::ErrorKind::Other => Failure::new(exit::INTERNAL, error.to_string()),
            _ => Failure::new(exit::INTERNAL, format!("standard output can't be written: {error}")),
        };
        self.outputs.stop_writing();
        self.give_up(failure);
    }

    /// Nothing can be saved where outputs were to be.
    pub(super) fn on_unsavable(&mut self, error: &std::io::Error) {
        self.outputs.stop_saving();
        self.give_up(Failure::new(exit::INTERNAL, error.to_string()));
    }

    /// There is no file to be had for what commands write, and so for none of them.
    pub(super) fn on_uncaught(&mut self, error: &std::io::Error) {
        if is_wrong_place(error) {
            return self.give_up(wrong_place(error));
        }
        let remedy = if are_too_many_open(error) {
            "allow more open files (ulimit -n), run fewer at a time (--parallel), or leave out --keep-order, which keeps two open for each output \
             of more than 1 KiB whose turn has not come"
        } else {
            "set TMPDIR to another directory, or run fewer at a time (--parallel)"
        };
        let text = format!("output can't be caught: {error}; {remedy}");
        self.give_up(Failure::new(exit::INTERNAL, text));
    }

    /// Stops if so many units have failed, or are done, that this was asked for.
    pub(super) fn halt_if_asked(&mut self) {
        let Some(Halt { at_once, counted, after }) = self.plan.halt.filter(|_| self.stop.is_none()) else {
            return;
        };
        let n = match counted {
            Counted::Failed => self.tally.failed,
            Counted::Succeeded => self.tally.succeeded,
            Counted::Either => self.tally.failed + self.tally.succeeded,
        };
        if !after.is_reached(n, self.tally.failed + self.tally.succeeded) {
            return;
        }
        // What has failed by the end counts: some of this may be run again.
        let failure = Failure::silent(exit::OK);
        output::tell(format!("--halt: {} ended so here: nothing more is begun", count(n, "unit")));
        if at_once {
            self.give_up(failure);
        } else {
            self.start_no_more(failure);
        }
    }

    pub(super) fn on_signal(&mut self, signal: i32) -> Result<(), Failure> {
        let failure = Failure::by_signal(signal);
        if self.is_asked() && !self.is_unread_stop() {
            self.slots.kill();
            self.is_killed = true;
            return Err(failure);
        }
        let running = count(self.slots.running(), "running command");
        output::note(format!("{}: stopping {running}; once more to stop at once", signals::name(signal)));
        self.give_up(failure);
        Ok(())
    }
}
