//! `gc` in a world of sections.

use super::world::{What, World};
use crate::clock::{MILLI, WALL_AT_START};
use std::time::Duration;
use tenure_core::section::{self, Ledger};
use tenure_core::{HolderId, Wall};

impl World {
    /// `gc` with clocks that are right, or by somebody whose wall clock is not: removes the section when all in it is over, past a retention.
    ///
    /// The retention is longer than any request is under way: one sent before the removal would else make the section anew with
    /// the fence of its own time, which may be lower than what came since. Users rest from time to time, so that it is ever reached.
    pub(super) fn collect(&mut self) {
        let retention = Duration::from_millis(self.spec.duration_ms * 10);
        let off = self.rng.between(0, 2 * self.spec.gc_off_ms);
        let wall = Wall(WALL_AT_START + self.t / MILLI + off - self.spec.gc_off_ms);
        let over = self.store.stored_at(&self.key, self.t).is_some_and(|stored| {
            let is_old = |age| age >= retention;
            section::is_over(&stored, wall)
                && is_old(wall.since(stored.record.stamp))
                && stored.age().is_some_and(is_old)
        });
        if over {
            let before = self.ledger();
            self.tell(|| "the section is removed".to_owned());
            self.store.remove(self.t, &self.key.clone());
            self.removals += 1;
            self.left_out(
                &before,
                &Ledger::default(),
                &HolderId::new("gc").unwrap_or_else(|_| unreachable!("a name")),
            );
        }
        if self.t >= self.rest_until && self.rng.chance(0.5) {
            self.rest_until = self.t + self.spans(16);
            self.at(self.rest_until, What::Collect);
        } else {
            self.later(self.spans(3), What::Collect);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Faults;
    use crate::sections::SPECS;
    use tenure_core::Bugs;

    #[test]
    fn sections_are_removed_in_many_worlds() {
        let with_gc = SPECS.iter().filter(|spec| spec.gc);
        let removals: u64 = with_gc
            .flat_map(|spec| {
                (0..50).map(|seed| World::run(*spec, seed, Bugs::default(), Faults::default(), false))
            })
            .map(|world| world.removals)
            .sum();
        println!("{removals} removals");
        assert!(removals >= 20, "{removals}");
    }
}
