//! Tenures that this agent has seen.

use crate::agent::Shared;
use crate::history::{History, PastTenure};
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
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// Those of this key alone.
    pub(crate) key: Option<String>,
    /// How many: 1 to 1,000, 100 if absent.
    pub(crate) limit: Option<usize>,
}

/// Tenures that were seen.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tenures {
    /// The newest first.
    pub(crate) tenures: Vec<PastTenure>,
}

/// Tenures that this agent has seen since its start, 1,000 at the most: those of its own clients, and of all others while somebody listens to records. The
/// store keeps no history.
#[utoipa::path(
    get, path = "/v1/tenures", tag = "leases", operation_id = "list_tenures", params(Asked),
    responses((status = 200, description = "The newest first", body = Tenures), (status = 400, description = "The request is wrong", body = Problem))
)]
pub(crate) async fn tenures(
    State(shared): State<Arc<Shared>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Tenures>, Problem> {
    const USUAL: usize = 100;
    let Query(asked) = asked.map_err(|error| Problem::bad_request(error.body_text()))?;
    let limit = asked.limit.unwrap_or(USUAL);
    if limit == 0 || limit > History::MOST {
        return Err(Problem::bad_request(format!("limit {limit} is outside 1 to {}", History::MOST)));
    }
    let key = asked.key.map(Key::new).transpose()?;
    Ok(Json(Tenures { tenures: shared.history.newest(key.as_ref(), limit) }))
}
