//! The audit: a listing by the planner though the board shows nothing new, for what was orphaned in some way that nobody told of.

use super::worker::Worker;
use crate::bugs::Bug;
use crate::values::time::{Now, Tick};
use std::time::Duration;

impl Worker {
    /// When to audit, if nothing happens before: after about ten ttls.
    pub(super) fn next_audit(&self, now: Now) -> Tick {
        if self.has_bug(Bug::AuditForgotten) {
            return Tick::NEVER;
        }
        let turn = self.part(1).max(Duration::from_secs(3)) * 10;
        let jitter = turn / 512 * u32::from(self.nonces.jitter());
        now.held.after(turn - turn / 4 + jitter)
    }
}
