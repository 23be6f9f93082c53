//! Bad input is told by name, before any I/O.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{TTL, World};
use std::time::Duration;
use tenure::{AcquireError, ErrorKind, Metadata, Value};

async fn refused(lock: tenure::Lock) -> String {
    match lock.try_acquire().await {
        Err(AcquireError::Store(error)) if error.kind() == ErrorKind::Invalid => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn keys_ttls_and_metadata_are_checked_first() {
    let world = World::new();
    let process = world.process();
    let leases = &process.leases;
    assert!(refused(leases.lock("")).await.contains("can't be empty"));
    assert!(refused(leases.lock("x".repeat(513))).await.contains("the limit is 512"));
    assert!(
        refused(leases.lock("k").ttl(Duration::ZERO)).await.contains("below this store's minimum of 10ms")
    );
    assert!(refused(leases.lock("k").ttl(Duration::from_secs(86_401))).await.contains("10 ms to 1 day"));
    let large = Metadata::from([("x".to_owned(), Value::Text("x".repeat(5000)))]);
    assert!(refused(leases.lock("k").metadata(large.clone())).await.contains("limit of 4096"));
    let mut guard = leases.try_acquire("k").await.unwrap();
    process.store.take();
    assert!(guard.update(large).await.is_err());
    assert_eq!(process.store.take().round_trips(), 0);
}

#[tokio::test(start_paused = true)]
async fn settings_are_checked_at_the_start() {
    let world = World::new();
    let (_, line) = world.line();
    let error = |builder: tenure::LeasesBuilder| builder.start().unwrap_err().to_string();
    assert!(error(world.builder(&line).session_ttl(Duration::from_millis(1))).contains("minimum"));
    assert!(error(world.builder(&line).session_ttl(TTL * 10_000)).contains("1 day"));
    assert!(error(world.builder(&line).poll(Duration::ZERO)).contains("poll interval"));
    assert!(error(world.builder(&line).session_prefix("x".repeat(600))).contains("limit is 512"));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_must_exist_is_not_made_up() {
    let world = World::new();
    let process = world.process();
    assert!(matches!(process.leases.lock("k").carry(None).try_acquire().await, Err(AcquireError::Absent)));
}

#[tokio::test(start_paused = true)]
async fn stopped_leases_say_so() {
    let world = World::new();
    let process = world.process();
    process.leases.stop().await;
    process.leases.stop().await;
    assert!(matches!(process.leases.try_acquire("k").await, Err(AcquireError::Stopped)));
}
