//! C1: what leases cost, counted at the store. Plan: one round trip for an uncontended acquire, renewal and release, also
//! right after another process's release; one renewal per third of a ttl for 10,000 leases; nothing at rest beyond that, nor hints of changes once
//! nobody waits.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::{TTL, World, settle};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::store::{Changes, Hint};
use tenure::{Leases, MemoryStore, Metadata, Store, StoreError};
use tokio::sync::mpsc;

#[tokio::test(start_paused = true)]
async fn c1_a_lease_of_its_own_takes_one_write_to_get_keep_and_give_up() {
    let world = World::new();
    let process = world.process();
    let guard = process.leases.lock("k").ttl(TTL).try_acquire().await.unwrap();
    assert_eq!((process.store.take().round_trips(), guard.is_held()), (1, true));
    tokio::time::sleep(TTL / 3 + Duration::from_millis(1)).await;
    settle().await;
    let counts = process.store.take();
    assert_eq!((counts.writes, counts.round_trips()), (1, 1), "one renewal");
    assert!(guard.release().await);
    let counts = process.store.take();
    assert_eq!((counts.writes, counts.round_trips()), (1, 1), "one release");
}

#[tokio::test(start_paused = true)]
async fn c1_acquiring_right_after_anothers_release_takes_one_write() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    b.leases.begin_session();
    let guard = a.leases.try_acquire("k").await.unwrap();
    let first = guard.fence();
    assert!(guard.release().await);
    b.store.take();
    let guard = b.leases.try_acquire("k").await.unwrap();
    assert_eq!(b.store.take().round_trips(), 1);
    assert!(guard.fence() > first);
}

#[tokio::test(start_paused = true)]
async fn c1_ten_thousand_attached_leases_renew_with_one_write_an_interval() {
    let world = World::new();
    let process = world.process();
    let mut guards = Vec::new();
    for n in 0..10_000 {
        guards.push(process.leases.try_acquire(format!("k{n}")).await.unwrap());
    }
    assert_eq!(process.store.take().round_trips(), 10_001, "one each, and one for the session");
    tokio::time::sleep(TTL * 10).await;
    let counts = process.store.take();
    assert!(
        (29..=31).contains(&counts.writes),
        "{counts:?}: three renewals a ttl, whatever is attached to them"
    );
    // The audit reads a few of the attached leases' records after each renewal, however many there are.
    assert_eq!(counts.round_trips(), counts.writes + counts.reads);
    assert!(counts.reads <= counts.writes + 1, "{counts:?}");
    assert!(guards.iter().all(|guard| guard.is_held()));
}

#[tokio::test(start_paused = true)]
async fn c1_updates_and_final_metadata_take_one_write_each() {
    let world = World::new();
    let process = world.process();
    let mut guard = process.leases.try_acquire("k").await.unwrap();
    process.store.take();
    let metadata = Metadata::from([("checkpoint".to_owned(), 7.into())]);
    guard.update(metadata.clone()).await.unwrap();
    assert_eq!(process.store.take().round_trips(), 1);
    let done = Metadata::from([("status".to_owned(), "done".into())]);
    assert!(guard.release_with(done.clone()).await.unwrap());
    assert_eq!(process.store.take().round_trips(), 1);
    // Who carries on finds it, with one write where the last version is known.
    let seen = tenure::Store::read(&process.store, &"k".parse().unwrap()).await.unwrap();
    process.store.take();
    let guard = process.leases.lock("k").keep_metadata(seen).try_acquire().await.unwrap();
    assert_eq!((process.store.take().round_trips(), guard.metadata()), (1, &done));
}

#[tokio::test(start_paused = true)]
async fn c1_a_process_that_holds_nothing_asks_for_nothing() {
    let world = World::new();
    let process = world.process();
    tokio::time::sleep(TTL * 10).await;
    assert_eq!(process.store.take().round_trips(), 0);
}

/// A store that knows who listens for hints.
#[derive(Clone)]
struct Listened(MemoryStore, Arc<Mutex<Vec<mpsc::Sender<Hint>>>>);

impl Listened {
    fn listeners(&self) -> usize {
        self.1.lock().unwrap().iter().filter(|listener| !listener.is_closed()).count()
    }
}

impl Store for Listened {
    tenure_store::pass_on!(0: capabilities, id, read, read_many, write, write_many, list, remove, image, mend);

    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        let mut hints = self.0.changed(prefix)?;
        let (listener, heard) = mpsc::channel(64);
        self.1.lock().unwrap().push(listener.clone());
        tokio::spawn(async move {
            while let Some(hint) = hints.recv().await {
                let _ = listener.send(hint).await;
            }
        });
        Ok(heard)
    }
}

#[tokio::test(start_paused = true)]
async fn c1_hints_are_listened_to_while_a_candidate_or_an_observer_waits_and_not_for_ever() {
    let world = World::new();
    let store = Listened(world.memory.clone(), Arc::default());
    let leases = Leases::builder(store.clone()).clock(world.clock.clone()).session_ttl(TTL).start().unwrap();
    let others = world.process().leases;
    // The first hint that comes in vain after a while is the last.
    let changes = async || {
        for _ in 0..4 {
            tokio::time::sleep(TTL / 2).await;
            others.acquire("another").await.unwrap().release().await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        store.listeners()
    };
    let held = others.acquire("led").await.unwrap();
    let observer = leases.candidate().key("led").observe().unwrap();
    assert_eq!(changes().await, 1, "it observes");
    observer.stop().await;
    assert_eq!(changes().await, 0, "it is stopped");
    let candidate = leases.candidate().key("led").start().unwrap();
    assert_eq!(changes().await, 1, "it follows");
    held.release().await;
    candidate.elected().await.unwrap();
    assert_eq!(changes().await, 0, "it leads");
}
