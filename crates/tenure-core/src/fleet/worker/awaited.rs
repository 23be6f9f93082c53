//! Units that are planned for a worker but held by another. Each look shows some of them, in turn.

mod turns;

#[cfg(test)]
pub(super) use self::turns::AWAITED;
use self::turns::AwaitedTurns;
use crate::values::key::Key;
use crate::values::time::{Now, Tick};
use std::collections::BTreeSet;
use std::ops::Deref;

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Awaited {
    units: BTreeSet<Key>,
    /// Since when no other unit has come to be awaited.
    since: Tick,
    /// Which of them are looked at next.
    turns: AwaitedTurns,
}

impl Deref for Awaited {
    type Target = BTreeSet<Key>;

    fn deref(&self) -> &BTreeSet<Key> {
        &self.units
    }
}

impl Awaited {
    pub(super) fn since(&self) -> Tick {
        self.since
    }

    pub(super) fn insert(&mut self, unit: Key) {
        self.units.insert(unit);
    }

    /// Whether it was awaited.
    pub(super) fn remove(&mut self, unit: &Key) -> bool {
        self.units.remove(unit)
    }

    /// None is awaited any more.
    pub(super) fn clear(&mut self) {
        self.units.clear();
    }

    /// There is a new plan: those that are still awaited are named anew. Gives those back that were so before.
    pub(super) fn begin_plan(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.units)
    }

    /// All that the new plan has this worker await are named.
    pub(super) fn end_plan(&mut self, now: Now, before: &BTreeSet<Key>) {
        if !self.units.is_subset(before) {
            self.begin(now);
        }
    }

    /// Something has come to be awaited that may soon be had.
    pub(super) fn begin(&mut self, now: Now) {
        self.since = now.held;
    }

    /// Somebody has written this one.
    pub(super) fn wrote(&mut self, unit: &Key) {
        self.turns.wrote(unit);
    }

    /// What the next look shows of them.
    pub(super) fn next_look(&mut self) -> Vec<Key> {
        self.turns.next(&self.units)
    }

    /// Whether some that were written are not shown by the look under way.
    pub(super) fn has_more(&self) -> bool {
        self.turns.has_more()
    }

    /// The look has shown nothing that counts.
    pub(super) fn missed(&mut self) {
        self.turns.missed();
    }
}
