//! What goes wrong on the way: connections that end, answers that don't come, a pooler between.
//!
//! Plan: a connection that the server ends is made again, and a write under way is unknown or undone, never both; a caller that gives
//! up in the middle leaves no connection behind that blocks the next; hints go on after the listening connection ended; through a
//! pooler that lends connections for one transaction, everything works but hints, and nothing is left on a connection.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

mod support;

use std::time::Duration;
use support::{admin, config, unique};
use tenure_core::op::Hint;
use tenure_core::{ErrorKind, Key};
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_store::{Changes, Outcome, Store};
use tenure_testkit::Scribe;

/// As long as a busy machine may take.
const LONG: Duration = Duration::from_secs(30);

async fn end_connections(name: &str) {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
    assert!(admin().await.query_one(sql, &[&name]).await.unwrap().get::<_, i64>(0) > 0);
}

/// A configuration whose connections can be told from others.
fn named(name: &str) -> PostgresConfig {
    let url = format!("{}?application_name={name}", support::url());
    PostgresConfig::from_url(&url).unwrap().schema(name)
}

#[tokio::test]
async fn connections_that_end_are_made_again() {
    let name = unique("ended");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let (store, scribe) = (PostgresStore::open(named(&name)).await.unwrap(), Scribe::new());
    for round in 0..5 {
        let key = Key::new(format!("k{round}")).unwrap();
        let record = scribe.held(5);
        end_connections(&name).await;
        // One that was ended unseen answers for the write that was sent on it: unknown, or certainly undone.
        let outcome = tokio::time::timeout(LONG, async {
            loop {
                match store.write(scribe.absent(&key, record.clone())).await {
                    Ok(outcome) => break outcome,
                    Err(error) => assert!(error.is_passing(), "{error}"),
                }
            }
        });
        match outcome.await.unwrap() {
            Outcome::Won { version, .. } => assert_eq!(version, record.version()),
            Outcome::Lost(standing) => {
                assert_eq!(standing.unwrap().record, record, "an unknown write had landed")
            }
        }
    }
}

#[tokio::test]
async fn a_write_that_waits_for_a_lock_is_unknown_in_time_and_blocks_nobody_else() {
    let name = unique("locked");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let patient = config(&name).connections(1).timeout(Duration::from_millis(300));
    let (store, scribe) = (PostgresStore::open(patient).await.unwrap(), Scribe::new());
    let (key, other) = (Key::new("k").unwrap(), Key::new("other").unwrap());
    let Outcome::Won { version, .. } = store.write(scribe.absent(&key, scribe.held(5))).await.unwrap() else {
        panic!("nothing stood there")
    };
    let mut application = admin().await;
    let work = application.transaction().await.unwrap();
    work.execute(&format!("SELECT 1 FROM {name}.record FOR UPDATE"), &[]).await.unwrap();
    let error = store.write(scribe.unchanged(&key, version, scribe.held(6))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    // The same with a caller that goes away by itself.
    let write = store.write(scribe.unchanged(&key, version, scribe.held(7)));
    assert!(tokio::time::timeout(Duration::from_millis(50), write).await.is_err());
    // The only connection is not the one that waits.
    assert!(matches!(store.write(scribe.absent(&other, scribe.held(1))).await.unwrap(), Outcome::Won { .. }));
    work.rollback().await.unwrap();
    let landed = store.read(&key).await.unwrap().unwrap().record.fence.0;
    assert!([5, 6, 7].contains(&landed), "{landed}");
}

/// Waits until a write below `prefix` is hinted: the listening connection comes up in its own time.
async fn hinted(store: &PostgresStore, changes: &mut Changes, prefix: &str) {
    let scribe = Scribe::new();
    let mut written = Vec::new();
    let told = async {
        loop {
            let (record, next) = (scribe.vacant(1), Key::new(format!("{prefix}{}", written.len())).unwrap());
            let version = record.version();
            assert!(matches!(
                store.write(scribe.if_vacant(&next, record)).await.unwrap(),
                Outcome::Won { .. }
            ));
            written.push(Hint::Written(next, version));
            // It may be that of an earlier write.
            let hint = tokio::time::timeout(Duration::from_millis(50), changes.recv()).await;
            if hint.is_ok_and(|hint| hint.is_some_and(|hint| written.contains(&hint))) {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, told).await.expect("no hint came");
}

#[tokio::test]
async fn hints_go_on_after_the_listening_connection_has_ended() {
    let name = unique("hints");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let (writer, listener) =
        (PostgresStore::open(config(&name)).await.unwrap(), PostgresStore::open(named(&name)).await.unwrap());
    let mut changes = listener.changed("k").unwrap();
    hinted(&writer, &mut changes, "k-before").await;
    end_connections(&name).await;
    hinted(&writer, &mut changes, "k-after").await;
}

#[tokio::test]
async fn a_pooler_may_stand_between() {
    let name = unique("pooled");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let pooler =
        std::env::var("TENURE_TEST_PGBOUNCER").expect("`cargo xtask services run` says where PgBouncer is");
    let pooled = || PostgresConfig::from_url(&pooler).unwrap().schema(&name).push(false);
    // More handles than it has connections to the server: each statement may go by another one.
    let mut handles = Vec::new();
    for _ in 0..10 {
        handles.push(PostgresStore::open(pooled()).await.unwrap());
    }
    let (key, scribe) = (Key::new("counter").unwrap(), std::sync::Arc::new(Scribe::new()));
    handles[0].write(scribe.absent(&key, scribe.vacant(0))).await.unwrap();
    let tasks: Vec<_> = handles
        .iter()
        .map(|store| {
            let (store, scribe, key) = (store.clone(), scribe.clone(), key.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while done < 10 {
                    let standing = store.read(&key).await.unwrap().unwrap();
                    let next = scribe.vacant(standing.record.fence.0 + 1);
                    let outcome = store.write(scribe.unchanged(&key, standing.version, next)).await.unwrap();
                    done += u64::from(matches!(outcome, Outcome::Won { .. }));
                    let batch = (0..3).map(|i| Key::new(format!("b{i}")).unwrap());
                    let batch = batch.map(|key| scribe.if_vacant(&key, scribe.vacant(1))).collect();
                    assert_eq!(store.write_many(batch).await.unwrap().len(), 3);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let standing = handles[0].read(&key).await.unwrap().unwrap();
    assert_eq!(standing.record.fence.0, 100, "an increment was lost");
}
