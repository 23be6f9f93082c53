//! What the failure of a call leaves open.

use std::sync::Arc;
use tenure_core::StoreError;

/// Whether a call changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A look: there is nothing about it that could stay unknown.
    Read,
    /// Its outcome may stay unknown.
    Write,
}

impl Call {
    /// The error of a call that may have been sent and had no answer: `Unknown` for a write, `Unavailable` for a read.
    #[must_use]
    pub fn unanswered(self, text: impl Into<Arc<str>>) -> StoreError {
        match self {
            Call::Read => StoreError::unavailable(text),
            Call::Write => StoreError::unknown(text),
        }
    }
}
