//! What the store has, judged from outside: who holds what, and for how much longer.

use crate::wire::millis;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tenure::fleet::{self, FleetKey, FleetName};
use tenure::liveness::{Liveness, SessionLives, time_left};
use tenure::permits::{Mode, SemaphoreLedger, Ticket, is_semaphore};
use tenure::range::{self, is_section};
use tenure::store::{Listed, Record, Stored};
use tenure::{Fence, Key, Leases, Store, StoreError, Ttl, Value, Wall};
use utoipa::ToSchema;

/// A page that has so many bytes, or more, has no further record. Its client may take it slowly, and it is in memory until then.
const MOST_BYTES: usize = 1 << 20;

/// A page of records.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Page)]
pub(crate) struct RecordPage {
    pub(crate) leases: Vec<RecordRow>,
    /// The last key of this page, if there may be more after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A record, judged from outside.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Row)]
pub(crate) struct RecordRow {
    pub(crate) key: String,
    pub(crate) state: RecordState,
    /// What is wrong with it, if it is damaged; or with its session, if its state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<String>,
    /// Since when, by its holder's wall clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    /// How much longer, if nothing is renewed; an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_ms: Option<u64>,
    /// How long it lasts after a renewal, if it is renewed by itself and not with a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_ms: Option<u64>,
    /// A client of this agent has it, or some of its permits or ranges.
    pub(crate) is_here: bool,
    /// One of them leads by it. That others do can't be told from a record.
    pub(crate) is_election: bool,
    /// Text fields of the record.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) about: BTreeMap<String, String>,
    /// Of a semaphore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) semaphore: Option<SemaphoreView>,
    /// The leases of a section's ranges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) section: Option<Vec<RangeLeaseView>>,
    /// Of a fleet's board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) planning: Option<PlanningView>,
}

/// Who plans for a fleet, and which plan was told last.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Planning)]
pub(crate) struct PlanningView {
    /// The worker that plans, by name. It may be dead: its session, fleet/FLEET/worker/NAME, tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) planner: Option<String>,
    /// The workers that are to take its place.
    pub(crate) standbys: Vec<String>,
    /// The number of the last plan that this planner told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<u64>,
    /// When that was, by the planner's wall clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) told: Option<String>,
}

/// Ranges of a section that one holder has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RangeLease)]
pub(crate) struct RangeLeaseView {
    /// Each LOW_HIGH in hexadecimal digits, the high end excluded.
    pub(crate) ranges: Vec<String>,
    pub(crate) holder: String,
    pub(crate) fence: u64,
    pub(crate) since: String,
    /// How much longer; an estimate. 0: it is over.
    pub(crate) left_ms: u64,
}

/// Who has permits, and who waits for some, in turn.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Semaphore)]
pub(crate) struct SemaphoreView {
    pub(crate) permits: u32,
    pub(crate) holders: Vec<PermitClaim>,
    pub(crate) queue: Vec<PermitClaim>,
}

/// A claim to permits.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claim)]
pub(crate) struct PermitClaim {
    pub(crate) holder: String,
    /// How many; none is all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
}

/// What a record says about its key now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = State)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RecordState {
    /// Held, as far as can be told from outside.
    Held,
    /// Nobody holds it.
    Vacant,
    /// Its holder has not been heard of for longer than the ttl: it may be taken.
    Expired,
    /// It can't be read.
    Damaged,
    /// The session that it is attached to can't be read. Its holder may live, and may act on it.
    Unknown,
}

impl RecordRow {
    /// Only of what nobody can hold it is said that nobody does.
    pub(crate) fn may_be_held(&self) -> bool {
        matches!(self.state, RecordState::Held | RecordState::Unknown)
    }

    /// Those of the tenures that it shows.
    pub(crate) fn fences(&self) -> impl Iterator<Item = u64> {
        let permits = self.semaphore.iter().flat_map(|semaphore| &semaphore.holders);
        let ranges = self.section.iter().flatten();
        let own = self.fence.filter(|_| self.holder.is_some());
        own.into_iter().chain(permits.filter_map(|claim| claim.fence)).chain(ranges.map(|lease| lease.fence))
    }
}

pub(crate) async fn page(
    leases: &Leases,
    prefix: &str,
    after: Option<&Key>,
    limit: usize,
) -> Result<RecordPage, StoreError> {
    let listed = leases.store().list(prefix, after, limit).await?;
    let is_full = listed.len() == limit;
    let mut rows = judged(leases, listed).await?;
    let found = rows.len();
    let mut left = MOST_BYTES;
    let mut fits = |row: &RecordRow| {
        let fits = left > 0;
        left = left.saturating_sub(length(row));
        fits
    };
    // The first one goes in, however long it is.
    rows.truncate(rows.iter().take_while(|row| fits(row)).count());
    let next = rows.last().filter(|_| is_full || rows.len() < found).map(|last| last.key.clone());
    Ok(RecordPage { leases: rows, next })
}

/// How many bytes of JSON it is.
fn length(row: &RecordRow) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Nothing that it has can fail.
    let _ = serde_json::to_writer(&mut counter, row);
    counter.0
}

pub(crate) async fn one(leases: &Leases, key: &Key) -> Result<Option<RecordRow>, StoreError> {
    let Some(stored) = leases.store().read(key).await? else { return Ok(None) };
    let listed = vec![Listed { key: key.clone(), stored: Ok(stored) }];
    Ok(judged(leases, listed).await?.pop())
}

/// As records of a page.
pub(crate) async fn judged(leases: &Leases, listed: Vec<Listed>) -> Result<Vec<RecordRow>, StoreError> {
    let (store, now) = (leases.store(), leases.clock().now().wall);
    let left = |_: &Key, stored: &Stored, ttl: Ttl| time_left(stored, ttl, now);
    let mut sessions = SessionLives::default();
    sessions.follow(store, &listed, left).await?;
    let mut rows = Vec::with_capacity(listed.len());
    for Listed { key, stored } in listed {
        let mut row = row(&key);
        let described = match &stored {
            Ok(stored) if is_semaphore(&stored.record) => match SemaphoreLedger::of(&stored.record) {
                Ok(ledger) => {
                    let liveness = sessions.judge_permits(store, &ledger, left).await?;
                    row.fence = Some(stored.record.fence.0);
                    row.semaphore = Some(semaphore(&ledger));
                    describe_life(&mut row, liveness);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Ok(stored) => {
                let liveness = sessions.judge(store, &key, stored, left).await?;
                describe(&mut row, &key, stored, liveness, now)
            }
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = described {
            (row.state, row.problem) = (RecordState::Damaged, Some(error.to_string()));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn row(key: &Key) -> RecordRow {
    RecordRow {
        key: key.as_str().to_owned(),
        state: RecordState::Vacant,
        problem: None,
        fence: None,
        holder: None,
        since: None,
        left_ms: None,
        ttl_ms: None,
        is_here: false,
        is_election: false,
        about: BTreeMap::new(),
        semaphore: None,
        section: None,
        planning: None,
    }
}

fn describe(
    row: &mut RecordRow,
    key: &Key,
    stored: &Stored,
    liveness: Liveness<Duration>,
    now: Wall,
) -> Result<(), StoreError> {
    let record = &stored.record;
    row.fence = Some(record.fence.0);
    if is_section(record) {
        let section = section(stored, now)?;
        row.left_ms = section.iter().map(|lease| lease.left_ms).max().filter(|left| *left > 0);
        if !section.is_empty() {
            row.state = if row.left_ms.is_some() { RecordState::Held } else { RecordState::Expired };
        }
        row.section = Some(section);
        return Ok(());
    }
    row.planning = planning(key, record);
    let texts = record.metadata.iter().filter_map(|(name, value)| match value {
        Value::Text(text) => Some((name.clone(), text.clone())),
        _ => None,
    });
    row.about = texts.collect();
    describe_life(row, liveness);
    let Some(tenure) = &record.tenure else { return Ok(()) };
    row.ttl_ms = tenure.attachment.is_none().then(|| tenure.ttl.millis());
    row.holder = Some(tenure.holder.as_str().to_owned());
    row.since = Some(tenure.since.to_string());
    Ok(())
}

fn describe_life(row: &mut RecordRow, liveness: Liveness<Duration>) {
    match liveness {
        Liveness::Vacant => row.state = RecordState::Vacant,
        Liveness::Tenured(left) if !left.is_zero() => {
            (row.state, row.left_ms) = (RecordState::Held, Some(millis(left)));
        }
        Liveness::Unknown(error) => {
            let text = format!("the session that it is attached to can't be read: {error}");
            (row.state, row.problem) = (RecordState::Unknown, Some(text));
        }
        Liveness::Tenured(_) | Liveness::Over | Liveness::SessionGone => row.state = RecordState::Expired,
    }
}

/// What a fleet's board says.
fn planning(key: &Key, record: &Record) -> Option<PlanningView> {
    let (name, FleetKey::Board) = FleetKey::of(key)? else { return None };
    let (fleet, planning) = (FleetName::new(name).ok()?, fleet::Planning::of(record));
    Some(PlanningView {
        planner: planning.holder(&fleet).map(|holder| holder.as_str().to_owned()),
        standbys: planning.standbys.iter().map(|holder| holder.as_str().to_owned()).collect(),
        plan: planning.plan,
        told: planning.told.map(|told| told.to_string()),
    })
}

fn section(stored: &Stored, now: Wall) -> Result<Vec<RangeLeaseView>, StoreError> {
    let left = |entry: &range::Entry| {
        let stood = stored.times.and_then(|times| entry.stood(times));
        entry.duration.duration().saturating_sub(stood.unwrap_or_else(|| now.since(entry.stamp)))
    };
    let entries = range::SectionLedger::seen_in(stored)?.entries;
    let leases = entries.iter().map(|entry| RangeLeaseView {
        ranges: entry.parts.ranges().iter().map(ToString::to_string).collect(),
        holder: entry.holder.as_str().to_owned(),
        fence: entry.fence.0,
        since: entry.stamp.to_string(),
        left_ms: millis(left(entry)),
    });
    Ok(leases.collect())
}

fn semaphore(ledger: &SemaphoreLedger) -> SemaphoreView {
    let claim = |ticket: &Ticket, fence: Option<Fence>| PermitClaim {
        holder: ticket.holder.as_str().to_owned(),
        permits: (ticket.mode == Mode::Shared).then_some(ticket.permits),
        fence: fence.map(|fence| fence.0),
    };
    SemaphoreView {
        permits: ledger.permits,
        holders: ledger.holders.iter().map(|grant| claim(&grant.ticket, Some(grant.fence))).collect(),
        queue: ledger.queue.iter().map(|ticket| claim(ticket, None)).collect(),
    }
}
