//! What goes over the wire: the bodies of requests and answers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::{Metadata, Value};
use utoipa::{IntoParams, ToSchema};

/// What becomes of a lease when its client's process has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnExit {
    /// It lasts until the deadline that was told last: for whoever has started others, which may be at work still.
    #[default]
    Lapse,
    /// It is given back at once: for whoever does all of its work in this one process.
    Release,
}

/// How long, and for how long.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acquire {
    /// 1 to 512 bytes of UTF-8.
    pub(crate) key: String,
    /// How long to wait for it, in milliseconds; 0 is not at all.
    #[serde(default)]
    pub(crate) wait_ms: u64,
    /// The longest that a deadline is ahead when it is told; the agent's ttl, if that is shorter or this is absent.
    pub(crate) ttl_ms: Option<u64>,
    /// The longest that it is held, whatever beats come.
    pub(crate) at_most_ms: Option<u64>,
    /// Who holds it and what for: shown to people with the record.
    #[serde(default)]
    pub(crate) about: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) on_exit: OnExit,
}

/// Permits of a semaphore.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquirePermits {
    /// The semaphore.
    pub(crate) name: String,
    /// How many there are. All who use the name say the same number, or all say a mode.
    pub(crate) permits: Option<u32>,
    /// How many of them to take; 1 if absent.
    pub(crate) take: Option<u32>,
    /// In the place of `permits`.
    pub(crate) mode: Option<PermitMode>,
    /// As of a lease.
    #[serde(default)]
    pub(crate) wait_ms: u64,
    /// As of a lease.
    pub(crate) ttl_ms: Option<u64>,
    /// As of a lease.
    pub(crate) at_most_ms: Option<u64>,
    #[serde(default)]
    pub(crate) on_exit: OnExit,
}

/// How a key is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = Mode)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PermitMode {
    /// Beside others that are shared.
    Shared,
    /// Beside nobody; in turn.
    Exclusive,
}

/// A wish to lead.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Campaign {
    /// How long to wait until it is elected, in milliseconds.
    #[serde(default)]
    pub(crate) wait_ms: u64,
    /// As of a lease.
    pub(crate) ttl_ms: Option<u64>,
    /// What others see of the leader: where to reach it, for example.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) on_exit: OnExit,
}

/// Several leases of one client.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Beats {
    /// Their ids, 1,000 at most.
    pub(crate) ids: Vec<String>,
}

/// A lease as a client is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Told)]
pub(crate) struct LeaseReply {
    /// Names it in later requests.
    pub(crate) id: String,
    /// Its record.
    pub(crate) key: String,
    /// Sent along with every effect, so that what is protected can refuse lower ones.
    pub(crate) fence: u64,
    /// It is held while this host's CLOCK_BOOTTIME, in milliseconds, is below this.
    pub(crate) deadline_boottime_ms: u64,
    /// The time line of that clock, if it has a name: the boot id, a slash, and the inode of the time namespace. A client whose own differ, or that has
    /// not come by a Unix socket, goes by `good_for_ms`.
    pub(crate) boot: Option<String>,
    /// How long it is held by the client's clock, counted from when the client sent the request that this answers.
    pub(crate) good_for_ms: u64,
    /// When to send the next beat at the latest, if one may fail: within 20 s, so that the connection by which beats are sent is not closed as idle.
    pub(crate) beat_in_ms: u64,
    /// It was withdrawn: no beat prolongs it.
    pub(crate) is_revoked: bool,
    /// What becomes of it when this client's process has ended.
    pub(crate) on_exit: OnExit,
    /// It is a unit of a fleet that is to go to another worker: what is done for it is to end within this, and then it is to be given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drain_in_ms: Option<u64>,
}

/// What came of one of several beats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Beaten {
    /// It was prolonged.
    Told(LeaseReply),
    /// It was not.
    Over {
        /// The lease.
        id: String,
        /// As a problem's: `over` and `not_found` are losses; with `stopping` it is held until the deadline that was told last.
        code: &'static str,
        /// Why.
        over: String,
    },
}

/// What came of several beats, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct AllBeaten {
    pub(crate) leases: Vec<Beaten>,
}

/// What came of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Released)]
pub(crate) struct ReleaseReply {
    /// False: it was lost before.
    pub(crate) released: bool,
}

/// Which records to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// What their keys begin with.
    #[serde(default)]
    pub(crate) prefix: String,
    /// The last key of the page before.
    pub(crate) after: Option<String>,
    /// Records in a page: 1 to 1,000, 100 if absent.
    pub(crate) limit: Option<usize>,
}

/// Text fields as a record's metadata.
pub(crate) fn metadata(fields: BTreeMap<String, String>) -> Metadata {
    fields.into_iter().map(|(name, text)| (name, Value::Text(text))).collect()
}

/// Whole milliseconds, rounded down.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
