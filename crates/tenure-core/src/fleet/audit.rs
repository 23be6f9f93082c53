//! The audit: a listing though the board shows nothing new, for what was orphaned in some way that nobody told of. The workers
//! take turns at it. Whoever has done so says it on the board, and all count their turns from there, so that clocks whose rates
//! differ don't drive the turns apart.

use super::board;
use super::look::Bump;
use super::worker::{Errand, Worker};
use crate::bugs::Bug;
use crate::error::StoreError;
use crate::key::Key;
use crate::op::{Answer, Op, Outcome, Write};
use crate::record::Stored;
use crate::time::{Now, Tick};
use std::time::Duration;

/// The longest time between two audits of one worker.
const MOST_BETWEEN: Duration = Duration::from_secs(3600);

impl Worker {
    /// When this worker audits, if nothing happens before: so that however many workers there are, one of them does so every
    /// ten ttls, or each at least once in an hour. `after` is who did so last; without that, all have just listed.
    pub(super) fn next_audit(&self, now: Now, after: Option<&Key>) -> Tick {
        if self.has_bug(Bug::AuditForgotten) {
            return Tick::NEVER;
        }
        let place = |key: &Key| self.peers.range(..key.clone()).count() + usize::from(self.me < *key);
        let workers = self.peers.len() + 1;
        // How many others come before this worker.
        let before = match after {
            None => place(&self.me),
            Some(last) => (place(&self.me) + workers - place(last).min(workers) + workers - 1) % workers,
        };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (before, workers) = (count(before), count(workers));
        let turn = self.part(1).max(Duration::from_secs(3)) * 10;
        let round = turn.saturating_mul(workers).min(turn.max(MOST_BETWEEN));
        let turn = round / workers;
        let jitter = turn / 512 * u32::from(self.nonces.jitter());
        now.held.after(turn * (before + 1) - turn / 4 + jitter)
    }

    /// Tells the others that this worker has audited. If something is about to change the board anyway, it isn't worth a write.
    pub(super) fn mark_audit(&mut self, now: Now) {
        let Some(seen) = &self.board else { return };
        if self.has_bug(Bug::AuditorsDisagree)
            || self.bump != Bump::Idle
            || self.look.blind
            || self.is_alarmed(now)
        {
            return;
        }
        let write = board::mark(self.board_key.clone(), seen, &self.me, self.nonces.draw(), now.wall);
        self.send(Errand::Mark(Box::new(write.clone())), Op::Write(Box::new(write)));
    }

    pub(super) fn marked(&mut self, now: Now, write: Write, result: Result<Answer, StoreError>) {
        match result {
            Ok(Answer::Write(Outcome::Won { version, .. })) => {
                self.saw_board(now, Some(Stored { record: write.record, version, age: None }));
            }
            Ok(Answer::Write(Outcome::Lost(current))) => self.saw_board(now, current),
            Ok(_) => {}
            Err(error) => self.tell(super::talk::FleetNotice::Trouble(error)),
        }
    }
}
