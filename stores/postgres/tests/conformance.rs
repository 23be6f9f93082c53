//! The conformance suite on a real PostgreSQL server: each check has a schema of its own, and its handles share no more than that.
//! Once as it comes, once without ages, once without push, once behind a prefix, once through a pooler that lends connections for a
//! transaction, once over a pool of the caller's, and once on a newer version.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{admin_at, config_at, newer_url, pool, pooled, unique, url};
use std::sync::Arc;
use tenure_core::{Clock, Key};
use tenure_postgres::tokio_postgres::Config;
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_testkit::{Fixture, Live, Prefixed, conformance};

struct Schema {
    /// Of the server, whatever stands before it.
    url: String,
    name: String,
    way: Way,
}

/// How the server is reached.
enum Way {
    Own(fn(PostgresConfig) -> PostgresConfig),
    Pooler,
    CallersPool,
}

async fn reached(url: String, way: Way) -> Live<Schema> {
    let name = unique("suite");
    assert!(PostgresStore::migrate(&config_at(&url, &name)).await.unwrap());
    Live::new(Schema { url, name, way })
}

async fn schema(configure: fn(PostgresConfig) -> PostgresConfig) -> Live<Schema> {
    reached(url(), Way::Own(configure)).await
}

impl Fixture for Schema {
    type Store = PostgresStore;

    async fn open(&self, _clock: Arc<dyn Clock>) -> PostgresStore {
        let patient = |config: PostgresConfig| config.timeout(PostgresConfig::MAX_TIMEOUT);
        match self.way {
            Way::Own(configure) => {
                PostgresStore::open(configure(patient(config_at(&self.url, &self.name)))).await
            }
            Way::Pooler => PostgresStore::open(patient(pooled(&self.name).push(false))).await,
            // Its configuration names no server.
            Way::CallersPool => {
                let config = PostgresConfig::new(Config::new()).schema(&self.name).push(false);
                PostgresStore::with_pool(pool(4), patient(config)).await
            }
        }
        .unwrap()
    }

    async fn damage(&self, key: &Key) -> bool {
        let sql = format!(
            "UPDATE {}.record SET record = substr(record, 1, octet_length(record) - 3) WHERE key = $1",
            self.name
        );
        admin_at(&self.url).await.execute(&sql, &[&key.as_str().as_bytes()]).await.unwrap() == 1
    }
}

conformance!(postgres, || schema(|config| config));

conformance!(without_ages, || schema(|config| config.attested_ages(false)));

conformance!(without_push, || schema(|config| config.push(false)));

conformance!(prefixed, || async { Prefixed::new(schema(|config| config).await, "p%_'") });

conformance!(pooled, || reached(url(), Way::Pooler));

conformance!(callers_pool, || reached(url(), Way::CallersPool));

conformance!(newer, || reached(newer_url(), Way::Own(|config| config)));
