//! Running many worlds, of whatever kind.

use super::clock::SECOND;
use super::fault::FaultSet;
use super::play::{Play, ScenarioOf, WorldOutcome};
use super::report::SimReport;
use super::shrink;
use super::world::scene::{Frame, Scene};
use super::world::{WorldSetup, WorldTally};
use crate::fleet::{self, FleetScene};
use crate::invariants::Rule;
use crate::leases::{LeasesScene, scenario};
use crate::sections::{self, SectionsScene};
use crate::semaphores::{self, SemaphoresScene};
use tenure_core::{Bugs, InvalidInput};

/// What to run.
#[derive(Debug, Clone)]
pub struct SimOptions {
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
    pub without: FaultSet,
    /// How many nodes take part; 0 for as many as the scenario has.
    pub nodes: usize,
    /// The one promise that is checked; none for all of them. What breaks several shows the one that is checked first, so that the
    /// others' checks are seen to work in no other way.
    pub only: Option<Rule>,
    /// Whether to look for a shorter history when a promise is broken.
    pub shrink: bool,
    /// How many worlds run at a time, each on a thread of its own. The report is the same with any number.
    pub jobs: usize,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            seed: 1,
            hours: 100.0,
            worlds: 0,
            scenario: None,
            bugs: Bugs::default(),
            without: FaultSet::default(),
            nodes: 0,
            only: None,
            shrink: true,
            jobs: 1,
        }
    }
}

/// One kind of world, with all its scenarios.
struct WorldKind {
    /// Names them all, by turns.
    all: &'static str,
    about: &'static str,
    plays: Vec<Box<dyn Play>>,
}

impl WorldKind {
    fn of<S: Scene>(all: &'static str, about: &'static str, scenarios: &[S::Scenario]) -> WorldKind {
        let play = |scenario: &S::Scenario| Box::new(ScenarioOf::<S>(*scenario)) as Box<dyn Play>;
        WorldKind { all, about, plays: scenarios.iter().map(play).collect() }
    }
}

/// All kinds of worlds.
fn kinds() -> [WorldKind; 4] {
    [
        WorldKind::of::<LeasesScene>("all", "all worlds of leases and elections by turns", &scenario::all()),
        WorldKind::of::<SectionsScene>(
            "sections-all",
            "all worlds of sections by turns",
            sections::SCENARIOS,
        ),
        WorldKind::of::<SemaphoresScene>(
            "semaphores-all",
            "all worlds of semaphores by turns",
            semaphores::SCENARIOS,
        ),
        WorldKind::of::<FleetScene>("fleet-all", "all worlds of fleets by turns", &fleet::scenarios()),
    ]
}

/// All scenarios by name, with what each is about: those of leases and elections, of sections, of semaphores and of fleets, each with a name for
/// all of its kind by turns.
#[must_use]
pub fn scenarios() -> Vec<(&'static str, String)> {
    let of = |kind: WorldKind| {
        let own = kind.plays.iter().map(|play| play.frame()).map(|Frame { name, about, source, .. }| {
            (name, if source.is_empty() { about.to_owned() } else { format!("{about} ({source})") })
        });
        own.chain([(kind.all, kind.about.to_owned())]).collect::<Vec<_>>()
    };
    kinds().into_iter().flat_map(of).collect()
}

/// The scenarios that are meant by a name: those of leases by none.
fn named(name: Option<&str>) -> Result<Vec<Box<dyn Play>>, InvalidInput> {
    let name = name.unwrap_or("all");
    for WorldKind { all, mut plays, .. } in kinds() {
        plays.retain(|play| name == all || name == play.frame().name);
        if !plays.is_empty() {
            return Ok(plays);
        }
    }
    let names: Vec<_> = scenarios().into_iter().map(|(name, _)| name).collect();
    Err(InvalidInput::new(format!("there is no scenario {name:?}; there are {}", names.join(", "))))
}

/// Runs worlds until enough hours were simulated or a promise is broken.
///
/// # Errors
/// When there is no scenario of that name.
pub fn run(options: &SimOptions) -> Result<SimReport, InvalidInput> {
    let plays = named(options.scenario.as_deref())?;
    let case = |number: u64| {
        let setup = WorldSetup {
            seed: options.seed.wrapping_add(number),
            bugs: options.bugs,
            without: options.without,
            nodes: options.nodes,
            only: options.only,
            trace: false,
        };
        (&*plays[(number % plays.len() as u64) as usize], setup)
    };
    let mut report = SimReport::default();
    let mut tally = WorldTally::default();
    let enough = (options.hours * 3600.0 * SECOND as f64) as u128;
    let last = if options.worlds == 0 { u64::MAX } else { options.worlds };
    let wanted =
        |report: &SimReport| report.failure.is_none() && report.simulated < enough && report.worlds < last;
    while wanted(&report) {
        let batch = if options.jobs > 1 { options.jobs as u64 * BATCH } else { 1 };
        let numbers = report.worlds..report.worlds.saturating_add(batch).min(last);
        for outcome in outcomes(&numbers.map(case).collect::<Vec<_>>(), options.jobs) {
            if !wanted(&report) {
                break;
            }
            let (play, setup) = case(report.worlds);
            report.add(&outcome, &mut tally);
            report.failure = shrink::explain(play, setup, &outcome, options.shrink);
        }
    }
    report.finish(&tally);
    Ok(report)
}

/// So many worlds a thread are run between two looks at what came of them.
const BATCH: u64 = 32;

/// Runs these worlds on so many threads; the outcomes come in the worlds' order.
fn outcomes(cases: &[(&dyn Play, WorldSetup)], jobs: usize) -> Vec<WorldOutcome> {
    let play = |(play, setup): &(&dyn Play, WorldSetup)| play.play(*setup, u64::MAX);
    let share = cases.len().div_ceil(jobs.max(1)).max(1);
    if share >= cases.len() {
        return cases.iter().map(play).collect();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = cases
            .chunks(share)
            .map(|cases| scope.spawn(move || cases.iter().map(play).collect::<Vec<_>>()))
            .collect();
        let joined = |thread: std::thread::ScopedJoinHandle<'_, Vec<WorldOutcome>>| match thread.join() {
            Ok(outcomes) => outcomes,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().flat_map(joined).collect()
    })
}
