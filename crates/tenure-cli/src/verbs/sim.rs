//! `tenure sim`: the simulator, from the command line.

use crate::args;
use crate::exit::{self, Failure};
use crate::output;
use crate::text::escaped;
use serde_json::json;
use tenure::clock::boottime;
use tenure_core::{Bug, Bugs};
use tenure_sim::{FaultKind, FaultSet, Rule, SimOptions, SimReport};

pub(crate) fn sim(typed: &args::SimArgs) -> Result<u8, Failure> {
    if typed.list {
        list(typed.json)?;
        return Ok(exit::OK);
    }
    let options = options(typed)?;
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

fn options(typed: &args::SimArgs) -> Result<SimOptions, Failure> {
    if !typed.hours.is_finite() || typed.hours < 0.0 {
        return Err(Failure::usage(format!("--hours {} is no number of hours", typed.hours)));
    }
    let mut without = FaultSet::default();
    for name in &typed.without {
        let fault = FaultKind::named(name).ok_or_else(|| unknown("fault", name))?;
        without = without.with(fault);
    }
    let promise = |name: &String| Rule::named(name).ok_or_else(|| unknown("promise", name));
    let only = typed.only.as_ref().map(promise).transpose()?;
    Ok(SimOptions {
        seed: typed.seed,
        hours: typed.hours,
        worlds: typed.worlds,
        scenario: typed.scenario.clone(),
        bugs: bugs(&typed.bug)?,
        without,
        nodes: typed.nodes,
        only,
        shrink: !typed.no_shrink,
        jobs: typed.jobs,
    })
}

fn unknown(kind: &str, name: &str) -> Failure {
    Failure::usage(format!("there is no {kind} \"{}\"; `tenure sim --list` names them", escaped(name)))
}

fn bugs(names: &[String]) -> Result<Bugs, Failure> {
    let mut bugs = Bugs::default();
    for name in names {
        let bug = Bug::named(name).ok_or_else(|| unknown("bug", name))?;
        bugs = with(bugs, bug)?;
    }
    Ok(bugs)
}

#[cfg(feature = "bugs")]
fn with(bugs: Bugs, bug: Bug) -> Result<Bugs, Failure> {
    Ok(bugs.with(bug))
}

#[cfg(not(feature = "bugs"))]
fn with(_bugs: Bugs, bug: Bug) -> Result<Bugs, Failure> {
    Err(Failure::usage(format!(
        "this build has no bugs to switch on, {bug} included; build it with --features bugs"
    )))
}

fn list(as_json: bool) -> Result<(), Failure> {
    let scenarios = tenure_sim::scenarios();
    if as_json {
        let scenarios: Vec<&str> = scenarios.iter().map(|(name, _)| *name).collect();
        let rules: Vec<String> = Rule::ALL.iter().map(Rule::to_string).collect();
        let faults: Vec<&str> = FaultKind::ALL.iter().map(|fault| fault.name()).collect();
        let bugs: Vec<String> = Bug::ALL.iter().map(Bug::to_string).collect();
        return output::json(
            &json!({"scenarios": scenarios, "faults": faults, "promises": rules, "bugs": bugs}),
        );
    }
    let mut text = String::from("scenarios:\n");
    for (name, about) in &scenarios {
        text.push_str(&format!("  {name:20} {about}\n"));
    }
    text.push_str("faults:\n");
    for fault in FaultKind::ALL {
        text.push_str(&format!("  {:20} {}\n", fault.name(), fault.about()));
    }
    text.push_str("promises:\n");
    for rule in Rule::ALL {
        text.push_str(&format!("  {:20} {}\n", rule.to_string(), rule.about()));
    }
    text.push_str("bugs:\n");
    for bug in Bug::ALL {
        text.push_str(&format!("  {bug:20} {}\n", bug.about()));
    }
    output::print(&text)
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
