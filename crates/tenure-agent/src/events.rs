//! What happens to clients' leases, told to whoever listens, as server-sent events.

use crate::waits::WaitPlace;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tenure::Loss;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use utoipa::ToSchema;

/// What has happened to a client's lease. It never prolongs anything: only the answer to a beat does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct Event {
    /// `acquired`; `asked`: somebody wants it, see `reason`; `lost`: it is not held any more, see `reason`; `released`: its client gave it back;
    /// `lapsed`: no beat came in time; `exited`: its client's process has ended; `stopped`: its deadline is over, while the agent is being stopped; `stopping`: the agent prolongs nothing any more; `missed`: so many events as
    /// `count` says were told faster than this listener has read, and are not told again.
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
    /// Of `lost`: the word for its reason, as in the log and the metrics. `expired`, `unreachable`, `taken`, `deleted`, `revoked`, `released`, `overran` or
    /// `stopped`; later versions may have others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
    /// Of `missed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Event {
    /// Of no lease.
    pub(crate) fn of_all(event: &'static str) -> Event {
        Event {
            event,
            id: String::new(),
            key: String::new(),
            fence: None,
            reason: None,
            loss: None,
            count: None,
        }
    }

    fn missed(count: u64) -> Event {
        Event { count: Some(count), ..Event::of_all("missed") }
    }

    /// As it goes over the wire.
    fn line(&self) -> String {
        let data = serde_json::to_string(self).unwrap_or_default();
        format!("event: {}\ndata: {data}\n\n", self.event)
    }
}

/// Why something has happened to a lease: in words, and by its name if it is a loss.
#[derive(Debug, Clone)]
pub(crate) struct EventReason {
    pub(crate) text: String,
    pub(crate) loss: Option<&'static str>,
}

impl From<&Loss> for EventReason {
    fn from(loss: &Loss) -> EventReason {
        EventReason { text: loss.to_string(), loss: Some(loss.name()) }
    }
}

/// Of what is no loss.
impl From<String> for EventReason {
    fn from(text: String) -> EventReason {
        EventReason { text, loss: None }
    }
}

/// More than so many that a listener has not taken are dropped, and it is told how many.
pub(crate) const UNREAD: usize = 1024;
/// Between two signs of life where nothing happens.
const QUIET: Duration = Duration::from_secs(10);

/// What one client listens to.
pub(crate) struct Subscription {
    pub(crate) events: broadcast::Receiver<Event>,
    /// News of the store, if it wants them, as lines.
    pub(crate) news: Option<broadcast::Receiver<Arc<str>>>,
    /// Held while it listens.
    pub(crate) _place: WaitPlace,
}

impl Subscription {
    /// None when there is no more.
    async fn next(&mut self) -> Option<String> {
        let came = tokio::select! {
            came = self.events.recv() => came.map(|event| event.line()),
            came = next_of(&mut self.news) => came.map(|line| line.to_string()),
            () = tokio::time::sleep(QUIET) => Ok(": still here\n\n".to_owned()),
        };
        match came {
            Ok(line) => Some(line),
            Err(RecvError::Lagged(count)) => Some(Event::missed(count).line()),
            Err(RecvError::Closed) => None,
        }
    }
}

async fn next_of(news: &mut Option<broadcast::Receiver<Arc<str>>>) -> Result<Arc<str>, RecvError> {
    match news {
        Some(news) => news.recv().await,
        None => std::future::pending().await,
    }
}

/// A response that goes on until the client leaves or the agent stops.
pub(crate) fn stream_of(heard: Subscription) -> Response {
    // The first sign tells that all that happens from here on is told.
    let lines = stream::unfold((heard, true), |(mut heard, is_first)| async move {
        let line = if is_first { ": listening\n\n".to_owned() } else { heard.next().await? };
        Some((line, (heard, false)))
    });
    let body = Body::from_stream(futures_util::StreamExt::map(lines, Ok::<_, Infallible>));
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")], body).into_response()
}
