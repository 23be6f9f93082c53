//! Why this version does not read a record as what its key says.

use std::fmt;
use tenure::StoreError;

/// What is wrong with a record, in words, or that a newer version has written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordProblem {
    text: String,
    is_newer: bool,
}

impl RecordProblem {
    /// It is damaged, or something else's.
    pub(crate) fn damage(text: impl Into<String>) -> RecordProblem {
        RecordProblem { text: text.into(), is_newer: false }
    }

    /// A newer version may have written it, which can read it.
    pub(crate) fn newer(text: impl Into<String>) -> RecordProblem {
        RecordProblem { text: text.into(), is_newer: true }
    }

    /// Whether that newer version has to be asked, and nothing is to be removed here.
    pub(crate) fn is_newer(&self) -> bool {
        self.is_newer
    }
}

impl From<&StoreError> for RecordProblem {
    fn from(error: &StoreError) -> Self {
        RecordProblem { text: error.to_string(), is_newer: error.is_newer() }
    }
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
