//! The promises. Plan: every scenario, own ones and those of peers' published bugs, runs for many worlds and no promise is
//! broken; together they make up the share of each CI run, whose figures are asserted. Each kind of fault came that a scenario names: what never does proves
//! nothing. The worlds of peers' bugs are those of `peers.rs`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::peers::{PEERS, SECONDS};
use std::sync::atomic::{AtomicUsize, Ordering};
use tenure_sim::{FaultKind, SimOptions, SimReport, run, scenario};

/// How long each scenario but those of `peers.rs` is simulated.
const EACH: f64 = 2.7e5;

const NO_HINTS: &str = "the store of this scenario pushes none";

/// Kinds that a scenario names, most of them with those of others, and that never come in it; with the reason.
const NEVER_THERE: &[(&str, FaultKind, &str)] = &[
    ("store-clock", FaultKind::HintLost, NO_HINTS),
    ("shared-clock", FaultKind::HintLost, NO_HINTS),
    ("wall", FaultKind::HintLost, NO_HINTS),
    ("frozen", FaultKind::HintLost, NO_HINTS),
    ("gc-clocks", FaultKind::HintLost, NO_HINTS),
    ("ticks-gc", FaultKind::HintLost, NO_HINTS),
    ("ticks-gc", FaultKind::PauseBeforeEffect, "ticks write to no resource, and so check nothing before"),
];

/// Kinds of faults that a scenario names and that did not come in it, and those that came though they never should. For people.
pub(crate) fn odd_faults(name: &str, report: &SimReport) -> Vec<String> {
    let scenario = scenario::named(name).unwrap_or_else(|| panic!("no scenario {name}"));
    let named = scenario.faults.iter().chain(scenario.calls).map(|(kind, _)| *kind);
    let odd = |kind: FaultKind| {
        let came = report.faults.iter().any(|(counted, _)| *counted == kind);
        let never = NEVER_THERE.iter().find(|(at, excepted, _)| *at == name && *excepted == kind);
        match (came, never) {
            (false, None) => Some(format!("{name}: {} never came", kind.name())),
            (true, Some((.., why))) => Some(format!("{name}: {} came, though: {why}", kind.name())),
            _ => None,
        }
    };
    named.filter_map(odd).collect()
}

fn kept(scenario: &str, seconds: f64, seed: u64, jobs: usize) -> SimReport {
    let scenario = Some(scenario.to_owned());
    let hours = seconds / 3600.0;
    let report = run(&SimOptions { scenario, seed, hours, jobs, ..SimOptions::default() }).unwrap();
    assert!(report.failure.is_none(), "{report}");
    report
}

/// As many as there are cores: of all tests this takes longest, and it is not to be left running on one of them at the end.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Each scenario that `peers.rs` does not simulate, one beside the other.
fn others() -> Vec<(&'static str, SimReport)> {
    let all = scenario::all();
    let others: Vec<&'static str> = all
        .iter()
        .map(|scenario| scenario.name)
        .filter(|name| !PEERS.iter().any(|(peers, ..)| peers == name))
        .collect();
    assert_eq!(others.len() + PEERS.len(), all.len(), "each of peers.rs is one of all");
    let next = AtomicUsize::new(0);
    let share = || {
        let mine = std::iter::from_fn(|| others.get(next.fetch_add(1, Ordering::Relaxed)).copied());
        mine.map(|name| (name, kept(name, EACH, 2_000_000, 1))).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores()).map(|_| scope.spawn(share)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn no_promise_is_broken_in_a_hundred_million_seconds() {
    let usual = kept("usual", 8.8e7, 1, cores());
    println!("usual\n{usual}\n");
    let others = others();
    for (name, report) in &others {
        println!("{name}\n{report}\n");
        assert!(report.tenures > 270 && report.events > 13_500, "{name} does something: {report}");
    }
    let reports = others.iter().map(|(name, report)| (*name, report)).chain([("usual", &usual)]);
    let odd: Vec<String> = reports.flat_map(|(name, report)| odd_faults(name, report)).collect();
    assert!(odd.is_empty(), "{odd:#?}");
    let sum = |of: fn(&SimReport) -> u64| of(&usual) + others.iter().map(|(_, other)| of(other)).sum::<u64>();
    let (faults, tenures) = (sum(SimReport::fault_count), sum(|report| report.tenures));
    let takeovers = sum(|report| report.takeovers.len() as u64);
    let elsewhere = SECONDS * PEERS.len() as f64;
    let seconds = usual.seconds() + others.iter().map(|(_, other)| other.seconds()).sum::<f64>() + elsewhere;
    println!(
        "together {seconds:.3e} s, {faults} faults, {tenures} tenures, {takeovers} takeovers from the dead"
    );
    assert!(seconds >= 1e8 && faults >= 10_000_000 && tenures >= 1_000_000 && takeovers >= 10_000);
}

#[test]
fn every_scenario_is_cited() {
    for scenario in scenario::all() {
        assert!(!scenario.source.is_empty() && !scenario.about.is_empty(), "{}", scenario.name);
    }
}
