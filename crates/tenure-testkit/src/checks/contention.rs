//! Many at once: exactly one wins, and nothing is lost.

use super::{read, won, write};
use crate::{AnySubject, RecordFactory};
use std::sync::Arc;
use tenure_core::op::{Outcome, Write};
use tenure_core::{Fence, Key};
use tenure_store::{AnyStore, Store};
use tokio::sync::Barrier;

const CONTENDERS: usize = 8;
const ROUNDS: usize = 20;

/// All contenders, each with a handle of its own, write at the same moment; says what they were answered.
async fn race(stores: &[AnyStore], writes: Vec<Write>) -> Vec<Outcome> {
    let start = Arc::new(Barrier::new(writes.len()));
    let running = stores.iter().zip(writes).map(|(store, write)| {
        let (store, start) = (store.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            super::write(&store, write).await
        })
    });
    let running: Vec<_> = running.collect();
    let mut outcomes = Vec::new();
    for outcome in running {
        outcomes.push(outcome.await.expect("a write is answered"));
    }
    outcomes
}

async fn handles(subject: &AnySubject) -> Vec<AnyStore> {
    let mut stores = Vec::new();
    for _ in 0..CONTENDERS {
        stores.push(subject.store().await);
    }
    stores
}

/// There is one winner, and all others lost to it.
fn assert_one_winner(outcomes: &[Outcome]) -> (tenure_core::Version, Fence) {
    let winners: Vec<_> = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).collect();
    assert_eq!(winners.len(), 1, "winners among {outcomes:?}");
    let winner = won(winners[0].clone());
    for outcome in outcomes {
        if let Outcome::Lost(standing) = outcome {
            let standing = standing.as_ref().expect("the winner's record stands");
            assert_eq!((standing.version, standing.record.fence), winner);
        }
    }
    winner
}

/// Of many who take a vacant key, one gets it; round after round, with a growing fence.
pub async fn one_contender_wins_a_vacant_key(subject: &AnySubject) {
    let (stores, factory) = (handles(subject).await, RecordFactory::new());
    let key = factory.key("a");
    let mut last = Fence(0);
    for round in 0..ROUNDS {
        let writes = (0..CONTENDERS).map(|_| factory.if_vacant(&key, factory.held(1))).collect();
        let (version, fence) = assert_one_winner(&race(&stores, writes).await);
        assert!(fence > last, "round {round}: {fence} after {last}");
        last = fence;
        let release = factory.unchanged(&key, version, factory.vacant(fence.0));
        won(write(&stores[round % CONTENDERS], release).await);
    }
}

/// Of many who create a key, one does.
pub async fn one_contender_wins_an_absent_key(subject: &AnySubject) {
    let (stores, factory) = (handles(subject).await, RecordFactory::new());
    for round in 0..ROUNDS {
        let key = factory.key(&format!("key/{round}"));
        let writes = (0..CONTENDERS).map(|n| factory.absent(&key, factory.held(n as u64))).collect();
        assert_one_winner(&race(&stores, writes).await);
    }
}

/// Many count in one record by compare-and-set, and the sum is right.
pub async fn no_increment_is_lost(subject: &AnySubject) {
    const EACH: u64 = 15;
    let (stores, factory) = (handles(subject).await, Arc::new(RecordFactory::new()));
    let key = factory.key("count");
    won(write(&stores[0], factory.absent(&key, factory.vacant(0))).await);
    let counting = stores.iter().map(|store| {
        let (store, factory, key) = (store.clone(), Arc::clone(&factory), key.clone());
        tokio::spawn(async move {
            for _ in 0..EACH {
                increment(&store, &factory, &key).await;
            }
        })
    });
    let counting: Vec<_> = counting.collect();
    for counter in counting {
        counter.await.expect("a counter comes to its end");
    }
    let total = EACH * CONTENDERS as u64;
    assert_eq!(read(&stores[0], &key).await.unwrap().0.fence, Fence(total));
}

/// Counts one up. Each loss shows the record to try again with.
async fn increment(store: &AnyStore, factory: &RecordFactory, key: &Key) {
    let (mut record, mut version) = read(store, key).await.expect("the count stands");
    loop {
        match write(store, factory.unchanged(key, version, factory.vacant(record.fence.0 + 1))).await {
            Outcome::Won { .. } => return,
            Outcome::Lost(standing) => {
                let standing = standing.expect("the count stands");
                assert_ne!(standing.version, version, "lost although nothing had changed");
                (record, version) = (standing.record, standing.version);
            }
        }
    }
}

/// Batches and single writes at the same time: each gets its own answer.
pub async fn batches_and_single_writes_do_not_mix_up(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, Arc::new(RecordFactory::new()));
    let size = store.capabilities().batch.min(20) as u64;
    let tasks: Vec<_> = (0..40u64)
        .map(|task| {
            let (store, factory) = (store.clone(), Arc::clone(&factory));
            tokio::spawn(async move {
                let key = |n: u64| factory.key(&format!("{task}/{n}"));
                let fence = |n: u64| task * 1000 + n;
                if task % 4 == 0 {
                    let writes = (0..size).map(|n| factory.absent(&key(n), factory.held(fence(n)))).collect();
                    let outcomes = store.write_many(writes).await.unwrap();
                    let fences: Vec<u64> = outcomes.into_iter().map(|outcome| won(outcome).1.0).collect();
                    assert_eq!(fences, (0..size).map(fence).collect::<Vec<_>>());
                } else {
                    let outcome = write(&store, factory.absent(&key(0), factory.held(fence(0)))).await;
                    assert_eq!(won(outcome).1.0, fence(0));
                }
                assert_eq!(read(&store, &key(0)).await.unwrap().0.fence.0, fence(0));
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("each is answered with its own");
    }
}
