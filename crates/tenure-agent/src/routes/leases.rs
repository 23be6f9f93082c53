//! Leases: get, keep, give back and list them.

use super::LeaseRequest;
use crate::access::AccessLevel;
use crate::agent_state::AgentState;
use crate::holding::{End, Holding};
use crate::listing::{self, RecordPage};
use crate::named::Named;
use crate::peer::ClientIdentity;
use crate::posted::Posted;
use crate::problem::Problem;
use crate::wire::{Acquire, AllBeaten, Beaten, Beats, LeaseReply, ListQuery, ReleaseReply, metadata};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use std::sync::Arc;
use tenure::Key;

/// Takes a lease, waiting for it if asked to.
///
/// A client that closes its connection while it waits does not get it.
#[utoipa::path(
    post, path = "/v1/leases", tag = "leases", request_body = Acquire,
    responses((status = 201, description = "It is held", body = LeaseReply), (status = 409, description = "Another holds it", body = Problem),
        (status = 400, description = "The request is wrong", body = Problem), (status = 429, description = "The agent has too many", body = Problem),
        (status = 503, description = "The store can't be reached, or the agent is being stopped", body = Problem))
)]
pub(crate) async fn acquire(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Posted(asked): Posted<Acquire>,
) -> Result<(StatusCode, Json<LeaseReply>), Problem> {
    let wish = LeaseRequest::checked(&shared, asked.wait_ms, asked.ttl_ms, asked.at_most_ms, asked.on_exit)?;
    let mut lock = shared.leases.lock(&asked.key);
    if !asked.about.is_empty() {
        lock = lock.metadata(metadata(asked.about));
    }
    if let Some(most) = wish.terms.at_most {
        lock = lock.at_most_for(most);
    }
    let acquired =
        if wish.wait.is_zero() { lock.try_acquire().await } else { lock.acquire_within(wish.wait).await };
    let acquired = shared.acquired(acquired).await?;
    Ok((StatusCode::CREATED, Json(wish.enter(&shared, Holding::Lease(acquired), &peer)?)))
}

/// Says that its client wants the lease still, and is answered with a new deadline.
#[utoipa::path(
    post, path = "/v1/leases/{id}/beat", tag = "leases", params(("id" = String, Path)),
    responses((status = 200, description = "It is held", body = LeaseReply), (status = 410, description = "It is over", body = Problem),
        (status = 404, description = "The agent knows nothing of it", body = Problem))
)]
pub(crate) async fn beat(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(id): Named,
) -> Result<Json<LeaseReply>, Problem> {
    Ok(Json(shared.table.beat(&id, &peer)?))
}

/// As many beats in one request.
#[utoipa::path(
    post, path = "/v1/beats", tag = "leases", request_body = Beats,
    responses((status = 200, description = "What came of each", body = AllBeaten))
)]
pub(crate) async fn beats(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Posted(asked): Posted<Beats>,
) -> Result<Json<AllBeaten>, Problem> {
    const MOST: usize = 1000;
    if asked.ids.len() > MOST {
        return Err(Problem::bad_request(format!(
            "{} ids are more than {MOST}; send several requests",
            asked.ids.len()
        )));
    }
    let beaten = asked.ids.into_iter().map(|id| match shared.table.beat(&id, &peer) {
        Ok(told) => Beaten::Told(told),
        Err(problem) => Beaten::Over { id, code: problem.code(), over: problem.message().to_owned() },
    });
    Ok(Json(AllBeaten { leases: beaten.collect() }))
}

/// Gives a lease back. Its client has stopped acting on it before it asks.
#[utoipa::path(
    delete, path = "/v1/leases/{id}", tag = "leases", params(("id" = String, Path)),
    responses((status = 200, description = "The next holder can have it", body = ReleaseReply), (status = 410, description = "It is over", body = Problem),
        (status = 404, description = "The agent knows nothing of it", body = Problem),
        (status = 503, description = "The agent is being stopped, or its store does not answer: nobody knows whether this end is written. If it is not, others can have the key once it has expired", body = Problem))
)]
pub(crate) async fn release(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(id): Named,
) -> Result<Json<ReleaseReply>, Problem> {
    super::ended(&shared, &peer, &id, End::GivenBack).await
}

/// What the store has, whoever holds it: a page of records, in the order of their keys. A page has fewer than `limit` where they would be more than 1 MiB.
#[utoipa::path(
    get, path = "/v1/leases", tag = "leases", params(ListQuery),
    responses((status = 200, description = "A page; `next` is there if there are more", body = RecordPage), (status = 400, description = "The request is wrong", body = Problem),
        (status = 429, description = "Many pages are on their way to clients; try again", body = Problem))
)]
pub(crate) async fn list(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Extension(role): Extension<AccessLevel>,
    asked: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<RecordPage>, Problem> {
    const MOST: usize = 1000;
    const USUAL: usize = 100;
    let Query(asked) = asked.map_err(|error| Problem::bad_request(error.body_text()))?;
    let limit = asked.limit.unwrap_or(USUAL);
    if limit == 0 || limit > MOST {
        return Err(Problem::bad_request(format!("limit {limit} is outside 1 to {MOST}")));
    }
    if !asked.prefix.is_empty() {
        Key::new(&asked.prefix)?;
    }
    let after = asked.after.map(Key::new).transpose()?;
    let place = shared.pages.enter(role).await?;
    let mut page = listing::page(&shared.leases, &asked.prefix, after.as_ref(), limit).await?;
    shared.table.mark_held(&mut page.leases);
    peer.delivery().keeps(place);
    Ok(Json(page))
}
