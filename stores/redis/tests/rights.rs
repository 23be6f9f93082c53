//! Rights that were there and are refused later: whoever waits is to wait on, and to hear why.
//!
//! Plan: a password that was changed, and a failover to a server that knows no such user, or whose user may do less; a right that was taken away.
//! Each is `Unavailable` with its remedy, and all goes on once it is mended. A right that was never there stays the caller's mistake.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{LONG, Server, at, at_last, subscribed, until};
use std::time::Duration;
use tenure_core::{ErrorKind, Key, StoreError};
use tenure_redis::{RedisStore, acl};
use tenure_store::{Outcome, Store};
use tenure_testkit::{RecordFactory, hinted};

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn says(error: &StoreError, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert!(error.kind() == kind && words.iter().all(|word| text.contains(word)), "{error:?}");
    assert!(!text.contains("hush"), "{text}");
}

#[tokio::test]
async fn a_password_that_was_changed_is_read_anew() {
    let (server, file) = (Server::start(""), tempfile::NamedTempFile::new().unwrap());
    let change = |words: &str| server.cli(&words.split_whitespace().collect::<Vec<_>>());
    change(&format!("{} >hush-1", acl("app", "jobs")));
    std::fs::write(file.path(), "hush-1\n").unwrap();
    let url = format!("redis://app@127.0.0.1:{}?password-file={}", server.port, file.path().display());
    let store = RedisStore::open(at(&url, "jobs")).await.unwrap();
    let mut changes = store.changed("").unwrap();
    subscribed(&mut changes).await;
    // Who is connected stays so until the connection ends.
    change("ACL SETUSER app resetpass >hush-2");
    assert_eq!(store.read(&key("k")).await.unwrap(), None);
    change("CLIENT KILL TYPE normal");
    change("CLIENT KILL TYPE pubsub");
    let refused = async {
        loop {
            match store.read(&key("k")).await {
                Err(error) if error.to_string().contains("password") => return error,
                Err(error) => assert!(error.is_passing(), "{error}"),
                Ok(found) => assert_eq!(found, None),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let error = tokio::time::timeout(LONG, refused).await.expect("the old one is refused");
    says(&error, ErrorKind::Unavailable, &["password is wrong"]);
    std::fs::write(file.path(), "hush-2\n").unwrap();
    assert_eq!(store.read(&key("k")).await.unwrap(), None);
    // The connection that is subscribed came back, too.
    hinted(&store, &mut changes, "k").await;
}

/// The error of a kind of trouble that comes in the end: until then the old server may be asked in vain.
async fn told(store: &RedisStore, word: &str) -> StoreError {
    let asking = async {
        loop {
            let answer = store.read(&key("k")).await;
            match answer {
                Err(error) if error.to_string().contains(word) => return error,
                Err(error) => assert!(error.is_passing(), "{error}"),
                Ok(found) => panic!("{word} is not told: {found:?}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, asking).await.expect("it is told")
}

/// Rights are each server's own: a failover may lead to one that was never told of them.
#[tokio::test]
async fn a_failover_to_a_server_that_refuses_this_user_is_outlasted() {
    let mut primary = Server::start("--repl-diskless-sync-delay 0");
    let replica =
        Server::start(&format!("--replicaof 127.0.0.1 {} --repl-diskless-load on-empty-db", primary.port));
    let rights = format!("{} >hush", acl("app", "jobs"));
    let words: Vec<&str> = rights.split_whitespace().collect();
    primary.cli(&words);
    let both = format!("redis://app:hush@127.0.0.1:{},127.0.0.1:{}", primary.port, replica.port);
    let config = at(&both, "jobs").push(false).timeout(Duration::from_secs(1));
    let store = RedisStore::open(config).await.unwrap();
    let (key, factory) = (key("k"), RecordFactory::new());
    let written = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap();
    let Outcome::Won { version, .. } = written else { panic!("{written:?}") };
    until("it is replicated", || replica.cli(&["HLEN", "tenure:{jobs}:records"]) == "1").await;
    // Whether the old one is silent or gone, what the new one says is told.
    primary.signal("-STOP");
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    says(&told(&store, "password is wrong").await, ErrorKind::Unavailable, &["check the user"]);
    primary.kill();
    says(&told(&store, "password is wrong").await, ErrorKind::Unavailable, &["check the user"]);
    // Somebody who comes now is told that it is wrong.
    let error = RedisStore::open(at(&both.replace("hush", "hush-x"), "jobs").timeout(Duration::from_secs(1)));
    says(&error.await.unwrap_err(), ErrorKind::Invalid, &["check the user"]);
    // It is let in, and may do nothing yet.
    replica.cli(&["ACL", "SETUSER", "app", "on", ">hush", "+ping", "+info", "+select"]);
    says(&told(&store, "NOPERM").await, ErrorKind::Unavailable, &["grant", "tenure_redis::acl"]);
    replica.cli(&words);
    let renewed =
        at_last(async || store.write(factory.unchanged(&key, version, factory.held(6))).await).await;
    assert!(matches!(renewed, Outcome::Won { .. }), "{renewed:?}");
    // That it may evict is no more the caller's mistake than that.
    replica.cli(&["CONFIG", "SET", "maxmemory", "1gb"]);
    replica.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    replica.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    says(&told(&store, "allkeys-lru").await, ErrorKind::Unavailable, &["noeviction"]);
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_outlasted_and_one_that_was_never_there_is_not() {
    let server = Server::start("");
    let change = |words: &str| server.cli(&words.split_whitespace().collect::<Vec<_>>());
    change(&format!("{} >hush", acl("app", "jobs")));
    let url = format!("redis://app:hush@127.0.0.1:{}", server.port);
    let store = RedisStore::open(at(&url, "jobs")).await.unwrap();
    change("ACL SETUSER app -hset");
    let (key, factory) = (key("k"), RecordFactory::new());
    let write = async || store.write(factory.if_vacant(&key, factory.held(5))).await;
    says(&write().await.unwrap_err(), ErrorKind::Invalid, &["tenure_redis::acl"]);
    // That somebody else has a key takes no right to write, so it proves none.
    let other = RedisStore::open(at(&format!("redis://127.0.0.1:{}", server.port), "jobs")).await.unwrap();
    let theirs = Key::new("theirs").unwrap();
    other.write(factory.if_vacant(&theirs, factory.held(5))).await.unwrap();
    let lost = store.write(factory.if_vacant(&theirs, factory.held(5))).await.unwrap();
    assert!(matches!(lost, Outcome::Lost(_)), "{lost:?}");
    says(&write().await.unwrap_err(), ErrorKind::Invalid, &["tenure_redis::acl"]);
    change("ACL SETUSER app +hset");
    let Outcome::Won { version, .. } = write().await.unwrap() else { panic!("nothing stood there") };
    change("ACL SETUSER app -evalsha -eval");
    let renewal = async || store.write(factory.unchanged(&key, version, factory.held(6))).await;
    says(&renewal().await.unwrap_err(), ErrorKind::Unavailable, &["tenure_redis::acl"]);
    change("ACL SETUSER app +evalsha +eval");
    assert!(matches!(renewal().await.unwrap(), Outcome::Won { .. }));
    let standing = store.read(&key).await.unwrap().unwrap();
    says(&store.remove(&key, standing.version).await.unwrap_err(), ErrorKind::Invalid, &["+hdel"]);
}
