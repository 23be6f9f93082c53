//! Which path is answered by what.

#[cfg(test)]
mod between;
#[cfg(test)]
mod description;
#[cfg(test)]
mod many_sections;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod parted;
#[cfg(test)]
mod quiet;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unreadable;
#[cfg(test)]
mod waiting;

use crate::agent_state::AgentState;
use crate::problem::Problem;
use crate::routes::{
    elections, events, fleets, health, history, leases, once, overview, records, sections, semaphores,
};
use crate::{dashboard, openapi};
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

pub(crate) fn router(shared: &Arc<AgentState>) -> Router {
    Router::new()
        .route("/v1/leases", get(leases::list).post(leases::acquire))
        .route("/v1/leases/{id}", axum::routing::delete(leases::release))
        .route("/v1/leases/{id}/beat", post(leases::beat))
        .route("/v1/beats", post(leases::beats))
        .route("/v1/semaphores", post(semaphores::acquire))
        .route("/v1/elections/{key}/leader", get(elections::leader))
        .route("/v1/elections/{key}/campaign", post(elections::campaign))
        .route("/v1/elections/{key}/resign", post(elections::resign))
        .route("/v1/once", post(once::begin))
        .route("/v1/once/{id}/end", post(once::end))
        .route("/v1/sections/{section}/leases", post(sections::acquire))
        .route("/v1/fleets/{fleet}/workers", post(fleets::join))
        .route("/v1/workers/{id}", axum::routing::delete(fleets::leave))
        .route("/v1/workers/{id}/next", post(fleets::next))
        .route("/v1/units/{id}/done", post(fleets::done))
        .route("/v1/units/{id}/failed", post(fleets::failed))
        .route("/v1/units/{id}/checkpoint", post(fleets::checkpoint))
        .route("/v1/events", get(events::listen))
        .route("/v1/tenures", get(history::tenures))
        .route("/v1/records/{key}/revoke", post(records::revoke))
        .route("/v1/records/{key}/drain", post(records::drain))
        .route("/v1/records/{key}/release", post(records::release))
        .route("/v1/records/{key}/move", post(records::move_unit))
        .route("/v1/overview", get(overview::overview))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::served))
        .merge(dashboard::router())
        .fallback(async || Problem::not_found("there is nothing at this path; see /openapi.json"))
        .method_not_allowed_fallback(async || Problem::no_method())
        .with_state(Arc::clone(shared))
}
