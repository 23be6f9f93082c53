//! The order of shards, which a fleet does not know. The find looks at it before anything is moved. Until a row is the adopter's, its worker may
//! come to the end of its shard, and make rows of the children. So it is looked at once more when the last owner must have noticed.

use super::{Adopted, Adopter};
use crate::shards::{is_at_end, parents_in};
use crate::{LeaseError, Row};
use std::collections::BTreeSet;
use tenure_core::{StoreError, Tick};

/// The leases of which children have rows, and when the look began that has shown them.
pub(super) type ParentsSeen = Option<(Tick, BTreeSet<String>)>;

impl Adopter {
    /// Whether rows may be shards of a stream.
    pub(super) fn has_shards(&self) -> bool {
        self.options.shards.unwrap_or_else(|| self.table.format().is_kcl())
    }

    /// Whether this lease has children in the table, by a look that began at `since` or later.
    pub(super) async fn has_children(&self, key: &str, since: Tick) -> Result<bool, StoreError> {
        if !self.has_shards() {
            return Ok(false);
        }
        // Those that adopt side by side share a look.
        let mut seen = self.parents.lock().await;
        if let Some((_, parents)) = seen.as_ref().filter(|(began, _)| *began >= since) {
            return Ok(parents.contains(key));
        }
        let began = self.clock.now().waited;
        let parents = parents_in(&self.table.list().await?.rows);
        let has_children = parents.contains(key);
        *seen = Some((began, parents));
        Ok(has_children)
    }

    /// Whether this row of a shard has nothing more to be read.
    pub(super) fn is_finished(&self, row: &Row) -> bool {
        self.has_shards() && is_at_end(row)
    }

    /// Gives a row of the adopter's back to the table's own workers, and deletes the unit that was made for it.
    pub(super) async fn leave(&self, row: &Row) -> Result<Adopted, LeaseError> {
        // First, so that whoever is killed in between leaves a row that expires, and no unit that is closed for ever.
        self.fleet.delete(row.key()).await?;
        match self.table.evict(row).await {
            // It is another's already.
            Ok(()) | Err(LeaseError::Changed(_)) => Ok(Adopted::Resharding),
            Err(error) => Err(error),
        }
    }
}
