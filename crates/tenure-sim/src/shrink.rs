//! From a broken promise to a short history that breaks it: fewer kinds of faults, fewer nodes, another seed.

use crate::fault::Fault;
use crate::invariants::{Rule, Violation};
use crate::run::{Case, Failure};
use crate::world::Setup;

/// Seeds that are tried for a shorter history.
const SEEDS: u64 = 300;

/// Runs at most so many events in all.
const EVENTS: u64 = 4_000_000;

struct Best {
    case: Case,
    violation: Violation,
    events: u64,
    spent: u64,
}

impl Best {
    /// Takes `case` instead if it breaks the same promise, and no later.
    fn offer(&mut self, case: Case, rule: Rule) -> bool {
        if self.spent > EVENTS {
            return false;
        }
        let world = case.run();
        self.spent += world.tally.events;
        match world.checks.broken {
            Some(violation) if violation.rule == rule && world.tally.events <= self.events => {
                *self = Best { case, violation, events: world.tally.events, spent: self.spent };
                true
            }
            _ => false,
        }
    }
}

pub(crate) fn explain(case: Case, violation: Violation, events: u64, shrink: bool) -> Failure {
    let rule = violation.rule;
    let mut best = Best { case, violation, events, spent: 0 };
    if shrink {
        fewer_faults(&mut best, rule);
        fewer_nodes(&mut best, rule);
        let first = best.case.setup.seed;
        for seed in (0..SEEDS).map(|n| first.wrapping_add(n * 7919 + 1)) {
            let mut case = best.case.clone();
            case.setup.seed = seed;
            best.offer(case, rule);
        }
        fewer_faults(&mut best, rule);
    }
    let mut case = best.case;
    case.setup.trace = true;
    let timeline = case.run().trace.lines();
    Failure {
        violation: best.violation,
        scenario: case.scenario.name,
        seed: case.setup.seed,
        events: (events, best.events),
        replay: replay_line(case.scenario.name, &case.setup),
        timeline,
    }
}

fn fewer_faults(best: &mut Best, rule: Rule) {
    let scenario = &best.case.scenario;
    let kinds: Vec<Fault> = scenario.faults.iter().chain(scenario.calls).map(|(fault, _)| *fault).collect();
    for fault in kinds {
        if !best.case.setup.without.has(fault) {
            let mut case = best.case.clone();
            case.setup.without = case.setup.without.with(fault);
            best.offer(case, rule);
        }
    }
}

fn fewer_nodes(best: &mut Best, rule: Rule) {
    for nodes in 1..best.case.scenario.nodes {
        let mut case = best.case.clone();
        case.setup.nodes = nodes;
        if best.offer(case, rule) {
            return;
        }
    }
}

/// The line that runs a world again.
pub(crate) fn replay_line(scenario: &str, setup: &Setup) -> String {
    let mut line = format!("tenure sim --scenario {scenario} --seed {} --worlds 1", setup.seed);
    for bug in tenure_core::Bug::ALL.iter().filter(|bug| setup.bugs.has(**bug)) {
        line += &format!(" --bug {bug:?}");
    }
    let without: Vec<_> = setup.without.names().collect();
    if !without.is_empty() {
        line += &format!(" --without {}", without.join(","));
    }
    if setup.nodes > 0 {
        line += &format!(" --nodes {}", setup.nodes);
    }
    line
}
