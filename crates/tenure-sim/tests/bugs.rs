//! Bugs on purpose. Plan: each one that `tenure-core` has is switched on, and must be caught; a table tells by what, with
//! which seed, after how much simulated time. One that survives fails the test: then a fault or an invariant is missing.
#![cfg(feature = "bugs")]
#![allow(clippy::disallowed_methods, reason = "the table tells how long it took to catch each bug")]

use std::time::Instant;
use tenure_core::{Bug, Bugs};
use tenure_sim::{Options, run, scenario};

/// Worlds in which each bug is looked for, at the most.
const WORLDS: u64 = 4000;

#[test]
fn every_bug_on_purpose_is_caught() {
    assert!(Bug::ALL.len() >= 25, "{}", Bug::ALL.len());
    println!(
        "{:<22} {:<14} {:<9} {:>6} {:>8} {:>9}  replay",
        "bug", "scenario", "broken", "seed", "worlds", "ms"
    );
    let mut survivors = Vec::new();
    for bug in Bug::ALL {
        let began = Instant::now();
        let options = Options {
            bugs: Bugs::default().with(*bug),
            worlds: WORLDS,
            hours: 1e9,
            shrink: false,
            ..Options::default()
        };
        let report = run(&options).unwrap();
        let took = began.elapsed().as_millis();
        match report.failure {
            Some(failure) => println!(
                "{:<22} {:<14} {:<9} {:>6} {:>8} {:>9}  {}",
                bug.to_string(),
                failure.scenario,
                failure.violation.rule.to_string(),
                failure.seed,
                report.worlds,
                took,
                failure.replay
            ),
            None => {
                println!("{bug:<22} SURVIVED {} worlds, {took} ms: {}", report.worlds, bug.about());
                survivors.push(*bug);
            }
        }
    }
    assert!(
        survivors.is_empty(),
        "not caught in {WORLDS} worlds of {} scenarios: {survivors:?}",
        scenario::all().len()
    );
}
