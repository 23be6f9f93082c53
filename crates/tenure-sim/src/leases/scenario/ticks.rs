//! Users that run something once per tick.

use super::{Scenario, USERS, USUAL, Users};
use crate::kernel::fault::Fault;
use crate::kernel::registers::{Ages, StoreSpec};

const TICKS: Users =
    Users { ticks: 6, tasks: 2, think: 1500, hold: 2500, attached: 50, mail: 0, tokens: 0, gc: 0, ..USERS };

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "ticks",
            about: "all run a job once per tick, one at most and one at least, and die in the middle; clocks differ",
            source: "the promise Ticks; ShedLock issues 6, 639 and 870",
            keys: 2,
            wall_off_ms: 5000,
            users: TICKS,
            faults: &[
                (Fault::Crash, 20.0),
                (Fault::Pause, 10.0),
                (Fault::Rate, 4.0),
                (Fault::Cut, 4.0),
                (Fault::CutAnswers, 4.0),
                (Fault::StoreDown, 2.0),
                (Fault::Suspend, 2.0),
                (Fault::ForcedRelease, 4.0),
            ],
            calls: CALLS,
            deaths: false,
            ..USUAL
        },
        Scenario {
            name: "ticks-clocks",
            about: "the same with clocks that jump by an hour: no tick runs more often for that",
            source: "the promise Ticks; hosts' wall clocks that are set",
            keys: 2,
            users: TICKS,
            faults: &[(Fault::WallJump, 20.0), (Fault::Crash, 10.0), (Fault::Pause, 6.0), (Fault::Cut, 4.0)],
            calls: CALLS,
            deaths: false,
            ..USUAL
        },
        Scenario {
            name: "ticks-gc",
            about: "the same, and gc removes what is not needed any more; some come with ticks that are long over",
            source: "the promise Ticks, through garbage collection",
            keys: 4,
            store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
            wall_off_ms: 40,
            users: Users { gc: 3000, think: 12_000, hold: 1000, ticks: 12, ..TICKS },
            faults: &[(Fault::Crash, 6.0), (Fault::Pause, 4.0)],
            deaths: false,
            chaos: 80,
            ..USUAL
        },
    ]
}

const CALLS: &[(Fault, f64)] = &[
    (Fault::RequestLost, 0.03),
    (Fault::AnswerLost, 0.06),
    (Fault::Slow, 0.04),
    (Fault::Zombie, 0.03),
    (Fault::Refused, 0.02),
    (Fault::Denied, 0.02),
    (Fault::HintLost, 0.1),
    (Fault::PauseMidStep, 0.02),
];
