//! Worlds of fleets: workers, units and those who change them from outside, with everything going wrong that can.
//!
//! The real machine of `tenure-core` is stepped; chance, clocks, registers, faults and the trace are those of the worlds of
//! leases. What differs is the users: they are bodies that work on units.

mod bodies;
mod calm;
mod chaos;
mod force;
mod hands;
mod heard;
mod invariants;
mod net;
mod node;
mod outside;
mod process;
mod scenario;
mod world;

use crate::clock::SECOND;
use crate::fault::{Fault, KINDS};
use crate::invariants::{Rule, Violation};
use crate::run::{Failure, Options, Report};
use crate::world::Setup;
use scenario::Scenario;
use world::World;

/// The worlds of fleets, by name, and what each is about.
pub(crate) fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    scenario::ALL
        .iter()
        .map(|scenario| (scenario.name, scenario.about))
        .chain([(ALL, "all worlds of fleets by turns")])
}

const ALL: &str = "fleet-all";

/// Whether this is the name of a world of fleets, or `fleet-all`.
pub(crate) fn is_named(name: &str) -> bool {
    name == ALL || scenario::ALL.iter().any(|scenario| scenario.name == name)
}

/// Runs worlds of fleets, as [`crate::run()`] runs those of leases.
pub(crate) fn run(options: &Options, name: &str) -> Report {
    let scenarios: Vec<Scenario> =
        scenario::ALL.iter().filter(|scenario| name == ALL || scenario.name == name).copied().collect();
    let mut report = Report::default();
    let mut faults = [0u64; KINDS];
    let enough = (options.hours * 3600.0 * SECOND as f64) as u128;
    while report.simulated < enough && (options.worlds == 0 || report.worlds < options.worlds) {
        let scenario = scenarios[(report.worlds % scenarios.len() as u64) as usize];
        let setup = Setup {
            seed: options.seed.wrapping_add(report.worlds),
            bugs: options.bugs,
            without: options.without,
            nodes: options.nodes,
            trace: false,
        };
        let mut world = World::new(scenario, setup);
        world.run();
        report.worlds += 1;
        report.simulated += u128::from(world.t);
        report.events += world.tally.events;
        report.steps += world.tally.steps;
        report.tenures += world.checks.tenures.count;
        report.resource.0 += world.checks.resource.accepted;
        report.resource.1 += world.checks.resource.refused;
        report.takeovers.extend_from_slice(&world.checks.takeovers);
        report.hash = report.hash.rotate_left(7).wrapping_add(world.trace.hash);
        for (sum, n) in faults.iter_mut().zip(world.tally.faults) {
            *sum += n;
        }
        if let Some(violation) = world.checks.broken {
            report.failure = Some(explain(scenario, setup, violation, world.tally.events, options.shrink));
            break;
        }
    }
    report.faults =
        Fault::ALL.iter().map(|fault| (*fault, faults[*fault as usize])).filter(|(_, n)| *n > 0).collect();
    report.takeovers.sort_unstable();
    report
}

/// Seeds that are tried for a shorter history, and the most events in all.
const SEEDS: u64 = 60;
const EVENTS: u64 = 4_000_000;

struct Best {
    setup: Setup,
    violation: Violation,
    events: u64,
    spent: u64,
}

impl Best {
    /// Takes `setup` instead if it breaks the same promise, and no later.
    fn offer(&mut self, scenario: Scenario, setup: Setup, rule: Rule) {
        if self.spent > EVENTS {
            return;
        }
        let mut world = World::new(scenario, setup);
        world.run();
        self.spent += world.tally.events;
        if let Some(violation) = world.checks.broken
            && violation.rule == rule
            && world.tally.events <= self.events
        {
            *self = Best { setup, violation, events: world.tally.events, spent: self.spent };
        }
    }

    fn fewer_faults(&mut self, scenario: Scenario, rule: Rule) {
        for (fault, _) in scenario.faults.iter().chain(scenario.calls) {
            if !self.setup.without.has(*fault) {
                let without = self.setup.without.with(*fault);
                self.offer(scenario, Setup { without, ..self.setup }, rule);
            }
        }
    }
}

fn explain(scenario: Scenario, setup: Setup, violation: Violation, events: u64, shrink: bool) -> Failure {
    let rule = violation.rule;
    let mut best = Best { setup, violation, events, spent: 0 };
    if shrink {
        best.fewer_faults(scenario, rule);
        for nodes in 2..scenario.nodes {
            best.offer(scenario, Setup { nodes, ..best.setup }, rule);
        }
        for n in 0..SEEDS {
            let seed = setup.seed.wrapping_add(n * 7919 + 1);
            best.offer(scenario, Setup { seed, ..best.setup }, rule);
        }
        best.fewer_faults(scenario, rule);
    }
    let mut world = World::new(scenario, Setup { trace: true, ..best.setup });
    world.run();
    let replay = crate::shrink::replay_line(scenario.name, &best.setup);
    Failure {
        violation: best.violation,
        scenario: scenario.name,
        seed: best.setup.seed,
        events: (events, best.events),
        replay,
        timeline: world.trace.lines(),
    }
}
