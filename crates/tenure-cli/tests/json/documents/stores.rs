//! Documents on a store and its settings.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `gc`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gc {
    pub dry_run: bool,
    /// The keys of what may go.
    pub removable: Vec<String>,
    pub removed: u64,
    /// Sessions of dead processes that were ended.
    pub sessions_ended: u64,
    /// Leases of dead processes that were given up.
    pub leases_vacated: u64,
    /// Whose fences are ahead of a clock.
    pub kept_for_fences: u64,
    /// They say what ran at ticks with which some host may still come.
    pub kept_for_ticks: u64,
    pub kept_for_unfinished_jobs: u64,
    pub kept_sections: u64,
    pub kept_semaphores: u64,
    pub kept_sweeps: u64,
    pub kept_for_fleets: u64,
    /// Left as they are.
    pub damaged: u64,
}

/// `doctor`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Doctor {
    pub store: String,
    pub checks: Vec<Check>,
    /// What the store can do, by name.
    pub capabilities: BTreeMap<String, String>,
    /// What holds nowhere, or not here.
    pub not_promised: Vec<String>,
}

/// How grave it is: `warn` is a hazard, and `fail` a check that failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    Ok,
    Note,
    Warn,
    Fail,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The same words as without --json.
    pub grade: Grade,
    pub check: String,
    pub detail: String,
}

/// `config`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub store: Chosen,
    /// Those that configuration files name.
    pub stores: Vec<NamedStore>,
    /// Of options; the first for an option counts.
    pub defaults: Vec<OptionDefault>,
    /// Those that were looked for.
    pub files: Vec<File>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    pub url: String,
    /// Which option, variable, file or default it comes from.
    pub from: String,
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub namespace_from: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedStore {
    pub name: String,
    pub url: String,
    pub namespace: Option<String>,
    pub file: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionDefault {
    /// Null for all verbs.
    pub verb: Option<String>,
    pub option: String,
    pub value: String,
    pub file: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub path: String,
    pub is_there: bool,
}

/// `bench`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bench {
    pub store: String,
    pub tasks: u64,
    pub seconds: f64,
    /// Calls that leases made, for each bare write.
    pub share_of_bare: f64,
    pub acquire: Calls,
    pub renew: Calls,
    pub release: Calls,
    pub bare_write: Calls,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    pub count: u64,
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}
