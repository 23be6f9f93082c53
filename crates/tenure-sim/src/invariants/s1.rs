//! S1, one holder: at no instant do two holders both believe that they hold a key, provided that clock rates stay within
//! ±ρ and no elapsed time is hidden. No assumption on clock offsets.
//!
//! Source: the promise S1; Gray and Cheriton 1989. Belief only grows when a lease is acquired or its validity
//! prolonged, so it is enough to look at each such moment. Where all clocks of a machine stood still, what it sent before that
//! is excused, and what it sends afterwards is not.

use crate::invariants::s10::OthersActs;
use crate::kernel::clock::{SECOND, True};
use crate::leases::node::{LeaseStage, Node, UserBelief};
use std::fmt;
use tenure_core::{Drift, Tick, Ttl};

/// Called when a belief in `key` began or grew. Of tenures whose records were changed by hand, S10 says how long they may be believed in.
pub(crate) fn one_holder(
    nodes: &[Node],
    acts: &OthersActs,
    key: usize,
    t: True,
    ttl: Ttl,
) -> Result<(), String> {
    let mut first: Option<Believer<'_>> = None;
    for node in nodes {
        for view in node.own.views.iter().filter(|view| view.key == key && node.believes(view, t)) {
            let LeaseStage::Held(belief) = &view.stage else { continue };
            let until = if view.is_attached { node.own.session_until } else { belief.until };
            if until <= node.dim.after(Drift::default().belief(ttl)) && node.dim > Tick(0) {
                continue;
            }
            if acts.is_behind(key, belief.fence) {
                continue;
            }
            let believer = Believer { node, belief, is_attached: view.is_attached };
            if let Some(other) = &first {
                return Err(format!("k{key} is held by {other}, and by {believer}"));
            }
            first = Some(believer);
        }
    }
    Ok(())
}

/// Whoever believes to hold a key. It is put into words for a history that is broken only: a check is made by the million.
struct Believer<'a> {
    node: &'a Node,
    belief: &'a UserBelief,
    is_attached: bool,
}

impl fmt::Display for Believer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.belief.since as f64 / SECOND as f64;
        let is_attached = if self.is_attached { ", attached to its session," } else { "" };
        write!(f, "{}{is_attached} with fence {} since {since:.3} s", self.node.who, self.belief.fence)
    }
}
