//! A thousand workers and a hundred thousand units, in simulated time, with the machines that run in production: what they
//! ask of the store when nothing changes, and how much memory each worker takes.
//!
//! `cargo xtask bench fleet_scale`; some minutes, since each worker lists all units for itself.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench may fail")]

#[path = "../../crates/tenure-core/tests/yard/mod.rs"]
mod yard;

use std::time::Duration;
use tenure_bench::{resident_bytes, stopwatch};
use tenure_core::fleet::About;
use yard::{Store, TTL, Yard};

const INTERVAL: Duration = TTL.checked_div(3).unwrap();
const INTERVALS: u32 = 20;

fn main() {
    println!("simulated time, ttl {TTL:?}; calls of the whole fleet in each third of a ttl");
    println!(
        "{:>8} {:>8} {:>9} {:>9} {:>7} {:>14} {:>15} {:>8}",
        "workers", "units", "writes", "reads", "lists", "all held after", "memory a worker", "real"
    );
    for (workers, units) in [(100, 10_000), (100, 100_000), (1_000, 10_000), (1_000, 100_000)] {
        scale(workers, units);
    }
}

fn scale(workers: usize, units: usize) {
    let real = stopwatch();
    let mut yard = Yard::new(Store { age: true, push: false });
    for _ in 0..workers {
        yard.join(About::default());
    }
    yard.run(INTERVAL * 6);
    yard.create(units);
    let before = resident_bytes();
    let held = yard.run_until(TTL * 6, |yard| yard.idle() == 0).expect("all units are held");
    yard.run(INTERVAL * 6);
    let memory = resident_bytes().saturating_sub(before) / workers as u64;
    let counts = yard.counts();
    let share = units / workers;
    assert!(counts.first().zip(counts.last()) == Some((&share, &share)), "shares are even: {counts:?}");
    let calls = yard.calls;
    yard.run(INTERVAL * INTERVALS);
    let calls = yard.calls.since(calls);
    let each = |calls: u64| calls as f64 / f64::from(INTERVALS);
    println!(
        "{workers:>8} {units:>8} {:>9.1} {:>9.1} {:>7.2} {:>10.2} ttl {:>9} bytes {:>6.0} s",
        each(calls.writes),
        each(calls.reads),
        each(calls.lists),
        held.as_secs_f64() / TTL.as_secs_f64(),
        memory,
        real().as_secs_f64(),
    );
}
