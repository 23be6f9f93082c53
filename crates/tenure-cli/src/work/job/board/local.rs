//! Where a unit stands, and how its record tells that.

use crate::work::job::unit::{Status, Unit};
use tenure::store::Stored;
use tenure::{Key, Metadata, StoreError};

/// Where a unit stands, as far as is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Local {
    /// To be run by someone.
    Open,
    /// Claimed by this process, or about to be.
    Ours,
    Done,
    Failed,
    /// Its record is damaged, or is no unit's. It is left alone.
    Damaged,
    /// This version can't read its record, and a newer one may. It is left alone, and counts with those that are damaged.
    Newer,
    /// Its record was removed before it was settled, as far as is known here.
    Gone,
}

impl Local {
    /// By its record.
    pub(super) fn of(key: &Key, stored: &Result<Stored, StoreError>) -> Local {
        let metadata = match stored {
            Ok(stored) => &stored.record.metadata,
            Err(error) => return Local::unread(error.is_newer()),
        };
        match Unit::of(metadata).map(|unit| unit.status) {
            Some(Status::Pending) => Local::Open,
            Some(Status::Done) => Local::Done,
            Some(Status::Failed) => Local::Failed,
            None => Local::of_odd(key, metadata),
        }
    }

    /// By metadata that this version does not read as a unit's.
    pub(crate) fn of_odd(key: &Key, metadata: &Metadata) -> Local {
        Local::unread(Unit::problem(key, metadata).is_some_and(|problem| problem.is_newer()))
    }

    /// Of a unit whose record is not read. `is_newer`: a newer version may read it.
    pub(crate) fn unread(is_newer: bool) -> Local {
        if is_newer { Local::Newer } else { Local::Damaged }
    }
}
