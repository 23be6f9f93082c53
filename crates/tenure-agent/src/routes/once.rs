//! Ticks that run once over all hosts.

use super::LeaseRequest;
use crate::agent_state::AgentState;
use crate::holding::{Again, End, Holding};
use crate::named::Named;
use crate::peer::ClientIdentity;
use crate::posted::Posted;
use crate::problem::Problem;
use crate::wire::{LeaseReply, OnExit, ReleaseReply};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tenure::Wall;
use tenure::once::{OnceError, Ticked};
use utoipa::ToSchema;

/// A tick that is to run.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = Tick)]
#[serde(deny_unknown_fields)]
pub(crate) struct TickRequest {
    /// What runs: it has one schedule. Its record is once/KEY.
    pub(crate) key: String,
    /// The time that the tick is scheduled for, in milliseconds since 1970 in UTC; not ahead of this host's clock.
    pub(crate) tick_ms: Option<u64>,
    /// In the place of `tick_ms`: ticks are so far apart, counted from 1970 in UTC, and the last one that is due is meant.
    pub(crate) every_ms: Option<u64>,
    /// A tick whose end nobody told is run again, by whoever asks for it.
    #[serde(default)]
    pub(crate) at_least_once: bool,
    /// How long to wait while somebody holds the key: an earlier tick that still runs.
    #[serde(default)]
    pub(crate) wait_ms: u64,
    /// As of a lease.
    pub(crate) ttl_ms: Option<u64>,
    /// As of a lease.
    pub(crate) at_most_ms: Option<u64>,
    #[serde(default)]
    pub(crate) on_exit: OnExit,
}

/// Begins a tick, unless it or a later one has run, on whichever host. It is kept by beats, as leases are, until its client tells its end.
///
/// That it begins is written before the answer. If no end is told, it has run, unless it is to run at least once.
#[utoipa::path(
    post, path = "/v1/once", tag = "once", operation_id = "begin_tick", request_body = TickRequest,
    responses((status = 201, description = "It is to run here", body = LeaseReply),
        (status = 409, description = "`ran`: it, or a later one, has run; `held`: one runs now; `ahead`: the record shows one that lies ahead of this host's clock", body = Problem),
        (status = 429, description = "The agent has too many", body = Problem),
        (status = 400, description = "The request is wrong, or the tick is not due", body = Problem))
)]
pub(crate) async fn begin(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Posted(asked): Posted<TickRequest>,
) -> Result<(StatusCode, Json<LeaseReply>), Problem> {
    let wish = LeaseRequest::checked(&shared, asked.wait_ms, asked.ttl_ms, asked.at_most_ms, asked.on_exit)?;
    let mut once = match (asked.tick_ms, asked.every_ms) {
        (Some(tick), None) => shared.leases.once_per(&asked.key, Wall(tick)),
        (None, Some(every)) if every > 0 => {
            shared.leases.once_every(&asked.key, Duration::from_millis(every))
        }
        _ => {
            return Err(Problem::bad_request(
                "say either `tick_ms`, when it is scheduled for, or `every_ms`, how far ticks are apart",
            ));
        }
    };
    let mut again = Again::No;
    if asked.at_least_once {
        (once, again) = (once.at_least_once(), Again::Yes);
    }
    let begin = async {
        match once.wait(wish.wait).begin().await {
            Ok(Ticked::Here(tick)) => wish.enter(&shared, Holding::Tick(tick, again), &peer),
            Ok(Ticked::Elsewhere(run)) => Err(Problem::ran(&run, run.to_string())),
            Ok(Ticked::Busy(by)) => Err(Problem::held(by)),
            Ok(_) => Err(Problem::held(None)),
            Err(OnceError::Acquire(error)) => Err(shared.refusal(error).await),
            Err(error @ OnceError::Ahead(_)) => Err(Problem::ahead(error.to_string())),
            Err(error) => Err(Problem::unavailable(error.to_string())),
        }
    };
    let told = shared.table.begun(begin).await?;
    Ok((StatusCode::CREATED, Json(told)))
}

/// How a tick ended.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = Ended)]
#[serde(deny_unknown_fields)]
pub(crate) struct TickEnd {
    /// It went well.
    pub(crate) is_well: bool,
    /// What is to be said of it, of which 200 bytes are kept.
    #[serde(default)]
    pub(crate) says: String,
}

/// Tells how a tick ended, which is kept in its record.
#[utoipa::path(
    post, path = "/v1/once/{id}/end", tag = "once", operation_id = "end_tick", request_body = TickEnd, params(("id" = String, Path)),
    responses((status = 200, description = "False: it was lost before", body = ReleaseReply), (status = 410, description = "It is over", body = Problem),
        (status = 404, description = "The agent knows nothing of it", body = Problem), (status = 400, description = "It is no tick", body = Problem),
        (status = 503, description = "The agent is being stopped, or its store does not answer: nobody knows whether this end is written. If it is not, others can have the key once it has expired", body = Problem))
)]
pub(crate) async fn end(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(id): Named,
    Posted(asked): Posted<TickEnd>,
) -> Result<Json<ReleaseReply>, Problem> {
    let end = if asked.is_well { End::Ran(asked.says) } else { End::Failed(asked.says) };
    super::ended(&shared, &peer, &id, end).await
}
