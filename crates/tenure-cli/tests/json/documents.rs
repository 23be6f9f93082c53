//! What `--json` prints, document by document. Each is read strictly by `main.rs`, which also writes the page on them.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Anything that other programs have written.
type Any = serde_json::Value;
type Fields = BTreeMap<String, Any>;

/// On standard error, one line: why a verb failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    pub error: Reason,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The exit status.
    pub code: u8,
    /// In words.
    pub message: String,
}

/// `ls`: what is held, or with --all every record, in the order of the keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ls {
    /// The store, without secrets.
    pub store: String,
    pub leases: Vec<Record>,
    /// How many records nobody holds; they are listed with --all.
    pub vacant_not_listed: u64,
}

/// `show`: one record; also each of those of `ls`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub key: String,
    /// Of a unit or a worker: whose it is.
    pub fleet: Option<OfFleet>,
    /// Of a unit of a job: where it stands.
    pub job: Option<OfJob>,
    /// held, vacant, expired (its holder was not heard of for its ttl: it may be taken), damaged, or unknown (its session can't be read).
    pub state: String,
    /// Why it can't be read. Nothing but key and state is told besides.
    pub problem: Option<String>,
    /// The number of the present or the last tenure.
    pub fence: Option<u64>,
    /// When it was last written, by its writer's clock.
    pub written: Option<String>,
    /// How long ago that was, by the store's clock, where that tells.
    pub age_ms: Option<u64>,
    pub holder: Option<String>,
    /// Since when, by the holder's clock.
    pub since: Option<String>,
    pub ttl_ms: Option<u64>,
    /// How much longer it is held if nothing is renewed: an estimate.
    pub left_ms: Option<u64>,
    /// The session that it is attached to, if it is.
    pub session: Option<Session>,
    /// How many requests to the holder wait to be read.
    pub mail: Option<u64>,
    /// Of a section: its leases.
    pub leases: Option<Vec<RangeLease>>,
    /// Of a semaphore: who holds permits, and who waits.
    pub semaphore: Option<Semaphore>,
    /// Of a sweep: the ranges that are covered.
    pub covered: Option<Vec<String>>,
    /// What the record carries besides. `run`, `elect` and `hold` write user, host, pid, program and note. The times that `work` and `cron`
    /// write there are dates.
    pub metadata: Option<Fields>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfFleet {
    /// The fleet's.
    pub name: String,
    /// The unit's, if it is one.
    pub unit: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfJob {
    /// The job's.
    pub name: String,
    /// What the key calls the unit.
    pub unit: String,
    /// pending, done or failed; null where the record does not tell.
    pub status: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub key: String,
    pub fence: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RangeLease {
    /// Each LOW_HIGH, the high end excluded.
    pub ranges: Vec<String>,
    pub holder: String,
    pub fence: u64,
    pub since: String,
    pub duration_ms: u64,
    pub left_ms: u64,
    /// held or expired.
    pub state: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Semaphore {
    /// How many there are; null where only shared and exclusive holders are told apart.
    pub permits: Option<u64>,
    pub holders: Vec<Ticket>,
    /// In the order of their turns.
    pub queue: Vec<Ticket>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    pub holder: String,
    pub session: Session,
    /// exclusive or shared.
    pub mode: String,
    pub permits: u64,
    /// Null for who waits.
    pub fence: Option<u64>,
    pub since: String,
}

/// `leader`: who leads; with --follow, one line whenever that changes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Leader {
    pub key: String,
    /// When it was looked.
    pub at: String,
    /// Null while nobody leads.
    pub leader: Option<Leading>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Leading {
    pub id: String,
    pub fence: u64,
    pub since: String,
    /// What the leader tells of itself.
    pub labels: Fields,
}

/// `hold`: one line for each event. Which fields there are is said with each event in `tenure hold --help`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// acquired, extended, asked, lost or released.
    pub event: String,
    pub key: String,
    pub fence: Option<u64>,
    pub holder: Option<String>,
    /// Until the deadline, from when the line was written.
    pub remaining_ms: Option<u64>,
    /// The deadline by this host's wall clock.
    pub deadline: Option<String>,
    /// The deadline by CLOCK_BOOTTIME of this host.
    pub deadline_boottime_ms: Option<u64>,
    /// Of asked: hand over, or revoke.
    pub ask: Option<String>,
    /// Of lost.
    pub reason: Option<String>,
}

/// `release`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    pub key: String,
    /// True: nobody holds it any more.
    pub released: bool,
    /// Who held it.
    pub holder: String,
    /// With which fence.
    pub fence: u64,
    /// Whether it was taken away; false if the holder gave it up before.
    pub vacated: bool,
}

/// `revoke`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    pub key: String,
    /// The holder that was asked, and reads it within a third of the ttl.
    pub asked: String,
    pub ttl_ms: u64,
}

/// `rm --damaged`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rm {
    pub key: String,
    pub removed: bool,
    /// What was wrong with it.
    pub problem: String,
    /// What it still told.
    pub fence: Option<u64>,
    /// That of the empty record that is left, if one is.
    pub kept_fence: Option<u64>,
    /// In a form that can be put back.
    pub copy: String,
}

/// `reclaim`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reclaim {
    /// The key of its record.
    pub section: String,
    /// How many leases of ranges were freed.
    pub freed: u64,
}

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
    pub damaged_units: Vec<String>,
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
    pub worker: String,
    pub since: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailedUnit {
    pub unit: String,
    /// The exit code of the last run.
    pub exit: Option<i64>,
    pub host: Option<String>,
    pub finished: Option<String>,
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
