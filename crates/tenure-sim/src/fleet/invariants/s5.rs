//! S5, loss is always told, in time: a step that is taken at or after the session's deadline tells the loss of all units,
//! and the machine asks to be woken no later than then.
//!
//! Source: the promise S5.

use crate::fleet::Node;
use crate::fleet::node::AssignedWork;
use tenure_core::{Key, Tick};

/// After a step, its notices told.
pub(crate) fn told_in_time(node: &Node, now: Tick, wake_at: Option<Tick>) -> Result<(), String> {
    let Some(work) = node.own.works.values().find(|work| work.runs()) else { return Ok(()) };
    if node.stopping {
        return Ok(());
    }
    if now >= node.own.deadline {
        return Err(format!("{} was not told of the loss of {} at its deadline", node.who, work.unit));
    }
    if wake_at.is_none_or(|at| at > node.own.deadline) {
        return Err(format!(
            "{} has {} until {} and wants to be woken at {wake_at:?}",
            node.who, work.unit, node.own.deadline.0
        ));
    }
    Ok(())
}

/// A unit is assigned once more by a lease that had it before: it is no unit that was withdrawn, whose deadline stands.
pub(crate) fn not_again(index: usize, unit: &Key, before: Option<&AssignedWork>) -> Result<(), String> {
    match before.and_then(|work| work.until) {
        Some(until) => Err(format!("w{index} is to go on with {unit}, which is withdrawn from {}", until.0)),
        None => Ok(()),
    }
}
