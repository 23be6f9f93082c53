//! C1, cost: holding costs O(processes), not O(leases): one renewal write a process per ttl/3, whatever it holds.
//!
//! Source: DESIGN.md section 2. Leases that ride are written when they are taken, changed and given up, and at no other time.

use crate::node::{Node, Stage};
use tenure_core::Key;
use tenure_core::op::Write;

/// A process sends a write.
pub(crate) fn sent(node: &Node, keys: &[Key], write: &Write) -> Result<(), String> {
    let record = &write.record;
    if record.tenure.as_ref().is_none_or(|tenure| tenure.id == record.nonce) {
        return Ok(());
    }
    let idle = |view: &&crate::node::View| {
        let held = matches!(view.stage, Stage::Held(belief) if belief.fence == record.fence);
        view.rides && held && !view.updating && keys[view.key] == write.key
    };
    match node.views.iter().find(idle) {
        Some(view) => Err(format!("node {} renews k{}, which rides on its session", node.index, view.key)),
        None => Ok(()),
    }
}
