//! The guard: true while the tenure stands, false from the moment when it doesn't, in the caller's own transaction.
//!
//! Plan: a lease that renews itself, through release and takeover; one that is attached, through the end of its session; both ways of
//! writing the predicate; keys that try to break out of it; a transaction that is open when others want the key: they wait.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{admin, config, unique};
use std::time::Duration;
use tenure_core::{Attachment, Fence, Key, Record, Version};
use tenure_postgres::tokio_postgres::Client;
use tenure_postgres::{PostgresStore, SqlGuard};
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::Scribe;

async fn application(name: &str) -> (PostgresStore, Client) {
    PostgresStore::migrate(&config(name)).await.unwrap();
    let application = admin().await;
    let table =
        format!("CREATE TABLE {name}.account (balance bigint); INSERT INTO {name}.account VALUES (1)");
    application.batch_execute(&table).await.unwrap();
    application.batch_execute(&format!("SET search_path = {name}")).await.unwrap();
    (PostgresStore::open(config(name)).await.unwrap(), application)
}

async fn won(store: &PostgresStore, write: Write) -> Version {
    match store.write(write).await.unwrap() {
        Outcome::Won { version, .. } => version,
        Outcome::Lost(standing) => panic!("lost to {standing:?}"),
    }
}

/// How many rows a guarded write changes, which must be the same for both forms of the predicate.
async fn changed(application: &Client, guard: &SqlGuard) -> u64 {
    let plain = format!("UPDATE account SET balance = balance + 1 WHERE {}", guard.sql());
    let bound = format!("UPDATE account SET balance = $1 WHERE {}", guard.predicate(2));
    let (key, fence) = guard.params();
    let counts = [
        application.execute(&plain, &[]).await.unwrap(),
        application.execute(&bound, &[&7i64, &key, &fence]).await.unwrap(),
    ];
    assert_eq!(counts[0], counts[1]);
    counts[0]
}

#[tokio::test]
async fn a_guarded_write_changes_nothing_after_the_loss() {
    let (store, application) = application(&unique("guard")).await;
    let scribe = Scribe::new();
    let name = Key::new("it's \"quoted\"\u{0}); DROP TABLE account; --").unwrap();
    let first = scribe.held(5);
    let guard = store.guard(&name, first.fence);
    assert_eq!(changed(&application, &guard).await, 0, "before the tenure");
    let version = won(&store, scribe.absent(&name, first.clone())).await;
    assert_eq!(changed(&application, &guard).await, 1, "while it is held");
    // A renewal changes the version, and nothing about the tenure.
    let renewal = Record { nonce: scribe.nonce(), ..first.clone() };
    let version = won(&store, scribe.unchanged(&name, version, renewal)).await;
    assert_eq!(changed(&application, &guard).await, 1, "after a renewal");
    let version = won(&store, scribe.unchanged(&name, version, scribe.vacant(5))).await;
    assert_eq!(changed(&application, &guard).await, 0, "after the release");
    won(&store, scribe.unchanged(&name, version, scribe.held(6))).await;
    assert_eq!(changed(&application, &guard).await, 0, "another's tenure");
    assert_eq!(changed(&application, &store.guard(&name, Fence(6))).await, 1);
}

#[tokio::test]
async fn an_attached_lease_is_guarded_by_its_session_too() {
    let (store, application) = application(&unique("guard")).await;
    let scribe = Scribe::new();
    let (session, name) = (Key::new("session/a").unwrap(), Key::new("k").unwrap());
    let heartbeat = won(&store, scribe.absent(&session, scribe.held(3))).await;
    let mut record = scribe.held(5);
    record.tenure.as_mut().unwrap().attachment =
        Some(Attachment { session: session.clone(), fence: Fence(3) });
    won(&store, scribe.absent(&name, record)).await;
    let guard = store.guard(&name, Fence(5));
    assert_eq!(changed(&application, &guard).await, 1);
    won(&store, scribe.unchanged(&session, heartbeat, scribe.held(4))).await;
    assert_eq!(changed(&application, &guard).await, 0, "the session was fenced");
}

/// Whoever takes the key over while the transaction is open waits for its end: nothing lands after the loss.
#[tokio::test]
async fn nobody_takes_the_key_while_a_transaction_holds_it() {
    let (store, mut application) = application(&unique("guard")).await;
    let scribe = Scribe::new();
    let name = Key::new("k").unwrap();
    let version = won(&store, scribe.absent(&name, scribe.held(5))).await;
    let work = application.transaction().await.unwrap();
    assert!(!store.guard(&name, Fence(4)).hold(&work).await.unwrap(), "another's fence");
    assert!(store.guard(&name, Fence(5)).hold(&work).await.unwrap());
    let taking = tokio::spawn({
        let (store, write) = (store.clone(), scribe.unchanged(&name, version, scribe.held(6)));
        async move { won(&store, write).await }
    });
    // Others read all the while, and write elsewhere.
    assert!(store.read(&name).await.unwrap().is_some());
    won(&store, scribe.absent(&Key::new("other").unwrap(), scribe.held(1))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!taking.is_finished(), "the key was taken under an open transaction");
    work.execute("UPDATE account SET balance = 9", &[]).await.unwrap();
    work.commit().await.unwrap();
    taking.await.unwrap();
    assert_eq!(changed(&application, &store.guard(&name, Fence(5))).await, 0);
}
