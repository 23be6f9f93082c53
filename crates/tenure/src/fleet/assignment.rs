//! A unit that was assigned to this worker, to be given up exactly once.

use super::unit::{Share, Unit, refused};
use std::ops::Deref;
use std::sync::Arc;
use tenure_core::fleet::FleetCommand;
use tenure_core::{HolderId, Metadata, StoreError};

/// A unit that was assigned to this worker: the [`Unit`], and the duty to let go of it.
///
/// End what is done for the unit before you let go of it, in whatever way. Dropping this lets another worker have it.
#[must_use = "dropping an assignment lets another worker have the unit"]
pub struct Assignment {
    unit: Unit,
    spent: bool,
}

impl Assignment {
    pub(super) fn new(share: Arc<Share>) -> Assignment {
        Assignment { unit: Unit { share }, spent: false }
    }

    /// The unit, to be shared with what is done for it.
    #[must_use]
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// What is done for the unit has ended, as it was told to: it goes to where it belongs. If it turns out to belong here
    /// after all, it is assigned again. Returns at once.
    pub fn drained(mut self) {
        self.spend(FleetCommand::Drained(self.unit.share.lease));
    }

    /// The unit is done, and nobody is to have it again; with these fields, if given. False: it was lost before.
    ///
    /// # Errors
    /// `Invalid` when the fields are no good; then another worker is given the unit.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the finishing.
    pub async fn finish(self, fields: Option<Metadata>) -> Result<bool, StoreError> {
        if let Some(fields) = &fields {
            tenure_store::codec::check_metadata(fields)?;
        }
        let lease = self.unit.share.lease;
        refused(self.ask(FleetCommand::Finish(lease, fields)).await)
    }

    /// Lets another worker have the unit; this one does not take it back for a ttl. False: it was lost before.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> bool {
        let lease = self.unit.share.lease;
        refused(self.ask(FleetCommand::Decline(lease)).await).unwrap_or(false)
    }

    /// Lets this very worker have the unit. The plan may move it again; see [`Fleet::pin`](super::Fleet::pin) for good.
    ///
    /// # Errors
    /// `Invalid` when there is no such worker; then another one is given the unit.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the handover.
    pub async fn hand_to(self, worker: &HolderId) -> Result<bool, StoreError> {
        let lease = self.unit.share.lease;
        let inner = Arc::clone(&self.unit.share.inner);
        let reply = self.ask(FleetCommand::HandTo(lease, worker.clone())).await;
        if matches!(reply, Some(super::worker::Reply::Failed(_))) {
            inner.send(FleetCommand::Decline(lease));
        }
        refused(reply)
    }

    /// Stops believing but leaves the unit to expire: for when what is done for it can't be ended for certain.
    pub fn lapse(mut self) {
        self.spend(FleetCommand::Lapse(self.unit.share.lease));
    }

    async fn ask(mut self, command: FleetCommand) -> Option<super::worker::Reply> {
        self.spent = true;
        self.unit.share.end();
        self.unit.share.inner.ask(self.unit.share.lease, command).await
    }

    fn spend(&mut self, command: FleetCommand) {
        self.spent = true;
        self.unit.share.end();
        self.unit.share.inner.send(command);
    }
}

impl Deref for Assignment {
    type Target = Unit;

    fn deref(&self) -> &Unit {
        &self.unit
    }
}

impl Drop for Assignment {
    fn drop(&mut self) {
        if self.spent {
            return;
        }
        let lease = self.unit.share.lease;
        let draining = self.unit.share.drain.borrow().is_some();
        self.spend(if draining { FleetCommand::Drained(lease) } else { FleetCommand::Decline(lease) });
    }
}

impl std::fmt::Debug for Assignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Assignment").field(&self.unit).finish()
    }
}
