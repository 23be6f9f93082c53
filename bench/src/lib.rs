//! What the benches share: a stopwatch, percentiles, and what the kernel says of this process.
//!
//! Figures are for people to read and compare within one run; nothing here asserts a speed.
#![allow(clippy::disallowed_methods, reason = "benches measure real time")]

pub mod command_line;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
#[cfg(feature = "servers")]
pub mod handoffs;
#[cfg(feature = "servers")]
pub mod pairs;
pub mod rest;
pub mod wire;

use std::time::{Duration, Instant};

/// What goes wrong in a bench is only shown.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// False where the program only has to run, as a test of the workspace.
#[must_use]
pub fn is_bench() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// For how long each round of a cell runs: what `TENURE_BENCH_MS` says, or `usual`; a moment where the program only has to run.
///
/// # Errors
/// The variable is no number.
pub fn span(usual: Duration) -> Result<Duration, std::num::ParseIntError> {
    match std::env::var("TENURE_BENCH_MS") {
        Ok(millis) => Ok(Duration::from_millis(millis.parse()?)),
        Err(_) if is_bench() => Ok(usual),
        Err(_) => Ok(usual.min(Duration::from_millis(50))),
    }
}

/// How long `work` takes, and what it returns.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed())
}

/// A stopwatch that runs.
pub fn stopwatch() -> impl Fn() -> Duration {
    let start = Instant::now();
    move || start.elapsed()
}

/// The value that `percent` of the sorted `values` do not exceed.
#[must_use]
pub fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    values.sort_unstable();
    let at = (values.len() * percent).div_ceil(100).clamp(1, values.len().max(1));
    values.get(at - 1).copied().unwrap_or_default()
}

/// The memory that this process really uses, in bytes.
#[must_use]
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

/// The processor time that this process has used.
#[must_use]
pub fn cpu_time() -> Duration {
    cpu_time_of("self")
}

/// The processor time that the process with this id has used.
#[must_use]
pub fn cpu_time_of(process: &str) -> Duration {
    // Fields 14 and 15 of proc(5): user and system time.
    ticks_of(process, 11)
}

/// The processor time of this process's children, and of theirs, as far as they were waited for.
#[must_use]
pub fn cpu_time_of_children() -> Duration {
    // Fields 16 and 17.
    ticks_of("self", 13)
}

/// The sum of two fields of a process's line, in ticks of 10 ms. The first that is counted is the one after its name.
fn ticks_of(process: &str, before: usize) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace();
    let ticks: u64 = fields.skip(before).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// The project's page: its program is compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
