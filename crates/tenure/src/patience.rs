//! How long one waits for a lease at the most, and what is told then.

use crate::error::AcquireError;
use crate::leases::Leases;
use crate::shared::end_of;
use std::time::Duration;
use tenure_core::{StoreError, Tick};

/// What is acquired for at most some time is waited for a moment longer: an answer may be on its way.
pub(crate) const LAST_CALL: Duration = Duration::from_millis(100);

/// What is acquired for at most `patience`.
pub(crate) async fn within<T>(
    patience: Duration,
    acquired: impl Future<Output = Result<T, AcquireError>>,
) -> Result<T, AcquireError> {
    match tokio::time::timeout(patience.saturating_add(LAST_CALL), acquired).await {
        Ok(result) => result,
        Err(_) => Err(unanswered(patience)),
    }
}

/// What is told where patience has ended and nothing was heard of the store.
pub(crate) fn unanswered(patience: Duration) -> AcquireError {
    StoreError::unavailable(format!("the store has not answered within {patience:?}")).into()
}

/// A patience that many attempts share, one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedPatience {
    patience: Duration,
    end: Tick,
}

impl SharedPatience {
    pub(crate) fn new(leases: &Leases, patience: Duration) -> SharedPatience {
        SharedPatience { patience, end: end_of(&*leases.inner.clock, patience) }
    }

    /// When it ends.
    pub(crate) fn end(&self) -> Tick {
        self.end
    }

    /// How long an attempt may take now.
    pub(crate) fn left(&self, leases: &Leases) -> Duration {
        self.end.after(LAST_CALL).since(leases.inner.clock.held())
    }

    /// What comes of an attempt. Where patience ends and an earlier one was `answered`, it is held, by nobody known: an attempt that was cut short says
    /// nothing of the store.
    pub(crate) async fn attempt<T>(
        &self,
        leases: &Leases,
        answered: bool,
        attempt: impl Future<Output = Result<T, AcquireError>>,
    ) -> Result<T, AcquireError> {
        /// A store that does not answer for so long is away.
        const SILENCE: Duration = Duration::from_secs(1);
        let left = self.left(leases);
        if left.is_zero() && answered {
            return Err(AcquireError::Held(None));
        }
        match tokio::time::timeout(left, attempt).await {
            Ok(result) => result,
            Err(_) if answered && left < SILENCE => Err(AcquireError::Held(None)),
            Err(_) => Err(unanswered(self.patience)),
        }
    }
}
