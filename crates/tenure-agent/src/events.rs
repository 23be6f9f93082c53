//! What happens to clients' leases, told to whoever listens, as server-sent events.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::broadcast;
use utoipa::ToSchema;

/// What has happened to a client's lease. It never prolongs anything: only the answer to a beat does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct Event {
    /// `acquired`; `asked`: somebody wants it, see `reason`; `lost`: it is not held any more, see `reason`; `released`: its client gave it back;
    /// `lapsed`: no beat came in time; `exited`: its client's process has ended; `stopping`: the agent prolongs nothing any more.
    pub event: &'static str,
    /// The client's lease.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Its key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Its fence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Of `lost` and `asked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Event {
    /// As it goes over the wire.
    fn line(&self) -> String {
        let data = serde_json::to_string(self).unwrap_or_default();
        format!("event: {}\ndata: {data}\n\n", self.event)
    }
}

/// More than so many that a listener has not taken are dropped, and it is told how many.
pub(crate) const UNREAD: usize = 1024;
/// Between two signs of life where nothing happens.
const QUIET: Duration = Duration::from_secs(10);

/// A response that goes on until the client leaves or the agent stops.
pub(crate) fn stream_of(events: broadcast::Receiver<Event>) -> Response {
    // The first sign tells that all that happens from here on is told.
    let lines = stream::unfold((events, true), |(mut events, is_first)| async move {
        if is_first {
            return Some((": listening\n\n".to_owned(), (events, false)));
        }
        let line = match tokio::time::timeout(QUIET, events.recv()).await {
            Err(_) => ": still here\n\n".to_owned(),
            Ok(Ok(event)) => event.line(),
            Ok(Err(broadcast::error::RecvError::Lagged(count))) => {
                format!("event: missed\ndata: {{\"event\":\"missed\",\"count\":{count}}}\n\n")
            }
            Ok(Err(broadcast::error::RecvError::Closed)) => return None,
        };
        Some((line, (events, false)))
    });
    let body = Body::from_stream(futures_util::StreamExt::map(lines, Ok::<_, Infallible>));
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")], body).into_response()
}
