//! Turns of the units that a worker awaits: one look shows some of them. Those that somebody has written come first, for they may have
//! come free.

use crate::values::key::Key;
use std::collections::BTreeSet;
use std::ops::Bound;

/// How many awaited units one look shows.
pub(in crate::fleet::worker) const AWAITED: usize = 64;

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct AwaitedTurns {
    /// The last one that was looked at.
    cursor: Option<Key>,
    /// Those that were written since they were looked at, and the last of such that was looked at.
    written: BTreeSet<Key>,
    written_cursor: Option<Key>,
    /// Those of them that the look under way is at.
    shown: BTreeSet<Key>,
}

impl AwaitedTurns {
    /// Somebody has written this one.
    pub(super) fn wrote(&mut self, unit: &Key) {
        self.written.insert(unit.clone());
    }

    /// What the next look shows.
    pub(super) fn next(&mut self, awaited: &BTreeSet<Key>) -> Vec<Key> {
        self.written.retain(|unit| awaited.contains(unit));
        let mut next: Vec<Key> = around(&self.written, self.written_cursor.as_ref()).take(AWAITED).collect();
        if let Some(last) = next.last() {
            self.written_cursor = Some(last.clone());
        }
        self.shown = next.iter().cloned().collect();
        self.written.retain(|unit| !self.shown.contains(unit));
        let rest = AWAITED - next.len();
        let others = around(awaited, self.cursor.as_ref()).filter(|unit| !self.shown.contains(unit));
        let others: Vec<Key> = others.take(rest).collect();
        if let Some(last) = others.last() {
            self.cursor = Some(last.clone());
        }
        next.extend(others);
        next
    }

    /// Whether some that were written are not shown by the look under way.
    pub(super) fn has_more(&self) -> bool {
        !self.written.is_empty()
    }

    /// The look has shown nothing that counts.
    pub(super) fn missed(&mut self) {
        self.written.append(&mut self.shown);
    }
}

/// All keys, from the one after this one on and around.
fn around(keys: &BTreeSet<Key>, after: Option<&Key>) -> impl Iterator<Item = Key> {
    let (later, earlier) = match after {
        Some(after) => (keys.range((Bound::Excluded(after), Bound::Unbounded)), Some(keys.range(..=after))),
        None => (keys.range::<Key, _>(..), None),
    };
    later.chain(earlier.into_iter().flatten()).cloned()
}
