//! How far units are claimed ahead of the slots, by how long claims and runs take.

use super::{MOMENT, Scheduler};
use std::time::Duration;

/// The claims that are under way, and what is known of their speed.
pub(super) struct Prefetch {
    /// Claims that are not answered yet.
    claiming: usize,
    /// Running averages, in seconds: of a claim, and of a run.
    claim_secs: f64,
    run_secs: Option<f64>,
}

impl Prefetch {
    pub(super) fn new() -> Prefetch {
        Prefetch { claiming: 0, claim_secs: 0.003, run_secs: None }
    }

    /// Another claim is under way.
    pub(super) fn begin(&mut self) {
        self.claiming += 1;
    }

    /// One was answered, after this time.
    pub(super) fn claimed(&mut self, took: Duration) {
        self.claiming -= 1;
        self.claim_secs += (took.as_secs_f64() - self.claim_secs) / 16.0;
    }

    /// How many are not answered yet.
    pub(super) fn claiming(&self) -> usize {
        self.claiming
    }

    /// A command has ended by itself, after this time.
    pub(super) fn ran(&mut self, took: Duration) {
        let run_secs = self.run_secs.get_or_insert(took.as_secs_f64());
        *run_secs += (took.as_secs_f64() - *run_secs) / 16.0;
    }

    /// As many units as end while a claim is under way, with some to spare, and as end in a moment, as what is claimed together costs
    /// less. None if runs are so long that waiting for a claim does not matter.
    fn ahead(&self, slots: usize) -> usize {
        /// But for slots, however many these are.
        const MOST: usize = 512;
        let Some(run_secs) = self.run_secs else { return 0 };
        let while_claiming = (3.0 * self.claim_secs).max(2.0 * MOMENT.as_secs_f64());
        let ended = slots as f64 * while_claiming / run_secs.max(1e-6);
        if run_secs > 50.0 * self.claim_secs { 0 } else { (ended.ceil() as usize).min(MOST).max(slots) }
    }
}

impl Scheduler {
    /// Claims ahead of the slots. None where starts are delayed, or have to wait for what runs.
    pub(super) fn ahead(&self) -> usize {
        let is_none = !self.plan.delay.is_zero() || self.slots.are_long_full();
        if is_none { 0 } else { self.prefetch.ahead(self.plan.slots) }
    }

    /// How many claims or results of short runs gather before they are sent: those that come to a store together share a transaction
    /// there, or a request, where it has such. One by one if runs are long.
    pub(super) fn batch(&self) -> usize {
        self.ahead() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_are_claimed_ahead_for_any_number_of_slots() {
        let mut prefetch = Prefetch::new();
        assert_eq!(prefetch.ahead(4096), 0);
        prefetch.ran(Duration::from_millis(1));
        for (slots, ahead) in [(1, 50), (16, 512), (512, 512), (513, 513), (4096, 4096)] {
            assert_eq!(prefetch.ahead(slots), ahead);
        }
    }
}
