//! Which faults there are, what each store promises under each, and why some cells are empty.

use crate::servers::Kind;
use std::time::Duration;

/// What is done to machines, networks, disks and clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    ServerKilled,
    ServerStopped,
    ServerForgets,
    HolderStopped,
    HolderKilled,
    HolderSuspended,
    TimeHidden,
    RatesWithin,
    RatesBeyond,
    Partition,
    RequestsLost,
    AnswersLost,
    Flapping,
    LatencyAndLoss,
    Resets,
    AnswersCut,
    LateRequests,
    DiskFull,
    ClientsClock,
    ServersClock,
    LeaderCutOff,
    Failover,
    SynchronousFailover,
    SentinelFailover,
    PowerCut,
}

pub(crate) const FAULTS: [Fault; 25] = [
    Fault::HolderStopped,
    Fault::HolderKilled,
    Fault::HolderSuspended,
    Fault::TimeHidden,
    Fault::RatesWithin,
    Fault::RatesBeyond,
    Fault::Partition,
    Fault::RequestsLost,
    Fault::AnswersLost,
    Fault::Flapping,
    Fault::LatencyAndLoss,
    Fault::Resets,
    Fault::AnswersCut,
    Fault::LateRequests,
    Fault::ClientsClock,
    Fault::ServersClock,
    Fault::ServerStopped,
    Fault::ServerKilled,
    Fault::DiskFull,
    Fault::LeaderCutOff,
    Fault::ServerForgets,
    Fault::Failover,
    Fault::SynchronousFailover,
    Fault::SentinelFailover,
    // Disks are others from then on.
    Fault::PowerCut,
];

/// What holds in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// One holder at a time, and fences that grow.
    S,
    /// Fences only: two holders are seen, and the cell shows that. The store's page says so.
    F,
    /// The store may forget, and then two hold: seen, shown, and labelled by `doctor`. Fences protect.
    A,
}

impl Promise {
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Promise::S => "S",
            Promise::F => "F",
            Promise::A => "A",
        }
    }
}

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::ServerKilled => "server killed",
            Fault::ServerStopped => "server stopped",
            Fault::ServerForgets => "server restarts empty",
            Fault::HolderStopped => "holder stopped",
            Fault::HolderKilled => "holder killed",
            Fault::HolderSuspended => "holder suspended",
            Fault::TimeHidden => "time hidden",
            Fault::RatesWithin => "clock rates 10 % off",
            Fault::RatesBeyond => "clock rates 50 % off",
            Fault::Partition => "holder cut off",
            Fault::RequestsLost => "requests lost",
            Fault::AnswersLost => "answers lost",
            Fault::Flapping => "flapping",
            Fault::LatencyAndLoss => "latency and loss",
            Fault::Resets => "connections reset",
            Fault::AnswersCut => "answers cut off",
            Fault::LateRequests => "requests come late",
            Fault::DiskFull => "disk full",
            Fault::ClientsClock => "clients' wall clock",
            Fault::ServersClock => "server's wall clock",
            Fault::LeaderCutOff => "leader cut off",
            Fault::Failover => "lagging failover",
            Fault::SynchronousFailover => "synchronous failover",
            Fault::SentinelFailover => "failover by Sentinel",
            Fault::PowerCut => "power cut",
        }
    }

    /// It concerns the holder, so there must be one: somebody who keeps the lease.
    pub(crate) fn wants_holder(self) -> bool {
        !matches!(
            self,
            Fault::ServerKilled
                | Fault::ServerStopped
                | Fault::Flapping
                | Fault::LatencyAndLoss
                | Fault::Resets
                | Fault::AnswersCut
                | Fault::PowerCut
        )
    }

    /// Nobody is served, perhaps: whether a write was refused is told.
    pub(crate) fn is_of_servers(self) -> bool {
        matches!(
            self,
            Fault::ServerKilled
                | Fault::ServerStopped
                | Fault::DiskFull
                | Fault::LeaderCutOff
                | Fault::PowerCut
        )
    }

    /// It takes the holder's right to the key, after a ttl.
    pub(crate) fn deposes(self) -> bool {
        matches!(
            self,
            Fault::HolderStopped
                | Fault::HolderKilled
                | Fault::HolderSuspended
                | Fault::TimeHidden
                | Fault::RatesWithin
                | Fault::Partition
                | Fault::RequestsLost
                | Fault::AnswersLost
                | Fault::LateRequests
                | Fault::ServerForgets
                | Fault::Failover
                | Fault::SentinelFailover
        )
    }

    /// The holder's machine speaks with servers through a proxy.
    pub(crate) fn wants_proxy(self) -> bool {
        matches!(self, Fault::LatencyAndLoss | Fault::AnswersCut | Fault::LateRequests)
    }

    /// How long it lasts in the n-th episode, in ttls: shorter and longer than a lease does, and much longer where a process or a server
    /// stands still.
    pub(crate) fn span(self, n: u32, ttl: Duration) -> Duration {
        let tenths = match self {
            // The holder must be found out.
            Fault::HolderKilled | Fault::SynchronousFailover => 1,
            Fault::ServerForgets | Fault::Failover => 12,
            Fault::LateRequests | Fault::SentinelFailover => 20,
            // Something must pass, also where waiters poll.
            Fault::Flapping | Fault::LatencyAndLoss | Fault::Resets | Fault::AnswersCut => 18,
            Fault::RatesWithin => 16,
            // A slow holder still believes then, and a fast contender does not wait so long.
            Fault::RatesBeyond => 9,
            // By the clocks that it can see, nothing has happened.
            Fault::TimeHidden => 16,
            Fault::HolderStopped | Fault::HolderSuspended | Fault::ServerStopped => {
                [16, 6, 100, 11, 30, 25][n as usize % 6]
            }
            _ => [16, 6, 25, 11, 30][n as usize % 5],
        };
        ttl * tenths / 10
    }

    /// How long it takes at most from the death of a holder until another one has its key: promise L1, by the kind of store. Requests come on
    /// top of it.
    pub(crate) fn takeover(self, kind: Kind, ttl: Duration) -> Duration {
        let percent = if kind == Kind::DynamoDb { 140 } else { 115 };
        let percent = match self {
            // Contenders' clocks are slow by so much.
            Fault::RatesWithin => percent * 10 / 9,
            // Its renewals arrive for as long as it believes.
            Fault::AnswersLost => percent + 82,
            // Contenders turn to the new primary when the old one has left a request of theirs without an answer.
            Fault::SentinelFailover => percent + 50,
            _ => percent,
        };
        ttl * percent / 100
    }
}

/// What holds there, or why it is not tested.
pub(crate) fn promise(kind: Kind, fault: Fault) -> Result<Promise, &'static str> {
    use Fault as F;
    match (kind, fault) {
        (
            Kind::Sqlite,
            F::Partition
            | F::RequestsLost
            | F::AnswersLost
            | F::Flapping
            | F::LatencyAndLoss
            | F::Resets
            | F::AnswersCut
            | F::LateRequests,
        ) => Err("no network"),
        (Kind::Sqlite, F::ServerKilled | F::ServerStopped | F::ServerForgets | F::ServersClock) => {
            Err("no server; processes that are killed and stopped have the file open")
        }
        (Kind::Sqlite, F::TimeHidden | F::RatesWithin | F::RatesBeyond) => {
            Err("all processes are on one host, which has one clock, and by that the store tells ages")
        }
        (Kind::Etcd, F::ServersClock) => Err(
            "not tested: a Go program can't be given another clock here; etcd tells no ages, so none is used",
        ),
        (Kind::Etcd, F::LeaderCutOff) => Ok(Promise::S),
        (_, F::LeaderCutOff) => Err("no cluster with a leader"),
        (Kind::Etcd | Kind::Postgres | Kind::DynamoDb, F::ServerForgets) => {
            Err("acknowledged writes are on disk")
        }
        (Kind::Redis | Kind::Valkey, F::ServerForgets) => Ok(Promise::A),
        (Kind::Postgres, F::SynchronousFailover) => Ok(Promise::S),
        (Kind::Redis | Kind::Valkey, F::SynchronousFailover) => {
            Err("it has none; what `wait=N` gives is in the store's own tests")
        }
        (Kind::Redis | Kind::Valkey, F::SentinelFailover) => Ok(Promise::A),
        (_, F::SentinelFailover) => Err("Sentinel is a program of Redis and Valkey"),
        (_, F::SynchronousFailover) => Err("no server follows another"),
        (Kind::Postgres, F::Failover) => Ok(Promise::F),
        (Kind::Redis | Kind::Valkey, F::Failover) => Ok(Promise::A),
        (Kind::Etcd, F::Failover) => Err("its failover is the leader's, above and killed; it does not lag"),
        (Kind::DynamoDb, F::Failover) => Err("the service's own; nothing local shows it"),
        (Kind::Sqlite, F::Failover) => Err("one file"),
        (Kind::DynamoDb, F::DiskFull | F::PowerCut) => {
            Err("the service's own; DynamoDB Local's disk says nothing of it")
        }
        (_, F::TimeHidden | F::RatesBeyond) => Ok(Promise::F),
        _ => Ok(Promise::S),
    }
}

/// What this suite does not make at all, and who does.
pub(crate) const ELSEWHERE: [(&str, &str); 8] = [
    ("rates of a server's clock", "the simulator: a server's clock only jumps here"),
    ("answers lost at every point of the protocol, reordered, repeated", "the simulator"),
    ("errors and throttling for 3 ttls", "the simulator, and `trouble` in tests of the library"),
    ("records damaged, hostile, deleted by hand", "the conformance suite and the simulator"),
    ("older and newer versions together", "tests of the record's format"),
    ("poolers between", "not here: PostgreSQL's conformance suite runs through PgBouncer, too"),
    (
        "credentials rotated",
        "not here: `a_password_that_was_changed_is_read_anew` in the tests of PostgreSQL, Redis and etcd",
    ),
    ("names that move", "not here: tests of the command line (`moved_name`), on PostgreSQL, Redis and etcd"),
];

#[cfg(test)]
mod tests {
    //! Plan: every fault is in the list once, every cell says something, and durations fall on both sides of a ttl.
    use super::*;
    use crate::servers::KINDS;

    #[test]
    fn every_cell_says_something() {
        for kind in KINDS {
            let tested = FAULTS.iter().filter(|fault| promise(kind, **fault).is_ok()).count();
            assert!(tested >= 4, "{kind:?}: {tested}");
        }
        let mut all = FAULTS.to_vec();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), FAULTS.len());
    }

    #[test]
    fn two_episodes_are_on_both_sides_of_a_ttl() {
        let ttl = Duration::from_secs(1);
        let span = |fault: Fault, n| fault.span(n, ttl);
        for fault in [Fault::Partition, Fault::HolderStopped, Fault::ServerStopped] {
            assert!(span(fault, 0) > ttl && span(fault, 1) < ttl, "{fault:?}");
        }
        for fault in [Fault::HolderStopped, Fault::HolderSuspended, Fault::ServerStopped] {
            assert!((0..20).any(|n| span(fault, n) == 10 * ttl), "{fault:?}");
        }
    }
}
