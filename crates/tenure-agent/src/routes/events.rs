//! What happens, told as it happens.

use crate::agent_state::AgentState;
use crate::events::{self, Event, Subscription};
use crate::problem::Problem;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// What to tell of.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listen {
    /// Also records of the store that have another tenure, or other data, whoever wrote them. The agent reads the store for that for as long as anybody asks
    /// for it, and not where the store has no push. What of that goes unnoticed is seen by who lists the records now and then.
    #[serde(default)]
    pub(crate) records: bool,
}

/// What happens to clients' leases from now on, and to all records if that is asked for.
///
/// Listeners have a quarter of all connections at the most, so that whoever may only look does not keep the beats of others out.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", params(Listen),
    responses((status = 200, description = "Server-sent events, each with an Event as its data, or with a Changed where records are asked for", content_type = "text/event-stream", body = Event),
        (status = 400, description = "The request is wrong", body = Problem), (status = 429, description = "Too many listen already", body = Problem))
)]
pub(crate) async fn listen(
    State(shared): State<Arc<AgentState>>,
    asked: Result<Query<Listen>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(asked) = asked.map_err(|error| Problem::bad_request(error.body_text()))?;
    let most = shared.limits.connections.div_ceil(4);
    let place = shared.waits.stay()?;
    let events = shared.table.listen(most).ok_or_else(|| Problem::too_many_listen(most))?;
    let news = asked.records.then(|| shared.news.listen(&shared.leases, &shared.table, &shared.history));
    Ok(events::stream_of(Subscription { events, news, _place: place }))
}
