//! The promises of semaphores. Plan: many worlds of each kind, and no promise is broken; the same seed is the same history. Bugs on
//! purpose are in `semaphore_bugs.rs`.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use tenure_sim::{SimOptions, SimReport, run};

fn worlds(scenario: &str, worlds: u64, seed: u64) -> SimReport {
    let scenario = Some(scenario.to_owned());
    run(&SimOptions { scenario, worlds, seed, hours: 1e9, ..SimOptions::default() }).unwrap()
}

#[test]
fn no_promise_of_semaphores_is_broken() {
    let report = worlds("semaphores-all", 600, 1);
    println!("{report}");
    assert!(report.failure.is_none(), "{report}");
    assert!(
        report.seconds() >= 7e5 && report.fault_count() >= 50_000 && report.tenures >= 100_000,
        "{report}"
    );
}

#[test]
fn the_same_seed_is_the_same_history_and_another_seed_another() {
    for name in ["semaphores", "semaphores-crowd", "semaphores-hands", "semaphores-sessions", "semaphores-gc"]
    {
        assert_eq!(worlds(name, 3, 7).to_string(), worlds(name, 3, 7).to_string(), "{name}");
        assert_ne!(worlds(name, 3, 7).hash, worlds(name, 3, 8).hash, "{name}");
    }
}
