//! What an operation on a lease of the dialect answers when it did nothing.

use tenure_core::{InvalidInput, StoreError};

/// An operation on a lease did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// There is a row of that name already. It stays as it is.
    #[error("there is a lease {0:?} already; update it, or choose another name")]
    Exists(String),
    /// There is no row of that name.
    #[error("there is no lease {0:?}; create it first")]
    Missing(String),
    /// The row is not as it was read. It stays as it is.
    #[error("the lease {0:?} is not as it was read; read it again")]
    Changed(String),
    /// This coordinator does not hold the lease, or not any more.
    #[error("the lease {0:?} is not held here")]
    NotHeld(String),
    /// The coordinator was stopped.
    #[error("the coordinator was stopped, and its leases with it; start another")]
    Stopped,
    /// The table, or the input, is at fault: see its kind.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<InvalidInput> for LeaseError {
    fn from(error: InvalidInput) -> Self {
        LeaseError::Store(error.into())
    }
}
