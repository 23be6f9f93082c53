//! A memory store for the driver's tests, which notes what it is asked and can be slow, or short of hints.

use crate::clock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tenure_core::op::Listed;
use tenure_core::{Clock, Key, Now, StoreError, Stored, Tick, Wall};
use tenure_store::{Changes, Freshness, MemoryStore, Store};
use tokio::sync::{Semaphore, mpsc};

pub(super) type Log = Arc<Mutex<Vec<String>>>;

/// Notes what it is asked. Of the streams of hints that it is asked for, every other is refused; the rest end at once.
#[derive(Clone)]
pub(super) struct Noting {
    pub(super) log: Log,
    pub(super) asked_for_hints: Arc<AtomicU32>,
    /// With them, each answer to a read takes one, and is a refusal.
    pub(super) permits: Option<Arc<Semaphore>>,
    /// It panics when it is asked for this key.
    pub(super) panics_at: Option<&'static str>,
    store: MemoryStore,
}

impl Default for Noting {
    fn default() -> Self {
        let store = MemoryStore::new("noting", clock::system());
        Noting { log: Log::default(), asked_for_hints: Arc::default(), permits: None, panics_at: None, store }
    }
}

impl Noting {
    fn note(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
    }
}

impl Store for Noting {
    tenure_store::pass_on!(store: capabilities, id, write, write_many, remove, image, mend);

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.note(format!("read {key}"));
        assert!(self.panics_at != Some(key.as_str()), "no {key} here");
        if let Some(permits) = &self.permits {
            permits.acquire().await.unwrap().forget();
            return Err(StoreError::unavailable("throttled"));
        }
        self.store.read(key).await
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.note("look");
        self.store.read_many(keys, freshness).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.note("page");
        self.store.list(prefix, after, limit).await
    }
    fn changed(&self, _prefix: &str) -> Result<Changes, StoreError> {
        if self.asked_for_hints.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            Err(StoreError::unavailable("no hints today"))
        } else {
            Ok(mpsc::channel(1).1)
        }
    }
}

/// The paused runtime's time, from its begin on.
pub(super) struct Paused(tokio::time::Instant);

impl Paused {
    #[allow(clippy::disallowed_methods, reason = "the paused runtime's clock is the simulated time")]
    pub(super) fn begun() -> Paused {
        Paused(tokio::time::Instant::now())
    }
}

impl Clock for Paused {
    fn now(&self) -> Now {
        let held = Tick(0).after(self.0.elapsed());
        Now { held, waited: held, wall: Wall(0) }
    }
}
