//! Elections: candidates that follow, lead, run bodies, resign and stand back.

use super::{GENTLE, HAND_MADE, HANDS, LeaseScenario, USERS, USUAL, UserBehaviour};
use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;

const CANDIDATES: UserBehaviour =
    UserBehaviour { tasks: 0, elects: true, hold: 12_000, use_every: 700, mail: 15_000, gc: 0, ..USERS };

pub(super) const ALL: &[LeaseScenario] = &[
    LeaseScenario {
        name: "election",
        about: "candidates of two keys, half of them on sessions; the usual faults",
        source: "elections, with the faults of usual",
        nodes: 4,
        keys: 2,
        users: CANDIDATES,
        ..USUAL
    },
    LeaseScenario {
        name: "election-storm",
        about: "leaders that are stopped, cut off and resign, faults all the time",
        source: "elections, with the faults of usual",
        nodes: 5,
        keys: 1,
        users: UserBehaviour { hold: 4000, use_every: 300, mail: 5000, ..CANDIDATES },
        faults: &[
            (FaultKind::Pause, 25.0),
            (FaultKind::Crash, 15.0),
            (FaultKind::Suspend, 8.0),
            (FaultKind::Rate, 10.0),
            (FaultKind::WallJump, 6.0),
            (FaultKind::Cut, 12.0),
            (FaultKind::CutAnswers, 12.0),
            (FaultKind::Flap, 6.0),
            (FaultKind::StoreDown, 4.0),
            (FaultKind::Throttle, 4.0),
            (FaultKind::SpuriousWake, 40.0),
            (FaultKind::SpuriousHint, 40.0),
            (FaultKind::ForcedRelease, 6.0),
        ],
        ..USUAL
    },
    LeaseScenario {
        name: "election-hands",
        about: "somebody deletes the records that leaders hold, puts back older ones, and deposes leaders by force",
        source: "promise S10",
        users: UserBehaviour { attached: 60, ..CANDIDATES },
        keys: 2,
        faults: HANDS,
        calls: GENTLE,
        chaos: 30,
        ..HAND_MADE
    },
    LeaseScenario {
        name: "election-failover",
        about: "the store loses acknowledged writes: only fences hold, and in the calm somebody leads",
        source: "the promise S2; failovers of stores that replicate asynchronously",
        users: UserBehaviour { attached: 60, ..CANDIDATES },
        keys: 2,
        wall_off_ms: 0,
        faults: &[
            (FaultKind::Failover, 30.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
        ],
        calls: GENTLE,
        excused: &[Rule::S1, Rule::S3, Rule::S4, Rule::Mail, Rule::Answered],
        ..USUAL
    },
    LeaseScenario {
        name: "less-cascade",
        about: "thirty candidates, and a store that stalls for one ttl and a half: in the end one leads",
        source: "less (leaders that stay leaders while the storage stalls)",
        nodes: 30,
        keys: 1,
        users: UserBehaviour { hold: 0, mail: 0, use_every: 1500, ..CANDIDATES },
        faults: &[(FaultKind::Stall, 30.0), (FaultKind::Rate, 10.0)],
        calls: &[(FaultKind::Slow, 0.05), (FaultKind::AnswerLost, 0.02)],
        deaths: false,
        chaos: 12,
        calm: 10,
        rounds: 1,
        ..USUAL
    },
];
