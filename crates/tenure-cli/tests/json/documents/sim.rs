//! Documents on the simulator.

use super::Any;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `sim`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sim {
    /// How many worlds were run.
    pub worlds: u64,
    /// How much time passed in them, in seconds.
    pub simulated_seconds: f64,
    /// How many things happened in them.
    pub events: u64,
    /// How many tenures began.
    pub tenures: u64,
    /// How many keys were taken over from the dead.
    pub takeovers: u64,
    /// How long they took, in ttls.
    pub takeover_ttls: Takeovers,
    /// How often each happened.
    pub faults: BTreeMap<String, u64>,
    /// How often each rare moment was reached.
    pub moments: BTreeMap<String, u64>,
    /// What resources that check fences did.
    pub resource: Resource,
    /// A digest: the same for the same seed.
    pub history: String,
    /// How long the run took, in seconds.
    pub real_seconds: f64,
    /// Null if every promise held.
    pub broken: Option<Broken>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Takeovers {
    /// The median, in ttls; null without a takeover.
    pub p50: Option<f64>,
    /// What 99 of 100 took at most, in ttls; null without a takeover.
    pub p99: Option<f64>,
    /// The longest, in ttls; null without a takeover.
    pub max: Option<f64>,
}

/// What a resource that checks fences did.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// Writes that it accepted.
    pub accepted: u64,
    /// Writes that it refused, as their fences were too low.
    pub refused: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Broken {
    /// The promise, as `sim --list` names it.
    pub promise: String,
    /// What broke it, in words.
    pub violation: String,
    /// The scenario of the world.
    pub scenario: String,
    /// The seed of the world.
    pub seed: u64,
    /// How many events lead to it, once the history was shortened.
    pub events: u64,
    /// The command that shows it again.
    pub replay: String,
    /// What happened last, as a list of lines.
    pub timeline: Any,
}

/// `sim --list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimList {
    /// The names for --scenario.
    pub scenarios: Vec<String>,
    /// The names for --without.
    pub faults: Vec<String>,
    /// The names for --only.
    pub promises: Vec<String>,
    /// The names for --bug, in builds with deliberate bugs.
    pub bugs: Vec<String>,
}
