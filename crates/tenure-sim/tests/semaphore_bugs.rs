//! Bugs on purpose in worlds of semaphores. Plan: each one that can hurt a semaphore is caught, by a promise that it breaks, within ten
//! seconds of one core, with a table of by what and when.
//!
//! The table: `cargo test --profile simulator -p tenure-sim --features bugs --test semaphore_bugs -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;
use tenure_core::{Bug, Bugs};
use tenure_sim::{Rule, SimOptions, run};

/// A world allocates all the time: with the system's allocator it takes an eighth more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
const LIMIT: Duration = Duration::from_secs(10);

/// Worlds in which a bug is to be seen of which it is known where it shows. A change of the protocol may hide it in the first.
const NEAR: u64 = 20;

/// How long this thread has had a core: what else the machine does makes no bug harder to catch.
fn core_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap())
}

/// Where a bug is looked for that few worlds show: the scenario, and the first seed.
const SHOWN_IN: &[(Bug, &str, u64)] = &[
    (Bug::SessionNotFenced, "semaphores-trying", 5),
    (Bug::PermitsUnaudited, "semaphores-hands", 213),
    (Bug::GapIgnored, "semaphores-hidden", 9),
    (Bug::GhostForgotten, "semaphores-hints", 451),
    (Bug::FullRemembered, "semaphores-full", 1),
];

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
    let (mut survivors, mut far) = (Vec::new(), Vec::new());
    for bug in Bug::OF_SEMAPHORES.iter().chain(COMMON) {
        let began = core_time();
        let known = SHOWN_IN.iter().find(|(shown, ..)| shown == bug);
        let (scenario, seed) = known.map_or(("semaphores-all", 1), |(_, scenario, seed)| (*scenario, *seed));
        let options = SimOptions {
            scenario: Some(scenario.to_owned()),
            seed,
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
                if known.is_some() && report.worlds > NEAR {
                    let (nth, found) = (report.worlds, failure.seed);
                    far.push(format!("{bug}: the {nth}th world shows it: move its seed to {found}"));
                }
                println!(
                    "{bug:<22} {rule:<8} after {:>4} worlds, {ms:>5} ms: {}",
                    report.worlds, failure.replay
                );
            }
            other => survivors.push((*bug, other.map(|failure| failure.violation))),
        }
    }
    assert!(far.is_empty(), "{}", far.join("\n"));
    assert!(survivors.is_empty(), "not caught as they should be: {survivors:?}");
}

#[test]
fn a_world_that_shows_a_bug_breaks_nothing_without_it() {
    for (bug, scenario, seed) in SHOWN_IN {
        let scenario = Some((*scenario).to_owned());
        let options = SimOptions { scenario, seed: *seed, worlds: 1, hours: 1e9, ..SimOptions::default() };
        let report = run(&options).unwrap();
        assert!(report.failure.is_none(), "{bug}\n{report}");
    }
}
