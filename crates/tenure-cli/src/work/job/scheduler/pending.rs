//! Results on their way to the store. Those of short runs wait a moment for others: what comes to a store together costs less.

use super::{Event, MOMENT, Scheduler};
use crate::work::job::board::Local;
use crate::work::job::unit::Unit;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{Guard, Key, Metadata};

/// What came of a unit, as its record is to tell it.
pub(super) struct UnitResult {
    pub(super) key: Key,
    pub(super) guard: Guard,
    /// Where it is then.
    pub(super) to: Local,
    pub(super) metadata: Metadata,
}

/// Results that are not recorded yet.
#[derive(Default)]
pub(super) struct PendingResults {
    waiting: Vec<UnitResult>,
    /// Since when the first of them waits.
    since: Duration,
    /// Those that are being written.
    under_way: usize,
}

impl PendingResults {
    pub(super) fn add(&mut self, result: UnitResult, now: Duration) {
        if self.waiting.is_empty() {
            self.since = now;
        }
        self.waiting.push(result);
    }

    /// Those to be written now: all, if there are `enough`, if no more can come, or if they have waited long enough.
    pub(super) fn due(&mut self, enough: usize, is_more_to_come: bool, now: Duration) -> Vec<UnitResult> {
        if is_more_to_come && self.waiting.len() < enough && now < self.since + MOMENT {
            return Vec::new();
        }
        self.under_way += self.waiting.len();
        std::mem::take(&mut self.waiting)
    }

    /// One of them was written, or could not be.
    pub(super) fn answered(&mut self) {
        self.under_way -= 1;
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.waiting.len() + self.under_way
    }

    /// How long they may still wait.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        (!self.waiting.is_empty()).then(|| (self.since + MOMENT).saturating_sub(now))
    }
}

impl Scheduler {
    pub(super) fn record(&mut self, result: UnitResult) {
        self.pending.add(result, boottime());
    }

    /// Writes the results that have gathered, if it is time.
    pub(super) fn write_results(&mut self) {
        let is_more_to_come = self.slots.running() > 0;
        for UnitResult { key, guard, to, metadata } in
            self.pending.due(self.batch(), is_more_to_come, boottime())
        {
            let (sender, unit) = (self.sender.clone(), Unit::shown(&key, &metadata));
            tokio::spawn(async move {
                let result = guard.release_with(metadata).await;
                let _over = sender.send(Event::Recorded { key, unit, to, result });
            });
        }
    }
}
