//! Locks for scheduled jobs: the same schedule on every node, one run of each job per tick.

use crate::cancelled::Cancelled;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::leases::Leases;
use std::time::Duration;
use tenure_core::{Fence, Loss};

/// Locks jobs by name, as job schedulers expect: taken if free, renewed by itself while the job runs, and kept for a minimum
/// time.
///
/// The minimum is for jobs that are shorter than the nodes' clocks are apart: without it, a node whose tick comes a moment later
/// would find the lock free again and run the job once more. Choose it longer than clocks differ, shorter than the schedule's
/// period.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// use tenure::{Leases, election::Locker};
///
/// let locker = Locker::new(Leases::new(tenure::memory())?).at_least_for(Duration::from_millis(20));
/// if let Some(lock) = locker.try_lock("nightly-report").await? {
///     println!("running with fence {}", lock.fence());
///     assert!(locker.try_lock("nightly-report").await?.is_none(), "another tick finds it taken");
///     lock.release().await;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Locker {
    leases: Leases,
    prefix: String,
    at_least: Duration,
}

impl Locker {
    /// A locker whose locks are attached to the session of `leases`.
    #[must_use]
    pub fn new(leases: Leases) -> Locker {
        Locker { leases, prefix: "job/".to_owned(), at_least: Duration::ZERO }
    }

    /// What the locks' keys begin with; `job/` by default. The job's name follows.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Keeps each lock for at least this long from when it was taken, also when the job ends sooner, or the process is stopped, so
    /// that a rolling restart at a tick does not run its job twice; not at all by default.
    ///
    /// Such a lock renews itself: while a job runs, its lock costs a write in each third of this time, or of the session's ttl
    /// if that is longer. Should the process die or be stopped meanwhile, the lock ends when that time has passed since the last.
    #[must_use]
    pub fn at_least_for(mut self, minimum: Duration) -> Self {
        self.at_least = minimum;
        self
    }

    /// The lock of `job`, if nobody has it.
    ///
    /// # Errors
    /// [`AcquireError::Store`] when the store can't be reached or the name is bad.
    ///
    /// # Cancel safety
    /// When the future is dropped, a claim that is under way is followed up and given back in the background.
    pub async fn try_lock(&self, job: impl AsRef<str>) -> Result<Option<JobLock>, AcquireError> {
        let lock = self.leases.lock(format!("{}{}", self.prefix, job.as_ref()));
        match lock.at_least_for(self.at_least).try_acquire().await {
            Ok(guard) => Ok(Some(JobLock { guard })),
            Err(AcquireError::Held(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The lock of one run of a job. Dropping it releases it in the background, no sooner than the minimum time is over.
#[derive(Debug)]
#[must_use = "dropping a lock gives it up"]
pub struct JobLock {
    guard: Guard,
}

impl JobLock {
    /// The fencing token of this run: send it along with every effect.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.guard.fence()
    }

    /// Whether the lock is held at this instant. A few nanoseconds, no I/O.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Told when the lock is lost, so that the job can end; and when it is released or dropped.
    pub fn cancelled(&self) -> Cancelled {
        self.guard.cancelled()
    }

    /// Waits until the lock is lost, and says why.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn lost(&self) -> Loss {
        self.guard.lost().await
    }

    /// Ends the run, and waits until the lock is free: at once, or when the minimum time is over. False: it was lost before.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> bool {
        self.guard.release().await
    }
}
