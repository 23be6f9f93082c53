//! The one clock that all processes of a host share, whatever is done to their others: CLOCK_MONOTONIC_RAW.
#![allow(
    clippy::disallowed_methods,
    reason = "observers have a clock of their own, which nothing under test reads"
)]

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Nanoseconds since the host was started, on a clock that nobody slews or sets.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    let (seconds, nanos) =
        (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds * 1_000_000_000 + nanos
}

/// What this process's own clocks show, in nanoseconds: the wall clock, CLOCK_MONOTONIC and CLOCK_BOOTTIME.
pub(crate) fn clocks() -> [i64; 3] {
    [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime].map(|clock| {
        let time = clock_gettime(clock);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    })
}

/// The time since `start`, which `now` told.
pub(crate) fn since(start: u64) -> Duration {
    Duration::from_nanos(now().saturating_sub(start))
}

/// A number below `limit` that is hard to foresee, for the small differences between processes and rounds. No test depends on it.
pub(crate) fn noise(limit: u64) -> u64 {
    let mixed = (now() ^ (u64::from(std::process::id()) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 33) % limit.max(1)
}
