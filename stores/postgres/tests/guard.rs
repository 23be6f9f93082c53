//! The guard: true while the tenure stands, false from the moment when it doesn't, in the caller's own transaction.
//!
//! Plan: a lease that renews itself, through release and takeover; one that is attached, through the end of its session; both ways of
//! writing the predicate; keys that try to break out of it; a transaction that is open when others want the key: they wait. A transaction
//! that is run under a lease: committed, or undone when its work or a statement of it fails, when the lease was lost before, is lost just
//! before its first statement, or when its connection ends in the middle.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{Locked, admin, config, unique, waits_for_lock};
use std::error::Error;
use std::time::Duration;
use tenure_core::{Attachment, Fence, Key, Record, Version};
use tenure_postgres::tokio_postgres::{Client, Transaction};
use tenure_postgres::{Fenced, PostgresStore, SqlGuard};
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::RecordFactory;

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
    let factory = RecordFactory::new();
    let name = Key::new("it's \"quoted\"\u{0}); DROP TABLE account; --").unwrap();
    let first = factory.held(5);
    let guard = store.guard(&name, first.fence);
    assert_eq!(changed(&application, &guard).await, 0, "before the tenure");
    let version = won(&store, factory.absent(&name, first.clone())).await;
    assert_eq!(changed(&application, &guard).await, 1, "while it is held");
    // A renewal changes the version, and nothing about the tenure.
    let renewal = Record { nonce: factory.nonce(), ..first.clone() };
    let version = won(&store, factory.unchanged(&name, version, renewal)).await;
    assert_eq!(changed(&application, &guard).await, 1, "after a renewal");
    let version = won(&store, factory.unchanged(&name, version, factory.vacant(5))).await;
    assert_eq!(changed(&application, &guard).await, 0, "after the release");
    won(&store, factory.unchanged(&name, version, factory.held(6))).await;
    assert_eq!(changed(&application, &guard).await, 0, "another's tenure");
    assert_eq!(changed(&application, &store.guard(&name, Fence(6))).await, 1);
}

#[tokio::test]
async fn an_attached_lease_is_guarded_by_its_session_too() {
    let (store, application) = application(&unique("guard")).await;
    let factory = RecordFactory::new();
    let (session, name) = (Key::new("session/a").unwrap(), Key::new("k").unwrap());
    let heartbeat = won(&store, factory.absent(&session, factory.held(3))).await;
    let mut record = factory.held(5);
    record.tenure.as_mut().unwrap().attachment =
        Some(Attachment { session: session.clone(), fence: Fence(3) });
    won(&store, factory.absent(&name, record)).await;
    let guard = store.guard(&name, Fence(5));
    assert_eq!(changed(&application, &guard).await, 1);
    won(&store, factory.unchanged(&session, heartbeat, factory.held(4))).await;
    assert_eq!(changed(&application, &guard).await, 0, "the session was fenced");
}

/// Whoever takes the key over while the transaction is open waits for its end: nothing lands after the loss.
#[tokio::test]
async fn nobody_takes_the_key_while_a_transaction_holds_it() {
    let (store, mut application) = application(&unique("guard")).await;
    let factory = RecordFactory::new();
    let name = Key::new("k").unwrap();
    let version = won(&store, factory.absent(&name, factory.held(5))).await;
    let work = application.transaction().await.unwrap();
    assert!(!store.guard(&name, Fence(4)).hold(&work).await.unwrap(), "another's fence");
    assert!(store.guard(&name, Fence(5)).hold(&work).await.unwrap());
    let taking = tokio::spawn({
        let (store, write) = (store.clone(), factory.unchanged(&name, version, factory.held(6)));
        async move { won(&store, write).await }
    });
    // Others read all the while, and write elsewhere.
    assert!(store.read(&name).await.unwrap().is_some());
    won(&store, factory.absent(&Key::new("other").unwrap(), factory.held(1))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!taking.is_finished(), "the key was taken under an open transaction");
    work.execute("UPDATE account SET balance = 9", &[]).await.unwrap();
    work.commit().await.unwrap();
    taking.await.unwrap();
    assert_eq!(changed(&application, &store.guard(&name, Fence(5))).await, 0);
}

type Failure = Box<dyn Error + Send + Sync>;

async fn balance(name: &str) -> i64 {
    let sql = format!("SELECT balance FROM {name}.account");
    admin().await.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Adds one to the balance under a lease; `after` comes before the commit.
async fn add(
    client: &mut Client,
    guard: &SqlGuard,
    after: impl AsyncFnOnce(&Transaction<'_>) -> Result<(), Failure>,
) -> Result<Fenced<u64>, Failure> {
    guard
        .run(client, async |work| {
            let rows = work.execute("UPDATE account SET balance = balance + 1", &[]).await?;
            after(work).await?;
            Ok(rows)
        })
        .await
}

#[tokio::test]
async fn a_transaction_under_a_lease_is_committed_or_undone() {
    let name = unique("guard");
    let (store, mut application) = application(&name).await;
    let (factory, key) = (RecordFactory::new(), Key::new("k").unwrap());
    let version = won(&store, factory.absent(&key, factory.held(5))).await;
    let guard = store.guard(&key, Fence(5));
    // Wherever the caller's tasks run.
    let (mut application, done) = tokio::spawn({
        let guard = guard.clone();
        async move {
            let done = add(&mut application, &guard, async |_| Ok(())).await;
            (application, done)
        }
    })
    .await
    .unwrap();
    assert_eq!((done.unwrap(), balance(&name).await), (Fenced::Committed(1), 2));

    let error = add(&mut application, &guard, async |_| Err("no money".into())).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), balance(&name).await), ("no money", 2), "its work fails");
    // A statement fails, and the work makes nothing of that.
    let error = add(&mut application, &guard, async |work| {
        assert!(work.batch_execute("SELECT 1 / 0").await.is_err());
        Ok(())
    });
    let error = error.await.unwrap_err().to_string();
    assert!(error.contains("transaction is aborted") && balance(&name).await == 2, "{error}");

    won(&store, factory.unchanged(&key, version, factory.vacant(5))).await;
    let unreachable = async |_: &Transaction<'_>| panic!("there is no lease");
    assert_eq!(add(&mut application, &guard, unreachable).await.unwrap(), Fenced::Lost);
    assert_eq!(balance(&name).await, 2);
    // The connection is as good as before: no transaction is open on it.
    application.execute("UPDATE account SET balance = 7", &[]).await.unwrap();
    assert_eq!(balance(&name).await, 7);
}

/// A takeover is on its way when the transaction begins, and lands before its first statement is answered.
#[tokio::test]
async fn a_lease_that_is_lost_while_the_transaction_begins_undoes_it() {
    let name = unique("guard");
    let (store, mut application) = application(&name).await;
    let (factory, key) = (RecordFactory::new(), Key::new("k").unwrap());
    let version = won(&store, factory.absent(&key, factory.held(5))).await;
    let locked = Locked::records_of(&name).await;
    let taking = tokio::spawn({
        let (store, write) = (store.clone(), factory.unchanged(&key, version, factory.held(6)));
        async move { won(&store, write).await }
    });
    waits_for_lock(&format!("%{name}.write%")).await;
    let guard = store.guard(&key, Fence(5));
    let adding = tokio::spawn(async move {
        add(&mut application, &guard, async |_: &Transaction<'_>| panic!("there is no lease")).await
    });
    waits_for_lock(&format!("SELECT EXISTS%{name}.record%")).await;
    locked.unlock().await;
    taking.await.unwrap();
    assert_eq!(adding.await.unwrap().unwrap(), Fenced::Lost);
    assert_eq!(balance(&name).await, 1);
}

/// Others wait while it lasts. When the server ends its connection, they get the key, and nothing of it lands any more.
#[tokio::test]
async fn a_transaction_whose_connection_ends_loses_the_lease_with_all_its_work() {
    let name = unique("guard");
    let (store, mut application) = application(&name).await;
    let (factory, key) = (RecordFactory::new(), Key::new("k").unwrap());
    let version = won(&store, factory.absent(&key, factory.held(5))).await;
    let guard = store.guard(&key, Fence(5));
    let backend: i32 = application.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let error = add(&mut application, &guard, async |_| {
        let taking = tokio::spawn({
            let (store, write) = (store.clone(), factory.unchanged(&key, version, factory.held(6)));
            async move { won(&store, write).await }
        });
        waits_for_lock(&format!("%{name}.write%")).await;
        admin().await.query_one("SELECT pg_terminate_backend($1)", &[&backend]).await?;
        taking.await?;
        Ok(())
    });
    let error = error.await.unwrap_err().to_string();
    assert!(error.contains("the lease of k"), "{error}");
    assert_eq!(balance(&name).await, 1, "it landed after the loss");
}
