//! What the tests of this store share: the server that `cargo xtask` has started, and schemas of their own in it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use std::time::Duration;
use tenure_core::{Key, Version};
use tenure_postgres::deadpool_postgres::{Manager, Pool};
use tenure_postgres::tokio_postgres::{Client, NoTls};
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_store::{Outcome, Store};
use tenure_testkit::RecordFactory;
pub(crate) use tenure_testkit::unique;

/// Where the server is: the variable that `cargo xtask test` and `cargo xtask services run` set.
pub(crate) fn url() -> String {
    std::env::var("TENURE_TEST_POSTGRES").expect(
        "TENURE_TEST_POSTGRES is not set; run `cargo xtask services run -- cargo test -p tenure-postgres`",
    )
}

/// The same of a newer version.
pub(crate) fn newer_url() -> String {
    std::env::var("TENURE_TEST_POSTGRES_NEWER").expect("`cargo xtask services run` says where it is")
}

/// A schema of that server.
pub(crate) fn config(schema: &str) -> PostgresConfig {
    config_at(&url(), schema)
}

/// A schema of another one.
pub(crate) fn config_at(url: &str, schema: &str) -> PostgresConfig {
    PostgresConfig::from_url(url).unwrap().schema(schema).connections(4)
}

/// The same through a pooler that lends connections for a transaction.
pub(crate) fn pooled(schema: &str) -> PostgresConfig {
    let pooler =
        std::env::var("TENURE_TEST_PGBOUNCER").expect("`cargo xtask services run` says where PgBouncer is");
    PostgresConfig::from_url(&pooler).unwrap().schema(schema)
}

/// A pool of an application's, with room for so many connections.
pub(crate) fn pool(size: usize) -> Pool {
    let manager = Manager::new(url().parse().unwrap(), NoTls);
    Pool::builder(manager).max_size(size).build().unwrap()
}

/// The same by connections that can be told from others.
pub(crate) fn named(name: &str) -> PostgresConfig {
    PostgresConfig::from_url(&format!("{}?application_name={name}", url())).unwrap().schema(name)
}

/// What is held at a key where nothing stood before.
pub(crate) async fn held(store: &PostgresStore, factory: &RecordFactory, key: &Key) -> Version {
    match store.write(factory.absent(key, factory.held(5))).await.unwrap() {
        Outcome::Won { version, .. } => version,
        Outcome::Lost(standing) => panic!("nothing stood there, but {standing:?}"),
    }
}

/// An application's transaction that has all records of a schema locked.
pub(crate) struct Locked(Client);

impl Locked {
    pub(crate) async fn records_of(schema: &str) -> Locked {
        let application = admin().await;
        let lock = format!("BEGIN; SELECT 1 FROM {schema}.record FOR UPDATE");
        application.batch_execute(&lock).await.unwrap();
        Locked(application)
    }

    pub(crate) async fn unlock(self) {
        self.0.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// Waits until a statement that is like this waits for a lock.
pub(crate) async fn waits_for_lock(like: &str) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
    let observer = admin().await;
    let is_blocked = async {
        while observer.query_one(sql, &[&like]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_blocked).await.expect("nothing waits");
}

/// A connection around tenure, as an operator's or another program's.
pub(crate) async fn admin() -> Client {
    admin_at(&url()).await
}

/// The same to another server.
pub(crate) async fn admin_at(url: &str) -> Client {
    let (client, connection) =
        url.parse::<tenure_postgres::tokio_postgres::Config>().unwrap().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Makes of a schema's tables what version 1 or 2 was; who damaged a row has still done so.
pub(crate) async fn to_version(version: u8, schema: &str) {
    let digest = "sha256(record || coalesce(tenure, '') || coalesce(ride_key, '') || coalesce(int8send(ride_fence), ''))";
    let then = "sha256(version || int8send(fence) || coalesce(tenure, '') || coalesce(ride_key, '') || int8send(coalesce(ride_fence, -1)) || record)";
    let mut back = format!(
        "
        DROP TRIGGER key_stays ON {{s}}.record;
        DROP TRIGGER fence_grows ON {{s}}.record;
        UPDATE {{s}}.record SET digest = {then} WHERE digest = {digest};
        CREATE TRIGGER fence_grows BEFORE UPDATE ON {{s}}.record FOR EACH ROW
            WHEN (NEW.fence < OLD.fence OR NEW.key <> OLD.key) EXECUTE FUNCTION {{s}}.refuse();
        DROP FUNCTION {{s}}.write_absent, {{s}}.write_vacant, {{s}}.write_unchanged;
        CREATE FUNCTION {{s}}.write_absent() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
        ALTER TABLE {{s}}.record DROP COLUMN writer;
        UPDATE {{s}}.meta SET value = '{version}' WHERE name = 'schema';"
    );
    if version == 1 {
        back.push_str(
            "
        DROP FUNCTION {s}.refuse() CASCADE;
        DROP FUNCTION {s}.write_absent;
        ALTER TABLE {s}.record ADD CONSTRAINT record_key_check CHECK (octet_length(key) BETWEEN 1 AND 512),
            ADD CONSTRAINT record_version_check CHECK (octet_length(version) = 16),
            ADD CONSTRAINT record_fence_check CHECK (fence >= 0),
            ADD CONSTRAINT record_tenure_check CHECK (octet_length(tenure) = 16),
            ADD CONSTRAINT record_digest_check CHECK (octet_length(digest) = 32);",
        );
    }
    admin().await.batch_execute(&back.replace("{s}", schema)).await.unwrap();
}
