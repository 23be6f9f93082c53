//! C1: what leases cost, counted at the store. Plan: one round trip for an uncontended acquire, renewal and release, also
//! right after another process's release; one renewal per third of a ttl for 10,000 leases; nothing at rest beyond that.

use crate::common::{TTL, World, settle};
use std::time::Duration;
use tenure::Metadata;

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
