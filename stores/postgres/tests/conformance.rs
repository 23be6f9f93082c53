//! The conformance suite on a real PostgreSQL server: each check has a schema of its own, and its handles share no more than that.
//! Once as it comes, once without ages, once without push, and once behind a prefix.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{admin, config, unique};
use std::sync::Arc;
use tenure_core::{Clock, Key};
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_testkit::{Fixture, Live, Prefixed, conformance};

struct Schema {
    name: String,
    configure: fn(PostgresConfig) -> PostgresConfig,
}

async fn schema(configure: fn(PostgresConfig) -> PostgresConfig) -> Live<Schema> {
    let name = unique("suite");
    assert!(PostgresStore::migrate(&config(&name)).await.unwrap());
    Live::new(Schema { name, configure })
}

impl Fixture for Schema {
    type Store = PostgresStore;

    async fn open(&self, _clock: Arc<dyn Clock>) -> PostgresStore {
        let config = config(&self.name).timeout(PostgresConfig::MAX_TIMEOUT);
        PostgresStore::open((self.configure)(config)).await.unwrap()
    }

    async fn damage(&self, key: &Key) -> bool {
        let sql = format!(
            "UPDATE {}.record SET record = substr(record, 1, octet_length(record) - 3) WHERE key = $1",
            self.name
        );
        admin().await.execute(&sql, &[&key.as_str().as_bytes()]).await.unwrap() == 1
    }
}

conformance!(postgres, || schema(|config| config));

conformance!(without_ages, || schema(|config| config.attested_ages(false)));

conformance!(without_push, || schema(|config| config.push(false)));

conformance!(prefixed, || async { Prefixed::new(schema(|config| config).await, "p%_'") });
