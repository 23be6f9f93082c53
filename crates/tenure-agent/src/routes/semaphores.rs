//! Permits of semaphores, readers and writers.

use super::LeaseRequest;
use crate::agent_state::AgentState;
use crate::holding::Holding;
use crate::peer::ClientIdentity;
use crate::posted::Posted;
use crate::problem::Problem;
use crate::wire::{AcquirePermits, LeaseReply, PermitMode};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use std::sync::Arc;

/// Takes permits, in turn, waiting for them if asked to. They are kept and given back as leases are.
#[utoipa::path(
    post, path = "/v1/semaphores", tag = "semaphores", operation_id = "acquire_permits", request_body = AcquirePermits,
    responses((status = 201, description = "They are held", body = LeaseReply), (status = 409, description = "Others hold them", body = Problem),
        (status = 429, description = "The agent has too many", body = Problem),
        (status = 400, description = "The request is wrong", body = Problem))
)]
pub(crate) async fn acquire(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Posted(asked): Posted<AcquirePermits>,
) -> Result<(StatusCode, Json<LeaseReply>), Problem> {
    let wish = LeaseRequest::checked(&shared, asked.wait_ms, asked.ttl_ms, asked.at_most_ms, asked.on_exit)?;
    let leases = &shared.leases;
    let mut permits = match (asked.permits, asked.mode, asked.take) {
        (Some(all), None, take) => leases.semaphore(&asked.name, all).take(take.unwrap_or(1)),
        (None, Some(PermitMode::Shared), None) => leases.shared(&asked.name),
        (None, Some(PermitMode::Exclusive), None) => leases.exclusive(&asked.name),
        _ => {
            return Err(Problem::bad_request(
                "say either `permits`, with `take` if more than one is wanted, or a `mode`",
            ));
        }
    };
    if let Some(most) = wish.terms.at_most {
        permits = permits.at_most_for(most);
    }
    let acquired = if wish.wait.is_zero() {
        permits.try_acquire().await
    } else {
        permits.acquire_within(wish.wait).await
    };
    let acquired = shared.acquired(acquired).await?;
    Ok((StatusCode::CREATED, Json(wish.enter(&shared, Holding::Lease(acquired), &peer)?)))
}
