//! The conformance suite on a real Redis server: each check has a namespace of its own, and its handles share no more than that.
//! Once as it comes, once without ages, once without push, once behind a prefix, and once on a cluster of three.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;
use support::{at, cli, cluster_url, unique, url};
use tenure_core::{Clock, Key};
use tenure_redis::{RedisConfig, RedisStore};
use tenure_store::{PrefixedStore, Store};
use tenure_testkit::{RealClock, Subject, conformance};

struct Namespace<W> {
    url: String,
    name: String,
    configure: fn(RedisConfig) -> RedisConfig,
    wrap: W,
    prefix: &'static str,
    clock: Arc<RealClock>,
}

async fn namespace<S, W: Fn(RedisStore) -> S>(
    url: String,
    configure: fn(RedisConfig) -> RedisConfig,
    prefix: &'static str,
    wrap: W,
) -> Namespace<W> {
    Namespace { url, name: unique("suite"), configure, wrap, prefix, clock: Arc::new(RealClock::new()) }
}

impl<S: Store, W: Fn(RedisStore) -> S + Send + Sync + 'static> Subject for Namespace<W>
where
    W: WrapsInto<Store = S>,
{
    type Store = S;

    async fn store(&self) -> S {
        let config = at(&self.url, &self.name).timeout(RedisConfig::MAX_TIMEOUT);
        (self.wrap)(RedisStore::open((self.configure)(config)).await.unwrap())
    }

    /// Cuts the record short, as another program or a hand would.
    async fn damage(&self, key: &Key) -> bool {
        let script = "local value = redis.call('HGET', KEYS[1], ARGV[1]) \
                      return redis.call('HSET', KEYS[1], ARGV[1], string.sub(value, 1, -4))";
        let (records, key) =
            (format!("tenure:{{{}}}:records", self.name), format!("{}{}", self.prefix, key.as_str()));
        cli(&self.url, &["EVAL", script, "1", &records, &key]) == "0"
    }

    fn key_bytes(&self) -> usize {
        Key::MAX_BYTES - self.prefix.len()
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

impl<S, W: Fn(RedisStore) -> S> WrapsInto for W {
    type Store = S;
}

conformance!(redis, || namespace(url(), |config| config, "", |store| store));

conformance!(without_ages, || namespace(url(), |config| config.attested_ages(false), "", |store| store));

conformance!(without_push, || namespace(url(), |config| config.push(false), "", |store| store));

conformance!(prefixed, || namespace(
    url(),
    |config| config,
    "p%_'",
    |store| PrefixedStore::new(store, "p%_'").unwrap()
));

conformance!(cluster, || namespace(cluster_url(), |config| config, "", |store| store));
