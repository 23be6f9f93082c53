//! Leases that are taken from their holders by force, by programs.
//!
//! Plan: what is done to the tenure of one fence leaves another one alone, and says so; at once, and without the holder's knowledge, where that is
//! asked for; what a dead process held is given back, and nobody else's.

use crate::common::{TTL, World, timed};
use std::time::Duration;
use tenure::{Fence, LeaseError, Request};

#[tokio::test(start_paused = true)]
async fn what_is_done_to_one_tenure_leaves_the_next_one_alone() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let held = a.leases.acquire("k").await.unwrap();
    let gone = Fence(held.fence().0 - 1);
    let refused = [
        b.leases.request_of("k", gone, Request::Revoke).await.err(),
        b.leases.release_by_force_of("k", gone, |_, _| {}).await.err(),
        b.leases.release_by_force_now("k", gone).await.err(),
        b.leases.release_for_dead("k", b.leases.holder()).await.err(),
    ];
    assert!(refused.iter().all(|error| matches!(error, Some(LeaseError::NotHeld))), "{refused:?}");
    tokio::time::sleep(TTL * 2).await;
    assert!(held.is_held() && !held.is_revoked());

    let fence = held.fence();
    let mut told = None;
    let (forced, took) =
        timed(b.leases.release_by_force_of("k", fence, |holder, within| told = Some((holder, within)))).await;
    assert_eq!(forced.unwrap().fence, fence);
    assert!(
        told.is_some_and(|(holder, _)| holder == *a.leases.holder()) && took <= TTL * 12 / 10,
        "{took:?}"
    );
    assert!(held.is_revoked() && !held.is_held());
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_at_once_is_free_before_its_holder_knows() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let held = a.leases.lock("k").ttl(TTL).acquire().await.unwrap();
    let (forced, took) = timed(b.leases.release_by_force_now("k", held.fence())).await;
    let forced = forced.unwrap();
    assert!(
        (forced.fence, forced.vacated) == (held.fence(), true) && took < Duration::from_secs(1),
        "{took:?}"
    );
    assert!(b.leases.try_acquire("k").await.unwrap().fence() > held.fence());
    tokio::time::sleep(TTL / 2).await;
    assert!(!held.is_held(), "its next renewal tells it");
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_held_is_given_back() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let held = a.leases.acquire("k").await.unwrap();
    let fence = held.fence();
    // It is dead from here on: it renews nothing and gives nothing back.
    a.faults.always(tenure_store::Fault::Hang);
    let (forced, took) = timed(b.leases.release_for_dead("k", a.leases.holder())).await;
    assert!(forced.unwrap().vacated && took < Duration::from_secs(1), "{took:?}");
    assert!(b.leases.try_acquire("k").await.unwrap().fence() > fence);
}
