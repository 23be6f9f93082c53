//! Metrics: what writes them, and a server of them alone, for a process that is no agent.

use crate::config::Limits;
use crate::connection::{self, ConnectionContext};
use crate::door::{Door, ServeError};
use crate::room::ConnectionRoom;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// What the metrics are written by, in the text format of Prometheus.
pub type Scrape = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves `/metrics` and `/healthz` at one address, without a token: metrics name fleets, and prefixes of
/// keys where a program asks for that, and no key or holder.
#[derive(Debug)]
pub struct MetricsServer {
    door: Door,
}

impl MetricsServer {
    /// Listens there, on whatever network that is.
    ///
    /// # Errors
    /// When the system says no.
    pub async fn open(address: SocketAddr) -> Result<MetricsServer, ServeError> {
        Ok(MetricsServer { door: Door::open_to_all(address).await? })
    }

    /// Answers for as long as it is polled.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn serve(&self, scrape: Scrape) {
        const CONNECTIONS: usize = 16;
        let metrics = move || {
            let text = scrape();
            async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text) }
        };
        let router = Router::new().route("/metrics", get(metrics)).route("/healthz", get(async || "ok\n"));
        let limits = Limits { connections: CONNECTIONS, ..Limits::default() };
        // Whoever is silent keeps no scrape out.
        let room = ConnectionRoom::of_strangers(CONNECTIONS);
        connection::serve(&self.door, &ConnectionContext { router, limits, room, is_open: false }).await;
    }
}

/// Where it listens.
impl fmt::Display for MetricsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/metrics", self.door.address())
    }
}
