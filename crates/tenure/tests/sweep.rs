//! Plan: sweeps in simulated time: several processes cover everything, each item once; dense pieces are cut and shared; a process
//! that dies leaves nothing behind; a handler's error ends its own process's share only; a complete sweep stays so; sources that don't keep to the contract, by what they say or by the order of their items; names; bad settings; and that what is covered fits into a record.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::World;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::AnyStore;
use tenure::range::sweep::{Page, Source, Sweep, SweepError, Swept};
use tenure::range::{Entry, KeyRange, Point, RangeSet, Section, SectionLedger};
use tenure::store::{Expect, Outcome, Record, Write};
use tenure::{Fence, HolderId, Key, Store, Ttl, Wall};
use tenure_core::Nonce;
use tenure_store::Fault;

/// Items in memory: how often each was handled.
pub(crate) struct Items(pub(crate) Mutex<BTreeMap<u64, u32>>);

impl Items {
    pub(crate) fn new(keys: impl IntoIterator<Item = u64>) -> Arc<Items> {
        Arc::new(Items(Mutex::new(keys.into_iter().map(|key| (key, 0)).collect())))
    }

    pub(crate) fn counts(&self) -> Vec<u32> {
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
        Ok(Page::new(items, is_all))
    }

    fn key(&self, item: &u64) -> Point {
        (*item).into()
    }
}

pub(crate) fn sweep(store: AnyStore, world: &World) -> Sweep {
    let section = Section::builder(store, "s").clock(world.clock.clone()).start().unwrap();
    Sweep::new(section, "one", KeyRange::new(0u64, 1u64 << 32).unwrap())
        .shards(8)
        .batch(10)
        .share(50)
        .duration(Duration::from_secs(10))
}

pub(crate) type Run = Result<Swept, SweepError<&'static str>>;

pub(crate) async fn run(sweep: Sweep, items: Arc<Items>) -> Run {
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
    assert!(matches!(zero, Err(SweepError::Acquire(_))), "{zero:?}");
    run(sweep(AnyStore::new(world.memory.clone()), &world), Arc::clone(&items)).await.unwrap();
    assert_eq!(items.counts(), vec![1; 1200]);
}

/// What scans give is up to the test.
pub(crate) struct Scans<F>(pub(crate) F);

impl<F, Fut> Source for Scans<F>
where
    F: Fn(KeyRange) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Page<u64>, &'static str>> + Send + 'static,
{
    type Item = u64;
    type Error = &'static str;

    fn scan(
        &self,
        range: &KeyRange,
        _: usize,
        _: Duration,
    ) -> impl Future<Output = Result<Page<u64>, &'static str>> + Send {
        self.0(range.clone())
    }

    fn key(&self, item: &u64) -> Point {
        (*item).into()
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_last_piece_of_a_sweep_looks_less_and_less_often() {
    let world = World::new();
    let (_faults, line) = world.line();
    let slow = |batch: Vec<u64>, _| async move {
        tokio::time::sleep(Duration::from_secs(if batch.contains(&7) { 5 } else { 0 })).await;
        Ok(())
    };
    let mine = sweep(AnyStore::new(world.memory.clone()), &world).shards(1).duration(Duration::from_secs(60));
    let other = tokio::spawn(async move { mine.run(Items::new([7]), slow).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waits = sweep(AnyStore::new(line.clone()), &world).shards(1);
    let swept = waits.run(Items::new([7]), slow).await.unwrap();
    assert_eq!((swept.items, other.await.unwrap().unwrap().items), (0, 1));
    // At once, and then in pauses that double up to a second; two reads each time.
    let calls = line.counts().reads;
    assert!((10..60).contains(&calls), "{calls}");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_finds_nothing_but_says_that_there_is_more_is_told_of() {
    let world = World::new();
    let source = Scans(|_| async { Ok(Page::new(vec![], false)) });
    let sweep = sweep(AnyStore::new(world.memory.clone()), &world);
    let (result, took) = crate::common::timed(sweep.run(Arc::new(source), |_, _| async { Ok(()) })).await;
    let Err(SweepError::Fruitless(_)) = &result else { panic!("{result:?}") };
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// Sweeps these items, whatever is asked for. What was handled, and what came of it.
async fn swept_as_they_are(items: &'static [u64], batch: usize) -> (Vec<u64>, Run) {
    let world = World::new();
    let source = Given(items);
    let handled = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&handled);
    let handle = move |batch: Vec<u64>, _| {
        noted.lock().unwrap().extend(batch);
        async { Ok(()) }
    };
    let one = sweep(AnyStore::new(world.memory.clone()), &world).shards(1).batch(batch);
    let result = tokio::time::timeout(Duration::from_secs(600), one.run(Arc::new(source), handle)).await;
    let handled = handled.lock().unwrap().clone();
    (handled, result.unwrap())
}

/// Items in this order, from the low end of the range that is asked for to the end of all.
struct Given(&'static [u64]);

impl Source for Given {
    type Item = u64;
    type Error = &'static str;

    async fn scan(&self, range: &KeyRange, limit: usize, _: Duration) -> Result<Page<u64>, &'static str> {
        let low = range.low().clone();
        let from = self.0.iter().position(|key| Point::from(*key) >= low).unwrap_or(self.0.len());
        let (all, is_all) = (&self.0[from..], self.0.len() - from <= limit);
        Ok(Page::new(all.iter().copied().take(limit).collect(), is_all))
    }

    fn key(&self, item: &u64) -> Point {
        (*item).into()
    }
}

#[tokio::test(start_paused = true)]
async fn l3_items_of_one_key_are_told_of_and_none_is_missed_silently() {
    // At the end of a page, within one, and where a page is one item.
    for (items, batch) in
        [(&[1, 2, 3, 3, 5][..], 3), (&[1, 2, 2, 3][..], 3), (&[1, 1, 3][..], 1), (&[1, 1][..], 10)]
    {
        let (handled, result) = swept_as_they_are(items, batch).await;
        let Err(error @ SweepError::Misplaced { .. }) = &result else {
            panic!("{items:?}: {handled:?} {result:?}")
        };
        assert!(error.to_string().contains("same key"), "{error}");
    }
    let (handled, result) = swept_as_they_are(&[1, 2, 3, 4, 5], 2).await;
    assert_eq!((handled, result.unwrap().items), (vec![1, 2, 3, 4, 5], 5));
}

#[tokio::test(start_paused = true)]
async fn s7_items_out_of_order_or_out_of_the_range_are_not_handled() {
    for (items, says) in
        [(&[1, 3, 2][..], "after it"), (&[1, 1 << 32][..], "outside"), (&[1 << 40][..], "outside")]
    {
        let (handled, result) = swept_as_they_are(items, 10).await;
        assert_eq!(handled, [0u64; 0], "{items:?}");
        let Err(error @ SweepError::Misplaced { .. }) = &result else { panic!("{items:?}: {result:?}") };
        assert!(error.to_string().contains(says), "{error}");
    }
    // A source that begins below what is asked for.
    let source = Scans(|_| async { Ok(Page::new(vec![3, 4], false)) });
    let world = World::new();
    let high = KeyRange::new(4u64, 100u64).unwrap();
    let section = Section::builder(AnyStore::new(world.memory.clone()), "s").clock(world.clock.clone());
    let one = Sweep::new(section.start().unwrap(), "one", high).shards(1);
    let result = one.run(Arc::new(source), |_, _| async { Ok(()) });
    let result = tokio::time::timeout(Duration::from_secs(600), result).await.unwrap();
    assert!(matches!(result, Err(SweepError::Misplaced { .. })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn sections_of_similar_names_have_sweeps_of_their_own() {
    let world = World::new();
    for name in ["x", "section/x"] {
        let store = AnyStore::new(world.memory.clone());
        let section = Section::builder(store, name).clock(world.clock.clone()).start().unwrap();
        let items = Items::new([1, 2, 3]);
        let swept = run(Sweep::new(section, "one", KeyRange::universe_of_bytes(4)), items).await.unwrap();
        assert_eq!(swept.items, 3, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn names_by_which_two_sweeps_could_have_one_record_are_refused_before_any_io() {
    let world = World::new();
    let (faults, line) = world.line();
    faults.always(Fault::Hang);
    for (section, name) in [
        ("a", "b/covered/c"),
        ("a/covered/b", "c"),
        ("a/covered", "c"),
        ("a", "covered/c"),
        ("a", "/covered/c"),
    ] {
        let section = Section::builder(AnyStore::new(line.clone()), section).clock(world.clock.clone());
        let bad = Sweep::new(section.start().unwrap(), name, KeyRange::universe_of_bytes(4));
        let error = run(bad, Items::new([1])).await.unwrap_err().to_string();
        assert!(error.contains("could be taken for another one"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn bad_settings_are_told_before_any_io() {
    let world = World::new();
    let items = Items::new([1]);
    let (faults, line) = world.line();
    faults.always(Fault::Hang);
    let fine = sweep(AnyStore::new(line), &world);
    for (bad, says) in [
        (fine.clone().shards(0), "1 at least"),
        (fine.clone().batch(0), "1 at least"),
        (fine.clone().share(0), "1 at least"),
        (fine.clone().shards(u64::MAX), "65536 at most"),
    ] {
        let error = run(bad, Arc::clone(&items)).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_covered_stays_within_a_record_however_scattered_it_is() {
    let world = World::new();
    let store = AnyStore::new(world.memory.clone());
    let space = KeyRange::universe_of_bytes(32);
    // Every other of as many ranges as just fit.
    let ledger = |count: usize| {
        let parts: RangeSet = space.split(12_000).step_by(2).take(count).collect();
        let (holder, stamp) = (HolderId::new("another").unwrap(), Wall(1));
        let entry = Entry::new(Nonce(1), holder, Fence(1), stamp, Ttl::MIN, parts);
        SectionLedger::new(vec![entry]).into_cover()
    };
    let most = store.capabilities().section_bytes();
    let (thousand, two) = (ledger(1000).1, ledger(2000).1);
    let mut count = 1000 + 1000 * (most - thousand) / (two - thousand) - 5;
    while ledger(count + 1).1 <= most {
        count += 1;
    }
    let (metadata, size) = ledger(count);
    assert!(most - size < 64 && count < 6000, "{size} of {most} for {count}");
    let record = Record { fence: Fence(1), nonce: Nonce(1), stamp: Wall(1), tenure: None, metadata };
    let key = Key::new("section/s/covered/one").unwrap();
    let write = Write { key, expect: Expect::Absent, record };
    assert!(matches!(store.write(write).await, Ok(Outcome::Won { .. })));
    let scans = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&scans);
    let source = Scans(move |_| {
        let is_enough = {
            let mut scans = counted.lock().unwrap();
            *scans += 1;
            *scans > 60
        };
        async move { if is_enough { Err("enough") } else { Ok(Page::new(vec![], true)) } }
    });
    let section = Section::builder(store, "s").clock(world.clock.clone()).start().unwrap();
    let scattered = Sweep::new(section, "one", space).shards(60_000);
    let error = scattered.run(Arc::new(source), |_, _| async { Ok(()) }).await.unwrap_err();
    assert!(matches!(error, SweepError::Failed("enough")), "{error} after {} scans", scans.lock().unwrap());
}
