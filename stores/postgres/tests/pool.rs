//! A pool of the caller's own in place of connections of the store's.
//!
//! Plan: the configuration beside it needs no host, unless the store is to listen, for which its certificates are read; hints, where it is; a pool with no free connection is
//! given up in time; a connection that was left in the middle of something goes out of the pool, and so
//! does one to a server that is read-only; what the server says of itself is asked
//! through the pool. The suite runs over one, too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{Locked, config, held, pool, unique, url};
use std::time::Duration;
use tenure_core::{ErrorKind, Key};
use tenure_postgres::deadpool_postgres::{Manager, Pool};
use tenure_postgres::tokio_postgres::{Config, NoTls};
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_store::{Outcome, Store};
use tenure_testkit::{RecordFactory, hinted};

/// As long as a busy machine may take.
const LONG: Duration = Duration::from_secs(30);

/// Says nothing of a server.
fn beside(schema: &str) -> PostgresConfig {
    PostgresConfig::new(Config::new()).schema(schema).push(false)
}

async fn made(name: &str) -> String {
    let name = unique(name);
    PostgresStore::migrate(&config(&name)).await.unwrap();
    name
}

#[tokio::test]
async fn who_is_to_listen_has_to_be_told_where() {
    let name = made("pool").await;
    let error = PostgresStore::with_pool(pool(2), beside(&name).push(true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("names no host") && error.to_string().contains("push"), "{error}");
    let error = PostgresStore::with_pool(pool(2), beside("Up")).await.unwrap_err();
    assert!(error.to_string().contains("lower-case"), "{error}");
    let missing = PostgresStore::with_pool(pool(2), beside("pool_none")).await.unwrap_err().to_string();
    assert!(
        missing.contains("caller's pool, schema \"pool_none\": tenure's tables are not there"),
        "{missing}"
    );

    let elsewhere = "postgres://u:hush@10.0.0.7/d?sslrootcert=/nowhere/ca.pem";
    let untrusting = PostgresConfig::from_url(elsewhere).unwrap().schema(&name);
    let error = PostgresStore::with_pool(pool(2), untrusting.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("/nowhere/ca.pem") && error.to_string().contains("push"), "{error}");
    // Nobody listens: nothing is read.
    assert!(PostgresStore::with_pool(pool(2), untrusting.push(false)).await.is_ok());
    let silent = PostgresStore::with_pool(pool(2), beside(&name)).await.unwrap();
    assert_eq!(silent.changed("").map(drop).unwrap_err().kind(), ErrorKind::Unsupported);
    let listener = PostgresStore::with_pool(pool(2), config(&name)).await.unwrap();
    let mut changes = listener.changed("").unwrap();
    hinted(&silent, &mut changes, "k").await;
    assert_eq!(silent.id(), listener.id());
}

#[tokio::test]
async fn a_pool_with_no_free_connection_is_given_up_in_time() {
    let name = made("pool").await;
    let pool = pool(1);
    let patient = beside(&name).timeout(Duration::from_millis(200));
    let store = PostgresStore::with_pool(pool.clone(), patient).await.unwrap();
    let taken = pool.get().await.unwrap();
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    let write = store.write(factory.absent(&key, factory.held(5)));
    let error = tokio::time::timeout(LONG, write).await.expect("it waits for ever").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains("no connection was free") && text.contains("pool has 1 of at most 1"), "{text}");
    drop(taken);
    held(&store, &factory, &key).await;
    // One whose own bound is shorter.
    let manager = Manager::new(url().parse().unwrap(), NoTls);
    let hasty = Pool::builder(manager)
        .max_size(1)
        .wait_timeout(Some(Duration::from_millis(50)))
        .runtime(tenure_postgres::deadpool_postgres::Runtime::Tokio1);
    let hasty = hasty.build().unwrap();
    let store = PostgresStore::with_pool(hasty.clone(), beside(&name).timeout(LONG)).await.unwrap();
    let _taken = hasty.get().await.unwrap();
    let text = store.read(&key).await.unwrap_err().to_string();
    assert!(text.contains("pool has 1 of at most 1"), "{text}");
}

#[tokio::test]
async fn a_connection_that_was_left_in_the_middle_goes_out_of_the_pool() {
    let name = made("pool").await;
    let pool = pool(1);
    let patient = beside(&name).timeout(Duration::from_millis(300));
    let store = PostgresStore::with_pool(pool.clone(), patient).await.unwrap();
    let (key, other, factory) = (Key::new("k").unwrap(), Key::new("other").unwrap(), RecordFactory::new());
    let version = held(&store, &factory, &key).await;
    let backend = async || -> i32 {
        let object = pool.get().await.unwrap();
        object.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
    };
    let before = backend().await;
    assert_eq!(backend().await, before, "what went well is used again");
    let locked = Locked::records_of(&name).await;
    let error = store.write(factory.unchanged(&key, version, factory.held(6))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    // The same with a caller that goes away by itself.
    let batch = vec![factory.unchanged(&key, version, factory.held(7))];
    assert!(tokio::time::timeout(Duration::from_millis(50), store.write_many(batch)).await.is_err());
    assert!(matches!(
        store.write(factory.absent(&other, factory.held(1))).await.unwrap(),
        Outcome::Won { .. }
    ));
    locked.unlock().await;
    assert_ne!(backend().await, before);
}

/// As when a service has made another server its primary: the pool's next connection leads there.
#[tokio::test]
async fn a_connection_to_a_server_that_is_read_only_goes_out_of_the_pool() {
    let name = made("pool").await;
    let pool = pool(1);
    let store = PostgresStore::with_pool(pool.clone(), beside(&name)).await.unwrap();
    let object = pool.get().await.unwrap();
    object.batch_execute("SET default_transaction_read_only = on").await.unwrap();
    drop(object);
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    let error = store.write(factory.absent(&key, factory.held(5))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("read-only"), "{error}");
    held(&store, &factory, &key).await;
}

#[tokio::test]
async fn what_the_server_says_of_itself_is_asked_through_the_pool() {
    let name = made("pool").await;
    let about = async |pool: Pool| {
        let store =
            PostgresStore::with_pool(pool, beside(&name).timeout(Duration::from_secs(2))).await.unwrap();
        let found = store.inspect().await;
        assert!(found.clock.is_some(), "{found:?}");
        found
            .facts
            .iter()
            .filter(|fact| fact.about == "pooler")
            .map(|fact| fact.text.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(about(pool(2)).await, [""; 0]);
    let too_small = about(pool(1)).await;
    assert!(
        too_small[0].contains("can't be told") && too_small[0].contains("no connection was free"),
        "{too_small:?}"
    );
    let pooler = std::env::var("TENURE_TEST_PGBOUNCER").expect("`cargo xtask services run` says where it is");
    assert_ne!(pooler, url());
    let lent = Pool::builder(Manager::new(pooler.parse().unwrap(), NoTls)).max_size(2).build().unwrap();
    let lent = about(lent).await;
    assert!(lent[0].contains("a pooler lends connections"), "{lent:?}");
}
