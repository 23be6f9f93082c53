//! Several processes on one file.
//!
//! Plan: locks and counts by four processes; a waiter in this process that is woken by another; processes killed at random
//! instants. The other processes are this test program again, told by an environment variable what to do. Each says on its
//! standard output what it was answered, one line each, and only afterwards.
//!
//! `TENURE_KILLS=200 cargo test -p tenure-sqlite --test sqlite processes::` kills as often as that.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::peer::{PATIENCE, Peer, role, say, sign};
use crate::support::{key, open, wins};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use tenure_core::op::Outcome;
use tenure_core::{Fence, Version};
use tenure_sqlite::SqliteStore;
use tenure_store::{Store, StoreExt};
use tenure_testkit::RecordFactory;

async fn increment(store: &SqliteStore, factory: &RecordFactory, name: &str) {
    let name = key(name);
    let mut standing = store.read(&name).await.unwrap().map(|stored| (stored.record, stored.version));
    loop {
        let write = match standing {
            None => factory.absent(&name, sign(factory.vacant(1))),
            Some((record, version)) => {
                factory.unchanged(&name, version, sign(factory.vacant(record.fence.0 + 1)))
            }
        };
        match store.write(write).await.unwrap() {
            Outcome::Won { .. } => return,
            Outcome::Lost(lost) => standing = lost.map(|stored| (stored.record, stored.version)),
        }
    }
}

#[tokio::test]
async fn four_processes_share_a_lock_and_a_count() {
    const EACH: usize = 100;
    if let Some((_, file)) = role() {
        let (store, factory) = (open(&file), RecordFactory::new());
        let (lock, inside) = (key("lock"), key("inside"));
        for _ in 0..EACH {
            increment(&store, &factory, "count").await;
            // Holds the lock, writes what nobody else may write meanwhile, and lets go.
            let (version, fence) = loop {
                if let Outcome::Won { version, fence } =
                    store.write(factory.if_vacant(&lock, sign(factory.held(1)))).await.unwrap()
                {
                    break (version, fence);
                }
            };
            let mine = sign(factory.held(fence.0));
            let before = store.read(&inside).await.unwrap();
            let entered = match &before {
                None => factory.absent(&inside, mine.clone()),
                Some(stored) => {
                    assert_eq!(stored.record.tenure, None, "two processes hold the lock");
                    factory.unchanged(&inside, stored.version, mine.clone())
                }
            };
            assert!(wins(&store, entered).await, "two processes hold the lock");
            let left = factory.unchanged(&inside, mine.version(), sign(factory.vacant(fence.0)));
            assert!(wins(&store, left).await, "two processes hold the lock");
            assert!(wins(&store, factory.unchanged(&lock, version, sign(factory.vacant(fence.0)))).await);
            say(&fence.to_string());
        }
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leases.db");
    let peers: Vec<Peer> = (0..4)
        .map(|_| Peer::start("processes::four_processes_share_a_lock_and_a_count", "share", &file))
        .collect();
    let mut fences = BTreeSet::new();
    for peer in peers {
        let heard: Vec<u64> = peer.hear_out().iter().map(|line| line.parse().unwrap()).collect();
        assert_eq!(heard.len(), EACH);
        assert!(heard.is_sorted(), "fences went back");
        fences.extend(heard);
    }
    assert_eq!(fences.len(), 4 * EACH, "a fence was given twice");
    let count = open(&file).read(&key("count")).await.unwrap().unwrap().record.fence;
    assert_eq!(count, Fence(4 * EACH as u64), "increments were lost");
}

#[tokio::test]
async fn a_waiter_is_woken_by_another_process() {
    if let Some((_, file)) = role() {
        let (store, factory) = (open(&file), RecordFactory::new());
        for line in std::io::stdin().lines() {
            let version = Version(line.unwrap().parse().unwrap());
            assert!(wins(&store, factory.unchanged(&key("a"), version, sign(factory.vacant(5)))).await);
        }
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leases.db");
    let (store, factory) = (open(&file), RecordFactory::new());
    let mut changes = store.changed("").unwrap();
    let mut peer = Peer::start("processes::a_waiter_is_woken_by_another_process", "vacate", &file);
    for _ in 0..5 {
        let outcome = store.write(factory.if_vacant(&key("a"), factory.held(1))).await.unwrap();
        let Outcome::Won { version, .. } = outcome else { panic!("someone else holds it") };
        while changes.try_recv().is_ok() {}
        writeln!(peer.input, "{}", version.0).unwrap();
        loop {
            let hint = tokio::time::timeout(PATIENCE, changes.recv()).await;
            hint.expect("a hint within a minute").expect("the hints go on");
            // A hint may be one of before, that was late.
            if store.read(&key("a")).await.unwrap().unwrap().record.tenure.is_none() {
                break;
            }
        }
    }
    peer.hear_out();
}

/// What a process does until it is killed: writes of each kind, each said once it was answered.
async fn work_until_killed(name: &str, file: &Path) {
    let (store, factory) = (open(file), RecordFactory::new());
    let pair = [key(&format!("pair/{name}/a")), key(&format!("pair/{name}/b"))];
    for n in 1.. {
        let single = factory.absent(&key(&format!("single/{name}/{n:06}")), sign(factory.held(n)));
        assert!(wins(&store, single).await);
        say(&format!("single {n}"));
        let mut batch = Vec::new();
        for side in &pair {
            let record = sign(factory.vacant(n));
            batch.push(match store.read(side).await.unwrap() {
                None => factory.absent(side, record),
                Some(stored) => factory.unchanged(side, stored.version, record),
            });
        }
        let outcomes = store.write_many(batch).await.unwrap();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Won { .. })), "{outcomes:?}");
        say(&format!("pair {n}"));
        increment(&store, &factory, "count").await;
        say("count");
    }
}

#[tokio::test]
async fn killed_processes_lose_nothing_and_hold_nobody_up() {
    const TEST: &str = "processes::killed_processes_lose_nothing_and_hold_nobody_up";
    if let Some((name, file)) = role() {
        return work_until_killed(&name, &file).await;
    }
    let kills: u64 =
        std::env::var("TENURE_KILLS").map_or(15, |kills| kills.parse().expect("TENURE_KILLS is a number"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leases.db");
    let mut peers: BTreeMap<String, Peer> = BTreeMap::new();
    let mut counted = 0;
    for kill in 0..kills {
        for n in 0..3 {
            let name = format!("{:05}", kill + n);
            peers.entry(name.clone()).or_insert_with(|| Peer::start(TEST, &name, &file));
        }
        let (name, mut victim) = peers.pop_first().unwrap();
        // Once it is at work, at an instant that differs each time.
        victim.hear();
        let mixed = kill.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        std::thread::sleep(Duration::from_micros(mixed % 20_000));
        let said = victim.kill();
        counted += counts(&said);
        check_after_kill(&file, &name, &said).await;
        // The others go on: what they say next, after all that they have said, was written after the kill.
        for peer in peers.values_mut() {
            peer.hear();
        }
    }
    for (name, peer) in peers {
        let said = peer.kill();
        counted += counts(&said);
        check_after_kill(&file, &name, &said).await;
    }
    let count = open(&file).read(&key("count")).await.unwrap().map_or(0, |stored| stored.record.fence.0);
    let most = counted + kills + 2;
    assert!(count >= counted && count <= most, "{counted} were answered, {count} are there");
    println!("{kills} kills, {count} increments");
}

fn counts(said: &[String]) -> u64 {
    said.iter().filter(|line| *line == "count").count() as u64
}

/// The file is whole, and has all that process `name` was answered and nothing half done.
async fn check_after_kill(file: &Path, name: &str, said: &[String]) {
    let verdict: String = {
        let hand = rusqlite::Connection::open(file).unwrap();
        hand.busy_timeout(PATIENCE).unwrap();
        hand.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(verdict, "ok");
    let store = open(file);
    let last = |kind: &str| -> u64 {
        let numbers = said.iter().filter_map(|line| line.strip_prefix(kind)?.trim().parse().ok());
        numbers.max().unwrap_or(0)
    };
    let singles = store.list_all(&format!("single/{name}/")).await.unwrap();
    for (n, listed) in (1..).zip(&singles) {
        let stored = listed.stored.as_ref().expect("no half record");
        assert_eq!(
            (listed.key.as_str(), stored.record.fence.0),
            (format!("single/{name}/{n:06}").as_str(), n)
        );
    }
    let count = singles.len() as u64;
    assert!(count >= last("single"), "{} were answered, {count} are there", last("single"));
    assert!(count <= last("single") + 1, "{} were answered, {count} are there", last("single"));
    let mut pair = Vec::new();
    for side in ["a", "b"] {
        let stored = store.read(&key(&format!("pair/{name}/{side}"))).await.unwrap();
        pair.push(stored.map_or(0, |stored| stored.record.fence.0));
    }
    assert_eq!(pair[0], pair[1], "half of a batch was written");
    assert!(pair[0] >= last("pair"), "{} pairs were answered, {pair:?} are there", last("pair"));
}
