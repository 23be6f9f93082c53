//! A fleet of ours: its units, and one worker of it.

use crate::TTL;
use std::collections::BTreeMap;
use tenure::dynamodb::DynamoStore;
use tenure::fleet::{Fleet, NewUnit, Verdict};
use tenure::{AnyStore, HolderId, clock};
use tenure_bench::dynamodb;

const TABLE: &str = "tenure-bench";

async fn open(endpoint: &str, namespace: &str) -> Fleet {
    let config = dynamodb::config(endpoint, TABLE, namespace);
    let store = DynamoStore::open(config, clock::system()).await.unwrap();
    Fleet::new(AnyStore::new(store), "bench").unwrap()
}

/// A fleet with so many units, past the relay.
pub(crate) async fn create(namespace: &str, count: usize) -> Fleet {
    dynamodb::make(TABLE).await;
    let fleet = open(&dynamodb::endpoint(), namespace).await;
    fleet.create_all((0..count).map(|n| NewUnit::named(format!("{n:05}")))).await.unwrap();
    fleet
}

/// How many units each worker has by the records.
pub(crate) async fn owners(fleet: &Fleet) -> BTreeMap<String, usize> {
    // While a large fleet starts, the emulator may be too busy to list it in time.
    let units = loop {
        match fleet.list().await {
            Ok(units) => break units,
            Err(error) => eprintln!("{error}; listed again"),
        }
    };
    let mut owners = BTreeMap::new();
    for holder in units.units.into_iter().filter_map(|unit| unit.holder) {
        *owners.entry(holder.holder.as_str().to_owned()).or_default() += 1;
    }
    owners
}

/// Works until standard input ends.
pub(crate) async fn work(endpoint: &str, namespace: &str, id: &str) {
    let fleet = open(endpoint, namespace).await;
    let worker = fleet.join().ttl(TTL).holder(HolderId::new(id).unwrap()).start().unwrap();
    let body = worker.run(|unit| async move {
        unit.cancelled().await;
        Verdict::Again
    });
    println!("ready");
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
    tokio::select! {
        _ = ended => {}
        _ = body => {}
    }
}
