//! Bodies that run under several leases: six ways to ask for these, as for one.

use super::LockAll;
use crate::body::{Held, run_blocking_under, run_under};
use crate::error::BodyError;
use crate::patience::AcquireWait;
use std::time::Duration;

impl LockAll {
    /// Waits for all of them and runs `body` under them: it is told to end when any is lost, and all are given up after it.
    /// [`Held::is_held`] and [`Held::remaining`] are of all of them, and [`Held::fences`] has each one's fence.
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
        run_under(self, AcquireWait::Forever, body).await
    }

    /// As [`LockAll::with_lease`], if nobody has any of them.
    ///
    /// # Errors
    /// As [`Lock::try_with_lease`](crate::Lock::try_with_lease).
    ///
    /// # Cancel safety
    /// As [`LockAll::with_lease`].
    pub async fn try_with_lease<T, F, Fut>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self, AcquireWait::Try, body).await
    }

    /// As [`LockAll::with_lease`], waiting no longer than `patience` altogether. The body has as long as it needs.
    ///
    /// # Errors
    /// As [`Lock::with_lease_within`](crate::Lock::with_lease_within).
    ///
    /// # Cancel safety
    /// As [`LockAll::with_lease`].
    pub async fn with_lease_within<T, F, Fut>(self, patience: Duration, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        run_under(self, AcquireWait::Within(patience), body).await
    }

    /// As [`LockAll::with_lease`], for a body that blocks; see [`Lock::with_lease_blocking`](crate::Lock::with_lease_blocking).
    ///
    /// # Errors
    /// As [`LockAll::with_lease`].
    ///
    /// # Cancel safety
    /// As [`Lock::with_lease_blocking`](crate::Lock::with_lease_blocking).
    pub async fn with_lease_blocking<T, F>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self, AcquireWait::Forever, body).await
    }

    /// As [`LockAll::with_lease_blocking`], if nobody has any of them.
    ///
    /// # Errors
    /// As [`LockAll::try_with_lease`].
    ///
    /// # Cancel safety
    /// As [`LockAll::with_lease_blocking`].
    pub async fn try_with_lease_blocking<T, F>(self, body: F) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self, AcquireWait::Try, body).await
    }

    /// As [`LockAll::with_lease_blocking`], waiting no longer than `patience` altogether.
    ///
    /// # Errors
    /// As [`LockAll::with_lease_within`].
    ///
    /// # Cancel safety
    /// As [`LockAll::with_lease_blocking`].
    pub async fn with_lease_blocking_within<T, F>(
        self,
        patience: Duration,
        body: F,
    ) -> Result<T, BodyError<T>>
    where
        F: FnOnce(Held) -> T + Send + 'static,
        T: Send + 'static,
    {
        run_blocking_under(self, AcquireWait::Within(patience), body).await
    }
}
