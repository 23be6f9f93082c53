//! What users of leases are told when something can't be done.

use std::fmt;
use tenure_core::{InvalidInput, Loss, Occupant, StoreError};

/// A lease could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// It is held, and patience is over. Try later, or wait longer. Locks are not reentrant: the holder may be this very process
    /// ([`Leases::holder`](crate::Leases::holder)).
    #[error("{}", .0.as_ref().map_or("held by another".to_owned(), |by| format!("held by {} (fence {})", by.holder, by.fence)))]
    Held(Option<Occupant>),
    /// The record that was to be carried on does not exist.
    #[error("no such record")]
    Absent,
    /// The store, or the input, is at fault: see its kind.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The `Leases`, `Section` or `Candidate` was stopped. Start another.
    #[error("it was stopped; start another")]
    Stopped,
}

impl From<InvalidInput> for AcquireError {
    fn from(error: InvalidInput) -> Self {
        AcquireError::Store(error.into())
    }
}

/// As from what is bad before a lease is asked for.
impl<T> From<InvalidInput> for BodyError<T> {
    fn from(error: InvalidInput) -> Self {
        BodyError::Acquire(error.into())
    }
}

impl<T> From<StoreError> for BodyError<T> {
    fn from(error: StoreError) -> Self {
        BodyError::Acquire(error.into())
    }
}

fn of(occupant: &Option<Occupant>) -> String {
    occupant.as_ref().map_or_else(String::new, |by| format!(": {} (fence {})", by.holder, by.fence))
}

/// A held lease could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// This process held it and does not any more, for the reason that is given. Nothing was changed.
    #[error("the lease is lost: {}", .0)]
    Lost(#[source] Loss),
    /// Of a [`LeaseToken`](crate::LeaseToken) alone: the tenure that it stands for is over. Who holds the key now, if anybody does.
    #[error("the lease is not ours any more{}", of(.0))]
    NotOurs(Option<Occupant>),
    /// The token is of another store.
    #[error("the lease belongs to the store {theirs}, this is {ours}; open the store that it came from")]
    OtherStore {
        /// The store that the token came from.
        theirs: String,
        /// The store at hand.
        ours: String,
    },
    /// Of what is asked of a key's holder, or done to it: nobody holds the key, or another does than the one that was named by its fence or its
    /// name. A dead holder counts as one until its ttl is over.
    #[error("nobody holds the key, or another does than the one that was named")]
    NotHeld,
    /// The store, or the input, is at fault: see its kind. The lease is still held if it was, unless the call took its guard: then it is given up.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What it was asked of was stopped, and with it the lease.
    #[error("it was stopped, and its leases with it; start another")]
    Stopped,
}

impl From<InvalidInput> for LeaseError {
    fn from(error: InvalidInput) -> Self {
        LeaseError::Store(error.into())
    }
}

/// A body did not run to its end under the lease.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BodyError<T> {
    /// The lease could not be had; the body did not run.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease ended while the body ran: it was lost or withdrawn, its [time](crate::Lock::at_most_for) was over, or what the body ran under was
    /// stopped or [resigned](crate::Candidate::resign), or the runtime ended. The body was told to stop, and aborted after its grace period.
    #[error("the lease ended while the body ran: {}", .why)]
    Interrupted {
        /// Why.
        #[source]
        why: Loss,
        /// What the body returned within its grace period.
        value: Option<T>,
    },
    /// The body panicked. The lease was released.
    #[error("the body panicked: {0}")]
    Panicked(String),
}

impl<T> BodyError<T> {
    /// What the body returned all the same, for whoever does not mind why it was told to end.
    #[must_use]
    pub fn into_value(self) -> Option<T> {
        if let BodyError::Interrupted { value, .. } = self { value } else { None }
    }
}

/// Of any value: whether there is one is all that is shown of it.
impl<T> fmt::Debug for BodyError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::Acquire(error) => f.debug_tuple("Acquire").field(error).finish(),
            BodyError::Interrupted { why, value } => {
                f.debug_struct("Interrupted").field("why", why).field("has_value", &value.is_some()).finish()
            }
            BodyError::Panicked(text) => f.debug_tuple("Panicked").field(text).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what is behind a loss is in the chain of sources; bad input is told once.
    use super::*;
    use std::error::Error;

    #[test]
    fn what_is_behind_a_loss_is_in_the_chain() {
        let gone = StoreError::unavailable("gone");
        let why = Loss::Unreachable(gone.clone());
        let lost: Box<dyn Error> = Box::new(LeaseError::Lost(why.clone()));
        let interrupted: Box<dyn Error> = Box::new(BodyError::<()>::Interrupted { why, value: None });
        for error in [lost, interrupted] {
            let chain = std::iter::successors(error.source(), |error| (*error).source());
            assert_eq!(chain.filter_map(|error| error.downcast_ref::<StoreError>()).next(), Some(&gone));
        }
    }

    #[test]
    fn bad_input_is_told_once() {
        let much = [("much".to_owned(), "x".repeat(9000).into())].into();
        let bad = tenure_store::codec::check_metadata(&much).unwrap_err();
        for told in [LeaseError::from(bad.clone()).to_string(), AcquireError::from(bad).to_string()] {
            assert!(told.starts_with("invalid input: metadata of "), "{told}");
        }
    }
}
