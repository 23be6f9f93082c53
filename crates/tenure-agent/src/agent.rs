//! The agent: what its clients' requests are answered by.

use crate::access::{Access, guard};
use crate::config::Limits;
use crate::connection::{self, ConnectionContext};
use crate::door::Door;
use crate::history::TenureHistory;
use crate::lease_table::LeaseTable;
use crate::news::NewsFeed;
use crate::problem::Problem;
use crate::routes;
use crate::strangers::Strangers;
use crate::workers::Workers;
use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tenure::Leases;
use tenure::range::Section;
use tokio::task::AbortHandle;

/// What the metrics are written by, in the text format of Prometheus.
pub type Scrape = Arc<dyn Fn() -> String + Send + Sync>;

/// The lease agent of a host, on leases of its own.
///
/// Dropping the last clone ends nothing by itself: see [`Agent::stop`].
#[derive(Clone)]
pub struct Agent {
    pub(crate) shared: Arc<AgentState>,
}

pub(crate) struct AgentState {
    pub(crate) leases: Leases,
    pub(crate) table: Arc<LeaseTable>,
    pub(crate) history: Arc<TenureHistory>,
    pub(crate) news: Arc<NewsFeed>,
    pub(crate) workers: Arc<Workers>,
    /// By name.
    pub(crate) sections: Mutex<BTreeMap<String, Section>>,
    pub(crate) limits: Limits,
    pub(crate) scrape: Option<Scrape>,
    /// Counts the forced releases that are under way: each has a clone.
    pub(crate) seizures: Arc<()>,
    sweeper: AbortHandle,
}

impl Drop for AgentState {
    fn drop(&mut self) {
        self.sweeper.abort();
        self.news.stop();
    }
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
        let history = Arc::new(TenureHistory::new(Arc::clone(leases.clock())));
        let table = LeaseTable::new(&leases, Arc::clone(&history), limits.leases);
        let news = NewsFeed::new();
        let sweeper = {
            let table = Arc::clone(&table);
            tokio::spawn(async move { table.sweep().await }).abort_handle()
        };
        let (workers, sections, seizures) = (Arc::default(), Mutex::default(), Arc::new(()));
        Agent {
            shared: Arc::new(AgentState {
                leases,
                table,
                history,
                news,
                workers,
                sections,
                limits,
                scrape,
                seizures,
                sweeper,
            }),
        }
    }

    /// Answers those who come by `door`, for as long as it is polled. Several may be served at a time.
    ///
    /// # Cancel safety
    /// When the future is dropped nobody is let in any more, and all who were are cut off. Their leases stay until the deadlines that they were told.
    pub async fn serve(&self, door: &Door, access: Access) {
        let limits = self.shared.limits;
        let strangers =
            (!access.is_open).then(|| Strangers::new(limits.strangers, limits.connections.div_ceil(2)));
        let router = routes::router(&self.shared).layer(axum::middleware::from_fn_with_state(access, guard));
        let served = ConnectionContext { router, limits, strangers };
        tokio::join!(connection::serve(door, &served), door.follow_certificate());
    }

    /// Prolongs nothing and takes nothing any more, and waits until all deadlines that clients were told are over, or they gave their leases back. The
    /// leases themselves are to be stopped after that.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo it.
    pub async fn stop(&self) {
        tokio::join!(self.shared.table.stop(), self.shared.workers.stop());
    }

    /// How many leases clients have.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.table.count()
    }
}

/// The body of a request, as JSON.
pub(crate) struct Posted<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<AgentState>> for Posted<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<AgentState>) -> Result<Self, Problem> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
        // A form of another site can't say so.
        if !kind.trim().eq_ignore_ascii_case("application/json") {
            return Err(Problem::bad_request("the body must be JSON, and its Content-Type application/json"));
        }
        let Limits { body: most, patience, .. } = shared.limits;
        let read = tokio::time::timeout(patience, to_bytes(request.into_body(), most));
        let bytes = read.await.map_err(|_| Problem::too_slow())?.map_err(|_| Problem::too_large(most))?;
        let value = serde_json::from_slice(&bytes);
        value.map(Posted).map_err(|error| Problem::bad_request(format!("the body can't be read: {error}")))
    }
}

fn describe() {
    use metrics::{describe_counter, describe_gauge};
    describe_gauge!("tenure_agent_leases", "Leases that clients of the agent have");
    describe_gauge!("tenure_agent_connections", "Connections of clients to the agent");
    describe_counter!(
        "tenure_agent_leases_ended_total",
        "Clients' leases that are over: released, lapsed, exited or lost"
    );
    describe_counter!(
        "tenure_agent_strangers_closed_total",
        "Connections that had shown no token for longest, and made room for others"
    );
    describe_gauge!(
        "tenure_agent_certificate_expires_seconds",
        "When the certificate that the agent shows ends, since 1970"
    );
    describe_counter!("tenure_agent_operator_total", "Requests of operators: revoke, drain, release or move");
    describe_counter!(
        "tenure_agent_refused_total",
        "Connections that were closed at once, as there were too many"
    );
    // Nobody sees a counter rise that begins with its first event.
    for how in ["released", "lapsed", "exited", "lost"] {
        metrics::counter!("tenure_agent_leases_ended_total", "how" => how).increment(0);
    }
    metrics::counter!("tenure_agent_refused_total").increment(0);
}
