//! What this process has released a moment ago, with the fences that stand there.
//!
//! An acquisition is conditional on a fence lower than the acquirer's clock. Within the millisecond of the last one that does
//! not hold, nor for a clock that is behind: then the request would be refused, and a second one need be made, had the fence
//! not been noted here. It is no more than a good guess: the condition decides.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tenure_core::{Fence, Key};

/// Keys that are acquired again at once are few.
const MOST: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct ReleasedFences(Mutex<BTreeMap<Key, Fence>>);

impl ReleasedFences {
    pub(crate) fn note(&self, key: &Key, fence: Fence) {
        let mut fences = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if fences.len() >= MOST {
            // The clock has passed most of them by.
            fences.retain(|_, noted| *noted >= fence);
        }
        if fences.len() < MOST {
            fences.insert(key.clone(), fence);
        }
    }

    /// The fence that was noted, which is then forgotten.
    pub(crate) fn take(&self, key: &Key) -> Option<Fence> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a fence is told once; the notes are few, and old ones make room for new ones.
    use super::*;

    #[test]
    fn fences_are_told_once_and_old_ones_make_room() {
        let released = ReleasedFences::default();
        let key = |n: usize| Key::new(format!("k{n}")).unwrap();
        released.note(&key(0), Fence(7));
        released.note(&key(0), Fence(8));
        assert_eq!((released.take(&key(0)), released.take(&key(0))), (Some(Fence(8)), None));
        for n in 0..MOST {
            released.note(&key(n), Fence(10));
        }
        released.note(&key(MOST), Fence(9));
        assert_eq!(released.take(&key(MOST)), None, "all are newer");
        released.note(&key(MOST), Fence(11));
        assert_eq!((released.take(&key(1)), released.take(&key(MOST))), (None, Some(Fence(11))));
    }
}
