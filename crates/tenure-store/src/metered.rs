//! A store that counts what is asked of it.

use crate::image::Image;
use crate::store::Store;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_core::op::{Freshness, Listed, Outcome, Write};
use tenure_core::{Key, Record, StoreError, Stored, Version};

/// How many calls were made so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Reads of one record, or of several in one request.
    pub reads: u64,
    /// Single writes, won or lost.
    pub writes: u64,
    /// Batches of writes.
    pub batches: u64,
    /// Pages of listings.
    pub lists: u64,
    /// Removals.
    pub removes: u64,
}

impl Counts {
    /// All calls: each is one round trip.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.reads + self.writes + self.batches + self.lists + self.removes
    }
}

/// A store that counts what is asked of it. Clones share the counts.
#[derive(Debug, Clone)]
pub struct MeteredStore<S> {
    store: S,
    meters: Arc<CallMeters>,
}

#[derive(Debug, Default)]
struct CallMeters {
    reads: AtomicU64,
    writes: AtomicU64,
    batches: AtomicU64,
    lists: AtomicU64,
    removes: AtomicU64,
}

impl<S> MeteredStore<S> {
    /// Counts the calls to `store`.
    pub fn new(store: S) -> Self {
        MeteredStore { store, meters: Arc::default() }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.told(|count| count.load(Ordering::SeqCst))
    }

    /// The counts so far, which begin anew at zero.
    pub fn take(&self) -> Counts {
        self.told(|count| count.swap(0, Ordering::SeqCst))
    }

    fn told(&self, tell: impl Fn(&AtomicU64) -> u64) -> Counts {
        let CallMeters { reads, writes, batches, lists, removes } = &*self.meters;
        Counts {
            reads: tell(reads),
            writes: tell(writes),
            batches: tell(batches),
            lists: tell(lists),
            removes: tell(removes),
        }
    }
}

impl<S: Store> Store for MeteredStore<S> {
    crate::pass_on!(store: capabilities, id, changed);

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.meters.reads.fetch_add(1, Ordering::SeqCst);
        self.store.read(key).await
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.meters.reads.fetch_add(1, Ordering::SeqCst);
        self.store.read_many(keys, freshness).await
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.meters.writes.fetch_add(1, Ordering::SeqCst);
        self.store.write(write).await
    }
    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.meters.batches.fetch_add(1, Ordering::SeqCst);
        self.store.write_many(writes).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.meters.lists.fetch_add(1, Ordering::SeqCst);
        self.store.list(prefix, after, limit).await
    }
    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.meters.removes.fetch_add(1, Ordering::SeqCst);
        self.store.remove(key, version).await
    }
    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.meters.reads.fetch_add(1, Ordering::SeqCst);
        self.store.image(key).await
    }
    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        self.meters.removes.fetch_add(1, Ordering::SeqCst);
        self.store.mend(key, seen, instead).await
    }
}
