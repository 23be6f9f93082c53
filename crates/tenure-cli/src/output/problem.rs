//! Why this version does not read a record as what its key says.

use std::fmt;
use tenure::{Key, StoreError};

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

    /// What a store says of this key's record, without the key: that is told before the problem everywhere.
    pub(crate) fn of(key: &Key, error: &StoreError) -> RecordProblem {
        RecordProblem::told(error, error.cause_of(key))
    }

    fn told(error: &StoreError, cause: &str) -> RecordProblem {
        // The kind says "foreign or damaged", and what a newer version has written is neither.
        if error.is_newer() {
            RecordProblem::newer(cause)
        } else {
            RecordProblem::damage(format!("{}: {cause}", error.kind()))
        }
    }

    /// Whether that newer version has to be asked, and nothing is to be removed here.
    pub(crate) fn is_newer(&self) -> bool {
        self.is_newer
    }
}

impl From<&StoreError> for RecordProblem {
    fn from(error: &StoreError) -> Self {
        RecordProblem::told(error, error.text())
    }
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the key is told once, whatever the store calls a record; what a newer version has written is called neither foreign nor damaged; and what
    //! a store does not say of this key's record stays as it is.
    use super::*;

    #[test]
    fn the_cause_is_told_without_the_key_and_no_newer_record_is_called_damaged() {
        let key = Key::new("work/j/a").unwrap();
        let (damage, newer) = (StoreError::foreign("cut off"), StoreError::newer("version 9; upgrade it"));
        for place in ["the row of", "what is stored for"] {
            let told =
                |error: &StoreError| RecordProblem::of(&key, &error.about_record(place, &key)).to_string();
            assert_eq!(told(&damage), "foreign or damaged record: cut off");
            assert_eq!(told(&newer), "version 9; upgrade it");
        }
        let plain = RecordProblem::damage("foreign or damaged record: cut off");
        assert_eq!(RecordProblem::of(&key, &damage), plain);
        assert_eq!(RecordProblem::from(&newer), RecordProblem::newer("version 9; upgrade it"));
        // What the store says of another key's record, and what only reads like its words, are told whole.
        let session = damage.about_record("the row of", "session/a");
        let alike = StoreError::foreign("its note: the row of key work/j/a is left as it is: cut off");
        for error in [session, alike] {
            assert_eq!(RecordProblem::of(&key, &error).to_string(), error.to_string());
        }
    }
}
