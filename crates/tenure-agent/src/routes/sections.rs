//! Sections: keys of a range, leased for a time that nothing prolongs.

use super::LeaseRequest;
use crate::agent_state::AgentState;
use crate::holding::Holding;
use crate::named::Named;
use crate::peer::ClientIdentity;
use crate::posted::Posted;
use crate::problem::Problem;
use crate::wire::{LeaseReply, OnExit, millis};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tenure::range::{KeyRange, Section};
use tenure::{InvalidInput, Ttl};
use utoipa::ToSchema;

/// A wish for keys of a section.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireRange {
    /// LOW_HIGH in hexadecimal digits, the high end excluded.
    pub(crate) range: String,
    /// How long it is leased, a day at most. Nothing prolongs it.
    pub(crate) for_ms: u64,
    /// All of it or nothing; else what nobody else has of it.
    #[serde(default)]
    pub(crate) all: bool,
    /// How long to wait while there is nothing to have.
    #[serde(default)]
    pub(crate) wait_ms: u64,
    #[serde(default)]
    pub(crate) on_exit: OnExit,
}

/// Ranges that are leased.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct LeasedRanges {
    #[serde(flatten)]
    pub(crate) told: LeaseReply,
    /// Each LOW_HIGH in hexadecimal digits, the high end excluded: what was had of what was wanted.
    pub(crate) ranges: Vec<String>,
}

/// Leases keys of a section until a deadline that no beat puts off. They are given back as leases are.
#[utoipa::path(
    post, path = "/v1/sections/{section}/leases", tag = "sections", operation_id = "acquire_ranges", request_body = AcquireRange, params(("section" = String, Path)),
    responses((status = 201, description = "They are held", body = LeasedRanges), (status = 409, description = "Others hold them", body = Problem),
        (status = 429, description = "The agent has too many", body = Problem),
        (status = 400, description = "The request is wrong", body = Problem))
)]
pub(crate) async fn acquire(
    State(shared): State<Arc<AgentState>>,
    Extension(peer): Extension<Arc<ClientIdentity>>,
    Named(name): Named,
    Posted(asked): Posted<AcquireRange>,
) -> Result<(StatusCode, Json<LeasedRanges>), Problem> {
    let wish = LeaseRequest::checked(&shared, asked.wait_ms, None, None, asked.on_exit)?;
    let range: KeyRange = asked.range.parse()?;
    let most = millis(Ttl::MAX.duration());
    if asked.for_ms > most {
        let text = format!("for_ms {} is over {most}, a day; lease the range again after that", asked.for_ms);
        return Err(Problem::bad_request(text));
    }
    let section = section(&shared, &name)?;
    let time = Duration::from_millis(asked.for_ms);
    let lock = section.lock(range, time);
    let lock = if asked.all { lock.all() } else { lock };
    let guard = lock.acquire_within(wish.wait).await?;
    let fence = guard.fence();
    let ranges = guard.parts().iter().map(ToString::to_string).collect();
    let told = wish.enter(&shared, Holding::Ranges(guard, section.key().clone(), fence), &peer)?;
    Ok((StatusCode::CREATED, Json(LeasedRanges { told, ranges })))
}

fn section(shared: &AgentState, name: &str) -> Result<Section, InvalidInput> {
    let make = || {
        let store = shared.leases.store().clone();
        // One that is given up blocks nobody: what clients have of it stays theirs.
        Section::builder(store, name).drift(shared.leases.drift()).linger(Duration::ZERO).start()
    };
    // No code that can panic runs under the lock.
    shared.sections.lock().unwrap_or_else(PoisonError::into_inner).find(name, make)
}
