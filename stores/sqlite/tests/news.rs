//! What the side file tells, and to whom.
//!
//! Plan: whoever waits for another key hears nothing; what an older program writes is heard by all.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use crate::support::{open, wins};
use std::time::Duration;
use tenure_core::Key;
use tenure_store::{Changes, Hint, Store};
use tenure_testkit::RecordFactory;

#[tokio::test]
async fn who_waits_for_another_key_is_not_woken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leases.db");
    let (writer, waiter, factory) = (open(&path), open(&path), RecordFactory::new());
    // The first that is told may follow what nobody knows of.
    let first = Key::new("first").unwrap();
    assert!(wins(&writer, factory.absent(&first, factory.vacant(1))).await);
    let mut all = waiter.changed("").unwrap();
    let mut others = waiter.changed("other/").unwrap();
    let next = async |changes: &mut Changes| {
        let hint = tokio::time::timeout(Duration::from_secs(30), changes.recv()).await;
        hint.expect("no hint comes").unwrap()
    };
    for round in 0..50 {
        let key = Key::new(format!("k{round}")).unwrap();
        assert!(wins(&writer, factory.absent(&key, factory.vacant(1))).await);
        assert_eq!(next(&mut all).await.key(), Some(&key));
    }
    let other = Key::new("other/k").unwrap();
    assert!(wins(&writer, factory.absent(&other, factory.vacant(1))).await);
    assert_eq!(next(&mut others).await.key(), Some(&other), "of none of the others");
    assert_eq!(next(&mut all).await.key(), Some(&other));
    // As a program of before does.
    std::fs::write(directory.path().join("leases.db-lock"), "~").unwrap();
    assert_eq!([next(&mut all).await, next(&mut others).await], [Hint::Any, Hint::Any]);
}
