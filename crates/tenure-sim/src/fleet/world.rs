//! What outsiders know of the units of a fleet, and what a calm came to.

use super::{World, invariants};
use crate::invariants::Rule;
use crate::kernel::clock::True;
use tenure_core::fleet::Status;
use tenure_core::{Fence, LeaseId, Ttl};

/// What outsiders, who see everything, know of a unit.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) index: usize,
    pub(crate) status: Status,
    pub(crate) needs_label: bool,
    /// Whoever works on it fails.
    pub(crate) fails: bool,
    /// How often it was tried since all was healed, and how often its worker died, left or began anew meanwhile.
    pub(crate) tries: (u64, u64),
    /// Since when nobody works on it, and how long that may last.
    pub(crate) idle: Option<IdleUnit>,
    /// The last claims: fence, and whether the unit was open then.
    pub(crate) claims: Vec<(Fence, bool)>,
    /// The highest fence that was assigned, to whom.
    pub(crate) assigned: (Fence, (usize, u32, LeaseId)),
    /// The fence of the last one whose body is not known to have ended.
    pub(crate) abandoned: Fence,
    /// Tenures that its record does not show any more, since somebody has deleted it or put it back, and when that was.
    pub(crate) behind: Vec<(Fence, True)>,
    /// The checkpoints that took effect lately.
    pub(crate) points: Vec<i64>,
}

impl Truth {
    /// Whether its record was deleted or put back while it showed this tenure.
    pub(crate) fn is_behind(&self, fence: Fence) -> bool {
        self.behind.iter().any(|(other, _)| *other == fence)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleUnit {
    pub(crate) since: True,
    pub(crate) bound: True,
    pub(crate) by_death: bool,
}

impl World {
    /// A calm is over: what it cost.
    pub(super) fn check_calm(&mut self) {
        let roster = self.pages_of(&self.scene.fleet.worker_prefix());
        let audit = roster + self.pages_of(&self.scene.fleet.unit_prefix());
        // All look and audit by the shortest ttl that there is.
        let quickest = if self.scenario.ttls { Ttl::clamped(self.ttl.millis() / 4) } else { self.ttl };
        let super::FleetScenario { rate, lag, .. } = self.scenario;
        self.check(
            Rule::C1,
            invariants::c1::little(&self.nodes, &self.scene, (roster, audit), quickest, rate, lag > 100),
        );
        let ttls = self.scene.settled_time / self.per_mille(1000);
        self.check(Rule::C1, invariants::c1::refused(&self.scene, self.nodes.len() as u64, ttls));
        self.check_tries();
    }

    /// Was what fails always tried seldom enough?
    fn check_tries(&mut self) {
        let (workers, calm) = (self.nodes.len() as u64, self.scenario.calm);
        for truth in self.scene.units.values().filter(|truth| truth.fails) {
            let (tries, owners) = truth.tries;
            // By the fastest clock.
            let ttls = calm * (1_000_000 + self.scenario.rate) / 1_000_000;
            self.checks.check(self.t, Rule::C1, invariants::c1::tried(tries, workers, owners, ttls));
        }
    }

    /// Whether nobody can write some unit.
    pub(super) fn has_sealed(&self) -> bool {
        self.scene.units.keys().any(|key| self.store.is_sealed(key))
    }

    /// How many pages it takes to list all of `prefix`.
    fn pages_of(&self, prefix: &str) -> u64 {
        let records = self.store.keys().filter(|(key, _)| key.as_str().starts_with(prefix)).count();
        (records / self.scenario.page + 1) as u64
    }
}
