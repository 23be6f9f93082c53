//! Which changes of units workers have not been told of yet. Clones of a handle share that, and may change and tell at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Changes are numbered from 1.
#[derive(Debug, Default)]
pub(super) struct UntoldChanges {
    changed: AtomicU64,
    /// All up to this one have been told.
    told: AtomicU64,
}

impl UntoldChanges {
    /// One begins, or has been made. Its number.
    pub(super) fn note(&self) -> u64 {
        self.changed.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// There is nothing to tell of that one.
    pub(super) fn was_none(&self, change: u64) {
        // Unless one before it is untold.
        let _as_it_was = self.told.compare_exchange(change - 1, change, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(super) fn is_any(&self) -> bool {
        self.told.load(Ordering::SeqCst) < self.newest()
    }

    /// The last one so far: those after it are another matter.
    pub(super) fn newest(&self) -> u64 {
        self.changed.load(Ordering::SeqCst)
    }

    pub(super) fn told(&self, up_to: u64) {
        self.told.fetch_max(up_to, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_out_to_be_no_change_hides_none_that_was_made_beside_it() {
        let untold = UntoldChanges::default();
        let one = untold.note();
        untold.was_none(one);
        assert!(!untold.is_any());
        // Another begins, and its answer is lost.
        let (two, _three) = (untold.note(), untold.note());
        untold.was_none(two);
        assert!(untold.is_any());
        let seen = untold.newest();
        let four = untold.note();
        untold.told(seen);
        assert!(untold.is_any(), "what came after the look");
        untold.was_none(four);
        assert!(!untold.is_any());
        // One before it is untold.
        let (_five, six) = (untold.note(), untold.note());
        untold.was_none(six);
        assert!(untold.is_any());
    }
}
