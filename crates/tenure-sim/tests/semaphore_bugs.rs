//! Bugs on purpose in worlds of semaphores. Plan: each one that can hurt a semaphore is caught, by a promise that it breaks, within a
//! minute of one core, with a table of by what and when.
//!
//! The table: `cargo test --profile simulator -p tenure-sim --features bugs --test semaphore_bugs -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;
use tenure_core::{Bug, Bugs};
use tenure_sim::{Rule, SimOptions, run};

/// By what else bugs are caught that others can have, too.
const COMMON: &[Bug] = &[
    Bug::SessionNotFenced,
    Bug::AttachedOutlivesSession,
    Bug::SilenceTooShort,
    Bug::NoDriftMargin,
    Bug::WallDecides,
    Bug::MissingIsDead,
    Bug::HolderMissesSuspend,
    Bug::UnknownIsSuccess,
    Bug::LapseVacates,
    Bug::StopVacatesSession,
    Bug::ValidFromAnswer,
    Bug::GapIgnored,
    Bug::OneWitness,
];

/// How long it may take to catch one, on a core of its own.
const LIMIT: Duration = Duration::from_secs(60);

/// How long this thread has had a core: what else the machine does makes no bug harder to catch.
fn core_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap())
}

/// Where a bug is looked for: one that few worlds of other kinds show, in those of its kind alone.
fn scenario_of(bug: Bug) -> &'static str {
    match bug {
        Bug::SessionNotFenced => "semaphores-crowd",
        Bug::PermitsUnaudited => "semaphores-hands",
        Bug::GapIgnored => "semaphores-hidden",
        Bug::GhostForgotten => "semaphores-hints",
        Bug::FullRemembered => "semaphores-full",
        _ => "semaphores-all",
    }
}

#[test]
fn every_bug_that_can_hurt_a_semaphore_is_caught() {
    let broken = [
        Rule::S2,
        Rule::S3,
        Rule::S4,
        Rule::S5,
        Rule::S6,
        Rule::S8,
        Rule::S10,
        Rule::P2,
        Rule::L5,
        Rule::L6,
        Rule::Answered,
    ];
    let mut survivors = Vec::new();
    for bug in Bug::OF_SEMAPHORES.iter().chain(COMMON) {
        let began = core_time();
        let options = SimOptions {
            scenario: Some(scenario_of(*bug).to_owned()),
            bugs: Bugs::default().with(*bug),
            worlds: 1000,
            hours: 1e9,
            shrink: false,
            ..SimOptions::default()
        };
        let report = run(&options).unwrap();
        let took = core_time() - began;
        assert!(took <= LIMIT, "{bug} took {took:?}");
        let ms = took.as_millis();
        match report.failure {
            Some(failure) if broken.contains(&failure.violation.rule) => {
                let rule = failure.violation.rule.to_string();
                println!(
                    "{bug:<22} {rule:<8} after {:>4} worlds, {ms:>5} ms: {}",
                    report.worlds, failure.replay
                );
            }
            other => survivors.push((*bug, other.map(|failure| failure.violation))),
        }
    }
    assert!(survivors.is_empty(), "not caught as they should be: {survivors:?}");
}
