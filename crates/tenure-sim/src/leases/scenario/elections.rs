//! Elections: candidates that follow, lead, run bodies, resign and stand back.

use super::{GENTLE, HAND_MADE, HANDS, Scenario, USERS, USUAL, Users};
use crate::kernel::fault::Fault;

const CANDIDATES: Users =
    Users { tasks: 0, elects: true, hold: 12_000, use_every: 700, mail: 15_000, gc: 0, ..USERS };

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "election",
            about: "candidates of two keys, half of them on sessions; the usual faults",
            source: "elections, with the faults of usual",
            nodes: 4,
            keys: 2,
            users: CANDIDATES,
            ..USUAL
        },
        Scenario {
            name: "election-storm",
            about: "leaders that are stopped, cut off and resign, faults all the time",
            source: "elections, with the faults of usual",
            nodes: 5,
            keys: 1,
            users: Users { hold: 4000, use_every: 300, mail: 5000, ..CANDIDATES },
            faults: &[
                (Fault::Pause, 25.0),
                (Fault::Crash, 15.0),
                (Fault::Suspend, 8.0),
                (Fault::Rate, 10.0),
                (Fault::WallJump, 6.0),
                (Fault::Cut, 12.0),
                (Fault::CutAnswers, 12.0),
                (Fault::Flap, 6.0),
                (Fault::StoreDown, 4.0),
                (Fault::Throttle, 4.0),
                (Fault::SpuriousWake, 40.0),
                (Fault::SpuriousHint, 40.0),
                (Fault::ForcedRelease, 6.0),
            ],
            ..USUAL
        },
        Scenario {
            name: "election-hands",
            about: "somebody deletes the records that leaders hold, puts back older ones, and deposes leaders by force",
            source: "promise S10",
            users: Users { attached: 60, ..CANDIDATES },
            keys: 2,
            faults: HANDS,
            calls: GENTLE,
            chaos: 30,
            ..HAND_MADE
        },
        Scenario {
            name: "less-cascade",
            about: "thirty candidates, and a store that stalls for one ttl and a half: in the end one leads",
            source: "less (leaders that stay leaders while the storage stalls)",
            nodes: 30,
            keys: 1,
            users: Users { hold: 0, mail: 0, use_every: 1500, ..CANDIDATES },
            faults: &[(Fault::Stall, 30.0), (Fault::Rate, 10.0)],
            calls: &[(Fault::Slow, 0.05), (Fault::AnswerLost, 0.02)],
            deaths: false,
            chaos: 12,
            calm: 10,
            rounds: 1,
            ..USUAL
        },
    ]
}
