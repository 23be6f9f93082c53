//! Documents on fleets.

use super::Fields;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `fleet ls`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fleets {
    pub store: String,
    pub fleets: Vec<Fleet>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    pub fleet: String,
    /// Those that live.
    pub workers: u64,
    pub units: u64,
    /// Units by stage, as are moving, waiting, uncovered, done and outside.
    pub held: u64,
    pub moving: u64,
    pub waiting: u64,
    pub uncovered: u64,
    pub done: u64,
    pub outside: u64,
    /// Units that were removed, whose records stay for their fences.
    pub removed: u64,
    pub damaged: u64,
    /// The worker that plans; null if none does.
    pub planner: Option<String>,
    /// The workers that are to take its place.
    pub standbys: Vec<String>,
    /// The number of the last plan that it told.
    pub plan: Option<u64>,
    /// When that was, by the planner's clock, and how long ago.
    pub plan_told: Option<String>,
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
    pub fleet: String,
    pub units: Vec<Unit>,
    pub damaged: Vec<Damaged>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    pub unit: String,
    /// held, moving, waiting, uncovered (no worker may have it), done or outside.
    pub stage: String,
    pub fence: u64,
    pub owner: Option<String>,
    pub since: Option<String>,
    /// Who is to have it.
    pub planned_for: Option<String>,
    /// Why it goes there, if it is not there yet, as in `moves` of `fleet ls`.
    pub why: Option<String>,
    /// Why nobody is.
    pub uncovered: Option<String>,
    pub weight: u64,
    /// Labels that its worker must have.
    pub needs: Vec<String>,
    pub pin: Option<String>,
    /// What its record carries besides.
    pub fields: Fields,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Damaged {
    pub key: String,
    pub problem: String,
}

/// `fleet workers`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workers {
    pub fleet: String,
    /// As in `fleet ls`, as are the others of the planning.
    pub planner: Option<String>,
    pub standbys: Vec<String>,
    pub plan: Option<u64>,
    pub plan_told: Option<String>,
    pub plan_age_ms: Option<u64>,
    pub changed: Option<String>,
    /// What moves.
    pub moves: Vec<Move>,
    pub workers: Vec<Worker>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The worker that has the units, dead or alive; null if nobody has.
    pub from: Option<String>,
    pub to: String,
    /// As in `moves` of `fleet ls`.
    pub why: String,
    /// How many.
    pub units: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worker {
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
    pub renewed_ms_ago: u64,
    pub ttl_ms: u64,
    /// Null for any number.
    pub most_units: Option<u64>,
    pub most_weight: Option<u64>,
    pub labels: Vec<String>,
    /// What it tells of itself, such as host and pid.
    pub fields: Fields,
}
