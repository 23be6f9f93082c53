//! Semaphores, readers and writers, and fair locks on one SQLite file: pairs beside those of a plain lock; a thousand holders of one
//! semaphore, while they come and at rest; and a crowd of readers with a few writers among them.
//!
//! `cargo xtask bench permits`; `TENURE_BENCH_MS` says for how long each round of a cell runs. Handoffs of a fair lock stand in the tables of
//! `etcd_pairs`, `redis_pairs` and `postgres_pairs`, beside those of peers.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a bench may fail")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenure::{AnyStore, Guard, Leases};
use tenure_bench::pairs::{LatencyStats, PairMaker, table};
use tenure_bench::{is_bench, span, stopwatch};
use tenure_store::MeteredStore;

const TTL: Duration = Duration::from_secs(6);
const PROCESSES: usize = 10;

type Metered = MeteredStore<AnyStore>;

#[tokio::main]
async fn main() {
    let span = span(Duration::from_secs(1)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("leases.db");
    let leases = Leases::new(open(&file).await).unwrap();
    leases.begin_session();
    let (eight, shared) = (leases.clone(), leases.clone());
    let mut contenders = [
        ("a plain lock", PairMaker::leases(leases.clone())),
        ("a fair lock", PairMaker::fair_locks(leases.clone())),
        ("one of 8 permits", PairMaker::permits(move |task| eight.semaphore(format!("of-8/{task}"), 8))),
        ("shared", PairMaker::permits(move |task| shared.shared(format!("shared/{task}")))),
    ];
    table(&mut contenders, span).await.unwrap();
    leases.stop().await;
    holders(&file, if is_bench() { 1000 } else { 50 }).await;
    readers_and_writers(&file, if is_bench() { 64 } else { 8 }, span * 5).await;
}

/// Processes with a session each, and what they ask the store for.
async fn processes(file: &Path) -> Vec<(Leases, Metered)> {
    let mut all = Vec::new();
    for _ in 0..PROCESSES {
        let store = MeteredStore::new(open(file).await);
        let leases = Leases::builder(AnyStore::new(store.clone())).session_ttl(TTL).start().unwrap();
        all.push((leases, store));
    }
    all
}

async fn open(file: &Path) -> AnyStore {
    tenure::open(format!("sqlite:{}", file.display())).await.unwrap()
}

/// What all of them have asked for: writes, and all there was.
fn asked(processes: &[(Leases, Metered)]) -> (u64, u64) {
    let counts = processes.iter().map(|(_, store)| store.counts());
    counts.fold((0, 0), |(writes, all), counts| (writes + counts.writes, all + counts.round_trips()))
}

/// As many permits as want one: all come at once, and stay.
async fn holders(file: &Path, permits: usize) {
    let processes = processes(file).await;
    for (leases, _) in &processes {
        leases.begin_session();
    }
    let (before, took) = (asked(&processes), stopwatch());
    let tasks: Vec<_> = (0..permits)
        .map(|n| {
            let leases = processes[n % PROCESSES].0.clone();
            tokio::spawn(async move { leases.semaphore("crowd", permits as u32).acquire().await.unwrap() })
        })
        .collect();
    let mut guards: Vec<Guard> = Vec::new();
    for task in tasks {
        guards.push(task.await.unwrap());
    }
    let (took, all_held) = (took(), asked(&processes));
    // What is asked for once is over.
    tokio::time::sleep(TTL / 3).await;
    let (before_rest, rested) = (asked(&processes), stopwatch());
    tokio::time::sleep(if is_bench() { TTL } else { TTL / 3 }).await;
    let (after, thirds) = (asked(&processes), rested().as_secs_f64() / (TTL / 3).as_secs_f64());
    assert!(guards.iter().all(Guard::is_held));
    println!("\n{permits} holders of {permits} permits in {PROCESSES} processes\n");
    println!(
        "| until all hold | writes | requests | at rest, in a third of a ttl: writes | requests |\n|---|---|---|---|---|"
    );
    println!(
        "| {:.0} ms | {} | {} | {:.1} | {:.1} |",
        took.as_secs_f64() * 1e3,
        all_held.0 - before.0,
        all_held.1 - before.1,
        (after.0 - before_rest.0) as f64 / thirds,
        (after.1 - before_rest.1) as f64 / thirds,
    );
    drop(guards);
    for (leases, _) in processes {
        leases.stop().await;
    }
}

/// Each task asks over and over, once in 101 times for all of it, and holds it for a millisecond.
async fn readers_and_writers(file: &Path, tasks: usize, span: Duration) {
    let processes = Arc::new(processes(file).await);
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let processes = Arc::clone(&processes);
            tokio::spawn(async move {
                let leases = &processes[task % PROCESSES].0;
                let (mut reads, mut writes, end) = (Vec::new(), Vec::new(), Instant::now() + span);
                // The first of each task differ, so that writers are spread.
                for n in (task * 101 / 64).. {
                    if Instant::now() >= end {
                        break;
                    }
                    let (asked, is_writer) = (Instant::now(), n % 101 == 100);
                    let permits = if is_writer { leases.exclusive("data") } else { leases.shared("data") };
                    let guard = permits.acquire().await.unwrap();
                    (if is_writer { &mut writes } else { &mut reads }).push(asked.elapsed());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    guard.release().await;
                }
                (reads, writes)
            })
        })
        .collect();
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for task in running {
        let (read, written) = task.await.unwrap();
        reads.extend(read);
        writes.extend(written);
    }
    println!("\n{tasks} tasks in {PROCESSES} processes, 100 readers to a writer, each has it for 1 ms\n");
    println!("| | a second | wait p50, ms | p99 | longest |\n|---|---|---|---|---|");
    for (who, waits) in [("readers", reads), ("writers", writes)] {
        let longest = waits.iter().max().copied().unwrap_or_default();
        let LatencyStats { count, percentiles: [p50, p99], .. } = LatencyStats::of(waits);
        let [p50, p99, longest] = [p50, p99, longest].map(|wait| wait.as_secs_f64() * 1e3);
        println!("| {who} | {:.0} | {p50:.1} | {p99:.1} | {longest:.1} |", count as f64 / span.as_secs_f64());
    }
    for (leases, _) in processes.iter() {
        leases.stop().await;
    }
}
