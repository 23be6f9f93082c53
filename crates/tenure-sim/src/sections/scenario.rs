//! What a world of sections is like, as data.

use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::Ages;

/// What a world of sections is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectionScenario {
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
    /// The mean number of each fault that strikes in 100 durations.
    pub(crate) faults: &'static [(FaultKind, f64)],
    /// The probability that a fault befalls a call.
    pub(crate) calls: &'static [(FaultKind, f64)],
    pub(crate) excused: &'static [Rule],
}

const CALLS: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.04),
    (FaultKind::AnswerLost, 0.06),
    (FaultKind::Slow, 0.05),
    (FaultKind::Zombie, 0.05),
    (FaultKind::Duplicated, 0.05),
    (FaultKind::Refused, 0.03),
    (FaultKind::Denied, 0.01),
    (FaultKind::PauseMidStep, 0.02),
];

/// Nothing is under way for long: what lands after a record was deleted would have a fence from before that.
const GENTLE: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.04),
    (FaultKind::Refused, 0.02),
    (FaultKind::Denied, 0.01),
];

/// What the others differ from.
const USUAL: SectionScenario = SectionScenario {
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
        (FaultKind::Pause, 12.0),
        (FaultKind::Crash, 10.0),
        (FaultKind::Suspend, 6.0),
        (FaultKind::Rate, 8.0),
        (FaultKind::WallJump, 6.0),
        (FaultKind::WallDecade, 2.0),
        (FaultKind::Cut, 6.0),
        (FaultKind::CutAnswers, 4.0),
        (FaultKind::CutRequests, 3.0),
        (FaultKind::Flap, 2.0),
        (FaultKind::StoreDown, 1.0),
        (FaultKind::Throttle, 1.0),
        (FaultKind::SpuriousWake, 20.0),
    ],
    calls: CALLS,
    excused: &[],
};

pub(crate) const SCENARIOS: &[SectionScenario] = &[
    USUAL,
    SectionScenario {
        name: "sections-clocks",
        about: "as above; the store's clock jumps, wall clocks are right, and records are removed when all in them is long over",
        nodes: 3,
        wall_off_ms: 0,
        ages: &[Ages::Fine],
        gc: true,
        faults: &[
            (FaultKind::StoreClock, 20.0),
            (FaultKind::Pause, 10.0),
            (FaultKind::Crash, 10.0),
            (FaultKind::Suspend, 4.0),
            (FaultKind::Rate, 8.0),
        ],
        ..USUAL
    },
    SectionScenario {
        name: "sections-shared-clock",
        about: "the store's host is set ahead, and a process there with it: what it sees of ages then is not what has passed",
        wall_off_ms: 0,
        ages: &[Ages::Fine],
        faults: &[(FaultKind::SharedClock, 30.0), (FaultKind::Pause, 10.0), (FaultKind::Rate, 8.0)],
        ..USUAL
    },
    SectionScenario {
        name: "sections-asked",
        about: "processes also look, collect what is over and stop; few ranges fit; records are removed by somebody whose clock is wrong",
        nodes: 3,
        tasks: 3,
        wall_off_ms: 0,
        ages: &[Ages::Fine],
        gc: true,
        gc_off_ms: 3_600_000,
        most_parts: 6,
        asks: true,
        faults: &[
            (FaultKind::Pause, 10.0),
            (FaultKind::Crash, 20.0),
            (FaultKind::Suspend, 4.0),
            (FaultKind::Rate, 8.0),
            (FaultKind::Cut, 6.0),
            (FaultKind::CutAnswers, 4.0),
            (FaultKind::StoreDown, 1.0),
        ],
        ..USUAL
    },
    SectionScenario {
        name: "sections-long",
        about: "leases of minutes, and a store that often denies a write: what was given up is free soon after that",
        duration_ms: 200_000,
        faults: &[(FaultKind::Pause, 10.0), (FaultKind::Crash, 10.0), (FaultKind::CutAnswers, 4.0)],
        calls: &[
            (FaultKind::RequestLost, 0.02),
            (FaultKind::AnswerLost, 0.04),
            (FaultKind::Refused, 0.02),
            (FaultKind::Denied, 0.03),
        ],
        ..USUAL
    },
    SectionScenario {
        name: "sections-brief",
        about: "only processes that live shorter than a lease, one after the other; ages fall short by seconds, and the store's clock is set",
        tasks: 1,
        wall_off_ms: 100,
        ages: &[Ages::Coarse, Ages::Dated],
        brief: true,
        faults: &[(FaultKind::Crash, 20.0), (FaultKind::Rate, 8.0), (FaultKind::StoreClock, 4.0)],
        calls: &[
            (FaultKind::RequestLost, 0.02),
            (FaultKind::AnswerLost, 0.03),
            (FaultKind::Duplicated, 0.02),
        ],
        ..USUAL
    },
    SectionScenario {
        name: "sections-failover",
        about: "the store loses acknowledged writes: only fences hold, and in the calm every command is answered and all is had again",
        wall_off_ms: 0,
        faults: &[
            (FaultKind::Failover, 30.0),
            (FaultKind::Crash, 10.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: &[(FaultKind::RequestLost, 0.03), (FaultKind::AnswerLost, 0.04), (FaultKind::Refused, 0.02)],
        excused: &[Rule::S7, Rule::S3, Rule::S4],
        ..USUAL
    },
    SectionScenario {
        name: "sections-calm",
        about: "nothing goes wrong: every command is answered, and what is over is free again",
        nodes: 3,
        tasks: 3,
        wall_off_ms: 0,
        faults: &[],
        calls: &[],
        ..USUAL
    },
    SectionScenario {
        name: "sections-hands",
        about: "somebody deletes the record, puts back older copies of it, and damages it for a while: what is leased after that is disjoint again, and fences hold all the time",
        wall_off_ms: 0,
        asks: true,
        faults: &[
            (FaultKind::RecordDeleted, 10.0),
            (FaultKind::RecordRestored, 10.0),
            (FaultKind::RecordDamaged, 10.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: GENTLE,
        ..USUAL
    },
    SectionScenario {
        name: "sections-hidden",
        about: "machines whose time is hidden from them: fences hold, beliefs may not",
        faults: &[
            (FaultKind::Hidden, 30.0),
            (FaultKind::Frozen, 10.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::CutAnswers, 10.0),
            (FaultKind::Rate, 4.0),
        ],
        excused: &[Rule::S7, Rule::S3],
        ..USUAL
    },
];
