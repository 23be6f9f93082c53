//! S1, one worker: at no instant is a unit worked on by two workers who both believe in it: from `Assigned` to the end of
//! the body, its loss, or the deadline of the session; of what was withdrawn, the deadline that was told then.
//!
//! Source: the promise S1. Belief only begins with `Assigned` and grows with `Valid`, so those moments are looked at.

use crate::fleet::Node;
use crate::kernel::clock::True;
use tenure_core::{Fence, Key, Tick};

/// `behind`: tenures that somebody has taken out of the unit's record by hand. How long those may be believed in is S10.
pub(crate) fn one_worker(
    nodes: &[Node],
    unit: &Key,
    behind: &[(Fence, True)],
    t: True,
) -> Result<(), String> {
    let counts = |fence: Fence| behind.iter().all(|(other, _)| *other != fence);
    let lasts = |node: &Node, until: Option<Tick>| until.is_none_or(|until| node.clock.held(t) < until);
    let mut first = None;
    for node in nodes.iter().filter(|node| node.believes(t)) {
        let here = node.own.works.iter().filter(|(_, work)| work.unit == *unit && work.runs());
        for (lease, work) in here.filter(|(_, work)| counts(work.fence) && lasts(node, work.until)) {
            if let Some((other, its_lease, its_fence)) = first {
                let other = format_args!("{other} lease {its_lease} {its_fence}");
                let who = format_args!("{} lease {} {}", node.who, lease.0, work.fence);
                return Err(format!("{unit} is worked on by {other} and by {who}"));
            }
            first = Some((&node.who, lease.0, work.fence));
        }
    }
    Ok(())
}
