//! Bugs on purpose. Plan: each one that `tenure-core` has is switched on, and must be caught; a table tells by what, with
//! which seed, after how much simulated time and in how much of a core's. One that survives, or takes longer than a minute,
//! fails the test: then a fault or an invariant is missing. Those of sections are in `section_bugs.rs`, those of semaphores in `semaphore_bugs.rs`. And each scenario that
//! is named after a peer's bug shows that bug, switched on. Of each kind of world a history that breaks a promise is shrunk, and its line replays it.
//!
//! The table: `cargo test --release -p tenure-sim --features bugs --test bugs -- --nocapture --test-threads 1`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::time::Duration;
use tenure_core::{Bug, Bugs};
use tenure_sim::{SimCommand, SimOptions, parse, run, scenario};

/// Worlds in which each bug is looked for, at the most.
const WORLDS: u64 = 4000;

/// The same for fleets: as many as are known to break nothing by themselves.
const FLEETS: u64 = 192;

/// How long it may take to catch one, on a core of its own.
const LIMIT: Duration = Duration::from_secs(60);

/// The scenario of a peer's bug, and that bug.
const PEERS: &[(&str, Bug)] = &[
    ("kcl-1803", Bug::DeadNeverJudged),
    ("kcl-1729", Bug::MailLost),
    ("a8m-3", Bug::FenceChangesOnRenewal),
    ("a8m-fresh-row", Bug::TakeWithoutCondition),
    ("lock-client-44", Bug::TryForgetsSilence),
    ("dynamolock-446", Bug::LossNotTold),
    ("shedlock-1986", Bug::ReleaseUnconditional),
    ("less", Bug::LostIsStillMine),
    ("etcd-11456", Bug::OwnSessionForeign),
    ("client-go-728", Bug::LapseVacates),
    ("fleet-a8m-one-page", Bug::OnePageListed),
];

/// Where a bug is looked for. Some show only where the store refuses units, or where plans are told slowly, or in one of hundreds of
/// worlds of one kind. Those are looked for there alone.
fn scenario_of(bug: Bug) -> Option<&'static str> {
    match bug {
        Bug::RefusalIsMiss | Bug::AwaitedForEver | Bug::ToldEachTime => Some("fleet-forbidden"),
        Bug::OverflowIsNothing => Some("fleet-names"),
        Bug::MissedPlanIgnored => Some("fleet-rows"),
        Bug::RestersUntold | Bug::RestsUnseen | Bug::OnePageWatched | Bug::AgesTrusted => Some("fleet-rests"),
        Bug::SilentPlannerTrusted => Some("fleet-standbys"),
        Bug::UnfitPlans | Bug::UnfitPlansAgain => Some("fleet-unfit"),
        Bug::MarkedFirst | Bug::DeposedPlannerObeyed | Bug::UnderWayForgotten | Bug::StateIgnored => {
            Some("fleet-telling")
        }
        Bug::OldPartStands | Bug::ToldOnce => Some("fleet-slow-drain"),
        Bug::LapseUntold => Some("fleet-withdrawn"),
        Bug::AnySessionsPart | Bug::UnreadPartIgnored | Bug::PartNotCompared => Some("fleet-spoilt"),
        Bug::RunsUnheld => Some("ticks"),
        Bug::HintWhileLooking => Some("hands-many"),
        Bug::StampNotCorrected => Some("cron-clocks"),
        Bug::MisdatedBelieved => Some("frozen"),
        bug => Bug::OF_FLEETS.contains(&bug).then_some("fleet-all"),
    }
}

/// The first world in which it is looked for. A bug that few worlds show is looked for in one that does, and that breaks nothing
/// without it.
fn first_of(bug: Bug) -> u64 {
    match bug {
        Bug::ToldEachTime => 268,
        Bug::UnderWayForgotten => 1275,
        Bug::OldPartStands => 398,
        Bug::MisdatedBelieved => 2538,
        _ => SimOptions::default().seed,
    }
}

/// How long this thread has had a core: what else the machine does makes no bug harder to catch.
fn core_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap())
}

#[test]
fn every_bug_on_purpose_is_caught() {
    assert!(Bug::ALL.len() >= 25, "{}", Bug::ALL.len());
    println!(
        "{:<22} {:<14} {:<9} {:>6} {:>10} {:>7}  replay",
        "bug", "scenario", "broken", "seed", "simulated", "core"
    );
    let mut survivors = Vec::new();
    // The others have programs of their own.
    for bug in Bug::OF_LEASES.iter().chain(Bug::OF_FLEETS) {
        let began = core_time();
        let options = SimOptions {
            bugs: Bugs::default().with(*bug),
            worlds: if Bug::OF_FLEETS.contains(bug) { FLEETS } else { WORLDS },
            hours: 1e9,
            scenario: scenario_of(*bug).map(str::to_owned),
            seed: first_of(*bug),
            shrink: false,
            ..SimOptions::default()
        };
        let report = run(&options).unwrap();
        let took = core_time() - began;
        let (simulated, ms) = (format!("{:.0} s", report.seconds()), format!("{} ms", took.as_millis()));
        match report.failure {
            Some(failure) => println!(
                "{:<22} {:<14} {:<9} {:>6} {simulated:>10} {ms:>7}  {}",
                bug.to_string(),
                failure.scenario,
                failure.violation.rule.to_string(),
                failure.seed,
                failure.replay
            ),
            None => {
                println!("{bug:<22} SURVIVED {} worlds, {ms}: {}", report.worlds, bug.about());
                survivors.push(*bug);
            }
        }
        assert!(took <= LIMIT, "{bug} took {ms}");
    }
    assert!(
        survivors.is_empty(),
        "not caught in {WORLDS} worlds of {} scenarios: {survivors:?}",
        scenario::all().len()
    );
}

#[test]
fn a_world_in_which_a_bug_is_looked_for_first_breaks_nothing_without_it() {
    for bug in Bug::ALL.iter().filter(|bug| first_of(**bug) != SimOptions::default().seed) {
        let options = SimOptions {
            scenario: scenario_of(*bug).map(str::to_owned),
            seed: first_of(*bug),
            worlds: 1,
            hours: 1e9,
            shrink: false,
            ..SimOptions::default()
        };
        let report = run(&options).unwrap();
        assert!(report.failure.is_none(), "{bug}\n{report}");
    }
}

#[test]
fn the_scenario_of_a_peers_bug_shows_that_bug() {
    for (scenario, bug) in PEERS {
        let options = SimOptions {
            scenario: Some((*scenario).into()),
            bugs: Bugs::default().with(*bug),
            worlds: WORLDS,
            hours: 1e9,
            shrink: false,
            ..SimOptions::default()
        };
        let report = run(&options).unwrap();
        let failure = report.failure.as_ref();
        let failure = failure.unwrap_or_else(|| panic!("{bug} survives {scenario}\n{report}"));
        println!("{scenario:<16} {bug:<22} {} after {:.0} s", failure.violation.rule, report.seconds());
    }
}

#[test]
fn what_is_broken_is_shrunk_and_replayed_by_its_line_in_every_kind_of_world() {
    for (scenario, bug) in [
        ("all", Bug::LostIsStillMine),
        ("sections-all", Bug::EntryBornAnew),
        ("semaphores-all", Bug::DeadTicketKept),
        ("fleet-all", Bug::TakeWithoutCondition),
    ] {
        let options = SimOptions {
            scenario: Some(scenario.into()),
            bugs: Bugs::default().with(bug),
            worlds: WORLDS,
            hours: 1e9,
            jobs: 2,
            ..SimOptions::default()
        };
        let failure = run(&options).unwrap().failure.unwrap_or_else(|| panic!("{bug} survives {scenario}"));
        assert!(failure.events.1 < failure.events.0 / 2, "{scenario}: {:?}", failure.events);
        let line = failure.replay.strip_prefix("tenure sim ").unwrap();
        let Ok(SimCommand::Run(again)) = parse(line.split(' ')) else { panic!("{line}") };
        let again = run(&SimOptions { shrink: false, ..*again }).unwrap().failure.unwrap();
        assert_eq!(again.violation, failure.violation, "{line}");
        let told: Vec<_> = failure.timeline.iter().filter(|line| line.contains(" sends #")).collect();
        assert!(told.iter().all(|line| line.ends_with(')')), "the fate of each request is told: {told:?}");
    }
}
