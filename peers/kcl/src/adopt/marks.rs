//! How far the adoption of a unit is, as the unit itself tells, and what is done about units whose rows are gone.

use super::{Adopted, Adopter, AdoptionStep};
use crate::Row;
use tenure::fleet::Status;
use tenure_core::fleet::UnitSpec;
use tenure_core::{Metadata, StoreError};

/// Units with this label are closed: their rows are still in the other table.
pub(super) const COMING: &str = "tenure/adoption-begun";
/// Units with this one are closed too: they have all fields, and their rows are about to be deleted.
pub(super) const HERE: &str = "tenure/adoption-ready";
/// Units with this one are closed still, and to be opened: their rows were deleted by the adopter.
pub(super) const GONE: &str = "tenure/adoption-moved";

impl Adopter {
    /// Opens a unit that is [`Adopted::Doubtful`], for whoever knows that its work is not done. It stays as it is if it is no such unit any more.
    ///
    /// # Errors
    /// Those of the two stores; `Invalid` when there is a row of that name: to adopt it tells what to do.
    ///
    /// # Cancel safety
    /// It may have been opened, or not.
    pub async fn open_doubtful(&self, unit: &str) -> Result<(), StoreError> {
        if self.table.read(unit).await?.is_some() {
            return Err(StoreError::invalid(format!("there is a row of {unit:?} again; adopt it")));
        }
        self.open(unit).await
    }

    /// What is to be done where there is no row (any more).
    pub(super) async fn finish(
        &self,
        unit: &str,
        mark: Option<&'static str>,
        mut goes_on: impl FnMut(AdoptionStep) -> bool,
    ) -> Result<Adopted, StoreError> {
        match mark {
            Some(HERE) => Ok(Adopted::Doubtful),
            Some(GONE) => {
                self.open(unit).await?;
                goes_on(AdoptionStep::Opened);
                Ok(Adopted::Opened)
            }
            Some(_) => {
                self.fleet.delete(unit).await?;
                Ok(Adopted::Gone)
            }
            None => Ok(Adopted::Gone),
        }
    }

    /// Deletes a row that was made again after it had been deleted, unless somebody has it.
    pub(super) async fn clear(&self, row: &Row) -> Result<(), StoreError> {
        let is_new = self.table.format().is_kcl() && row.was_never_taken();
        if is_new && self.deleted(row).await? {
            return Ok(());
        }
        Err(StoreError::invalid(format!(
            "the row of {:?} was made again after the unit had been moved; end whoever makes it, delete the row, and try again",
            row.key()
        )))
    }

    /// Nobody but this process knows who deleted the row, so trouble that passes is waited for.
    pub(super) async fn mark_gone(&self, unit: &str) -> Result<(), StoreError> {
        let until = self.clock.now().waited.after(self.options.failover_time());
        loop {
            match self.mark(unit, GONE, None).await {
                Err(error) if error.is_passing() && self.clock.now().waited < until => {
                    tokio::time::sleep(self.options.failover_time() / 20).await;
                }
                marked => return marked,
            }
        }
    }

    pub(super) async fn mark(
        &self,
        unit: &str,
        label: &str,
        fields: Option<Metadata>,
    ) -> Result<(), StoreError> {
        let changed = self
            .fleet
            .update(unit, |spec, old| {
                if mark(spec).is_some() {
                    spec.needs = [label.to_owned()].into();
                    *old = fields.clone().unwrap_or_else(|| std::mem::take(old));
                }
            })
            .await?;
        match changed.filter(|unit| spec_is(&unit.spec, label)) {
            Some(_) => Ok(()),
            None => Err(StoreError::unavailable(format!(
                "the unit {unit:?} was changed by somebody else while it was adopted; look at it, and try again"
            ))),
        }
    }

    pub(super) async fn open(&self, unit: &str) -> Result<(), StoreError> {
        self.fleet.update(unit, |spec, _| spec.needs.retain(|label| label != HERE && label != GONE)).await?;
        // Also if it was found open: whoever did that may not have been able to tell.
        self.fleet.tell().await
    }
}

/// Whether a unit is closed by an adoption, and how far that is.
pub(super) fn mark(spec: &UnitSpec) -> Option<&'static str> {
    [GONE, HERE, COMING].into_iter().find(|label| spec_is(spec, label))
}

pub(super) fn spec_is(spec: &UnitSpec, label: &str) -> bool {
    spec.status == Status::Open && spec.needs.contains(label)
}
