//! S5, loss is always told, in time: a holder learns of loss no later than its local deadline, without any I/O.
//!
//! Source: the promise S5; dynamolock issue 446 (loss callback skipped). On the machine's level: a step that is taken
//! at or after a deadline tells the loss, and the machine asks to be woken no later than at the next deadline.

use crate::leases::node::{LeaseStage, Node};
use tenure_core::{HolderId, LeaseId, Tick};

/// The same for a process that leases ranges. Of a lease it is told the end when it is told of the lease, since that is never
/// renewed: so what it is told of is not over. And whoever asks for one is told in time that it can't be had: `open` are those who
/// wait after a step, each with the last moment for that, and the process wakes up for it.
pub(crate) fn ranges_told_in_time(
    who: &HolderId,
    now: Tick,
    wake_at: Option<Tick>,
    obtained: impl Iterator<Item = Tick>,
    mut open: impl Iterator<Item = (LeaseId, Tick)>,
) -> Result<(), String> {
    if let Some(over) = obtained.into_iter().find(|until| *until <= now) {
        return Err(format!("{who} is told at {} of a lease that was over at {}", now.0, over.0));
    }
    match open.find(|(_, last)| now >= *last || wake_at.is_none_or(|at| at > *last)) {
        Some((lease, last)) => Err(format!(
            "{who} waits for {} until {} and is not told; it is {}, and it is to be woken at {wake_at:?}",
            lease.0, last.0, now.0
        )),
        None => Ok(()),
    }
}

/// After a step, its notices told.
pub(crate) fn told_in_time(node: &Node, now: Tick, wake_at: Option<Tick>) -> Result<(), String> {
    for view in &node.own.views {
        let LeaseStage::Held(belief) = view.stage else { continue };
        let session =
            if view.is_attached { node.own.session_deadline.unwrap_or(Tick(0)) } else { Tick::NEVER };
        let deadline = session.min(belief.deadline);
        let deadline = view.withdrawn.filter(|end| *end > Tick(0)).map_or(deadline, |end| end.min(deadline));
        if now >= deadline {
            return Err(format!(
                "{} was not told of the loss of k{} {} at its deadline {}, and it is {}",
                node.who, view.key, belief.fence, deadline.0, now.0
            ));
        }
        if wake_at.is_none_or(|at| at > deadline) {
            return Err(format!(
                "{} holds k{} {} until {} and wants to be woken at {wake_at:?}",
                node.who, view.key, belief.fence, deadline.0
            ));
        }
    }
    Ok(())
}
