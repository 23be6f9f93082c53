//! Tenures that this agent has seen.

use crate::agent_state::AgentState;
use crate::history::{PastTenure, TenureHistory};
use crate::problem::Problem;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tenure::Key;
use utoipa::{IntoParams, ToSchema};

/// Which tenures to tell of.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// Those of this key alone.
    pub(crate) key: Option<String>,
    /// How many: 1 to 1,000, 100 if absent.
    pub(crate) limit: Option<usize>,
}

/// Tenures that were seen.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tenures)]
pub(crate) struct PastTenures {
    /// The newest first.
    pub(crate) tenures: Vec<PastTenure>,
}

/// Tenures that this agent has seen since its start, 1,000 at the most: those of its own clients, and of all others while somebody listens to records. The
/// store keeps no history.
#[utoipa::path(
    get, path = "/v1/tenures", tag = "leases", operation_id = "list_tenures", params(HistoryQuery),
    responses((status = 200, description = "The newest first", body = PastTenures), (status = 400, description = "The request is wrong", body = Problem))
)]
pub(crate) async fn tenures(
    State(shared): State<Arc<AgentState>>,
    asked: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<PastTenures>, Problem> {
    const USUAL: usize = 100;
    let Query(asked) = asked.map_err(|error| Problem::bad_request(error.body_text()))?;
    let limit = asked.limit.unwrap_or(USUAL);
    if limit == 0 || limit > TenureHistory::MOST {
        return Err(Problem::bad_request(format!("limit {limit} is outside 1 to {}", TenureHistory::MOST)));
    }
    let key = asked.key.map(Key::new).transpose()?;
    Ok(Json(PastTenures { tenures: shared.history.newest(key.as_ref(), limit) }))
}
