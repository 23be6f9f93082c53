//! A worker on a lease table of the KCL's or a8m's layout: the dialect `kcl`.
//!
//! The table is the fleet; the name that was given to it begins this worker's id, as others see it there.

use super::member::{self, Assignment, Event, Member, Underway};
use crate::config::fleet::Forever;
use crate::exit::Failure;
use crate::output;
use crate::stores::away::opened;
use crate::stores::patiently;
use crate::supervise::lease::Lease;
use crate::text::escaped;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure::dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure::fleet::Balance;
use tenure::{Clock, ErrorKind, Fence, Loss};
use tenure_kcl::{self as kcl, Coordinator, Events, Fields, Held, LeaseError, Options, Peers, Place, Table};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What the rows have of a table that has the shards of several streams, beside their names: `ACCOUNT:STREAM:EPOCH:SHARD`. Which stream it is ...
const STREAM: &str = "streamName";
/// ... and which of its shards.
const SHARD_ID: &str = "shardId";

pub(super) struct Kcl {
    worker: String,
    table: String,
    coordinator: Coordinator,
    events: Events,
    /// What was given out and is not let go of yet.
    assignments: BTreeMap<Tenure, (Held, Arc<AtomicBool>)>,
    let_go: mpsc::UnboundedReceiver<Tenure>,
    told: mpsc::UnboundedSender<Tenure>,
    waiting: VecDeque<Event>,
    leaving: bool,
    stopping: Option<JoinHandle<()>>,
    grace: Duration,
    said: BTreeSet<String>,
    of_kcl: bool,
}

/// A lease and the counter at which it was taken: the same lease may be had again.
type Tenure = (String, u64);

/// Whether a worker's id is one as `enlist` makes them.
pub(crate) fn is_of_tenure(worker: &str) -> bool {
    let is = |part: &str, check: fn(&u8) -> bool| !part.is_empty() && part.as_bytes().iter().all(check);
    let Some((_, process)) = worker.rsplit_once('/') else { return false };
    let mut parts = process.rsplit('-');
    let mut of_uuid = [12, 4, 4, 4, 8].iter().map(|length| (length, parts.next().unwrap_or_default()));
    let has_uuid = of_uuid.all(|(length, part)| part.len() == *length && is(part, u8::is_ascii_hexdigit));
    has_uuid && parts.next().is_some_and(|pid| is(pid, u8::is_ascii_digit))
}

/// Joins those that work on the table.
pub(super) async fn enlist(rest: &str, plan: &Forever, clock: Arc<dyn Clock>) -> Result<Kcl, Failure> {
    let place = Place::from_url(rest)?;
    let no = |what: &str| {
        let text = format!(
            "{what} means nothing on a lease table of the dialect kcl: each worker takes its even share there"
        );
        Err(Failure::usage(text))
    };
    match plan {
        Forever { labels, .. } if !labels.is_empty() => return no("--label"),
        Forever { most_weight: Some(_), .. } => return no("--most-weight"),
        Forever { balance: Balance::Weight, .. } => return no("--balance weight"),
        _ => {}
    }
    let (host, pid) = (tenure::clock::host_name(), std::process::id());
    let worker = format!("{}/{host}-{pid}-{}", plan.name, tenure::clock::uuid());
    let mut options = Options::new(&worker).failover(plan.ttl).leases_to_steal(place.leases_to_steal());
    if let Some(are_shards) = place.shards() {
        options = options.shards(are_shards);
    }
    if let Some(most) = plan.most {
        options = options.max_leases(usize::try_from(most).unwrap_or(usize::MAX));
    }
    options.check()?;
    let (shown, of_kcl) = (place.table().to_owned(), place.format().peers() == Peers::Kcl);
    let table = opened(plan.await_store, async || Ok(Table::at(place.clone(), clock.clone()).await?)).await?;
    let (coordinator, events) = Coordinator::start(&table, options)?;
    let (told, let_go) = mpsc::unbounded_channel();
    Ok(Kcl {
        worker,
        table: shown,
        coordinator,
        events,
        assignments: BTreeMap::new(),
        let_go,
        told,
        waiting: VecDeque::new(),
        leaving: false,
        stopping: None,
        grace: plan.grace,
        said: BTreeSet::new(),
        of_kcl,
    })
}

impl Kcl {
    /// Nothing of it concerns units.
    fn tell_once(&mut self, text: String) -> Option<Event> {
        /// More are not told: they would say the same.
        const MOST: usize = 100;
        if self.said.len() < MOST && !self.said.contains(&text) {
            output::note(&text);
            self.said.insert(text);
        }
        None
    }

    fn on(&mut self, event: kcl::Event) -> Option<Event> {
        match event {
            kcl::Event::Taken(held) => {
                let (tenure, draining) = (tenure_of(&held), Arc::new(AtomicBool::new(self.leaving)));
                self.assignments.insert(tenure, (held.clone(), Arc::clone(&draining)));
                let assignment = Obligation {
                    unit: Arc::new(Leased { held, draining }),
                    coordinator: self.coordinator.clone(),
                    told: self.told.clone(),
                    spent: false,
                };
                if self.leaving {
                    // It was under way.
                    return None;
                }
                Some(Event::Assigned(Box::new(assignment)))
            }
            kcl::Event::Lost { lease, loss } => {
                Some(Event::Lost { unit: lease.key().to_owned(), why: why_lost(&loss) })
            }
            kcl::Event::Wanted { lease, by } => {
                let (_, draining) = self.assignments.get(&tenure_of(&lease))?;
                draining.store(true, Ordering::SeqCst);
                let why = format!("is to go to {}", escaped(&by));
                Some(Event::Draining { unit: lease.key().to_owned(), why, within: self.grace })
            }
            kcl::Event::Finished(lease) => {
                let (_, draining) = self.assignments.get(&tenure_of(&lease))?;
                draining.store(true, Ordering::SeqCst);
                let why = "has the checkpoint SHARD_END, and is to be given back".to_owned();
                Some(Event::Draining { unit: lease.key().to_owned(), why, within: self.grace })
            }
            kcl::Event::LookFailed(error) | kcl::Event::Foreign(error) => self.tell_once(error.to_string()),
            kcl::Event::TakeFailed { key, error } => {
                self.tell_once(format!("{}: can't be taken: {error}", escaped(&key)))
            }
            kcl::Event::Revived(worker) => {
                output::note(format!(
                    "{} lives, though a lease of its was taken after a failover time of silence: it stood still, or its failover \
                     time is longer than --ttl here; it has to be the same for all",
                    crate::text::escaped(&worker)
                ));
                None
            }
            kcl::Event::Skipped(rows) => {
                output::note(skipped(rows));
                None
            }
            _ => None,
        }
    }
}

impl Member for Kcl {
    fn name(&self) -> &str {
        &self.worker
    }

    fn fleet(&self) -> String {
        format!("lease table {:?}", self.table)
    }

    fn register<'c>(&'c self, units: &'c [&'c str]) -> Underway<'c, Result<usize, Failure>> {
        Box::pin(async move {
            let is_of_streams = self.of_kcl && !units.is_empty() && {
                let listing = patiently(async || self.coordinator.list().await).await?;
                listing.rows.iter().any(|row| row.fields().contains_key(STREAM))
            };
            // All are looked at before the first is made.
            let fields = units
                .iter()
                .map(|unit| if is_of_streams { fields_of_shard(unit) } else { Ok(Fields::new()) });
            let fields: Vec<Fields> = fields.collect::<Result<_, _>>()?;
            let mut created = 0;
            for (unit, fields) in units.iter().zip(&fields) {
                let made = patiently(async || match self.coordinator.create(unit, fields.clone()).await {
                    Ok(_) => Ok(true),
                    // As one that a look finds: it is named, and the others are worked on.
                    Err(LeaseError::Store(error)) if error.kind() == ErrorKind::Foreign => {
                        output::note(error.to_string());
                        Ok(false)
                    }
                    Err(LeaseError::Store(error)) => Err(error),
                    Err(_) => Ok(false),
                });
                created += usize::from(made.await?);
            }
            if created > 0 {
                // The first look came before they were there. What it can't find out, the next one does.
                let _later = self.coordinator.take_now().await;
            }
            Ok(created)
        })
    }

    fn next(&mut self) -> Underway<'_, Option<Event>> {
        Box::pin(async {
            loop {
                if let Some(event) = self.waiting.pop_front() {
                    return Some(event);
                }
                if self.leaving && self.assignments.is_empty() && self.stopping.is_none() {
                    let coordinator = self.coordinator.clone();
                    self.stopping = Some(tokio::spawn(async move { coordinator.stop().await }));
                }
                tokio::select! {
                    Some(tenure) = self.let_go.recv() => drop(self.assignments.remove(&tenure)),
                    event = self.events.next() => {
                        let event = self.on(event?);
                        if event.is_some() {
                            return event;
                        }
                    }
                }
            }
        })
    }

    fn end(&self) -> Result<(), Failure> {
        // Nobody else can ask it to leave.
        if self.leaving { Ok(()) } else { Err(member::crashed()) }
    }

    fn remaining(&self) -> Duration {
        let left = self.assignments.values().map(|(held, _)| held.remaining());
        left.filter(|left| !left.is_zero()).min().unwrap_or_default()
    }

    fn leave(&mut self) {
        self.leaving = true;
        self.coordinator.stop_taking();
        for (held, draining) in self.assignments.values() {
            draining.store(true, Ordering::SeqCst);
            let why = "is to be given back, since this worker leaves".to_owned();
            let unit = held.key().to_owned();
            self.waiting.push_back(Event::Draining { unit, why, within: self.grace });
        }
    }

    fn resign(&mut self) -> Underway<'_, ()> {
        Box::pin(self.coordinator.stop())
    }

    fn sound(&mut self) {}
}

/// A lease that this process has.
struct Leased {
    held: Held,
    draining: Arc<AtomicBool>,
}

impl Lease for Leased {
    fn key(&self) -> &str {
        self.held.key()
    }

    fn fence(&self) -> Option<Fence> {
        Some(Fence(self.held.counter_at_take()))
    }

    fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    fn is_over(&self) -> bool {
        self.held.loss().is_some()
    }
}

impl member::Unit for Leased {
    fn name(&self) -> &str {
        self.held.key()
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

struct Obligation {
    unit: Arc<Leased>,
    coordinator: Coordinator,
    told: mpsc::UnboundedSender<Tenure>,
    spent: bool,
}

impl Assignment for Obligation {
    fn unit(&self) -> Arc<dyn member::Unit> {
        Arc::clone(&self.unit) as Arc<dyn member::Unit>
    }

    fn drained(self: Box<Self>) {}

    fn lapse(mut self: Box<Self>) {
        self.spent = true;
        self.coordinator.lapse(&self.unit.held);
        let _left = self.told.send(tenure_of(&self.unit.held));
    }
}

impl Drop for Obligation {
    fn drop(&mut self) {
        if self.spent {
            return;
        }
        let (held, coordinator) = (self.unit.held.clone(), self.coordinator.clone());
        let told = self.told.clone();
        tokio::spawn(async move {
            // What can't be given back expires.
            let _lost_already = coordinator.give_back(&held).await;
            let _left = told.send(tenure_of(&held));
        });
    }
}

fn tenure_of(held: &Held) -> Tenure {
    (held.key().to_owned(), held.counter_at_take())
}

/// Why a lease was lost, with what helps. Of a damaged row its error says that: the verbs that show and remove records are for a store.
fn why_lost(loss: &Loss) -> String {
    let lost = output::Lost::of(loss);
    match loss {
        Loss::Unreachable(error) if error.kind() == ErrorKind::Foreign => lost.why,
        _ => lost.to_string(),
    }
}

/// What a new row of a shard has beside others that have it: without these, each of the KCL's workers fails as it lists the table.
fn fields_of_shard(unit: &str) -> Result<Fields, Failure> {
    let parts: Vec<&str> = unit.split(':').collect();
    match (parts.as_slice(), unit.rsplit_once(':')) {
        ([_, _, _, _], Some((stream, shard))) if parts.iter().all(|part| !part.is_empty()) => {
            let fields = [(STREAM, stream), (SHARD_ID, shard)];
            Ok(fields.map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned()))).into())
        }
        _ => Err(Failure::usage(format!(
            "{}: the table has the shards of several streams, as its rows have {STREAM}; a row without it fails every worker of \
             the KCL; name the unit ACCOUNT:STREAM:EPOCH:SHARD",
            escaped(unit)
        ))),
    }
}

/// What to say of rows that were passed over.
pub(crate) fn skipped(rows: usize) -> String {
    let rows = crate::text::count(rows, "row");
    format!(
        "{rows} passed over: by the KCL, what has another entityType than LEASE is no lease; if a8m/lease made this table, add \
         &peers=a8m to its URL"
    )
}

#[cfg(test)]
mod tests {
    //! Plan: of a damaged row no verb is named that knows no such table.
    use super::*;
    use tenure::StoreError;

    #[test]
    fn of_a_damaged_row_no_verb_is_named_that_can_not_mend_it() {
        let told = |error: StoreError| why_lost(&Loss::Unreachable(error));
        let damaged = told(StoreError::foreign("the row's leaseCounter is no number"));
        assert!(damaged.contains("leaseCounter") && !damaged.contains("`tenure"), "{damaged}");
        assert!(told(StoreError::unavailable("no answer")).contains("--ttl"));
    }
}
