//! The way off a lease table of the KCL's or a8m's layout: a running fleet moves to tenure's own, unit by unit.
//!
//! For each row: its unit is created closed, so that no worker is given it; the row is taken, and kept until its last owner must
//! have noticed; the unit gets the row's fields as they are then; the row is deleted; the unit is opened. At each point exactly
//! one side can have it, and whoever finds it half way knows by the unit's mark how far it was. One thing the marks can't tell: who deleted a
//! row that was about to be. It may have been a peer, that had the row again and has done its work. Such a unit is left to its users.
//!
//! Each row is taken under a worker id of its own. An adopter that had many under one would be the worker with most, from whom
//! all others steal; as it is, it looks like many workers with one lease each, and nobody has fewer.

mod all;
mod marks;
mod order;
mod remade;
mod values;

pub use all::{AdoptedAll, AdoptionProgress};
pub use remade::Remade;

use crate::row::bare_error;
use crate::shards::{OpenShards, is_at_end};
use crate::{Edit, LeaseError, Options, Row, Table};
use marks::{COMING, GONE, HERE, mark, spec_is};
use order::ParentsSeen;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure::clock;
use tenure::fleet::{Fleet, NewUnit, Status};
use tenure_core::{Clock, ErrorKind, StoreError};
use tokio::sync::Mutex;
use values::typed;

/// What the worker ids of adopters begin with, so that they know each other.
const ADOPTER: &str = "tenure-adopt-";

/// How often a row is taken that others take meanwhile.
const ATTEMPTS: usize = 32;

/// How far the adoption of a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AdoptionStep {
    /// There is a unit, closed to all workers.
    Closed,
    /// The row is the adopter's. Its last owner may not know yet.
    Taken,
    /// Its last owner must have noticed.
    Quiet,
    /// The unit has the row's fields, and is marked as ready.
    Ready,
    /// The row is gone.
    Deleted,
    /// Workers may have the unit.
    Opened,
}

/// What became of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Adopted {
    /// It is in the fleet now, with all its fields.
    Moved,
    /// An earlier adoption had moved it all but for its opening.
    Opened,
    /// Its row was deleted by others meanwhile, so there is nothing to move. A unit that was made for it is deleted again.
    Gone,
    /// It was told to stop. What was done so far is found again.
    Stopped,
    /// Its row is gone, and nobody knows who deleted it: an earlier adoption that has ended just then, or whoever has had the row since, and has
    /// perhaps done its work. It stays closed: see [`Adopter::open_doubtful`].
    Doubtful,
    /// Its shard was read to its end meanwhile (`SHARD_END`), or has children in the table by now. The row was given back to the table's workers, and
    /// a unit that was made for it is deleted again: see [`AdoptionFindings::resharding`].
    Resharding,
}

/// Moves units from a lease table into a fleet. Clones are the same adopter.
#[derive(Clone)]
pub struct Adopter {
    table: Table,
    fleet: Fleet,
    options: Options,
    clock: Arc<dyn Clock>,
    ids: Arc<AtomicU64>,
    parents: Arc<Mutex<ParentsSeen>>,
}

/// What there is to move.
#[derive(Debug, Default, Clone, PartialEq)]
#[non_exhaustive]
pub struct AdoptionFindings {
    /// Rows, with who works on each.
    pub rows: BTreeMap<String, Option<String>>,
    /// Units of an earlier adoption whose rows are gone.
    pub half_way: Vec<String>,
    /// Units of an earlier adoption whose rows are gone, perhaps as others have done their work: [`Adopted::Doubtful`].
    pub doubtful: BTreeSet<String>,
    /// Rows that can't be read, and units that can't; but for rows without a counter that go when units of an earlier adoption are
    /// opened.
    pub damaged: Vec<StoreError>,
    /// Rows without a counter of units that the fleet has open, made again after they had been moved by a write that knows no condition.
    pub remade: BTreeSet<String>,
    /// Rows that are leases, beside units of their names that the fleet has open: who works on each. Made again after they had been moved, as
    /// the KCL's leader does with missing ones; or the unit is no adoption's.
    pub beside: BTreeMap<String, Option<String>>,
    /// How many rows are no leases by the KCL, because they have another `entityType`. They are left as they are.
    pub skipped: usize,
    /// Rows of the KCL's shards that were read to their end (`SHARD_END`), and are not to be moved: there is no work on them.
    pub finished: BTreeSet<String>,
    /// Rows of the KCL's shards that wait for a parent that is being read still, and which that is. Neither is to be moved: a worker of a fleet
    /// does not wait for parents, and a worker of the KCL begins a child whose parent has no row.
    pub resharding: BTreeMap<String, String>,
}

impl AdoptionFindings {
    /// Takes rows of shards out that are not to be moved (now), but for those beside an open unit, which are told as such.
    fn leave_in_order(&mut self, rows: &[Row], open: &OpenShards<'_>) {
        for row in rows.iter().filter(|row| !self.beside.contains_key(row.key())) {
            if is_at_end(row) {
                self.finished.insert(row.key().to_owned());
            } else if let Some(parent) = open.awaited_by(row) {
                self.resharding.insert(row.key().to_owned(), parent);
            }
        }
        let (finished, resharding) = (&self.finished, &self.resharding);
        let parents: BTreeSet<&String> = resharding.values().collect();
        self.rows.retain(|key, _| {
            !finished.contains(key) && !resharding.contains_key(key) && !parents.contains(key)
        });
    }
}

impl Adopter {
    /// Moves from `table` into `fleet`. The options' worker id is part of what this process is called in the table, and their failover
    /// time must be that of the workers there. [`Options::shards`] says whether the order of shards counts.
    ///
    /// # Errors
    /// When the options contradict themselves.
    pub fn new(table: Table, fleet: Fleet, options: Options) -> Result<Adopter, StoreError> {
        options.check()?;
        let (clock, ids, parents) = (clock::system(), Arc::default(), Arc::default());
        Ok(Adopter { table, fleet, options, clock, ids, parents })
    }

    /// A name for the next row that is taken.
    fn id(&self) -> String {
        let n = self.ids.fetch_add(1, Ordering::SeqCst);
        format!("{ADOPTER}{}/{n}", self.options.worker())
    }

    /// Who else adopts from this table now, if somebody does. Where rows are an adopter's, it takes half a failover time to tell
    /// whether that one lives.
    ///
    /// # Errors
    /// Those of the table.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn rival(&self) -> Result<Option<String>, StoreError> {
        let theirs = || async {
            let rows = self.table.list().await?.rows.into_iter();
            let theirs = rows.filter_map(|row| {
                let owner = row.owner().filter(|owner| owner.starts_with(ADOPTER))?.to_owned();
                Some((row.key().to_owned(), (owner, row.counter())))
            });
            Ok::<BTreeMap<_, _>, StoreError>(theirs.collect())
        };
        let before = theirs().await?;
        if before.is_empty() {
            return Ok(None);
        }
        tokio::time::sleep(self.options.failover_time() / 2).await;
        let alive = theirs().await?.into_iter().find(|(key, seen)| before.get(key) != Some(seen));
        Ok(alive.map(|(_, (owner, _))| owner))
    }

    /// Looks for what there is to move, and changes nothing.
    ///
    /// # Errors
    /// Those of the two stores.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn find(&self) -> Result<AdoptionFindings, StoreError> {
        let (listing, units) = (self.table.list().await?, self.fleet.list().await?);
        let mut found = AdoptionFindings {
            damaged: listing.foreign,
            skipped: listing.skipped,
            ..AdoptionFindings::default()
        };
        found.rows =
            listing.rows.iter().map(|row| (row.key().to_owned(), row.holder().map(str::to_owned))).collect();
        let moved = units.units.iter().filter(|unit| !found.rows.contains_key(&unit.name));
        let of_adoption = moved.clone().filter(|unit| mark(&unit.spec).is_some());
        let (doubtful, half_way): (Vec<_>, Vec<_>) = of_adoption.partition(|unit| spec_is(&unit.spec, HERE));
        found.half_way = half_way.into_iter().map(|unit| unit.name.clone()).collect();
        found.doubtful = doubtful.into_iter().map(|unit| unit.name.clone()).collect();
        for unit in units.units.iter().filter(|unit| spec_is(&unit.spec, GONE)) {
            if listing.bare.contains(&unit.name) {
                // It goes when the unit is opened.
                let error = bare_error(self.table.format(), &unit.name);
                found.damaged.retain(|damaged| Some(damaged) != error.as_ref());
            }
        }
        found.damaged.extend(units.damaged.into_iter().map(|(unit, error)| error.about(unit)));
        let open =
            units.units.iter().filter(|unit| unit.spec.status == Status::Open && mark(&unit.spec).is_none());
        for unit in open {
            if listing.bare.contains(&unit.name) {
                found.remade.insert(unit.name.clone());
            }
            if let Some(worker) = found.rows.get(&unit.name) {
                found.beside.insert(unit.name.clone(), worker.clone());
            }
        }
        if self.has_shards() {
            // Parents that were moved are read by the fleet, until it has finished them.
            let read = moved.filter(|unit| unit.spec.status == Status::Open);
            let read = read.map(|unit| unit.name.clone());
            let elsewhere: Vec<String> = read.chain(listing.unreadable).collect();
            found.leave_in_order(&listing.rows, &OpenShards::of(&listing.rows, &elsewhere));
        }
        Ok(found)
    }

    /// Moves one unit. [`Adopter::find`] tells which are to be moved; the row of a shard that has been finished since, or has got children, is given
    /// back. A child is moved whatever its parents are at. `goes_on` is told each step that is done, and says whether to go on.
    ///
    /// # Errors
    /// Those of the two stores; `Invalid` when the row's fields don't fit a unit, or there is an open unit of that name that is no
    /// adoption's. Nothing is lost: the row stays until the unit has everything, and the next attempt finds how far this one was.
    ///
    /// # Cancel safety
    /// As with an error.
    pub async fn adopt(
        &self,
        unit: &str,
        mut goes_on: impl FnMut(AdoptionStep) -> bool,
    ) -> Result<Adopted, StoreError> {
        let standing = self.fleet.get(unit).await?.map(|unit| mark(&unit.spec));
        let found = match self.table.read(unit).await {
            // A write without a condition has made the row again that an earlier adoption had deleted.
            Err(error) if error.kind() == ErrorKind::Foreign && standing == Some(Some(GONE)) => {
                if self.table.delete_bare(unit).await? { None } else { self.table.read(unit).await? }
            }
            found => found?,
        };
        let Some(mut row) = found else {
            return self.finish(unit, standing.flatten(), goes_on).await;
        };
        let fields = typed(&row)?;
        match standing {
            Some(Some(GONE)) => {
                self.clear(&row).await?;
                return self.finish(unit, Some(GONE), goes_on).await;
            }
            // Whoever has had the row since may have written other fields.
            Some(Some(HERE)) => self.mark(unit, COMING, None).await?,
            Some(Some(_)) => {}
            Some(None) => {
                return Err(StoreError::invalid(format!(
                    "fleet {} has a unit {unit:?} already that is no adoption's, beside the row of that name; remove one of the \
                     two, so that nobody works on both",
                    self.fleet.name()
                )));
            }
            None => {
                let closed = NewUnit::named(unit).needs(COMING).fields(fields);
                self.fleet.create(closed).await?;
            }
        }
        if !goes_on(AdoptionStep::Closed) {
            return Ok(Adopted::Stopped);
        }
        let id = self.id();
        for _ in 0..ATTEMPTS {
            // One that looks as if nobody had ever had it may have been made anew. Whoever had the old one may not know yet.
            let was_had = !row.was_given_back();
            match self.table.take(&row, &id).await {
                Ok(taken) => {
                    if !goes_on(AdoptionStep::Taken) {
                        return Ok(Adopted::Stopped);
                    }
                    match self.carry_over(taken, was_had, &mut goes_on).await {
                        Err(LeaseError::Changed(_)) => {}
                        Err(error) => return Err(plain(error)),
                        Ok(Adopted::Moved) => {
                            self.open(unit).await?;
                            goes_on(AdoptionStep::Opened);
                            return Ok(Adopted::Moved);
                        }
                        Ok(otherwise) => return Ok(otherwise),
                    }
                }
                Err(LeaseError::Changed(_)) => {}
                Err(error) => return Err(plain(error)),
            }
            match self.table.read(unit).await? {
                Some(now) => row = now,
                None => {
                    let standing = self.fleet.get(unit).await?;
                    return self.finish(unit, standing.and_then(|unit| mark(&unit.spec)), goes_on).await;
                }
            }
        }
        Err(StoreError::unavailable(format!("the row of {unit:?} changes owners too often; try again")))
    }

    /// Keeps a row that was just taken until its last owner must have noticed, and then carries it over, all but for the unit's opening. It does not
    /// where it is told to stop, or the order of shards forbids it.
    async fn carry_over(
        &self,
        mut row: Row,
        was_had: bool,
        goes_on: &mut impl FnMut(AdoptionStep) -> bool,
    ) -> Result<Adopted, LeaseError> {
        let failover = self.options.failover_time();
        // As a waiter counts, from after the answer.
        let wait = if was_had { failover } else { Duration::ZERO };
        let quiet = self.clock.now().waited.after(wait);
        loop {
            let left = quiet.since(self.clock.now().waited);
            if left.is_zero() {
                break;
            }
            tokio::time::sleep(left.min(failover / 3)).await;
            row = self.table.renew(&row, &Edit::new()).await?;
        }
        if !goes_on(AdoptionStep::Quiet) {
            return Ok(Adopted::Stopped);
        }
        // Nobody makes children any more who has read this shard.
        let has_children = self.has_children(row.key(), self.clock.now().waited).await?;
        // Once more, for the fields as they are now that nobody else writes them.
        row = self.table.renew(&row, &Edit::new()).await?;
        if has_children || self.is_finished(&row) {
            return self.leave(&row).await;
        }
        let fields = typed(&row)?;
        self.mark(row.key(), HERE, Some(fields)).await?;
        if !goes_on(AdoptionStep::Ready) {
            return Ok(Adopted::Stopped);
        }
        if let Err(error) = self.table.delete(&row).await {
            if error == LeaseError::Changed(row.key().to_owned()) {
                // It is another's again, who will write other fields.
                self.mark(row.key(), COMING, None).await?;
            }
            return Err(error);
        }
        self.mark_gone(row.key()).await?;
        Ok(if goes_on(AdoptionStep::Deleted) { Adopted::Moved } else { Adopted::Stopped })
    }
}

fn plain(error: LeaseError) -> StoreError {
    match error {
        LeaseError::Store(error) => error,
        other => StoreError::unavailable(other.to_string()),
    }
}

impl fmt::Debug for Adopter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopter")
            .field("table", &self.table)
            .field("fleet", &self.fleet)
            .finish_non_exhaustive()
    }
}
