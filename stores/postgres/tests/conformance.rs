//! The conformance suite on a real PostgreSQL server: each check has a schema of its own, and its handles share no more than that.
//! Once as it comes, once without ages, once without push, once behind a prefix, and once through a pooler that lends connections
//! for a transaction.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;
use support::{admin, config, unique};
use tenure_core::{Clock, Key};
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_store::{PrefixedStore, Store};
use tenure_testkit::{RealClock, Subject, conformance};

struct Schema<W> {
    name: String,
    configure: fn(PostgresConfig) -> PostgresConfig,
    wrap: W,
    prefix: &'static str,
    clock: Arc<RealClock>,
}

async fn schema<S, W: Fn(PostgresStore) -> S>(
    configure: fn(PostgresConfig) -> PostgresConfig,
    prefix: &'static str,
    wrap: W,
) -> Schema<W> {
    let name = unique("suite");
    assert!(PostgresStore::migrate(&config(&name)).await.unwrap());
    Schema { name, configure, wrap, prefix, clock: Arc::new(RealClock::new()) }
}

impl<S: Store, W: Fn(PostgresStore) -> S + Send + Sync + 'static> Subject for Schema<W>
where
    W: WrapsInto<Store = S>,
{
    type Store = S;

    async fn store(&self) -> S {
        let config = config(&self.name).timeout(PostgresConfig::MAX_TIMEOUT);
        (self.wrap)(PostgresStore::open((self.configure)(config)).await.unwrap())
    }

    /// Cuts the record short, as another program or a hand would.
    async fn damage(&self, key: &Key) -> bool {
        let key = format!("{}{}", self.prefix, key.as_str());
        let sql = format!(
            "UPDATE {}.record SET record = substr(record, 1, octet_length(record) - 3) WHERE key = $1",
            self.name
        );
        admin().await.execute(&sql, &[&key.as_bytes()]).await.unwrap() == 1
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

impl<S, W: Fn(PostgresStore) -> S> WrapsInto for W {
    type Store = S;
}

conformance!(postgres, || schema(|config| config, "", |store| store));

conformance!(without_ages, || schema(|config| config.attested_ages(false), "", |store| store));

conformance!(without_push, || schema(|config| config.push(false), "", |store| store));

conformance!(prefixed, || schema(
    |config| config,
    "p%_'",
    |store| PrefixedStore::new(store, "p%_'").unwrap()
));
