//! What a world of semaphores is like, as data.

use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, StoreSpec};
use tenure_core::semaphore::SemaphoreLedger;

/// What one key of a world is used as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyUse {
    pub(crate) permits: u32,
    /// The most that one user takes.
    pub(crate) most: u64,
    /// How many of a hundred want it exclusively.
    pub(crate) exclusive: u64,
    /// How many of a hundred barge.
    pub(crate) barging: u64,
}

/// Two at a time, three, or one that takes them all.
const COUNTED: KeyUse = KeyUse { permits: 3, most: 2, exclusive: 0, barging: 0 };
/// Readers, and now and then a writer.
const READ: KeyUse = KeyUse { permits: 1 << 20, most: 1, exclusive: 30, barging: 0 };
/// A fair lock.
const FAIR: KeyUse = KeyUse { permits: 1 << 20, most: 1, exclusive: 100, barging: 0 };

/// What a world of semaphores is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SemaphoreScenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) nodes: usize,
    pub(crate) tasks: usize,
    pub(crate) keys: &'static [KeyUse],
    pub(crate) wall_off_ms: u64,
    /// None: by the seed.
    pub(crate) store: Option<StoreSpec>,
    /// How many of a hundred users only try.
    pub(crate) trying: u64,
    /// Between two wishes of a user, and how long permits are held, in thousandths of a ttl.
    pub(crate) think: u64,
    pub(crate) hold: u64,
    pub(crate) gc: bool,
    /// The most that the store takes for a record.
    pub(crate) most_bytes: usize,
    /// Whoever puts older records back does so with sessions, and not with records of semaphores.
    pub(crate) restores_sessions: bool,
    /// The mean number of each fault that strikes in 100 ttls.
    pub(crate) faults: &'static [(FaultKind, f64)],
    /// The probability that a fault befalls a call.
    pub(crate) calls: &'static [(FaultKind, f64)],
    pub(crate) excused: &'static [Rule],
}

const CALLS: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.05),
    (FaultKind::Slow, 0.04),
    (FaultKind::Zombie, 0.04),
    (FaultKind::Duplicated, 0.04),
    (FaultKind::Refused, 0.02),
    (FaultKind::Denied, 0.01),
    (FaultKind::HintLost, 0.1),
    (FaultKind::PauseMidStep, 0.01),
];

/// Nothing is under way for long: what lands after a record was deleted would have fences from before that.
const GENTLE: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.04),
    (FaultKind::Refused, 0.02),
    (FaultKind::Denied, 0.01),
    (FaultKind::HintLost, 0.1),
];

const LATE_HINTS: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.04),
    (FaultKind::Slow, 0.04),
    (FaultKind::Refused, 0.02),
    (FaultKind::HintLost, 0.2),
    (FaultKind::HintLate, 0.4),
];

/// What the others differ from.
const USUAL: SemaphoreScenario = SemaphoreScenario {
    name: "semaphores",
    about: "four processes share the permits of two keys, as a semaphore and as readers and writers; the usual faults",
    nodes: 4,
    tasks: 2,
    keys: &[COUNTED, READ],
    wall_off_ms: 3_600_000,
    store: None,
    trying: 10,
    think: 1500,
    hold: 1000,
    gc: false,
    most_bytes: SemaphoreLedger::MAX_BYTES,
    restores_sessions: false,
    faults: &[
        (FaultKind::Pause, 5.0),
        (FaultKind::Crash, 5.0),
        (FaultKind::Suspend, 2.0),
        (FaultKind::Rate, 4.0),
        (FaultKind::WallJump, 2.0),
        (FaultKind::Cut, 3.0),
        (FaultKind::CutAnswers, 3.0),
        (FaultKind::CutRequests, 2.0),
        (FaultKind::Flap, 1.0),
        (FaultKind::StoreDown, 1.0),
        (FaultKind::Throttle, 1.0),
        (FaultKind::SpuriousWake, 10.0),
        (FaultKind::SpuriousHint, 10.0),
    ],
    calls: CALLS,
    excused: &[],
};

pub(crate) const SCENARIOS: &[SemaphoreScenario] = &[
    USUAL,
    SemaphoreScenario {
        name: "semaphores-crowd",
        about: "a fair lock and a single semaphore that six processes with three users each want most of the time",
        nodes: 6,
        tasks: 3,
        keys: &[FAIR, KeyUse { barging: 20, ..COUNTED }],
        think: 300,
        hold: 300,
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-hands",
        about: "somebody deletes records of semaphores, and puts back older ones",
        wall_off_ms: 0,
        faults: &[
            (FaultKind::RecordDeleted, 8.0),
            (FaultKind::RecordRestored, 8.0),
            (FaultKind::Deleted, 2.0),
            (FaultKind::Crash, 4.0),
            (FaultKind::Pause, 4.0),
            (FaultKind::Rate, 4.0),
            (FaultKind::Cut, 3.0),
            (FaultKind::StoreDown, 1.0),
        ],
        calls: GENTLE,
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-hints",
        about: "a store that pushes hints, of which many come late, out of order, or not at all",
        store: Some(StoreSpec { ages: Ages::Fine, push: true, lags: false }),
        calls: LATE_HINTS,
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-sessions",
        about: "somebody deletes sessions of processes that hold permits and wait for them, and puts back older ones; the usual faults",
        restores_sessions: true,
        faults: &[
            (FaultKind::Deleted, 8.0),
            (FaultKind::RecordRestored, 8.0),
            (FaultKind::Pause, 5.0),
            (FaultKind::Crash, 5.0),
            (FaultKind::Suspend, 2.0),
            (FaultKind::Rate, 4.0),
            (FaultKind::WallJump, 2.0),
            (FaultKind::Cut, 3.0),
            (FaultKind::CutAnswers, 3.0),
            (FaultKind::CutRequests, 2.0),
            (FaultKind::Flap, 1.0),
            (FaultKind::StoreDown, 1.0),
            (FaultKind::Throttle, 1.0),
            (FaultKind::SpuriousWake, 10.0),
            (FaultKind::SpuriousHint, 10.0),
        ],
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-failover",
        about: "the store loses acknowledged writes: only fences hold, and in the calm the queues go on",
        wall_off_ms: 0,
        faults: &[
            (FaultKind::Failover, 30.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: GENTLE,
        excused: &[Rule::S8, Rule::S3, Rule::S4],
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-hidden",
        about: "machines whose time is hidden from them: fences hold, beliefs may not",
        faults: &[
            (FaultKind::Hidden, 8.0),
            (FaultKind::Frozen, 4.0),
            (FaultKind::Crash, 4.0),
            (FaultKind::Pause, 4.0),
            (FaultKind::Rate, 4.0),
        ],
        keys: &[FAIR, COUNTED],
        excused: &[Rule::S8, Rule::S3],
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-gc",
        about: "records of semaphores that nobody uses are removed, and so are sessions that no claim names",
        nodes: 3,
        wall_off_ms: 0,
        think: 9000,
        gc: true,
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        faults: &[
            (FaultKind::Crash, 10.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Rate, 4.0),
            (FaultKind::StoreDown, 1.0),
        ],
        calls: GENTLE,
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-trying",
        about: "a fair lock that many only try for, again and again, where the store tells ages and wall clocks agree",
        tasks: 3,
        keys: &[FAIR],
        wall_off_ms: 100,
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        trying: 100,
        think: 600,
        faults: &[
            (FaultKind::Crash, 10.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Rate, 4.0),
            (FaultKind::StoreDown, 1.0),
        ],
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-calm",
        about: "nothing goes wrong but that processes come and go",
        wall_off_ms: 0,
        faults: &[(FaultKind::Crash, 4.0)],
        calls: &[],
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-store-clock",
        about: "the store's clock jumps by up to an hour; wall clocks are right",
        wall_off_ms: 0,
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        faults: &[
            (FaultKind::StoreClock, 40.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-full",
        about: "a fair lock whose record has room for three claims, of the twelve users of four processes: now and then for those of the dead alone",
        tasks: 3,
        keys: &[FAIR],
        wall_off_ms: 100,
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        // Who only tries looks for the dead anyway.
        trying: 0,
        think: 300,
        most_bytes: 160,
        faults: &[
            (FaultKind::Crash, 10.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Rate, 4.0),
            (FaultKind::StoreDown, 1.0),
        ],
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-decades",
        about: "the usual faults, and wall clocks that jump by up to ten years, either way",
        faults: &[
            (FaultKind::WallDecade, 6.0),
            (FaultKind::Pause, 5.0),
            (FaultKind::Crash, 5.0),
            (FaultKind::Suspend, 2.0),
            (FaultKind::Rate, 4.0),
            (FaultKind::Cut, 3.0),
            (FaultKind::CutAnswers, 3.0),
            (FaultKind::CutRequests, 2.0),
            (FaultKind::StoreDown, 1.0),
            (FaultKind::SpuriousHint, 10.0),
        ],
        ..USUAL
    },
    SemaphoreScenario {
        name: "semaphores-damaged",
        about: "records of semaphores and sessions are damaged for a while, and one semaphore is forbidden for good: nobody's permits are given away for that, and the others go on",
        keys: &[COUNTED, READ, FAIR],
        wall_off_ms: 0,
        faults: &[
            (FaultKind::RecordDamaged, 20.0),
            (FaultKind::Forbidden, 2.0),
            (FaultKind::Crash, 4.0),
            (FaultKind::Pause, 4.0),
            (FaultKind::Cut, 3.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: GENTLE,
        ..USUAL
    },
];
