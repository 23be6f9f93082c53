//! Bugs on purpose in worlds of sections. Plan: each one that can hurt a section is caught, with a table of by what and when.
//!
//! The table: `cargo test --profile simulator -p tenure-sim --features bugs --test section_bugs -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use tenure_core::{Bug, Bugs};
use tenure_sim::{Rule, SimOptions, run};

/// A world allocates all the time: with the system's allocator it takes an eighth more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[test]
fn every_bug_that_can_hurt_a_section_is_caught() {
    let broken = [Rule::S2, Rule::S3, Rule::S4, Rule::S5, Rule::S6, Rule::S7, Rule::P2, Rule::L1];
    // Who is given a part has nothing that anybody else has: only the answer is wrong. What is left standing is in the way only.
    let answered = [Bug::AllTakesPart, Bug::DenialIsFinal];
    let is_broken =
        |bug, rule: &Rule| broken.contains(rule) || answered.contains(&bug) && *rule == Rule::Answered;
    let mut survivors = Vec::new();
    let common = [
        Bug::NoDriftMargin,
        Bug::ValidFromAnswer,
        Bug::StaleWinBelieved,
        Bug::UnknownIsSuccess,
        Bug::OneWitness,
        Bug::SharedClockTrusted,
        Bug::WallDecides,
        Bug::WaiterCountsSuspend,
        Bug::HolderMissesSuspend,
        Bug::FenceNotRaised,
        Bug::LapseVacates,
        Bug::DenialIsFinal,
        Bug::FenceForgetsClock,
        Bug::MisdatedBelieved,
    ];
    for bug in Bug::OF_SECTIONS.iter().copied().chain(common) {
        let options = SimOptions {
            scenario: Some("sections-all".to_owned()),
            bugs: Bugs::default().with(bug),
            worlds: 4000,
            hours: 1e9,
            ..SimOptions::default()
        };
        let report = run(&options).unwrap();
        match report.failure {
            Some(failure) if is_broken(bug, &failure.violation.rule) => {
                let rule = failure.violation.rule.to_string();
                println!("{bug:<22} {rule:<4} after {:>4} worlds: {}", report.worlds, failure.replay);
            }
            other => survivors.push((bug, other.map(|failure| failure.violation))),
        }
    }
    assert!(survivors.is_empty(), "not caught as they should be: {survivors:?}");
}
