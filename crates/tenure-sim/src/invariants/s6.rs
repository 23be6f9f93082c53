//! S6, the body ends before the lease, on the machine's level: what a user could not end is left to expire, so nothing
//! vacates it, nor the session that it is attached to, before a full ttl has passed.
//!
//! Source: the promise S6; client-go issue 728 (released while the body runs).

use crate::leases::node::Node;
use tenure_core::op::Write;
use tenure_core::{Fence, Key, Tick};

/// A lease that a user let lapse.
#[derive(Debug, Clone)]
pub(crate) struct LeaseLapse {
    pub(crate) key: Key,
    pub(crate) fence: Fence,
    pub(crate) until: Tick,
    /// The fence of the session that it was attached to.
    pub(crate) session: Option<Fence>,
}

/// A process sends a write.
pub(crate) fn sent(node: &Node, lapses: &[LeaseLapse], now: Tick, write: &Write) -> Result<(), String> {
    if write.record.tenure.is_some() || node.uses_token(&write.key, write.record.fence) {
        return Ok(());
    }
    for lapse in lapses.iter().filter(|lapse| now < lapse.until) {
        let itself = write.key == lapse.key && write.record.fence == lapse.fence;
        let session = lapse.session == Some(write.record.fence) && write.key == node.session;
        if itself || session {
            return Err(format!(
                "{} vacates {} although {} {} was left to expire",
                node.who, write.key, lapse.key, lapse.fence
            ));
        }
    }
    Ok(())
}
