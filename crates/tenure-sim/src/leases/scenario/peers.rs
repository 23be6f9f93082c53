//! Bugs that were published for other lease and lock libraries, each as a world in which it would show.

use super::{LeaseScenario, USERS, USUAL, UserBehaviour};
use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;

/// All of them, by the project that they are known from.
pub(super) const ALL: &[LeaseScenario] = &[
    LeaseScenario {
        name: "kcl-1803",
        about: "the leader is killed and nobody takes over",
        source: "awslabs/amazon-kinesis-client issue 1803",
        nodes: 4,
        faults: &[(FaultKind::Crash, 40.0)],
        users: UserBehaviour { tasks: 1, think: 1500, hold: 20_000, trying: 0, ..USERS },
        calm: 40,
        rounds: 1,
        ..USUAL
    },
    LeaseScenario {
        name: "kcl-1729",
        about: "renewals are lost while leases are handed over",
        source: "awslabs/amazon-kinesis-client issue 1729",
        faults: &[],
        calls: &[],
        deaths: false,
        users: UserBehaviour { tokens: 50, mail: 1000, think: 1500, hold: 3000, ..USERS },
        chaos: 1,
        calm: 60,
        rounds: 1,
        ..USUAL
    },
    LeaseScenario {
        name: "a8m-3",
        about: "the fencing token changes when a lease is renewed",
        source: "a8m/dynamodb-lease issue 3",
        users: UserBehaviour { hold: 30_000, think: 1000, use_every: 500, ..USERS },
        ..USUAL
    },
    LeaseScenario {
        name: "a8m-fresh-row",
        about: "two processes both win a key that has no record yet",
        source: "a8m/dynamodb-lease, first claim of a row",
        nodes: 6,
        keys: 8,
        wall_off_ms: 50,
        // Keys are wanted so seldom that their records are collected, and claims take so long that they meet.
        faults: &[
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: &[(FaultKind::Slow, 0.4), (FaultKind::RequestLost, 0.03), (FaultKind::AnswerLost, 0.04)],
        users: UserBehaviour { think: 22_000, hold: 300, gc: 1500, attached: 20, ..USERS },
        ..USUAL
    },
    LeaseScenario {
        name: "lock-client-44",
        about: "everyone only tries, again and again: a dead holder's key is taken all the same",
        source: "awslabs/amazon-dynamodb-lock-client issue 44; cirello-io/dynamolock issue 84",
        faults: &[],
        calls: &[],
        users: UserBehaviour { tasks: 1, trying: 100, think: 250, hold: 1500, mail: 0, tokens: 0, ..USERS },
        chaos: 1,
        calm: 60,
        rounds: 1,
        ..USUAL
    },
    LeaseScenario {
        name: "dynamolock-446",
        about: "the store is out of reach until the lease is over, and its holder is not told",
        source: "cirello-io/dynamolock issue 446",
        faults: &[
            (FaultKind::Cut, 30.0),
            (FaultKind::CutAnswers, 20.0),
            (FaultKind::StoreDown, 10.0),
            (FaultKind::Throttle, 10.0),
        ],
        users: UserBehaviour { hold: 20_000, think: 1000, ..USERS },
        ..USUAL
    },
    LeaseScenario {
        name: "shedlock-1986",
        about: "a holder that was stopped past its time releases the lock of its successor",
        source: "lukas-krecan/ShedLock issue 1986",
        faults: &[(FaultKind::Pause, 60.0), (FaultKind::Suspend, 10.0), (FaultKind::CutAnswers, 10.0)],
        users: UserBehaviour { hold: 1500, think: 1000, ..USERS },
        ..USUAL
    },
    LeaseScenario {
        name: "less",
        about: "a deposed leader expires or renews over its successor",
        source: "less (a leader election library): renewals that are not conditional on the tenure",
        // Only time that is hidden from a leader lets it go on after its successor began.
        faults: &[
            (FaultKind::Hidden, 20.0),
            (FaultKind::Pause, 40.0),
            (FaultKind::Cut, 20.0),
            (FaultKind::CutRequests, 20.0),
        ],
        users: UserBehaviour { hold: 20_000, think: 1000, mail: 4000, ..USERS },
        excused: &[Rule::S1],
        ..USUAL
    },
    LeaseScenario {
        name: "etcd-11456",
        about: "a process whose session expired meets its own old key",
        source: "etcd-io/etcd issue 11456",
        nodes: 2,
        faults: &[(FaultKind::Pause, 40.0), (FaultKind::Suspend, 20.0), (FaultKind::Cut, 20.0)],
        users: UserBehaviour { attached: 100, hold: 20_000, think: 500, ..USERS },
        ..USUAL
    },
    LeaseScenario {
        name: "client-go-728",
        about: "a lease is released while what it guards still runs",
        source: "kubernetes/client-go issue 728",
        faults: &[(FaultKind::Crash, 30.0), (FaultKind::Pause, 10.0)],
        users: UserBehaviour { attached: 100, tasks: 4, hold: 1000, think: 1000, ..USERS },
        ..USUAL
    },
];
