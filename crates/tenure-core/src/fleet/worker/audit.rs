//! The audit: the planner lists although the board shows nothing new. So it finds units that were orphaned without any notice.

use super::Worker;
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
