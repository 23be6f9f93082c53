//! The plan that is made of a listing.

use super::Listing;
use crate::bugs::Bugs;
use crate::fleet::names::FleetName;
use crate::fleet::plan::{self, Cause, Plan};
use crate::fleet::plan_input::{PlanInput, PlanOwner, PlanWorker};
use crate::fleet::unit::Status;
use crate::fleet::worker::listed::Owner;
use crate::values::key::Key;
use std::collections::BTreeMap;

impl Listing {
    /// The plan, with the places of its units, and the workers that its numbers stand for, and how many units move for each cause.
    pub(in crate::fleet::worker) fn plan(
        &self,
        fleet: &FleetName,
        bugs: Bugs,
    ) -> (Plan, Vec<u32>, Vec<Key>, BTreeMap<Cause, usize>) {
        let workers: Vec<Key> = self.peers.keys().cloned().collect();
        let index: BTreeMap<&Key, usize> = workers.iter().enumerate().map(|(at, key)| (key, at)).collect();
        let mut input = PlanInput::new(self.peers.iter().map(|(session, peer)| PlanWorker {
            holder: &peer.holder,
            about: &peer.about,
            has_joined: self.young.contains(session),
        }))
        .with_bugs(bugs);
        let mut names = Vec::new();
        for (at, (key, unit)) in (0..).zip(self.units.iter()) {
            let owner = match &unit.owner {
                Owner::Outsider | Owner::Behind(_) => continue,
                Owner::Worker(session) => {
                    index.get(session).map_or(PlanOwner::Gone, |at| PlanOwner::Worker(*at))
                }
                Owner::Missing(_) | Owner::LongMissing(_) => PlanOwner::Gone,
                Owner::Nobody(seen) if seen.tenure().is_some() => PlanOwner::Gone,
                Owner::Nobody(_) => PlanOwner::Nobody,
            };
            if unit.spec.status == Status::Open {
                names.push(at);
                input.add(fleet.unit_of(key).unwrap_or_default(), &unit.spec, owner);
            }
        }
        let plan = input.plan();
        let moves = plan::count(input.causes(&plan).flatten());
        (plan, names, workers, moves)
    }
}
