//! What the suite is run on.

use crate::clock::ManualClock;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, Key};
use tenure_store::Store;

/// A set of records of its own, empty at first, and the ways to get at it. Every check is given a fresh one.
pub trait Subject: Send + Sync + Sized + 'static {
    /// The store that is examined.
    type Store: Store;

    /// Another handle onto the same records, as independent of the others as two processes' handles are.
    fn store(&self) -> impl Future<Output = Self::Store> + Send;

    /// Spoils the record of `key` behind the store's back. False if this can't be done, and the checks of damaged records
    /// then have nothing to check.
    fn damage(&self, key: &Key) -> impl Future<Output = bool> + Send;

    /// The longest keys that are tried, in bytes: [`Key::MAX_BYTES`], but for what a store puts before them.
    fn key_bytes(&self) -> usize;

    /// The clock by which true time is told.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Lets at least `span` pass on that clock.
    fn pass(&self, span: Duration) -> impl Future<Output = ()> + Send;
}

/// A subject whose handles are clones of one store, which tells time by a manual clock.
#[derive(Debug, Clone)]
pub struct Clones<S> {
    store: S,
    clock: Arc<ManualClock>,
    key_bytes: usize,
}

impl<S> Clones<S> {
    /// The records of `store`, which must be empty.
    pub fn new(store: S, clock: Arc<ManualClock>) -> Self {
        Clones { store, clock, key_bytes: Key::MAX_BYTES }
    }

    /// The same for a store that puts a prefix of `bytes` before its keys.
    #[must_use]
    pub fn prefixed_by(self, bytes: usize) -> Self {
        Clones { key_bytes: Key::MAX_BYTES - bytes, ..self }
    }
}

impl<S: Store + Clone> Subject for Clones<S> {
    type Store = S;

    async fn store(&self) -> S {
        self.store.clone()
    }

    async fn damage(&self, _key: &Key) -> bool {
        false
    }

    fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }
}
