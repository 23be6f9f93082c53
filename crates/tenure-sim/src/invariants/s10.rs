//! S10, what others do to a lease's record reaches its holder. An act through tenure, a forced release, reaches it within one
//! ttl: from then on it does not believe any more, and before that nobody else does (which S1 says). What is done behind
//! tenure's back, a record deleted by hand or put back to an older state, is found by the audit: of n leases that are attached to
//! one session after ⌈n / 8⌉ of its renewals. Until then two may believe, and only fences protect: so S1 is excused
//! for that tenure, for so long, and for no other.
//!
//! The bound of the audit is counted from the act, or from when everything was healed.

use crate::kernel::clock::{SECOND, True};
use crate::leases::node::{LeaseStage, LeaseView, Node, UserBelief};
use tenure_core::{Fence, Rules};

/// What somebody did to a tenure.
#[derive(Debug, Clone, Copy)]
struct OthersAct {
    key: usize,
    fence: Fence,
    at: True,
    /// Through tenure: nobody may believe in it from then on.
    due: Option<True>,
}

/// What was done to leases' records.
#[derive(Debug, Default)]
pub(crate) struct OthersActs {
    all: Vec<OthersAct>,
}

/// So many are remembered.
const KEPT: usize = 64;

impl OthersActs {
    fn push(&mut self, act: OthersAct) {
        if self.all.len() >= KEPT {
            self.all.remove(0);
        }
        self.all.push(act);
    }

    /// The holder of this tenure was told, by force.
    pub(crate) fn told(&mut self, key: usize, fence: Fence, at: True, due: True) {
        self.push(OthersAct { key, fence, at, due: Some(due) });
    }

    /// The record of this tenure was deleted, or is not what it should be, and nobody was told.
    pub(crate) fn behind(&mut self, key: usize, fence: Fence, at: True) {
        self.push(OthersAct { key, fence, at, due: None });
    }

    /// The record that had the letter in it was put back to what it was before: so nobody was told.
    pub(crate) fn untold(&mut self, key: usize, fence: Fence) {
        self.all.retain(|act| act.key != key || act.fence != fence || act.due.is_none());
    }

    /// Whether something was done to this tenure behind its holder's back.
    pub(crate) fn is_behind(&self, key: usize, fence: Fence) -> bool {
        self.all.iter().any(|act| act.key == key && act.fence == fence && act.due.is_none())
    }

    /// Whether everyone has found out who had to. `stands`: whether a key's record shows a tenure with this fence. `healed`: since when
    /// nothing goes wrong.
    pub(crate) fn found_out(
        &self,
        nodes: &[Node],
        stands: impl Fn(usize, Fence) -> bool,
        healed: Option<True>,
        t: True,
        ttl: True,
    ) -> Result<(), String> {
        self.all.iter().try_for_each(|act| {
            if act.due.is_none() && stands(act.key, act.fence) {
                // It was an older copy of the same tenure.
                return Ok(());
            }
            let believer = nodes.iter().find_map(|node| {
                // Whoever takes up plain data finds the letter then, and believes no longer than it lasts.
                let meant = |view: &LeaseView, belief: UserBelief| {
                    belief.fence == act.fence
                        && (view.is_attached || act.due.is_none() || belief.since <= act.at)
                };
                let held =
                    |view: &&LeaseView| matches!(view.stage, LeaseStage::Held(belief) if meant(view, belief));
                let view = node.own.views.iter().filter(|view| view.key == act.key).find(held)?;
                if !node.believes(view, t) {
                    return None;
                }
                Some((node, view.is_attached))
            });
            let Some((node, is_attached)) = believer else { return Ok(()) };
            let late = match (act.due, healed) {
                (Some(due), _) => t >= due,
                (None, Some(healed)) => t > act.at.max(healed) + audited(node, is_attached, ttl),
                (None, None) => false,
            };
            if !late {
                return Ok(());
            }
            Err(format!(
                "{} still believes in k{} {}, {} at {:.3} s",
                node.who,
                act.key,
                act.fence,
                if act.due.is_some() {
                    "which it was told to give up"
                } else {
                    "whose record was changed by hand"
                },
                act.at as f64 / SECOND as f64
            ))
        })
    }
}

/// How long a process may take to find out about one of its leases: the turns of all that are attached, each a third of a ttl by the slowest
/// clock; one more for the turn that was under way and one for a renewal that fails at the start; and the round trips.
fn audited(node: &Node, is_attached: bool, ttl: True) -> True {
    let attached =
        if is_attached { node.own.views.iter().filter(|view| view.is_attached).count() } else { 0 };
    let turns = attached.div_ceil(Rules::AUDIT) as u64 + 2;
    turns * ttl / 3 * 10 / 9 + ttl / 4
}
