//! The plan of a fleet that is looked at from outside: by the same reading of its records as the planner's, and the same function.

use super::{Snapshot, UnitOwner, UnitSnapshot, WorkerSnapshot};
use std::sync::Arc;
use tenure::HolderId;
use tenure::fleet::Status;
use tenure_core::fleet::{PlanInput, PlanOwner, PlanWorker};

impl Snapshot {
    /// Says of each unit who is to have it, and why it moves.
    pub(in crate::verbs::fleet) fn plan(&mut self) {
        for worker in &mut self.workers {
            worker.planned = 0;
        }
        // Those of another version go by plans of their own.
        let takes_part = |worker: &WorkerSnapshot| worker.is_alive() && worker.is_of_this_layout;
        let live: Vec<usize> = (self.workers.iter().enumerate())
            .filter(|(_, worker)| takes_part(worker))
            .map(|(at, _)| at)
            .collect();
        let workers = live.iter().filter_map(|at| self.workers.get(*at)).map(|worker| PlanWorker {
            holder: &worker.holder,
            about: &worker.about,
            has_joined: worker.is_young,
        });
        let mut input = PlanInput::new(workers);
        let owners = &self.owners;
        let is_open = |unit: &UnitSnapshot| unit.stated.spec.status == Status::Open;
        let planned: Vec<bool> = (self.units.iter())
            .map(|unit| {
                let owner = match owners.get(unit.owner as usize) {
                    Some(UnitOwner::Outsider(_) | UnitOwner::Behind(..)) => return false,
                    // One that has no place among the live is gone.
                    Some(UnitOwner::Worker(at)) => {
                        live.binary_search(at).map_or(PlanOwner::Gone, PlanOwner::Worker)
                    }
                    Some(UnitOwner::Dead(_)) => PlanOwner::Gone,
                    Some(UnitOwner::Nobody) | None => PlanOwner::Nobody,
                };
                if is_open(unit) {
                    input.add(&unit.name, &unit.stated.spec, owner);
                }
                is_open(unit)
            })
            .collect();
        let targets = input.plan();
        let why: Vec<_> = input.causes(&targets).collect();
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
