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
}

pub(crate) const FAULTS: [Fault; 19] = [
    Fault::HolderStopped,
    Fault::HolderKilled,
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
        )
    }

    /// Nobody is served, perhaps: whether a write was refused is told.
    pub(crate) fn is_of_servers(self) -> bool {
        matches!(self, Fault::ServerKilled | Fault::ServerStopped | Fault::DiskFull | Fault::LeaderCutOff)
    }

    /// It takes the holder's right to the key, after a ttl.
    pub(crate) fn deposes(self) -> bool {
        matches!(
            self,
            Fault::HolderStopped
                | Fault::HolderKilled
                | Fault::Partition
                | Fault::RequestsLost
                | Fault::AnswersLost
                | Fault::LateRequests
                | Fault::ServerForgets
                | Fault::Failover
        )
    }

    /// The holder's machine speaks with servers through a proxy.
    pub(crate) fn wants_proxy(self) -> bool {
        matches!(self, Fault::LatencyAndLoss | Fault::AnswersCut | Fault::LateRequests)
    }

    /// How long it lasts in the n-th episode, in ttls: shorter and longer than a lease does.
    pub(crate) fn span(self, n: u32, ttl: Duration) -> Duration {
        let tenths = match self {
            // The holder must be found out.
            Fault::HolderKilled | Fault::SynchronousFailover => 1,
            Fault::ServerForgets | Fault::Failover => 12,
            Fault::LateRequests => 20,
            // Something must pass, also where waiters poll.
            Fault::Flapping | Fault::LatencyAndLoss | Fault::Resets | Fault::AnswersCut => 18,
            _ => [16, 6, 25, 11, 30][n as usize % 5],
        };
        ttl * tenths / 10
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
        (Kind::Etcd, F::ServersClock) => Err(
            "not tested: a Go program can't be given another clock here; etcd tells no ages, so none is used",
        ),
        (Kind::Etcd, F::LeaderCutOff) => Ok(Promise::S),
        (_, F::LeaderCutOff) => Err("no cluster with a leader"),
        (Kind::Etcd | Kind::Postgres | Kind::DynamoDb, F::ServerForgets) => {
            Err("acknowledged writes are on disk")
        }
        (Kind::Redis, F::ServerForgets) => Ok(Promise::A),
        (Kind::Postgres, F::SynchronousFailover) => Ok(Promise::S),
        (Kind::Redis, F::SynchronousFailover) => {
            Err("Redis has none; what `wait=N` gives is in the store's own tests")
        }
        (_, F::SynchronousFailover) => Err("no server follows another"),
        (Kind::Postgres, F::Failover) => Ok(Promise::F),
        (Kind::Redis, F::Failover) => Ok(Promise::A),
        (Kind::Etcd, F::Failover) => Err("its failover is the leader's, above and killed; it does not lag"),
        (Kind::DynamoDb, F::Failover) => Err("the service's own; nothing local shows it"),
        (Kind::Sqlite, F::Failover) => Err("one file"),
        (Kind::DynamoDb, F::DiskFull) => Err("the service's own; DynamoDB Local's disk says nothing of it"),
        _ => Ok(Promise::S),
    }
}

/// What this suite does not make at all, and who does.
pub(crate) const ELSEWHERE: [(&str, &str); 9] = [
    ("suspend, clocks hidden, clock rates off by 10 % and 50 %", "the simulator only: a host has one clock"),
    ("power cut without fsync", "not tested: a process's kill loses nothing that the system has"),
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
        assert!(Fault::Partition.span(0, ttl) > ttl && Fault::Partition.span(1, ttl) < ttl);
    }
}
