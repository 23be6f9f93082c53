//! L5, the head of a queue is served: permits that are free are granted to those who wait first in the very write that frees them;
//! whoever is granted something hears of it within a push or a poll; and what the dead hold or wait for is out of the way of whoever
//! waits within L1 of their death.
//!
//! Source: the promise L5. The first is checked at each write; the others after all faults have healed.

use crate::kernel::clock::True;
use std::collections::BTreeMap;
use tenure_core::semaphore::SemaphoreLedger;

/// A write has made `after`.
pub(crate) fn nothing_is_left_free(after: &SemaphoreLedger) -> Result<(), String> {
    match after.queue.first().filter(|head| after.fits(head)) {
        Some(head) => Err(format!("{} is at the head of the queue, and what it wants is free", head.holder)),
        None => Ok(()),
    }
}

/// Since when something is as it must not be for long, by what names it.
#[derive(Debug)]
pub(crate) struct Overdue<K>(BTreeMap<K, True>);

impl<K> Default for Overdue<K> {
    fn default() -> Self {
        Overdue(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Overdue<K> {
    /// Everything begins anew.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// These are as they must not be at `t`. The first that has been so for longer than `bound`.
    pub(crate) fn look(&mut self, t: True, bound: True, now: impl IntoIterator<Item = K>) -> Option<K> {
        let before = std::mem::take(&mut self.0);
        self.0 = now.into_iter().map(|id| (id, before.get(&id).copied().unwrap_or(t))).collect();
        self.0.iter().find(|(_, since)| t - **since > bound).map(|(id, _)| *id)
    }
}
