//! The plan of a fleet that is looked at from outside: by the same function as the planner's, of the same records.

use super::{Snapshot, UnitOwner, UnitSnapshot, WorkerSnapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenure::HolderId;
use tenure::fleet::{About, Balance, Status};
use tenure_core::fleet::plan::{Load, Room, causes, plan};

impl Snapshot {
    /// Says of each unit who is to have it, and why it moves.
    pub(in crate::verbs::fleet) fn plan(&mut self) {
        for worker in &mut self.workers {
            worker.planned = 0;
        }
        // Those of another version go by plans of their own.
        let takes_part = |worker: &WorkerSnapshot| worker.is_alive() && worker.is_of_this_layout;
        let live: Vec<usize> = self
            .workers
            .iter()
            .enumerate()
            .filter(|(_, worker)| takes_part(worker))
            .map(|(at, _)| at)
            .collect();
        let rooms: Vec<Room> =
            live.iter().filter_map(|at| self.workers.get(*at)).map(|worker| room(&worker.about)).collect();
        let place = |at: usize| live.binary_search(&at).ok();
        let holders: BTreeMap<&HolderId, usize> = self
            .workers
            .iter()
            .enumerate()
            .filter_map(|(at, worker)| Some((&worker.holder, place(at)?)))
            .collect();
        let owners = &self.owners;
        let owner = |unit: &UnitSnapshot| owners.get(unit.owner as usize);
        let is_open = |unit: &UnitSnapshot| unit.stated.spec.status == Status::Open;
        let is_planned = |unit: &UnitSnapshot| {
            is_open(unit) && !matches!(owner(unit), Some(UnitOwner::Outsider(_) | UnitOwner::Behind(..)))
        };
        let decliners = self.decliners(&live);
        let loads: Vec<Load> = self
            .units
            .iter()
            .filter(|unit| is_planned(unit))
            .map(|unit| {
                let spec = &unit.stated.spec;
                Load {
                    weight: spec.weight,
                    needs: spec.needs.clone(),
                    owner: if let Some(UnitOwner::Worker(at)) = owner(unit) { place(*at) } else { None },
                    pin: spec.pin.as_ref().and_then(|pin| holders.get(pin)).copied(),
                    stays: spec.fails(),
                    settled: spec.retry.is_some(),
                    declined_by: decliners.get(&*unit.name).cloned().unwrap_or_default(),
                }
            })
            .collect();
        let balance = live.first().and_then(|at| self.workers.get(*at));
        let balance = balance.map_or(Balance::Count, |worker| worker.about.balance);
        let targets = plan(&loads, &rooms, balance);
        let planned: Vec<bool> = self.units.iter().map(is_planned).collect();
        let gone: Vec<bool> = self
            .units
            .iter()
            .filter(|unit| is_planned(unit))
            .map(|unit| matches!(owner(unit), Some(UnitOwner::Dead(_) | UnitOwner::Worker(_))))
            .collect();
        let has_joined = |at: usize| {
            live.get(at).and_then(|at| self.workers.get(*at)).is_some_and(|worker| worker.is_young)
        };
        // A worker that owns a unit and has no place among the live is gone.
        let why = causes(&loads, &rooms, &targets, |at| gone.get(at) == Some(&true), has_joined);
        let mut found = targets.into_iter().zip(why);
        for (unit, is_planned) in self.units.iter_mut().zip(planned) {
            (unit.target, unit.why) = (None, None);
            if is_planned {
                let Some((target, why)) = found.next() else { break };
                let target = target.map(|at| live.get(at).copied().unwrap_or_default());
                (unit.target, unit.why) = (Some(target), why);
                if let Ok(at) = target
                    && let Some(worker) = self.workers.get_mut(at)
                {
                    worker.planned += 1;
                }
            } else if let Some(UnitOwner::Behind(_, why)) = self.owners.get(unit.owner as usize)
                && is_open(unit)
            {
                unit.target = Some(Err(*why));
            }
        }
    }

    /// For each unit that some of these workers decline, which of them do.
    fn decliners(&self, live: &[usize]) -> BTreeMap<String, BTreeSet<usize>> {
        let mut decliners: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (at, worker) in live.iter().filter_map(|at| self.workers.get(*at)).enumerate() {
            for unit in &worker.about.declines {
                decliners.entry(unit.clone()).or_default().insert(at);
            }
        }
        decliners
    }

    /// Whether a worker would be given this unit if it were pinned to it.
    pub(crate) fn would_get(&mut self, worker: &HolderId, unit: &str) -> bool {
        let Some(at) = self.units.iter().position(|known| &*known.name == unit) else { return false };
        let before = self.units.get(at).map(|unit| Arc::clone(&unit.stated));
        if let Some(unit) = self.units.get_mut(at) {
            Arc::make_mut(&mut unit.stated).spec.pin = Some(worker.clone());
        }
        self.plan();
        let gets = self.units.get(at).and_then(|unit| self.target_of(unit)) == Some(Ok(worker));
        if let (Some(unit), Some(before)) = (self.units.get_mut(at), before) {
            unit.stated = before;
            self.plan();
        }
        gets
    }
}

fn room(about: &About) -> Room {
    let About { units, weight, labels, leaving, .. } = about.clone();
    Room { units, weight, labels, leaving }
}
