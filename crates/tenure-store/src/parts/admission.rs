//! What a store has allowed before.
//!
//! A refusal at first is the caller's mistake, which no waiting mends. A later one is a change at the store: of a password, a grant, or the server
//! itself. An operator mends that, so whoever waits is to wait on, and to hear of it.

use std::sync::atomic::{AtomicBool, Ordering};
use tenure_core::{ErrorKind, StoreError};

/// What a store may allow or refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To be let in, by a server that may be used.
    Login,
    /// To read records.
    Read,
    /// To write records.
    Write,
    /// To remove records, readable ones or not.
    Remove,
    /// To read several records at once, where that is a right of its own.
    ReadMany,
    /// To list records, where that is a right of its own.
    List,
}

/// The rights that a store has shown this process to have.
#[derive(Debug, Default)]
pub struct Admission([AtomicBool; 6]);

impl Admission {
    /// Notes that `right` is there. Who may write may read: a refused write shows what stands there.
    pub fn granted(&self, right: Right) {
        self.0[right as usize].store(true, Ordering::Relaxed);
        if right == Right::Write {
            self.0[Right::Read as usize].store(true, Ordering::Relaxed);
        }
    }

    /// The error of a refusal: `Unavailable` instead of `Invalid` where the right was there before.
    #[must_use]
    pub fn refused(&self, right: Right, error: StoreError) -> StoreError {
        let was_granted = self.0[right as usize].load(Ordering::Relaxed);
        match error.kind() {
            ErrorKind::Invalid if was_granted => error.of_kind(ErrorKind::Unavailable),
            _ => error,
        }
    }

    /// What comes of a call that needs `right`. `shows`: whether an answer proves that it is there, as one that was asked for nothing
    /// does not.
    ///
    /// # Errors
    /// That of the call; if it is a refusal, as by [`Self::refused`].
    pub fn judged<T>(
        &self,
        right: Right,
        is_refusal: impl FnOnce(&StoreError) -> bool,
        shows: impl FnOnce(&T) -> bool,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => {
                if shows(&answer) {
                    self.granted(right);
                }
                Ok(answer)
            }
            Err(error) if is_refusal(&error) => Err(self.refused(right, error)),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a refusal before and after the right was there, of another right, and what is no refusal.
    use super::*;

    #[test]
    fn what_was_allowed_before_passes_where_it_is_refused() {
        let admission = Admission::default();
        let kind = |right, is_refusal: bool, error: &StoreError| {
            let answer = admission.judged::<()>(right, |_| is_refusal, |()| true, Err(error.clone()));
            answer.unwrap_err().kind()
        };
        let (refusal, lost) = (StoreError::invalid("no right"), StoreError::unknown("no answer"));
        for right in [Right::Write, Right::Read] {
            assert_eq!(kind(right, true, &refusal), ErrorKind::Invalid);
        }
        assert_eq!(admission.judged(Right::Write, |_| true, |_| false, Ok(6)), Ok(6));
        assert_eq!(kind(Right::Write, true, &refusal), ErrorKind::Invalid, "that was no proof");
        assert_eq!(admission.judged(Right::Write, |_| true, |_| true, Ok(7)), Ok(7));
        admission.granted(Right::Login);
        for (right, is_refusal, error, expected) in [
            (Right::Write, true, &refusal, ErrorKind::Unavailable),
            (Right::Read, true, &refusal, ErrorKind::Unavailable),
            (Right::Login, true, &refusal, ErrorKind::Unavailable),
            (Right::Remove, true, &refusal, ErrorKind::Invalid),
            (Right::Write, false, &refusal, ErrorKind::Invalid),
            (Right::Write, true, &lost, ErrorKind::Unknown),
        ] {
            assert_eq!(kind(right, is_refusal, error), expected, "{right:?} {error}");
        }
    }
}
