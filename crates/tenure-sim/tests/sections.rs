//! The promises of sections. Plan: many worlds of each kind, and no promise is broken; the same seed is the same history. Bugs on
//! purpose are in `section_bugs.rs`.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use tenure_sim::{Coverage, SimOptions, SimReport, run};

fn worlds(scenario: &str, worlds: u64, seed: u64) -> SimReport {
    let scenario = Some(scenario.to_owned());
    run(&SimOptions { scenario, worlds, seed, hours: 1e9, ..SimOptions::default() }).unwrap()
}

#[test]
fn no_promise_of_sections_is_broken() {
    let report = worlds("sections-all", 2_000, 1);
    println!("{report}");
    assert!(report.failure.is_none(), "{report}");
    assert!(
        report.seconds() >= 7e5 && report.fault_count() >= 50_000 && report.tenures >= 100_000,
        "{report}"
    );
}

#[test]
fn sections_are_removed_in_many_worlds_and_no_promise_is_broken() {
    let reports = ["sections-clocks", "sections-asked"].map(|name| worlds(name, 50, 0));
    reports.iter().for_each(|report| assert!(report.failure.is_none(), "{report}"));
    let removals: u64 = reports.iter().map(|report| report.coverage(Coverage::SectionRemoved)).sum();
    println!("{removals} removals");
    assert!(removals >= 20, "{removals}");
}

#[test]
fn the_same_seed_is_the_same_history_and_another_seed_another() {
    for name in ["sections", "sections-clocks", "sections-brief", "sections-calm"] {
        assert_eq!(worlds(name, 3, 7).to_string(), worlds(name, 3, 7).to_string(), "{name}");
        assert_ne!(worlds(name, 3, 7).hash, worlds(name, 3, 8).hash, "{name}");
    }
}
