//! Documents on a store and its settings.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `gc`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gc {
    /// Whether nothing was done, as --dry-run asks.
    pub dry_run: bool,
    /// The keys of what may go.
    pub removable: Vec<String>,
    /// How many records were removed; 0 with --dry-run.
    pub removed: u64,
    /// Sessions of dead processes that were ended.
    pub sessions_ended: u64,
    /// Leases of dead processes that were given up.
    pub leases_vacated: u64,
    /// Whose fences are ahead of a clock.
    pub kept_for_fences: u64,
    /// They say what ran at ticks with which some host may still come.
    pub kept_for_ticks: u64,
    /// Old units of jobs that have units to be run yet.
    pub kept_for_unfinished_jobs: u64,
    /// Sections in which ranges are held, or may be.
    pub kept_sections: u64,
    /// Semaphores that somebody holds or waits for.
    pub kept_semaphores: u64,
    /// Records of what sweeps have covered; --sweeps removes them.
    pub kept_sweeps: u64,
    /// Old records that are open units of a fleet, or that a fleet needs.
    pub kept_for_fleets: u64,
    /// Records that can't be read. They are left as they are.
    pub damaged: u64,
    /// Those of them that a newer version seems to have written: they are not damaged then.
    pub newer: u64,
}

/// `doctor`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Doctor {
    /// The store, without secrets.
    pub store: String,
    /// What was found, in the order of the checks.
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
    /// What was checked, in a word or two.
    pub check: String,
    /// What was found, in words.
    pub detail: String,
}

/// `config`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The store that is used.
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
    /// Its URL, without secrets.
    pub url: String,
    /// Which option, variable, file or default it comes from.
    pub from: String,
    /// The name by which it was called; null where that was its URL, or where it is the default.
    pub name: Option<String>,
    /// The namespace; null where neither an option, a variable nor a file names one.
    pub namespace: Option<String>,
    /// Where that comes from, as `from`; null without a namespace.
    pub namespace_from: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedStore {
    /// Its name.
    pub name: String,
    /// Its URL, without secrets.
    pub url: String,
    /// Its namespace; null where the file names none for it.
    pub namespace: Option<String>,
    /// The path of the file that names it.
    pub file: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionDefault {
    /// Null for all verbs.
    pub verb: Option<String>,
    /// The long name of the option, without dashes.
    pub option: String,
    /// What it is where it is not typed.
    pub value: String,
    /// The path of the file that says so.
    pub file: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The path of the file.
    pub path: String,
    /// Whether it is there.
    pub is_there: bool,
}

/// `bench`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bench {
    /// The store, without secrets.
    pub store: String,
    /// How many tasks made calls at a time.
    pub tasks: u64,
    /// How long it was to measure, half of it bare writes.
    pub seconds: f64,
    /// Calls that leases made, for each bare write.
    pub share_of_bare: f64,
    /// Writes that acquire a lease.
    pub acquire: Calls,
    /// Writes that renew one.
    pub renew: Calls,
    /// Writes that give one back.
    pub release: Calls,
    /// Conditional writes of a record as long as a lease's, without a lease.
    pub bare_write: Calls,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// How many were made.
    pub count: u64,
    /// How many there were in a second, of all tasks together.
    pub per_second: f64,
    /// The median of how long one took, in microseconds.
    pub p50_us: f64,
    /// What 99 of 100 took at most, in microseconds.
    pub p99_us: f64,
}
