//! What goes wrong on the way: connections that end, answers that don't come, a pooler between.
//!
//! Plan: a connection that the server ends is made again, and a write under way is unknown or undone, never both; a caller that gives
//! up in the middle leaves no connection behind that blocks the next; hints go on after the listening connection ended; through a
//! pooler that lends connections for one transaction, everything works but hints, and nothing is left on a connection; what an operator
//! may set for a role: a stricter isolation, a limit on each statement, an end for idle sessions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{Locked, admin, config, held, named, pooled, unique};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{ErrorKind, Key};
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_store::{Outcome, Store};
use tenure_testkit::{RecordFactory, hinted};

/// As long as a busy machine may take.
const LONG: Duration = Duration::from_secs(30);

async fn end_connections(name: &str) {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
    assert!(admin().await.query_one(sql, &[&name]).await.unwrap().get::<_, i64>(0) > 0);
}

#[tokio::test]
async fn connections_that_end_are_made_again() {
    let name = unique("ended");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let (store, factory) = (PostgresStore::open(named(&name)).await.unwrap(), RecordFactory::new());
    for round in 0..5 {
        let key = Key::new(format!("k{round}")).unwrap();
        let record = factory.held(5);
        end_connections(&name).await;
        // One that was ended unseen answers for the write that was sent on it: unknown, or certainly undone.
        let outcome = tokio::time::timeout(LONG, async {
            loop {
                match store.write(factory.absent(&key, record.clone())).await {
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
async fn a_write_that_waits_for_a_lock_is_undone_in_time_and_blocks_nobody_else() {
    let name = unique("locked");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let patient = config(&name).connections(1).timeout(Duration::from_millis(300));
    let (store, factory) = (PostgresStore::open(patient).await.unwrap(), RecordFactory::new());
    let (key, other) = (Key::new("k").unwrap(), Key::new("other").unwrap());
    let version = held(&store, &factory, &key).await;
    let locked = Locked::records_of(&name).await;
    let error = store.write(factory.unchanged(&key, version, factory.held(6))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("lock timeout"), "{error}");
    // The same with a caller that goes away by itself.
    let write = store.write(factory.unchanged(&key, version, factory.held(7)));
    assert!(tokio::time::timeout(Duration::from_millis(50), write).await.is_err());
    // The only connection is not the one that waits.
    assert!(matches!(
        store.write(factory.absent(&other, factory.held(1))).await.unwrap(),
        Outcome::Won { .. }
    ));
    locked.unlock().await;
    let landed = store.read(&key).await.unwrap().unwrap().record.fence.0;
    assert!([5, 7].contains(&landed), "{landed}");
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
    // More handles than it has connections to the server: each statement may go by another one.
    let mut handles = Vec::new();
    for _ in 0..10 {
        handles.push(PostgresStore::open(pooled(&name).push(false)).await.unwrap());
    }
    count_up(&handles, 3).await;
}

/// Tasks, one for each of `stores`, count up in one record, so that a lost increment shows. Every second write is one of a batch, with
/// `beside` other keys that all write.
async fn count_up(stores: &[PostgresStore], beside: u64) {
    let (key, factory) = (Key::new("counter").unwrap(), Arc::new(RecordFactory::new()));
    stores[0].write(factory.absent(&key, factory.vacant(0))).await.unwrap();
    let tasks = stores.iter().map(|store| {
        let (store, factory, key) = (store.clone(), factory.clone(), key.clone());
        tokio::spawn(async move {
            let mut done = 0;
            while done < 10 {
                let standing = store.read(&key).await.unwrap().unwrap();
                let next = factory.vacant(standing.record.fence.0 + 1);
                let next = factory.unchanged(&key, standing.version, next);
                let outcome = if done % 2 == 0 {
                    store.write(next).await.unwrap()
                } else {
                    let others = (0..beside).map(|i| Key::new(format!("b{i}")).unwrap());
                    let others = others.map(|key| factory.if_vacant(&key, factory.vacant(1)));
                    let mut outcomes =
                        store.write_many(std::iter::once(next).chain(others).collect()).await.unwrap();
                    assert_eq!(outcomes.len() as u64, 1 + beside);
                    outcomes.remove(0)
                };
                done += u64::from(matches!(outcome, Outcome::Won { .. }));
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let counted = stores[0].read(&key).await.unwrap().unwrap().record.fence.0;
    assert_eq!(counted, 10 * stores.len() as u64, "an increment was lost");
}

/// A role with a setting of its own, and a store that it opens.
async fn opened_with(name: &str, setting: &str) -> PostgresStore {
    PostgresStore::migrate(&config(name)).await.unwrap();
    let role = format!("CREATE ROLE {name} LOGIN SUPERUSER; ALTER ROLE {name} SET {setting}");
    admin().await.batch_execute(&role).await.unwrap();
    let url = crate::support::url().replace("postgres@", &format!("{name}@"));
    PostgresStore::open(PostgresConfig::from_url(&url).unwrap().schema(name)).await.unwrap()
}

/// Under SERIALIZABLE a row that was written a moment ago is an error of the server's, which nobody else is to see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stricter_isolation_is_no_error() {
    let store = opened_with(&unique("isolated"), "default_transaction_isolation = 'serializable'").await;
    count_up(&vec![store; 6], 0).await;
}

#[tokio::test]
async fn a_statement_that_the_server_cancels_is_certainly_undone() {
    let name = unique("cancelled");
    let store = opened_with(&name, "statement_timeout = '300ms'").await;
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    let version = held(&store, &factory, &key).await;
    let locked = Locked::records_of(&name).await;
    let error = store.write(factory.unchanged(&key, version, factory.held(6))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("timeout"), "{error}");
    let batch = vec![factory.unchanged(&key, version, factory.held(7))];
    let error = store.write_many(batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    locked.unlock().await;
    assert_eq!(store.read(&key).await.unwrap().unwrap().version, version, "it was done after all");
}

#[tokio::test]
async fn an_idle_session_that_the_server_ends_is_begun_again() {
    let name = unique("idle");
    let store = opened_with(&name, "idle_session_timeout = '100ms'").await;
    let (key, factory, admin) = (Key::new("k").unwrap(), RecordFactory::new(), admin().await);
    let alive = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
    for fence in 1..4 {
        // What the server said last may be on its way still when the next write is sent; never twice.
        let record = factory.vacant(fence);
        let mut outcome = store.write(factory.if_vacant(&key, record.clone())).await;
        if outcome.is_err() {
            outcome = store.write(factory.if_vacant(&key, record)).await;
        }
        assert!(matches!(outcome, Ok(Outcome::Won { .. })), "{outcome:?}");
        let ended = async {
            while admin.query_one(alive, &[&name]).await.unwrap().get::<_, i64>(0) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, ended).await.expect("the session is not ended");
    }
}
