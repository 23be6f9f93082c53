//! Plan: a deleted unit whose worker dies, or loses its session, before it lets go of it: it is created anew once nobody can believe in it any more,
//! and no sooner (S1); its fence goes on (S2). That needs no live worker (L3).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::common::{TTL, World};
use std::time::Duration;
use tenure::fleet::{Assignment, Event, Fleet, NewUnit, Worker};
use tenure::{AnyStore, Clock, ErrorKind, HolderId};
use tenure_store::{Fault, FaultyStore, MemoryStore, Store};

fn fleet(world: &World, store: AnyStore) -> Fleet {
    Fleet::with_clock(store, "test", world.clock.clone()).unwrap()
}

fn join(world: &World, name: &str) -> (Worker, FaultyStore<MemoryStore>) {
    let (faults, store) = world.line();
    let builder = fleet(world, AnyStore::new(store)).join().ttl(TTL).drain_time(TTL / 4);
    (builder.holder(HolderId::new(name).unwrap()).start().unwrap(), faults)
}

async fn assigned(worker: &Worker) -> Assignment {
    loop {
        match worker.next().await {
            Some(Event::Assigned(assignment)) => return assignment,
            Some(_) => {}
            None => panic!("the worker has stopped"),
        }
    }
}

/// A worker has the unit, is cut off from the store, and the unit is deleted.
async fn deleted(world: &World, fleet: &Fleet) -> (Worker, FaultyStore<MemoryStore>, Assignment) {
    assert!(fleet.create(NewUnit::named("u")).await.unwrap());
    let (worker, line) = join(world, "w1");
    let assignment = assigned(&worker).await;
    line.always(Fault::Hang);
    assert!(fleet.delete("u").await.unwrap());
    (worker, line, assignment)
}

/// How long it takes until the unit is there again. All attempts before that are refused, and may be repeated.
async fn created(world: &World, fleet: &Fleet, before: &Assignment) -> Duration {
    let began = world.clock.held();
    loop {
        let created = fleet.create(NewUnit::named("u")).await;
        let took = world.clock.held().since(began);
        match created {
            Ok(is_new) => {
                assert!(is_new && !before.is_held(), "after {took:?}");
                return took;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        assert!(took < TTL * 2, "not within two ttls");
        tokio::time::sleep(TTL / 20).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s1_a_deleted_unit_is_created_anew_once_its_dead_worker_can_not_believe_in_it() {
    for is_missing in [false, true] {
        let world = World::new();
        let fleet = fleet(&world, AnyStore::new(world.memory.clone()));
        let (worker, line, before) = deleted(&world, &fleet).await;
        if is_missing {
            let session = fleet.name().worker(worker.holder()).unwrap();
            let seen = world.memory.read(&session).await.unwrap().unwrap();
            assert!(world.memory.remove(&session, seen.version).await.unwrap());
        }
        let took = created(&world, &fleet, &before).await;
        assert!(took > TTL / 2, "missing: {is_missing}: after {took:?}");
        // It was only cut off, and has the new one from then on.
        line.always(Fault::None);
        line.go_on();
        let after = assigned(&worker).await;
        assert!(after.fence() > before.fence(), "missing: {is_missing}");
        assert_eq!(fleet.get("u").await.unwrap().map(|unit| unit.fence), Some(after.fence()));
    }
}

#[tokio::test(start_paused = true)]
async fn l3_a_deleted_unit_behind_an_ended_session_is_created_anew_at_once() {
    let world = World::new();
    let fleet = fleet(&world, AnyStore::new(world.memory.clone()));
    let (_worker, _line, before) = deleted(&world, &fleet).await;
    let (other, _) = join(&world, "w2");
    tokio::time::sleep(TTL * 2).await;
    assert!(!before.is_held() && other.held().is_empty());
    assert!(fleet.create(NewUnit::named("u")).await.unwrap(), "its session was ended by the other one");
    assert!(assigned(&other).await.fence() > before.fence());
}
