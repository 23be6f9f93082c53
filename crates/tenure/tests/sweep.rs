//! Plan: sweeps in simulated time: several processes cover everything, each item once; dense pieces are cut and shared; a process
//! that dies leaves nothing behind; a handler's error ends its own process's share only; a complete sweep stays so; bad settings.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

mod common;

use common::World;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::AnyStore;
use tenure::range::sweep::{Page, Source, Sweep, SweepError, Swept};
use tenure::range::{KeyRange, Point, Section};
use tenure_store::Fault;

/// Items in memory: how often each was handled.
struct Items(Mutex<BTreeMap<u64, u32>>);

impl Items {
    fn new(keys: impl IntoIterator<Item = u64>) -> Arc<Items> {
        Arc::new(Items(Mutex::new(keys.into_iter().map(|key| (key, 0)).collect())))
    }

    fn counts(&self) -> Vec<u32> {
        self.0.lock().unwrap().values().copied().collect()
    }
}

impl Source for Items {
    type Item = u64;
    type Error = &'static str;

    async fn scan(&self, range: &KeyRange, limit: usize, _: Duration) -> Result<Page<u64>, &'static str> {
        let items: Vec<u64> = self
            .0
            .lock()
            .unwrap()
            .keys()
            .copied()
            .filter(|key| range.contains(&(*key).into()))
            .take(limit)
            .collect();
        let is_all = items.len() < limit;
        Ok(Page { items, is_all })
    }

    fn key(&self, item: &u64) -> Point {
        (*item).into()
    }
}

fn sweep(store: AnyStore, world: &World) -> Sweep {
    let section = Section::builder(store, "s").clock(world.clock.clone()).start().unwrap();
    Sweep::new(section, "one", KeyRange::new(0u64, 1u64 << 32).unwrap())
        .shards(8)
        .batch(10)
        .share(50)
        .duration(Duration::from_secs(10))
}

type Run = Result<Swept, SweepError<&'static str>>;

async fn run(sweep: Sweep, items: Arc<Items>) -> Run {
    let counted = Arc::clone(&items);
    let handle = move |batch: Vec<u64>, _| {
        let counted = Arc::clone(&counted);
        async move {
            tokio::time::sleep(Duration::from_millis(batch.len() as u64)).await;
            for key in batch {
                *counted.0.lock().unwrap().get_mut(&key).unwrap() += 1;
            }
            Ok(())
        }
    };
    sweep.run(items, handle).await
}

/// Sparse everywhere, and dense in one place.
fn keys() -> impl Iterator<Item = u64> {
    (0..600).map(|n| n * 7_158_278).chain((0..600).map(|n| 5_000_001 + n * 3))
}

#[tokio::test(start_paused = true)]
async fn every_item_is_handled_once_by_one_of_several_processes() {
    let world = World::new();
    let items = Items::new(keys());
    let runs: Vec<_> = (0..4)
        .map(|_| tokio::spawn(run(sweep(AnyStore::new(world.memory.clone()), &world), Arc::clone(&items))))
        .collect();
    let mut shares = Vec::new();
    for run in runs {
        shares.push(run.await.unwrap().unwrap().items);
    }
    assert_eq!(items.counts(), vec![1; 1200]);
    assert_eq!(shares.iter().sum::<u64>(), 1200);
    assert!(shares.iter().all(|share| *share >= 100), "the dense part is shared, too: {shares:?}");
    let again = run(sweep(AnyStore::new(world.memory.clone()), &world), Arc::clone(&items)).await.unwrap();
    assert_eq!((again, items.counts()), (Swept::default(), vec![1; 1200]), "it is complete");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_missed_when_a_process_dies() {
    let world = World::new();
    let items = Items::new(keys());
    let (faults, line) = world.line();
    let dying = tokio::spawn(run(sweep(AnyStore::new(line), &world), Arc::clone(&items)));
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Nothing of it reaches the store any more.
    faults.always(Fault::Hang);
    dying.abort();
    let rest = run(sweep(AnyStore::new(world.memory.clone()), &world), Arc::clone(&items)).await.unwrap();
    assert!(rest.items > 500 && items.counts().iter().all(|count| *count >= 1));
    let twice = items.counts().iter().filter(|count| **count > 1).count();
    assert!(twice <= 10, "at most the batch under way: {twice}");
}

#[tokio::test(start_paused = true)]
async fn a_handlers_error_ends_its_own_share_and_others_go_on() {
    let world = World::new();
    let items = Items::new(keys());
    let failing = sweep(AnyStore::new(world.memory.clone()), &world);
    let failed = failing.run(Arc::clone(&items), |_, _| async { Err("can't") }).await;
    assert!(matches!(failed, Err(SweepError::Failed("can't"))), "{failed:?}");
    let zero = failing.clone().batch(0).run(Arc::clone(&items), |_, _| async { Ok(()) }).await;
    assert!(matches!(zero, Err(SweepError::Covered(_))), "{zero:?}");
    run(sweep(AnyStore::new(world.memory.clone()), &world), Arc::clone(&items)).await.unwrap();
    assert_eq!(items.counts(), vec![1; 1200]);
}
