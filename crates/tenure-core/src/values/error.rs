//! What can go wrong at the boundary to a store, by what the caller must do about it.

use std::fmt;
use std::sync::Arc;

/// The caller's mistake, told before any I/O. The text names the input and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidInput(String);

impl InvalidInput {
    /// An error with the given text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        InvalidInput(text.into())
    }
}

/// What kind of failure a store call met, which is to say: what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call did not take effect and may be repeated.
    Unavailable,
    /// The call may or may not have taken effect, or may still: read the record and compare its nonce.
    Unknown,
    /// The record is not ours, is damaged, or was written by a newer version: it is left as it is.
    Foreign,
    /// The store can't do this; its capabilities say so.
    Unsupported,
    /// The caller's mistake.
    Invalid,
}

/// A failed store call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreError {
    kind: ErrorKind,
    text: Arc<str>,
}

impl StoreError {
    /// An error of `kind` with a text that names what failed and, where there is one, the remedy.
    pub fn new(kind: ErrorKind, text: impl Into<Arc<str>>) -> Self {
        StoreError { kind, text: text.into() }
    }

    /// The call did not take effect and may be repeated.
    pub fn unavailable(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unavailable, text)
    }

    /// The call may or may not have taken effect.
    pub fn unknown(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unknown, text)
    }

    /// The record is not ours or is damaged.
    pub fn foreign(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Foreign, text)
    }

    /// The store can't do this.
    pub fn unsupported(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unsupported, text)
    }

    /// The caller's mistake.
    pub fn invalid(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Invalid, text)
    }

    /// The same, of something that is named first.
    #[must_use]
    pub fn about(&self, what: impl fmt::Display) -> Self {
        Self::new(self.kind, format!("{what}: {}", self.text))
    }

    /// What to do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether repeating the call can help.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Unknown)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ErrorKind::Unavailable => "store unavailable",
            ErrorKind::Unknown => "outcome unknown",
            ErrorKind::Foreign => "foreign or damaged record",
            ErrorKind::Unsupported => "not supported by this store",
            ErrorKind::Invalid => "invalid input",
        };
        write!(f, "{kind}: {}", self.text)
    }
}

impl std::error::Error for StoreError {}

impl From<InvalidInput> for StoreError {
    fn from(error: InvalidInput) -> Self {
        StoreError::invalid(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_something_says_its_kind_once() {
        let error = StoreError::foreign("not ours").about("the row of k");
        assert_eq!(error.to_string(), "foreign or damaged record: the row of k: not ours");
        assert_eq!(error.kind(), ErrorKind::Foreign);
    }
}
