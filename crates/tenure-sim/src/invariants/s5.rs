//! S5, loss is always told, in time: a holder learns of loss no later than its local deadline, without any I/O.
//!
//! Source: DESIGN.md section 2; dynamolock issue 446 (loss callback skipped). On the machine's level: a step that is taken
//! at or after a deadline tells the loss, and the machine asks to be woken no later than at the next deadline.

use crate::node::{Node, Stage};
use tenure_core::Tick;

/// After a step, its notices told.
pub(crate) fn told_in_time(node: &Node, now: Tick, wake_at: Option<Tick>) -> Result<(), String> {
    for view in &node.views {
        let Stage::Held(belief) = view.stage else { continue };
        let deadline = if view.rides { node.session_deadline.unwrap_or(Tick(0)) } else { belief.deadline };
        if now >= deadline {
            return Err(format!(
                "node {} was not told of the loss of k{} {} at its deadline {}, and it is {}",
                node.index, view.key, belief.fence, deadline.0, now.0
            ));
        }
        if wake_at.is_none_or(|at| at > deadline) {
            return Err(format!(
                "node {} holds k{} {} until {} and wants to be woken at {wake_at:?}",
                node.index, view.key, belief.fence, deadline.0
            ));
        }
    }
    Ok(())
}
