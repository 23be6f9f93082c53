//! What a fleet costs and how fast it is: at scale in simulated time, with the machines that run in production; then with
//! real processes on one SQLite file, killed with SIGKILL.
//!
//! `cargo xtask bench fleet`; `TENURE_KILLS` sets how many workers are killed (20).
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

#[path = "../../crates/tenure-core/tests/harness/mod.rs"]
mod harness;

use harness::{Harness, Store, TTL};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure::AnyStore;
use tenure::fleet::{About, Balance, Fleet, NewUnit, Verdict};
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure_bench::{percentile, stopwatch, timed};
use tenure_core::fleet::FleetCommand;
use tenure_core::fleet::plan::{Load, Room, plan};

const INTERVAL: Duration = TTL.checked_div(3).unwrap();
/// A store that tells ages and pushes, as SQLite does; and the least that any store does.
const STORES: [(&str, Store); 2] =
    [("age and push", Store { age: true, push: true }), ("neither", Store { age: false, push: false })];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let [_, role, path] = args.as_slice()
        && role == "worker"
    {
        return runtime.block_on(worker(Path::new(path)));
    }
    println!("simulated time, ttl {TTL:?}, a call takes 2 ms, a body 20 ms to end");
    steady();
    for (name, store) in STORES {
        joins(name, store);
        crashes(name, store);
        restarts(name, store);
    }
    plans();
    runtime.block_on(real());
}

fn fleet(store: Store, workers: usize, units: usize) -> Harness {
    let mut harness = Harness::new(store);
    harness.create(units);
    for _ in 0..workers {
        harness.join(About::default());
    }
    harness.run(INTERVAL * 6);
    harness.longest_idle = Duration::ZERO;
    harness
}

fn steady() {
    println!("\n{:>28} {:>10} {:>10} {:>10}", "a worker's calls in a third", "writes", "reads", "lists");
    for units in [100, 1_000, 10_000, 100_000] {
        let mut harness = fleet(STORES[1].1, 10, units);
        harness.run(INTERVAL * 4);
        let before = harness.calls;
        harness.run(INTERVAL * 20);
        let calls = harness.calls.since(before);
        let each = |calls: u64| calls as f64 / 200.0;
        println!(
            "{:>22} units {:>10.2} {:>10.2} {:>10.2}",
            units,
            each(calls.writes),
            each(calls.reads),
            each(calls.lists)
        );
    }
}

fn joins(name: &str, store: Store) {
    let mut harness = fleet(store, 10, 10_000);
    let moves = harness.moves;
    let joiner = harness.join(About::default());
    let share = 10_000 / 11;
    let took = harness.run_until(TTL * 4, |harness| harness.held(joiner) >= share - 1);
    harness.run(INTERVAL * 6);
    println!(
        "\n{name}: the 11th of 11 workers has its {share} of 10,000 units after {:.2} thirds of a ttl; {} moves",
        took.map_or(f64::NAN, |took| (took + Duration::from_millis(137)).as_secs_f64()
            / INTERVAL.as_secs_f64()),
        harness.moves - moves
    );
}

fn crashes(name: &str, store: Store) {
    for dead in [1, 4] {
        let mut worst = Duration::ZERO;
        for phase in 0..10 {
            let mut harness = fleet(store, 10, 1_000);
            harness.run(INTERVAL * phase / 10);
            (0..dead).for_each(|worker| harness.kill(worker * 2));
            worst =
                worst.max(harness.run_until(TTL * 3, |harness| harness.idle() == 0).unwrap_or(Duration::MAX));
        }
        println!(
            "{name}: {dead} of 10 workers crash: all 1,000 units held again after {:.3} ttl at worst of 10",
            worst.as_secs_f64() / TTL.as_secs_f64()
        );
    }
}

fn restarts(name: &str, store: Store) {
    let mut harness = fleet(store, 10, 1_000);
    for worker in 0..10 {
        harness.order(worker, FleetCommand::Leave);
        assert!(harness.run_until(TTL * 3, |harness| !harness.is_up(worker)).is_some());
        harness.join(About::default());
        harness.run(INTERVAL * 2);
    }
    println!(
        "{name}: all 10 workers restart one after the other: no unit idle for longer than {:?}",
        harness.longest_idle
    );
}

fn plans() {
    let loads: Vec<Load> = (0..10_000_usize)
        .map(|n| Load {
            weight: 1 + n as u64 % 7,
            needs: BTreeSet::new(),
            owner: Some(n % 90),
            pin: None,
            stays: false,
            settled: false,
            declined_by: BTreeSet::new(),
        })
        .collect();
    let rooms =
        vec![Room { units: u64::MAX, weight: u64::MAX, labels: BTreeSet::new(), leaving: false }; 100];
    println!("\nplan of 10,000 units over 100 workers of which 10 are new");
    for balance in [Balance::Count, Balance::Weight] {
        let best = (0..20).map(|_| timed(|| plan(&loads, &rooms, balance)).1).min().unwrap_or_default();
        println!("{:>28} {best:>10.2?}", format!("by {balance:?}").to_lowercase());
    }
}

const REAL_TTL: Duration = Duration::from_secs(2);

fn open(path: &Path) -> Fleet {
    Fleet::new(AnyStore::new(SqliteStore::open(SqliteConfig::new(path)).unwrap()), "bench").unwrap()
}

async fn worker(path: &Path) {
    let worker = open(path).join().ttl(REAL_TTL).start().unwrap();
    worker
        .run(|unit| async move {
            unit.cancelled().await;
            Verdict::Again
        })
        .await;
}

/// Who holds how many, by the records.
async fn holders(fleet: &Fleet) -> Vec<String> {
    let units = fleet.list().await.unwrap().units;
    units
        .into_iter()
        .map(|unit| unit.holder.map_or_else(String::new, |by| by.holder.as_str().to_owned()))
        .collect()
}

async fn real() {
    let kills: u32 = std::env::var("TENURE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(20);
    const UNITS: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leases.db");
    let fleet = open(&path);
    fleet.create_all((0..UNITS).map(|n| NewUnit::named(format!("{n:04}")))).await.unwrap();
    let start = || -> Child {
        Command::new(std::env::current_exe().unwrap())
            .arg("worker")
            .arg(&path)
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    };
    let even = async || {
        let watch = stopwatch();
        loop {
            let mut counts = std::collections::BTreeMap::<String, usize>::new();
            holders(&fleet).await.into_iter().for_each(|holder| *counts.entry(holder).or_default() += 1);
            let live = fleet.roster().await.unwrap().members.len();
            if counts.len() == 4 && live == 4 && counts.values().all(|count| *count == UNITS / 4) {
                return watch();
            }
            assert!(watch() < Duration::from_secs(60), "{counts:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let mut workers: Vec<Child> = (0..4).map(|_| start()).collect();
    even().await;
    let (mut takeovers, mut joins) = (Vec::new(), Vec::new());
    for n in 0..kills as usize {
        tokio::time::sleep(REAL_TTL / 3 * (n as u32 % 7) / 7).await;
        let mut victim = workers.remove(0);
        let pid = format!("-{}-", victim.id());
        victim.kill().unwrap();
        victim.wait().unwrap();
        let watch = stopwatch();
        while holders(&fleet).await.iter().any(|holder| holder.contains(&pid)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        takeovers.push(watch());
        workers.push(start());
        joins.push(even().await);
    }
    for mut worker in workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    println!(
        "\nreal processes on SQLite, ttl {REAL_TTL:?}, {UNITS} units, 4 workers, {kills} killed and replaced"
    );
    println!("{:>36} {:>8} {:>8} {:>8}", "", "p50", "p90", "max");
    for (name, times, unit) in [
        ("all units held again, in ttls", &mut takeovers, REAL_TTL),
        ("even after the next has come, in thirds", &mut joins, REAL_TTL / 3),
    ] {
        let [p50, p90, max] =
            [50, 90, 100].map(|percent| percentile(times, percent).as_secs_f64() / unit.as_secs_f64());
        println!("{name:>36} {p50:>8.3} {p90:>8.3} {max:>8.3}");
    }
}
