//! The workers of a fleet's world: how they begin, leave and end.

use super::node::FleetNodeState;
use super::{FleetScene, World};
use crate::kernel::NewProcess;
use tenure_core::fleet::{About, Balance, FleetCommand, FleetWorker, Options};
use tenure_core::{HolderId, Identity, Key, LeaseId, Metadata, Rules, Ttl};

/// The label that some units need.
pub(crate) const LABEL: &str = "gpu";

impl World {
    pub(super) fn about(&self, index: usize) -> About {
        let balance = if self.scenario.weighs { Balance::Weight } else { Balance::Count };
        let about = About::default().units(self.scenario.room).balance(balance);
        if index % 3 == 2 { about } else { about.label(LABEL) }
    }

    /// The ttl of a new process's session: the world's, or a half or a quarter of it where they differ.
    fn any_ttl(&mut self) -> Ttl {
        if !self.scenario.ttls {
            return self.ttl;
        }
        Ttl::clamped(self.ttl.millis() >> self.rng.below(3))
    }

    /// A new holder id, a new instance.
    pub(super) fn new_process(
        &mut self,
        index: usize,
        life: u32,
        instance: u64,
    ) -> Option<NewProcess<FleetScene>> {
        let name = format!("{:-<width$}", format!("w{index}.{life}"), width = self.scenario.names);
        let (who, unset) = (HolderId::new(name).ok()?, Key::new("unset").ok()?);
        let session = self.scene.fleet.worker(&who).ok()?;
        let ttl = self.any_ttl();
        let identity =
            Identity { holder: who.clone(), session: unset, ttl, about: Metadata::new(), instance };
        let rules = Rules { bugs: self.setup.bugs, ..Rules::default() };
        let options = Options {
            fleet: self.scene.fleet.clone(),
            about: self.about(index),
            drain: self.ttl.part(2),
            push: self.spec.push,
            age_error: self.spec.ages.error(),
            page: self.scenario.page,
            lookers: self.scenario.lookers,
        };
        let machine = FleetWorker::new(identity, rules, options).ok()?;
        let own = &mut self.nodes[index].own;
        (own.ttl, own.leaving, own.doomed) = (ttl, false, false);
        Some(NewProcess { who, session, machine })
    }

    /// The process is gone, and with it all that was done on it.
    pub(super) fn ended(&mut self, index: usize) {
        let own = &mut self.nodes[index].own;
        let FleetNodeState { ttl, settled_reads, settled_watches, leaving, doomed, .. } = *own;
        let lasts =
            FleetNodeState { settled_reads, settled_watches, leaving, doomed, ..FleetNodeState::new(ttl) };
        let FleetNodeState { works, .. } = std::mem::replace(own, lasts);
        for work in works.into_values() {
            if let Some(truth) = self.scene.units.get_mut(&work.unit) {
                truth.tries.1 += 1;
            }
            self.idles(&work.unit, Some(ttl));
        }
    }

    /// Goes in good order: everything is passed on.
    pub(super) fn leave(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if !node.own.leaving && !node.stopping {
            node.own.leaving = true;
            self.disturb_by_plan();
            self.command(index, FleetCommand::Leave);
        }
    }

    /// Goes at once: all bodies have been ended.
    pub(super) fn stop(&mut self, index: usize) {
        if std::mem::replace(&mut self.nodes[index].stopping, true) {
            return;
        }
        let running: Vec<LeaseId> = self.nodes[index]
            .own
            .works
            .iter()
            .filter(|(_, work)| work.runs())
            .map(|(lease, _)| *lease)
            .collect();
        for lease in running {
            self.body_is_over(index, lease, false);
        }
        self.disturb_by_plan();
        self.command(index, FleetCommand::Stop);
    }
}
