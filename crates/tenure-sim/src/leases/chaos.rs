//! What goes wrong in a world of leases alone, and deaths in the calm.

use super::node::{LeaseCall, LeaseStage, Node};
use super::{LeaseDue, What, World};
use crate::invariants::l1::Vacancy;
use crate::kernel::NodeInput;
use crate::kernel::clock::SECOND;
use crate::kernel::coverage::Coverage;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::Ages;
use crate::kernel::trace::Story;
use tenure_core::op::Hint;

impl World {
    pub(super) fn strike_leases(&mut self, fault: FaultKind, index: usize) -> bool {
        match fault {
            FaultKind::Deleted => self.delete_session(index),
            FaultKind::RecordDeleted => self.delete_lease(),
            FaultKind::RecordRestored => self.restore_lease(),
            FaultKind::RecordDamaged => self.damage_some(index),
            FaultKind::Forbidden => self.store.forbid(self.scene.keys[0].clone()),
            FaultKind::ForcedRelease => self.seize_some(),
            FaultKind::SameId => self.take_id(index),
            FaultKind::Reboot => self.reboot(index),
            FaultKind::Buried => self.bury(index),
            FaultKind::SpuriousHint => {
                let key = self.rng.chance(0.5).then(|| self.scene.keys[0].clone());
                self.deliver(index, NodeInput::Hint(key.map_or(Hint::Any, Hint::Key)));
            }
            _ => return false,
        }
        true
    }

    /// A process ends, and the next one on its node goes by its id, or by that of another node's process.
    fn take_id(&mut self, index: usize) {
        if self.nodes[index].machine.is_none() {
            return;
        }
        let other = if self.rng.chance(0.5) { index } else { self.rng.index(self.nodes.len()) };
        self.nodes[index].own.goes_by = Some(self.nodes[other].who.clone());
        self.end_process(index);
        self.restart(index, self.per_mille(100));
    }

    /// A machine restarts: another boot, on a time line of its own.
    fn reboot(&mut self, index: usize) {
        if self.nodes[index].machine.is_none() {
            return;
        }
        self.kill(index);
        let held = self.rng.below(1000 * SECOND);
        let (t, machines) = (self.t, self.nodes.len() as u64);
        let node = &mut self.nodes[index];
        node.clock.restart(t, held);
        node.own.boot += if self.scenario.clones { 0 } else { machines };
    }

    /// A process dies, and its watchdogs, which see that, give back what it held.
    fn bury(&mut self, index: usize) {
        if self.nodes[index].machine.is_none() {
            return;
        }
        let (who, session) = (self.nodes[index].who.clone(), self.nodes[index].session.clone());
        self.kill(index);
        for key in 0..self.scene.keys.len() {
            self.seize_of_dead(key, self.scene.keys[key].clone(), &who);
        }
        self.seize_of_dead(self.scene.keys.len(), session, &who);
    }

    pub(super) fn crash_or_stop(&mut self, index: usize) {
        if self.nodes[index].machine.is_none() {
            return;
        }
        if self.rng.chance(0.25) {
            return self.deliver(index, NodeInput::Own(LeaseCall::Stop));
        }
        self.kill(index);
    }

    pub(crate) fn kill(&mut self, index: usize) {
        let node = &self.nodes[index];
        if node.own.views.iter().any(|view| node.believes(view, self.t)) {
            self.tally.coverage(Coverage::DiedHolding);
        }
        self.end_process(index);
        self.restart(index, self.per_mille(1000));
    }

    /// In the calm, someone who holds a key dies, and those who wait must have it in time.
    pub(crate) fn death(&mut self) {
        if self.healed.is_none() {
            return;
        }
        self.later(self.per_mille(3000), What::Own(LeaseDue::Death));
        // Those who came back from the last death need a moment before they wait for anything.
        let index = self.rng.index(self.nodes.len());
        let node = &self.nodes[index];
        let held: Vec<usize> = node
            .own
            .views
            .iter()
            .filter(|view| matches!(view.stage, LeaseStage::Held(_)) && node.believes(view, self.t))
            .map(|view| view.key)
            .collect();
        if held.is_empty() {
            return;
        }
        self.tally.faults[FaultKind::Crash as usize] += 1;
        self.tell(|world| Story::Fault(Some(world.name(index)), "dies in the calm".to_owned()));
        // A walls' disagreement takes the second witness away.
        let jumps = self
            .scenario
            .faults
            .iter()
            .any(|(fault, _)| matches!(fault, FaultKind::StoreClock | FaultKind::SharedClock));
        let agree = self.scenario.wall_off_ms <= 100 && !jumps;
        for key in held {
            // After a failover that lost its claim, another may hold it too: then nothing became free.
            let others = self.nodes.iter().filter(|other| other.index != index);
            let believed = |other: &Node| {
                other.own.views.iter().any(|view| view.key == key && other.believes(view, self.t))
            };
            if others.into_iter().any(believed) {
                continue;
            }
            let Some(waiter) = self.eager_waiter(key, Some(index)) else { continue };
            let quick = (self.spec.ages == Ages::Fine && agree) || self.spec.push;
            let bound = self.per_mille(if quick { 1150 } else { 1400 })
                + self.slowness()
                + self.deference(waiter.0, key);
            self.scene.takeovers.cancel(key);
            self.scene.takeovers.begin(key, Vacancy { since: self.t, bound, by_death: true, waiter });
        }
        self.kill(index);
    }
}
