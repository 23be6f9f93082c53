//! Documents on the simulator.

use super::Any;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `sim`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sim {
    pub worlds: u64,
    pub simulated_seconds: f64,
    pub events: u64,
    pub tenures: u64,
    pub takeovers: u64,
    /// How long they took, in ttls.
    pub takeover_ttls: Takeovers,
    /// How often each happened.
    pub faults: BTreeMap<String, u64>,
    /// How often each rare moment was reached.
    pub moments: BTreeMap<String, u64>,
    pub resource: Resource,
    /// A digest: the same for the same seed.
    pub history: String,
    pub real_seconds: f64,
    /// Null if every promise held.
    pub broken: Option<Broken>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Takeovers {
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

/// What a resource that checks fences did.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    pub accepted: u64,
    pub refused: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Broken {
    pub promise: String,
    pub violation: String,
    pub scenario: String,
    pub seed: u64,
    pub events: u64,
    /// The command that shows it again.
    pub replay: String,
    pub timeline: Any,
}

/// `sim --list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimList {
    pub scenarios: Vec<String>,
    pub faults: Vec<String>,
    pub promises: Vec<String>,
    pub bugs: Vec<String>,
}
