//! Worlds of sections: processes that lease ranges of one key space, with everything going wrong that can.
//!
//! The real machine of `tenure-core` is stepped, as in the worlds of leases; a section has no session, no mail and no waiting, so
//! its world is a smaller one.

mod faults;
mod gc;
mod messages;
mod users;
mod world;

use crate::fault::{Fault, Faults, KINDS};
use crate::registers::Ages;
use crate::run::{Failure, Options, Report};
use world::World;

/// What a world of sections is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) nodes: usize,
    pub(crate) tasks: usize,
    /// The longest duration that is asked for.
    pub(crate) duration_ms: u64,
    pub(crate) wall_off_ms: u64,
    /// How well the store tells ages: one of these, by the seed.
    pub(crate) ages: &'static [Ages],
    /// Processes live only as long as one lease of theirs, or shorter, and others follow soon.
    pub(crate) brief: bool,
    pub(crate) gc: bool,
    /// The clock of whoever runs `gc` is off by up to this much.
    pub(crate) gc_off_ms: u64,
    /// The most ranges that the section holds.
    pub(crate) most_parts: usize,
    /// Users look at what is leased, have what is over collected, and stop their process in good order.
    pub(crate) asks: bool,
    /// The mean number of each fault in 100 durations.
    pub(crate) faults: &'static [(Fault, f64)],
    /// The probability that a fault befalls a call.
    pub(crate) calls: &'static [(Fault, f64)],
}

const CALLS: &[(Fault, f64)] = &[
    (Fault::RequestLost, 0.04),
    (Fault::AnswerLost, 0.06),
    (Fault::Slow, 0.05),
    (Fault::Zombie, 0.05),
    (Fault::Duplicated, 0.05),
    (Fault::Refused, 0.03),
    (Fault::PauseMidStep, 0.02),
];

const SPECS: &[Spec] = &[
    Spec {
        name: "sections",
        about: "four processes lease ranges of one section, the usual faults",
        nodes: 4,
        tasks: 2,
        duration_ms: 10_000,
        wall_off_ms: 3_600_000,
        ages: &[Ages::Untold, Ages::Fine],
        brief: false,
        gc: false,
        gc_off_ms: 0,
        most_parts: 1000,
        asks: false,
        faults: &[
            (Fault::Pause, 12.0),
            (Fault::Crash, 10.0),
            (Fault::Suspend, 6.0),
            (Fault::Rate, 8.0),
            (Fault::WallJump, 6.0),
            (Fault::WallDecade, 2.0),
            (Fault::SpuriousWake, 20.0),
        ],
        calls: CALLS,
    },
    Spec {
        name: "sections-clocks",
        about: "as above; the store's clock jumps, wall clocks are right, and records are removed when all in them is long over",
        nodes: 3,
        tasks: 2,
        duration_ms: 10_000,
        wall_off_ms: 0,
        ages: &[Ages::Fine],
        brief: false,
        gc: true,
        gc_off_ms: 0,
        most_parts: 1000,
        asks: false,
        faults: &[
            (Fault::StoreClock, 20.0),
            (Fault::Pause, 10.0),
            (Fault::Crash, 10.0),
            (Fault::Suspend, 4.0),
            (Fault::Rate, 8.0),
        ],
        calls: CALLS,
    },
    Spec {
        name: "sections-asked",
        about: "processes also look, collect what is over and stop; few ranges fit; records are removed by somebody whose clock is wrong",
        nodes: 3,
        tasks: 3,
        duration_ms: 10_000,
        wall_off_ms: 0,
        ages: &[Ages::Fine],
        brief: false,
        gc: true,
        gc_off_ms: 3_600_000,
        most_parts: 6,
        asks: true,
        faults: &[(Fault::Pause, 10.0), (Fault::Crash, 20.0), (Fault::Suspend, 4.0), (Fault::Rate, 8.0)],
        calls: CALLS,
    },
    Spec {
        name: "sections-brief",
        about: "only processes that live shorter than a lease, one after the other; ages fall short by seconds, and the store's clock is set",
        nodes: 4,
        tasks: 1,
        duration_ms: 10_000,
        wall_off_ms: 100,
        ages: &[Ages::Coarse, Ages::Dated],
        brief: true,
        gc: false,
        gc_off_ms: 0,
        most_parts: 1000,
        asks: false,
        faults: &[(Fault::Crash, 20.0), (Fault::Rate, 8.0), (Fault::StoreClock, 4.0)],
        calls: &[(Fault::RequestLost, 0.02), (Fault::AnswerLost, 0.03), (Fault::Duplicated, 0.02)],
    },
    Spec {
        name: "sections-calm",
        about: "nothing goes wrong: every command is answered, and what is over is free again",
        nodes: 3,
        tasks: 3,
        duration_ms: 10_000,
        wall_off_ms: 0,
        ages: &[Ages::Untold, Ages::Fine],
        brief: false,
        gc: false,
        gc_off_ms: 0,
        most_parts: 1000,
        asks: false,
        faults: &[],
        calls: &[],
    },
];

/// The worlds of sections, by name, and what each is about.
pub(crate) fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    SPECS.iter().map(|spec| (spec.name, spec.about)).chain([(ALL, "all worlds of sections by turns")])
}

/// Whether this is the name of a world of sections, or `sections-all`.
pub(crate) fn is_named(name: &str) -> bool {
    name == ALL || SPECS.iter().any(|spec| spec.name == name)
}

const ALL: &str = "sections-all";

/// Runs worlds of sections, as [`crate::run()`] runs those of leases.
pub(crate) fn run(options: &Options, name: &str) -> Report {
    let specs: Vec<Spec> = SPECS.iter().filter(|spec| name == ALL || spec.name == name).copied().collect();
    let mut report = Report::default();
    let mut faults = [0u64; KINDS];
    let enough = (options.hours * 3600.0 * crate::clock::SECOND as f64) as u128;
    while report.simulated < enough && (options.worlds == 0 || report.worlds < options.worlds) {
        let Some(spec) = specs.get((report.worlds % specs.len().max(1) as u64) as usize) else { break };
        let seed = options.seed.wrapping_add(report.worlds);
        let world = World::run(*spec, seed, options.bugs, options.without, false);
        report.worlds += 1;
        report.simulated += u128::from(world.t);
        report.events += world.events;
        report.steps += world.steps;
        report.tenures += world.entries.count;
        report.resource.0 += world.resource.accepted;
        report.resource.1 += world.resource.refused;
        for (sum, n) in faults.iter_mut().zip(world.faults) {
            *sum += n;
        }
        report.hash = report.hash.rotate_left(7).wrapping_add(world.hash);
        if let Some(violation) = world.broken {
            // The same world again, this time told.
            let told = World::run(*spec, seed, options.bugs, options.without, true);
            report.failure = Some(Failure {
                violation,
                scenario: spec.name,
                seed,
                events: (world.events, world.events),
                replay: replay(spec, seed, options.bugs, options.without),
                timeline: told.lines,
            });
            break;
        }
    }
    report.faults =
        Fault::ALL.iter().map(|fault| (*fault, faults[*fault as usize])).filter(|(_, n)| *n > 0).collect();
    report
}

fn replay(spec: &Spec, seed: u64, bugs: tenure_core::Bugs, without: Faults) -> String {
    let mut line = format!("tenure sim --scenario {} --seed {seed} --worlds 1", spec.name);
    for bug in tenure_core::Bug::ALL.iter().filter(|bug| bugs.has(**bug)) {
        line += &format!(" --bug {bug:?}");
    }
    let without: Vec<_> = without.names().collect();
    if !without.is_empty() {
        line += &format!(" --without {}", without.join(","));
    }
    line
}
