//! Plan: sweeps whose leases end before their batches, in simulated time: nothing is handled after a lease's end; what its end cut off is handled
//! again, and what was written down before is counted; a sweep is complete once its last batch is written down, and ends where no batch of
//! a piece can be, but not for what happens once to each of many pieces.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::World;
use crate::sweep::{Items, Scans, run, sweep};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::AnyStore;
use tenure::range::sweep::{Page, SweepError, Swept};
use tenure::range::{KeyRange, RangeLease};
use tenure_store::Fault;

#[tokio::test(start_paused = true)]
async fn nothing_is_handled_after_the_lease_is_over() {
    let world = World::new();
    let scans = Arc::new(Mutex::new(0));
    let source = Scans(move |range: KeyRange| {
        let scans = Arc::clone(&scans);
        async move {
            let is_first = {
                let mut scans = scans.lock().unwrap();
                *scans += 1;
                *scans == 1
            };
            if is_first {
                // Into the grace period: the body has been told to end.
                tokio::time::sleep(Duration::from_millis(7500)).await;
            }
            let items = if range.contains(&7u64.into()) { vec![7] } else { vec![] };
            Ok(Page::new(items, true))
        }
    });
    let late = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&late);
    let handle = move |_, lease: RangeLease| {
        noted.fetch_or(!lease.is_held() || lease.cancelled().is_cancelled(), Ordering::SeqCst);
        async { Ok(()) }
    };
    let one = sweep(AnyStore::new(world.memory.clone()), &world).shards(1);
    assert_eq!(one.run(Arc::new(source), handle).await.unwrap().items, 1);
    assert!(!late.load(Ordering::SeqCst), "what a scan has found too late is left to the next lease");
}

#[tokio::test(start_paused = true)]
async fn l3_a_batch_whose_handler_ends_as_it_is_told_to_is_handled_again_whatever_it_returns() {
    for says in [Ok(()), Err("no time left")] {
        let world = World::new();
        let items = Items::new(0..30);
        let (counted, is_first) = (Arc::clone(&items), AtomicBool::new(true));
        let handle = move |batch: Vec<u64>, lease: RangeLease| {
            let (counted, is_first) = (Arc::clone(&counted), is_first.swap(false, Ordering::SeqCst));
            async move {
                if is_first {
                    lease.cancelled().await;
                    return says;
                }
                for key in batch {
                    *counted.0.lock().unwrap().get_mut(&key).unwrap() += 1;
                }
                Ok(())
            }
        };
        let one = sweep(AnyStore::new(world.memory.clone()), &world);
        let swept = one.run(Arc::clone(&items), handle).await.unwrap();
        assert_eq!((swept.items, items.counts()), (30, vec![1; 30]), "{says:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_takes_longer_than_any_lease_is_told_of() {
    let world = World::new();
    let one = sweep(AnyStore::new(world.memory.clone()), &world);
    // It does not heed the word, or does.
    for heeds in [false, true] {
        let handle = move |_, lease: RangeLease| async move {
            tokio::select! {
                () = lease.cancelled(), if heeds => {}
                () = tokio::time::sleep(Duration::from_secs(60)) => {}
            }
            Ok(())
        };
        let (result, took) = crate::common::timed(one.run(Items::new(0..30), handle)).await;
        let Err(error @ SweepError::Slow { times: 10, .. }) = &result else { panic!("{result:?}") };
        assert!(error.to_string().contains("a longer duration, or a smaller batch"), "{error}");
        assert!(took < Duration::from_secs(110), "{took:?}");
    }
    // One that is slow now and then is not.
    let world = World::new();
    let one = sweep(AnyStore::new(world.memory.clone()), &world);
    let handled = Arc::new(Mutex::new(0u64));
    let counted = Arc::clone(&handled);
    let handle = move |_, _| {
        let count = {
            let mut count = counted.lock().unwrap();
            *count += 1;
            *count
        };
        async move {
            let secs = if count.is_multiple_of(3) { 60 } else { 1 };
            tokio::time::sleep(Duration::from_secs(secs)).await;
            Ok(())
        }
    };
    one.run(Items::new((0..3000).map(|n| n * 1_000_000)), handle).await.unwrap();
    let handled = *handled.lock().unwrap();
    assert!(handled > 300, "{handled} batches, with those that were begun anew");
}

#[tokio::test(start_paused = true)]
async fn what_happens_once_to_each_of_many_pieces_ends_no_sweep() {
    // Each piece has an item, whose handler is too slow at first.
    let world = World::new();
    let one = sweep(AnyStore::new(world.memory.clone()), &world).shards(16);
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&seen);
    let handle = move |batch: Vec<u64>, _| {
        let is_first = noted.lock().unwrap().insert(batch);
        async move {
            tokio::time::sleep(Duration::from_secs(if is_first { 60 } else { 0 })).await;
            Ok(())
        }
    };
    let swept = one.run(Items::new((0..16u64).map(|n| n << 28)), handle).await.unwrap();
    assert_eq!((swept.items, seen.lock().unwrap().len()), (16, 16));

    // The source finds nothing in each at first, and says that there is more.
    let world = World::new();
    let one = sweep(AnyStore::new(world.memory.clone()), &world).shards(16);
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&seen);
    let source = Scans(move |range: KeyRange| {
        let is_first = noted.lock().unwrap().insert(range.low().clone());
        async move { Ok(Page::new(vec![], !is_first)) }
    });
    one.run(Arc::new(source), |_, _| async { Ok(()) }).await.unwrap();
    assert_eq!(seen.lock().unwrap().len(), 16);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_is_not_complete_before_its_last_batch_is_written_down() {
    let world = World::new();
    let items = Items::new([1, 2, 3]);
    let (faults, line) = world.line();
    let counted = Arc::clone(&items);
    let is_first = AtomicBool::new(true);
    let handle = move |batch: Vec<u64>, _| {
        let (counted, faults) = (Arc::clone(&counted), faults.clone());
        let is_first = is_first.swap(false, Ordering::SeqCst);
        async move {
            for key in batch {
                *counted.0.lock().unwrap().get_mut(&key).unwrap() += 1;
            }
            if is_first {
                // The store is away until the lease is long over.
                faults.always(Fault::Hang);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(30)).await;
                    faults.always(Fault::None);
                });
            }
            Ok(())
        }
    };
    let one = sweep(AnyStore::new(line), &world).shards(1);
    one.run(Arc::clone(&items), handle).await.unwrap();
    assert_eq!(items.counts(), [2, 2, 2], "what was not written down is handled again, by this very process");
    let again = run(sweep(AnyStore::new(world.memory.clone()), &world), Arc::clone(&items)).await.unwrap();
    assert_eq!((again, items.counts()), (Swept::default(), vec![2; 3]), "it is complete");
}

#[tokio::test(start_paused = true)]
async fn what_was_written_down_before_a_batch_was_aborted_is_counted() {
    let world = World::new();
    let batches = Arc::new(Mutex::new(0));
    let handle = move |_, _| {
        let is_second = {
            let mut batches = batches.lock().unwrap();
            *batches += 1;
            *batches == 2
        };
        async move {
            if is_second {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    };
    let one = sweep(AnyStore::new(world.memory.clone()), &world).shards(1);
    let swept = one.run(Items::new(0..30), handle).await.unwrap();
    assert_eq!((swept.items, swept.leases), (30, 2));
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_can_never_write_down_what_it_has_covered_ends() {
    let world = World::new();
    let (faults, line) = world.line();
    let handle = move |_, _| {
        let faults = faults.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            // Until this lease is over.
            faults.always(Fault::Refuse);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(12)).await;
                faults.always(Fault::None);
            });
            Ok(())
        }
    };
    let one = sweep(AnyStore::new(line), &world).shards(1);
    let ended = tokio::time::timeout(Duration::from_secs(600), one.run(Items::new(0..30), handle)).await;
    let Ok(Err(SweepError::Covered(error))) = &ended else { panic!("{ended:?}") };
    assert!(error.to_string().contains("refused"), "{error}");
}
