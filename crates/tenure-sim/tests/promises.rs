//! The promises. Plan: every scenario, own ones and those of peers' published bugs, runs for many worlds and no promise is
//! broken; together they make up the share of each CI run, whose figures are asserted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use tenure_sim::{SimOptions, SimReport, run, scenario};

fn kept(scenario: Option<&str>, seconds: f64, seed: u64) -> SimReport {
    let scenario = scenario.map(str::to_owned);
    // Of all tests this takes longest, and it is not to be left running on one core at the end.
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let hours = seconds / 3600.0;
    let report = run(&SimOptions { scenario, seed, hours, jobs, ..SimOptions::default() }).unwrap();
    assert!(report.failure.is_none(), "{report}");
    report
}

#[test]
fn no_promise_is_broken_in_a_hundred_million_seconds() {
    let usual = kept(Some("usual"), 8.8e7, 1);
    println!("usual\n{usual}\n");
    let all = kept(None, 1.2e7, 1_000_000);
    println!("all scenarios in turn\n{all}");
    let (seconds, faults) = (usual.seconds() + all.seconds(), usual.fault_count() + all.fault_count());
    let (tenures, takeovers) = (usual.tenures + all.tenures, usual.takeovers.len() + all.takeovers.len());
    println!(
        "together {seconds:.3e} s, {faults} faults, {tenures} tenures, {takeovers} takeovers from the dead"
    );
    assert!(seconds >= 1e8 && faults >= 10_000_000 && tenures >= 1_000_000 && takeovers >= 10_000);
}

#[test]
fn every_scenario_is_cited_and_does_something() {
    for scenario in scenario::all() {
        assert!(!scenario.source.is_empty() && !scenario.about.is_empty(), "{}", scenario.name);
        let report = kept(Some(scenario.name), 2e4, 9);
        assert!(report.tenures > 20 && report.events > 1000, "{}: {report}", scenario.name);
    }
}
