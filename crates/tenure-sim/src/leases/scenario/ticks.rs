//! Users that run something once per tick.

use super::{LeaseScenario, USERS, USUAL, UserBehaviour};
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, StoreSpec};

const TICKS: UserBehaviour = UserBehaviour {
    ticks: 6,
    tasks: 2,
    think: 1500,
    hold: 2500,
    attached: 50,
    mail: 0,
    tokens: 0,
    gc: 0,
    ..USERS
};

pub(super) const ALL: &[LeaseScenario] = &[
    LeaseScenario {
        name: "ticks",
        about: "all run a job once per tick, one at most and one at least, and die in the middle; clocks differ",
        source: "the promise Ticks; ShedLock issues 6, 639 and 870",
        keys: 2,
        wall_off_ms: 5000,
        users: TICKS,
        faults: &[
            (FaultKind::Crash, 20.0),
            (FaultKind::Pause, 10.0),
            (FaultKind::Rate, 4.0),
            (FaultKind::Cut, 4.0),
            (FaultKind::CutAnswers, 4.0),
            (FaultKind::StoreDown, 2.0),
            (FaultKind::Suspend, 2.0),
            (FaultKind::ForcedRelease, 4.0),
        ],
        calls: CALLS,
        deaths: false,
        ..USUAL
    },
    LeaseScenario {
        name: "ticks-clocks",
        about: "the same with clocks that jump by an hour: no tick runs more often for that",
        source: "the promise Ticks; hosts' wall clocks that are set",
        keys: 2,
        users: TICKS,
        faults: &[
            (FaultKind::WallJump, 20.0),
            (FaultKind::Crash, 10.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
        ],
        calls: CALLS,
        deaths: false,
        ..USUAL
    },
    LeaseScenario {
        name: "ticks-gc",
        about: "the same, and gc removes what is not needed any more; some come with ticks that are long over",
        source: "the promise Ticks, through garbage collection",
        keys: 4,
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        wall_off_ms: 40,
        users: UserBehaviour { gc: 3000, think: 12_000, hold: 1000, ticks: 12, ..TICKS },
        faults: &[(FaultKind::Crash, 6.0), (FaultKind::Pause, 4.0)],
        deaths: false,
        chaos: 80,
        ..USUAL
    },
];

const CALLS: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.06),
    (FaultKind::Slow, 0.04),
    (FaultKind::Zombie, 0.03),
    (FaultKind::Refused, 0.02),
    (FaultKind::Denied, 0.02),
    (FaultKind::HintLost, 0.1),
    (FaultKind::PauseMidStep, 0.02),
];
