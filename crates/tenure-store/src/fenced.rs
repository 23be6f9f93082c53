//! What becomes of a caller's transaction that has a lease for its condition.

/// What became of a transaction that was to be done only while a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Fenced<T> {
    /// It was committed while the lease stood; with what its work returned.
    Committed(T),
    /// The lease is lost. Nothing was changed, and nothing with this fence ever will be.
    Lost,
}

impl<T> Fenced<T> {
    /// What the work returned, if it was committed.
    #[must_use]
    pub fn committed(self) -> Option<T> {
        match self {
            Fenced::Committed(value) => Some(value),
            Fenced::Lost => None,
        }
    }
}
