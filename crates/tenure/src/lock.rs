//! Asking for one key.

mod with_lease;

use crate::acquire_request::{AcquireRequest, KeyRequest, LeaseTarget};
use crate::body::{BodyLimits, LeaseSource};
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::leases::Leases;
use crate::patience::AcquireWait;
use std::time::Duration;
use tenure_core::{Metadata, MetadataPolicy, Stored};

/// A request for one key, from [`Leases::lock`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens until it is acquired"]
pub struct Lock {
    request: AcquireRequest,
}

impl Leases {
    /// A request for the lease on `key`: say how, then acquire it.
    ///
    /// Locks are not reentrant: who asks for a key that this very process holds waits for it as for anybody else's
    /// ([`Leases::held`] lists those).
    ///
    /// The key is checked when it is acquired: those that begin with `session/`, `section/`, `semaphore/`, `fleet/`, `work/` and `once/` are kept
    /// for tenure's own records.
    pub fn lock(&self, key: impl AsRef<str>) -> Lock {
        let metadata_policy = MetadataPolicy::Replace(Metadata::new());
        let wanted = KeyRequest { key: key.as_ref().to_owned(), ttl: None, metadata_policy };
        Lock { request: AcquireRequest::new(self.clone(), LeaseTarget::Key(wanted)) }
    }

    /// The lease on `key`, if nobody has it. Short for `lock(key).try_acquire()`.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    pub async fn try_acquire(&self, key: impl AsRef<str>) -> Result<Guard, AcquireError> {
        self.lock(key).try_acquire().await
    }

    /// The lease on `key`, waiting for it. Short for `lock(key).acquire()`.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire(&self, key: impl AsRef<str>) -> Result<Guard, AcquireError> {
        self.lock(key).acquire().await
    }

    /// The lease on `key`, waiting for it no longer than `patience`. Short for `lock(key).acquire_within(patience)`.
    ///
    /// # Errors
    /// As [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire_within`].
    pub async fn acquire_within(
        &self,
        key: impl AsRef<str>,
        patience: Duration,
    ) -> Result<Guard, AcquireError> {
        self.lock(key).acquire_within(patience).await
    }
}

impl Lock {
    fn wanted(mut self, change: impl FnOnce(&mut KeyRequest)) -> Self {
        if let LeaseTarget::Key(wanted) = &mut self.request.target {
            change(wanted);
        }
        self
    }

    /// Gives the lease a ttl and renewals of its own. Without, it is attached to the process's session, which costs nothing to
    /// hold.
    ///
    /// A process that holds a single lease does with one record where a session would make two.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.wanted(|wanted| wanted.ttl = Some(ttl))
    }

    /// Writes this metadata with the claim. Whatever a former holder left there is replaced.
    #[doc(alias("labels", "about"))]
    pub fn metadata(self, metadata: Metadata) -> Self {
        self.wanted(|wanted| wanted.metadata_policy = MetadataPolicy::Replace(metadata))
    }

    /// Keeps the metadata that the record carries; the record must exist. Only so can a unit of a job (`work/…`), or
    /// what runs once per tick (`once/…`), be locked. What was `seen` of it last saves a round trip if it is still so.
    pub fn keep_metadata(self, seen: Option<Stored>) -> Self {
        self.wanted(|wanted| wanted.metadata_policy = MetadataPolicy::Keep(seen.map(Box::new)))
    }

    /// How long a body that [`Lock::with_lease`] runs may take to end once it is told to: an eighth of the ttl by default, and
    /// less than what is left of the lease before each renewal: 0.46 of the ttl, usually.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.request.limits.grace = Some(grace);
        self
    }

    /// The longest that it may be held; for ever by default. A body that runs for longer is told to end, as on a loss: it has its grace
    /// period, and is aborted then. A [`Guard`] is lost by then, and its key is free a ttl later, as whoever has the guard may act still.
    /// The reason is [`Loss::Overran`](crate::Loss::Overran), and [an event](crate#what-is-logged) names the key.
    pub fn at_most_for(mut self, longest: Duration) -> Self {
        self.request.limits.at_most = Some(longest);
        self
    }

    /// The least time that it is held, from when it was taken: also when it is given up sooner, or this process ends or dies. Not at all by
    /// default. For work that is shorter than clocks differ: whoever comes a moment later finds it taken.
    ///
    /// Such a lease renews itself, with a ttl that is no shorter than this time, a day at the most. If the process ends meanwhile, the
    /// lease is over when that ttl has passed since the last renewal.
    pub fn at_least_for(mut self, least: Duration) -> Self {
        self.request.at_least = least;
        self
    }

    /// Takes the lease if nobody has it.
    ///
    /// A holder that died counts as one until its ttl is over. Trying again and again takes the key in the end: what is
    /// seen at each try counts.
    ///
    /// # Errors
    /// [`AcquireError::Held`] when another has it; [`AcquireError::Store`] when the store can't be reached, doesn't
    /// understand the record, or the input is bad.
    ///
    /// # Cancel safety
    /// When the future is dropped, a claim that is under way is followed up and given back in the background.
    pub async fn try_acquire(self) -> Result<Guard, AcquireError> {
        self.request.acquired(AcquireWait::Try).await
    }

    /// Takes the lease, waiting for as long as another has it.
    ///
    /// It goes on through trouble with the store that may pass, but not for ever: see
    /// [`LeasesBuilder::store_patience`](crate::LeasesBuilder::store_patience). Meanwhile [`Leases::trouble`] and
    /// [events](crate#what-is-logged) tell of it.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`], but for `Held`. With trouble that has lasted too long, the store's last error.
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        self.request.acquired(AcquireWait::Forever).await
    }

    /// Takes the lease, waiting for at most `patience`.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    pub async fn acquire_within(self, patience: Duration) -> Result<Guard, AcquireError> {
        self.request.acquired(AcquireWait::Within(patience)).await
    }

    /// The limits of a body, checked before anything is asked, and the request.
    pub(crate) fn checked(self) -> Result<(BodyLimits, Lock), AcquireError> {
        let (limits, request) = self.request.checked()?;
        Ok((limits, Lock { request }))
    }
}
