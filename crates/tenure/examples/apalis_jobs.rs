//! A job of apalis-cron that runs once per tick, on whichever of three nodes comes first. Every node has the same schedule. The scheduler
//! says which tick is due, so nodes whose clocks differ ask for the same one. Run it with `cargo run --example apalis_jobs`.

use apalis_core::error::{BoxDynError, WorkerError};
use apalis_core::task::data::Data;
use apalis_core::worker::builder::WorkerBuilder;
use apalis_cron::{CronScheduler, Tick};
use cron::Schedule;
use std::collections::BTreeMap;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::{AnyStore, Leases, Wall};

const NODES: usize = 3;

type Error = BoxDynError;

/// What ran: for each tick, in seconds, on which nodes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<BTreeMap<u64, Vec<usize>>>>);

impl Log {
    fn ran(&self, tick: u64, node: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(tick).or_default().push(node);
    }

    fn runs(&self) -> BTreeMap<u64, Vec<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a node's handler is given.
#[derive(Clone)]
struct Node {
    number: usize,
    leases: Leases,
    log: Log,
}

/// The handler of each tick: the job is run by the first that asks, and by another one if that one dies before it has begun.
async fn clean_up(tick: Tick, node: Data<Node>) -> Result<(), Error> {
    let (seconds, number, log) = (tick.get_timestamp(), node.number, node.log.clone());
    let once = node.leases.once_per("nightly-cleanup", Wall(seconds * 1000));
    // An error of the store is apalis's to retry. An error of the job is kept in the record, and is not run again for this tick.
    once.run(move |_held| async move {
        log.ran(seconds, number);
        Ok::<_, std::convert::Infallible>(())
    })
    .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // In earnest, each node is a process of its own, and the store one that all of them reach.
    let (store, log) = (tenure::memory(), Log::default());
    let nodes: Vec<_> =
        (1..=NODES).map(|number| tokio::spawn(run(number, store.clone(), log.clone()))).collect();
    for node in nodes {
        node.await??;
    }
    let runs = log.runs();
    for (tick, nodes) in &runs {
        println!("tick {tick}: ran on node {nodes:?}");
    }
    assert!(runs.len() >= 3, "it ran at {} ticks only", runs.len());
    assert!(runs.values().all(|nodes| nodes.len() == 1), "one run per tick, not {runs:?}");
    Ok(())
}

async fn run(number: usize, store: AnyStore, log: Log) -> Result<(), Error> {
    let leases = Leases::new(store)?;
    let node = Node { number, leases: leases.clone(), log: log.clone() };
    let schedule = CronScheduler::new(Schedule::from_str("*/2 * * * * *")?);
    let worker = WorkerBuilder::new(format!("node-{number}")).backend(schedule).data(node).build(clean_up);
    let enough = async move {
        for _ in 0..60 {
            if log.runs().len() >= 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok::<(), WorkerError>(())
    };
    worker.run_until(enough).await?;
    leases.stop().await;
    Ok(())
}
