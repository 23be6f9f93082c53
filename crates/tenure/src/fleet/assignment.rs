//! A unit that was assigned to this worker, to be given up exactly once.

use super::presence::WorkerPresence;
use super::shared_unit::SharedUnit;
use super::unit::Unit;
use super::users::{EndedByCommand, UnitReply, refused};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenure_core::fleet::{FleetCommand, RequestId};
use tenure_core::{HolderId, LeaseId, Metadata, StoreError};

/// A unit that was assigned to this worker: the [`Unit`], and the duty to let go of it.
///
/// End what is done for the unit before you let go of it, in whatever way. Dropping this lets another worker have it.
#[must_use = "dropping an assignment lets another worker have the unit"]
pub struct Assignment {
    unit: Unit,
    spent: AtomicBool,
    /// Whether a drop counts as a failure.
    drop_fails: AtomicBool,
    /// Whoever has a unit to let go of takes part. None once it is left to expire: a task that can't be ended keeps no worker in its fleet.
    presence: Mutex<Option<Arc<WorkerPresence>>>,
}

impl Assignment {
    pub(super) fn new(share: Arc<SharedUnit>, presence: Arc<WorkerPresence>) -> Assignment {
        let worker = Arc::clone(presence.worker());
        let presence = Mutex::new(Some(presence));
        let (spent, drop_fails) = (AtomicBool::new(false), AtomicBool::new(true));
        Assignment { unit: Unit { share, worker }, spent, drop_fails, presence }
    }

    /// The unit, to be shared with what is done for it.
    #[must_use]
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// What is done for the unit has ended, as it was told to: it goes to where it belongs. If it turns out to belong here
    /// after all, it is assigned again. Returns at once.
    pub fn drained(self) {
        self.spend(FleetCommand::Drained(self.unit.share.lease));
    }

    /// The unit is done, and nobody is to have it again; with these fields in place of all others, if given. False: it was
    /// lost before.
    ///
    /// # Errors
    /// `Invalid` when the fields are too large, or one is named `tenure`; then another worker is given the unit.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the finishing.
    pub async fn finish(self, fields: Option<Metadata>) -> Result<bool, StoreError> {
        if let Some(fields) = &fields {
            // Here and now, who has done it can't say so: the drop is a failure.
            self.unit.share.check(fields).inspect_err(|_| self.drop_fails.store(true, Ordering::SeqCst))?;
        }
        let lease = self.unit.share.lease;
        refused(self.ask(|request| FleetCommand::Finish(lease, request, fields)).await)
    }

    /// Lets another worker have the unit, for this one could not do it. Once several could not, it is left alone for a while, longer
    /// each time, up to 32 ttls ([`UnitSpec::retry`](super::UnitSpec::retry)); then it is assigned again, perhaps to this worker.
    /// After it was worked on for four ttls, or changed by [`Fleet::update`](super::Fleet::update), its failures count no more.
    /// A unit that is left alone at this worker keeps its fence: what was done for it has ended.
    /// False: it was lost before.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> bool {
        self.let_go(FleetCommand::Decline).await
    }

    /// As [`release`](Assignment::release), where a request of what was done for the unit may still be on its way: it was dropped in the midst, or ran on a host that is silent now.
    /// The next body has a higher fence then, also one of this worker, so a resource refuses that request. A drop does the same.
    ///
    /// Nobody may believe in the unit any more. Where somebody may, [`lapse`](Assignment::lapse) is right.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn abandon(self) -> bool {
        self.let_go(FleetCommand::Abandon).await
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
        refused(self.ask(|request| FleetCommand::HandTo(lease, request, worker.clone())).await)
    }

    /// Stops believing but leaves the unit to expire: for when what is done for it can't be ended for certain.
    pub fn lapse(self) {
        self.leave_to_expire();
    }

    /// The same for whoever shares it with a task that goes on.
    pub(super) fn leave_to_expire(&self) {
        self.unit.share.lapse();
        self.spend(FleetCommand::Lapse(self.unit.share.lease));
        // Only now, as the last one's drop may end the worker.
        drop(self.presence.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Whoever drops it from now on has ended what was done for the unit in good order.
    pub(super) fn goes_without_failure(&self) {
        self.drop_fails.store(false, Ordering::SeqCst);
    }

    async fn let_go(self, command: fn(LeaseId, RequestId) -> FleetCommand) -> bool {
        let unit = self.unit.clone();
        let lease = unit.share.lease;
        let released = refused(self.ask(|request| command(lease, request)).await);
        released.unwrap_or_else(|error| {
            unit.tell_not_let_go(&error);
            false
        })
    }

    async fn ask(self, command: impl FnOnce(RequestId) -> FleetCommand) -> Option<UnitReply> {
        self.spent.store(true, Ordering::SeqCst);
        self.unit.share.end();
        self.unit.worker.ask(self.unit.share.lease, EndedByCommand::Unit, command).await
    }

    fn spend(&self, command: FleetCommand) {
        self.spent.store(true, Ordering::SeqCst);
        self.unit.share.end();
        self.unit.worker.send(command);
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
        // A forked child lets nothing of its parent's go, and the lock may be a thread's of the parent's for ever.
        if *self.spent.get_mut() || self.unit.worker.process.is_forked() {
            return;
        }
        let lease = self.unit.share.lease;
        // What was begun for it may have been dropped in the midst of a request.
        let is_abandoned = *self.drop_fails.get_mut() || self.unit.is_draining();
        let request = self.unit.worker.users().draw();
        self.spend(if is_abandoned {
            FleetCommand::Abandon(lease, request)
        } else {
            FleetCommand::Drained(lease)
        });
    }
}

impl std::fmt::Debug for Assignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Assignment").field(&self.unit).finish()
    }
}
