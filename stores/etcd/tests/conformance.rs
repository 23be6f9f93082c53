//! The conformance suite on a real etcd: each check has a prefix of its own, and its handles share no more than that. Once as it comes,
//! once without push, and once behind a prefix. Clusters of several members are in `faults.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

mod support;

use std::sync::Arc;
use support::{by_hand, config, unique};
use tenure_core::{Clock, Key};
use tenure_etcd::{EtcdConfig, EtcdStore};
use tenure_testkit::{Fixture, Live, Prefixed, conformance};

struct Prefix {
    name: String,
    configure: fn(EtcdConfig) -> EtcdConfig,
}

async fn prefix(configure: fn(EtcdConfig) -> EtcdConfig) -> Live<Prefix> {
    Live::new(Prefix { name: unique("suite"), configure })
}

impl Fixture for Prefix {
    type Store = EtcdStore;

    async fn open(&self, _clock: Arc<dyn Clock>) -> EtcdStore {
        let config = config(&self.name).timeout(EtcdConfig::MAX_TIMEOUT);
        EtcdStore::open((self.configure)(config)).await.unwrap()
    }

    async fn damage(&self, key: &Key) -> bool {
        let name = format!("{}:{}", self.name, key.as_str());
        let whole = by_hand(&["get", "--print-value-only", &name], &[]);
        // One byte of it is the line's end that etcdctl adds.
        by_hand(&["put", &name], &whole[..whole.len() - 4]);
        true
    }
}

conformance!(etcd, || prefix(|config| config));

conformance!(without_push, || prefix(|config| config.push(false)));

conformance!(prefixed, || async { Prefixed::new(prefix(|config| config).await, "p%_'") });
