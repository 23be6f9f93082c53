//! Plan: a worker takes part only where the others divide units as it does; it says who does not and what to do, writes nothing, and stops. A
//! store that does not answer is asked again, and so is one that panics; one that can't tell keeps nobody out; who leaves meanwhile does not wait. A
//! second one of a live holder id says so.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::common::{TTL, World, older_worker, timed};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tenure::fleet::{About, Fleet, NewUnit, WorkerEnd};
use tenure::store::{Expect, Listed, Nonce, Outcome, Record, Stored, Tenure, Version, Write};
use tenure::{
    AnyStore, Clock, ErrorKind, Fence, HolderId, Key, MemoryStore, Metadata, Store, StoreError, Ttl,
};
use tenure_store::{Fault, StoreExt};

fn fleet(world: &World, store: AnyStore) -> Fleet {
    Fleet::with_clock(store, "f", world.clock.clone()).unwrap().instance(7)
}

async fn records(world: &World) -> Vec<(Key, Version)> {
    let listed = world.memory.list_all("").await.unwrap();
    listed.into_iter().map(|listed| (listed.key, listed.stored.unwrap().version)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_fleet_of_another_layout_is_refused_with_the_same_words_as_by_the_command_line() {
    let world = World::new();
    let fleet = fleet(&world, AnyStore::new(world.memory.clone()));
    fleet.create(NewUnit::named("u")).await.unwrap();
    older_worker(&world, fleet.name()).await;
    let before = records(&world).await;
    let worker = fleet.join().ttl(TTL).start().unwrap();
    let error = worker.joined().await.unwrap_err();
    assert_eq!(error, fleet.check_layout().await.unwrap_err());
    let told = error.to_string();
    for says in [
        "the worker old of the fleet f",
        "another version",
        "stop all workers",
        "tenure release fleet/f/worker/old",
    ] {
        assert!(told.contains(says), "{says}: {told}");
    }
    assert!(worker.next().await.is_none(), "it has stopped");
    worker.leave().await;
    assert_eq!(worker.end(), Some(WorkerEnd::Refused(error.clone())));
    assert_eq!(worker.trouble(), Some(error.clone()));
    assert_eq!(worker.joined().await, Err(error));
    assert_eq!(records(&world).await, before, "nothing was written");
    // Once that one has been silent for long, it stops nobody.
    tokio::time::sleep(TTL * 3).await;
    let worker = fleet.join().ttl(TTL).start().unwrap();
    worker.joined().await.unwrap();
    assert!(worker.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_asked_again_until_it_does() {
    for fault in [Fault::Refuse, Fault::Hang] {
        let world = World::new();
        let (faults, store) = world.line();
        faults.always(fault);
        let worker = fleet(&world, AnyStore::new(store)).join().ttl(TTL).start().unwrap();
        tokio::time::sleep(TTL * 2).await;
        let trouble = worker.trouble().unwrap();
        assert_eq!(trouble.kind(), ErrorKind::Unavailable);
        assert!(!worker.is_valid());
        faults.always(Fault::None);
        let (joined, took) = timed(worker.joined()).await;
        joined.unwrap();
        assert!(took <= TTL * 9 / 8, "{fault:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_the_store_does_not_answer_is_refused_once_it_does() {
    for fault in [Fault::Refuse, Fault::Hang] {
        let world = World::new();
        let (faults, store) = world.line();
        let fleet = fleet(&world, AnyStore::new(store));
        faults.always(fault);
        let worker = fleet.join().ttl(TTL).start().unwrap();
        tokio::time::sleep(TTL).await;
        older_worker(&world, fleet.name()).await;
        let before = records(&world).await;
        faults.always(Fault::None);
        let error = worker.joined().await.unwrap_err();
        assert!(error.to_string().contains("another version"), "{fault:?}: {error}");
        assert_eq!(records(&world).await, before, "{fault:?}: nothing was written");
    }
}

#[tokio::test(start_paused = true)]
async fn who_leaves_while_the_store_does_not_answer_is_gone_at_once_and_never_joins() {
    let world = World::new();
    let (faults, store) = world.line();
    let fleet = fleet(&world, AnyStore::new(store));
    for leaves in [true, false] {
        faults.always(Fault::Hang);
        let worker = fleet.join().ttl(TTL).start().unwrap();
        tokio::time::sleep(TTL / 8).await;
        let (_, took) =
            timed(async { if leaves { worker.leave().await } else { worker.stop().await } }).await;
        assert!(took < TTL / 8, "{took:?}");
        assert_eq!(worker.joined().await.unwrap_err().kind(), ErrorKind::Unavailable);
        // Nor does one that nobody wants any more.
        drop(fleet.join().ttl(TTL).start().unwrap());
        faults.always(Fault::None);
        tokio::time::sleep(TTL * 2).await;
        assert_eq!(records(&world).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_worker_of_a_live_holder_id_says_whose_it_is_until_it_can_join() {
    let world = World::new();
    let fleet = fleet(&world, AnyStore::new(world.memory.clone()));
    let start = |instance| {
        let holder = HolderId::new("one").unwrap();
        fleet.join().ttl(TTL).holder(holder).instance(instance).start().unwrap()
    };
    let first = start(1);
    first.joined().await.unwrap();
    let second = start(2);
    tokio::time::sleep(TTL * 5 / 2).await;
    let trouble = second.trouble().unwrap().to_string();
    assert!(trouble.contains("fleet/f/worker/one is held by one"), "{trouble}");
    assert!(trouble.contains("give each process its own holder id"), "{trouble}");
    assert_eq!(first.trouble(), None);
    first.stop().await;
    second.joined().await.unwrap();
    tokio::time::sleep(TTL).await;
    assert_eq!(second.trouble(), None);
}

/// A store that does not let anybody list.
#[derive(Clone)]
struct Unlisted(MemoryStore, Arc<AtomicUsize>);

impl Store for Unlisted {
    tenure_store::pass_on!(0: capabilities, id, read, read_many, write, write_many, remove, image, mend, changed);

    async fn list(&self, _: &str, _: Option<&Key>, _: usize) -> Result<Vec<Listed>, StoreError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Err(StoreError::unsupported("listing is denied"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_lets_nobody_list_keeps_nobody_out() {
    let world = World::new();
    // A board that names nobody, so that the roster is asked for.
    fleet(&world, AnyStore::new(world.memory.clone())).tell().await.unwrap();
    let store = Unlisted(world.memory.clone(), Arc::default());
    let worker = fleet(&world, AnyStore::new(store.clone())).join().ttl(TTL).start().unwrap();
    let mut troubles = worker.troubles();
    troubles.changed().await.unwrap();
    let trouble = troubles.get().unwrap().to_string();
    assert!(trouble.contains("listing is denied"), "{trouble}");
    worker.joined().await.unwrap();
    assert!(store.1.load(Ordering::SeqCst) > 0);
}

/// A store that panics when it is read for the first time.
#[derive(Clone)]
struct Panicking(MemoryStore, Arc<AtomicUsize>);

impl Store for Panicking {
    tenure_store::pass_on!(0: capabilities, id, read_many, write, write_many, list, remove, image, mend, changed);

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        assert!(self.1.fetch_add(1, Ordering::SeqCst) > 0, "on purpose, of the store");
        self.0.read(key).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_is_told_and_asked_again() {
    let world = World::new();
    let store = Panicking(world.memory.clone(), Arc::default());
    let worker = fleet(&world, AnyStore::new(store)).join().ttl(TTL).start().unwrap();
    let mut troubles = worker.troubles();
    tokio::time::timeout(TTL, troubles.changed()).await.expect("nothing is told").unwrap();
    let trouble = troubles.get().unwrap();
    assert_eq!(trouble.kind(), ErrorKind::Unknown);
    assert!(trouble.to_string().contains("on purpose, of the store"), "{trouble}");
    tokio::time::timeout(TTL, worker.joined()).await.expect("it is in between for ever").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_driver_is_gone_before_it_took_part_says_so() {
    let world = World::new();
    let (faults, store) = world.line();
    faults.always(Fault::Hang);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fleet = fleet(&world, AnyStore::new(store));
    let worker = fleet.join().ttl(TTL).runtime(other.handle().clone()).start().unwrap();
    other.shutdown_background();
    let joined = tokio::time::timeout(TTL, worker.joined()).await.expect("it waits for nobody");
    assert_eq!(joined.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(worker.next().await.is_none());
    assert_eq!(worker.end(), Some(WorkerEnd::Crashed));
}

#[tokio::test(start_paused = true)]
async fn a_worker_says_that_it_was_asked_to_stop_once_it_has() {
    let world = World::new();
    let fleet = fleet(&world, AnyStore::new(world.memory.clone()));
    for how in ["leave", "stop", "drain"] {
        let worker = fleet.join().ttl(TTL).start().unwrap();
        worker.joined().await.unwrap();
        assert_eq!(worker.end(), None, "{how}");
        match how {
            "leave" => worker.leave().await,
            "stop" => worker.stop().await,
            _ => fleet.drain(worker.holder()).await.unwrap(),
        }
        assert!(worker.next().await.is_none(), "{how}");
        assert_eq!(worker.end(), Some(WorkerEnd::Asked), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn behind_many_that_are_dead_one_that_lives_is_found() {
    let world = World::new();
    let fleet = fleet(&world, AnyStore::new(world.memory.clone()));
    // More than a page of workers that died, all of which come before the one that lives.
    for n in 0..40 {
        dead_worker(&world, &fleet, &format!("a{n:02}")).await;
    }
    tokio::time::sleep(TTL * 3).await;
    older_worker(&world, fleet.name()).await;
    let error = fleet.join().ttl(TTL).start().unwrap().joined().await.unwrap_err();
    assert!(error.to_string().contains("the worker old of"), "{error}");
    // Where the first that lives is of this layout, the others are not asked for.
    dead_worker(&world, &fleet, "b").await;
    fleet.join().ttl(TTL).start().unwrap().joined().await.unwrap();
}

/// A worker of this layout that says nothing from now on.
async fn dead_worker(world: &World, fleet: &Fleet, name: &str) {
    let wall = world.clock.now().wall;
    let holder = HolderId::new(name).unwrap();
    let key = fleet.name().worker(&holder).unwrap();
    let tenure = Some(Tenure::new(Nonce(7), holder, Ttl::new(TTL).unwrap(), wall));
    let metadata = About::default().compose(Metadata::new());
    let record = Record { fence: Fence(wall.0), nonce: Nonce(7), stamp: wall, tenure, metadata };
    let write = Write { key, expect: Expect::Vacant, record };
    assert!(matches!(world.memory.write(write).await.unwrap(), Outcome::Won { .. }));
}
