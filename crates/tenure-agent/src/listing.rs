//! What the store has, judged from outside: who holds what, and for how much longer.

use crate::wire::millis;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure::fleet::{self, FleetName};
use tenure::permits::{Mode, SemaphoreLedger, Ticket, is_semaphore};
use tenure::range::{self, is_section};
use tenure::{
    AnyStore, Attachment, Fence, Freshness, Key, Leases, Listed, Record, Store, StoreError, Stored, Ttl,
    Value, Wall,
};
use utoipa::ToSchema;

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
    /// What is wrong with it, if it is damaged.
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
}

impl RecordRow {
    pub(crate) fn is_held(&self) -> bool {
        self.state == RecordState::Held
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
    let next = listed.last().filter(|_| listed.len() == limit).map(|last| last.key.as_str().to_owned());
    Ok(RecordPage { leases: judged(leases, listed).await?, next })
}

pub(crate) async fn one(leases: &Leases, key: &Key) -> Result<Option<RecordRow>, StoreError> {
    let Some(stored) = leases.store().read(key).await? else { return Ok(None) };
    let listed = vec![Listed { key: key.clone(), stored: Ok(stored) }];
    Ok(judged(leases, listed).await?.pop())
}

/// As records of a page.
pub(crate) async fn judged(leases: &Leases, listed: Vec<Listed>) -> Result<Vec<RecordRow>, StoreError> {
    let now = leases.clock().now().wall;
    let sessions = sessions(leases.store(), &listed, now).await?;
    Ok(listed.into_iter().map(|listed| row(listed, &sessions, now)).collect())
}

/// The fence of each session that something is attached to, and how much of its time is left.
type Sessions = BTreeMap<Key, (Fence, Duration)>;

async fn sessions(store: &AnyStore, listed: &[Listed], now: Wall) -> Result<Sessions, StoreError> {
    let attachments = listed
        .iter()
        .filter_map(|listed| listed.stored.as_ref().ok()?.record.tenure.as_ref()?.attachment.as_ref());
    let keys: BTreeSet<Key> = attachments.map(|attachment| attachment.session.clone()).collect();
    if keys.is_empty() {
        return Ok(Sessions::new());
    }
    let keys: Vec<Key> = keys.into_iter().collect();
    let read = store.read_many(&keys, Freshness::Latest).await?;
    let lives = read.into_iter().filter_map(|Listed { key, stored }| {
        let stored = stored.ok()?;
        let ttl = stored.record.tenure.as_ref()?.ttl;
        Some((key, (stored.record.fence, left(&stored, ttl, now))))
    });
    Ok(lives.collect())
}

fn row(listed: Listed, sessions: &Sessions, now: Wall) -> RecordRow {
    let Listed { key, stored } = listed;
    let mut row = RecordRow {
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
    };
    let described = stored.and_then(|stored| describe(&mut row, &stored, sessions, now));
    if let Err(error) = described {
        (row.state, row.problem) = (RecordState::Damaged, Some(error.to_string()));
    }
    row
}

fn describe(row: &mut RecordRow, stored: &Stored, sessions: &Sessions, now: Wall) -> Result<(), StoreError> {
    let record = &stored.record;
    row.fence = Some(record.fence.0);
    if is_semaphore(record) {
        let semaphore = semaphore(&SemaphoreLedger::of(record)?);
        if !semaphore.holders.is_empty() || !semaphore.queue.is_empty() {
            row.state = RecordState::Held;
        }
        row.semaphore = Some(semaphore);
        return Ok(());
    }
    if is_section(record) {
        let section = section(stored, now)?;
        row.left_ms = section.iter().map(|lease| lease.left_ms).max().filter(|left| *left > 0);
        if !section.is_empty() {
            row.state = if row.left_ms.is_some() { RecordState::Held } else { RecordState::Expired };
        }
        row.section = Some(section);
        return Ok(());
    }
    row.planning = planning(&row.key, record);
    let texts = record.metadata.iter().filter_map(|(name, value)| match value {
        Value::Text(text) => Some((name.clone(), text.clone())),
        _ => None,
    });
    row.about = texts.collect();
    let Some(tenure) = &record.tenure else { return Ok(()) };
    let left = match &tenure.attachment {
        None => left(stored, tenure.ttl, now),
        Some(Attachment { session, fence, .. }) => sessions
            .get(session)
            .filter(|(shown, _)| shown == fence)
            .map_or(Duration::ZERO, |(_, left)| *left),
    };
    row.state = if left.is_zero() { RecordState::Expired } else { RecordState::Held };
    row.left_ms = (!left.is_zero()).then(|| millis(left));
    row.ttl_ms = tenure.attachment.is_none().then(|| tenure.ttl.millis());
    row.holder = Some(tenure.holder.as_str().to_owned());
    row.since = Some(tenure.since.to_string());
    Ok(())
}

/// How much of the ttl is left, by the store's clock if it tells, else by the wall clocks.
fn left(stored: &Stored, ttl: Ttl, now: Wall) -> Duration {
    let age = stored.age().unwrap_or_else(|| now.since(stored.record.stamp));
    ttl.duration().saturating_sub(age)
}

/// What a fleet's board says.
fn planning(key: &str, record: &Record) -> Option<PlanningView> {
    let (name, "board") = key.strip_prefix("fleet/")?.split_once('/')? else { return None };
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
