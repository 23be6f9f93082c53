//! A lease as a condition of the caller's own writes.
//!
//! Plan: a lease that renews itself, through renewal, release and takeover; one that is attached, through the end of its session; names
//! that are tenure's own are refused; the conditions, as another client is given them, say the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{by_hand, config, unique, url};
use tenure_core::{Attachment, ErrorKind, Fence, Key, Record, Version};
use tenure_etcd::EtcdStore;
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::RecordFactory;

async fn won(store: &EtcdStore, write: Write) -> Version {
    match store.write(write).await.unwrap() {
        Outcome::Won { version, .. } => version,
        Outcome::Lost(standing) => panic!("lost to {standing:?}"),
    }
}

#[tokio::test]
async fn a_guarded_write_changes_nothing_after_the_loss() {
    let prefix = unique("guard");
    let (store, factory) = (EtcdStore::open(config(&prefix)).await.unwrap(), RecordFactory::new());
    let key = Key::new("it's \"quoted\"\u{0}").unwrap();
    let name = format!("{prefix}-application");
    assert_eq!(store.guard(&key, Fence(5)).await.unwrap(), None, "before the tenure");
    let first = factory.held(5);
    let version = won(&store, factory.absent(&key, first.clone())).await;
    let guard = store.guard(&key, Fence(5)).await.unwrap().expect("it stands");
    assert_eq!(store.guard(&key, Fence(4)).await.unwrap(), None, "another's fence");
    assert!(store.put_guarded(&guard, name.as_bytes(), b"1").await.unwrap(), "while it is held");
    // A renewal changes the version, and nothing about the tenure.
    let renewal = Record { nonce: factory.nonce(), ..first };
    let version = won(&store, factory.unchanged(&key, version, renewal)).await;
    assert!(store.put_guarded(&guard, name.as_bytes(), b"2").await.unwrap(), "after a renewal");
    let version = won(&store, factory.unchanged(&key, version, factory.vacant(5))).await;
    assert!(!store.put_guarded(&guard, name.as_bytes(), b"3").await.unwrap(), "after the release");
    won(&store, factory.unchanged(&key, version, factory.held(6))).await;
    assert!(!store.put_guarded(&guard, name.as_bytes(), b"4").await.unwrap(), "another's tenure");
    assert_eq!(by_hand(&url(), &["get", "--print-value-only", &name], &[]), b"2\n");
    let own = store.put_guarded(&guard, format!("{prefix}:x").as_bytes(), b"").await.unwrap_err();
    assert_eq!(own.kind(), ErrorKind::Invalid, "{own}");
}

#[tokio::test]
async fn an_attached_lease_is_guarded_by_its_session_too() {
    let prefix = unique("guard");
    let (store, factory) = (EtcdStore::open(config(&prefix)).await.unwrap(), RecordFactory::new());
    let (session, key) = (Key::new("session/a").unwrap(), Key::new("k").unwrap());
    let heartbeat = won(&store, factory.absent(&session, factory.held(3))).await;
    let mut record = factory.held(5);
    record.tenure.as_mut().unwrap().attachment =
        Some(Attachment { session: session.clone(), fence: Fence(3) });
    won(&store, factory.absent(&key, record)).await;
    let guard = store.guard(&key, Fence(5)).await.unwrap().expect("it stands");
    let name = format!("{prefix}-application");
    assert!(store.put_guarded(&guard, name.as_bytes(), b"1").await.unwrap());
    won(&store, factory.unchanged(&session, heartbeat, factory.held(4))).await;
    assert!(!store.put_guarded(&guard, name.as_bytes(), b"2").await.unwrap(), "the session was fenced");
    assert_eq!(store.guard(&key, Fence(5)).await.unwrap(), None);
}

/// What another client of etcd would compare: here etcd's own, in the words of its transactions.
#[tokio::test]
async fn the_conditions_are_those_that_another_client_compares() {
    let prefix = unique("guard");
    let (store, factory, key) =
        (EtcdStore::open(config(&prefix)).await.unwrap(), RecordFactory::new(), Key::new("k").unwrap());
    let fence = Fence(0x4142_4344_4546_4748);
    let version = won(&store, factory.absent(&key, factory.held(fence.0))).await;
    let guard = store.guard(&key, fence).await.unwrap().expect("it stands");
    let [condition] = guard.conditions() else { panic!("{guard:?}") };
    assert_eq!(condition.name, format!("{prefix}:k").as_bytes());
    let [greater, less] =
        [&condition.greater, &condition.less].map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    let compared = || {
        let name = String::from_utf8(condition.name.clone()).unwrap();
        let text = format!(
            "value(\"{name}\") > \"{greater}\"\nvalue(\"{name}\") < \"{less}\"\n\nget nothing\n\n\n\n"
        );
        String::from_utf8(by_hand(&url(), &["txn"], text.as_bytes())).unwrap().starts_with("SUCCESS")
    };
    assert!(compared());
    won(&store, factory.unchanged(&key, version, factory.vacant(fence.0))).await;
    assert!(!compared(), "after the release");
}
