//! The layout of a fleet's records. In an older layout all workers plan for themselves, so those workers can't join a fleet of this one.

use super::names::FleetName;
use crate::values::error::StoreError;
use crate::values::key::HolderId;
use crate::values::metadata::{Metadata, RESERVED, Value};

/// Says so in a session's reserved field.
const LAYOUT: &str = "layout";
/// One worker plans. Those before it said nothing there.
const CURRENT: i64 = 2;

/// Has a session's reserved field say it.
pub(super) fn compose(own: &mut Metadata) {
    own.insert(LAYOUT.to_owned(), CURRENT.into());
}

/// Whether a worker keeps to the layout of this version, as its session's record says.
#[must_use]
pub fn is_of_this_layout(metadata: &Metadata) -> bool {
    let own = metadata.get(RESERVED);
    matches!(own, Some(Value::Map(own)) if own.get(LAYOUT).and_then(Value::as_i64) == Some(CURRENT))
}

/// That a worker keeps to another one, and what to do about it.
#[must_use]
pub fn other_layout(fleet: &FleetName, worker: &HolderId) -> StoreError {
    StoreError::foreign(format!(
        "the worker {worker} of the fleet {fleet} is of another version of tenure, which divides units in another way: stop all workers of the \
         fleet, and start them with one version; if {worker} is dead, `tenure release {}` ends its session",
        fleet.worker(worker).map_or_else(|_| worker.to_string(), |session| session.to_string())
    ))
}
