//! The agent's interface in the terms of OpenAPI 3.1, written from the code.

use crate::{events, listing, problem, routes, wire};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "tenure's lease agent",
        description = "Leases for programs in any language. Until when a client may act on one: see promise S9."
    ),
    paths(
        routes::leases::acquire,
        routes::leases::beat,
        routes::leases::beats,
        routes::leases::release,
        routes::leases::list,
        routes::semaphores::acquire,
        routes::elections::leader,
        routes::elections::campaign,
        routes::elections::resign,
        routes::once::begin,
        routes::once::end,
        routes::sections::acquire,
        routes::fleets::join,
        routes::fleets::next,
        routes::fleets::leave,
        routes::fleets::done,
        routes::fleets::failed,
        routes::fleets::checkpoint,
        routes::listen,
        routes::health::alive,
        routes::health::ready,
        routes::health::metrics,
        routes::overview::overview,
        routes::records::revoke,
        routes::records::drain,
        routes::records::release,
        routes::records::move_unit
    ),
    components(schemas(
        wire::Acquire,
        wire::AcquirePermits,
        wire::Campaign,
        wire::Told,
        wire::Beats,
        wire::AllBeaten,
        wire::Released,
        problem::Problem,
        events::Event,
        listing::Page,
        listing::Row,
        routes::overview::Overview,
        routes::elections::Resign,
        routes::once::Tick,
        routes::once::Ended,
        routes::sections::AcquireRange,
        routes::sections::LeasedRanges,
        routes::fleets::Join,
        routes::fleets::Joined,
        routes::fleets::Next,
        routes::fleets::Given,
        routes::fleets::Done,
        routes::fleets::Failure,
        routes::fleets::Checkpoint
    ))
)]
struct Document;

/// The document that `/openapi.json` shows.
#[must_use]
pub fn document() -> String {
    let mut text = Document::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

pub(crate) async fn served() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], document())
}
