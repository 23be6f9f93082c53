//! Scenarios that this project thought of.

use super::{DENYING, GENTLE, HAND_MADE, HANDS, LATE_HINTS, LeaseScenario, USERS, USUAL, UserBehaviour};
use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, StoreSpec};

pub(super) const ALL: &[LeaseScenario] = &[
    USUAL,
    LeaseScenario {
        name: "storm",
        about: "four nodes, two keys, faults all the time, short work",
        users: UserBehaviour {
            tasks: 3,
            think: 1500,
            hold: 1500,
            mail: 4000,
            gc: 8000,
            use_every: 500,
            ..USERS
        },
        nodes: 4,
        keys: 2,
        faults: &[
            (FaultKind::Pause, 15.0),
            (FaultKind::Crash, 12.0),
            (FaultKind::Suspend, 6.0),
            (FaultKind::Rate, 10.0),
            (FaultKind::WallJump, 6.0),
            (FaultKind::Cut, 8.0),
            (FaultKind::CutAnswers, 8.0),
            (FaultKind::CutRequests, 4.0),
            (FaultKind::Flap, 4.0),
            (FaultKind::StoreDown, 2.0),
            (FaultKind::Throttle, 2.0),
            (FaultKind::SpuriousWake, 40.0),
            (FaultKind::SpuriousHint, 40.0),
            (FaultKind::ForcedRelease, 8.0),
            (FaultKind::SameId, 2.0),
        ],
        calls: &[
            (FaultKind::RequestLost, 0.08),
            (FaultKind::AnswerLost, 0.12),
            (FaultKind::Slow, 0.1),
            (FaultKind::Zombie, 0.1),
            (FaultKind::Duplicated, 0.05),
            (FaultKind::Refused, 0.05),
            (FaultKind::Denied, 0.02),
            (FaultKind::HintLost, 0.2),
            (FaultKind::PauseMidStep, 0.03),
            (FaultKind::PauseBeforeEffect, 0.2),
        ],
        ..USUAL
    },
    LeaseScenario {
        name: "attached",
        about: "all leases are attached to sessions, which die, are fenced and begin again",
        keys: 3,
        users: UserBehaviour { tasks: 4, attached: 100, think: 2000, hold: 3000, ..USERS },
        ..USUAL
    },
    LeaseScenario {
        name: "hands",
        about: "somebody deletes leases' records, puts back older ones, and takes leases away by force",
        source: "promise S10",
        keys: 3,
        faults: HANDS,
        calls: GENTLE,
        ..HAND_MADE
    },
    LeaseScenario {
        name: "hands-many",
        about: "the same with so many leases on two sessions that each has its turn only now and then",
        source: "promise S10",
        nodes: 2,
        keys: 24,
        users: UserBehaviour { tasks: 16, attached: 90, hold: 20_000, trying: 60, ..HAND_MADE.users },
        faults: HANDS,
        calls: DENYING,
        chaos: 20,
        calm: 12,
        ..HAND_MADE
    },
    LeaseScenario {
        name: "damaged",
        about: "records of leases and sessions are damaged for a while, and one key is forbidden for good: others are not harmed",
        source: "SECURITY.md: what a hostile process can do",
        keys: 3,
        faults: &[
            (FaultKind::RecordDamaged, 20.0),
            (FaultKind::Forbidden, 3.0),
            (FaultKind::Crash, 4.0),
            (FaultKind::Pause, 4.0),
            (FaultKind::Cut, 3.0),
        ],
        calls: GENTLE,
        deaths: true,
        ..HAND_MADE
    },
    LeaseScenario {
        name: "same-id",
        about: "processes begin under the holder id of another, or of their own predecessors",
        source: "SECURITY.md: a holder id is used once",
        users: UserBehaviour { tasks: 3, attached: 60, think: 2000, hold: 3000, ..USERS },
        faults: &[
            (FaultKind::SameId, 20.0),
            (FaultKind::Crash, 4.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
        ],
        ..USUAL
    },
    LeaseScenario {
        name: "buried",
        about: "processes die, and what they held is given back at once by those who see it",
        source: "promise L1: a command's watchdogs give back what a tenure that was killed held",
        keys: 3,
        users: UserBehaviour {
            tasks: 4,
            attached: 60,
            think: 1000,
            hold: 4000,
            gc: 8000,
            tokens: 0,
            ..USERS
        },
        faults: &[
            (FaultKind::Buried, 20.0),
            (FaultKind::Crash, 3.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Rate, 4.0),
            (FaultKind::WallJump, 2.0),
            (FaultKind::Cut, 4.0),
            (FaultKind::StoreDown, 1.0),
        ],
        ..USUAL
    },
    LeaseScenario {
        name: "tokens",
        about: "leases become plain data and go from node to node",
        users: UserBehaviour { tokens: 60, think: 2000, hold: 1500, ..USERS },
        ..USUAL
    },
    LeaseScenario {
        name: "calm",
        about: "nothing goes wrong but deaths: liveness bounds, cost and mail",
        source: "the promises L1, L3, L4 and C1",
        faults: &[],
        calls: &[],
        users: UserBehaviour { tasks: 3, attached: 60, mail: 3000, think: 3000, hold: 3000, ..USERS },
        wall_off_ms: 40,
        chaos: 2,
        calm: 60,
        rounds: 1,
        ..USUAL
    },
    LeaseScenario {
        name: "kept",
        about: "answers take up to ttl/8 and single renewals fail: nobody loses a lease by that",
        source: "the promise L4; KCL issue 1729",
        faults: &[],
        calls: &[],
        stumbles: true,
        deaths: false,
        nodes: 2,
        // Where no ages are told, those of wrong clocks are marked by who only tries, which costs a round trip each time.
        wall_off_ms: 40,
        users: UserBehaviour { tasks: 2, think: 3000, hold: 6000, mail: 0, tokens: 0, ..USERS },
        chaos: 1,
        calm: 80,
        rounds: 1,
        ..USUAL
    },
    LeaseScenario {
        name: "kept-clocks",
        about: "the same with wrong wall clocks, where the store tells ages",
        source: "the promise L4; KCL issue 1729",
        faults: &[],
        calls: &[],
        stumbles: true,
        deaths: false,
        nodes: 2,
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        users: UserBehaviour { tasks: 2, think: 3000, hold: 6000, mail: 0, tokens: 0, ..USERS },
        chaos: 1,
        calm: 80,
        rounds: 1,
        ..USUAL
    },
    LeaseScenario {
        name: "store-clock",
        about: "the store's clock jumps by up to an hour; wall clocks are right",
        source: "a server's wall clock that is set",
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        wall_off_ms: 0,
        faults: &[
            (FaultKind::StoreClock, 40.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        users: USERS,
        ..USUAL
    },
    LeaseScenario {
        name: "shared-clock",
        about: "the store's host is set ahead, and the processes there with it: its clock is no second witness for them",
        source: "a single host, or an application beside its database, whose clock is set",
        nodes: 4,
        keys: 2,
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        wall_off_ms: 0,
        faults: &[
            (FaultKind::SharedClock, 40.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        users: UserBehaviour { tasks: 2, trying: 60, think: 1500, hold: 8000, gc: 0, ..USERS },
        // Whoever begins after the clock was set can't know.
        deaths: false,
        ..USUAL
    },
    LeaseScenario {
        name: "wall",
        about: "wall clocks jump by an hour and by ten years; the store tells ages",
        source: "hosts' wall clocks that are set",
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        users: UserBehaviour { gc: 0, ..USERS },
        faults: &[
            (FaultKind::WallJump, 30.0),
            (FaultKind::WallDecade, 10.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        ..USUAL
    },
    LeaseScenario {
        name: "suspend",
        about: "machines are suspended for many ttls",
        source: "suspend, in which CLOCK_MONOTONIC stands still",
        faults: &[(FaultKind::Suspend, 60.0), (FaultKind::Pause, 10.0), (FaultKind::Rate, 4.0)],
        users: USERS,
        ..USUAL
    },
    LeaseScenario {
        name: "failover",
        about: "the store loses acknowledged writes: only fences hold",
        source: "the promise S2; failovers of stores that replicate asynchronously",
        wall_off_ms: 0,
        users: UserBehaviour { gc: 0, ..USERS },
        faults: &[
            (FaultKind::Failover, 30.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
        ],
        // The clock that a claim is made by is read after the failover: neither the network nor a stopped process holds
        // an older claim back.
        calls: &[
            (FaultKind::RequestLost, 0.03),
            (FaultKind::AnswerLost, 0.04),
            (FaultKind::Refused, 0.02),
            (FaultKind::HintLost, 0.1),
            (FaultKind::PauseBeforeEffect, 0.1),
        ],
        excused: &[Rule::S1, Rule::S3, Rule::S4, Rule::Mail, Rule::Answered],
        ..USUAL
    },
    LeaseScenario {
        name: "hanging-writes",
        about: "the store reads, and says nothing of writes, for six ttls at a time",
        source: "a database that commits once its standby has, and whose standby is gone",
        keys: 2,
        users: UserBehaviour { tasks: 2, trying: 60, think: 3000, attached: 50, ..USERS },
        faults: &[(FaultKind::WritesHang, 8.0), (FaultKind::Crash, 2.0)],
        calls: &[(FaultKind::HintLost, 0.1), (FaultKind::PauseBeforeEffect, 0.1)],
        ..USUAL
    },
    LeaseScenario {
        name: "hints",
        about: "a store that pushes hints, of which many come late, out of order, or not at all",
        keys: 2,
        store: Some(StoreSpec { ages: Ages::Fine, push: true, lags: false }),
        users: UserBehaviour { tasks: 3, attached: 50, think: 1000, hold: 1500, ..USERS },
        calls: LATE_HINTS,
        ..USUAL
    },
    LeaseScenario {
        name: "hidden",
        about: "virtual machines are paused and none of their clocks tells: only fences hold",
        source: "hypervisors that pause and clone machines",
        faults: &[
            (FaultKind::Hidden, 30.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
        ],
        calls: &[
            (FaultKind::Hidden, 0.05),
            (FaultKind::RequestLost, 0.05),
            (FaultKind::AnswerLost, 0.05),
            (FaultKind::Slow, 0.06),
            (FaultKind::Refused, 0.02),
            (FaultKind::HintLost, 0.1),
            (FaultKind::PauseBeforeEffect, 0.1),
        ],
        excused: &[Rule::S1],
        users: USERS,
        ..USUAL
    },
    LeaseScenario {
        name: "frozen",
        about: "virtual machines are paused, none of their clocks tells, and the store dates records by what its clients took \
                    its clock for: a lease that is renewed after that is held by one",
        source: "a host whose clocks have missed some time, beside a store that tells dates with its answers",
        store: Some(StoreSpec { ages: Ages::Dated, push: false, lags: false }),
        wall_off_ms: 40,
        faults: &[
            (FaultKind::Frozen, 30.0),
            (FaultKind::Crash, 12.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
        ],
        users: UserBehaviour { gc: 0, trying: 60, attached: 40, think: 1500, hold: 8000, ..USERS },
        nodes: 4,
        ..USUAL
    },
    LeaseScenario {
        name: "beyond-rho",
        about: "clock rates off by 50 %: only fences hold",
        source: "the assumption on clock rates, and what is left without it",
        rate: 500_000,
        excused: &[Rule::S1, Rule::S10, Rule::L1, Rule::L3, Rule::L4],
        users: USERS,
        ..USUAL
    },
];
