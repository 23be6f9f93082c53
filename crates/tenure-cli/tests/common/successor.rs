//! Whoever has the key `k` after a tenure that was killed, and what that left behind.

use super::{Bench, Process, children_of, wait_for};

/// Longer than any of this takes: whatever is had before it was given back.
pub const TTL: &str = "10m";
pub const TICKS: &str = "trap '' TERM; echo $$ > ticking; while :; do date +%s%3N >> ticks; sleep 0.01; done";

/// Waits for the key `k`, and notes when it has it.
pub fn next(bench: &Bench) -> Process {
    let next = bench.start(&["run", "k", "--ttl", TTL, "--", "sh", "-c", "date +%s%3N > next; echo >> next"]);
    next.await_signals();
    next
}

/// When it had the key.
pub fn await_next(bench: &Bench) -> i64 {
    wait_for("the next one", || bench.read("next").strip_suffix("\n\n").and_then(|text| text.parse().ok()))
}

pub fn holder(bench: &Bench) -> serde_json::Value {
    bench.show("k")["holder"].clone()
}

pub fn watchdogs_of(process: &Process) -> Vec<i32> {
    wait_for("both watchdogs", || {
        let mut all = children_of(process.id().cast_signed());
        all.retain(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "tenure-watchdog\n")
        });
        Some(all).filter(|all| all.len() == 2)
    })
}
