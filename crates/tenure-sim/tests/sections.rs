//! The promises of sections. Plan: many worlds of each kind, and no promise is broken; the same seed is the same history; each bug
//! on purpose that can hurt a section is caught, with a table of by what and when.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use tenure_sim::{Options, Report, run};

fn worlds(scenario: &str, worlds: u64, seed: u64) -> Report {
    let scenario = Some(scenario.to_owned());
    run(&Options { scenario, worlds, seed, hours: 1e9, ..Options::default() }).unwrap()
}

#[test]
fn no_promise_of_sections_is_broken() {
    let report = worlds("sections-all", 3_000, 1);
    println!("{report}");
    assert!(report.failure.is_none(), "{report}");
    assert!(
        report.seconds() >= 7e5 && report.fault_count() >= 50_000 && report.tenures >= 100_000,
        "{report}"
    );
}

#[test]
fn the_same_seed_is_the_same_history_and_another_seed_another() {
    for name in ["sections", "sections-clocks", "sections-calm"] {
        assert_eq!(worlds(name, 3, 7).to_string(), worlds(name, 3, 7).to_string(), "{name}");
        assert_ne!(worlds(name, 3, 7).hash, worlds(name, 3, 8).hash, "{name}");
    }
}

#[cfg(feature = "bugs")]
#[test]
fn every_bug_that_can_hurt_a_section_is_caught() {
    use tenure_core::{Bug, Bugs};
    use tenure_sim::Rule;
    let safety = [Rule::S2, Rule::S3, Rule::S4, Rule::S6, Rule::S7, Rule::P2];
    let mut survivors = Vec::new();
    for bug in [
        Bug::SectionOverlaps,
        Bug::SectionUnconditional,
        Bug::EntryIdReused,
        Bug::ReleaseOfAnother,
        Bug::EntryCollectedEarly,
        Bug::NoDriftMargin,
        Bug::ValidFromAnswer,
        Bug::UnknownIsSuccess,
        Bug::OneWitness,
        Bug::WallDecides,
        Bug::WaiterCountsSuspend,
        Bug::HolderMissesSuspend,
        Bug::FenceNotRaised,
        Bug::LapseVacates,
    ] {
        let options = Options {
            scenario: Some("sections-all".to_owned()),
            bugs: Bugs::default().with(bug),
            worlds: 4000,
            hours: 1e9,
            ..Options::default()
        };
        let report = run(&options).unwrap();
        match report.failure {
            Some(failure) if safety.contains(&failure.violation.rule) => {
                let rule = failure.violation.rule.to_string();
                println!("{bug:<22} {rule:<4} after {:>4} worlds: {}", report.worlds, failure.replay);
            }
            other => survivors.push((bug, other.map(|failure| failure.violation))),
        }
    }
    assert!(survivors.is_empty(), "not caught as they should be: {survivors:?}");
}
