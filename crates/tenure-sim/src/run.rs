//! Running many worlds, and telling what came of it.

use crate::clock::SECOND;
use crate::coverage::Coverage;
use crate::fault::{Fault, Faults};
use crate::fleet;
use crate::invariants::Violation;
use crate::scenario::{self, Scenario};
use crate::sections;
use crate::world::{Setup, Tally, World};
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
    /// The scenario by name, see [`scenarios`]; none for all those of leases and elections in turn.
    pub scenario: Option<String>,
    /// Bugs on purpose. Always empty without the feature `bugs`.
    pub bugs: Bugs,
    /// Kinds of faults that do not happen.
    pub without: Faults,
    /// How many nodes take part; 0 for as many as the scenario has.
    pub nodes: usize,
    /// Whether to look for a shorter history when a promise is broken.
    pub shrink: bool,
    /// How many worlds run at a time, each on a thread of its own. The report is the same with any number.
    pub jobs: usize,
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
            jobs: 1,
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
    /// Moments that scenarios are about, by kind.
    pub coverage: Vec<(Coverage, u64)>,
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

/// All scenarios by name, with what each is about: those of leases and elections, then those of sections and of fleets, each with
/// a name for all of its kind by turns.
#[must_use]
pub fn scenarios() -> Vec<(&'static str, String)> {
    let own = scenario::all().into_iter().map(|scenario| {
        let Scenario { name, about, source, .. } = scenario;
        (name, format!("{about} ({source})"))
    });
    let others = sections::list().chain(fleet::list()).map(|(name, about)| (name, about.to_owned()));
    own.chain(others).collect()
}

/// Runs worlds until enough hours were simulated or a promise is broken.
///
/// # Errors
/// When there is no scenario of that name.
pub fn run(options: &Options) -> Result<Report, InvalidInput> {
    if let Some(name) = options.scenario.as_deref().filter(|name| sections::is_named(name)) {
        return Ok(sections::run(options, name));
    }
    if let Some(name) = options.scenario.as_deref().filter(|name| fleet::is_named(name)) {
        return Ok(fleet::run(options, name));
    }
    let scenarios = match &options.scenario {
        None => scenario::all(),
        Some(name) => match scenario::named(name) {
            Some(scenario) => vec![scenario],
            None => {
                let names: Vec<_> = scenarios().into_iter().map(|(name, _)| name).collect();
                return Err(InvalidInput::new(format!(
                    "there is no scenario {name:?}; there are {}",
                    names.join(", ")
                )));
            }
        },
    };
    let case = |number: u64| Case {
        scenario: scenarios[(number % scenarios.len() as u64) as usize].clone(),
        setup: Setup {
            seed: options.seed.wrapping_add(number),
            bugs: options.bugs,
            without: options.without,
            nodes: options.nodes,
            trace: false,
        },
    };
    let mut report = Report::default();
    let mut tally = Tally::default();
    let enough = (options.hours * 3600.0 * SECOND as f64) as u128;
    let last = if options.worlds == 0 { u64::MAX } else { options.worlds };
    let wanted =
        |report: &Report| report.failure.is_none() && report.simulated < enough && report.worlds < last;
    while wanted(&report) {
        let batch = if options.jobs > 1 { options.jobs as u64 * BATCH } else { 1 };
        let numbers = report.worlds..report.worlds.saturating_add(batch).min(last);
        for outcome in outcomes(numbers.map(case).collect(), options.jobs) {
            if !wanted(&report) {
                break;
            }
            let number = report.worlds;
            report.add(&outcome, &mut tally);
            if let Some(violation) = outcome.broken {
                let events = outcome.tally.events;
                report.failure =
                    Some(crate::shrink::explain(case(number), violation, events, options.shrink));
            }
        }
    }
    let counted = |counts: &[u64], kind: usize| Some(counts[kind]).filter(|n| *n > 0);
    report.faults = Fault::ALL
        .iter()
        .filter_map(|fault| Some((*fault, counted(&tally.faults, *fault as usize)?)))
        .collect();
    report.coverage = Coverage::ALL
        .iter()
        .filter_map(|coverage| Some((*coverage, counted(&tally.coverage, *coverage as usize)?)))
        .collect();
    report.takeovers.sort_unstable();
    Ok(report)
}

/// So many of the last lines of a timeline are shown to people.
const SHOWN: usize = 60;

/// So many worlds a thread are run between two looks at what came of them.
const BATCH: u64 = 32;

/// What is left of a world that has run.
struct Outcome {
    simulated: u64,
    tally: Tally,
    tenures: u64,
    resource: (u64, u64),
    takeovers: Vec<u32>,
    hash: u64,
    broken: Option<Violation>,
}

impl Outcome {
    fn of(case: &Case) -> Outcome {
        let world = case.run();
        let checks = world.checks;
        Outcome {
            simulated: world.t,
            tally: world.tally,
            tenures: checks.tenures.count,
            resource: (checks.resource.accepted, checks.resource.refused),
            takeovers: checks.takeovers.taken,
            hash: world.trace.hash,
            broken: checks.broken,
        }
    }
}

/// Runs these worlds on so many threads; the outcomes come in the worlds' order.
fn outcomes(cases: Vec<Case>, jobs: usize) -> Vec<Outcome> {
    let share = cases.len().div_ceil(jobs.max(1)).max(1);
    if share >= cases.len() {
        return cases.iter().map(Outcome::of).collect();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = cases
            .chunks(share)
            .map(|cases| scope.spawn(|| cases.iter().map(Outcome::of).collect::<Vec<_>>()))
            .collect();
        let joined = |thread: std::thread::ScopedJoinHandle<'_, Vec<Outcome>>| match thread.join() {
            Ok(outcomes) => outcomes,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().flat_map(joined).collect()
    })
}

impl Report {
    fn add(&mut self, outcome: &Outcome, tally: &mut Tally) {
        self.worlds += 1;
        self.simulated += u128::from(outcome.simulated);
        self.events += outcome.tally.events;
        self.steps += outcome.tally.steps;
        self.tenures += outcome.tenures;
        self.resource.0 += outcome.resource.0;
        self.resource.1 += outcome.resource.1;
        tally.add(&outcome.tally);
        self.takeovers.extend_from_slice(&outcome.takeovers);
        self.hash = self.hash.rotate_left(7).wrapping_add(outcome.hash);
    }

    /// How often there was this kind of moment.
    #[must_use]
    pub fn coverage(&self, coverage: Coverage) -> u64 {
        self.coverage.iter().find(|(kind, _)| *kind == coverage).map_or(0, |(_, n)| *n)
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
        writeln!(f, "moments")?;
        for (coverage, n) in &self.coverage {
            writeln!(f, "           {n:>14} {}: {}", coverage.name(), coverage.about())?;
        }
        writeln!(f, "history  {:016x}", self.hash)?;
        match &self.failure {
            None => write!(f, "no promise was broken"),
            Some(failure) => write!(f, "{failure}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let early = self.timeline.len().saturating_sub(SHOWN);
        if early > 0 {
            writeln!(f, "({early} earlier lines; with --json all of them)")?;
        }
        for line in &self.timeline[early..] {
            writeln!(f, "{line}")?;
        }
        let Violation { rule, at, text } = &self.violation;
        writeln!(f, "BROKEN at {:.6} s: {rule}: {}", *at as f64 / SECOND as f64, rule.about())?;
        writeln!(f, "  {text}")?;
        writeln!(f, "  after {} events, shrunk from {}", self.events.1, self.events.0)?;
        write!(f, "replay: {}", self.replay)
    }
}
