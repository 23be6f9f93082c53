//! Documents on fleets.

use super::Fields;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `fleet ls`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fleets {
    /// The store, without secrets.
    pub store: String,
    /// The fleets, in the order of their names.
    pub fleets: Vec<Fleet>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// The name of the fleet.
    pub fleet: String,
    /// Those that live.
    pub workers: u64,
    /// How many units it has, without those that were removed.
    pub units: u64,
    /// Units by stage, as are moving, waiting, uncovered, done and outside.
    pub held: u64,
    /// Units that one live worker has, and that are to go to another.
    pub moving: u64,
    /// Units that no live worker has, and that one is to have.
    pub waiting: u64,
    /// Units that no worker may have.
    pub uncovered: u64,
    /// Units that are done.
    pub done: u64,
    /// Units that are held from outside the fleet.
    pub outside: u64,
    /// Units that were removed, whose records stay for their fences.
    pub removed: u64,
    /// Records of the fleet that can't be read.
    pub damaged: u64,
    /// Those of them that a newer version seems to have written: they are not damaged then, and not to be removed.
    pub newer: u64,
    /// The worker that plans; null if none does.
    pub planner: Option<String>,
    /// The workers that are to take its place.
    pub standbys: Vec<String>,
    /// The number of the last plan that it told.
    pub plan: Option<u64>,
    /// When that was, by the planner's clock, and how long ago.
    pub plan_told: Option<String>,
    /// How long ago that was; null as plan_told.
    pub plan_age_ms: Option<u64>,
    /// When a plan was told, or something happened that wants one, whichever was last.
    pub changed: Option<String>,
    /// How many units go elsewhere, by the cause: vacant (nobody holds it), gone (its worker is), leave, pin, labels, declined, full, join or
    /// evenness.
    pub moves: BTreeMap<String, u64>,
}

/// `fleet units`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// The name of the fleet.
    pub fleet: String,
    /// The units, in the order of their names.
    pub units: Vec<Unit>,
    /// Records of the fleet that can't be read.
    pub damaged: Vec<Damaged>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// The name of the unit.
    pub unit: String,
    /// held, moving, waiting, uncovered (no worker may have it), done or outside.
    pub stage: String,
    /// The fence of its present or last tenure.
    pub fence: u64,
    /// The id of who has it by its record, dead or alive; null if nobody has.
    pub owner: Option<String>,
    /// Since when, by that one's clock; null as the owner.
    pub since: Option<String>,
    /// Who is to have it.
    pub planned_for: Option<String>,
    /// Why it goes there, if it is not there yet, as in `moves` of `fleet ls`.
    pub why: Option<String>,
    /// Why nobody is.
    pub uncovered: Option<String>,
    /// Its weight; 1 unless it was given another.
    pub weight: u64,
    /// Labels that its worker must have.
    pub needs: Vec<String>,
    /// The worker that it is pinned to; null if it is not.
    pub pin: Option<String>,
    /// What its record carries besides.
    pub fields: Fields,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Damaged {
    /// The key of the record.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
    /// Whether a newer version seems to have written it: it is not damaged then, and not to be removed.
    pub newer: bool,
}

/// `fleet workers`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workers {
    /// The name of the fleet.
    pub fleet: String,
    /// As in `fleet ls`, as are the others of the planning.
    pub planner: Option<String>,
    /// As in `fleet ls`.
    pub standbys: Vec<String>,
    /// As in `fleet ls`.
    pub plan: Option<u64>,
    /// As in `fleet ls`.
    pub plan_told: Option<String>,
    /// As in `fleet ls`.
    pub plan_age_ms: Option<u64>,
    /// As in `fleet ls`.
    pub changed: Option<String>,
    /// What moves.
    pub moves: Vec<Move>,
    /// The workers, in the order of their names; also dead ones that still have units or were not noticed.
    pub workers: Vec<Worker>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The worker that has the units, dead or alive; null if nobody has.
    pub from: Option<String>,
    /// The worker that is to have them.
    pub to: String,
    /// As in `moves` of `fleet ls`.
    pub why: String,
    /// How many.
    pub units: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// The id of the worker.
    pub worker: String,
    /// live, leaving, silent or "other version" (it divides units in another way).
    pub state: String,
    /// Whether it is the one that plans for all.
    pub plans: bool,
    /// Whether it is to take the planner's place.
    pub stands_by: bool,
    /// How many units it has.
    pub held: u64,
    /// How many it is to have.
    pub planned: u64,
    /// How long ago it last renewed its session.
    pub renewed_ms_ago: u64,
    /// How long it may be silent before others take its units.
    pub ttl_ms: u64,
    /// Null for any number.
    pub most_units: Option<u64>,
    /// The most weight that it takes; null for any.
    pub most_weight: Option<u64>,
    /// What it offers to units that need it.
    pub labels: Vec<String>,
    /// What it tells of itself, such as host and pid.
    pub fields: Fields,
}

/// `fleet rm --all`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetForgotten {
    /// The name of the fleet.
    pub fleet: String,
    /// Whether nothing was to be removed.
    pub dry_run: bool,
    /// The keys of the records that were to go as the removal began, or would: units, parts of plans, the board and sessions. Not all did where `left` is not 0.
    pub removable: Vec<String>,
    /// How many records went.
    pub removed: u64,
    /// How many stayed, or would: held from outside the fleet, changed by somebody meanwhile, not to be read here, or needed by such units.
    pub left: u64,
    /// Units whose status this version does not know. They go, unless somebody holds them from outside the fleet.
    pub unknown: u64,
    /// Records of the fleet that are damaged.
    pub damaged: u64,
    /// Records of the fleet that a newer version has written: they are not damaged.
    pub newer: u64,
}
