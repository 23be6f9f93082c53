//! Whether the agent is well, and its metrics.

use crate::agent_state::AgentState;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use std::sync::Arc;
use std::time::Duration;
use tenure::Store;

/// The agent answers. No token is asked for.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "It does", body = String)))]
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// The agent's store answers.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, description = "It does", body = String), (status = 503, description = "It does not, or the agent is being stopped", body = Problem)))]
pub(crate) async fn ready(State(shared): State<Arc<AgentState>>) -> Result<&'static str, Problem> {
    const PATIENCE: Duration = Duration::from_secs(2);
    // Room for a lease is refused while it stops.
    if let Err(problem) = shared.table.room()
        && problem.status() == 503
    {
        return Err(problem);
    }
    let key = shared.leases.session_key();
    match tokio::time::timeout(PATIENCE, shared.leases.store().read(key)).await {
        Ok(Ok(_)) => Ok("ok\n"),
        // Whatever is wrong with it, no lease can be had.
        Ok(Err(error)) => Err(shared.without_session(&error)),
        Err(_) => Err(Problem::unavailable(format!("the store has not answered within {PATIENCE:?}"))),
    }
}

/// Counters, gauges and histograms in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "Metrics", body = String), (status = 404, description = "Nothing records them", body = Problem)))]
pub(crate) async fn metrics(State(shared): State<Arc<AgentState>>) -> Result<impl IntoResponse, Problem> {
    let Some(scrape) = &shared.scrape else {
        return Err(Problem::not_found("this agent keeps no metrics"));
    };
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], scrape()))
}
