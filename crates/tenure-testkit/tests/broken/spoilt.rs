//! A subject whose handles are clones of one store with a flaw, and whose records can be damaged.

use crate::store::Broken;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, Key};
use tenure_testkit::{ManualClock, Subject};

pub(crate) struct Spoilt {
    store: Broken,
    clock: Arc<ManualClock>,
}

impl Spoilt {
    pub(crate) fn new(store: Broken, clock: Arc<ManualClock>) -> Self {
        Spoilt { store, clock }
    }
}

impl Subject for Spoilt {
    type Store = Broken;

    async fn store(&self) -> Broken {
        self.store.clone()
    }

    async fn damage(&self, key: &Key) -> bool {
        self.store.damage(key).await
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
