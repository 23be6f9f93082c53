//! The plan that is made of a listing.

use super::Listing;
use crate::bugs::{Bug, Bugs};
use crate::fleet::names::FleetName;
use crate::fleet::plan::{self, Balance, Cause, Load, Loads, Plan, Room};
use crate::fleet::unit::Status;
use crate::fleet::worker::listed::Owner;
use crate::values::key::{HolderId, Key};
use std::collections::{BTreeMap, BTreeSet};

impl Listing {
    /// The plan, with the places of its units, and the workers that its numbers stand for, and how many units move for each cause.
    pub(super) fn plan(
        &self,
        fleet: &FleetName,
        bugs: Bugs,
    ) -> (Plan, Vec<u32>, Vec<Key>, BTreeMap<Cause, usize>) {
        let workers: Vec<Key> = self.peers.keys().cloned().collect();
        let rooms: Vec<Room> = self.peers.values().map(|peer| peer.about.room()).collect();
        let index: BTreeMap<&Key, usize> = workers.iter().enumerate().map(|(at, key)| (key, at)).collect();
        let holders: BTreeMap<&HolderId, usize> =
            self.peers.values().enumerate().map(|(at, peer)| (&peer.holder, at)).collect();
        let mut decliners: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (at, peer) in self.peers.values().enumerate() {
            for unit in &peer.about.declines {
                decliners.entry(unit).or_default().insert(at);
            }
        }
        let open = (0..).zip(self.units.iter()).map(|(at, (key, unit))| (at, key, unit));
        let open = open.filter(|(_, _, unit)| unit.spec.status == Status::Open);
        let open = open.filter(|(_, _, unit)| !matches!(unit.owner, Owner::Outsider | Owner::Behind(_)));
        let (mut names, mut loads) = (Vec::new(), Loads::default());
        for (at, key, unit) in open {
            let owner = match &unit.owner {
                Owner::Worker(session) => index.get(session).copied(),
                _ => None,
            };
            let pin = unit.spec.pin.as_ref().filter(|_| !bugs.has(Bug::PinIgnored));
            let pin = pin.and_then(|pin| holders.get(pin)).copied();
            let weight = if bugs.has(Bug::WeightIgnored) { 1 } else { unit.spec.weight };
            let needs = unit.spec.needs.clone();
            let declined_by = fleet.unit_of(key).and_then(|unit| decliners.get(unit)).cloned();
            let declined_by = declined_by.unwrap_or_default();
            let (stays, settled) = (unit.spec.fails(), unit.spec.retry.is_some());
            names.push(at);
            loads.add(&Load { weight, needs, owner, pin, stays, settled, declined_by });
        }
        let balance = self.peers.values().next().map_or(Balance::Count, |first| first.about.balance);
        let plan = loads.plan(&rooms, balance);
        let is_gone =
            |at: usize| match names.get(at).and_then(|at| self.units.at(*at)).map(|(_, unit)| &unit.owner) {
                Some(Owner::Nobody(seen)) => seen.tenure().is_some(),
                Some(Owner::Missing(_) | Owner::LongMissing(_)) => true,
                _ => false,
            };
        let has_joined = |at: usize| workers.get(at).is_some_and(|worker| self.young.contains(worker));
        let causes = loads.causes(&rooms, &plan, is_gone, has_joined);
        let moves = plan::count(causes.flatten());
        (plan, names, workers, moves)
    }
}
