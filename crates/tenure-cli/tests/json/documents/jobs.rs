//! Documents on `work` and its jobs.

use schemars::JsonSchema;
use serde::Deserialize;

/// `work`: the summary at the end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The name of the job.
    pub job: String,
    /// Of the whole job, as are all counts but those of `here`.
    pub units: u64,
    /// Units that are done.
    pub done: u64,
    /// Units that have failed for good.
    pub failed: u64,
    /// Units whose records can't be read here, or are no unit's.
    pub damaged: u64,
    /// Neither done nor failed.
    pub open: u64,
    /// Those whose records were removed before they were done or had failed. They are not among `units`.
    pub removed: u64,
    /// Those of the failed ones that an earlier run recorded.
    pub failed_before: u64,
    /// As of `work status`.
    pub failed_units: Vec<FailedUnit>,
    /// As of `work status`.
    pub damaged_units: Vec<DamagedUnit>,
    /// As `unit` is written elsewhere.
    pub removed_units: Vec<String>,
    /// What this process did.
    pub here: Here,
    /// How long this process took, in seconds.
    pub seconds: f64,
}

/// What this process did.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Here {
    /// Units that were run here, and are done.
    pub done: u64,
    /// Runs that failed, also of units that were done later.
    pub failures: u64,
    /// From processes that had died.
    pub taken_over: u64,
    /// Units that were given back, or lost, without a result.
    pub handed_back: u64,
}

/// `work ls`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// The store, without secrets.
    pub store: String,
    /// The jobs, in the order of their names.
    pub jobs: Vec<Job>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The name of the job.
    pub job: String,
    /// How many units it has.
    pub units: u64,
    /// Units that are done.
    pub done: u64,
    /// Units that have failed for good.
    pub failed: u64,
    /// Units that a process has now.
    pub running: u64,
    /// Units that are to be run and that nobody has now, also those that have failed and are tried again.
    pub waiting: u64,
    /// Units whose records can't be read here, or are no unit's.
    pub damaged: u64,
    /// How many live processes work on it.
    pub workers: u64,
    /// Units that came to a result, for each second of the last five minutes at most; null without a result in that time.
    pub rate_per_second: Option<f64>,
    /// An estimate.
    pub left_seconds: Option<f64>,
    /// When the first known run began, by the clock of its host; null before any run has ended.
    pub began: Option<String>,
    /// When the last run ended, by the clock of its host; null before any has.
    pub last_result: Option<String>,
}

/// `work status`: one of those of `work ls`, but that its workers are told one by one, and its units.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobStatus {
    /// The name of the job.
    pub job: String,
    /// How many units it has.
    pub units: u64,
    /// Units that are done.
    pub done: u64,
    /// Units that have failed for good.
    pub failed: u64,
    /// Units that a process has now.
    pub running: u64,
    /// Units that are to be run and that nobody has now, also those that have failed and are tried again.
    pub waiting: u64,
    /// Units whose records can't be read here, or are no unit's.
    pub damaged: u64,
    /// The live processes that work on it.
    pub workers: Vec<JobWorker>,
    /// Units that came to a result, for each second of the last five minutes at most; null without a result in that time.
    pub rate_per_second: Option<f64>,
    /// An estimate.
    pub left_seconds: Option<f64>,
    /// When the first known run began, by the clock of its host; null before any run has ended.
    pub began: Option<String>,
    /// When the last run ended, by the clock of its host; null before any has.
    pub last_result: Option<String>,
    /// At most so many as --most says, as of the next.
    pub running_units: Vec<RunningUnit>,
    /// Those that have failed and are to be tried again, and that nobody runs now. They count as waiting.
    pub retrying_units: Vec<RetryingUnit>,
    /// Those that have failed for good.
    pub failed_units: Vec<FailedUnit>,
    /// Those whose records can't be read here, or are no unit's.
    pub damaged_units: Vec<DamagedUnit>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobWorker {
    /// The id of the process.
    pub worker: String,
    /// Its host; `?` where it does not tell.
    pub host: String,
    /// Its process id; 0 where it does not tell.
    pub pid: u64,
    /// When its session began, by its own clock.
    pub since: String,
    /// How many it has.
    pub units: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunningUnit {
    /// The name of the unit.
    pub unit: String,
    /// Its bytes as hexadecimal digits, where they are no UTF-8: `unit` is escaped then. Null otherwise.
    pub unit_hex: Option<String>,
    /// The id of the process that has it.
    pub worker: String,
    /// When that process took it, by its own clock.
    pub since: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryingUnit {
    /// When it is tried again at the earliest, by the clock of whoever ran it.
    pub due: Option<String>,
    /// The name of the unit.
    pub unit: String,
    /// Its bytes as hexadecimal digits, where they are no UTF-8: `unit` is escaped then. Null otherwise.
    pub unit_hex: Option<String>,
    /// The exit code of the last run.
    pub exit: Option<i64>,
    /// The host of the last run; null where that is not known.
    pub host: Option<String>,
    /// When the last run ended, by the clock of its host; null where that is not known.
    pub finished: Option<String>,
    /// How often CMD was run to its end, and failed.
    pub attempts: Option<u64>,
    /// Why it failed if not by its command; null otherwise.
    pub reason: Option<String>,
    /// The last lines that it wrote.
    pub output: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailedUnit {
    /// The name of the unit.
    pub unit: String,
    /// Its bytes as hexadecimal digits, where they are no UTF-8: `unit` is escaped then. Null otherwise.
    pub unit_hex: Option<String>,
    /// The exit code of the last run.
    pub exit: Option<i64>,
    /// The host of the last run; null where that is not known.
    pub host: Option<String>,
    /// When the last run ended, by the clock of its host; null where that is not known.
    pub finished: Option<String>,
    /// How often CMD was run to its end, and failed. Runs whose worker died are no attempts: reason tells of them, where they were too many.
    pub attempts: Option<u64>,
    /// Why it failed if not by its command.
    pub reason: Option<String>,
    /// The last lines that it wrote.
    pub output: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DamagedUnit {
    /// The name of the unit; the end of its key, where only the record could tell another.
    pub unit: String,
    /// Its bytes as hexadecimal digits, where they are no UTF-8: `unit` is escaped then. Null otherwise.
    pub unit_hex: Option<String>,
    /// The key of the record.
    pub key: String,
    /// What is wrong with it; null where the store did not tell.
    pub problem: Option<String>,
    /// Whether a newer version seems to have written it: it is not damaged then, and not to be removed.
    pub newer: bool,
}

/// `work retry`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retried {
    /// The name of the job.
    pub job: String,
    /// How many units are open again.
    pub retried: u64,
}

/// `work rm`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forgotten {
    /// The name of the job.
    pub job: String,
    /// How many records went.
    pub removed: u64,
    /// How many stayed: changed by somebody meanwhile, or with records that can't be read here.
    pub left: u64,
    /// Those of them whose records can't be read here.
    pub damaged: u64,
    /// Those of these that a newer version has written: they are not damaged.
    pub newer: u64,
}
