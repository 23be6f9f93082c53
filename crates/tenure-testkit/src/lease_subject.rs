//! What the suite of leases is run on.

use std::future::Future;
use std::time::Duration;
use tenure_core::{Fence, StoreError};

/// A set of leases of its own, none held at first, whatever their layout: the native one under `Leases`, or a dialect. Every
/// check is given a fresh one.
pub trait LeaseSubject: Send + Sync + Sized + 'static {
    /// A process that wants leases.
    type Tenant: Tenant;

    /// Another process, as independent of the others as if it ran elsewhere.
    fn tenant(&self) -> impl Future<Output = Self::Tenant> + Send;

    /// What each lease is asked for: at least 4 s where records tell whole seconds.
    fn ttl(&self) -> Duration;

    /// After so long at the latest a silent holder's key is had by whoever has tried all the while.
    fn takeover(&self) -> Duration;

    /// Whether leases have fences. Where they have none, asking for one is refused.
    fn has_fences(&self) -> bool;

    /// Lets `span` pass on the clocks of all.
    fn pass(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// The record of `key` as a text that shows every change of it; none if there is no record.
    fn raw(&self, key: &str) -> impl Future<Output = Option<String>> + Send;

    /// Spoils the record of `key` by hand, one way for each number from zero on. False if there is no such way: there may be
    /// none at all, and the checks of damaged records then have nothing to check.
    fn damage(&self, key: &str, way: usize) -> impl Future<Output = bool> + Send;
}

/// A process that wants leases. None of these calls waits for a key that another holds.
pub trait Tenant: Send + Sync + 'static {
    /// A lease as the process has it.
    type Lease: Send + Sync;

    /// The lease on `key`, if nobody has it.
    fn try_acquire(&self, key: &str) -> impl Future<Output = Result<Self::Lease, LeaseRefusal>> + Send;

    /// Prolongs the lease by a full ttl from now.
    fn renew(&self, lease: &mut Self::Lease) -> impl Future<Output = Result<(), LeaseRefusal>> + Send;

    /// Gives the lease back. That it is over, or another's by now, is no error.
    fn release(&self, lease: &mut Self::Lease) -> impl Future<Output = Result<(), LeaseRefusal>> + Send;

    /// Whether this process believes that it holds the lease. No request is made.
    fn is_held(&self, lease: &Self::Lease) -> bool;

    /// The lease's fence.
    ///
    /// # Errors
    /// `Unsupported` where there are none.
    fn fence(&self, lease: &Self::Lease) -> Result<Fence, LeaseRefusal>;

    /// The next request of this process that writes meets this fate.
    fn lose_next(&self, lost: LostMessage);
}

/// What is lost of a request that writes. Its sender can't tell which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostMessage {
    /// The request: nothing is written.
    Request,
    /// The answer: what was to be written is.
    Answer,
}

/// Why a lease was not had, or not prolonged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseRefusal {
    /// Another holds the key.
    Held,
    /// The lease is over, or another's.
    NotOwned,
    /// What the store said.
    Store(StoreError),
}
