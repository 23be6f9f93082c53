//! The guard: true while the tenure stands, false from the moment when it doesn't, in the caller's own transaction.
//!
//! Plan: a lease that renews itself, through release and takeover; one that is attached, through the end of its session; one
//! below a prefix, which must not be taken for another; both ways of writing the predicate; keys that try to break out of it. A transaction
//! that is run under a lease: committed, or undone when its work fails, when the lease is lost, or is lost while it waits to begin.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{key, open, wins};
use rusqlite::{Connection, params};
use std::path::Path;
use std::time::Duration;
use tenure_core::{Attachment, Fence, Key, Record};
use tenure_sqlite::{Fenced, SqlGuard, SqliteStore};
use tenure_store::PrefixedStore;
use tenure_testkit::RecordFactory;

fn application(path: &Path) -> Connection {
    let application = Connection::open(path).unwrap();
    application
        .execute_batch("CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (1)")
        .unwrap();
    application
}

/// How many rows a guarded write changes, which must be the same for both forms of the predicate.
fn changed(application: &Connection, guard: &SqlGuard) -> usize {
    let plain = format!("UPDATE account SET balance = balance + 1 WHERE {}", guard.sql());
    let bound = format!("UPDATE account SET balance = ?1 WHERE {}", guard.predicate(2));
    let values = guard.params();
    let counts = [
        application.execute(&plain, []).unwrap(),
        application.execute(&bound, params![7, values.key, values.fence]).unwrap(),
    ];
    assert_eq!(counts[0], counts[1]);
    counts[0]
}

fn guard(store: &SqliteStore, key: &Key, record: &Record) -> SqlGuard {
    store.guard(key, record.fence)
}

#[tokio::test]
async fn a_guarded_write_changes_nothing_after_the_loss() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let application = application(&path);
    let name = key("it's \"quoted\"\u{0}); DROP TABLE account; --");
    let first = factory.held(5);
    let guarded = guard(&store, &name, &first);
    assert_eq!(changed(&application, &guarded), 0, "before the tenure");
    assert!(wins(&store, factory.absent(&name, first.clone())).await);
    assert_eq!(changed(&application, &guarded), 1, "while it is held");

    // A renewal changes the version, and nothing about the tenure.
    let mut renewed = Record { nonce: factory.nonce(), ..first.clone() };
    renewed.tenure.as_mut().unwrap().heartbeat = renewed.nonce;
    assert!(wins(&store, factory.unchanged(&name, first.version(), renewed.clone())).await);
    assert_eq!(changed(&application, &guarded), 1, "after a renewal");
    assert_eq!(changed(&application, &store.guard(&name, Fence(6))), 0, "another fence");
    assert_eq!(changed(&application, &store.guard(&key("other"), Fence(5))), 0, "another key");

    let vacant = factory.vacant(5);
    assert!(wins(&store, factory.unchanged(&name, renewed.version(), vacant)).await);
    assert_eq!(changed(&application, &guarded), 0, "after the release");
    let second = factory.held(1);
    assert!(wins(&store, factory.if_vacant(&name, second.clone())).await);
    assert_eq!(changed(&application, &guarded), 0, "after a takeover");
    assert_eq!(changed(&application, &guard(&store, &name, &Record { fence: Fence(6), ..second })), 1);
}

#[tokio::test]
async fn an_attached_lease_ends_with_its_session() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let application = application(&path);
    let (session, name) = (key("session"), key("a"));
    let mut attached = factory.held(5);
    attached.tenure.as_mut().unwrap().attachment =
        Some(Attachment { session: session.clone(), fence: Fence(70) });
    let guarded = guard(&store, &name, &attached);
    assert!(wins(&store, factory.absent(&name, attached)).await);
    assert_eq!(changed(&application, &guarded), 0, "a session that isn't there");

    let beating = factory.held(70);
    assert!(wins(&store, factory.absent(&session, beating.clone())).await);
    assert_eq!(changed(&application, &guarded), 1, "while the session stands");
    let bumped = factory.held(71);
    assert!(wins(&store, factory.unchanged(&session, beating.version(), bumped.clone())).await);
    assert_eq!(changed(&application, &guarded), 0, "a session that was fenced");
    let back = factory.held(70);
    assert!(wins(&store, factory.unchanged(&session, bumped.version(), back.clone())).await);
    assert_eq!(changed(&application, &guarded), 1);
    assert!(wins(&store, factory.unchanged(&session, back.version(), factory.vacant(70))).await);
    assert_eq!(changed(&application, &guarded), 0, "a session that was left");
}

#[tokio::test]
async fn below_a_prefix_a_guard_takes_the_whole_key_and_fails_closed_for_attached_leases() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let below = PrefixedStore::new(store.clone(), "team/").unwrap();
    let application = application(&path);
    let (own, attached_key, session) = (key("own"), key("attached"), key("session"));
    assert!(wins(&below, factory.absent(&own, factory.held(5))).await);
    assert!(wins(&below, factory.absent(&session, factory.held(70))).await);
    let mut attached = factory.held(5);
    attached.tenure.as_mut().unwrap().attachment = Some(Attachment { session, fence: Fence(70) });
    assert!(wins(&below, factory.absent(&attached_key, attached)).await);

    assert_eq!(changed(&application, &store.guard(&own, Fence(5))), 0, "without its prefix");
    assert_eq!(changed(&application, &store.guard(&key("team/own"), Fence(5))), 1);
    assert_eq!(changed(&application, &store.guard(&key("team/attached"), Fence(5))), 0);
}

fn balance(application: &Connection) -> i64 {
    application.query_row("SELECT balance FROM account", [], |row| row.get(0)).unwrap()
}

/// Adds one to the balance under a lease; `after` comes before the commit.
fn add(
    application: &mut Connection,
    guard: &SqlGuard,
    after: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<Fenced<usize>> {
    guard.run(application, |work| {
        let rows = work.execute("UPDATE account SET balance = balance + 1", [])?;
        after(work).map(|()| rows)
    })
}

#[tokio::test]
async fn a_transaction_under_a_lease_is_committed_or_undone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory, name) = (open(&path), RecordFactory::new(), key("k"));
    let mut application = application(&path);
    let first = factory.held(5);
    let guarded = guard(&store, &name, &first);
    assert_eq!(add(&mut application, &guarded, |_| panic!("there is no lease")).unwrap(), Fenced::Lost);
    assert!(wins(&store, factory.absent(&name, first.clone())).await);
    assert_eq!(add(&mut application, &guarded, |_| Ok(())).unwrap(), Fenced::Committed(1));
    assert_eq!(balance(&application), 2);
    add(&mut application, &guarded, |work| work.execute_batch("SELECT nothing")).unwrap_err();
    assert_eq!(balance(&application), 2, "its work failed");
    assert!(wins(&store, factory.unchanged(&name, first.version(), factory.vacant(5))).await);
    assert_eq!(add(&mut application, &guarded, |_| panic!("it is released")).unwrap(), Fenced::Lost);
    // No transaction is open.
    application.execute("UPDATE account SET balance = 7", []).unwrap();
    assert_eq!(balance(&application), 7);
}

/// Whoever takes the lease waits for the end of a transaction that has begun, and one that has not begun waits for whoever takes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_lost_before_a_transaction_or_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory, name) = (open(&path), RecordFactory::new(), key("k"));
    let mut application = application(&path);
    application.busy_timeout(Duration::from_secs(60)).unwrap();
    let first = factory.held(5);
    let guarded = guard(&store, &name, &first);
    assert!(wins(&store, factory.absent(&name, first.clone())).await);
    let second = factory.held(6);
    let takeover = factory.unchanged(&name, first.version(), second.clone());
    let mut taking = None;
    let done = add(&mut application, &guarded, |_| {
        let store = store.clone();
        let taking = taking.insert(tokio::spawn(async move { wins(&store, takeover).await }));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!taking.is_finished(), "the lease was taken under an open transaction");
        Ok(())
    });
    assert_eq!(done.unwrap(), Fenced::Committed(1));
    assert!(taking.unwrap().await.unwrap());

    // Another writer has the file, and takes the lease.
    let guarded = guard(&store, &name, &second);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE tenure_record SET fence = 7 WHERE key = 'k'").unwrap();
    let adding = std::thread::spawn(move || {
        let done = add(&mut application, &guarded, |_| panic!("the lease was lost while it waited"));
        (done.unwrap(), balance(&application))
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(!adding.is_finished(), "it does not wait for who writes");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(adding.join().unwrap(), (Fenced::Lost, 2));
}

#[tokio::test]
async fn a_transaction_over_two_files_needs_the_leases_to_be_writable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (store, factory) = (open(&path), RecordFactory::new());
    let record = factory.held(5);
    assert!(wins(&store, factory.absent(&key("k"), record.clone())).await);
    let guard = guard(&store, &key("k"), &record);
    let mut application = application(&directory.path().join("application.db"));
    let attach = |application: &Connection, mode: &str| {
        application.execute("ATTACH ? AS leases", [format!("file:{}?mode={mode}", path.display())]).unwrap();
    };
    attach(&application, "ro");
    let refused = add(&mut application, &guard, |_| Ok(())).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::ReadOnly), "{refused}");
    assert_eq!(balance(&application), 1);
    application.execute_batch("DETACH leases").unwrap();
    attach(&application, "rw");
    assert_eq!(add(&mut application, &guard, |_| Ok(())).unwrap(), Fenced::Committed(1));
    assert_eq!(balance(&application), 2);
}
