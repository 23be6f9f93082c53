//! The units of a fleet, as anyone can see and change them.

mod creation;
mod orders;
mod untold;

use super::view::{Roster, UnitView, Units, member, view};
use crate::clock;
use crate::direct::DirectStore;
use crate::home::Home;
use std::sync::{Arc, Mutex, PoisonError};
use tenure_core::fleet::{
    About, FleetName, Planning, Status, UnitSpec, advance, generation, is_of_this_layout, other_layout,
    planner,
};
use tenure_core::gc::is_older;
use tenure_core::{
    Clock, Fence, HolderId, InvalidInput, Key, Metadata, Nonce, Nonces, Record, StoreError, Stored,
};
use tenure_store::{AnyStore, Expect, Listed, Outcome, Store, StoreExt, Write};
use untold::UntoldChanges;

/// A fleet: its units and its workers. Cheap to clone; needs no session, and costs nothing while nothing is asked of it.
#[derive(Clone)]
pub struct Fleet {
    store: Arc<DirectStore>,
    name: FleetName,
    clock: Arc<dyn Clock>,
    has_own_clock: bool,
    nonces: Arc<Mutex<Nonces>>,
    /// Something may have been changed through this handle that the workers were not told of.
    untold: Arc<UntoldChanges>,
}

/// A record that changes more often than this under our hands is not merely worked on.
const ATTEMPTS: usize = 16;

impl Fleet {
    /// The fleet of this name on `store`. Nothing is asked of the store yet.
    ///
    /// # Errors
    /// When the name is empty, longer than 128 bytes or has a `/` in it, or the store can't list or keep fences.
    pub fn new(store: impl Store, name: impl Into<String>) -> Result<Fleet, InvalidInput> {
        Fleet::of(AnyStore::new(store), name.into(), clock::system(), false)
    }

    /// As [`Fleet::new`], with another clock than the machine's: for tests. Its workers renew on the runtime around their start.
    ///
    /// # Errors
    /// As [`Fleet::new`].
    pub fn with_clock(
        store: impl Store,
        name: impl Into<String>,
        clock: Arc<dyn Clock>,
    ) -> Result<Fleet, InvalidInput> {
        Fleet::of(AnyStore::new(store), name.into(), clock, true)
    }

    /// The same with other random bits than the machine's, for tests that repeat a run. Two processes must never have the same, nor two starts of
    /// one: each would take the other's writes for its own. Its workers have [random bits of their own](super::WorkerBuilder::instance).
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn instance(self, instance: u64) -> Fleet {
        Fleet { nonces: Fleet::nonces_of(instance), ..self }
    }

    fn nonces_of(instance: u64) -> Arc<Mutex<Nonces>> {
        Arc::new(Mutex::new(Nonces::new(instance ^ OUTSIDE_MACHINES)))
    }

    fn of(
        store: AnyStore,
        name: String,
        clock: Arc<dyn Clock>,
        has_own_clock: bool,
    ) -> Result<Fleet, InvalidInput> {
        let can = store.capabilities();
        if !can.list || !can.fencing {
            let text =
                "this store can't list records or keep fences, and a fleet needs both; use another store";
            return Err(InvalidInput::new(text));
        }
        let nonces = Fleet::nonces_of(clock::instance());
        let (name, untold) = (FleetName::new(name)?, Arc::default());
        let store = Arc::new(DirectStore::new(store, Arc::clone(&clock), Home::of(None, has_own_clock)));
        Ok(Fleet { store, name, clock, has_own_clock, nonces, untold })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &FleetName {
        &self.name
    }

    /// The store that it is on.
    #[must_use]
    pub fn store(&self) -> &AnyStore {
        self.store.store()
    }

    pub(super) fn has_own_clock(&self) -> bool {
        self.has_own_clock
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(super) fn nonce(&self) -> Nonce {
        // No code that can panic runs under the lock.
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }

    /// One unit, if it is there.
    ///
    /// # Errors
    /// `Foreign` when its record is none of a unit; else the store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn get(&self, unit: &str) -> Result<Option<UnitView>, StoreError> {
        let stored = self.store.read(&self.name.unit(unit)?).await?;
        let view = stored.map(|stored| view(unit, stored)).transpose()?;
        Ok(view.filter(|view| view.spec.status != Status::Deleted))
    }

    /// All units, complete at any number.
    ///
    /// # Errors
    /// The store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn list(&self) -> Result<Units, StoreError> {
        let mut all = Units::default();
        for listed in self.store.list_all(&self.name.unit_prefix()).await? {
            let name = self.name.unit_of(&listed.key).unwrap_or_default();
            match listed.stored.and_then(|stored| view(name, stored)) {
                Ok(view) if view.spec.status == Status::Deleted => {}
                Ok(view) => all.units.push(view),
                Err(error) => all.damaged.push((name.to_owned(), error)),
            }
        }
        Ok(all)
    }

    /// All workers whose sessions were not given up, and those whose sessions can't be read. One that died is listed until its units are taken over; its
    /// [`Member::age`](super::Member::age) shows it where the store tells ages.
    ///
    /// # Errors
    /// The store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn roster(&self) -> Result<Roster, StoreError> {
        let (prefix, mut all) = (self.name.worker_prefix(), Roster::default());
        for Listed { key, stored } in self.store.list_all(&prefix).await? {
            match stored {
                Ok(stored) => all.members.extend(member(stored)),
                Err(error) => {
                    let name = key.as_str().strip_prefix(&prefix).unwrap_or_default();
                    all.damaged.push((name.to_owned(), error));
                }
            }
        }
        Ok(all)
    }

    /// Who plans, who is to take that place, and which plan was told last; none if no worker has been there yet. Costs one read.
    ///
    /// # Errors
    /// The store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn planning(&self) -> Result<Option<Planning>, StoreError> {
        let board = self.store.read(&self.name.board()?).await?;
        Ok(board.map(|board| Planning::of(&board.record)))
    }

    /// Whether this fleet's workers are of a version that divides units as this one does. A worker of another version plans for itself, and is
    /// left out by those of this one. Each worker asks this before it takes part. Ask by yourself before units are created.
    ///
    /// Costs one read where a worker of this version plans, and else a page of the roster, or more where the first workers in it are dead. Who has been silent for two ttls by the wall
    /// clock and by the store's counts as dead.
    ///
    /// # Errors
    /// `Foreign` when one of another version is at work: it names that worker and what to do. Else the store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn check_layout(&self) -> Result<(), StoreError> {
        match self.of_another_layout().await? {
            Some(worker) => Err(other_layout(&self.name, &worker)),
            None => Ok(()),
        }
    }

    /// A live worker of another layout, if such workers are there. Those of a fleet are all of one, but for mistakes: the first that lives
    /// tells. So many workers that come at once don't each list all that have come before.
    pub(super) async fn of_another_layout(&self) -> Result<Option<HolderId>, StoreError> {
        const PAGE: usize = 32;
        let board = self.store.read(&self.name.board()?).await?;
        if board.is_none_or(|board| planner(&board.record).is_some()) {
            return Ok(None);
        }
        let (now, prefix) = (self.clock.now().wall, self.name.worker_prefix());
        let mut after = None;
        loop {
            let page = self.store.list(&prefix, after.as_ref(), PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|listed| listed.key.clone());
            for listed in page {
                let Ok(stored) = listed.stored else { continue };
                let Some(tenure) = &stored.record.tenure else { continue };
                let is_worker = About::parse(&stored.record.metadata).is_some();
                if is_worker && !is_older(now, &stored, tenure.ttl.duration() * 2) {
                    let is_other = !is_of_this_layout(&stored.record.metadata);
                    return Ok(is_other.then(|| tenure.holder.clone()));
                }
            }
            if is_last {
                return Ok(None);
            }
        }
    }

    /// Changes a unit, whoever holds it: its weight, its needs, its fields, or whether it is done. One that has failed, and is left
    /// alone for a while, is tried again at once, as by a change that takes [`UnitSpec::retry`] away. A worker that holds it goes
    /// on; a checkpoint, or its end, leaves the fields as they are then, and [`Unit::update`](super::Unit::update) replaces
    /// them. Returns what it came to; none if there is no such unit.
    ///
    /// `change` may be called more than once. Where it changes nothing, nothing is written.
    ///
    /// # Errors
    /// `Invalid` when what `change` made of it is no good; `Unavailable` when the record changes too fast; else the
    /// store's. The change may be made then without workers being told of it: the next one through this handle or a clone of
    /// it makes up for that, and so does [`Fleet::tell`].
    ///
    /// # Cancel safety
    /// When the future is dropped the change may be made or not.
    pub async fn update(
        &self,
        unit: &str,
        change: impl FnMut(&mut UnitSpec, &mut Metadata),
    ) -> Result<Option<UnitView>, StoreError> {
        let changed = self.change(unit, None, change).await?;
        if self.untold.is_any() {
            self.tell().await?;
        }
        Ok(changed)
    }

    async fn change(
        &self,
        unit: &str,
        only: Option<Fence>,
        mut change: impl FnMut(&mut UnitSpec, &mut Metadata),
    ) -> Result<Option<UnitView>, StoreError> {
        let key = self.name.unit(unit)?;
        for _ in 0..ATTEMPTS {
            let Some(stored) = self.store.read(&key).await? else { return Ok(None) };
            let (mut spec, mut fields) = UnitSpec::parse(stored.record.metadata.clone())?;
            if spec.status == Status::Deleted || only.is_some_and(|fence| fence != stored.record.fence) {
                return Ok(None);
            }
            let before = (spec.clone(), fields.clone());
            change(&mut spec, &mut fields);
            if (&spec, &fields) == (&before.0, &before.1) {
                return view(unit, stored).map(Some);
            }
            // What has failed until now may not do so any more.
            spec.retry = spec.retry.filter(|_| spec.retry != before.0.retry);
            let metadata = spec.compose_over(fields, &stored.record.metadata)?;
            tenure_store::codec::check_metadata(&metadata)?;
            // The tenure stays as it is, and so does its heartbeat: this prolongs nothing.
            let record = Record { nonce: self.nonce(), metadata, ..stored.record };
            let expect = Expect::Unchanged(stored.version);
            let written = Stored::new(record.clone());
            let news = spec != before.0;
            // Before the write, since its answer may be lost; after it, since somebody else may have told in between.
            let note = || news.then(|| self.untold.note());
            note();
            if let Outcome::Won { .. } = self.store.write(Write { key: key.clone(), expect, record }).await? {
                note();
                return view(unit, written).map(Some);
            }
        }
        Err(StoreError::unavailable(format!("the record of {key} changes too fast; try again")))
    }

    /// Deletes a unit: nobody is given it any more, and whoever holds it lets go of it. False: there is no such unit.
    ///
    /// Its record stays, for its fence, until `gc` removes it.
    ///
    /// # Errors
    /// As [`Fleet::update`].
    ///
    /// # Cancel safety
    /// As [`Fleet::update`].
    pub async fn delete(&self, unit: &str) -> Result<bool, StoreError> {
        let is_new = self.delete_untold(unit).await?;
        // Also if it is found deleted: whoever did that may not have been able to tell.
        self.tell().await?;
        Ok(is_new)
    }

    /// As [`Fleet::delete`], but workers are not told yet: where many units go one after the other, [`Fleet::tell`] tells of all at once.
    ///
    /// # Errors
    /// As [`Fleet::update`], but for what is told. An `Unknown` outcome leaves the unit deleted or not.
    ///
    /// # Cancel safety
    /// As [`Fleet::update`].
    pub async fn delete_untold(&self, unit: &str) -> Result<bool, StoreError> {
        Ok(self.change(unit, None, |spec, _| spec.status = Status::Deleted).await?.is_some())
    }

    /// Tells all workers to look into the fleet again. What is changed through this interface is told by itself.
    ///
    /// # Errors
    /// The store's. What was changed before is changed; workers find out by themselves, in time.
    ///
    /// # Cancel safety
    /// When the future is dropped the workers may be told or not. Telling them twice does no harm.
    pub async fn tell(&self) -> Result<(), StoreError> {
        /// Nobody was told, unless this is forgotten.
        struct Untold<'a>(&'a UntoldChanges);
        impl Drop for Untold<'_> {
            fn drop(&mut self) {
                self.0.note();
            }
        }
        let (newest, untold) = (self.untold.newest(), Untold(&self.untold));
        self.raise_board().await?;
        std::mem::forget(untold);
        self.untold.told(newest);
        Ok(())
    }

    async fn raise_board(&self) -> Result<(), StoreError> {
        let board = self.name.board()?;
        let mut seen = self.store.read(&board).await?;
        let before = generation(seen.as_ref());
        for _ in 0..ATTEMPTS {
            let write = advance(board.clone(), seen.as_ref(), self.nonce(), self.clock.now().wall)?;
            match self.store.write(write).await? {
                Outcome::Won { .. } => return Ok(()),
                // It was read after what there is to tell, so whoever has raised it since has told that, too.
                Outcome::Lost(standing) if generation(standing.as_ref()) > before => return Ok(()),
                Outcome::Lost(standing) => seen = standing,
            }
        }
        Err(StoreError::unavailable(format!("{board} changes too fast; try again")))
    }
}

/// Tells this handle's nonces from those of machines.
const OUTSIDE_MACHINES: u64 = 0x756e_6974_756e_6974;

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("name", &self.name).field("store", self.store()).finish_non_exhaustive()
    }
}

/// The key of a unit, for those that read records themselves.
impl Fleet {
    /// The key of a unit's record.
    ///
    /// # Errors
    /// When the unit's name is empty or too long.
    pub fn key(&self, unit: &str) -> Result<Key, InvalidInput> {
        self.name.unit(unit)
    }
}
