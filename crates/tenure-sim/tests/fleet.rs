//! Fleets. Plan: every scenario of fleets runs for many worlds and no promise is broken (the share of each CI run, whose
//! figures are asserted); the same seed is the same history; worlds that once broke a promise run for ever.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use tenure_sim::{Coverage, PlannedChange, SimOptions, SimReport, deaths_at_each_step, run};

/// Worlds of all scenarios in turn that each CI run takes.
const WORLDS: u64 = 192;

fn fleet(scenario: &str, seed: u64, worlds: u64) -> SimReport {
    run(&SimOptions { scenario: Some(scenario.into()), seed, worlds, hours: 1e9, ..SimOptions::default() })
        .unwrap()
}

#[test]
fn no_promise_of_fleets_is_broken() {
    let report = fleet("fleet-all", 1, WORLDS);
    println!("{report}");
    assert!(report.failure.is_none(), "{report}");
    assert!(report.tenures > 5_000 && report.fault_count() > 20_000, "{report}");
    assert!(report.resource.0 > 20_000 && report.resource.1 > 0, "{report}");
    assert!(report.takeovers.len() > 100, "{report}");
}

/// Nothing is broken in some worlds of a scenario, in which so many of these moments come at least.
fn nothing_is_broken_by(scenario: &str, worlds: u64, moments: &[(Coverage, u64)]) {
    let report = fleet(scenario, 1, worlds);
    assert!(report.failure.is_none(), "{report}");
    for (moment, least) in moments {
        assert!(report.coverage(*moment) >= *least, "{moment:?}\n{report}");
    }
}

#[test]
fn a_fleet_that_begins_at_once_on_a_store_with_little_capacity_loses_nothing() {
    nothing_is_broken_by("fleet-crowd", 12, &[(Coverage::OverCapacity, 1000)]);
}

#[test]
fn the_planner_and_who_stands_by_and_owners_die_together() {
    nothing_is_broken_by("fleet-heads", 12, &[(Coverage::HeadsLost, 60)]);
}

#[test]
fn who_stands_by_finds_out_who_dies_with_the_planner_though_its_wall_clock_was_just_set_ahead() {
    nothing_is_broken_by("fleet-standbys", 12, &[(Coverage::DiedAhead, 40), (Coverage::HeadsLost, 20)]);
}

#[test]
fn parts_that_are_cut_short_garbled_deleted_or_of_another_planner_or_session_are_told_again_or_listed() {
    nothing_is_broken_by("fleet-spoilt", 24, &[(Coverage::PartSpoilt, 100)]);
}

#[test]
fn letters_that_are_lost_or_find_no_room_are_made_up_for() {
    nothing_is_broken_by("fleet-mail", 12, &[(Coverage::LetterLost, 10), (Coverage::MailboxFull, 100)]);
}

#[test]
fn many_changes_in_one_instant_are_planned_though_no_board_can_name_all_whom_they_concern() {
    nothing_is_broken_by("fleet-bursts", 8, &[(Coverage::Burst, 30)]);
}

#[test]
fn a_unit_whose_body_outlasts_its_withdrawal_is_had_by_another_once_it_is_vacated() {
    nothing_is_broken_by("fleet-withdrawn", 12, &[(Coverage::Outlasted, 10), (Coverage::Caught, 20)]);
}

#[test]
fn a_planner_that_is_cut_off_in_the_midst_of_planning_comes_back_with_a_stale_plan() {
    nothing_is_broken_by("fleet-island", 12, &[(Coverage::PlannerStruck, 60)]);
}

#[test]
fn the_planner_dies_before_and_after_each_step_of_planning_and_telling() {
    for (lookers, push) in [(3, false), (1000, false), (1000, true)] {
        for change in [PlannedChange::Units, PlannedChange::Death, PlannedChange::Leave] {
            for before in [true, false] {
                let case = format!("lookers {lookers}, push {push}, {change:?}, before {before}");
                let steps = deaths_at_each_step(lookers, push, change, before);
                println!("{case}: {steps:?} steps");
                // It lists sessions, parts and units, writes parts, and marks the board.
                assert!(steps.as_ref().is_ok_and(|steps| (5..100).contains(steps)), "{case}: {steps:?}");
            }
        }
    }
}

#[test]
fn the_same_seed_is_the_same_history_of_a_fleet() {
    let (one, again, other) =
        (fleet("fleet-all", 42, 10), fleet("fleet-all", 42, 10), fleet("fleet-all", 43, 10));
    assert_eq!(one.to_string(), again.to_string());
    assert_ne!(one.hash, other.hash);
}

/// Scenario, seed, and what the simulator found there.
const FOUND: &[(&str, u64, &str)] = &[
    ("fleet-calm", 17, "Answered: a lease that nobody was told of was told as given up"),
    ("fleet-zones", 1, "S4: what outsiders changed meanwhile undid that a unit was finished"),
    (
        "fleet-churn",
        2,
        "S4: after a write that landed unknown, what was written since was overwritten: a deleted unit came back",
    ),
    ("fleet-beyond-rho", 14, "S4: the same, with a unit's weight"),
    ("fleet-slow-drain", 2, "L2: a worker whose session ended before it could say that it leaves never left"),
    ("fleet-hands", 30, "S1: an old tenure of a session ended a later one, whose record was missing too"),
    ("fleet-hands", 983, "C1: a closed unit behind a missing session had the board raised"),
    (
        "fleet-slow-drain",
        181,
        "C1: a planner that was deposed waited for ever for what it had planned for itself",
    ),
    ("fleet-weights", 90, "L2: the same"),
    ("fleet-telling", 14, "L2: a part that another planner had overwritten was not told again"),
    ("fleet-telling", 187, "L3: a planner passed on what the next owner had not been told to wait for"),
    (
        "fleet-telling",
        172,
        "C1: a part of an earlier plan that arrived late stood, though nobody was to have it",
    ),
    ("fleet-telling", 51, "C1: who had been told to take what is another's by now had all look again"),
    (
        "fleet-names",
        126,
        "L2: a part that a deposed planner had written long before was read again, and obeyed",
    ),
    ("fleet-rests", 17, "L3: who was to stand by was not told, and rested"),
    ("fleet-rests", 115, "L3: who rested was not told any more once most of the fleet had died"),
    (
        "fleet-rests",
        247,
        "L3: who was to stand by was taken for one that had been told, since the board named it",
    ),
    (
        "fleet-hands",
        36,
        "S2: a tenure from before somebody put its record back, told late, was taken for a later one",
    ),
    (
        "fleet-usual",
        378,
        "L2: a leaver whose session was over before its last word was not taken for a dead one",
    ),
    (
        "fleet-hands-clocks",
        106,
        "L3: whoever changed units while the board was damaged told nobody once it was mended",
    ),
    ("fleet-unfit-failing", 1003, "C1: two workers of whom one could not list passed what fails to and fro"),
    ("fleet-zones", 1670, "L3: workers that saw a plan half carried out gave the rest to others"),
];

#[test]
fn what_was_broken_once_in_a_fleet_is_not_broken_again() {
    for (scenario, seed, found) in FOUND {
        let report = fleet(scenario, *seed, 1);
        assert!(report.failure.is_none(), "{found}\n{report}");
        assert!(report.tenures > 0);
    }
}
