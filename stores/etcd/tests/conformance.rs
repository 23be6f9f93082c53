//! The conformance suite on a real etcd: each check has a prefix of its own, and its handles share no more than that. Once as it comes,
//! once without push, once behind a prefix, once on a cluster of three, and once on a newer version. What happens to clusters is in `faults.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{by_hand, cluster_url, newer_url, unique, url};
use std::sync::Arc;
use tenure_core::{Clock, Key};
use tenure_etcd::{EtcdConfig, EtcdStore};
use tenure_testkit::{Fixture, Live, Prefixed, conformance};

struct Prefix {
    url: String,
    name: String,
    configure: fn(EtcdConfig) -> EtcdConfig,
}

async fn prefix(url: String, configure: fn(EtcdConfig) -> EtcdConfig) -> Live<Prefix> {
    Live::new(Prefix { url, name: unique("suite"), configure })
}

impl Fixture for Prefix {
    type Store = EtcdStore;

    async fn open(&self, _clock: Arc<dyn Clock>) -> EtcdStore {
        let config =
            EtcdConfig::from_url(&self.url).unwrap().prefix(&self.name).timeout(EtcdConfig::MAX_TIMEOUT);
        EtcdStore::open((self.configure)(config)).await.unwrap()
    }

    async fn damage(&self, key: &Key) -> bool {
        let name = format!("{}:{}", self.name, key.as_str());
        let whole = by_hand(&self.url, &["get", "--print-value-only", &name], &[]);
        // One byte of it is the line's end that etcdctl adds.
        by_hand(&self.url, &["put", &name], &whole[..whole.len() - 4]);
        true
    }
}

conformance!(etcd, || prefix(url(), |config| config));

conformance!(without_push, || prefix(url(), |config| config.push(false)));

conformance!(prefixed, || async { Prefixed::new(prefix(url(), |config| config).await, "p%_'") });

conformance!(cluster, || prefix(cluster_url(), |config| config));

conformance!(newer, || prefix(newer_url(), |config| config));
