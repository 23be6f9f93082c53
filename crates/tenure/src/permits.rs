//! Semaphores, readers and writers, and fair locks: permits of a key, which several may hold at a time, and which go to those who wait in
//! the order of their asking.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let leases = tenure::Leases::new(tenure::memory())?;
//! // Three of the fleet at a time, whichever they are.
//! let guard = leases.semaphore("render", 3).acquire().await?;
//! assert!(guard.is_held());
//! guard.release().await;
//! // Any number of readers, or one writer.
//! let reads = leases.shared("config").acquire().await?;
//! assert!(leases.exclusive("config").try_acquire().await.is_err());
//! reads.release().await;
//! // One at a time, first come, first served.
//! leases.fair_lock("printer").with_lease(async |held| println!("fence {}", held.fence())).await?;
//! # leases.stop().await; Ok(()) }
//! ```
//!
//! # When to use which
//! | wanted | take | order of those who wait | costs |
//! |---|---|---|---|
//! | one holder | [`Leases::lock`] | whoever is quickest | 1 write to get, 1 to give up |
//! | one holder, in turn | [`Leases::fair_lock`] | first come, first served | 1 or 2 writes to get, 1 to give up |
//! | at most n holders | [`Leases::semaphore`] | first come, first served | as above |
//! | many readers or one writer | [`Leases::shared`], [`Leases::exclusive`] | first come, first served: a writer that waits holds up later readers | as above |
//! | several keys, all or none | [`Leases::lock_all`] | none | a lock each |
//! | several parts of one record, all or none | [`RangeLock::all`](crate::range::RangeLock::all) | none | 1 or 2 writes, for all of them |
//! | one leader, and all know who | [`election`](crate::election) | by rank | a lock |
//! | units shared out among workers | [`fleet`](crate::fleet) | – | a session each |
//! | parts of a key space | [`range`](crate::range) | none waits | 1 or 2 writes |
//! | something once at each tick of a schedule | [`once`](crate::once) | whoever is quickest | 3 writes to run, 1 read to find that it has run |
//!
//! # Barriers and latches
//! There are none. A barrier and a latch wait for a *number* of parties, and nobody here is sure of that number: processes die, are replaced, and
//! come twice, and a store that counts them can't tell a slow one from a dead one. (Where all are known and none dies, a count in a database does it.) What people want of them is made of what is there. *All
//! parts are done* (a latch that counts down): each part is a unit of a job, and `tenure work` ends when every unit has ended, whoever died meanwhile.
//! *Done once before anybody goes on* (a latch of one): [`once_per`](crate::Leases::once_per) with one fixed tick, which the others wait for with
//! [`wait`](crate::once::OncePer::wait); its record says whether it ended well. *Nobody begins the second phase before all have left the first* (a barrier):
//! who works on the first holds [`shared`](crate::Leases::shared), and who begins the second takes [`exclusive`](crate::Leases::exclusive) of the same
//! name once, which waits for all of them, and for the dead no longer than a ttl. *No more than n at a time*: a semaphore.
//!
//! # What is promised
//! Never are more permits believed in than there are, nor an exclusive one beside any other, by the assumptions of a lock. Each grant has a
//! [fence](crate::Guard::fence) that is greater than all earlier ones of its key, shared ones included: a resource that several share must not refuse lower
//! fences, and keeps out only what is below the last *exclusive* one. Nobody is overtaken by who asks later, but by those that
//! [barge](Permits::barging).
//!
//! # How it works
//! All holders and all who wait stand in one record, under `semaphore/NAME`. They are attached to their processes' sessions, so holding costs nothing more, and
//! permits have the ttl of the session ([`LeasesBuilder::session_ttl`](crate::LeasesBuilder::session_ttl)). Whoever gives permits up grants them to the next in the
//! same write. A [lock](Leases::lock) of the same name is another key. One record has room for some 2,000 processes, and takes one write at a time: where the order does
//! not matter, [spread](Permits::spread) the permits over several records. Who finds
//! a record full looks at it again, and at 15 of the processes in it: where none of these is known to be dead, it is refused with `Invalid`. Where the store
//! tells no ages, that is known a ttl after this process has first looked: ask again.

mod spread;

use crate::acquire_request::{AcquireRequest, LeaseTarget};
use crate::body::{Held, LeaseSource, run_blocking_under, run_under};
use crate::error::{AcquireError, BodyError};
use crate::guard::Guard;
use crate::leases::Leases;
use crate::patience::AcquireWait;
use crate::permit_share::PermitShare;
pub use spread::Spread;
use std::time::Duration;
use tenure_core::StoreError;
pub use tenure_core::semaphore::{Grant, Mode, PREFIX, SemaphoreLedger, Ticket, is_idle, is_semaphore, key};
use tenure_store::Store as _;

/// A request for permits, from [`Leases::semaphore`], [`Leases::shared`], [`Leases::exclusive`] or [`Leases::fair_lock`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens until they are acquired"]
pub struct Permits {
    request: AcquireRequest,
}

impl Leases {
    /// One of so many permits of `name`, or [more](Permits::take). All who use the name at a time must say the same number; it may change once nobody
    /// uses it.
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Permits {
        Permits::new(self, name.as_ref(), permits, Mode::Shared)
    }

    /// `name` for a reader: beside all other readers, and no [writer](Leases::exclusive).
    ///
    /// A reader can't become a writer: who asks for `name` exclusively while it holds it shared waits for itself, for ever, and stops all later readers.
    /// Let it give up what it has first, and read again as a writer: what it has read may have changed by then.
    pub fn shared(&self, name: impl AsRef<str>) -> Permits {
        Permits::new(self, name.as_ref(), SemaphoreLedger::MOST_PERMITS, Mode::Shared)
    }

    /// `name` for a writer: beside nobody who holds it [shared](Leases::shared) or exclusively, this very process included: nothing is reentrant, and
    /// nothing is upgraded.
    pub fn exclusive(&self, name: impl AsRef<str>) -> Permits {
        Permits::new(self, name.as_ref(), SemaphoreLedger::MOST_PERMITS, Mode::Exclusive)
    }

    /// `name` for one at a time, first come, first served: the same as [`Leases::exclusive`], where nobody shares.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Permits {
        self.exclusive(name)
    }
}

impl Permits {
    fn new(leases: &Leases, name: &str, permits: u32, mode: Mode) -> Permits {
        let share = PermitShare { permits, take: 1, mode, barges: false, is_part: false };
        let target = LeaseTarget::Permits { name: name.to_owned(), share };
        Permits { request: AcquireRequest::new(leases.clone(), target) }
    }

    fn share(mut self, change: impl FnOnce(&mut PermitShare)) -> Self {
        if let LeaseTarget::Permits { share, .. } = &mut self.request.target {
            change(share);
        }
        self
    }

    /// So many permits, all or none; one by default. What is held exclusively is all there is.
    pub fn take(self, permits: u32) -> Self {
        self.share(|share| {
            if share.mode == Mode::Shared {
                share.take = permits;
            }
        })
    }

    /// Takes what is free though others wait for more, instead of waiting behind them. They may starve: readers that barge hold up a writer for
    /// as long as any of them comes. Off by default.
    pub fn barging(self, on: bool) -> Self {
        self.share(|share| share.barges = on)
    }

    /// As [`Lock::grace`](crate::Lock::grace).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.request.limits.grace = Some(grace);
        self
    }

    /// As [`Lock::at_most_for`](crate::Lock::at_most_for).
    pub fn at_most_for(mut self, longest: Duration) -> Self {
        self.request.limits.at_most = Some(longest);
        self
    }

    /// The least time that they are held, from when they were taken: also when they are given up sooner, or [`Leases::stop`] is called. Not at all
    /// by default.
    ///
    /// They are attached to the session, as all permits are. After the process's stop or death they stay taken until the session's ttl is over, which
    /// is at least two thirds of it: let the session's ttl be half as long again as this time.
    pub fn at_least_for(mut self, least: Duration) -> Self {
        self.request.at_least = least;
        self
    }

    /// Who holds permits of this name, and who waits for some, as its record says: one read, which asks for nothing. Those who have died stand in it until
    /// whoever comes next finds that out.
    ///
    /// # Errors
    /// `Foreign` when the record can't be understood; otherwise the store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn peek(&self) -> Result<SemaphoreLedger, StoreError> {
        let key = self.request.target.record_key()?;
        let stored = self.request.leases.inner.direct.read(&key).await?;
        let ledger = stored.map(|stored| SemaphoreLedger::standing(&stored.record));
        ledger.unwrap_or_else(|| Ok(SemaphoreLedger::default()))
    }

    /// Takes the permits if they are free, and nobody came before.
    ///
    /// A holder that died counts as one until its session's ttl is over. Where the store tells ages, a later try takes its permits then; elsewhere somebody has
    /// to wait for them.
    ///
    /// # Errors
    /// [`AcquireError::Held`] when they are not free, with whoever has held some longest; `Invalid` when they can't ever be had: there
    /// are fewer, others say another number, or the record is full. Otherwise as [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Cancel safety
    /// When the future is dropped, what comes of it is given back in the background.
    pub async fn try_acquire(self) -> Result<Guard, AcquireError> {
        self.request.acquired(AcquireWait::Try).await
    }

    /// Takes the permits, waiting for its turn. The guard is that of a lease that is attached to the session: it has no metadata, and does not become
    /// plain data.
    ///
    /// A process that loses its session loses its place: it waits on at the end of the queue.
    ///
    /// # Errors
    /// As [`Permits::try_acquire`], but for `Held`; and as [`Lock::acquire`](crate::Lock::acquire) with trouble that lasts.
    ///
    /// # Cancel safety
    /// When the future is dropped it leaves the queue in the background, and gives back what it was granted meanwhile.
    pub async fn acquire(self) -> Result<Guard, AcquireError> {
        self.request.acquired(AcquireWait::Forever).await
    }

    /// Takes the permits, waiting for its turn for at most `patience`.
    ///
    /// # Errors
    /// As [`Permits::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Permits::acquire`].
    pub async fn acquire_within(self, patience: Duration) -> Result<Guard, AcquireError> {
        self.request.acquired(AcquireWait::Within(patience)).await
    }

    /// Waits for the permits and runs `body` under them, as [`Lock::with_lease`](crate::Lock::with_lease) does.
    ///
    /// # Errors
    /// As [`Lock::with_lease`](crate::Lock::with_lease).
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease`](crate::Lock::with_lease).
    pub async fn with_lease<T, F, Fut>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self.request, AcquireWait::Forever, body).await
    }

    /// As [`Permits::with_lease`], if the permits are free.
    ///
    /// # Errors
    /// As [`Lock::try_with_lease`](crate::Lock::try_with_lease).
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease`](crate::Lock::with_lease).
    pub async fn try_with_lease<T, F, Fut>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self.request, AcquireWait::Try, body).await
    }

    /// As [`Permits::with_lease`], waiting no longer than `patience`.
    ///
    /// # Errors
    /// As [`Lock::with_lease_within`](crate::Lock::with_lease_within).
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease`](crate::Lock::with_lease).
    pub async fn with_lease_within<T, F, Fut>(self, patience: Duration, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self.request, AcquireWait::Within(patience), body).await
    }

    /// As [`Permits::with_lease`], for a body that blocks; see [`Lock::with_lease_blocking`](crate::Lock::with_lease_blocking).
    ///
    /// # Errors
    /// As [`Lock::with_lease`](crate::Lock::with_lease).
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease_blocking`](crate::Lock::with_lease_blocking).
    pub async fn with_lease_blocking<T, F>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self.request, AcquireWait::Forever, body).await
    }

    /// As [`Permits::with_lease_blocking`], if the permits are free.
    ///
    /// # Errors
    /// As [`Lock::try_with_lease`](crate::Lock::try_with_lease).
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease_blocking`](crate::Lock::with_lease_blocking).
    pub async fn try_with_lease_blocking<T, F>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self.request, AcquireWait::Try, body).await
    }

    /// As [`Permits::with_lease_blocking`], waiting no longer than `patience`.
    ///
    /// # Errors
    /// As [`Lock::with_lease_within`](crate::Lock::with_lease_within).
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease_blocking`](crate::Lock::with_lease_blocking).
    pub async fn with_lease_blocking_within<T, F>(
        self,
        patience: Duration,
        body: F,
    ) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self.request, AcquireWait::Within(patience), body).await
    }
}
