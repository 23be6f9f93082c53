//! The end of a worker that leaves in good order.

use super::look::Bump;
use super::worker::{Own, Stage, Worker};
use crate::command::Command;
use crate::time::{Now, Tick};

impl Worker {
    /// A worker that leaves stops when nothing is left.
    pub(super) fn wake_leaving(&mut self, now: Now) {
        if self.leaving && self.session_fence().is_none() {
            // All that it held is lost. What waits for a session is not wanted any more.
            let waits = |own: &&Own| own.stage == Stage::Bidding;
            for lease in self.own.values().filter(waits).map(|own| own.lease).collect::<Vec<_>>() {
                self.going(lease);
                self.order(now, Command::Release(lease, None));
            }
            if self.own.is_empty() {
                return self.stop(now);
            }
        }
        if self.has_left() && self.leave_from.is_none_or(|at| now.held >= at) {
            self.stop(now);
        }
    }

    /// Whether nothing is left of a worker that leaves, and the others were told.
    fn has_left(&self) -> bool {
        let is_told = self.session_fence().is_none() || self.leave_from.is_some();
        let is_said = matches!(self.bump, Bump::Idle) || self.look.blind;
        self.leaving && self.own.is_empty() && is_told && is_said
    }

    pub(super) fn leaving_wakes(&self) -> Option<Tick> {
        self.leave_from.filter(|_| self.has_left())
    }
}
