//! S3, the deposed never write: a renewal or release is conditional on being this very tenure, and after its loss a
//! tenure changes nothing.
//!
//! Source: the promise S3; ShedLock issue 1986 (unlock of a successor). Two checks: of what takes effect in the store
//! (it must go on from the tenure that stands there), and of what a process sends after it told its users of a loss.

use crate::leases::node::Node;
use tenure_core::op::Write;
use tenure_core::{HolderId, Key, Record, Tick};

/// A write of `by` took effect. `token`: it used a token of this tenure.
pub(crate) fn landed(
    key: &Key,
    before: Option<&Record>,
    after: &Record,
    by: &HolderId,
    token: bool,
) -> Result<(), String> {
    let Some(standing) =
        before.and_then(|record| record.tenure.as_ref().map(|tenure| (record.fence, tenure)))
    else {
        let begins = after.tenure.as_ref().is_none_or(|tenure| tenure.id == after.nonce);
        return if begins { Ok(()) } else { Err(format!("a tenure of {key} that was over was renewed")) };
    };
    let (fence, standing) = standing;
    match &after.tenure {
        Some(tenure) if tenure.id == after.nonce || tenure.id == standing.id => Ok(()),
        Some(tenure) => {
            Err(format!("{} renewed its tenure of {key} over that of {}", tenure.holder, standing.holder))
        }
        // With a higher fence, it was a dead session that was fenced.
        None if after.fence > fence => Ok(()),
        None if after.fence == fence && (standing.holder == *by || token) => Ok(()),
        None => Err(format!(
            "{by} released fence {} of {key} over the tenure of {}",
            after.fence, standing.holder
        )),
    }
}

/// A process sends a write.
pub(crate) fn sent(node: &Node, now: Tick, write: &Write) -> Result<(), String> {
    let record = &write.record;
    if node.uses_token(&write.key, record.fence) {
        return Ok(());
    }
    for closed in
        node.own.closed.iter().filter(|c| c.fence == record.fence && c.key == write.key && now > c.since)
    {
        // Letters and marks leave the heartbeat as it is: whoever writes them renews nothing.
        let renews = record
            .tenure
            .as_ref()
            .is_some_and(|tenure| tenure.id != record.nonce && tenure.heartbeat == record.nonce);
        if renews {
            return Err(format!("{} renews {} {} after its loss", node.who, write.key, closed.fence));
        }
        if record.tenure.is_none() && now < closed.vacate_from {
            return Err(format!("{} vacates {} {} after its loss", node.who, write.key, closed.fence));
        }
    }
    Ok(())
}
