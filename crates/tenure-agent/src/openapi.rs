//! The agent's interface in the terms of OpenAPI 3.1, written from the code.

use crate::{events, listing, news, problem, routes, wire};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "tenure's lease agent",
        description = "Leases for programs in any language. Until when a client may act on one: see promise S9."
    ),
    modifiers(&BearerToken, &CommonProblems),
    security((), ("token" = [])),
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
        routes::events::listen,
        routes::history::tenures,
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
        wire::LeaseReply,
        wire::Beats,
        wire::AllBeaten,
        wire::ReleaseReply,
        problem::Problem,
        events::Event,
        news::Changed,
        listing::RecordPage,
        listing::RecordRow,
        routes::history::PastTenures,
        routes::overview::Overview,
        routes::elections::Resign,
        routes::once::TickRequest,
        routes::once::TickEnd,
        routes::sections::AcquireRange,
        routes::sections::LeasedRanges,
        routes::fleets::Join,
        routes::fleets::Joined,
        routes::fleets::NextUnitRequest,
        routes::fleets::GivenUnit,
        routes::fleets::DoneRequest,
        routes::fleets::FailureReport,
        routes::fleets::Checkpoint
    ))
)]
struct Document;

/// What a TCP address asks for. Who comes by the Unix socket needs none.
struct BearerToken;

impl Modify for BearerToken {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let description = "The agent's token, or its read token, which may look and change nothing";
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description)).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

/// What may be answered to any request, or to any of its kind, whatever else an operation says of itself.
struct CommonProblems;

impl CommonProblems {
    const ANY: [(&str, &str); 3] = [
        ("401", "There is no token, or not one of this agent's"),
        ("403", "The token may only look, or another site's page asks"),
        ("503", "The agent is being stopped, or its store does not answer"),
    ];
    const WITH_INPUT: [(&str, &str); 2] =
        [("400", "The request is wrong"), ("409", "The record can't be read")];
    const WITH_BODY: [(&str, &str); 3] = [
        ("408", "The request did not arrive in time"),
        ("413", "The body is too large"),
        ("429", "The agent has as many as it bears"),
    ];

    fn add(operation: &mut Operation) {
        let has_body = operation.request_body.is_some();
        let has_input = has_body || operation.parameters.is_some();
        let with_input = Self::WITH_INPUT.into_iter().filter(|_| has_input);
        let with_body = Self::WITH_BODY.into_iter().filter(|_| has_body);
        for (status, description) in Self::ANY.into_iter().chain(with_input).chain(with_body) {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            let response =
                ResponseBuilder::new().description(description).content("application/json", problem);
            let all = &mut operation.responses.responses;
            all.entry(status.to_owned()).or_insert_with(|| response.build().into());
        }
    }
}

impl Modify for CommonProblems {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        // Whoever asks whether the agent is there is always answered.
        let paths = document.paths.paths.iter_mut().filter(|(path, _)| *path != "/healthz");
        for (_, item) in paths {
            [&mut item.get, &mut item.post, &mut item.delete].into_iter().flatten().for_each(Self::add);
        }
    }
}

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
