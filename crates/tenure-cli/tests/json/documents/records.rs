//! Documents on records: what is listed and shown, who leads and holds, and what is done to records.

use super::Fields;
use schemars::JsonSchema;
use serde::Deserialize;

/// `ls`: what is held, or with --all every record, in the order of the keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ls {
    /// The store, without secrets.
    pub store: String,
    /// The records, each as `show` prints it.
    pub leases: Vec<Record>,
    /// How many records nobody holds; they are listed with --all.
    pub vacant_not_listed: u64,
}

/// `show`: one record; also each of those of `ls`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The record's key.
    pub key: String,
    /// Of a unit or a worker: whose it is.
    pub fleet: Option<OfFleet>,
    /// Of a unit of a job: where it stands.
    pub job: Option<OfJob>,
    /// held, vacant, expired (its holder was not heard of for its ttl: it may be taken), damaged, newer (a newer version has written it,
    /// which can read it: it is no damage), or unknown (its session can't be read).
    pub state: String,
    /// Why it can't be read. Nothing is told besides but its state and what its key says: `job` or `fleet`.
    pub problem: Option<String>,
    /// The number of the present or the last tenure.
    pub fence: Option<u64>,
    /// When it was last written, by its writer's clock.
    pub written: Option<String>,
    /// How long ago that was, by the store's clock, where that tells.
    pub age_ms: Option<u64>,
    /// The id of its holder; null where nobody holds it alone.
    pub holder: Option<String>,
    /// Since when, by the holder's clock.
    pub since: Option<String>,
    /// How long the lease outlives its holder's last renewal; null as the holder.
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
    /// What the record carries besides. `run`, `elect` and `hold` write user, host, pid, program and note, and so do `work` and workers of fleets,
    /// but for the note, in the records of their sessions. The times that `work` and `cron` write there are dates.
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
    /// The unit's name, where the key has only a digest of it and the record tells it; null otherwise. Bytes that are no UTF-8 are escaped.
    pub unit_name: Option<String>,
    /// Its bytes as hexadecimal digits, where they are no UTF-8: `unit_name` is escaped then. Null otherwise.
    pub unit_hex: Option<String>,
    /// pending, done or failed; null where the record does not tell.
    pub status: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// The key of the session's record.
    pub key: String,
    /// The fence of that session, which is over once its record shows another.
    pub fence: u64,
    /// What its record tells of the process: user, host, pid, program and note. Only `show` tells it, where the record does.
    pub about: Option<Fields>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RangeLease {
    /// Each LOW_HIGH, the high end excluded.
    pub ranges: Vec<String>,
    /// The id of its holder.
    pub holder: String,
    /// The fence of the lease.
    pub fence: u64,
    /// When it began, by its holder's clock.
    pub since: String,
    /// How long it is leased, from then on.
    pub duration_ms: u64,
    /// How much of that is left, by the store's clock or else by wall clocks; 0 of what has expired.
    pub left_ms: u64,
    /// held or expired.
    pub state: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Semaphore {
    /// How many there are; null where only shared and exclusive holders are told apart.
    pub permits: Option<u64>,
    /// Who holds permits.
    pub holders: Vec<Ticket>,
    /// In the order of their turns.
    pub queue: Vec<Ticket>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// The id of the process that holds, or waits.
    pub holder: String,
    /// The session of that process.
    pub session: Session,
    /// exclusive or shared.
    pub mode: String,
    /// How many permits it holds, or waits for.
    pub permits: u64,
    /// Null for who waits.
    pub fence: Option<u64>,
    /// When it asked, by its own clock.
    pub since: String,
}

/// `leader`: who leads; with --follow, one line whenever that changes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Leader {
    /// The key of the election.
    pub key: String,
    /// When it was looked.
    pub at: String,
    /// Null while nobody leads.
    pub leader: Option<Leading>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Leading {
    /// The id of the leader.
    pub id: String,
    /// The fence of its term; null on less's table, which has none.
    pub fence: Option<u64>,
    /// When its term began, by its own clock; null on less's table, which does not tell.
    pub since: Option<String>,
    /// What the leader tells of itself; null on less's table, which does not tell.
    pub labels: Option<Fields>,
    /// On less's table: when it stops leading unless it renews. Null otherwise.
    pub until: Option<String>,
}

/// `hold`: one line for each event. Which fields there are is said with each event in `tenure hold --help`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// acquired, extended, asked, lost or released.
    pub event: String,
    /// The key that is held.
    pub key: String,
    /// The fence of the lease. Of acquired and extended.
    pub fence: Option<u64>,
    /// The id of this process. Of acquired.
    pub holder: Option<String>,
    /// Until the deadline, from when the line was written.
    pub remaining_ms: Option<u64>,
    /// The deadline by this host's wall clock.
    pub deadline: Option<String>,
    /// The deadline by CLOCK_BOOTTIME of this host.
    pub deadline_boottime_ms: Option<u64>,
    /// The name of that clock's time line: the boot id, a slash, and the inode of the time namespace.
    pub boot: Option<String>,
    /// Of asked: hand over, or revoke.
    pub ask: Option<String>,
    /// Of lost.
    pub reason: Option<String>,
    /// Of lost, where it is known: expired, unreachable, taken, deleted, revoked, released, overran or stopped. Later versions may have others.
    pub loss: Option<String>,
}

/// `release`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The key that is released.
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
    /// The key whose holder was asked.
    pub key: String,
    /// The holder that was asked, and reads it within a third of the ttl.
    pub asked: String,
    /// The ttl of its lease: after so long it is free also where the holder has died.
    pub ttl_ms: u64,
}

/// `rm --damaged`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rm {
    /// The key of the record.
    pub key: String,
    /// True: the document is printed before the record goes. Where it had changed meanwhile and stays, the status is 75.
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
