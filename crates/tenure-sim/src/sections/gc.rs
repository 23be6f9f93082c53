//! `gc` in a world of sections.

use super::{SectionDue, What, World};
use crate::kernel::coverage::Coverage;
use crate::kernel::trace::Story;
use std::time::Duration;
use tenure_core::section::{self, SectionLedger};
use tenure_core::{HolderId, Wall};

impl World {
    /// `gc` with clocks that are right, or by somebody whose wall clock is not: removes the section when all in it is over, past a retention.
    ///
    /// The retention is longer than any request is under way: one sent before the removal would else make the section anew with
    /// the fence of its own time, which may be lower than what came since. Users rest from time to time, so that it is ever reached.
    pub(super) fn collect(&mut self) {
        let retention = Duration::from_millis(self.scenario.duration_ms * 10);
        let off = self.rng.between(0, 2 * self.scenario.gc_off_ms);
        let wall = Wall(self.true_wall().0 + off - self.scenario.gc_off_ms);
        let over = self.store.stored_at(&self.scene.key, self.t).is_some_and(|stored| {
            let is_old = |age| age >= retention;
            section::is_over(&stored, wall)
                && is_old(wall.since(stored.record.stamp))
                && stored.age().is_some_and(is_old)
        });
        if over {
            let before = self.ledger();
            self.tell(|_| Story::Store("the section is removed".to_owned()));
            self.store.remove(self.t, &self.scene.key.clone());
            self.tally.coverage(Coverage::SectionRemoved);
            self.left_out(
                &before,
                &SectionLedger::default(),
                &HolderId::new("gc").unwrap_or_else(|_| unreachable!("a name")),
            );
        }
        if self.t >= self.scene.rest_until && self.rng.chance(0.5) {
            self.scene.rest_until = self.t + self.spans(16);
            self.at(self.scene.rest_until, What::Own(SectionDue::Collect));
        } else {
            self.later(self.spans(3), What::Own(SectionDue::Collect));
        }
    }
}
