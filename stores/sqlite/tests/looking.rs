//! Looking at a file that can't be written: all that was written is seen, or opening fails; never less without a word.
//!
//! Plan: a file at rest on a read-only place, and on a read-only mount; one that others are writing; one whose log was left by a
//! crash and can't be read; what is written is refused; whoever does not ask for it is refused as ever.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{Immutable, SmallDisk, key, open, wins};
use std::path::Path;
use tenure_core::ErrorKind;
use tenure_sqlite::{SqliteConfig, SqliteStore};
use tenure_store::{Expect, Store, StoreExt, Write};
use tenure_testkit::RecordFactory;

fn look(path: &Path) -> Result<SqliteStore, tenure_core::StoreError> {
    SqliteStore::open(SqliteConfig::new(path).look(true))
}

async fn put(store: &SqliteStore, name: &str) -> bool {
    wins(store, Write { key: key(name), expect: Expect::Absent, record: RecordFactory::new().vacant(1) })
        .await
}

async fn keys(store: &SqliteStore) -> Vec<String> {
    store.list_all("").await.unwrap().into_iter().map(|listed| listed.key.to_string()).collect()
}

#[tokio::test]
async fn a_file_at_rest_is_read_where_nothing_can_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a b%3f#?.db");
    let store = open(&path);
    assert!(put(&store, "k").await);
    drop(store);
    closed(&path);
    let _file = Immutable::new(&path);
    let _directory = Immutable::new(directory.path());
    assert!(SqliteStore::open(SqliteConfig::new(&path)).is_err(), "nobody asked for less");
    let store = look(&path).unwrap();
    assert!(store.is_read_only());
    assert_eq!(keys(&store).await, ["k"]);
    assert!(store.read(&key("k")).await.unwrap().unwrap().age().is_some());
    let write = Write { key: key("n"), expect: Expect::Absent, record: RecordFactory::new().vacant(1) };
    let refused = store.write(write).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(refused.to_string().contains("read-only"), "{refused}");
}

/// Waits until the threads of a store that was dropped have closed its files, and with them its log is gone.
fn closed(path: &Path) {
    let log = format!("{}-wal", path.display());
    for _ in 0..10_000 {
        if !Path::new(&log).exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    unreachable!("{log} stays");
}

#[tokio::test]
async fn what_others_have_just_written_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let writer = open(&path);
    assert!(put(&writer, "k").await);
    let _directory = Immutable::new(directory.path());
    let store = look(&path).unwrap();
    assert!(store.is_read_only());
    assert_eq!(keys(&store).await, ["k"], "though it is in the log only");
    assert!(put(&writer, "l").await);
    assert_eq!(keys(&store).await, ["k", "l"]);
}

#[tokio::test]
async fn a_log_that_can_t_be_read_is_told_and_never_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let writer = open(&path);
    assert!(put(&writer, "k").await);
    // As after a power cut, but for the index of the log, which is not on the disk then.
    let after = tempfile::tempdir().unwrap();
    for name in ["leases.db", "leases.db-wal"] {
        std::fs::copy(directory.path().join(name), after.path().join(name)).unwrap();
    }
    let path = after.path().join("leases.db");
    let _directory = Immutable::new(after.path());
    let error = look(&path).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("leases.db-wal together"), "{error}");
}

#[test]
fn a_read_only_mount_is_looked_at() {
    if !crate::support::may_mount("looking::a_read_only_mount_is_looked_at") {
        return;
    }
    let disk = SmallDisk::mount("size=4m");
    let path = disk.path("leases.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert!(put(&open(&path), "k").await);
        closed(&path);
        disk.remount("ro");
        let store = look(&path).unwrap();
        assert!(store.is_read_only());
        assert_eq!(keys(&store).await, ["k"]);
        drop(store);
        // Another program has put it out of write-ahead mode: there is no log, and none is missed.
        disk.remount("rw");
        rusqlite::Connection::open(&path).unwrap().pragma_update(None, "journal_mode", "delete").unwrap();
        disk.remount("ro");
        assert_eq!(keys(&look(&path).unwrap()).await, ["k"]);
    });
}
