//! The place of one connection, and what metrics tell of it. A recorder that panics must not end the task that lets clients in.

use tenure_store::parts::quietly;
use tokio::sync::OwnedSemaphorePermit;

/// What metrics tell of a room. Whoever scrapes is no client: an alarm on full agents would ring for it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CountedAs {
    /// The connections of an agent's clients.
    Clients,
    Nothing,
}

/// A place for one connection, which is closed as it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    counts: CountedAs,
    _permit: OwnedSemaphorePermit,
}

impl CountedAs {
    fn add(self, connections: f64) {
        if let CountedAs::Clients = self {
            quietly(|| metrics::gauge!("tenure_agent_connections").increment(connections));
        }
    }

    pub(crate) fn add_refused(self) {
        if let CountedAs::Clients = self {
            quietly(|| metrics::counter!("tenure_agent_refused_total").increment(1));
        }
    }

    pub(crate) fn add_closed(self) {
        if let CountedAs::Clients = self {
            quietly(|| metrics::counter!("tenure_agent_strangers_closed_total").increment(1));
        }
    }
}

impl ConnectionPermit {
    pub(crate) fn new(permit: OwnedSemaphorePermit, counts: CountedAs) -> ConnectionPermit {
        counts.add(1.0);
        ConnectionPermit { counts, _permit: permit }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.counts.add(-1.0);
    }
}
