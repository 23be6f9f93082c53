//! A fleet as it looks from outside, from one listing of its records: who owns what, and who is to.

use crate::keys::{Part, part_of};
use crate::output::view::{fields, millis};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure::fleet::{About, Balance, FleetName, Status, Uncovered, UnitSpec};
use tenure::{Attachment, Fence, HolderId, Key, Listed, Metadata, Stored, Wall};
use tenure_core::fleet::plan::{Load, Room, plan};
use tenure_core::fleet::{planner, told_plan};

/// A fleet.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) name: FleetName,
    /// By name; not those that were removed.
    pub(crate) units: Vec<Unit>,
    /// By name; also those that died and still have units, or have not been noticed.
    pub(crate) workers: Vec<Worker>,
    /// What the board says, if there is one.
    pub(crate) board: Option<Board>,
    /// Units that were removed, whose records are still there.
    pub(crate) removed: usize,
    /// Records that can't be read, with the reason.
    pub(crate) damaged: Vec<(Key, String)>,
    /// Those of them that are records, but none of a unit.
    pub(crate) unreadable: Vec<(Key, String)>,
    records: usize,
}

/// Who plans.
#[derive(Debug)]
pub(crate) struct Board {
    /// The index of the planner; none if there is none, or it is dead.
    pub(crate) planner: Option<usize>,
    /// The number of the last plan that it told.
    pub(crate) plan: Option<u64>,
    /// When something changed that wants a plan, or the plan was told, whichever was last.
    pub(crate) changed: Wall,
}

/// A unit.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) name: String,
    pub(crate) spec: UnitSpec,
    pub(crate) fields: Metadata,
    pub(crate) fence: Fence,
    pub(crate) owner: Owner,
    pub(crate) since: Option<Wall>,
    /// The index of the worker that is to have it; none if it is done.
    pub(crate) target: Option<Result<usize, Uncovered>>,
}

/// Who has a unit, by its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    /// The worker with this index.
    Worker(usize),
    /// One that has died, and has not been replaced yet.
    Dead(HolderId),
    /// Something outside the fleet, such as a person who holds it by hand.
    Outsider(HolderId),
}

/// How it is with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Held,
    /// It is held by one, and to go to another.
    Moving,
    /// It is held by nobody who lives, and waits for its worker.
    Waiting,
    /// There is no worker that can have it.
    Uncovered,
    Done,
    /// Held from outside the fleet.
    Outside,
}

impl Stage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::Held => "held",
            Stage::Moving => "moving",
            Stage::Waiting => "waiting",
            Stage::Uncovered => "uncovered",
            Stage::Done => "done",
            Stage::Outside => "outside",
        }
    }
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) holder: HolderId,
    session: Key,
    session_fence: Fence,
    pub(crate) about: About,
    pub(crate) fields: Metadata,
    /// How long ago it last renewed.
    pub(crate) age: Duration,
    pub(crate) ttl: Duration,
    /// How many units it has.
    pub(crate) held: usize,
    /// How many it is to have.
    pub(crate) planned: usize,
}

impl Worker {
    pub(crate) fn is_alive(&self) -> bool {
        self.age < self.ttl
    }

    pub(crate) fn state(&self) -> &'static str {
        match (self.is_alive(), self.about.leaving) {
            (false, _) => "silent",
            (true, true) => "leaving",
            (true, false) => "live",
        }
    }

    fn of(session: Key, stored: &Stored, now: Wall) -> Option<Worker> {
        let tenure = stored.record.tenure.as_ref()?;
        let about = About::parse(&stored.record.metadata)?;
        let mut fields = stored.record.metadata.clone();
        fields.remove(tenure_core::RESERVED);
        Some(Worker {
            holder: tenure.holder.clone(),
            session,
            session_fence: stored.record.fence,
            about,
            fields,
            age: stored.age().unwrap_or_else(|| now.since(stored.record.stamp)),
            ttl: tenure.ttl.duration(),
            held: 0,
            planned: 0,
        })
    }
}

impl Snapshot {
    /// Takes a listing of all of the fleet's records.
    pub(crate) fn of(name: FleetName, listing: Vec<Listed>, now: Wall) -> Snapshot {
        let records = listing.len();
        let (damaged, unreadable) = (Vec::new(), Vec::new());
        let mut board = None;
        let (mut snapshot, mut units) = (
            Snapshot {
                name,
                units: Vec::new(),
                workers: Vec::new(),
                board: None,
                removed: 0,
                damaged,
                unreadable,
                records,
            },
            Vec::new(),
        );
        for Listed { key, stored } in listing {
            let stored = match stored {
                Ok(stored) => stored,
                Err(error) => {
                    snapshot.damaged.push((key, error.to_string()));
                    continue;
                }
            };
            match part_of(&key).map(|(_, part)| part) {
                Some(Part::Worker) => snapshot.workers.extend(Worker::of(key, &stored, now)),
                Some(Part::Board) => board = Some(stored.record),
                Some(Part::Unit(unit)) => units.push((unit.to_owned(), key.clone(), stored)),
                _ => {}
            }
        }
        let sessions: BTreeMap<Key, usize> =
            snapshot.workers.iter().enumerate().map(|(at, worker)| (worker.session.clone(), at)).collect();
        let is_alive = |at: &usize| snapshot.workers.get(*at).is_some_and(Worker::is_alive);
        let live = |named| snapshot.worker_of(&sessions, &named).filter(is_alive);
        snapshot.board = board.map(|board| Board {
            planner: planner(&board).and_then(live),
            plan: told_plan(&board),
            changed: board.stamp,
        });
        for (unit, key, stored) in units {
            snapshot.add_unit(&sessions, unit, key, stored);
        }
        snapshot.plan();
        snapshot
    }

    fn add_unit(&mut self, sessions: &BTreeMap<Key, usize>, name: String, key: Key, stored: Stored) {
        let (spec, fields) = match UnitSpec::parse(stored.record.metadata) {
            Ok((spec, _)) if spec.status == Status::Deleted => {
                self.removed += 1;
                return;
            }
            Ok(parsed) => parsed,
            Err(error) => {
                self.unreadable.push((key.clone(), error.to_string()));
                return self.damaged.push((key, error.to_string()));
            }
        };
        let fence = stored.record.fence;
        let tenure = stored.record.tenure;
        let since = tenure.as_ref().map(|tenure| tenure.since);
        let owner = match tenure {
            None => Owner::Nobody,
            Some(tenure) => match &tenure.attachment {
                None => Owner::Outsider(tenure.holder),
                Some(attachment) => match self.worker_of(sessions, attachment) {
                    Some(at) => Owner::Worker(at),
                    None => Owner::Dead(tenure.holder),
                },
            },
        };
        if let Owner::Worker(at) = owner
            && let Some(worker) = self.workers.get_mut(at)
        {
            worker.held += 1;
        }
        self.units.push(Unit { name, spec, fields, fence, owner, since, target: None });
    }

    fn worker_of(&self, sessions: &BTreeMap<Key, usize>, attachment: &Attachment) -> Option<usize> {
        let at = sessions.get(&attachment.session).copied()?;
        self.workers.get(at).filter(|worker| worker.session_fence == attachment.fence).map(|_| at)
    }

    /// Plans as the planner does, by the same function of the same records.
    fn plan(&mut self) {
        for worker in &mut self.workers {
            worker.planned = 0;
        }
        let live: Vec<usize> = self
            .workers
            .iter()
            .enumerate()
            .filter(|(_, worker)| worker.is_alive())
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
        let is_planned =
            |unit: &Unit| unit.spec.status == Status::Open && !matches!(unit.owner, Owner::Outsider(_));
        let declined_by = |name: &str| {
            let about = live.iter().filter_map(|at| self.workers.get(*at)).map(|worker| &worker.about);
            about.enumerate().filter(|(_, about)| about.declines.contains(name)).map(|(at, _)| at).collect()
        };
        let loads: Vec<Load> = self
            .units
            .iter()
            .filter(|unit| is_planned(unit))
            .map(|unit| Load {
                weight: unit.spec.weight,
                needs: unit.spec.needs.clone(),
                owner: if let Owner::Worker(at) = unit.owner { place(at) } else { None },
                pin: unit.spec.pin.as_ref().and_then(|pin| holders.get(pin)).copied(),
                stays: unit.spec.fails(),
                settled: unit.spec.retry.is_some(),
                declined_by: declined_by(&unit.name),
            })
            .collect();
        let balance = live.first().and_then(|at| self.workers.get(*at));
        let balance = balance.map_or(Balance::Count, |worker| worker.about.balance);
        let targets = plan(&loads, &rooms, balance);
        for (unit, target) in self.units.iter_mut().filter(|unit| is_planned(unit)).zip(targets) {
            let target = target.map(|at| live.get(at).copied().unwrap_or_default());
            unit.target = Some(target);
            if let Ok(at) = target
                && let Some(worker) = self.workers.get_mut(at)
            {
                worker.planned += 1;
            }
        }
    }

    /// Whether a worker would be given this unit if it were pinned to it.
    pub(crate) fn would_get(&mut self, worker: &HolderId, unit: &str) -> bool {
        let Some(at) = self.units.iter().position(|known| known.name == unit) else { return false };
        let pin = Some(worker.clone());
        let before = self.units.get_mut(at).map(|unit| std::mem::replace(&mut unit.spec.pin, pin));
        self.plan();
        let gets = self.units.get(at).and_then(|unit| self.target_of(unit)) == Some(Ok(worker));
        if let (Some(unit), Some(before)) = (self.units.get_mut(at), before) {
            unit.spec.pin = before;
            self.plan();
        }
        gets
    }

    /// Whether there is nothing at all of that name.
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(crate) fn stage(&self, unit: &Unit) -> Stage {
        let is_held = |at: usize| self.workers.get(at).is_some_and(Worker::is_alive);
        match (&unit.owner, unit.target) {
            (Owner::Outsider(_), _) => Stage::Outside,
            (_, None) => Stage::Done,
            (Owner::Worker(at), Some(Ok(target))) if is_held(*at) && *at == target => Stage::Held,
            (Owner::Worker(at), Some(Ok(_))) if is_held(*at) => Stage::Moving,
            (_, Some(Err(_))) => Stage::Uncovered,
            (_, Some(Ok(_))) => Stage::Waiting,
        }
    }

    pub(crate) fn count(&self, stage: Stage) -> usize {
        self.units.iter().filter(|unit| self.stage(unit) == stage).count()
    }

    pub(crate) fn alive(&self) -> usize {
        self.workers.iter().filter(|worker| worker.is_alive()).count()
    }

    /// The worker that plans.
    pub(crate) fn planner(&self) -> Option<&Worker> {
        self.workers.get(self.board.as_ref()?.planner?)
    }

    pub(crate) fn is_planner(&self, worker: &Worker) -> bool {
        self.planner().is_some_and(|planner| planner.holder == worker.holder)
    }

    /// Who has a unit, by name.
    pub(crate) fn owner_of<'a>(&'a self, unit: &'a Unit) -> Option<&'a HolderId> {
        match &unit.owner {
            Owner::Nobody => None,
            Owner::Worker(at) => self.workers.get(*at).map(|worker| &worker.holder),
            Owner::Dead(holder) | Owner::Outsider(holder) => Some(holder),
        }
    }

    /// Whether who has a unit by its record is dead.
    pub(crate) fn is_owner_dead(&self, unit: &Unit) -> bool {
        match &unit.owner {
            Owner::Nobody | Owner::Outsider(_) => false,
            Owner::Worker(at) => !self.workers.get(*at).is_some_and(Worker::is_alive),
            Owner::Dead(_) => true,
        }
    }

    /// Who is to have a unit, or why nobody can.
    pub(crate) fn target_of(&self, unit: &Unit) -> Option<Result<&HolderId, Uncovered>> {
        match unit.target? {
            Ok(at) => self.workers.get(at).map(|worker| Ok(&worker.holder)),
            Err(why) => Some(Err(why)),
        }
    }

    pub(crate) fn unit_json(&self, unit: &Unit) -> Json {
        let target = self.target_of(unit);
        json!({
            "unit": unit.name,
            "stage": self.stage(unit).name(),
            "fence": unit.fence.0,
            "owner": self.owner_of(unit).map(HolderId::as_str),
            "since": unit.since.map(crate::text::date),
            "planned_for": target.and_then(Result::ok).map(HolderId::as_str),
            "uncovered": target.and_then(Result::err).map(|why| why.to_string()),
            "weight": unit.spec.weight,
            "needs": unit.spec.needs,
            "pin": unit.spec.pin.as_ref().map(HolderId::as_str),
            "fields": fields(&unit.fields),
        })
    }

    pub(crate) fn worker_json(&self, worker: &Worker) -> Json {
        let most = |n: u64| Some(n).filter(|n| *n != u64::MAX);
        json!({
            "worker": worker.holder.as_str(),
            "state": worker.state(),
            "plans": self.is_planner(worker),
            "held": worker.held,
            "planned": worker.planned,
            "renewed_ms_ago": millis(worker.age),
            "ttl_ms": millis(worker.ttl),
            "most_units": most(worker.about.units),
            "most_weight": most(worker.about.weight),
            "labels": worker.about.labels,
            "fields": fields(&worker.fields),
        })
    }
}

fn room(about: &About) -> Room {
    let About { units, weight, labels, leaving, .. } = about.clone();
    Room { units, weight, labels, leaving }
}

/// Labels, for people.
pub(crate) fn labels(labels: &BTreeSet<String>) -> String {
    if labels.is_empty() {
        return "-".to_owned();
    }
    crate::text::escaped(&labels.iter().map(String::as_str).collect::<Vec<_>>().join(","))
}
