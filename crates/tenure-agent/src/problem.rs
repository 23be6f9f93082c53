//! What is answered when something can't be done.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::WWW_AUTHENTICATE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tenure::once::Run;
use tenure::{AcquireError, ErrorKind, InvalidInput, Occupant, StoreError};
use utoipa::ToSchema;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(skip)]
    status: u16,
    /// For programs: bad_request, no_token, wrong_token, only_read, wrong_site, not_found, held, over, ran, ahead, too_large, too_slow, too_many, stopping, damaged or
    /// unavailable.
    code: &'static str,
    /// For people: what is wrong, and what to do about it.
    message: String,
    /// Who holds it, of `held`; who ran it, of `ran`.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// That one's fence.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Problem {
        Problem { status: status.as_u16(), code, message: message.into(), holder: None, fence: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn no_token() -> Problem {
        let message = "a token is asked for: send it as `Authorization: Bearer TOKEN`";
        Problem::new(StatusCode::UNAUTHORIZED, "no_token", message)
    }

    pub(crate) fn wrong_token() -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, "wrong_token", "the token is not one of this agent's")
    }

    pub(crate) fn only_read() -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "only_read", "this token may look, and change nothing")
    }

    pub(crate) fn wrong_site(message: &str) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "wrong_site", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn no_method() -> Problem {
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "bad_request",
            "this path has other methods; see /openapi.json",
        )
    }

    /// The client's lease is over, for this reason.
    pub(crate) fn over(reason: &str) -> Problem {
        Problem::new(StatusCode::GONE, "over", reason)
    }

    pub(crate) fn held(by: Option<Occupant>) -> Problem {
        let who =
            by.as_ref().map_or_else(|| "another holds it".to_owned(), |by| format!("held by {}", by.holder));
        let mut problem = Problem::new(StatusCode::CONFLICT, "held", who);
        problem.fence = by.as_ref().map(|by| by.fence.0);
        problem.holder = by.map(|by| by.holder.as_str().to_owned());
        problem
    }

    /// The tick has run, or may be running.
    pub(crate) fn ran(run: &Run, message: String) -> Problem {
        let mut problem = Problem::new(StatusCode::CONFLICT, "ran", message);
        problem.holder = run.by.as_ref().map(|by| by.as_str().to_owned());
        problem.fence = Some(run.fence.0).filter(|fence| *fence > 0);
        problem
    }

    /// The record shows a tick that lies ahead.
    pub(crate) fn ahead(message: String) -> Problem {
        Problem::new(StatusCode::CONFLICT, "ahead", message)
    }

    pub(crate) fn too_large(most: usize) -> Problem {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("a request has {most} bytes at most"),
        )
    }

    pub(crate) fn too_slow() -> Problem {
        Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the request did not arrive in time")
    }

    pub(crate) fn too_many(most: usize) -> Problem {
        let message = format!("this agent's clients have, or wait for, {most} leases, which is all it bears");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message)
    }

    pub(crate) fn too_many_pages(most: usize) -> Problem {
        let message =
            format!("{most} pages of records are on their way already, which is the limit; try again");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message)
    }

    pub(crate) fn too_many_wait(most: usize) -> Problem {
        let message = format!(
            "this agent's connections are in use, or {most} of them by requests that wait already, and the others are for those that do not; ask again later, without a wait, or an agent with a higher --max-connections"
        );
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message)
    }

    pub(crate) fn too_many_workers(most: usize) -> Problem {
        let message = format!(
            "this agent's clients have {most} workers in fleets, which is all it bears; run others beside another agent"
        );
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message)
    }

    pub(crate) fn too_many_seizures(most: usize) -> Problem {
        let message = format!("{most} leases are being released already; wait until they are");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message)
    }

    pub(crate) fn too_many_listen(most: usize) -> Problem {
        let message = format!(
            "{most} clients listen to events already, which is all this agent bears; look at the leases now and then"
        );
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message)
    }

    pub(crate) fn stopping() -> Problem {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "this agent is being stopped; what it has told holds until then",
        )
    }

    /// The store has not answered in the time that an end has while the agent stops.
    pub(crate) fn unfinished() -> Problem {
        Problem::unavailable(
            "this agent is being stopped, and its store has not answered in time: nobody knows whether this end is written. If it is not, others can have the key once it has expired",
        )
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

impl From<InvalidInput> for Problem {
    fn from(error: InvalidInput) -> Problem {
        Problem::bad_request(error.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::Unsupported => Problem::bad_request(error.to_string()),
            ErrorKind::Foreign => Problem::new(StatusCode::CONFLICT, "damaged", error.to_string()),
            _ => Problem::unavailable(error.to_string()),
        }
    }
}

impl From<AcquireError> for Problem {
    fn from(error: AcquireError) -> Problem {
        match error {
            AcquireError::Held(by) => Problem::held(by),
            AcquireError::Store(error) => error.into(),
            AcquireError::Stopped => Problem::stopping(),
            error => Problem::unavailable(error.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status == StatusCode::UNAUTHORIZED {
            return (status, [(WWW_AUTHENTICATE, "Bearer")], Json(self)).into_response();
        }
        (status, Json(self)).into_response()
    }
}
