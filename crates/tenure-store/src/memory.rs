//! A store in this process's memory: for tests, examples, and programs that are a single process today.

use crate::capability::Capabilities;
use crate::codec;
use crate::image::{Image, hex};
use crate::parts::Subscribers;
use crate::store::{Changes, Store};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::op::{Expect, Freshness, Hint, Listed, Outcome, Write};
use tenure_core::{Clock, Fence, Key, Record, StoreError, Stored, Tick, Times, Version};

/// Records in memory. Clones share them.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<SharedMemory>,
}

struct SharedMemory {
    id: String,
    clock: Arc<dyn Clock>,
    state: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    records: BTreeMap<Key, MemoryEntry>,
    watchers: Subscribers,
}

#[derive(Clone)]
struct MemoryEntry {
    record: Record,
    written: Tick,
}

impl MemoryStore {
    /// An empty store that tells records' ages by `clock`. `id` names it in leases' tokens.
    pub fn new(id: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        MemoryStore { inner: Arc::new(SharedMemory { id: id.into(), clock, state: Mutex::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryEntry {
    fn stored(&self, now: Tick) -> Stored {
        let times = Times { clock: 0, written: self.written.0.div_ceil(1000), now: now.0 / 1000 };
        Stored::new(self.record.clone()).timed(Some(times))
    }
}

impl MemoryState {
    /// All of them, or none where one is refused: whoever is told so knows that nothing was done.
    fn write_all(&mut self, writes: Vec<Write>, now: Tick) -> Result<Vec<Outcome>, StoreError> {
        let mut before = Vec::with_capacity(writes.len());
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            let key = write.key.clone();
            let standing = self.records.get(&key).cloned();
            match self.write(write, now) {
                Ok(outcome) => {
                    before.push((key, standing));
                    outcomes.push(outcome);
                }
                Err(error) => {
                    for (key, standing) in before.into_iter().rev() {
                        match standing {
                            Some(entry) => drop(self.records.insert(key, entry)),
                            None => drop(self.records.remove(&key)),
                        }
                    }
                    return Err(error);
                }
            }
        }
        for ((key, _), outcome) in before.into_iter().zip(&outcomes) {
            if let Outcome::Won { version, .. } = outcome {
                self.watchers.tell(&Hint::Written(key, *version));
            }
        }
        Ok(outcomes)
    }

    /// Nobody is told of it yet.
    fn write(&mut self, write: Write, now: Tick) -> Result<Outcome, StoreError> {
        let Write { key, expect, mut record } = write;
        let standing = self.records.get(&key);
        let holds = match (expect, standing) {
            (Expect::Absent, standing) => standing.is_none(),
            (Expect::Vacant, standing) => standing.is_none_or(|entry| entry.record.tenure.is_none()),
            (Expect::Unchanged(version), standing) => {
                standing.is_some_and(|entry| entry.record.version() == version)
            }
        };
        if !holds {
            return Ok(Outcome::Lost(standing.map(|entry| entry.stored(now))));
        }
        if let (Expect::Vacant, Some(entry)) = (expect, standing) {
            record.fence = entry.record.fence.next(record.fence)?;
        }
        let (version, fence): (Version, Fence) = (record.version(), record.fence);
        self.records.insert(key, MemoryEntry { record, written: now });
        Ok(Outcome::Won { version, fence })
    }
}

fn image_of(record: &Record) -> Result<Image, StoreError> {
    let bytes = codec::encode(record)?;
    Ok(Image::new(hex(&bytes), Ok(record.clone()), &bytes, []))
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::native(Duration::from_millis(10))
    }

    fn id(&self) -> String {
        self.inner.id.clone()
    }

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let now = self.inner.clock.now().held;
        Ok(self.lock().records.get(key).map(|entry| entry.stored(now)))
    }

    async fn read_many(&self, keys: &[Key], _freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        let now = self.inner.clock.now().held;
        let state = self.lock();
        let found = keys.iter().filter_map(|key| state.records.get_key_value(key));
        Ok(found.map(|(key, entry)| Listed { key: key.clone(), stored: Ok(entry.stored(now)) }).collect())
    }

    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        codec::check(&write.record)?;
        let now = self.inner.clock.now().held;
        let mut state = self.lock();
        let key = write.key.clone();
        let outcome = state.write(write, now)?;
        if let Outcome::Won { version, .. } = outcome {
            state.watchers.tell(&Hint::Written(key, version));
        }
        Ok(outcome)
    }

    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.capabilities().check_batch(writes.len())?;
        writes.iter().try_for_each(|write| codec::check(&write.record))?;
        let now = self.inner.clock.now().held;
        self.lock().write_all(writes, now)
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let now = self.inner.clock.now().held;
        let state = self.lock();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = state.records.range::<Key, _>((from, Bound::Unbounded));
        let matching = keys
            .skip_while(|(key, _)| key.as_str() < prefix)
            .take_while(|(key, _)| key.as_str().starts_with(prefix));
        Ok(matching
            .take(limit)
            .map(|(key, entry)| Listed { key: key.clone(), stored: Ok(entry.stored(now)) })
            .collect())
    }

    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let unchanged = state.records.get(key).is_some_and(|entry| entry.record.version() == version);
        if unchanged {
            state.records.remove(key);
        }
        Ok(unchanged)
    }

    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.lock().records.get(key).map(|entry| image_of(&entry.record)).transpose()
    }

    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        instead.as_ref().map_or(Ok(()), codec::check)?;
        let written = self.inner.clock.now().held;
        let mut state = self.lock();
        let is_same = match state.records.get(key) {
            Some(entry) => image_of(&entry.record)?.copy == seen.copy,
            None => false,
        };
        if is_same {
            match instead {
                Some(record) => drop(state.records.insert(key.clone(), MemoryEntry { record, written })),
                None => drop(state.records.remove(key)),
            }
        }
        Ok(is_same)
    }

    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        Ok(self.lock().watchers.subscribe(prefix))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: of a batch that is refused in its middle nothing is done, and nobody is told of any of it.
    use super::*;
    use tenure_core::{ErrorKind, Metadata, Nonce, Now, Wall};

    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Now {
            Now::default()
        }
    }

    fn vacant(key: &str, nonce: u128, fence: Fence) -> Write {
        let record =
            Record { fence, nonce: Nonce(nonce), stamp: Wall(0), tenure: None, metadata: Metadata::new() };
        Write { key: Key::new(key).unwrap(), expect: Expect::Vacant, record }
    }

    #[tokio::test]
    async fn of_a_batch_that_is_refused_in_the_middle_nothing_is_done() {
        let store = MemoryStore::new("memory:test", Arc::new(Stopped));
        let keys = ["a", "b", "used"].map(|key| Key::new(key).unwrap());
        store.write(vacant("a", 1, Fence(1))).await.unwrap();
        store.write(vacant("used", 2, Fence::MAX)).await.unwrap();
        let before = store.read_many(&keys, Freshness::Latest).await.unwrap();
        let mut hints = store.changed("").unwrap();
        let batch = vec![
            vacant("a", 3, Fence(1)),
            vacant("b", 4, Fence(1)),
            vacant("a", 5, Fence(1)),
            vacant("used", 6, Fence(1)),
        ];
        let error = store.write_many(batch).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert_eq!(store.read_many(&keys, Freshness::Latest).await.unwrap(), before);
        assert!(hints.try_recv().is_err(), "a hint of what was not written");
        store.write_many(vec![vacant("a", 7, Fence(1)), vacant("b", 8, Fence(1))]).await.unwrap();
        assert!(hints.try_recv().is_ok() && hints.try_recv().is_ok());
    }
}
