//! The agent: what its clients' requests are answered by.

use crate::access::{Access, guard};
use crate::agent_state::AgentState;
use crate::config::Limits;
use crate::connection::{self, ConnectionContext};
use crate::door::Door;
use crate::metrics_server::Scrape;
use crate::router;
use std::sync::Arc;
use tenure::Leases;
use tenure_store::parts::quietly;

/// The lease agent of a host, on leases of its own.
///
/// Dropping the last clone ends nothing by itself: see [`Agent::stop`].
#[derive(Clone)]
pub struct Agent {
    pub(crate) shared: Arc<AgentState>,
}

impl Agent {
    /// An agent that takes its clients' leases from `leases`, which should be nobody else's. `scrape` writes the metrics for `/metrics`, if anything
    /// records them.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(leases: Leases, limits: Limits, scrape: Option<Scrape>) -> Agent {
        describe();
        Agent { shared: Arc::new(AgentState::new(leases, limits, scrape)) }
    }

    /// Answers those who come by `door`, for as long as it is polled. Several may be served at a time.
    ///
    /// # Cancel safety
    /// When the future is dropped nobody is let in any more, and all who were are cut off. Their leases stay until the deadlines that they were told.
    pub async fn serve(&self, door: &Door, access: Access) {
        let limits = self.shared.limits;
        let (room, is_open) = (Arc::clone(&self.shared.room), access.is_open);
        let router = router::router(&self.shared).layer(axum::middleware::from_fn_with_state(access, guard));
        let served = ConnectionContext { router, limits, room, is_open };
        tokio::join!(connection::serve(door, &served), door.follow_certificate());
    }

    /// Prolongs nothing and takes nothing any more, and waits until all deadlines that clients were told are over, or they gave their leases back, which is
    /// written and answered by then. For a store that does not answer it waits for some seconds at most, and clients are told that nobody knows. The
    /// leases themselves are to be stopped after that. Forced releases that are under way are given up, and logged as such.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo it.
    pub async fn stop(&self) {
        tokio::join!(self.shared.table.stop(), self.shared.workers.stop(), self.shared.seizures.stop());
    }

    /// How many leases clients have.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.table.count()
    }
}

/// Each by itself: a recorder may know a name as another kind, and panic.
fn describe() {
    const GAUGES: [(&str, &str); 3] = [
        ("tenure_agent_leases", "Leases that clients of the agent have"),
        ("tenure_agent_connections", "Connections of clients to the agent"),
        (
            "tenure_agent_certificate_expires_seconds",
            "When the certificate that the agent shows ends, since 1970",
        ),
    ];
    const COUNTERS: [(&str, &str); 4] = [
        (
            "tenure_agent_leases_ended_total",
            "Clients' leases that are over: released, lapsed, exited, lost or stopped",
        ),
        (
            "tenure_agent_strangers_closed_total",
            "Connections that had shown no token for longest, and made room for others",
        ),
        ("tenure_agent_operator_total", "Requests of operators: revoke, drain, release or move"),
        ("tenure_agent_refused_total", "Connections that were closed at once, as there were too many"),
    ];
    for (name, what) in GAUGES {
        quietly(|| metrics::describe_gauge!(name, what));
    }
    for (name, what) in COUNTERS {
        quietly(|| metrics::describe_counter!(name, what));
    }
    // Nobody sees a counter rise that begins with its first event.
    for how in ["released", "lapsed", "exited", "lost", "stopped"] {
        quietly(|| metrics::counter!("tenure_agent_leases_ended_total", "how" => how).increment(0));
    }
    for action in ["revoke", "drain", "release", "move"] {
        quietly(|| metrics::counter!("tenure_agent_operator_total", "action" => action).increment(0));
    }
    for name in ["tenure_agent_refused_total", "tenure_agent_strangers_closed_total"] {
        quietly(|| metrics::counter!(name).increment(0));
    }
    for name in ["tenure_agent_leases", "tenure_agent_connections"] {
        quietly(|| metrics::gauge!(name).increment(0.0));
    }
}
