//! Plan: ten workers begin at once, with thousands of units, on a store that serves so many requests at a time and makes the
//! others wait, as an engine of its own does, or refuses what is over its capacity, as a service that is billed by it does.
//! What a client no longer waits for is served all the same. All units are shared out evenly in about the time that the store
//! takes to write as many, nobody loses its session, and little is written in vain.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::disallowed_methods, reason = "the paused runtime's clock is the simulated time")]

use crate::common::{TTL, World, timed};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::fleet::{Event, Fleet, NewUnit, Worker};
use tenure::{AnyStore, HolderId, Key, MemoryStore, StoreError};
use tenure_core::Stored;
use tenure_store::{Capabilities, Freshness, Listed, Outcome, Store, Write};
use tokio::sync::Semaphore;
use tokio::time::Instant;

const WORKERS: usize = 10;
const UNITS: usize = 5_000;
/// Requests a second.
const RATE: u32 = 400;

/// How many crowds meet a table that refuses.
const SEEDS: u64 = 3;

/// What happens to those that are too many.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Excess {
    Waits,
    IsRefused,
}

#[derive(Clone)]
struct Engine {
    store: MemoryStore,
    excess: Excess,
    places: Arc<Semaphore>,
    /// When the work that was taken on so far will have been done at the rate.
    booked: Arc<Mutex<Instant>>,
    writes: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

impl Engine {
    const PLACES: u32 = 10;

    fn new(store: MemoryStore, excess: Excess) -> Engine {
        Engine {
            store,
            excess,
            places: Arc::new(Semaphore::new(Self::PLACES as usize)),
            // It has been idle before: there is a second of capacity to begin with.
            booked: Arc::new(Mutex::new(Instant::now() - Duration::from_secs(1))),
            writes: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Does what is asked in its turn, whether or not somebody waits for it.
    async fn serve<T: Send + 'static>(
        &self,
        cost: Duration,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let engine = self.clone();
        let served = tokio::spawn(async move {
            match engine.excess {
                Excess::Waits => {
                    let _place = engine.places.acquire().await.unwrap();
                    tokio::time::sleep(cost * Self::PLACES).await;
                    work.await
                }
                Excess::IsRefused => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    engine.book(cost)?;
                    work.await
                }
            }
        });
        served.await.unwrap()
    }

    /// What is not used of a second is kept for the next one.
    fn book(&self, cost: Duration) -> Result<(), StoreError> {
        let mut booked = self.booked.lock().unwrap();
        let now = Instant::now();
        if *booked > now {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(StoreError::unavailable("throttled"));
        }
        *booked = (*booked).max(now - Duration::from_secs(1)) + cost;
        Ok(())
    }
}

const ONE: Duration = Duration::from_secs(1).checked_div(RATE).unwrap();

impl Store for Engine {
    tenure_store::pass_on!(store: id, write_many, remove, image, mend, changed);

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities().without_watch()
    }
    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let (store, key) = (self.store.clone(), key.clone());
        self.serve(ONE, async move { store.read(&key).await }).await
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        let (store, keys) = (self.store.clone(), keys.to_vec());
        self.serve(ONE, async move { store.read_many(&keys, freshness).await }).await
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        let store = self.store.clone();
        self.serve(ONE, async move { store.write(write).await }).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let (store, prefix, after) = (self.store.clone(), prefix.to_owned(), after.cloned());
        // A page of a thousand records takes as long as twenty writes.
        let cost = ONE * u32::try_from(limit.div_ceil(50)).unwrap();
        self.serve(cost, async move { store.list(&prefix, after.as_ref(), limit).await }).await
    }
}

/// Keeps what a worker is given, and notes if it loses any.
async fn keep(worker: Worker, lost: Arc<AtomicU64>) {
    let mut held = Vec::new();
    while let Some(event) = worker.next().await {
        match event {
            Event::Assigned(unit) => held.push(unit),
            Event::Draining { unit, .. } => {
                held.extract_if(.., |held| held.name() == unit).for_each(|unit| unit.drained());
            }
            Event::Lost { .. } => drop(lost.fetch_add(1, Ordering::SeqCst)),
            other => unreachable!("{other:?}"),
        }
    }
}

/// Workers on an engine, which begin so long after one another.
struct Crowd {
    /// What makes its workers' nonces others than those of another crowd.
    seed: u64,
    world: World,
    engine: Engine,
    lost: Arc<AtomicU64>,
    workers: Vec<Worker>,
}

impl Crowd {
    async fn new(excess: Excess, seed: u64) -> Crowd {
        let world = World::new();
        let engine = Engine::new(world.memory.clone(), excess);
        let crowd = Crowd { seed, world, engine, lost: Arc::default(), workers: Vec::new() };
        let outside = crowd.fleet(AnyStore::new(crowd.world.memory.clone()));
        outside.create_all((0..UNITS).map(|n| NewUnit::named(format!("{n:05}")))).await.unwrap();
        crowd
    }

    fn fleet(&self, store: AnyStore) -> Fleet {
        let instance = self.workers.len() as u64 + 100;
        Fleet::with_clock(store, "crowd", self.world.clock.clone()).unwrap().instance(instance)
    }

    fn join(&mut self) {
        let n = self.workers.len() as u64;
        let join = self.fleet(AnyStore::new(self.engine.clone())).join().ttl(TTL);
        let join = join.instance(self.seed * 1000 + n);
        let worker = join.holder(HolderId::new(format!("w{n}")).unwrap()).start().unwrap();
        tokio::spawn(keep(worker.clone(), Arc::clone(&self.lost)));
        self.workers.push(worker);
    }

    /// How long it takes until all have as many as the others. Until then, nobody loses anything.
    async fn even(&self) -> Duration {
        let share = UNITS / self.workers.len();
        let held = || self.workers.iter().map(|worker| worker.held().len()).collect::<Vec<_>>();
        let mut was_valid = vec![false; self.workers.len()];
        let (even, took) = timed(tokio::time::timeout(TTL * 10, async {
            while held().iter().any(|held| *held != share) {
                tokio::time::sleep(Duration::from_millis(100)).await;
                for (was_valid, worker) in was_valid.iter_mut().zip(&self.workers) {
                    assert!(!*was_valid || worker.is_valid(), "{} has lost its session", worker.holder());
                    *was_valid = worker.is_valid();
                }
            }
        }))
        .await;
        assert!(even.is_ok(), "not even after {took:?}: {:?}", held());
        assert_eq!(self.lost.load(Ordering::SeqCst), 0);
        took
    }

    fn writes(&self) -> u64 {
        self.engine.writes.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn l4_a_cold_fleet_on_a_slow_engine_is_even_in_about_the_time_that_its_writes_take() {
    let mut crowd = Crowd::new(Excess::Waits, 0).await;
    (0..WORKERS).for_each(|_| crowd.join());
    let took = crowd.even().await;
    // A claim for each, sessions and boards; and the listings, a second's worth of the engine's time.
    assert!(took < ONE * UNITS as u32 * 2, "{took:?}");
    assert!(crowd.writes() < UNITS as u64 + 200, "{} writes", crowd.writes());
}

#[tokio::test(start_paused = true)]
async fn l4_a_cold_fleet_on_a_table_that_refuses_what_is_too_much_is_even_soon() {
    // Who meets the table at its worst moment is chance.
    for seed in 0..SEEDS {
        let mut crowd = Crowd::new(Excess::IsRefused, seed).await;
        (0..WORKERS).for_each(|_| crowd.join());
        let took = crowd.even().await;
        let refused = crowd.engine.refused.load(Ordering::SeqCst);
        println!("{seed}: even after {took:?}, {refused} were refused");
        assert!(took < TTL * 3, "{took:?}");
        assert!(refused < UNITS as u64, "{refused} were refused");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_claiming_everything_stops_once_it_hears_of_others() {
    let mut crowd = Crowd::new(Excess::Waits, 0).await;
    crowd.join();
    tokio::time::sleep(TTL / 10).await;
    crowd.join();
    crowd.even().await;
    // By its next plan it has claimed more than are its own in the end; those it passes on, by two writes each.
    assert!(crowd.writes() < UNITS as u64 * 7 / 4, "{} writes", crowd.writes());
}
