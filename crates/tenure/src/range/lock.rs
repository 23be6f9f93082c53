//! A wish for ranges of a section, before it is acquired.

use super::guard::RangeGuard;
use super::lease::{self, RangeLease};
use super::section::Section;
use crate::error::{AcquireError, BodyError};
use std::time::Duration;
use tenure_core::range::RangeSet;
use tenure_core::section::Portion;

/// Ranges that are wanted for a time: set it up, then acquire.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tenure::range::{KeyRange, Section};
///
/// let section = Section::new(tenure::memory(), "accounts")?;
/// let two = [KeyRange::new(17u64, 18u64)?, KeyRange::new(40u64, 41u64)?];
/// let wanted = section.lock(two.into_iter().collect::<tenure::range::RangeSet>(), Duration::from_secs(30));
/// let guard = wanted.all().acquire_within(Duration::from_secs(5)).await?;
/// assert_eq!(guard.parts().len(), 2);
/// guard.release().await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is leased until it is acquired"]
pub struct RangeLock {
    section: Section,
    desired: RangeSet,
    duration: Duration,
    portion: Portion,
}

impl Section {
    /// A wish for what nobody else holds of `desired`, for this long: set it up, then acquire. `duration` may be cut to
    /// [`SectionBuilder::longest`](super::SectionBuilder::longest), and is never prolonged.
    pub fn lock(&self, desired: impl Into<RangeSet>, duration: Duration) -> RangeLock {
        RangeLock { section: self.clone(), desired: desired.into(), duration, portion: Portion::Free }
    }
}

impl RangeLock {
    /// All of it or nothing: in one write, so nobody holds a part of it meanwhile. It may be a set of ranges that are far apart, such as a few
    /// accounts by their numbers.
    ///
    /// Nobody queues: who wants a lot may wait for long where others want its parts all the time.
    pub fn all(mut self) -> Self {
        self.portion = Portion::All;
        self
    }

    /// Acquires what is to be had now.
    ///
    /// # Errors
    /// As [`RangeLock::acquire_within`].
    ///
    /// # Cancel safety
    /// As [`RangeLock::acquire_within`].
    pub async fn try_acquire(self) -> Result<RangeGuard, AcquireError> {
        self.acquire_within(Duration::ZERO).await
    }

    /// Waits until there is something to have, or [all](RangeLock::all) of it; for `wait` at the most. It asks at once, and then less and less often, once
    /// in a second in the end: each time costs a read.
    ///
    /// # Errors
    /// [`AcquireError::Held`] when others hold it all, or any of it where all is wanted, and the wait is over; of whom no one is named. Trouble with the store is
    /// waited out, and told where it lasts until then. Otherwise when the store refuses, the section is stopped, the input is bad, or the section is full; where all is wanted, also where it has room for a part only.
    ///
    /// # Cancel safety
    /// When the future is dropped, what comes of it is given up in the background.
    pub async fn acquire_within(self, wait: Duration) -> Result<RangeGuard, AcquireError> {
        self.section.acquire_within(self.desired, self.duration, self.portion, wait).await
    }

    /// Runs `body` under what is to be had now, as [`Section::try_with_lease`] does.
    ///
    /// # Errors
    /// As [`Section::try_with_lease`]; its `Acquire` is as [`RangeLock::try_acquire`] says.
    ///
    /// # Cancel safety
    /// As [`Section::try_with_lease`].
    pub async fn try_with_lease<T, F, Fut>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(RangeLease) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        lease::run(self.try_acquire().await?, body).await
    }

    /// Waits until there is something to have, or [all](RangeLock::all) of it, for `wait` at the most, and runs `body` under it. The body has the whole
    /// duration.
    ///
    /// # Errors
    /// As [`Section::try_with_lease`]; its `Acquire` is as [`RangeLock::acquire_within`] says.
    ///
    /// # Cancel safety
    /// As [`Section::try_with_lease`].
    pub async fn with_lease_within<T, F, Fut>(self, wait: Duration, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(RangeLease) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        lease::run(self.acquire_within(wait).await?, body).await
    }
}
