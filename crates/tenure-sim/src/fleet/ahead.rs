//! A worker's wall clock is set ahead, and it dies together with the planner. Its session's record does not tell how long it has been
//! silent, so who stands by has to look at it once the planner is silent.

use super::{FleetDue, What, World};
use crate::kernel::coverage::Coverage;
use crate::kernel::trace::Story;

/// So far, in milliseconds.
const AHEAD: i64 = 3_600_000;

impl World {
    /// The wall clock of one who watches nobody is set ahead. It renews a few times before it dies.
    pub(super) fn set_ahead(&mut self, up: &[usize]) {
        let others: Vec<usize> = up.iter().copied().filter(|index| !self.watches(*index)).collect();
        let Some(index) = others.get(self.rng.index(others.len())).copied() else { return };
        self.nodes[index].clock.set_wall_offset(AHEAD);
        self.tell(|world| Story::Fault(Some(world.name(index)), "its wall clock is set ahead".to_owned()));
        let per_mille = 500 + self.rng.below(1500);
        let (span, life) = (self.per_mille(per_mille), self.nodes[index].life);
        self.at(self.t + span, What::Own(FleetDue::DiesAhead(index as u8, life)));
    }

    /// Whoever plans has just renewed, and dies, and so does the one whose clock is ahead. Nothing is noticed later than that.
    pub(super) fn dies_ahead(&mut self, planner: usize) {
        let Some((index, life)) = self.scene.ahead.filter(|_| self.planner() == Some(planner)) else {
            return;
        };
        self.scene.ahead = None;
        // Whoever mends its clock has it join again.
        self.nodes[index].clock.set_wall_offset(0);
        if index == planner || self.nodes[index].life != life || !self.nodes[index].acts() {
            return;
        }
        self.kill_all(&[planner, index]);
        self.tally.coverage(Coverage::DiedAhead);
        // Within an interval of 5/12 of a ttl of silence who stands by looks at all others, each of which it then watches for a ttl.
        let seen = self.bound(1750 + self.rested(350));
        let bound = if self.has_standby() { seen } else { seen.max(self.bound(2500 + self.rested(1000))) };
        let t = self.t;
        let died = self.scene.units.values_mut().filter_map(|truth| truth.idle.as_mut());
        for idle in died.filter(|idle| idle.by_death && idle.since == t) {
            idle.bound = idle.bound.max(bound);
        }
        self.scene.settled_by = self.scene.settled_by.max(t + bound + self.plan_bound());
    }
}
