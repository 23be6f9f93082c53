//! A fleet as it looks from outside, by its records: who owns what, and who is to.

mod plan;
pub(super) mod planning;

use crate::output::json::fields;
use crate::output::problem::RecordProblem;
use planning::BoardView;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tenure::fleet::{About, Cause, FleetName, Uncovered, UnitSpec};
use tenure::store::Stored;
use tenure::{Fence, HolderId, Key, Metadata, Wall};
use tenure_core::fleet::{is_of_this_layout, plan::JOINING};
use tenure_core::time::millis;

/// A fleet.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) name: FleetName,
    /// By name; not those that were removed.
    pub(crate) units: Vec<UnitSnapshot>,
    /// By name; also those that died and still have units, or have not been noticed.
    pub(crate) workers: Vec<WorkerSnapshot>,
    /// What the board says, if there is one.
    pub(crate) board: Option<BoardView>,
    /// Units that were removed, whose records are still there.
    pub(crate) removed: usize,
    /// Records that can't be read, with the reason; also those that a newer version has written.
    pub(crate) damaged: Vec<(Key, RecordProblem)>,
    /// Those of them that are records, but none of a unit.
    pub(crate) unreadable: Vec<(Key, RecordProblem)>,
    /// Who has units by their records; nobody is the first one.
    pub(super) owners: Vec<UnitOwner>,
    /// How many records there are, of any kind.
    pub(super) records: usize,
    /// When it was taken.
    pub(super) now: Wall,
}

/// A unit.
#[derive(Debug)]
pub(crate) struct UnitSnapshot {
    pub(crate) name: Box<str>,
    /// Units that state the same share it.
    pub(crate) stated: Arc<Stated>,
    pub(crate) fence: Fence,
    /// Its owner's place among the owners.
    pub(super) owner: u32,
    pub(crate) since: Option<Wall>,
    /// The index of the worker that is to have it; none if it is done.
    pub(crate) target: Option<Result<usize, Uncovered>>,
    /// Why it goes there, if it is not there yet.
    pub(crate) why: Option<Cause>,
}

/// What a unit's record states, beside who has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stated {
    pub(crate) spec: UnitSpec,
    pub(crate) fields: Metadata,
}

/// Who has a unit, by its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnitOwner {
    Nobody,
    /// The worker with this index.
    Worker(usize),
    /// One that has died, and has not been replaced yet.
    Dead(HolderId),
    /// Something outside the fleet, such as a person who holds it by hand.
    Outsider(HolderId),
    /// One whose session can't be read, or is no worker's of this version: nobody else can have the unit before that is mended.
    Behind(HolderId, Uncovered),
}

/// How it is with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnitStage {
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

impl UnitStage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            UnitStage::Held => "held",
            UnitStage::Moving => "moving",
            UnitStage::Waiting => "waiting",
            UnitStage::Uncovered => "uncovered",
            UnitStage::Done => "done",
            UnitStage::Outside => "outside",
        }
    }
}

/// A worker.
#[derive(Debug)]
pub(crate) struct WorkerSnapshot {
    pub(crate) holder: HolderId,
    pub(super) session: Key,
    pub(super) session_fence: Fence,
    pub(crate) about: About,
    pub(crate) fields: Metadata,
    /// How long ago it last renewed.
    pub(crate) age: Duration,
    pub(crate) ttl: Duration,
    /// How many units it has.
    pub(crate) held: usize,
    /// How many it is to have.
    pub(crate) planned: usize,
    /// Whether it divides units as this version does.
    pub(crate) is_of_this_layout: bool,
    /// Whether it has joined lately.
    pub(super) is_young: bool,
}

impl WorkerSnapshot {
    pub(crate) fn is_alive(&self) -> bool {
        self.age < self.ttl
    }

    pub(crate) fn state(&self) -> &'static str {
        match (self.is_alive(), self.about.leaving) {
            (false, _) => "silent",
            _ if !self.is_of_this_layout => "other version",
            (true, true) => "leaving",
            (true, false) => "live",
        }
    }

    pub(super) fn of(session: Key, stored: &Stored, now: Wall) -> Option<WorkerSnapshot> {
        let tenure = stored.record.tenure.as_ref()?;
        let about = About::parse(&stored.record.metadata)?;
        let mut fields = stored.record.metadata.clone();
        fields.remove(tenure_core::RESERVED);
        Some(WorkerSnapshot {
            holder: tenure.holder.clone(),
            session,
            session_fence: stored.record.fence,
            about,
            fields,
            age: silence(stored, now),
            ttl: tenure.ttl.duration(),
            held: 0,
            planned: 0,
            is_of_this_layout: is_of_this_layout(&stored.record.metadata),
            is_young: now.since(tenure.since) < tenure.ttl.duration() * JOINING,
        })
    }
}

/// How long nothing was heard of a session.
pub(super) fn silence(session: &Stored, now: Wall) -> Duration {
    session.age().unwrap_or_else(|| now.since(session.record.stamp))
}

impl Snapshot {
    /// What is wrong with a unit's record, if that can't be read.
    pub(crate) fn damage_of(&self, unit: &str) -> Option<&RecordProblem> {
        let key = self.name.unit(unit).ok()?;
        self.damaged.iter().find(|(damaged, _)| *damaged == key).map(|(_, problem)| problem)
    }

    /// How many of the records that can't be read a newer version has written, as it seems.
    pub(crate) fn newer(&self) -> usize {
        self.damaged.iter().filter(|(_, problem)| problem.is_newer()).count()
    }

    /// Of a fleet that nothing is known of.
    pub(super) fn empty(name: FleetName) -> Snapshot {
        Snapshot {
            name,
            units: Vec::new(),
            workers: Vec::new(),
            board: None,
            removed: 0,
            damaged: Vec::new(),
            unreadable: Vec::new(),
            owners: Vec::new(),
            records: 0,
            now: Wall(0),
        }
    }

    /// Counts the units that each worker has.
    pub(super) fn count_held(&mut self) {
        for unit in &self.units {
            let worker = match self.owners.get(unit.owner as usize) {
                Some(UnitOwner::Worker(at)) => self.workers.get_mut(*at),
                Some(UnitOwner::Behind(holder, _)) => {
                    self.workers.iter_mut().find(|worker| worker.holder == *holder)
                }
                _ => None,
            };
            if let Some(worker) = worker {
                worker.held += 1;
            }
        }
    }

    /// Whether there is nothing at all of that name.
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Who has a unit, by its record.
    pub(crate) fn owner(&self, unit: &UnitSnapshot) -> &UnitOwner {
        self.owners.get(unit.owner as usize).unwrap_or(&UnitOwner::Nobody)
    }

    pub(crate) fn stage(&self, unit: &UnitSnapshot) -> UnitStage {
        let is_held = |at: usize| self.workers.get(at).is_some_and(WorkerSnapshot::is_alive);
        match (self.owner(unit), unit.target) {
            (UnitOwner::Outsider(_), _) => UnitStage::Outside,
            (_, None) => UnitStage::Done,
            (UnitOwner::Worker(at), Some(Ok(target))) if is_held(*at) && *at == target => UnitStage::Held,
            (UnitOwner::Worker(at), Some(Ok(_))) if is_held(*at) => UnitStage::Moving,
            (_, Some(Err(_))) => UnitStage::Uncovered,
            (_, Some(Ok(_))) => UnitStage::Waiting,
        }
    }

    pub(crate) fn count(&self, stage: UnitStage) -> usize {
        self.units.iter().filter(|unit| self.stage(unit) == stage).count()
    }

    pub(crate) fn alive(&self) -> usize {
        self.workers.iter().filter(|worker| worker.is_alive()).count()
    }

    /// Who has a unit, by name.
    pub(crate) fn owner_of(&self, unit: &UnitSnapshot) -> Option<&HolderId> {
        match self.owner(unit) {
            UnitOwner::Nobody => None,
            UnitOwner::Worker(at) => self.workers.get(*at).map(|worker| &worker.holder),
            UnitOwner::Dead(holder) | UnitOwner::Outsider(holder) | UnitOwner::Behind(holder, _) => {
                Some(holder)
            }
        }
    }

    /// Whether who has a unit by its record is dead.
    pub(crate) fn is_owner_dead(&self, unit: &UnitSnapshot) -> bool {
        match self.owner(unit) {
            UnitOwner::Nobody | UnitOwner::Outsider(_) | UnitOwner::Behind(..) => false,
            UnitOwner::Worker(at) => !self.workers.get(*at).is_some_and(WorkerSnapshot::is_alive),
            UnitOwner::Dead(_) => true,
        }
    }

    /// Who is to have a unit, or why nobody can.
    pub(crate) fn target_of(&self, unit: &UnitSnapshot) -> Option<Result<&HolderId, Uncovered>> {
        match unit.target? {
            Ok(at) => self.workers.get(at).map(|worker| Ok(&worker.holder)),
            Err(why) => Some(Err(why)),
        }
    }

    pub(crate) fn unit_json(&self, unit: &UnitSnapshot) -> Json {
        let target = self.target_of(unit);
        json!({
            "unit": unit.name,
            "stage": self.stage(unit).name(),
            "fence": unit.fence.0,
            "owner": self.owner_of(unit).map(HolderId::as_str),
            "since": unit.since.map(crate::text::date),
            "planned_for": target.and_then(Result::ok).map(HolderId::as_str),
            "why": unit.why.map(Cause::name),
            "uncovered": target.and_then(Result::err).map(|why| why.to_string()),
            "weight": unit.stated.spec.weight,
            "needs": unit.stated.spec.needs,
            "pin": unit.stated.spec.pin.as_ref().map(HolderId::as_str),
            "fields": fields(&unit.stated.fields),
        })
    }

    pub(crate) fn worker_json(&self, worker: &WorkerSnapshot) -> Json {
        let most = |n: u64| Some(n).filter(|n| *n != u64::MAX);
        json!({
            "worker": worker.holder.as_str(),
            "state": worker.state(),
            "plans": self.is_planner(worker),
            "stands_by": self.stands_by(worker),
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

/// Labels, for people.
pub(crate) fn labels(labels: &BTreeSet<String>) -> String {
    if labels.is_empty() {
        return "-".to_owned();
    }
    crate::text::escaped(&labels.iter().map(String::as_str).collect::<Vec<_>>().join(","))
}
