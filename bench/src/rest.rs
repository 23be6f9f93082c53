//! A fleet while nothing changes: what it asks of a store.

use crate::Trouble;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::AnyStore;
use tenure::fleet::{Fleet, NewUnit, Verdict};
use tenure_store::{MeteredStore, Store};

const WORKERS: usize = 5;
const TTL: Duration = Duration::from_secs(6);
/// For how many thirds of a ttl requests are counted.
const THIRDS: u32 = 6;
/// How long the units may take to be even.
const SETTLED: Duration = Duration::from_secs(120);

/// Prints what each of five workers asks of the store in a third of a ttl, with so many units in all.
///
/// # Errors
/// The store has failed, or the units are not even after two minutes.
pub async fn fleet_at_rest(store: impl Store + Clone, units: usize) -> Result<(), Trouble> {
    let metered = MeteredStore::new(store);
    let fleet = || Fleet::new(AnyStore::new(metered.clone()), "bench");
    let watched = fleet()?;
    watched.create_all((0..units).map(|n| NewUnit::named(format!("{n:04}")))).await?;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let worker = fleet()?.join().ttl(TTL).start()?;
        let running = worker.clone();
        tokio::spawn(async move {
            running
                .run(|unit| async move {
                    unit.cancelled().await;
                    Verdict::Again
                })
                .await
        });
        workers.push(worker);
    }
    tokio::time::timeout(SETTLED, settled(&watched, units)).await??;
    tokio::time::sleep(TTL * 2).await;
    let before = metered.counts();
    tokio::time::sleep(TTL / 3 * THIRDS).await;
    let after = metered.counts();
    let each = |before: u64, after: u64| (after - before) as f64 / (THIRDS as usize * WORKERS) as f64;
    println!(
        "\na fleet of {units} units and {WORKERS} workers at rest, for each worker in a third of a ttl: {:.2} writes, {:.2} reads, {:.2} lists, {:.2} batches",
        each(before.writes, after.writes),
        each(before.reads, after.reads),
        each(before.lists, after.lists),
        each(before.batches, after.batches),
    );
    for worker in workers {
        worker.leave().await;
    }
    Ok(())
}

/// Until each worker has as many units as each other.
async fn settled(fleet: &Fleet, units: usize) -> Result<(), Trouble> {
    loop {
        let mut counts = BTreeMap::<String, usize>::new();
        for unit in fleet.list().await?.units {
            let holder = unit.holder.map_or_else(String::new, |by| by.holder.as_str().to_owned());
            *counts.entry(holder).or_default() += 1;
        }
        if counts.len() == WORKERS && counts.values().all(|count| *count == units / WORKERS) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
