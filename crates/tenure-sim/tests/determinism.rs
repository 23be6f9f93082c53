//! Determinism. Plan: the same seed gives the same history, whole reports included; another seed gives another one; threads
//! change nothing; the line that replays a world replays it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use clap::Parser as _;
use tenure_sim::{SimArgs, SimOptions, run, scenario};

/// A world allocates all the time: with the system's allocator it takes an eighth more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn report(seed: u64, scenario: Option<&str>, worlds: u64) -> String {
    let scenario = scenario.map(str::to_owned);
    let options = SimOptions { seed, worlds, hours: 1e9, scenario, ..SimOptions::default() };
    run(&options).unwrap().to_string()
}

#[test]
fn the_same_seed_is_the_same_history() {
    let worlds = scenario::all().len() as u64;
    assert_eq!(report(42, None, worlds), report(42, None, worlds));
}

#[test]
fn another_seed_is_another_history() {
    for scenario in scenario::all() {
        let (one, other) = (report(1, Some(scenario.name), 1), report(2, Some(scenario.name), 1));
        assert_ne!(one, other, "{}", scenario.name);
    }
}

#[test]
fn worlds_in_one_run_are_those_that_run_alone() {
    let both = run(&SimOptions {
        seed: 5,
        worlds: 2,
        hours: 1e9,
        scenario: Some("usual".into()),
        ..SimOptions::default()
    })
    .unwrap();
    let alone = |seed: u64| {
        let line = format!("sim --scenario usual --seed {seed} --worlds 1");
        let options = SimArgs::try_parse_from(line.split(' ')).unwrap().options().unwrap();
        run(&options).unwrap()
    };
    let (first, second) = (alone(5), alone(6));
    assert_eq!(both.events, first.events + second.events);
    assert_eq!(both.tenures, first.tenures + second.tenures);
    assert_eq!(both.hash, first.hash.rotate_left(7).wrapping_add(second.hash));
}

#[test]
fn a_report_is_the_same_on_any_number_of_threads() {
    for (scenario, worlds) in [("all", 12), ("sections-all", 10), ("fleet-all", 6)] {
        let report = |jobs| {
            let scenario = Some(scenario.to_owned());
            run(&SimOptions { jobs, worlds, hours: 1e9, scenario, ..SimOptions::default() })
                .unwrap()
                .to_string()
        };
        assert_eq!(report(1), report(3), "{scenario}");
    }
}

#[test]
fn an_unknown_scenario_is_named_with_those_there_are() {
    let options = SimOptions { scenario: Some("peace".into()), ..SimOptions::default() };
    let error = run(&options).unwrap_err().to_string();
    assert!(error.contains("\"peace\"") && error.contains("storm"), "{error}");
}
