//! What was last seen under each key: the belief that a condition is built on, before anything is read.
//!
//! A version names one write, and so does etcd's revision. Which of them belong together never changes, so a belief is never wrong,
//! only old: then the condition fails, and the refusal shows what stands there.

use crate::wire::{Compare, KeyValue, begins_with, is_of};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tenure_core::{Fence, Key, Stored, Version};

/// How many keys are remembered: this many, and as many again of those seen before them.
const ROOM: usize = 1 << 15;
/// As many bytes of a value as it takes to tell the write that made it: the head, and the record up to its nonce.
const TELLING: usize = 40;

/// What stood under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoEntry {
    pub(crate) version: Version,
    /// The fence, if nobody held it.
    pub(crate) vacant: Option<Fence>,
    revision: i64,
    begins: Vec<u8>,
}

impl MemoEntry {
    pub(crate) fn of(pair: &KeyValue, stored: &Stored) -> MemoEntry {
        let record = &stored.record;
        let vacant = record.tenure.is_none().then_some(record.fence);
        MemoEntry::written(stored.version, vacant, pair.mod_revision, &pair.value)
    }

    pub(crate) fn written(version: Version, vacant: Option<Fence>, revision: i64, value: &[u8]) -> MemoEntry {
        let begins = value[..value.len().saturating_sub(1).min(TELLING)].to_vec();
        MemoEntry { version, vacant, revision, begins }
    }

    /// The same, now that its revision is known.
    pub(crate) fn at(self, revision: i64) -> MemoEntry {
        MemoEntry { revision, ..self }
    }

    /// It still stands there. A revision alone says that within one history of the cluster; after one was restored from an older
    /// copy, another write may have the same.
    pub(crate) fn stands(&self, name: &[u8]) -> Vec<Compare> {
        let mut all = vec![is_of(name, self.revision)];
        all.extend(begins_with(name, &self.begins));
        all
    }

    /// The same, of a pair that was read.
    pub(crate) fn is_still(&self, found: &KeyValue) -> bool {
        self.revision == found.mod_revision && self.was_written(found)
    }

    /// The pair is of the same write, at whichever revision.
    pub(crate) fn was_written(&self, found: &KeyValue) -> bool {
        found.value.starts_with(&self.begins)
    }
}

/// What is remembered. The oldest is forgotten where there is too much.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    shelves: Mutex<[BTreeMap<Key, MemoEntry>; 2]>,
}

impl Memo {
    pub(crate) fn get(&self, key: &Key) -> Option<MemoEntry> {
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.iter().find_map(|shelf| shelf.get(key)).cloned()
    }

    /// What an answer showed.
    pub(crate) fn put(&self, key: &Key, seen: Option<MemoEntry>) {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let [young, old] = &mut *shelves;
        old.remove(key);
        match seen {
            None => drop(young.remove(key)),
            Some(seen) => drop(young.insert(key.clone(), seen)),
        }
        if young.len() >= ROOM {
            *old = std::mem::take(young);
        }
    }

    /// What a watch tells, of keys that this process has to do with. It may come after what an answer has shown since.
    pub(crate) fn told(&self, key: &Key, seen: MemoEntry) {
        if self.get(key).is_some_and(|known| known.revision < seen.revision) {
            self.put(key, Some(seen));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the memo is bounded, and forgets the oldest first; a watch adds nothing new and takes nothing back.
    use super::*;

    fn seen(revision: i64) -> MemoEntry {
        MemoEntry::written(Version(revision as u128), None, revision, b"value")
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let memo = Memo::default();
        let key = |n: usize| Key::new(format!("{n}")).unwrap();
        for n in 0..3 * ROOM {
            memo.put(&key(n), Some(seen(1)));
        }
        assert_eq!((memo.get(&key(0)), memo.get(&key(3 * ROOM - 1))), (None, Some(seen(1))));
        let kept: usize = memo.shelves.lock().unwrap().iter().map(BTreeMap::len).sum();
        assert!(kept <= 2 * ROOM, "{kept}");
    }

    #[test]
    fn a_watch_adds_nothing_and_takes_nothing_back() {
        let (memo, key) = (Memo::default(), Key::new("k").unwrap());
        memo.told(&key, seen(5));
        assert_eq!(memo.get(&key), None);
        memo.put(&key, Some(seen(5)));
        memo.told(&key, seen(4));
        assert_eq!(memo.get(&key), Some(seen(5)));
        memo.told(&key, seen(6));
        assert_eq!(memo.get(&key), Some(seen(6)));
        memo.put(&key, None);
        assert_eq!(memo.get(&key), None);
    }
}
