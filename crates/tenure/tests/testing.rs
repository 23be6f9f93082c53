//! What users test their own programs with. Plan: time passes at once, and alike for leases, stores and faces; it does not while nobody waits; ages of
//! records and takeovers go by it.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;
use tenure::fleet::{Event, Fleet, NewUnit};
use tenure::testing::{Fault, FaultyStore, PausedClock};
use tenure::{AnyStore, Candidate, Clock, Leases, Loss, MemoryStore};

const LONG: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn ten_minutes_pass_at_once_for_all_that_goes_by_the_clock() {
    let clock = PausedClock::start();
    let store = FaultyStore::new(MemoryStore::new("m", clock.clone()));
    let start = || Leases::builder(store.clone()).clock(clock.clone()).start().unwrap();
    let (one, other) = (start(), start());
    let guard = one.acquire("k").await.unwrap();
    let candidate = Candidate::builder(store.clone()).key("led").clock(clock.clone()).start().unwrap();
    let term = candidate.elected().await.unwrap();
    let fleet = Fleet::with_clock(AnyStore::new(store.clone()), "f", clock.clone()).unwrap().instance(1);
    fleet.create(NewUnit::named("u")).await.unwrap();
    let worker = fleet.join().start().unwrap();
    let Some(Event::Assigned(unit)) = worker.next().await else { unreachable!("it is the only worker") };
    let before = clock.now();
    tokio::time::sleep(LONG).await;
    assert!(clock.now().held >= before.held.after(LONG) && clock.now().wall.0 >= before.wall.0 + 600_000);
    assert!(guard.is_held() && unit.is_held());
    assert_eq!(candidate.leadership().unwrap().fence, term.fence);
    // Nobody waits, so no time passes.
    let before = clock.now();
    assert!(other.try_acquire("k").await.is_err());
    assert_eq!(clock.now().held, before.held);
    // A dead holder's key is had when its ttl is over.
    store.always(Fault::Hang);
    assert!(matches!(guard.lost().await, Loss::Unreachable(_)));
    store.always(Fault::None);
    assert!(other.acquire_within("k", Duration::from_secs(30)).await.unwrap().fence() > guard.fence());
}
