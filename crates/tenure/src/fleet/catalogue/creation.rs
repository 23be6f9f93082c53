//! The creation of units, also over those that were deleted.

use super::Fleet;
use crate::acquire_request::AcquireRequest;
use crate::error::AcquireError;
use crate::fleet::view::NewUnit;
use crate::leases::Leases;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::fleet::{Status, UnitSpec};
use tenure_core::{Fence, Key, Record, StoreError, Stored, Ttl};
use tenure_store::{Expect, Outcome, Store, StoreExt, Write};

impl Fleet {
    /// Creates a unit, unless it is there. False: it was, and is left as it is.
    ///
    /// # Errors
    /// `Invalid` when the name, the weight or the fields are no good, before any I/O; `Unavailable` while a deleted unit of that name has a worker that may
    /// believe in it: try again, for a ttl of that worker once it is dead; else the store's.
    ///
    /// # Cancel safety
    /// When the future is dropped the unit may be there or not; creating it again is harmless.
    pub async fn create(&self, unit: NewUnit) -> Result<bool, StoreError> {
        Ok(self.create_all([unit]).await? > 0)
    }

    /// Creates many units in few requests, and returns how many were not there yet.
    ///
    /// # Errors
    /// As [`Fleet::create`]; when one unit is no good, none is created.
    ///
    /// # Cancel safety
    /// As [`Fleet::create`].
    pub async fn create_all(&self, units: impl IntoIterator<Item = NewUnit>) -> Result<usize, StoreError> {
        let writes = units.into_iter().map(|unit| self.creation(unit)).collect::<Result<Vec<_>, _>>()?;
        if writes.is_empty() {
            return Ok(0);
        }
        let change = self.untold.note();
        match self.create_each(writes).await {
            Ok((created, true)) => self.tell().await.map(|()| created),
            Ok((created, false)) => {
                self.untold.was_none(change);
                Ok(created)
            }
            Err(error) => {
                // Some may be there now. If they can't be told of now, the next attempt does it.
                let _ = self.tell().await;
                Err(error)
            }
        }
    }

    /// How many were not there yet, and whether workers have to hear of any of them.
    async fn create_each(&self, writes: Vec<Write>) -> Result<(usize, bool), StoreError> {
        let outcomes = self.store.write_all(writes.clone()).await?;
        let (mut created, mut news, mut held) = (0, false, None);
        for (write, outcome) in writes.into_iter().zip(outcomes) {
            let is_new = match outcome {
                Outcome::Won { .. } => Some(true),
                Outcome::Lost(Some(standing)) => {
                    // Whoever made it may not have been able to tell, if nobody has it.
                    news |= standing.record.tenure.is_none() && is_open(&standing);
                    let key = write.key.clone();
                    let is_new = self.create_anew(write, standing).await?;
                    if is_new.is_none() {
                        held.get_or_insert(key);
                    }
                    is_new
                }
                Outcome::Lost(None) => Some(false),
            };
            created += usize::from(is_new == Some(true));
        }
        match held {
            Some(key) => Err(StoreError::unavailable(format!(
                "{key} was deleted, and its worker has not let go of it yet; try again"
            ))),
            None => Ok((created, news || created > 0)),
        }
    }

    fn creation(&self, unit: NewUnit) -> Result<Write, StoreError> {
        let key = self.name.unit(&unit.name)?;
        let metadata = unit.spec.compose(unit.fields)?;
        tenure_store::codec::check_metadata(&metadata)?;
        let wall = self.clock.now().wall;
        let fence = Fence::floor(wall);
        let record = Record { fence, nonce: self.nonce(), stamp: wall, tenure: None, metadata };
        Ok(Write { key, expect: Expect::Absent, record })
    }

    /// Over a deleted unit that nobody holds any more, whose fence goes on. None: somebody may.
    async fn create_anew(&self, mut write: Write, mut standing: Stored) -> Result<Option<bool>, StoreError> {
        if !is_deleted(&standing)? {
            return Ok(Some(false));
        }
        if let Some(tenure) = &standing.record.tenure {
            let ttl = tenure.ttl;
            self.vacate(&write.key, ttl, standing).await?;
            match self.store.read(&write.key).await? {
                Some(vacated) if !is_deleted(&vacated)? => return Ok(Some(false)),
                Some(vacated) if vacated.record.tenure.is_none() => standing = vacated,
                _ => return Ok(None),
            }
        }
        write.expect = Expect::Unchanged(standing.version);
        write.record.fence = standing.record.fence.next(write.record.fence)?;
        write.record.nonce = self.nonce();
        Ok(Some(matches!(self.store.write(write).await?, Outcome::Won { .. })))
    }

    /// Takes a deleted unit from a worker that has died or has lost its session, and gives it up. No plan names such a unit, so no worker does this.
    ///
    /// It is claimed as any lease is: whoever may still believe in it keeps it, and a silent session is ended before.
    async fn vacate(&self, key: &Key, ttl: Ttl, standing: Stored) -> Result<(), StoreError> {
        // Whoever gives this up waits for nothing.
        let builder = Leases::builder(self.store().clone()).linger(Duration::ZERO);
        let builder = if self.has_own_clock { builder.clock(Arc::clone(&self.clock)) } else { builder };
        let leases = builder.start()?;
        let claimed = AcquireRequest::try_unit(&leases, key.clone(), ttl, standing).await;
        let result = match claimed {
            Ok(guard) => {
                // Where that fails, the record shows it.
                guard.release().await;
                Ok(())
            }
            // The record shows that, or that it was removed meanwhile.
            Err(AcquireError::Held(_) | AcquireError::Stopped | AcquireError::Absent) => Ok(()),
            Err(AcquireError::Store(error)) => Err(error),
        };
        leases.stop().await;
        result
    }
}

fn is_deleted(stored: &Stored) -> Result<bool, StoreError> {
    let (spec, _) = UnitSpec::parse(stored.record.metadata.clone())?;
    Ok(spec.status == Status::Deleted)
}

fn is_open(stored: &Stored) -> bool {
    UnitSpec::parse(stored.record.metadata.clone()).is_ok_and(|(spec, _)| spec.status == Status::Open)
}
