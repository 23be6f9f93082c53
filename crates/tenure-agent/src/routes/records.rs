//! What an operator does to a lease, whoever holds it.

use crate::agent_state::AgentState;
use crate::named::Named;
use crate::peer::ClientIdentity;
use crate::posted::Posted;
use crate::problem::Problem;
use crate::wire::millis;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tenure::fleet::Fleet;
use tenure::permits::is_semaphore;
use tenure::range::is_section;
use tenure::store::Record;
use tenure::{Fence, HolderId, Key, LeaseError, Occupant, Request, Store, Ttl};
use tenure_store::parts::quietly;
use tenure_store::tell;
use utoipa::ToSchema;

/// Where operators' requests are logged.
const TARGET: &str = "tenure::agent::operator";

/// Which tenure is meant.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meant {
    /// Its fence. If the record shows another by now, or does by the time of the write, nothing is done: another tenure is never touched.
    pub(crate) fence: u64,
}

/// What was begun.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Begun)]
pub(crate) struct AskAccepted {
    /// Who is told.
    pub(crate) holder: String,
    /// Within which time it has an effect, if the store can be reached.
    pub(crate) within_ms: u64,
}

/// Tells the holder to stop and to give the lease up. It sees that at its next renewal.
#[utoipa::path(
    post, path = "/v1/records/{key}/revoke", tag = "operator", operation_id = "revoke_record", request_body = Meant,
    params(("key" = String, Path, description = "Percent-encoded, slashes too")),
    responses((status = 202, description = "It is told", body = AskAccepted), (status = 404, description = "Nobody holds it", body = Problem),
        (status = 409, description = "Another tenure has begun", body = Problem), (status = 400, description = "It is not held by one holder", body = Problem))
)]
pub(crate) async fn revoke(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(key): Named,
    Posted(meant): Posted<Meant>,
) -> Result<(StatusCode, Json<AskAccepted>), Problem> {
    ask(&shared, &peer, "revoke", key, &meant, Request::Revoke).await
}

/// Asks the holder to end what it does and to pass the lease on. A worker of a fleet, whose key is that of its session, passes on all of its units and stops.
#[utoipa::path(
    post, path = "/v1/records/{key}/drain", tag = "operator", operation_id = "drain_record", request_body = Meant,
    params(("key" = String, Path, description = "Percent-encoded, slashes too")),
    responses((status = 202, description = "It is asked", body = AskAccepted), (status = 404, description = "Nobody holds it", body = Problem),
        (status = 409, description = "Another tenure has begun", body = Problem), (status = 400, description = "It is not held by one holder", body = Problem))
)]
pub(crate) async fn drain(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(key): Named,
    Posted(meant): Posted<Meant>,
) -> Result<(StatusCode, Json<AskAccepted>), Problem> {
    ask(&shared, &peer, "drain", key, &meant, Request::HandOver).await
}

/// Takes the lease from its holder, which is told to stop, once that one can't believe in it any more: after a ttl, whether it lives or not.
///
/// The answer comes before that. The agent goes on with it by itself, and logs what came of it. An agent that is told to stop gives it up: the holder may have
/// been told, and the key is not vacated. That is logged, too, and it can be asked for again elsewhere.
#[utoipa::path(
    post, path = "/v1/records/{key}/release", tag = "operator", operation_id = "release_by_force", request_body = Meant,
    params(("key" = String, Path, description = "Percent-encoded, slashes too")),
    responses((status = 202, description = "It is begun", body = AskAccepted), (status = 404, description = "Nobody holds it", body = Problem),
        (status = 409, description = "Another tenure has begun", body = Problem), (status = 400, description = "It is not held by one holder", body = Problem),
        (status = 429, description = "Too many are under way", body = Problem),
        (status = 503, description = "The agent is being stopped, or its store does not answer", body = Problem))
)]
pub(crate) async fn release(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(key): Named,
    Posted(meant): Posted<Meant>,
) -> Result<(StatusCode, Json<AskAccepted>), Problem> {
    let key = Key::new(key)?;
    let (holder, ttl) = check(&shared, &key, &meant).await?;
    let mut place = shared.seizures.begin()?;
    done("release", &peer, &key, meant.fence, &holder);
    let leases = shared.leases.clone();
    tokio::spawn(async move {
        let (key, fence) = (key.as_str(), meant.fence);
        let forced = tokio::select! {
            biased;
            forced = leases.release_by_force_of(key, Fence(fence), |_, _| {}) => forced,
            () = place.stopped() => {
                tell!(
                    warn, name: "agent.operator", target: TARGET, key, fence,
                    "release given up, as this agent is being stopped: its holder may have been told, and the key is not vacated; ask another agent, or `tenure release`"
                );
                return;
            }
        };
        match forced {
            Ok(forced) => {
                tell!(warn, name: "agent.operator", target: TARGET, key, fence = forced.fence.0, vacated = forced.vacated, "released");
            }
            Err(error) => {
                tell!(warn, name: "agent.operator", target: TARGET, key, %error, "release failed");
            }
        }
    });
    Ok((StatusCode::ACCEPTED, Json(AskAccepted { holder, within_ms: millis(ttl.duration()) })))
}

/// Whom a unit is to go to.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = Move)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveRequest {
    /// The unit's fence, as in the other actions: if another worker has it by now, it is not moved.
    pub(crate) fence: u64,
    /// A worker of its fleet. None: wherever the plan has it.
    pub(crate) worker: Option<String>,
}

/// Where a unit will go.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Moved {
    /// The worker that it is pinned to now, and goes to once whoever has it lets go of it.
    pub(crate) pinned_to: Option<String>,
}

/// Pins a unit of a fleet to a worker, which is to have it as long as it lives; or takes the pin away.
#[utoipa::path(
    post, path = "/v1/records/{key}/move", tag = "operator", operation_id = "move_unit", request_body = MoveRequest,
    params(("key" = String, Path, description = "That of the unit, fleet/FLEET/unit/UNIT. Percent-encoded, slashes too")),
    responses((status = 200, description = "It is pinned so", body = Moved), (status = 404, description = "There is no such unit or worker", body = Problem),
        (status = 409, description = "Another tenure has begun", body = Problem),
        (status = 400, description = "It is no unit, or the worker can't have it", body = Problem))
)]
pub(crate) async fn move_unit(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(key): Named,
    Posted(asked): Posted<MoveRequest>,
) -> Result<Json<Moved>, Problem> {
    let worker = asked.worker.map(HolderId::new).transpose()?;
    let parts: Vec<&str> = key.splitn(4, '/').collect();
    let ["fleet", name, "unit", unit] = parts[..] else {
        return Err(Problem::bad_request("it is no unit of a fleet: its key would be fleet/FLEET/unit/UNIT"));
    };
    let fleet = Fleet::new(shared.leases.store().clone(), name)?;
    let absent = || Problem::not_found("the fleet has no such unit");
    let view = fleet.get(unit).await?.ok_or_else(absent)?;
    let meant = Fence(asked.fence);
    if view.fence != meant {
        return Err(Problem::held(view.holder));
    }
    if let Some(worker) = &worker {
        let roster = fleet.roster().await?;
        if let Some((_, error)) = roster.damaged.into_iter().find(|(name, _)| name == worker.as_str()) {
            return Err(error.into());
        }
        let member = roster.members.into_iter().find(|member| member.holder == *worker);
        let about = member.ok_or_else(|| Problem::not_found("the fleet has no such worker"))?.about;
        if about.leaving || !view.spec.needs.is_subset(&about.labels) {
            return Err(Problem::bad_request(
                "that worker is leaving, or lacks a label that the unit needs; choose another one",
            ));
        }
    }
    if !fleet.pin_of(unit, meant, worker.as_ref()).await? {
        let holder = fleet.get(unit).await?.ok_or_else(absent)?.holder;
        return Err(Problem::held(holder));
    }
    let pinned_to = worker.map(|worker| worker.as_str().to_owned());
    done("move", &peer, &Key::new(&key)?, meant.0, pinned_to.as_deref().unwrap_or("-"));
    Ok(Json(Moved { pinned_to }))
}

async fn ask(
    shared: &AgentState,
    peer: &ClientIdentity,
    action: &'static str,
    key: String,
    meant: &Meant,
    request: Request,
) -> Result<(StatusCode, Json<AskAccepted>), Problem> {
    let key = Key::new(key)?;
    let (holder, ttl) = check(shared, &key, meant).await?;
    match shared.leases.request_of(&key, Fence(meant.fence), request).await {
        // It ended just now, or another one has begun: that is told, and not touched.
        Err(LeaseError::NotHeld) => {
            check(shared, &key, meant).await?;
            return Err(nobody());
        }
        other => other?,
    }
    done(action, peer, &key, meant.fence, &holder);
    Ok((StatusCode::ACCEPTED, Json(AskAccepted { holder, within_ms: millis(ttl.part(3)) })))
}

/// Who holds it, if that is the tenure that was meant.
async fn check(shared: &AgentState, key: &Key, meant: &Meant) -> Result<(String, Ttl), Problem> {
    let stored = shared.leases.store().read(key).await?;
    let Some(record) = stored.map(|stored| stored.record) else { return Err(nobody()) };
    let Some(tenure) = &record.tenure else { return Err(of_many(&record)) };
    if record.fence != Fence(meant.fence) {
        return Err(Problem::held(Occupant::of(&record)));
    }
    Ok((tenure.holder.as_str().to_owned(), tenure.ttl))
}

fn nobody() -> Problem {
    Problem::not_found("nobody holds it")
}

/// Why a record without a tenure can't be taken from anyone.
fn of_many(record: &Record) -> Problem {
    if is_semaphore(record) {
        let remedy =
            "it is a semaphore: release the session of a holder, which ends all that its process holds";
        return Problem::bad_request(remedy);
    }
    if is_section(record) {
        let remedy = "it is a section: its ranges are free when their time is over, or by `tenure reclaim` before that";
        return Problem::bad_request(remedy);
    }
    nobody()
}

impl From<LeaseError> for Problem {
    fn from(error: LeaseError) -> Problem {
        match error {
            LeaseError::NotHeld => nobody(),
            LeaseError::Lost(loss) => Problem::over(&loss.to_string()),
            LeaseError::Store(error) => error.into(),
            error => Problem::unavailable(error.to_string()),
        }
    }
}

/// Whatever else is logged, this should be.
fn done(action: &'static str, peer: &ClientIdentity, key: &Key, fence: u64, holder: &str) {
    quietly(|| metrics::counter!("tenure_agent_operator_total", "action" => action).increment(1));
    let (key, by) = (key.as_str(), peer.name());
    tell!(warn, name: "agent.operator", target: TARGET, action, by, key, fence, holder, "an operator's request");
}
