//! `--keep-order`: a unit whose output waits for its turn is recorded once that is out, and stays held until then.

use super::{LAST_WORDS, PATIENCE, Scheduler};
use crate::output;
use crate::text::count;
use std::time::Duration;

/// The place of the unit that outputs wait for, if another process has it, and since when.
#[derive(Default)]
pub(super) struct AwaitedPlace(Option<(usize, Duration)>);

impl AwaitedPlace {
    /// It is `place` now. Whether that has been so for longer than this.
    fn is_longer_than(&mut self, patience: Duration, place: Option<usize>, now: Duration) -> bool {
        let before = self.0.take();
        let Some(place) = place else { return false };
        let since = before.filter(|(before, _)| *before == place).map_or(now, |(_, since)| since);
        self.0 = Some((place, since));
        now.saturating_sub(since) > patience
    }
}

impl Scheduler {
    /// Writes outputs whose turn it is.
    pub(super) fn write_in_order(&mut self, now: Duration) {
        let to_come = self.prefetch.claiming() + self.slots.tasks() + self.outputs.unsaved();
        if self.stop.is_some() && to_come == 0 {
            self.outputs.begin_ending(now);
        }
        let are_passed = self.are_others_passed(now);
        let (given, board) = (&self.given, &self.board);
        let is_passed = |place| are_passed && given.key(place).is_some_and(|key| board.is_others(key));
        let is_over = |place| given.is_over(place, |key| board.local(key)) || is_passed(place);
        self.outputs.go_on(given.placed(), self.plan.slots, now, is_over);
    }

    /// Whether units that others have are waited for no longer. Others may wait for what is kept here, each in its own order: if all
    /// waited for ever, none would go on. A unit whose worker is dead is free before that, and is run here.
    fn are_others_passed(&mut self, now: Duration) -> bool {
        let of_others = |place: &usize| self.given.key(*place).is_some_and(|key| self.board.is_others(key));
        let awaited = self.outputs.awaited().filter(of_others);
        self.awaited.is_longer_than(self.plan.ttl * 3 / 2, awaited, now)
    }

    /// What becomes of units whose outputs don't get out.
    pub(super) fn settle_kept(&mut self, now: Duration) {
        let is_asked = self.is_asked();
        let is_late =
            self.outputs.ending_since().is_some_and(|since| now.saturating_sub(since) >= LAST_WORDS);
        if self.outputs.is_unwritable() || (is_asked && is_late) {
            // They are run again, for somebody who reads them.
            for result in self.outputs.give_back() {
                self.is_unread |= !self.outputs.is_unwritable();
                self.take_back(&result.key, result.to);
            }
            return;
        }
        // Who is asked to stop knows in a moment what can be written.
        if !(is_asked && self.outputs.ending_since().is_some()) {
            while let Some(result) = self.outputs.next_due(now.saturating_sub(PATIENCE)) {
                self.record(result);
            }
        }
        let lost = self.outputs.lost(now, (self.plan.ttl / 20).min(Duration::from_millis(250)));
        if !lost.is_empty() {
            let units = count(lost.len(), "unit");
            output::note(format!(
                "{units}: the lease was withdrawn or lost while the output waited for its turn (--keep-order); run again"
            ));
        }
        lost.iter().for_each(|result| self.take_back(&result.key, result.to));
    }
}
