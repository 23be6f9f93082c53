//! Workers of fleets, and the units that they are given.

use super::LeaseRequest;
use crate::agent_state::AgentState;
use crate::holding::{End, Holding};
use crate::named::Named;
use crate::peer::ClientIdentity;
use crate::posted::Posted;
use crate::problem::Problem;
use crate::wire::{LeaseReply, OnExit, ReleaseReply, metadata, millis};
use crate::workers::ClientWorker;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tenure::Value;
use tenure::fleet::{Fleet, NewUnit, Unit};
use utoipa::ToSchema;

/// A worker that is to be.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Join {
    /// Units that the fleet is to have, if it has not: their names.
    #[serde(default)]
    pub(crate) units: Vec<String>,
    /// What those of them weigh that do not weigh 1, by name.
    #[serde(default)]
    pub(crate) weights: BTreeMap<String, u64>,
    /// Labels that the worker of a unit must have, by the unit's name.
    #[serde(default)]
    pub(crate) needs: BTreeMap<String, Vec<String>>,
    /// The most units that this worker takes; any number if absent.
    pub(crate) most_units: Option<u64>,
    /// The most weight that it takes; any if absent.
    pub(crate) most_weight: Option<u64>,
    /// What is evened out between workers. All workers of a fleet say the same.
    #[serde(default)]
    pub(crate) balance: BalanceBy,
    /// What it offers to units that need it.
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    /// How long it may be silent before others take its units, and the longest that a unit's deadline is ahead; 10 s if absent.
    pub(crate) ttl_ms: Option<u64>,
    /// How long the work on a unit may take to end when the unit is to go to another worker; 30 s if absent.
    pub(crate) drain_ms: Option<u64>,
    /// Who it is: shown to people with its record.
    #[serde(default)]
    pub(crate) about: BTreeMap<String, String>,
    /// What becomes of the worker and its units when this client's process has ended.
    #[serde(default)]
    pub(crate) on_exit: OnExit,
}

/// What is evened out between workers.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[schema(as = Balance)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BalanceBy {
    /// How many units each has.
    #[default]
    Count,
    /// How much they weigh together.
    Weight,
}

impl Join {
    /// The units, with what the plan is to know of them.
    fn new_units(&self) -> Result<Vec<NewUnit>, Problem> {
        let mut described = self.weights.keys().chain(self.needs.keys());
        if let Some(name) = described.find(|name| !self.units.contains(name)) {
            return Err(Problem::bad_request(format!(
                "weights and needs are of units, and {name:?} is not among them; name it there, too"
            )));
        }
        let unit = |name: &String| {
            let weight = self.weights.get(name).copied().unwrap_or(1);
            let needs = self.needs.get(name).into_iter().flatten();
            needs.fold(NewUnit::named(name).weight(weight), NewUnit::needs)
        };
        Ok(self.units.iter().map(unit).collect())
    }
}

/// A worker that takes part.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Joined {
    /// Names it in later requests.
    pub(crate) id: String,
    /// Its name in the fleet.
    pub(crate) holder: String,
    pub(crate) fleet: String,
    /// How soon to ask for the next unit at the latest: half of the ttl, a minute at the most. Who does not ask for a whole ttl wants no more, and the worker leaves.
    pub(crate) ask_in_ms: u64,
}

/// Registers this client as a worker of a fleet. It is given units by `next`, for as long as it asks for them.
#[utoipa::path(
    post, path = "/v1/fleets/{fleet}/workers", tag = "fleets", operation_id = "join_fleet", request_body = Join, params(("fleet" = String, Path)),
    responses((status = 201, description = "It takes part", body = Joined), (status = 400, description = "The request is wrong", body = Problem),
        (status = 409, description = "Workers of a version that divides units otherwise are at work there", body = Problem),
        (status = 429, description = "The agent has too many", body = Problem))
)]
pub(crate) async fn join(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(name): Named,
    Posted(asked): Posted<Join>,
) -> Result<(StatusCode, Json<Joined>), Problem> {
    const USUAL: Duration = Duration::from_secs(10);
    const LONGEST_DRAIN: u64 = 24 * 60 * 60 * 1000;
    shared.workers.check_room()?;
    let terms = LeaseRequest::checked(&shared, 0, asked.ttl_ms, None, asked.on_exit)?.terms;
    let units = asked.new_units()?;
    let fleet = Fleet::new(shared.leases.store().clone(), name)?;
    let ttl = asked.ttl_ms.map_or(USUAL, Duration::from_millis);
    let mut builder = fleet.join().ttl(ttl).drift(shared.leases.drift()).metadata(metadata(asked.about));
    for label in asked.labels {
        builder = builder.label(label);
    }
    if let Some(most) = asked.most_units {
        builder = builder.most_units(most);
    }
    if let Some(most) = asked.most_weight {
        builder = builder.most_weight(most);
    }
    if let BalanceBy::Weight = asked.balance {
        builder = builder.balance(tenure::fleet::Balance::Weight);
    }
    if let Some(drain) = asked.drain_ms {
        if drain > LONGEST_DRAIN {
            return Err(Problem::bad_request(format!("drain_ms {drain} is over {LONGEST_DRAIN}, a day")));
        }
        builder = builder.drain_time(Duration::from_millis(drain));
    }
    // What the request says is refused before others are given these units. That the last place is taken meanwhile is rare, and harmless.
    builder.check()?;
    fleet.check_layout().await?;
    shared.workers.check_room()?;
    fleet.create_all(units).await?;
    let worker = builder.start()?;
    let holder = worker.holder().as_str().to_owned();
    let id = shared.workers.enter(ClientWorker::new(worker, terms, ttl), &peer)?;
    // It is a wait that `next` takes, and no longer than half of how long the worker stays without a question.
    let ask_in_ms = millis(ttl / 2).min(MOST_WAIT);
    let joined = Joined { id, holder, fleet: fleet.name().to_string(), ask_in_ms };
    Ok((StatusCode::CREATED, Json(joined)))
}

/// The longest that a request waits for a unit, in milliseconds.
const MOST_WAIT: u64 = 60_000;

/// How long to wait.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = Next)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextUnitRequest {
    /// In milliseconds; a minute at the most.
    #[serde(default)]
    pub(crate) wait_ms: u64,
}

/// A unit that a worker was given. It is kept by beats, as leases are, until its client says what became of it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Given)]
pub(crate) struct GivenUnit {
    #[serde(flatten)]
    pub(crate) told: LeaseReply,
    /// Its name.
    pub(crate) unit: String,
    /// What it carries for its users: texts and numbers. `checkpoint` is what was written last by `checkpoint`.
    pub(crate) fields: BTreeMap<String, String>,
}

/// The next unit that this worker is given, if there is one in time. That a unit is to go is told by its beats.
#[utoipa::path(
    post, path = "/v1/workers/{id}/next", tag = "fleets", operation_id = "next_unit", request_body = NextUnitRequest, params(("id" = String, Path)),
    responses((status = 200, description = "It is held", body = GivenUnit), (status = 204, description = "There is none yet: ask again"),
        (status = 429, description = "There is none yet, and too many requests wait: ask again after a pause", body = Problem),
        (status = 404, description = "The agent knows nothing of this worker: it has left, or the agent was started anew", body = Problem),
        (status = 410, description = "It has left", body = Problem))
)]
pub(crate) async fn next(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(id): Named,
    Posted(asked): Posted<NextUnitRequest>,
) -> Result<Response, Problem> {
    let member = shared.workers.find(&id)?;
    if asked.wait_ms > MOST_WAIT {
        return Err(Problem::bad_request(format!(
            "wait_ms {} is over {MOST_WAIT}, a minute; ask again after that",
            asked.wait_ms
        )));
    }
    // Whoever asks wants its worker, also where the agent has no room for a unit.
    let _asking = member.asks();
    let room = shared.table.room()?;
    let mut wait = Duration::from_millis(asked.wait_ms);
    let place = shared.waits.enter(wait);
    // Whoever can't wait here has what there is, and its worker stays.
    if place.is_err() {
        wait = Duration::ZERO;
    }
    let Some(assignment) = member.next(wait).await? else {
        place?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let unit = assignment.unit().clone();
    let holding = Holding::Unit(assignment, member.worker.holder().clone());
    let told = shared.table.enter(holding, member.terms, &peer)?;
    drop(room);
    Ok(Json(GivenUnit { told, unit: unit.name().to_owned(), fields: texts(&unit) }).into_response())
}

/// As clients in any language can take them.
fn texts(unit: &Unit) -> BTreeMap<String, String> {
    let text = |value: Value| match value {
        Value::Text(text) => Some(text),
        Value::Number(number) => Some(number.as_str().to_owned()),
        _ => None,
    };
    unit.fields().into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect()
}

/// Has this worker leave its fleet. Its client has said before what became of each unit, or they last until the deadlines that were told.
///
/// The answer comes when they have gone to others.
#[utoipa::path(
    delete, path = "/v1/workers/{id}", tag = "fleets", operation_id = "leave_fleet", params(("id" = String, Path)),
    responses((status = 200, description = "It has left", body = ReleaseReply), (status = 404, description = "The agent knows nothing of it", body = Problem))
)]
pub(crate) async fn leave(
    State(shared): State<Arc<AgentState>>,
    Named(id): Named,
) -> Result<Json<ReleaseReply>, Problem> {
    shared.workers.leave(&id).await?;
    Ok(Json(ReleaseReply { released: true }))
}

/// What is left in a unit's record.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = Done)]
#[serde(deny_unknown_fields)]
pub(crate) struct DoneRequest {
    /// In the place of all other fields, if given.
    pub(crate) fields: Option<BTreeMap<String, String>>,
}

/// A unit is done: nobody is to have it again.
#[utoipa::path(
    post, path = "/v1/units/{id}/done", tag = "fleets", operation_id = "unit_done", request_body = DoneRequest, params(("id" = String, Path)),
    responses((status = 200, description = "False: it was lost before", body = ReleaseReply), (status = 410, description = "It is over", body = Problem),
        (status = 404, description = "The agent knows nothing of it", body = Problem), (status = 400, description = "It is no unit", body = Problem),
        (status = 503, description = "The agent is being stopped, or its store does not answer: nobody knows whether this end is written. If it is not, others can have the key once it has expired", body = Problem))
)]
pub(crate) async fn done(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(id): Named,
    Posted(asked): Posted<DoneRequest>,
) -> Result<Json<ReleaseReply>, Problem> {
    super::ended(&shared, &peer, &id, End::Done(asked.fields)).await
}

/// Why something failed.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = Failure)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailureReport {
    /// For the agent's log.
    #[serde(default)]
    pub(crate) says: String,
}

/// What was done for a unit has failed: another worker has a go, and this one again after a while. `DELETE /v1/leases/ID` gives a unit back
/// that was to go, or that says nothing about it: it goes to where it is planned, perhaps to this worker again.
#[utoipa::path(
    post, path = "/v1/units/{id}/failed", tag = "fleets", operation_id = "unit_failed", request_body = FailureReport, params(("id" = String, Path)),
    responses((status = 200, description = "False: it was lost before", body = ReleaseReply), (status = 410, description = "It is over", body = Problem),
        (status = 404, description = "The agent knows nothing of it", body = Problem), (status = 400, description = "It is no unit", body = Problem),
        (status = 503, description = "The agent is being stopped, or its store does not answer: nobody knows whether this end is written. If it is not, others can have the key once it has expired", body = Problem))
)]
pub(crate) async fn failed(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(id): Named,
    Posted(asked): Posted<FailureReport>,
) -> Result<Json<ReleaseReply>, Problem> {
    super::ended(&shared, &peer, &id, End::Failed(asked.says)).await
}

/// How far the work has come.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    /// For whoever has the unit next.
    pub(crate) value: String,
}

/// Writes how far the work on a unit has come, on the condition that it is still this worker's.
#[utoipa::path(
    post, path = "/v1/units/{id}/checkpoint", tag = "fleets", operation_id = "unit_checkpoint", request_body = Checkpoint, params(("id" = String, Path)),
    responses((status = 204, description = "It is written"), (status = 410, description = "It is over", body = Problem),
        (status = 404, description = "The agent knows nothing of it", body = Problem), (status = 400, description = "It is no unit, or too long", body = Problem))
)]
pub(crate) async fn checkpoint(
    State(shared): State<Arc<AgentState>>,
    Named(id): Named,
    Posted(asked): Posted<Checkpoint>,
) -> Result<StatusCode, Problem> {
    shared.table.unit(&id)?.checkpoint(asked.value).await?;
    Ok(StatusCode::NO_CONTENT)
}
