//! The conformance suite on a real etcd: each check has a prefix of its own, and its handles share no more than that. Once as it comes,
//! once without push, and once behind a prefix. Clusters of several members are in `faults.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;
use support::{by_hand, config, unique};
use tenure_core::{Clock, Key};
use tenure_etcd::{EtcdConfig, EtcdStore};
use tenure_store::{PrefixedStore, Store};
use tenure_testkit::{RealClock, Subject, conformance};

struct Prefix<W> {
    name: String,
    configure: fn(EtcdConfig) -> EtcdConfig,
    wrap: W,
    inner: &'static str,
    clock: Arc<RealClock>,
}

async fn prefix<S, W: Fn(EtcdStore) -> S>(
    configure: fn(EtcdConfig) -> EtcdConfig,
    inner: &'static str,
    wrap: W,
) -> Prefix<W> {
    Prefix { name: unique("suite"), configure, wrap, inner, clock: Arc::new(RealClock::new()) }
}

impl<S: Store, W: Fn(EtcdStore) -> S + Send + Sync + 'static> Subject for Prefix<W>
where
    W: WrapsInto<Store = S>,
{
    type Store = S;

    async fn store(&self) -> S {
        let config = config(&self.name).timeout(EtcdConfig::MAX_TIMEOUT);
        (self.wrap)(EtcdStore::open((self.configure)(config)).await.unwrap())
    }

    /// Cuts the value short, as another program or a hand would.
    async fn damage(&self, key: &Key) -> bool {
        let name = format!("{}:{}{}", self.name, self.inner, key.as_str());
        let whole = by_hand(&["get", "--print-value-only", &name], &[]);
        // One byte of it is the line's end that etcdctl adds.
        by_hand(&["put", &name], &whole[..whole.len() - 4]);
        true
    }

    fn key_bytes(&self) -> usize {
        Key::MAX_BYTES - self.inner.len()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// Names what a wrapper makes of a store.
trait WrapsInto {
    type Store;
}

impl<S, W: Fn(EtcdStore) -> S> WrapsInto for W {
    type Store = S;
}

conformance!(etcd, || prefix(|config| config, "", |store| store));

conformance!(without_push, || prefix(|config| config.push(false), "", |store| store));

conformance!(prefixed, || prefix(
    |config| config,
    "p%_'",
    |store| PrefixedStore::new(store, "p%_'").unwrap()
));
