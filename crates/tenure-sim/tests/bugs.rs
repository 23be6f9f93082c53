//! Bugs on purpose. Plan: each one that `tenure-core` has is switched on, and must be caught; a table tells by what, with
//! which seed, after how much simulated time and in how much of a core's. One that survives, or takes longer than ten seconds,
//! fails the test: then a fault or an invariant is missing. Those of sections are in `section_bugs.rs`, those of semaphores in `semaphore_bugs.rs`. And each scenario that
//! is named after a peer's bug shows that bug, switched on. Each promise is broken by some bug, and its own check finds that while no other one looks. Of each kind of world a history that breaks a promise is shrunk, and its line replays it.
//!
//! The table: `cargo test --profile simulator -p tenure-sim --features bugs --test bugs -- --nocapture --test-threads 1`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use clap::Parser as _;
use std::time::Duration;
use tenure_core::{Bug, Bugs};
use tenure_sim::{Rule, SimArgs, SimOptions, run, scenario};

/// A world allocates all the time: with the system's allocator it takes an eighth more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Worlds in which each bug is looked for, at the most.
const WORLDS: u64 = 4000;

/// The same for fleets: as many as are known to break nothing by themselves.
const FLEETS: u64 = 192;

/// How long it may take to catch one, on a core of its own.
const LIMIT: Duration = Duration::from_secs(10);

/// Worlds in which a bug is to be seen of which it is known where it shows. A change of the protocol may hide it in the first.
const NEAR: u64 = 20;

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

/// Where a bug is looked for that shows in one kind of world only, or in one world of dozens: the scenario, and the first seed. That
/// world shows it. Where a change of the protocol hides it there, `NEAR` worlds are looked at; if none shows it, the seed is to be moved.
const SHOWN_IN: &[(Bug, &str, u64)] = &[
    (Bug::StopVacatesSession, "attached", 45),
    (Bug::WithdrawnUncapped, "attached", 77),
    (Bug::LetterForAny, "client-go-728", 40),
    (Bug::StampNotCorrected, "cron-clocks", 13),
    (Bug::MarkIsOneWitness, "cron-clocks", 273),
    (Bug::MissingNotMarked, "cron-clocks", 1323),
    (Bug::MarkWithoutWall, "cron-clones", 534),
    (Bug::TurnOfTheGone, "damaged", 342),
    (Bug::OnePageListed, "fleet-a8m-one-page", 14),
    (Bug::ForeignTenureIgnored, "fleet-churn", 12),
    (Bug::BusyStorePressed, "fleet-crowd", 7),
    (Bug::LetterTakenForLife, "fleet-standbys", 9733),
    (Bug::AbandonedInPlace, "fleet-silent", 1),
    (Bug::DeclineTellsAll, "fleet-failing", 7),
    (Bug::RetryForgotten, "fleet-failing", 7),
    (Bug::TransfereeUntold, "fleet-failing", 7),
    (Bug::PlannerUnwatched, "fleet-failing", 8),
    (Bug::RefusalIsMiss, "fleet-forbidden", 35),
    (Bug::AwaitedForEver, "fleet-forbidden", 58),
    (Bug::RefusalForgotten, "fleet-forbidden", 284),
    (Bug::ToldEachTime, "fleet-forbidden", 176),
    (Bug::MissingForgotten, "fleet-hands", 11),
    (Bug::BoardTrusted, "fleet-hands", 47),
    (Bug::OverflowIsNothing, "fleet-names", 21),
    (Bug::LargePartCut, "fleet-names", 38),
    (Bug::HintedVersionIgnored, "fleet-prompt-push", 20),
    (Bug::OnePageWatched, "fleet-rests", 1),
    (Bug::RestersUntold, "fleet-rests", 1),
    (Bug::AgesTrusted, "fleet-rests", 33),
    (Bug::RestsUnseen, "fleet-rests", 735),
    (Bug::AlarmNotRaised, "fleet-rows", 23),
    (Bug::OldPartStands, "fleet-rows", 119),
    (Bug::MissedPlanIgnored, "fleet-rows-coarse", 514),
    (Bug::LeaverTakes, "fleet-slow-drain", 12),
    (Bug::StateIgnored, "fleet-slow-drain", 518),
    (Bug::PartNotCompared, "fleet-spoilt", 1),
    (Bug::UnreadPartIgnored, "fleet-spoilt", 2),
    (Bug::AnySessionsPart, "fleet-spoilt", 580),
    (Bug::SilentPlannerTrusted, "fleet-standbys", 81),
    (Bug::DeposedPlannerObeyed, "fleet-telling", 3),
    (Bug::UnderWayForgotten, "fleet-telling", 349),
    (Bug::MarkedFirst, "fleet-telling", 520),
    (Bug::MissingIsDead, "fleet-ttls-hands", 20),
    (Bug::UnfitPlans, "fleet-unfit", 1),
    (Bug::UnfitPlansAgain, "fleet-unfit", 101),
    (Bug::ToldOnce, "fleet-usual", 441),
    (Bug::PinIgnored, "fleet-weights", 12),
    (Bug::WeightIgnored, "fleet-weights", 12),
    (Bug::LapseUntold, "fleet-withdrawn", 1),
    (Bug::HiddenTimeMissed, "frozen", 230),
    (Bug::MisdatedBelieved, "frozen", 2568),
    (Bug::GcForgetsFloor, "gc-clocks", 212),
    (Bug::GcTrustsItsClock, "gc-clocks", 3202),
    (Bug::AuditByName, "hands", 62),
    (Bug::HintWhileLooking, "hands-many", 135),
    (Bug::DenialIsFinal, "hands-many", 520),
    (Bug::TryClaimsOn, "hanging-writes", 1),
    (Bug::OrphanNotAsked, "orphans", 234),
    (Bug::TryForgetsSilence, "same-id", 934),
    (Bug::SharedClockTrusted, "shared-clock", 1),
    (Bug::WithdrawnClaimBelieved, "shedlock-1986", 86),
    (Bug::WaiterCountsSuspend, "suspend", 208),
    (Bug::BeginNotAwaited, "ticks", 42),
    (Bug::RunsUnheld, "ticks", 1449),
    (Bug::UnwrittenRuns, "ticks-clocks", 184),
    (Bug::TickCollected, "ticks-gc", 42),
    (Bug::GcDropsRiddenSession, "ticks-gc", 1806),
    (Bug::AttachedBeforeSession, "tokens", 26),
];

/// A bug that breaks each promise, the scenario, and the first seed. Where it breaks several, another check would be the first to see it, and this one
/// could be missing. Each kind of world has its own use of the resource that checks fences.
const BREAKS: &[(Rule, Bug, &str, u64)] = &[
    (Rule::S1, Bug::SilenceTooShort, "storm", 2),
    (Rule::S2, Bug::FenceNotRaised, "usual", 1),
    (Rule::S3, Bug::ReleaseUnconditional, "storm", 2),
    (Rule::S4, Bug::NoDriftMargin, "usual", 1),
    (Rule::S5, Bug::RenewAfterExpiry, "usual", 1),
    (Rule::S6, Bug::LapseVacates, "storm", 2),
    (Rule::S7, Bug::SectionOverlaps, "sections-clocks", 2),
    (Rule::S8, Bug::PermitsUncounted, "semaphores", 1),
    (Rule::S10, Bug::AttachedUnaudited, "hands-many", 5),
    (Rule::P2, Bug::FenceNotRaised, "storm", 2),
    (Rule::P2, Bug::FenceNotRaised, "fleet-usual", 1),
    (Rule::P2, Bug::SectionUnconditional, "sections", 1),
    (Rule::P2, Bug::SemaphoreUnconditional, "semaphores-crowd", 2),
    (Rule::L1, Bug::MailProlongs, "attached", 3),
    (Rule::L2, Bug::PlansFromStaleRoster, "fleet-usual", 1),
    (Rule::L3, Bug::DeadNeverJudged, "usual", 1),
    (Rule::L4, Bug::RenewTooLate, "kept", 11),
    (Rule::L5, Bug::GrantForgotten, "semaphores", 1),
    (Rule::L6, Bug::QueueReversed, "semaphores", 1),
    (Rule::C1, Bug::RenewEachAttached, "storm", 2),
    (Rule::Mail, Bug::MailLost, "usual", 1),
    (Rule::Withdrawn, Bug::WithdrawnClaimBelieved, "shedlock-1986", 86),
    (Rule::Answered, Bug::UnknownReleaseIsDone, "usual", 1),
    (Rule::Cooldown, Bug::CooldownIgnored, "election", 29),
    (Rule::Turns, Bug::TurnsUnending, "attached", 3),
    (Rule::Ticks, Bug::OlderTickRuns, "ticks", 44),
];

/// The scenario and the first seed to look for a bug with.
fn shown_in(bug: Bug) -> (Option<&'static str>, u64) {
    let known = SHOWN_IN.iter().find(|(shown, ..)| *shown == bug);
    let any = Bug::OF_FLEETS.contains(&bug).then_some("fleet-all");
    known.map_or((any, SimOptions::default().seed), |(_, scenario, seed)| (Some(*scenario), *seed))
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
    let (mut survivors, mut far, mut slow) = (Vec::new(), Vec::new(), Vec::new());
    // The others have programs of their own.
    for bug in Bug::OF_LEASES.iter().chain(Bug::OF_FLEETS) {
        let began = core_time();
        let (scenario, seed) = shown_in(*bug);
        let options = SimOptions {
            bugs: Bugs::default().with(*bug),
            worlds: if Bug::OF_FLEETS.contains(bug) { FLEETS } else { WORLDS },
            hours: 1e9,
            scenario: scenario.map(str::to_owned),
            seed,
            shrink: false,
            ..SimOptions::default()
        };
        let report = run(&options).unwrap();
        let took = core_time() - began;
        let is_known = SHOWN_IN.iter().any(|(shown, ..)| shown == bug);
        let seed_found = report.failure.as_ref().map(|failure| failure.seed);
        if let Some(found) = seed_found.filter(|_| is_known && report.worlds > NEAR) {
            far.push(format!("{bug}: the {}th world shows it: move its seed to {found}", report.worlds));
        }
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
        if took > LIMIT {
            slow.push(format!("{bug} took {ms}; the seed of the world that shows it: {seed_found:?}"));
        }
    }
    // Each of them is told at once: a change of what workers do may move several.
    assert!(far.is_empty() && slow.is_empty(), "{}\n{}", far.join("\n"), slow.join("\n"));
    assert!(
        survivors.is_empty(),
        "not caught in {WORLDS} worlds of {} scenarios: {survivors:?}",
        scenario::all().len()
    );
}

#[test]
fn a_world_that_shows_a_bug_breaks_nothing_without_it() {
    for (bug, scenario, seed) in SHOWN_IN {
        let options = SimOptions {
            scenario: Some((*scenario).to_owned()),
            seed: *seed,
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
fn each_promise_is_broken_by_some_bug_and_its_own_check_finds_that() {
    for rule in Rule::ALL {
        assert!(BREAKS.iter().any(|(broken, ..)| broken == rule), "no bug breaks {rule}");
    }
    for (rule, bug, scenario, seed) in BREAKS {
        let options = SimOptions {
            scenario: Some((*scenario).to_owned()),
            seed: *seed,
            bugs: Bugs::default().with(*bug),
            only: Some(*rule),
            worlds: NEAR,
            hours: 1e9,
            shrink: false,
            ..SimOptions::default()
        };
        let report = run(&options).unwrap();
        let found = report.failure.as_ref().map(|failure| failure.violation.rule);
        assert_eq!(found, Some(*rule), "{bug} in {NEAR} worlds of {scenario} from {seed}\n{report}");
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
        let line = failure.replay.strip_prefix("tenure ").unwrap();
        let again = SimArgs::try_parse_from(line.split(' ')).unwrap().options().unwrap();
        let again = run(&SimOptions { shrink: false, ..again }).unwrap().failure.unwrap();
        assert_eq!(again.violation, failure.violation, "{line}");
        let told: Vec<_> = failure.timeline.iter().filter(|line| line.contains(" sends #")).collect();
        assert!(told.iter().all(|line| line.ends_with(')')), "the fate of each request is told: {told:?}");
    }
}
