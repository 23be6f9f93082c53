//! `tenure sim`: the simulator, from the command line.

use crate::exit::{self, Failure};
use crate::output;
use serde_json::json;
use tenure::clock::boottime;
use tenure_core::Bug;
use tenure_sim::{FaultKind, Rule, SimArgs, SimReport};

pub(crate) fn sim(typed: &SimArgs) -> Result<u8, Failure> {
    if typed.list {
        list(typed.json)?;
        return Ok(exit::OK);
    }
    let options = typed.options()?;
    if options.scenario.is_none() {
        output::note(
            "worlds of leases and elections; for others: --scenario sections-all, semaphores-all or fleet-all",
        );
    }
    let began = boottime();
    let report = tenure_sim::run(&options)?;
    let secs = boottime().saturating_sub(began).as_secs_f64().max(1e-9);
    if typed.json {
        output::json(&document(&report, secs))?;
    } else {
        let (rate, events) = (report.seconds() / secs, report.events as f64 / secs);
        output::print(&format!(
            "{report}\n{secs:.1} s real: {rate:.0} simulated seconds and {events:.0} events a second\n"
        ))?;
    }
    Ok(if report.failure.is_some() { exit::SOME_FAILED } else { exit::OK })
}

fn list(as_json: bool) -> Result<(), Failure> {
    if !as_json {
        return output::print(&SimArgs::names());
    }
    let scenarios: Vec<&str> = tenure_sim::scenarios().iter().map(|(name, _)| *name).collect();
    let rules: Vec<String> = Rule::ALL.iter().map(Rule::to_string).collect();
    let faults: Vec<&str> = FaultKind::ALL.iter().map(|fault| fault.name()).collect();
    let bugs: Vec<String> = Bug::ALL.iter().map(Bug::to_string).collect();
    output::json(&json!({"scenarios": scenarios, "faults": faults, "promises": rules, "bugs": bugs}))
}

fn document(report: &SimReport, secs: f64) -> serde_json::Value {
    let faults: serde_json::Map<_, _> =
        report.faults.iter().map(|(fault, n)| (fault.name().to_owned(), json!(n))).collect();
    let moments: serde_json::Map<_, _> =
        report.coverage.iter().map(|(coverage, n)| (coverage.name().to_owned(), json!(n))).collect();
    let failure = report.failure.as_ref().map(|failure| {
        json!({
            "promise": failure.violation.rule.to_string(),
            "violation": failure.violation.text,
            "scenario": failure.scenario,
            "seed": failure.seed,
            "events": failure.events.1,
            "replay": failure.replay,
            "timeline": failure.timeline,
        })
    });
    json!({
        "worlds": report.worlds,
        "simulated_seconds": report.seconds(),
        "events": report.events,
        "tenures": report.tenures,
        "takeovers": report.takeovers.len(),
        "takeover_ttls": {"p50": report.takeover(0.5), "p99": report.takeover(0.99), "max": report.takeover(1.0)},
        "faults": faults,
        "moments": moments,
        "resource": {"accepted": report.resource.0, "refused": report.resource.1},
        "history": format!("{:x}", report.hash),
        "real_seconds": secs,
        "broken": failure,
    })
}
