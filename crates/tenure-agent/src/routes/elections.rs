//! Elections: who leads, and wishes to.

use super::LeaseRequest;
use crate::agent_state::AgentState;
use crate::holding::{End, Holding};
use crate::listing::{self, RecordRow};
use crate::named::Named;
use crate::peer::ClientIdentity;
use crate::posted::Posted;
use crate::problem::Problem;
use crate::wire::{Campaign, LeaseReply, ReleaseReply, metadata};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use tenure::Key;
use tenure::store::reserved;
use utoipa::ToSchema;

/// Which leadership to give up.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resign {
    /// What `campaign` has told.
    pub(crate) id: String,
}

/// Who leads, by the record as it stands. With the state `unknown`: who leads, or did, as the session that tells can't be read.
#[utoipa::path(
    get, path = "/v1/elections/{key}/leader", tag = "elections", params(("key" = String, Path, description = "Percent-encoded, slashes too")),
    responses((status = 200, description = "Who leads, with its labels as metadata", body = RecordRow), (status = 404, description = "Nobody leads", body = Problem))
)]
pub(crate) async fn leader(
    State(shared): State<Arc<AgentState>>,
    Named(key): Named,
) -> Result<Json<RecordRow>, Problem> {
    let key = Key::new(key)?;
    let row = listing::one(&shared.leases, &key).await?;
    let mut row = row.filter(RecordRow::may_be_held).ok_or_else(|| Problem::not_found("nobody leads it"))?;
    shared.table.mark_held(std::slice::from_mut(&mut row));
    Ok(Json(row))
}

/// Waits until this client leads. Leadership is kept by beats, as leases are, and given up by `resign`.
#[utoipa::path(
    post, path = "/v1/elections/{key}/campaign", tag = "elections", request_body = Campaign,
    params(("key" = String, Path, description = "Percent-encoded, slashes too")),
    responses((status = 201, description = "This client leads", body = LeaseReply), (status = 409, description = "Another leads", body = Problem),
        (status = 429, description = "The agent has too many", body = Problem),
        (status = 400, description = "The request is wrong", body = Problem))
)]
pub(crate) async fn campaign(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(key): Named,
    Posted(asked): Posted<Campaign>,
) -> Result<(StatusCode, Json<LeaseReply>), Problem> {
    reserved::check(&Key::new(&key)?)?;
    let mut wish = LeaseRequest::checked(&shared, asked.wait_ms, asked.ttl_ms, None, asked.on_exit)?;
    wish.terms.is_election = true;
    // The record of a leader is that of a lease with labels.
    let lock = shared.leases.lock(&key).metadata(metadata(asked.labels));
    let acquired =
        if wish.wait.is_zero() { lock.try_acquire().await } else { lock.acquire_within(wish.wait).await };
    let acquired = shared.acquired(acquired).await?;
    Ok((StatusCode::CREATED, Json(wish.enter(&shared, Holding::Lease(acquired), &peer)?)))
}

/// Gives a leadership up.
#[utoipa::path(
    post, path = "/v1/elections/{key}/resign", tag = "elections", request_body = Resign,
    params(("key" = String, Path, description = "Percent-encoded, slashes too")),
    responses((status = 200, description = "Another can lead", body = ReleaseReply), (status = 410, description = "It is over", body = Problem),
        (status = 404, description = "The agent knows nothing of it", body = Problem),
        (status = 400, description = "It is no leadership of this key", body = Problem),
        (status = 503, description = "The agent is being stopped, or its store does not answer: nobody knows whether this end is written. If it is not, others can have the key once it has expired", body = Problem))
)]
pub(crate) async fn resign(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(key): Named,
    Posted(asked): Posted<Resign>,
) -> Result<Json<ReleaseReply>, Problem> {
    shared.table.check_leads(&asked.id, &key)?;
    super::ended(&shared, &peer, &asked.id, End::GivenBack).await
}
