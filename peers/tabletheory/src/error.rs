//! What is told when a lease can't be had or kept.

use std::fmt;
use tenure_core::{InvalidInput, StoreError};

/// The keys of a lease's item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// The partition key.
    pub pk: String,
    /// The sort key.
    pub sk: String,
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} / {:?}", self.pk, self.sk)
    }
}

/// A lease can't be had or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Another holds it. Try again later.
    #[error("the lease {key} is held by another")]
    Held {
        /// Which.
        key: LeaseKey,
        /// When it ends unless it is refreshed, in Unix seconds, if that was told.
        until: Option<i64>,
    },
    /// It is another's, or over, or was never ours. Nothing was changed, and it is not held any more.
    #[error("the lease {key} is not ours, or not any more")]
    NotOwned {
        /// Which.
        key: LeaseKey,
    },
    /// The caller's mistake, told before anything was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The store is at fault, or the item (`Foreign`): see its kind. What was held is still held as long as it says.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LeaseError {
    /// Whether the same can go well later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            LeaseError::Held { .. } => true,
            LeaseError::Store(error) => error.is_passing(),
            LeaseError::NotOwned { .. } | LeaseError::Invalid(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: each error says whether the same can go well later.
    use super::*;

    #[test]
    fn what_can_go_well_later_is_passing() {
        let key = LeaseKey { pk: "a".into(), sk: "LOCK".into() };
        for (error, is_passing) in [
            (LeaseError::Held { key: key.clone(), until: None }, true),
            (LeaseError::Store(StoreError::unavailable("busy")), true),
            (LeaseError::Store(StoreError::foreign("no lease")), false),
            (LeaseError::NotOwned { key }, false),
            (LeaseError::Invalid(InvalidInput::new("no key")), false),
        ] {
            assert_eq!(error.is_passing(), is_passing, "{error}");
        }
    }
}
