//! Rows that are made again after they were moved.
//!
//! A peer that writes fields without a condition (a8m's `ForceUpdate`) makes a deleted row again, without a counter. The KCL's leader
//! makes the leases again that are missing beside the stream's shards, at their initial position: each two minutes, if there is none at all.
//! Their fleets take such a row for a free lease, beside the unit that is open by then. So moved rows are watched for a while and deleted again
//! before anybody takes them.

use super::Adopter;
use crate::{LeaseError, Row};
use std::collections::{BTreeMap, BTreeSet};
use tenure_core::StoreError;

/// What became of rows that had been moved.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remade {
    /// They were made again, and deleted again before anybody took them.
    pub deleted: BTreeSet<String>,
    /// They are leases again, beside the units of their names: who works on each.
    pub taken: BTreeMap<String, Option<String>>,
    /// They were made again so often that nobody knows whether it is over.
    pub restless: BTreeSet<String>,
}

impl Remade {
    /// Whether some unit may be worked on by both sides.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        !self.taken.is_empty() || !self.restless.is_empty()
    }
}

impl Adopter {
    /// Looks once for rows of these units, which have been moved, and deletes those that nobody has taken yet.
    ///
    /// # Errors
    /// Those of the table.
    ///
    /// # Cancel safety
    /// Some rows may have been deleted.
    pub async fn sweep(&self, moved: &BTreeSet<String>) -> Result<Remade, StoreError> {
        let (listing, mut remade) = (self.table.list().await?, Remade::default());
        for row in listing.rows.iter().filter(|row| moved.contains(row.key())) {
            let is_new = self.table.format().is_kcl() && row.was_never_taken();
            // Where somebody takes it just now, it is told as taken.
            if is_new && self.deleted(row).await? {
                remade.deleted.insert(row.key().to_owned());
                continue;
            }
            remade.taken.insert(row.key().to_owned(), row.holder().map(str::to_owned));
        }
        for key in listing.bare.into_iter().filter(|key| moved.contains(key)) {
            // Where somebody takes it just now, the next look shows that.
            if self.table.delete_bare(&key).await? {
                remade.deleted.insert(key);
            }
        }
        Ok(remade)
    }

    /// Whether the row was deleted as it was read.
    pub(super) async fn deleted(&self, row: &Row) -> Result<bool, StoreError> {
        match self.table.delete(row).await {
            Ok(()) => Ok(true),
            Err(LeaseError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
