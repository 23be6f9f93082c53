//! Writes that are asked for in one moment.
//!
//! Plan: they go in few scripts, more than one may carry too, and each has its own outcome; who asked first and goes away takes nobody
//! with it, and is not written for; who asked first and looks elsewhere holds nobody up; one that is damaged, or loses, or that the index refuses, does nothing to the rest; a dead connection is
//! given up by the least patient, and the rest are told so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::proxy::Proxy;
use crate::support::{LONG, Server, at};
use futures_util::future::join_all;
use std::time::Duration;
use tenure_core::{ErrorKind, Key, StoreError};
use tenure_redis::RedisStore;
use tenure_store::{Outcome, Store};
use tenure_testkit::RecordFactory;

/// More than one script takes.
const MANY: usize = 150;

fn keys() -> Vec<Key> {
    (0..MANY).map(|n| Key::new(format!("k{n:03}")).unwrap()).collect()
}

fn has_won(outcome: &Result<Outcome, StoreError>) -> bool {
    matches!(outcome, Ok(Outcome::Won { .. }))
}

/// How many scripts the server has run.
fn scripts(server: &Server) -> usize {
    let text = server.cli(&["INFO", "commandstats"]);
    let counts = text.lines().filter_map(|line| line.strip_prefix("cmdstat_eval")?.split_once("calls="));
    counts.map(|(_, rest)| rest.split(',').next().unwrap().parse::<usize>().unwrap()).sum()
}

#[tokio::test]
async fn writes_of_one_moment_go_in_few_scripts_and_each_has_its_own_outcome() {
    let server = Server::start("");
    let store = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    let (factory, keys) = (RecordFactory::new(), keys());
    let taken = factory.held(5);
    let first = store.write(factory.absent(&keys[7], taken.clone())).await;
    assert!(has_won(&first));
    server.cli(&["HSET", "tenure:{jobs}:records", "k009", "another program's"]);
    let before = scripts(&server);
    let outcomes = join_all(keys.iter().map(|key| store.write(factory.absent(key, factory.held(5))))).await;
    // The server forgets no script here, so each is one call.
    let count = scripts(&server) - before;
    assert!(count <= 4, "{count} scripts for {MANY} writes");
    for (at, outcome) in outcomes.iter().enumerate() {
        match (at, outcome) {
            (7, Ok(Outcome::Lost(Some(standing)))) => assert_eq!(standing.record, taken),
            (9, Err(error)) => assert_eq!(error.kind(), ErrorKind::Foreign, "{error}"),
            _ => assert!(has_won(outcome), "{at}: {outcome:?}"),
        }
    }
    // They were written each for itself.
    let read = store.read_many(&keys, tenure_store::Freshness::Latest).await.unwrap();
    assert_eq!(read.iter().filter(|listed| listed.stored.is_ok()).count(), MANY - 1);
}

#[tokio::test]
async fn who_asked_first_and_goes_away_takes_nobody_with_it() {
    let server = Server::start("");
    let store = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    let (factory, keys) = (RecordFactory::new(), keys());
    let write = |at: usize| store.write(factory.absent(&keys[at], factory.held(5)));
    for round in (0..40).step_by(4) {
        let (mut alone, mut leads, follows) =
            (Box::pin(write(round)), Box::pin(write(round + 1)), write(round + 2));
        let wait = std::future::poll_fn(|cx| {
            let both = [alone.as_mut().poll(cx), leads.as_mut().poll(cx)];
            std::task::Poll::Ready(both.iter().all(std::task::Poll::is_pending))
        });
        assert!(wait.await, "one goes at once, the next lets others come first");
        let (alone, follows, ()) = tokio::join!(alone, follows, async { drop(leads) });
        assert!(has_won(&alone) && has_won(&follows), "{alone:?}, {follows:?}");
        assert_eq!(store.read(&keys[round + 1]).await.unwrap(), None, "nobody waits for it any more");
        assert!(has_won(&write(round + 3).await), "and those that come after it go on");
    }
}

#[tokio::test]
async fn l4_who_asked_first_and_looks_elsewhere_holds_nobody_up() {
    let server = Server::start("");
    let store = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    let (factory, keys) = (RecordFactory::new(), keys());
    let write = |at: usize| store.write(factory.absent(&keys[at], factory.held(5)));
    let (mut alone, mut leads) = (Box::pin(write(0)), Box::pin(write(1)));
    let wait = std::future::poll_fn(|cx| {
        let both = [alone.as_mut().poll(cx), leads.as_mut().poll(cx)];
        std::task::Poll::Ready(both.iter().all(std::task::Poll::is_pending))
    });
    assert!(wait.await, "one goes at once, the next lets others come first");
    // Both are kept, and nobody polls them, as in a `select!` whose other branch takes long.
    for at in 2..6 {
        let follows = tokio::time::timeout(LONG, write(at)).await;
        assert!(has_won(&follows.expect("it waits for another's future")));
    }
    assert!(has_won(&alone.await) && has_won(&leads.await));
}

#[tokio::test]
async fn a_dead_connection_is_given_up_by_the_least_patient_of_those_who_wait_together() {
    let server = Server::start("");
    let proxy = Proxy::before(server.port).await;
    let store = RedisStore::open(at(&proxy.url(), "jobs").push(false)).await.unwrap();
    let (factory, keys) = (RecordFactory::new(), keys());
    let write = |at: usize| store.write(factory.absent(&keys[at], factory.held(5)));
    assert!(has_won(&write(0).await));
    proxy.stall();
    let impatient = tokio::time::timeout(Duration::from_millis(50), write(1));
    let together =
        async { tokio::join!(impatient, tokio::time::timeout(Duration::from_millis(60), write(2))) };
    let (first, second) = together.await;
    assert!(first.is_err() && second.is_err(), "it has stalled");
    proxy.pass();
    // What was sent on the old connection is lost in it.
    let next = tokio::time::timeout(LONG.min(Duration::from_secs(2)), write(3)).await;
    assert!(has_won(&next.expect("the dead connection is still in use")));
}

/// The index refuses new keys: it is of another type, or the user has no right to add to it. A record needs it only once.
#[tokio::test]
async fn what_the_index_refuses_is_not_done_and_what_goes_with_it_is() {
    let server = Server::start("");
    let store = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    let (factory, keys) = (RecordFactory::new(), keys());
    let (known, new) = keys.split_at(MANY / 2);
    let mut records = Vec::new();
    for (key, outcome) in known
        .iter()
        .zip(join_all(known.iter().map(|key| store.write(factory.absent(key, factory.held(5))))).await)
    {
        assert!(has_won(&outcome), "{key}: {outcome:?}");
        records.push(store.read(key).await.unwrap().unwrap());
    }
    let rights = tenure_redis::acl("app", "jobs").replace("+zadd", "");
    server.cli(&rights.split_whitespace().chain([">hush"]).collect::<Vec<_>>());
    let url = server.url().replace("redis://", "redis://app:hush@");
    let poor = RedisStore::open(at(&url, "jobs")).await.unwrap();
    for (store, kind, words) in [
        (&poor, ErrorKind::Invalid, ["grant the user", "tenure_redis::acl"]),
        (&store, ErrorKind::Foreign, ["WRONGTYPE", "namespace="]),
    ] {
        if kind == ErrorKind::Foreign {
            server.cli(&["DEL", "tenure:{jobs}:index"]);
            server.cli(&["SET", "tenure:{jobs}:index", "another program's"]);
        }
        let renewed: Vec<_> = records.iter().map(|_| factory.held(5)).collect();
        let writes = known.iter().zip(&records).zip(&renewed).map(|((key, standing), record)| {
            store.write(factory.unchanged(key, standing.version, record.clone()))
        });
        // By turns, so that every script has some of both, and those that are refused come between the others.
        let both = writes.zip(new).map(|(renewal, key)| async {
            tokio::join!(renewal, store.write(factory.absent(key, factory.held(5))))
        });
        let before = scripts(&server);
        let outcomes = join_all(both).await;
        let count = scripts(&server) - before;
        assert!(count <= 6, "{count} scripts");
        for ((renewal, addition), key) in outcomes.iter().zip(new) {
            assert!(has_won(renewal), "{renewal:?}");
            let error = addition.as_ref().unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == kind && words.iter().all(|word| text.contains(word)), "{text}");
            assert!(!text.contains("hush"), "{text}");
            assert_eq!(store.read(key).await.unwrap(), None, "{key} was refused");
        }
        for ((key, standing), record) in known.iter().zip(&mut records).zip(renewed) {
            *standing = store.read(key).await.unwrap().unwrap();
            assert_eq!(standing.record, record, "{key} was renewed");
        }
    }
    // A removal is refused before anything of it is done.
    let error = store.remove(&known[0], records[0].version).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(store.read(&known[0]).await.unwrap().is_some(), "it was refused");
}

/// Its digest is right, as only somebody who means it writes.
#[tokio::test]
async fn a_forged_fence_is_damage_and_does_nothing_to_what_goes_with_it() {
    let server = Server::start("");
    let store = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    let (factory, keys) = (RecordFactory::new(), keys());
    let head = format!("{}{}{}", "0".repeat(32), "00000000000000zz", "-".repeat(32));
    let script = "return redis.call('HSET', KEYS[1], ARGV[1], '0000000000000000' .. redis.sha1hex(ARGV[2]) .. ARGV[2])";
    server.cli(&["EVAL", script, "1", "tenure:{jobs}:records", "k002", &head]);
    let write = |at: usize| store.write(factory.if_vacant(&keys[at], factory.held(5)));
    let (alone, before, forged) = tokio::join!(write(0), write(1), write(2));
    assert!(has_won(&alone) && has_won(&before), "{alone:?}, {before:?}");
    assert_eq!(forged.unwrap_err().kind(), ErrorKind::Foreign);
}
