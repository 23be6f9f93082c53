//! Subjects in real time, for stores that are files or servers.

use crate::clock::RealClock;
use crate::subject::Subject;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_core::{Clock, Key};
use tenure_store::Store;

/// A set of records of its own in a real store: a new file, schema or namespace.
pub trait Fixture: Send + Sync + 'static {
    /// The store that is examined.
    type Store: Store;

    /// Opens another handle, as by another process. Stores that need a clock of the caller's take `clock`.
    fn open(&self, clock: Arc<dyn Clock>) -> impl Future<Output = Self::Store> + Send;

    /// Cuts the record of `key` short, as another program or a hand would. False if this can't be done.
    fn damage(&self, key: &Key) -> impl Future<Output = bool> + Send;
}

/// A name that no other test has, in whatever process of this host: `name`, digits and `_`.
#[must_use]
pub fn unique(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{name}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst))
}

/// The subject that a [`Fixture`] makes, in real time.
#[derive(Debug)]
pub struct Live<F> {
    fixture: F,
    clock: Arc<RealClock>,
    short: Duration,
}

impl<F: Fixture> Live<F> {
    /// A subject with these records, which are empty.
    pub fn new(fixture: F) -> Self {
        Live { fixture, clock: Arc::new(RealClock::new()), short: Duration::ZERO }
    }

    /// The same for a store whose ages fall short of the truth by up to `short`: so much longer a check waits for them.
    #[must_use]
    pub fn falling_short(self, short: Duration) -> Self {
        Live { short, ..self }
    }
}

impl<F: Fixture> Subject for Live<F> {
    type Store = F::Store;

    async fn store(&self) -> F::Store {
        self.fixture.open(self.clock.clone()).await
    }

    async fn damage(&self, key: &Key) -> bool {
        self.fixture.damage(key).await
    }

    fn key_bytes(&self) -> usize {
        Key::MAX_BYTES
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span + self.short).await;
    }
}
