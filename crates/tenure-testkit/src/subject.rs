//! What the suite is run on.

use crate::clock::ManualClock;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, Key};
use tenure_store::{PrefixedStore, Store};

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
}

impl<S> Clones<S> {
    /// The records of `store`, which must be empty.
    pub fn new(store: S, clock: Arc<ManualClock>) -> Self {
        Clones { store, clock }
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
        Key::MAX_BYTES
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }
}

/// Another subject's records below a prefix, as a [`PrefixedStore`] has them.
#[derive(Debug, Clone)]
pub struct Prefixed<S> {
    subject: S,
    prefix: &'static str,
}

impl<S: Subject> Prefixed<S> {
    /// The part of `subject` below `prefix`.
    pub fn new(subject: S, prefix: &'static str) -> Self {
        Prefixed { subject, prefix }
    }
}

#[allow(clippy::expect_used, reason = "the prefix is the test's own")]
impl<S: Subject> Subject for Prefixed<S> {
    type Store = PrefixedStore<S::Store>;

    async fn store(&self) -> Self::Store {
        PrefixedStore::new(self.subject.store().await, self.prefix)
            .expect("a prefix that leaves room for keys")
    }

    async fn damage(&self, key: &Key) -> bool {
        let key =
            Key::new(format!("{}{}", self.prefix, key.as_str())).expect("a key that has room for the prefix");
        self.subject.damage(&key).await
    }

    fn key_bytes(&self) -> usize {
        self.subject.key_bytes() - self.prefix.len()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.subject.clock()
    }

    async fn pass(&self, span: Duration) {
        self.subject.pass(span).await;
    }
}
