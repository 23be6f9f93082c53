//! Those who wait for a key, and how long they may have to.

use crate::invariants::l1::Vacancy;
use crate::kernel::clock::True;
use crate::leases::World;
use crate::leases::node::{LeaseStage, LeaseView, Node};
use tenure_core::LeaseId;

impl World {
    /// A key was given up. If someone waits for it, it goes to them soon.
    pub(crate) fn given_up(&mut self, key: usize) {
        let Some(waiter) = self.eager_waiter(key, None) else { return };
        let bound = if self.spec.push {
            self.per_mille(60)
        } else {
            self.per_mille(250) * 10 / 9 + self.per_mille(60)
        };
        let vacancy = Vacancy { since: self.t, bound: bound + self.slowness(), by_death: false, waiter };
        self.scene.takeovers.begin(key, vacancy);
    }

    /// How much longer calls take where they are slow.
    pub(crate) fn slowness(&self) -> True {
        if self.scenario.stumbles { self.per_mille(1000) } else { 0 }
    }

    /// How much longer whoever waits there leaves a free key to candidates that come before it.
    pub(crate) fn deference(&self, node: usize, key: usize) -> True {
        let seat = self.nodes.get(node).and_then(|node| node.own.seats.get(key));
        seat.map_or(0, |seat| u64::try_from(seat.election.terms().deference().as_nanos()).unwrap_or(0))
    }

    /// Someone on another node than `but` who waits for `key` as long as it takes, with an attempt that is under way.
    pub(crate) fn eager_waiter(&self, key: usize, but: Option<usize>) -> Option<(usize, LeaseId)> {
        let healed = self.healed?;
        let eager = |node: &Node, view: &LeaseView| {
            // Whoever has to begin a session first waits for that, not for the key.
            let up = !view.is_attached
                || node.machine.as_ref().is_some_and(|holder| holder.session_fence().is_some());
            let asked = view.asked_at.max(healed) + self.per_mille(700) < self.t;
            view.key == key && view.waits && view.stage == LeaseStage::Wanted && asked && up
        };
        let nodes = self.nodes.iter().filter(|node| node.acts() && Some(node.index) != but);
        nodes
            .flat_map(|node| node.own.views.iter().map(move |view| (node, view)))
            .find(|(node, view)| eager(node, view))
            .map(|(node, view)| (node.index, view.id))
    }
}
