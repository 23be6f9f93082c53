//! Those who use a manager of ours: one lease each, and one operation under way at the most.

use crate::item::ItemLease;
use crate::lease::HeldLease;
use crate::machine::{
    ItemAnswer, ItemRequest, LeaseAcquisition, LeaseOperation, LeaseRefresh, LeaseRelease, OperationEnd,
};
use crate::orphans::OrphanedClaims;
use std::sync::Arc;
use tenure_core::{InvalidInput, Now, StoreError};

/// A process: its clocks, and what its manager remembers. Managers that are cloned share that.
pub(super) struct CallerProcess {
    pub(super) orphans: Arc<OrphanedClaims>,
    /// How far its wall clock is ahead, in milliseconds.
    pub(super) ahead: u64,
    /// How far it was set back.
    pub(super) set_back: u64,
    /// Its clock's rate, in thousandths.
    pub(super) rate: u64,
    pub(super) frozen: u64,
    /// How often it was started.
    pub(super) starts: u64,
}

pub(super) struct LeaseCaller {
    pub(super) process: usize,
    pub(super) lease: Option<HeldLease>,
    pub(super) running: Option<RunningOperation>,
    /// It has tried to give its lease back, and does not know whether it has.
    pub(super) gives_back: bool,
    /// The number of its last call: answers to earlier ones are not waited for any more.
    pub(super) call: u64,
    pub(super) wake: u64,
}

pub(super) enum CallerOperation {
    /// The lease is not the caller's before it is done.
    Acquire(Box<LeaseAcquisition>, HeldLease),
    Refresh(LeaseRefresh),
    Release(LeaseRelease),
}

/// An operation under way, and what the walk knows of it.
pub(super) struct RunningOperation {
    pub(super) operation: CallerOperation,
    pub(super) id: u64,
    /// How the lease was before.
    pub(super) before: Option<HeldLease>,
    /// The last second that a condition compared with.
    pub(super) second: i64,
    pub(super) asked: Option<ItemRequest>,
    /// The answer to some write was lost: while a claim was sent, and while something else was.
    pub(super) claim_unknown: bool,
    pub(super) other_unknown: bool,
    /// A refusal came without the item.
    pub(super) was_refused_bare: bool,
    /// The item was seen to be another's, or none, or over, at some moment since it began.
    pub(super) was_gone: bool,
    /// The item as the last answer has shown it.
    pub(super) sight: Option<ItemLease>,
    pub(super) tokens: Vec<String>,
}

impl LeaseCaller {
    pub(super) fn request(
        &mut self,
        now: Now,
        draw: &dyn Fn() -> Result<String, InvalidInput>,
    ) -> ItemRequest {
        let LeaseCaller { running: Some(running), lease, .. } = self else { panic!("nothing is under way") };
        let request = match (&mut running.operation, lease) {
            (CallerOperation::Acquire(acquire, lease), _) => acquire.request(lease, now, draw),
            (CallerOperation::Refresh(refresh), Some(lease)) => refresh.request(lease, now, draw),
            (CallerOperation::Release(release), Some(lease)) => release.request(lease, now, draw),
            _ => panic!("there is no lease"),
        };
        let request = request.unwrap();
        running.asked = Some(request.clone());
        request
    }

    pub(super) fn on(&mut self, answer: Result<ItemAnswer, StoreError>) -> Option<OperationEnd> {
        let LeaseCaller { running: Some(running), lease, .. } = self else { panic!("nothing is under way") };
        match (&mut running.operation, lease) {
            (CallerOperation::Acquire(acquire, lease), _) => acquire.on(lease, answer),
            (CallerOperation::Refresh(refresh), Some(lease)) => refresh.on(lease, answer),
            (CallerOperation::Release(release), Some(lease)) => release.on(lease, answer),
            _ => panic!("there is no lease"),
        }
    }

    /// The lease that its operation is about.
    pub(super) fn subject(&self) -> Option<&HeldLease> {
        match &self.running {
            Some(RunningOperation { operation: CallerOperation::Acquire(_, lease), .. }) => Some(lease),
            _ => self.lease.as_ref(),
        }
    }
}

/// Whether that item is of this lease.
pub(super) fn is_of(item: &ItemLease, lease: &HeldLease) -> bool {
    item.token == lease.token || lease.next().is_some_and(|next| next.token == item.token)
}
