//! What goes wrong in a fleet's world alone.

use super::World;
use super::node::FleetCall;
use crate::kernel::NodeInput;
use crate::kernel::fault::FaultKind;
use crate::kernel::trace::Story;
use tenure_core::op::Hint;

impl World {
    pub(super) fn strike_fleet(&mut self, fault: FaultKind, index: usize) -> bool {
        match fault {
            FaultKind::Deleted if self.rng.chance(0.4) => self.damage_by_hand(),
            FaultKind::Deleted => self.delete_by_hand(),
            FaultKind::RecordDeleted => self.delete_unit(),
            FaultKind::RecordRestored => self.restore_unit(),
            FaultKind::ForcedRelease => self.take_by_force(),
            FaultKind::Forbidden => self.forbid_unit(),
            FaultKind::Unfit => self.make_unfit(index),
            FaultKind::SpuriousHint => {
                let some = self.rng.index(self.scene.units.len());
                let key = self.scene.units.keys().nth(some).cloned().filter(|_| self.rng.chance(0.7));
                self.deliver(index, NodeInput::Hint(key.map_or(Hint::Any, Hint::Key)));
            }
            _ => return false,
        }
        true
    }

    pub(super) fn crash_or_leave(&mut self, index: usize) {
        match self.rng.below(10) {
            0 | 1 => self.deliver(index, NodeInput::Own(FleetCall::Leave)),
            2 => self.deliver(index, NodeInput::Own(FleetCall::Stop)),
            3 => self.lose_zone(index),
            _ => self.kill(index),
        }
    }

    /// A third of all dies at once.
    pub(super) fn lose_zone(&mut self, index: usize) {
        let zone: Vec<usize> = (0..self.nodes.len()).filter(|other| other % 3 == index % 3).collect();
        self.kill_all(&zone);
    }

    /// They die together: what one of them had may be planned for another, until that one is known to be dead too.
    pub(super) fn kill_all(&mut self, indices: &[usize]) {
        let ttls = indices.iter().map(|index| &self.nodes[*index]).filter(|node| node.machine.is_some());
        let longest = ttls.map(|node| node.own.ttl).max().unwrap_or(self.ttl);
        for index in indices {
            self.kill(*index);
        }
        // Whoever plans next has not watched the others.
        let (t, bound) = (self.t, self.deaths_bound(longest));
        let died = self.scene.units.values_mut().filter_map(|truth| truth.idle.as_mut());
        for idle in died.filter(|idle| idle.by_death && idle.since == t) {
            idle.bound = idle.bound.max(bound);
        }
    }

    pub(super) fn kill(&mut self, index: usize) {
        if self.nodes[index].machine.is_none() {
            return;
        }
        self.tell(|world| Story::Fault(Some(world.name(index)), "dies".to_owned()));
        self.end_process(index);
        // In the calm it stays away until the others have taken over.
        let mean = if self.healed.is_some() { 12_000 } else { 1000 };
        self.restart(index, self.per_mille(mean));
    }
}
