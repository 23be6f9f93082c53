//! What must hold after a lapse and after a resignation.

use super::super::RATE;
use std::collections::BTreeMap;

/// A row is left to expire under work that can't be ended (S6), and whoever resigns lets others go first.
#[derive(Debug, Default)]
pub(in super::super) struct WalkChecks {
    /// Nobody may be elected before.
    lapses_at: u64,
    /// Since when anybody may take the row.
    free_since: Option<u64>,
    /// Those who have resigned, and whom nobody has followed yet: for how long at the most the row was free when they took it anew.
    resigned: BTreeMap<usize, Option<u64>>,
    /// How often somebody resigned.
    pub(in super::super) resignations: usize,
    /// How often somebody lapsed.
    pub(in super::super) lapses: usize,
}

impl WalkChecks {
    pub(super) fn is_free(&mut self, at: u64, is_free: bool) {
        self.free_since = is_free.then(|| self.free_since.unwrap_or(at));
    }

    /// The leader lapses, and its row lasts until then.
    pub(super) fn lapsed(&mut self, deadline: u64) {
        self.lapses += 1;
        self.lapses_at = self.lapses_at.max(deadline);
    }

    pub(super) fn resigned(&mut self, n: usize) {
        self.resignations += 1;
        self.resigned.insert(n, None);
    }

    pub(super) fn begins_anew(&mut self, n: usize) {
        self.resigned.remove(&n);
    }

    /// The row is one of ours by a take, or one of theirs.
    pub(super) fn took(&mut self, at: u64, by: Option<usize>) {
        self.resigned.retain(|n, _| Some(*n) == by);
        if let Some(free) = by.and_then(|n| self.resigned.get_mut(&n)) {
            // A take that lands unnoticed does not undo that others could.
            *free = (*free).max(Some(self.free_since.map_or(0, |since| at - since)));
        }
    }

    pub(super) fn elected(&mut self, at: u64, n: usize) {
        assert!(at >= self.lapses_at, "at {at} µs {n} leads; a row was left to expire at {}", self.lapses_at);
        let Some(free) = self.resigned.remove(&n) else { return };
        // Its clock may be fast by a tenth.
        let enough = free.is_some_and(|free| free >= 2 * RATE * 9 / 10);
        assert!(enough, "at {at} µs {n} leads again, which resigned; others could for {free:?} µs");
    }
}
