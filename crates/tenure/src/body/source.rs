//! A body under what is yet to be acquired: whatever is wrong with the request is told before anything is asked.

use super::Held;
use super::guarded::{BodyLimits, Guarded, run, run_blocking};
use crate::error::{AcquireError, BodyError};
use crate::patience::AcquireWait;

/// A request for what a body can run under.
pub(crate) trait LeaseSource: Sized {
    type Leases: Guarded;

    /// The limits of a body, checked before anything is asked, and the request. The body is told in time, so the leases' own longest time begins with it.
    fn checked(self) -> Result<(BodyLimits, Self), AcquireError>;

    fn acquired(self, wait: AcquireWait) -> impl Future<Output = Result<Self::Leases, AcquireError>> + Send;
}

/// Waits for the leases and runs `body` under them.
pub(crate) async fn run_under<S, T, F, Fut>(source: S, wait: AcquireWait, body: F) -> Result<T, BodyError<T>>
where
    S: LeaseSource,
    F: FnOnce(Held) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let (limits, source) = source.checked()?;
    run(source.acquired(wait).await?, limits, body).await
}

/// The same for a body that blocks.
pub(crate) async fn run_blocking_under<S, T, F>(
    source: S,
    wait: AcquireWait,
    body: F,
) -> Result<T, BodyError<T>>
where
    S: LeaseSource,
    F: FnOnce(Held) -> T + Send + 'static,
    T: Send + 'static,
{
    let (limits, source) = source.checked()?;
    run_blocking(source.acquired(wait).await?, limits, body).await
}
