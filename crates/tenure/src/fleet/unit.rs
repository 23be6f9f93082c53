//! A unit that this worker holds, as what is done for it sees it.

use super::shared_unit::SharedUnit;
use super::shared_worker::SharedWorker;
use super::users::{EndedByCommand, UnitReply};
use crate::body::BodyLease;
use crate::cancelled::Cancelled;
use crate::error::LeaseError;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::fleet::{FleetCommand, Reason, RequestId};
use tenure_core::{ErrorKind, Fence, HolderId, Key, Loss, Metadata, StoreError, Tick, Value};
use tenure_store::tell;
use tokio_util::sync::CancellationToken;

/// The field that [`Unit::checkpoint`] writes.
const CHECKPOINT: &str = "checkpoint";

/// A unit that this worker holds. Cheap to clone; clones see the same.
#[derive(Clone)]
pub struct Unit {
    pub(super) share: Arc<SharedUnit>,
    pub(super) worker: Arc<SharedWorker>,
}

impl Unit {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.share.name
    }

    /// Its key in the store.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.share.key
    }

    /// The fencing token: send it along with every effect on what the unit stands for, and let that refuse lower ones.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.share.fence
    }

    /// What it carries for its users, as this worker last knew.
    #[must_use]
    pub fn fields(&self) -> Metadata {
        self.share.fields().clone()
    }

    /// What was last given to [`Unit::checkpoint`], by whichever worker.
    #[must_use]
    pub fn last_checkpoint(&self) -> Option<Value> {
        self.share.fields().get(CHECKPOINT).cloned()
    }

    /// Whether it is held at this instant. Takes a few nanoseconds, no I/O, and never blocks. As
    /// [`Guard::is_held`](crate::Guard::is_held).
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long it is held if no renewal succeeds from now on; zero when it is lost or given up.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let worker = &self.worker;
        let until = self.share.cell.belief.until().min(worker.until());
        until.since(worker.clock().held())
    }

    /// Told when what is done for the unit has to end: it is to go to another worker, was withdrawn, closed or lost.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::by(&self.share.stop, &self.worker.process)
    }

    /// Why it is to go, and how long what is done for it may still take; none while it may stay.
    #[must_use]
    pub fn draining(&self) -> Option<(Reason, Duration)> {
        let drain = self.share.drain.borrow().clone();
        drain.map(|(reason, until)| (reason, until.since(self.worker.clock().held())))
    }

    /// Why it was lost; none while it was not.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.share.cell.loss()
    }

    /// Waits until it is lost, and says why. One that was let go of is not lost, so this never returns for it: [`Unit::cancelled`] tells of either.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn lost(&self) -> Loss {
        // A forked child is told nothing any more.
        if !self.worker.process.is_forked() {
            self.gone().cancelled().await;
        }
        self.why()
    }

    /// Writes these fields in place of all others, on the condition that the unit is still this worker's. One that was deleted
    /// is not created again. Of several that are asked for at a time, the last one asked for stands in the end.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] when it is not this worker's any more, or was let go of, and nothing was changed; `Invalid` when
    /// the fields are too large, or one is named `tenure`.
    ///
    /// # Cancel safety
    /// When the future is dropped the fields may be written or not.
    pub async fn update(&self, fields: Metadata) -> Result<(), LeaseError> {
        self.share.check(&fields)?;
        let lease = self.share.lease;
        self.write(|request| FleetCommand::Update(lease, request, fields)).await
    }

    /// Writes how far the work has come, beside the other fields, which stay as they stand in the record. Else as
    /// [`Unit::update`].
    ///
    /// # Errors
    /// As [`Unit::update`].
    ///
    /// # Cancel safety
    /// As [`Unit::update`].
    pub async fn checkpoint(&self, value: impl Into<Value>) -> Result<(), LeaseError> {
        let checkpoint = Metadata::from([(CHECKPOINT.to_owned(), value.into())]);
        let mut fields = self.fields();
        fields.extend(checkpoint.clone());
        self.share.check(&fields)?;
        let lease = self.share.lease;
        self.write(|request| FleetCommand::Merge(lease, request, checkpoint)).await
    }

    /// What was to become of it could not be done.
    pub(super) fn tell_not_let_go(&self, error: &StoreError) {
        let (key, fence, holder) = self.named();
        tell!(
            warn, name: "fleet.not_let_go", target: "tenure::fleet", %key, %fence, %holder, reason = %error,
            "this unit could not be let go of as its task said"
        );
    }

    /// As events name it.
    pub(super) fn named(&self) -> (&Key, Fence, &HolderId) {
        (&self.share.key, self.share.fence, &self.worker.holder)
    }

    async fn write(&self, command: impl FnOnce(RequestId) -> FleetCommand) -> Result<(), LeaseError> {
        let over = || LeaseError::Lost(self.loss().unwrap_or(Loss::Released));
        if self.share.is_over() {
            return Err(over());
        }
        match self.worker.ask(self.share.lease, EndedByCommand::Nothing, command).await {
            Some(UnitReply::Updated) => Ok(()),
            Some(UnitReply::Lost(loss)) => Err(LeaseError::Lost(loss)),
            // It was let go of at this very moment.
            Some(UnitReply::Failed(error)) if error.kind() == ErrorKind::Invalid && self.share.is_over() => {
                Err(over())
            }
            Some(UnitReply::Failed(error)) => Err(LeaseError::Store(error)),
            Some(UnitReply::Released(_)) => Err(over()),
            None => Err(self.loss().map_or(LeaseError::Stopped, LeaseError::Lost)),
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.share.drain.borrow().is_some()
    }

    /// Waits until it is to be let go of though it is not lost.
    pub(super) async fn drained(&self) -> Tick {
        let mut drain = self.share.drain.subscribe();
        match drain
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|drain| drain.as_ref().map(|(_, until)| *until))
        {
            Some(until) => until,
            None => std::future::pending().await,
        }
    }
}

impl BodyLease for Unit {
    fn until_deadline(&self) -> Duration {
        let deadline = self.share.cell.belief.deadline().min(self.worker.session.deadline());
        deadline.since(self.worker.clock().held())
    }

    fn gone(&self) -> CancellationToken {
        self.share.cell.token()
    }

    fn why(&self) -> Loss {
        self.loss().unwrap_or(Loss::Expired)
    }

    fn reserve(&self) -> Duration {
        self.worker.ttl.part(50)
    }
}

impl std::fmt::Debug for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unit")
            .field("name", &self.name())
            .field("fence", &self.fence())
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}
