//! Turns: a process that hands a key on among its own leases lets others have it after a sixteenth of a ttl.
//!
//! Source: locks that go round within one process while others starve. Counted where the store sees it, once all faults are healed:
//! from the first tenure that was written over another one of the same session to the last, without a vacant record between.

use crate::kernel::clock::True;
use std::collections::BTreeMap;
use tenure_core::{Attachment, Record};

/// For each key, since when which session hands it on.
#[derive(Debug, Default)]
pub(crate) struct Streaks(BTreeMap<usize, (Attachment, True)>);

impl Streaks {
    /// A record of `key` was replaced. `bound` is how long a session may go on.
    pub(crate) fn landed(
        &mut self,
        key: usize,
        before: Option<&Record>,
        after: &Record,
        t: True,
        bound: True,
    ) -> Result<(), String> {
        let held = before.and_then(|record| record.tenure.as_ref()).zip(after.tenure.as_ref());
        let Some((old, new)) = held.filter(|(old, new)| old.attachment == new.attachment) else {
            self.0.remove(&key);
            return Ok(());
        };
        let Some(attachment) = new.attachment.as_ref().filter(|_| old.id != new.id) else { return Ok(()) };
        match self.0.get(&key) {
            Some((before, since)) if before == attachment && t - since > bound => Err(format!(
                "{} has handed k{key} on among its own leases for {} ms",
                attachment.session,
                (t - since) / 1_000_000
            )),
            Some((before, _)) if before == attachment => Ok(()),
            _ => {
                self.0.insert(key, (attachment.clone(), t));
                Ok(())
            }
        }
    }

    /// What is written next over this key's record is no hand-over.
    pub(crate) fn forget(&mut self, key: usize) {
        self.0.remove(&key);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
