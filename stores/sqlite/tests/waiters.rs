//! Waiters on one file, in one process. A binary of its own, as it counts what the process has open.
//!
//! Plan: however many handles wait, the process has one instance of inotify, and every waiter is woken by a push; it is closed with
//! the last handle.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use crate::support::{open, wins};
use std::time::Duration;
use tenure_sqlite::SqliteStore;
use tenure_store::Store;
use tenure_testkit::RecordFactory;

/// More than a user may have instances of inotify.
const HANDLES: usize = 150;
const WAITERS: usize = 2;

fn instances() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = open.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    links.filter(|link| link.to_string_lossy().contains("inotify")).count()
}

#[tokio::test]
async fn hundreds_of_waiters_share_one_instance_and_are_all_pushed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let handles: Vec<SqliteStore> = (0..HANDLES).map(|_| open(&path)).collect();
    let factory = RecordFactory::new();
    let key = factory.key("a");
    let mut waiting: Vec<_> =
        handles.iter().flat_map(|store| (0..WAITERS).map(|_| store.changed("").unwrap())).collect();
    assert_eq!((waiting.len(), instances()), (HANDLES * WAITERS, 1));
    let held = factory.held(5);
    assert!(wins(&handles[0], factory.absent(&key, held.clone())).await);
    let vacant = factory.vacant(5);
    assert!(wins(&handles[0], factory.unchanged(&key, held.version(), vacant.clone())).await);
    for changes in &mut waiting {
        let pushed = tokio::time::timeout(Duration::from_secs(30), changes.recv()).await;
        assert!(pushed.expect("pushed").is_some());
    }
    // Whoever began it may go before the others.
    drop(waiting);
    let last = handles.into_iter().next_back().unwrap();
    let mut changes = last.changed("").unwrap();
    let held = factory.held(6);
    assert!(wins(&last, factory.unchanged(&key, vacant.version(), held.clone())).await);
    assert!(wins(&last, factory.unchanged(&key, held.version(), factory.vacant(6))).await);
    assert!(tokio::time::timeout(Duration::from_secs(30), changes.recv()).await.expect("pushed").is_some());
    drop((last, changes));
    let closed = async {
        while instances() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), closed).await.expect("closed with the last handle");
}
