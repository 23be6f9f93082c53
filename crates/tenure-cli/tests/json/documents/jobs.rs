//! Documents on `work` and its jobs.

use schemars::JsonSchema;
use serde::Deserialize;

/// `work`: the summary at the end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Work {
    pub job: String,
    /// Of the whole job, as are all counts but those of `here`.
    pub units: u64,
    pub done: u64,
    pub failed: u64,
    pub damaged: u64,
    /// Neither done nor failed.
    pub open: u64,
    /// Those whose records were removed before they were done or had failed. They are not among `units`.
    pub removed: u64,
    /// Those of the failed ones that an earlier run recorded.
    pub failed_before: u64,
    /// As of `work status`.
    pub failed_units: Vec<FailedUnit>,
    /// As `unit` is written elsewhere.
    pub damaged_units: Vec<String>,
    /// The same.
    pub removed_units: Vec<String>,
    pub here: Here,
    pub seconds: f64,
}

/// What this process did.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Here {
    pub done: u64,
    /// Runs that failed, also of units that were done later.
    pub failures: u64,
    /// From processes that had died.
    pub taken_over: u64,
    pub handed_back: u64,
}

/// `work ls`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    pub store: String,
    pub jobs: Vec<Job>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub job: String,
    pub units: u64,
    pub done: u64,
    pub failed: u64,
    pub running: u64,
    pub waiting: u64,
    pub damaged: u64,
    pub workers: u64,
    pub rate_per_second: Option<f64>,
    /// An estimate.
    pub left_seconds: Option<f64>,
    pub began: Option<String>,
    pub last_result: Option<String>,
}

/// `work status`: one of those of `work ls`, but that its workers are told one by one, and its units.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobStatus {
    pub job: String,
    pub units: u64,
    pub done: u64,
    pub failed: u64,
    pub running: u64,
    pub waiting: u64,
    pub damaged: u64,
    pub workers: Vec<JobWorker>,
    pub rate_per_second: Option<f64>,
    /// An estimate.
    pub left_seconds: Option<f64>,
    pub began: Option<String>,
    pub last_result: Option<String>,
    /// At most so many as --most says, as of the next.
    pub running_units: Vec<RunningUnit>,
    /// Those that have failed and are to be tried again, and that nobody runs now. They count as waiting.
    pub retrying_units: Vec<RetryingUnit>,
    pub failed_units: Vec<FailedUnit>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobWorker {
    pub worker: String,
    pub host: String,
    pub pid: u64,
    pub since: String,
    /// How many it has.
    pub units: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunningUnit {
    pub unit: String,
    /// Its bytes as hexadecimal digits, where they are no UTF-8: `unit` is escaped then. Null otherwise.
    pub unit_hex: Option<String>,
    pub worker: String,
    pub since: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryingUnit {
    /// When it is tried again at the earliest, by the clock of whoever ran it.
    pub due: Option<String>,
    pub unit: String,
    /// Its bytes as hexadecimal digits, where they are no UTF-8: `unit` is escaped then. Null otherwise.
    pub unit_hex: Option<String>,
    /// The exit code of the last run.
    pub exit: Option<i64>,
    pub host: Option<String>,
    pub finished: Option<String>,
    pub attempts: Option<u64>,
    pub reason: Option<String>,
    /// The last lines that it wrote.
    pub output: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailedUnit {
    pub unit: String,
    /// Its bytes as hexadecimal digits, where they are no UTF-8: `unit` is escaped then. Null otherwise.
    pub unit_hex: Option<String>,
    /// The exit code of the last run.
    pub exit: Option<i64>,
    pub host: Option<String>,
    pub finished: Option<String>,
    /// How often CMD was run to its end, and failed. Runs whose worker died are no attempts: reason tells of them, where they were too many.
    pub attempts: Option<u64>,
    /// Why it failed if not by its command.
    pub reason: Option<String>,
    /// The last lines that it wrote.
    pub output: Option<String>,
}

/// `work retry`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retried {
    pub job: String,
    /// How many units are open again.
    pub retried: u64,
}

/// `work rm`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forgotten {
    pub job: String,
    /// How many records went.
    pub removed: u64,
    /// How many stayed, as somebody had changed them meanwhile.
    pub left: u64,
}
