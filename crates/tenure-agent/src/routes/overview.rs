//! The agent and its store at a glance.

use crate::access::AccessLevel;
use crate::agent_state::AgentState;
use crate::wire::millis;
use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tenure::Store;
use utoipa::ToSchema;

/// How an agent and its store are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Overview {
    /// The agent's version.
    version: &'static str,
    /// What this request's token may do.
    may: AccessLevel,
    /// The holder that this agent's clients have leases by.
    holder: String,
    /// How many leases this agent's clients have.
    clients: usize,
    /// It prolongs nothing any more.
    is_stopping: bool,
    /// How much longer the agent's session is good for, if nothing is renewed.
    session_left_ms: u64,
    store: StoreHealth,
}

/// Whether a store answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoreHealth {
    /// Names its set of records.
    id: String,
    /// A read was answered just now.
    answers: bool,
    /// How long that took, in microseconds.
    read_us: u64,
    /// What is wrong with that read, or with calls before it that have not been answered since.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// For how long calls have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    fails_for_ms: Option<u64>,
}

/// The agent and its store at a glance. A read of the store is part of it, and it is answered also where that fails.
#[utoipa::path(get, path = "/v1/overview", tag = "health", responses((status = 200, description = "How they are", body = Overview)))]
pub(crate) async fn overview(
    State(shared): State<Arc<AgentState>>,
    Extension(may): Extension<AccessLevel>,
) -> Json<Overview> {
    let leases = &shared.leases;
    Json(Overview {
        version: env!("CARGO_PKG_VERSION"),
        may,
        holder: leases.holder().as_str().to_owned(),
        clients: shared.table.count(),
        is_stopping: shared.table.room().is_err_and(|problem| problem.code() == "stopping"),
        session_left_ms: millis(leases.session_remaining()),
        store: health(&shared).await,
    })
}

async fn health(shared: &AgentState) -> StoreHealth {
    const PATIENCE: Duration = Duration::from_secs(2);
    let leases = &shared.leases;
    let began = leases.clock().now().held;
    let read = tokio::time::timeout(PATIENCE, leases.store().read(leases.session_key())).await;
    let took = leases.clock().now().held.since(began);
    let failed = match read {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("the store has not answered within {PATIENCE:?}")),
    };
    let trouble = leases.trouble();
    StoreHealth {
        id: leases.store().id(),
        answers: failed.is_none(),
        read_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        fails_for_ms: trouble.as_ref().map(|trouble| millis(trouble.lasts)),
        problem: failed.or_else(|| trouble.map(|trouble| format!("{}: {}", trouble.key, trouble.error))),
    }
}
