//! Where a worker is between joining its fleet and having left it, and its session with it.

use crate::values::fence::Fence;
use crate::values::time::Tick;

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Lifecycle {
    pub(super) joined: bool,
    pub(super) leaving: bool,
    pub(super) stopping: bool,
    /// The fence of the session as it was after the last step.
    pub(super) session: Option<Fence>,
    /// When to begin the session again if it is down.
    pub(super) restart_at: Tick,
    /// Since when it can't be begun.
    pub(super) refused_from: Option<Tick>,
    /// Until when the session is believed in.
    pub(super) valid: Tick,
    /// When a worker that leaves may begin to: once the others could hear of it.
    pub(super) leave_from: Option<Tick>,
}
