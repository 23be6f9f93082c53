//! Users that live too short to watch, and `gc` by clocks that are ahead.

use super::{LeaseScenario, USERS, USUAL, UserBehaviour};
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, StoreSpec};

const AGES: Option<StoreSpec> = Some(StoreSpec { ages: Ages::Fine, push: false, lags: false });

const AGELESS: Option<StoreSpec> = Some(StoreSpec { ages: Ages::Untold, push: false, lags: false });

const CRON: UserBehaviour = UserBehaviour {
    tasks: 1,
    trying: 100,
    fleeting: true,
    attached: 60,
    think: 2500,
    hold: 3000,
    mail: 0,
    tokens: 0,
    ..USERS
};

/// Where records are deleted: a claim that is repeated after that takes effect once more, and then only fences hold.
const CALLS: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.04),
    (FaultKind::Refused, 0.02),
    (FaultKind::PauseMidStep, 0.004),
    (FaultKind::PauseBeforeEffect, 0.1),
];

pub(super) const ALL: &[LeaseScenario] = &[
    LeaseScenario {
        name: "cron",
        about: "every process tries once and ends; sessions are deleted by hand, and gc ends and removes them",
        source: "the promise L1; tenure run --try",
        nodes: 4,
        keys: 8,
        store: AGES,
        wall_off_ms: 40,
        users: UserBehaviour { gc: 2000, think: 5000, ..CRON },
        faults: &[
            (FaultKind::Crash, 20.0),
            (FaultKind::Deleted, 20.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: CALLS,
        chaos: 20,
        calm: 60,
        ..USUAL
    },
    LeaseScenario {
        name: "cron-clocks",
        about: "every process tries once and ends; holders die whose wall clocks were years ahead",
        source: "the promise L1; tenure run --try",
        nodes: 5,
        store: AGES,
        users: UserBehaviour { gc: 0, attached: 80, think: 800, ..CRON },
        faults: &[
            (FaultKind::WallDecade, 10.0),
            (FaultKind::WallJump, 10.0),
            (FaultKind::Crash, 10.0),
            (FaultKind::Deleted, 60.0),
            (FaultKind::Pause, 4.0),
        ],
        calls: CALLS,
        chaos: 20,
        calm: 60,
        ..USUAL
    },
    LeaseScenario {
        name: "cron-hosts",
        about: "every process tries once and ends, and the store tells no ages; wall clocks are wrong, and machines restart",
        source: "the promise L1; tenure run --try on etcd",
        nodes: 4,
        store: AGELESS,
        users: UserBehaviour { gc: 0, attached: 50, think: 800, ..CRON },
        faults: &[
            (FaultKind::WallDecade, 6.0),
            (FaultKind::WallJump, 15.0),
            (FaultKind::Crash, 10.0),
            (FaultKind::Reboot, 10.0),
            (FaultKind::Deleted, 30.0),
            (FaultKind::Suspend, 6.0),
            (FaultKind::Pause, 4.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: CALLS,
        chaos: 30,
        calm: 60,
        ..USUAL
    },
    LeaseScenario {
        name: "cron-clones",
        about: "the same on clones of one machine, which go by one boot though their time lines differ",
        source: "the promise S1: one witness is never enough",
        nodes: 4,
        store: AGELESS,
        clones: true,
        wall_off_ms: 40,
        users: UserBehaviour { gc: 0, attached: 50, think: 800, ..CRON },
        faults: &[
            (FaultKind::Crash, 10.0),
            (FaultKind::Reboot, 6.0),
            (FaultKind::Deleted, 120.0),
            (FaultKind::Suspend, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: CALLS,
        chaos: 30,
        calm: 60,
        ..USUAL
    },
    LeaseScenario {
        name: "orphans",
        about: "claims land when their process has long stopped looking for them, and all others try once and end",
        source: "the promise L1; tenure run --try beside a process that lives on",
        nodes: 4,
        keys: 3,
        wall_off_ms: 40,
        users: UserBehaviour { residents: 1, tasks: 2, attached: 80, think: 1200, hold: 1200, gc: 0, ..CRON },
        faults: &[(FaultKind::Pause, 6.0)],
        calls: &[(FaultKind::LateClaim, 0.5), (FaultKind::AnswerLost, 0.04)],
        deaths: false,
        chaos: 12,
        calm: 200,
        rounds: 1,
        ..USUAL
    },
    LeaseScenario {
        name: "gc-clocks",
        about: "wall clocks are years ahead, that of gc too; one of those who live is right",
        source: "the promise S2, through garbage collection",
        store: AGES,
        ahead: true,
        wall_off_ms: 1000,
        users: UserBehaviour { gc: 4000, gc_ahead: 315_360_000_000, think: 14_000, hold: 1000, ..USERS },
        faults: &[
            (FaultKind::WallDecade, 20.0),
            (FaultKind::WallJump, 10.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 4.0),
        ],
        chaos: 80,
        ..USUAL
    },
];
