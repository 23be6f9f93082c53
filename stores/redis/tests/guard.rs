//! A lease as a condition of the caller's own writes.
//!
//! Plan: a lease that renews itself, through renewal, release and takeover, on Redis and Valkey; one that is attached, through the end of its
//! session; names that are tenure's own, and those of another slot of a cluster, are refused before anything is sent; a right that is
//! missing is told.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{Server, at, cli, cluster_url, unique, url, valkey_url};
use tenure_core::{Attachment, ErrorKind, Fence, Key, Record, Version};
use tenure_redis::{RedisStore, acl};
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::RecordFactory;

async fn won(store: &RedisStore, write: Write) -> Version {
    match store.write(write).await.unwrap() {
        Outcome::Won { version, .. } => version,
        Outcome::Lost(standing) => panic!("lost to {standing:?}"),
    }
}

#[tokio::test]
async fn a_guarded_write_changes_nothing_after_the_loss() {
    for url in [url(), valkey_url()] {
        let namespace = unique("guard");
        let (store, factory) = (RedisStore::open(at(&url, &namespace)).await.unwrap(), RecordFactory::new());
        let key = Key::new("it's \"quoted\"\u{0}").unwrap();
        let name = format!("{namespace}-application");
        // Both halves of a fence count.
        let (fence, next) = (Fence(0x0102_0304_0506_0708), Fence(0x0102_0304_0506_0709));
        assert_eq!(store.guard(&key, fence).await.unwrap(), None, "before the tenure");
        let first = factory.held(fence.0);
        let version = won(&store, factory.absent(&key, first.clone())).await;
        let guard = store.guard(&key, fence).await.unwrap().expect("it stands");
        assert_eq!(store.guard(&key, Fence(fence.0 - 1)).await.unwrap(), None, "another's fence");
        assert!(store.set_guarded(&guard, &name, b"1").await.unwrap(), "while it is held");
        // A renewal changes the version, and nothing about the tenure.
        let renewal = Record { nonce: factory.nonce(), ..first };
        let version = won(&store, factory.unchanged(&key, version, renewal)).await;
        assert!(store.set_guarded(&guard, &name, b"2").await.unwrap(), "after a renewal");
        let version = won(&store, factory.unchanged(&key, version, factory.vacant(fence.0))).await;
        assert!(!store.set_guarded(&guard, &name, b"3").await.unwrap(), "after the release");
        won(&store, factory.unchanged(&key, version, factory.held(next.0))).await;
        assert!(!store.set_guarded(&guard, &name, b"4").await.unwrap(), "another's tenure");
        assert_eq!(cli(&url, &["GET", &name]), "2");
        for own in
            [format!("tenure:{{{namespace}}}:records"), "tenure:{other}:meta".to_owned(), String::new()]
        {
            let error = store.set_guarded(&guard, &own, b"").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
    }
}

#[tokio::test]
async fn an_attached_lease_is_guarded_by_its_session_too() {
    let namespace = unique("guard");
    let (store, factory) = (RedisStore::open(at(&url(), &namespace)).await.unwrap(), RecordFactory::new());
    let (session, key) = (Key::new("session/a").unwrap(), Key::new("k").unwrap());
    let heartbeat = won(&store, factory.absent(&session, factory.held(3))).await;
    let mut record = factory.held(5);
    record.tenure.as_mut().unwrap().attachment =
        Some(Attachment { session: session.clone(), fence: Fence(3) });
    won(&store, factory.absent(&key, record)).await;
    let guard = store.guard(&key, Fence(5)).await.unwrap().expect("it stands");
    let name = format!("{namespace}-application");
    assert!(store.set_guarded(&guard, &name, b"1").await.unwrap());
    won(&store, factory.unchanged(&session, heartbeat, factory.held(4))).await;
    assert!(!store.set_guarded(&guard, &name, b"2").await.unwrap(), "the session was fenced");
    assert_eq!(store.guard(&key, Fence(5)).await.unwrap(), None);
}

#[tokio::test]
async fn in_a_cluster_the_name_is_in_the_slot_of_the_namespace() {
    let namespace = unique("guard");
    let (store, factory) =
        (RedisStore::open(at(&cluster_url(), &namespace)).await.unwrap(), RecordFactory::new());
    let key = Key::new("k").unwrap();
    won(&store, factory.absent(&key, factory.held(5))).await;
    let guard = store.guard(&key, Fence(5)).await.unwrap().expect("it stands");
    let name = format!("{{{namespace}}}:application");
    assert!(store.set_guarded(&guard, &name, b"1").await.unwrap());
    assert_eq!(cli(&cluster_url(), &["GET", &name]), "1");
    let error = store.set_guarded(&guard, "{elsewhere}:application", b"1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains(&format!("put {{{namespace}}} into the name")), "{error}");
}

#[tokio::test]
async fn a_user_may_set_what_its_operator_says_and_nothing_else() {
    let server = Server::start("");
    for (name, more, may) in [("a", "", false), ("b", "+set ~mine", true)] {
        let words = acl(name, "jobs");
        let words: Vec<&str> =
            words.split_whitespace().chain(more.split_whitespace()).chain([">hush"]).collect();
        server.cli(&words);
        let url = format!("redis://{name}:hush@127.0.0.1:{}", server.port);
        let (store, factory) = (RedisStore::open(at(&url, "jobs")).await.unwrap(), RecordFactory::new());
        let key = Key::new(name).unwrap();
        won(&store, factory.absent(&key, factory.held(5))).await;
        let guard = store.guard(&key, Fence(5)).await.unwrap().expect("it stands");
        let set = store.set_guarded(&guard, "mine", b"1").await;
        if may {
            assert_eq!(set, Ok(true));
        } else {
            let error = set.unwrap_err();
            assert!(
                error.kind() == ErrorKind::Invalid && error.to_string().contains("+set and their names"),
                "{error}"
            );
        }
    }
    assert_eq!(server.cli(&["GET", "mine"]), "1");
}
