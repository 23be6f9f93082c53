//! Bodies that run under a lease: six ways to ask for it, to one scaffold.

use super::Lock;
use crate::body::{Held, run_blocking_under, run_under};
use crate::error::BodyError;
use crate::patience::AcquireWait;
use std::time::Duration;

impl Lock {
    /// Waits for the lease and runs `body` under it; see [`crate::body`]. A body that can fail gives two results in one:
    /// `lock.with_lease(body).await??`.
    ///
    /// The body is a task of its own, so it is `Send`, and borrows nothing: move into it what it needs. Work on what is borrowed has a [`Guard`](crate::Guard)
    /// instead, and ends by itself when that is lost:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn work(lines: &mut Vec<String>) { lines.push("done".to_owned()) }
    /// # let leases = tenure::Leases::new(tenure::memory())?;
    /// # let mut lines = Vec::new();
    /// let guard = leases.acquire("reports/nightly").await?;
    /// tokio::select! {
    ///     () = work(&mut lines) => println!("done"),
    ///     () = guard.cancelled() => println!("given up half done"),
    /// }
    /// guard.release().await;
    /// # leases.stop().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`BodyError::Acquire`] when the lease could not be had, as [`Lock::acquire`] says, or the grace period is too long for
    /// its ttl: the body did not run. [`BodyError::Interrupted`] when the lease was lost or withdrawn while the body ran, or it
    /// [ran for too long](Lock::at_most_for).
    /// [`BodyError::Panicked`] when it panicked. What the body itself returns, an error or not, is returned as it is.
    ///
    /// # Cancel safety
    /// When the future is dropped the body is told to stop, aborted after its grace period, and the lease then released,
    /// in the background.
    pub async fn with_lease<T, F, Fut>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self.request, AcquireWait::Forever, body).await
    }

    /// As [`Lock::with_lease`], if nobody has the lease.
    ///
    /// # Errors
    /// As [`Lock::with_lease`]; its `Acquire` is as [`Lock::try_acquire`] says: [`AcquireError::Held`](crate::AcquireError::Held) when another has it.
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease`].
    pub async fn try_with_lease<T, F, Fut>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self.request, AcquireWait::Try, body).await
    }

    /// As [`Lock::with_lease`], waiting for the lease no longer than `patience`. The body has as long as it needs.
    ///
    /// # Errors
    /// As [`Lock::with_lease`]; its `Acquire` is as [`Lock::acquire_within`] says.
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease`].
    pub async fn with_lease_within<T, F, Fut>(self, patience: Duration, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self.request, AcquireWait::Within(patience), body).await
    }

    /// As [`Lock::with_lease`], for a body that blocks: it runs on a thread of the runtime's for such work, and is joined before the
    /// lease is given up.
    ///
    /// Such a body can't be aborted. It should ask [`Held::is_held`], or [`Held::cancelled`], every now and then, and return when it
    /// is told to. One that goes on all the same when the lease is lost, or may be held no longer, leaves it to expire, and is at work beside the next
    /// holder from then on.
    ///
    /// # Errors
    /// As [`Lock::with_lease`].
    ///
    /// # Cancel safety
    /// When the future is dropped the body is told to stop; the lease is renewed until it has returned, and then released, in the background.
    pub async fn with_lease_blocking<T, F>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self.request, AcquireWait::Forever, body).await
    }

    /// As [`Lock::with_lease_blocking`], if nobody has the lease.
    ///
    /// # Errors
    /// As [`Lock::try_with_lease`].
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease_blocking`].
    pub async fn try_with_lease_blocking<T, F>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self.request, AcquireWait::Try, body).await
    }

    /// As [`Lock::with_lease_blocking`], waiting for the lease no longer than `patience`.
    ///
    /// # Errors
    /// As [`Lock::with_lease_within`].
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease_blocking`].
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
