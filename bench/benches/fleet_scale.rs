//! A thousand workers and a hundred thousand units, in simulated time, with the machines that run in production: what they
//! ask of the store when nothing changes, and how much memory each worker takes.
//!
//! `cargo xtask bench fleet_scale`; some minutes. Workers that list all units do so one after the other: all at
//! once would need the memory of a thousand machines. `cargo bench -p tenure-bench --bench fleet_scale -- 100 10000` for one size.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench may fail")]

#[path = "../../crates/tenure-core/tests/harness/mod.rs"]
mod harness;

use harness::{Harness, Store, TTL};
use peak_alloc::PeakAlloc;
use std::time::Duration;
use tenure_bench::{cpu_time, stopwatch};

const INTERVAL: Duration = TTL.checked_div(3).unwrap();
const INTERVALS: u32 = 20;
const SIZES: [(usize, usize); 6] =
    [(10, 10_000), (100, 10_000), (1_000, 10_000), (10, 100_000), (100, 100_000), (1_000, 100_000)];

/// What is in use, byte by byte: what the kernel sees of a process is mostly what earlier listings have left behind.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn main() {
    println!("simulated time, ttl {TTL:?}; what the whole fleet asks in each third of a ttl, at rest");
    println!(
        "{:>8} {:>8} {:>8} {:>8} {:>11} {:>16} {:>11} {:>8} {:>8}",
        "workers", "units", "writes", "reads", "audit pages", "memory a worker", "peak of all", "real", "CPU"
    );
    let asked: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    match asked[..] {
        [workers, units] => scale(workers, units),
        _ => SIZES.iter().for_each(|&(workers, units)| scale(workers, units)),
    }
}

fn scale(workers: usize, units: usize) {
    let (real, cpu) = (stopwatch(), cpu_time());
    MEMORY.reset_peak_usage();
    let mut harness = Harness::large(Store { age: true, push: false }, workers, units);
    let peak = MEMORY.peak_usage();
    let counts = harness.counts();
    let share = units / workers;
    assert!(counts.first().zip(counts.last()) == Some((&share, &share)), "shares are even: {counts:?}");
    let calls = harness.calls;
    harness.run(INTERVAL * INTERVALS);
    let calls = harness.calls.since(calls);
    let machines = harness.take_machines();
    let before = MEMORY.current_usage();
    drop(machines);
    let memory = (before - MEMORY.current_usage()) / workers;
    let each = |calls: u64| calls as f64 / f64::from(INTERVALS);
    println!(
        "{workers:>8} {units:>8} {:>8.1} {:>8.1} {:>11.2} {:>10} bytes {:>8} MB {:>6.0} s {:>6.0} s",
        each(calls.writes),
        each(calls.reads),
        each(calls.lists),
        memory,
        peak / 1_000_000,
        real().as_secs_f64(),
        (cpu_time() - cpu).as_secs_f64(),
    );
}
