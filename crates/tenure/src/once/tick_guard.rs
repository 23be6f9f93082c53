//! A tick that has begun, for work that is no future: its end is said by a call.

use super::released;
use crate::error::LeaseError;
use crate::guard::Guard;
use std::fmt;
use std::sync::Arc;
use tenure_core::Clock;
use tenure_core::once::{Once, OnceEvent};

/// A tick that has begun here, with the lease of its key. Dropping it releases the lease: the tick has run, or, where it is to run at least
/// once, somebody is to run it again.
#[must_use = "dropping it gives the lease up"]
pub struct TickGuard {
    pub(super) guard: Guard,
    pub(super) once: Box<Once>,
    pub(super) clock: Arc<dyn Clock>,
}

impl TickGuard {
    /// The lease that it runs under.
    pub fn lease(&self) -> &Guard {
        &self.guard
    }

    /// It has ended, well or not: that is written, with what is to be said of it (of which 200 bytes are kept), as the lease is released. False: the
    /// lease was lost before.
    ///
    /// # Errors
    /// As [`Guard::release_with`].
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn end(mut self, is_well: bool, says: impl Into<String>) -> Result<bool, LeaseError> {
        let ended = OnceEvent::Ended(is_well, says.into());
        match released(self.once.on(self.clock.now().wall, ended)) {
            Some(fields) => self.guard.release_with(fields).await,
            None => Ok(self.guard.release().await),
        }
    }

    /// Its lease is left to expire, as what was begun could not be ended for certain.
    ///
    /// # Cancel safety
    /// As that of [`Guard::lapse`](crate::Guard::lapse).
    pub fn lapse(self) -> impl Future<Output = ()> + Send {
        self.guard.lapse()
    }

    /// The lease is released, and nothing is said of an end.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> bool {
        self.guard.release().await
    }
}

impl fmt::Debug for TickGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TickGuard").field("guard", &self.guard).finish_non_exhaustive()
    }
}
