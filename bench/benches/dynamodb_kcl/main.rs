//! A fleet of ours on a DynamoDB table beside the Kinesis Client Library's, both of real processes with one worker each: what
//! they ask of the table while nothing changes, how soon the leases of a killed worker are held again, and how soon a worker
//! that joins has its share.
//!
//! `cargo xtask bench dynamodb_kcl` starts DynamoDB Local, fetches the library and prints the tables. `TENURE_LEASES` lists
//! how many leases (1000,10000), `TENURE_KILLS` says how often a worker is killed (3), `TENURE_BENCH_SECONDS` for how long
//! requests are counted (30). Requests and the units that they cost are counted between the workers and the service; who has
//! which lease is read from the table, past the count.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

mod crew;
mod library;
mod units;

use crew::Crew;
use std::time::Duration;
use tenure_bench::dynamodb::endpoint;
use tenure_bench::wire::{Relay, RequestCounts};
use tenure_bench::{percentile, stopwatch};

const TTL: Duration = Duration::from_secs(10);
const WORKERS: usize = 10;
/// Until what a start brings with it is over: claims whose answers came too late on a busy machine are looked at again for some
/// ttls.
const SETTLED: Duration = Duration::from_secs(40);
/// How long a peer that balances slowly is watched.
const WATCHED: Duration = Duration::from_secs(60);

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, role, endpoint, namespace, id] = args.as_slice()
        && role == "worker"
    {
        return units::work(endpoint, namespace, id).await;
    }
    let leases = std::env::var("TENURE_LEASES").unwrap_or("1000,10000".into());
    let leases: Vec<usize> = leases.split(',').map(|count| count.trim().parse().expect("a number")).collect();
    println!("{WORKERS} workers, a process each; ttl and failover time {TTL:?}\n");
    println!("| leases | fleet | writes/s | write units/s | reads/s | read units/s | asked for |");
    println!("|---|---|---|---|---|---|---|");
    let mut moves = Vec::new();
    for (n, count) in leases.into_iter().enumerate() {
        let library = measure(Crew::library(relay().await, count).await, count, n == 0).await;
        let ours = measure(Crew::ours(relay().await, count).await, count, n == 0).await;
        let ratio = |of: fn(&RequestCounts) -> f64| of(&library.0) / of(&ours.0);
        println!(
            "| {count} | KCL : tenure | {:.0} | {:.0} | {:.1} | {:.1} | |",
            ratio(|counted| counted.writes() as f64),
            ratio(|counted| counted.write_units),
            ratio(|counted| counted.reads() as f64),
            ratio(|counted| counted.read_units)
        );
        moves.extend([library.1, ours.1]);
    }
    println!();
    moves.into_iter().flatten().for_each(|line| println!("{line}"));
}

async fn relay() -> Relay {
    Relay::start(&endpoint()).await.unwrap()
}

/// What a crew with all its workers asks for; and, if so wished, what becomes of it when workers die and come.
async fn measure(mut crew: Crew, leases: usize, moves: bool) -> (RequestCounts, Vec<String>) {
    (0..WORKERS).for_each(|_| drop(crew.start()));
    crew.await_ready(WORKERS);
    crew.even(Duration::from_secs(180)).await.expect("even at first");
    tokio::time::sleep(SETTLED).await;
    drop(crew.relay.take());
    let span = Duration::from_secs(setting("TENURE_BENCH_SECONDS", 30) as u64);
    let clock = stopwatch();
    tokio::time::sleep(span).await;
    let (counted, seconds) = (crew.relay.take(), clock().as_secs_f64());
    let name = crew.name;
    println!(
        "| {leases} | {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:?} |",
        counted.writes() as f64 / seconds,
        counted.write_units / seconds,
        counted.reads() as f64 / seconds,
        counted.read_units / seconds,
        counted.requests
    );
    let idle = crew.idle().await;
    if idle > 0 {
        println!("| {leases} | {name} | {idle} leases were not held at the end of that | | | | |");
    }
    let mut lines = Vec::new();
    if moves {
        lines.push(takeovers(&mut crew).await);
        lines.push(joins(&mut crew, leases).await);
    }
    crew.stop();
    (counted, lines)
}

/// Kills workers one after the other, each at another moment of its renewals.
async fn takeovers(crew: &mut Crew) -> String {
    let mut times = Vec::new();
    let kills = setting("TENURE_KILLS", 3);
    for n in 0..kills {
        tokio::time::sleep(TTL / 3 * u32::try_from(n).unwrap() / 3).await;
        let victim = crew.kill();
        let clock = stopwatch();
        while crew.owners().await.contains_key(&victim) {
            if clock() > TTL * 12 {
                return format!(
                    "{}: the leases of a killed worker are not held by others after {:?}",
                    crew.name,
                    TTL * 12
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        times.push(clock());
    }
    let [min, p50, max] = [0, 50, 100].map(|percent| percentile(&mut times, percent).as_secs_f64());
    let name = crew.name;
    format!(
        "{name}: all leases of a killed worker held by others after {min:.1} s, {p50:.1} s, {max:.1} s (least, median, most of {kills})"
    )
}

/// Lets one more worker join.
async fn joins(crew: &mut Crew, leases: usize) -> String {
    let (joiner, clock) = (crew.start(), stopwatch());
    let name = crew.name;
    let limit = if crew.is_quick { TTL * 6 } else { WATCHED };
    if let Some(took) = crew.even(limit).await {
        let thirds = took.as_secs_f64() / (TTL / 3).as_secs_f64();
        return format!(
            "{name}: a worker that joins {leases} leases: even {:.1} s after its process was started, {thirds:.2} thirds of the ttl",
            took.as_secs_f64()
        );
    }
    let has = crew.owners().await.get(&joiner).copied().unwrap_or(0);
    let share = leases / crew.count();
    format!(
        "{name}: a worker that joins {leases} leases has {has} of its share of {share} after {:.0} s; at that pace it has all after {:.0} min",
        clock().as_secs_f64(),
        clock().as_secs_f64() * share as f64 / has.max(1) as f64 / 60.0
    )
}
