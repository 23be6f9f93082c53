//! The body of a request.

use crate::agent_state::AgentState;
use crate::config::Limits;
use crate::problem::Problem;
use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::sync::Arc;

/// The body of a request, as JSON.
pub(crate) struct Posted<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<AgentState>> for Posted<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<AgentState>) -> Result<Self, Problem> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
        // A form of another site can't say so.
        if !kind.trim().eq_ignore_ascii_case("application/json") {
            return Err(Problem::bad_request("the body must be JSON, and its Content-Type application/json"));
        }
        let Limits { body: most, patience, .. } = shared.limits;
        let read = tokio::time::timeout(patience, to_bytes(request.into_body(), most));
        let bytes = read.await.map_err(|_| Problem::too_slow())?.map_err(|error| unread(&error, most))?;
        let value = serde_json::from_slice(&bytes);
        value.map(Posted).map_err(|error| Problem::bad_request(format!("the body can't be read: {error}")))
    }
}

/// Why a body did not arrive as a whole.
fn unread(error: &axum::Error, most: usize) -> Problem {
    match error.source() {
        Some(cause) if cause.is::<LengthLimitError>() => Problem::too_large(most),
        cause => {
            let why = cause.map_or_else(|| error.to_string(), ToString::to_string);
            Problem::bad_request(format!("the body can't be read: {why}"))
        }
    }
}
