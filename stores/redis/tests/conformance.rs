//! The conformance suite on a real Redis server: each check has a namespace of its own, and its handles share no more than that.
//! Once as it comes, once without ages, once without push, once behind a prefix, once on a cluster of three, once on such a cluster by TLS, and
//! once on Valkey.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{at, cli, cluster_url, tls_cluster_url, trusted, unique, url, valkey_url};
use std::sync::Arc;
use tenure_core::{Clock, Key};
use tenure_redis::{RedisConfig, RedisStore};
use tenure_testkit::{Fixture, Live, Prefixed, conformance};

struct Namespace {
    url: String,
    name: String,
    configure: fn(RedisConfig) -> RedisConfig,
}

async fn namespace(url: String, configure: fn(RedisConfig) -> RedisConfig) -> Live<Namespace> {
    Live::new(Namespace { url, name: unique("suite"), configure })
}

impl Fixture for Namespace {
    type Store = RedisStore;

    async fn open(&self, _clock: Arc<dyn Clock>) -> RedisStore {
        let config = at(&self.url, &self.name).timeout(RedisConfig::MAX_TIMEOUT);
        RedisStore::open((self.configure)(config)).await.unwrap()
    }

    async fn damage(&self, key: &Key) -> bool {
        let script = "local value = redis.call('HGET', KEYS[1], ARGV[1]) \
                      return redis.call('HSET', KEYS[1], ARGV[1], string.sub(value, 1, -4))";
        let records = format!("tenure:{{{}}}:records", self.name);
        cli(&self.url, &["EVAL", script, "1", &records, key.as_str()]) == "0"
    }
}

conformance!(redis, || namespace(url(), |config| config));

conformance!(without_ages, || namespace(url(), |config| config.attested_ages(false)));

conformance!(without_push, || namespace(url(), |config| config.push(false)));

conformance!(prefixed, || async { Prefixed::new(namespace(url(), |config| config).await, "p%_'") });

conformance!(cluster, || namespace(cluster_url(), |config| config));

conformance!(cluster_with_tls, || namespace(trusted(&tls_cluster_url()), |config| config));

conformance!(valkey, || namespace(valkey_url(), |config| config));
