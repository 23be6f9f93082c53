//! Running many worlds, and telling what came of it.

use crate::clock::SECOND;
use crate::fault::{Fault, Faults};
use crate::invariants::Violation;
use crate::scenario::{self, Scenario};
use crate::world::{Setup, World};
use std::fmt;
use tenure_core::{Bugs, InvalidInput};

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The seed of the first world; the next ones count up from it.
    pub seed: u64,
    /// At least so many simulated hours.
    pub hours: f64,
    /// The most worlds; 0 for no limit.
    pub worlds: u64,
    /// The scenario by name; none for all of them in turn.
    pub scenario: Option<String>,
    /// Bugs on purpose. Always empty without the feature `bugs`.
    pub bugs: Bugs,
    /// Kinds of faults that do not happen.
    pub without: Faults,
    /// How many nodes take part; 0 for as many as the scenario has.
    pub nodes: usize,
    /// Whether to look for a shorter history when a promise is broken.
    pub shrink: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 1,
            hours: 100.0,
            worlds: 0,
            scenario: None,
            bugs: Bugs::default(),
            without: Faults::default(),
            nodes: 0,
            shrink: true,
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Worlds run.
    pub worlds: u64,
    /// Simulated nanoseconds.
    pub simulated: u128,
    /// Things that happened.
    pub events: u64,
    /// Steps that machines took.
    pub steps: u64,
    /// Faults by kind.
    pub faults: Vec<(Fault, u64)>,
    /// Tenures that began.
    pub tenures: u64,
    /// Writes that resources accepted, and refused.
    pub resource: (u64, u64),
    /// How long takeovers from the dead took, in hundredths of a ttl, in order.
    pub takeovers: Vec<u32>,
    /// A hash of everything that happened.
    pub hash: u64,
    /// The broken promise, if one was.
    pub failure: Option<Failure>,
}

/// A broken promise and how to see it again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What was broken.
    pub violation: Violation,
    /// The scenario.
    pub scenario: &'static str,
    /// The world's seed.
    pub seed: u64,
    /// Events up to the violation, before and after shrinking.
    pub events: (u64, u64),
    /// One line that runs it again.
    pub replay: String,
    /// What happened last, line by line.
    pub timeline: Vec<String>,
}

/// One world that is to be run, or was.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) scenario: Scenario,
    pub(crate) setup: Setup,
}

impl Case {
    pub(crate) fn run(&self) -> World {
        let mut world = World::new(self.scenario.clone(), self.setup);
        world.run();
        world
    }
}

/// Runs worlds until enough hours were simulated or a promise is broken.
///
/// # Errors
/// When there is no scenario of that name.
pub fn run(options: &Options) -> Result<Report, InvalidInput> {
    let scenarios = match &options.scenario {
        None => scenario::all(),
        Some(name) => match scenario::named(name) {
            Some(scenario) => vec![scenario],
            None => {
                let names: Vec<_> = scenario::all().iter().map(|scenario| scenario.name).collect();
                return Err(InvalidInput::new(format!(
                    "there is no scenario {name:?}; there are {}",
                    names.join(", ")
                )));
            }
        },
    };
    let mut report = Report::default();
    let mut faults = [0u64; 32];
    let enough = (options.hours * 3600.0 * SECOND as f64) as u128;
    while report.simulated < enough && (options.worlds == 0 || report.worlds < options.worlds) {
        let scenario = scenarios[(report.worlds % scenarios.len() as u64) as usize].clone();
        let setup = Setup {
            seed: options.seed.wrapping_add(report.worlds),
            bugs: options.bugs,
            without: options.without,
            nodes: options.nodes,
            trace: false,
        };
        let case = Case { scenario, setup };
        let world = case.run();
        report.add(&world, &mut faults);
        if let Some(violation) = world.checks.broken {
            report.failure =
                Some(crate::shrink::explain(case, violation, world.tally.events, options.shrink));
            break;
        }
    }
    report.faults =
        Fault::ALL.iter().map(|fault| (*fault, faults[*fault as usize])).filter(|(_, n)| *n > 0).collect();
    report.takeovers.sort_unstable();
    Ok(report)
}

impl Report {
    fn add(&mut self, world: &World, faults: &mut [u64; 32]) {
        self.worlds += 1;
        self.simulated += u128::from(world.t);
        self.events += world.tally.events;
        self.steps += world.tally.steps;
        self.tenures += world.checks.tenures.count;
        self.resource.0 += world.checks.resource.accepted;
        self.resource.1 += world.checks.resource.refused;
        for (sum, n) in faults.iter_mut().zip(world.tally.faults) {
            *sum += n;
        }
        self.takeovers.extend_from_slice(&world.checks.takeovers.taken);
        self.hash = self.hash.rotate_left(7).wrapping_add(world.trace.hash);
    }

    /// Simulated seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.simulated as f64 / SECOND as f64
    }

    /// How many faults there were.
    #[must_use]
    pub fn fault_count(&self) -> u64 {
        self.faults.iter().map(|(_, n)| n).sum()
    }

    /// The takeover time in ttls below which this share of them lies.
    #[must_use]
    pub fn takeover(&self, share: f64) -> Option<f64> {
        let last = self.takeovers.len().checked_sub(1)?;
        let at = (share * last as f64).round() as usize;
        Some(f64::from(self.takeovers[at.min(last)]) / 100.0)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "worlds     {:>14}", self.worlds)?;
        writeln!(f, "simulated  {:>14.1} h ({:.3e} s)", self.seconds() / 3600.0, self.seconds())?;
        writeln!(f, "events     {:>14}", self.events)?;
        writeln!(f, "steps      {:>14}", self.steps)?;
        writeln!(f, "tenures    {:>14}", self.tenures)?;
        writeln!(f, "resource   {:>14} writes accepted, {} refused", self.resource.0, self.resource.1)?;
        write!(f, "takeovers  {:>14}", self.takeovers.len())?;
        if let (Some(p50), Some(p99), Some(max)) =
            (self.takeover(0.5), self.takeover(0.99), self.takeover(1.0))
        {
            write!(f, " from the dead: p50 {p50:.2}, p99 {p99:.2}, max {max:.2} ttl")?;
        }
        writeln!(f)?;
        writeln!(f, "faults     {:>14}", self.fault_count())?;
        for (fault, n) in &self.faults {
            writeln!(f, "           {n:>14} {}: {}", fault.name(), fault.about())?;
        }
        writeln!(f, "history    {:>14x}", self.hash)?;
        match &self.failure {
            None => write!(f, "no promise was broken"),
            Some(failure) => write!(f, "{failure}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.timeline {
            writeln!(f, "{line}")?;
        }
        let Violation { rule, at, text } = &self.violation;
        writeln!(f, "BROKEN at {:.6} s: {rule}: {}", *at as f64 / SECOND as f64, rule.about())?;
        writeln!(f, "  {text}")?;
        writeln!(f, "  after {} events, shrunk from {}", self.events.1, self.events.0)?;
        write!(f, "replay: {}", self.replay)
    }
}
