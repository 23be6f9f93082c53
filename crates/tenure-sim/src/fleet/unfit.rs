//! A worker that the store does not let plan: it refuses it each listing, or that it writes others' parts. All else goes on, so the worker
//! lives, renews and works.

use super::World;
use crate::kernel::Envelope;
use crate::kernel::clock::True;
use crate::kernel::trace::Story;
use tenure_core::op::Op;

/// What is refused to which worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerRefusal {
    node: usize,
    what: RefusedCalls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusedCalls {
    Lists,
    Units,
    Parts,
}

impl World {
    /// From now on one worker can't plan, most often the one that does; another that could not can.
    pub(super) fn make_unfit(&mut self, index: usize) {
        let node = self.planner().filter(|_| self.rng.chance(0.8)).unwrap_or(index);
        let all = [RefusedCalls::Lists, RefusedCalls::Units, RefusedCalls::Parts];
        let what = all[self.rng.index(all.len())];
        self.scene.unfit = Some(WorkerRefusal { node, what });
        self.tell(|world| Story::Fault(Some(world.name(node)), format!("is refused {what:?} from now on")));
    }

    pub(super) fn is_unfit(&self, index: usize) -> bool {
        self.scene.unfit.is_some_and(|unfit| unfit.node == index)
    }

    pub(super) fn is_denied(&self, envelope: &Envelope) -> bool {
        let Some(WorkerRefusal { node, what }) = self.scene.unfit else { return false };
        let refused = match (&envelope.op, what) {
            (Op::List { .. }, RefusedCalls::Lists) => true,
            (Op::List { prefix, .. }, RefusedCalls::Units) => *prefix == self.scene.fleet.unit_prefix(),
            (Op::Write(write), RefusedCalls::Parts) => self.scene.is_part(&write.key),
            _ => false,
        };
        refused && node == envelope.node
    }

    /// By so much later all is as planned if one worker can't plan: for a ttl it tries to, then it gives that up, and within an interval
    /// others see it, one of whom plans. What it has passed meanwhile to somebody whom it could not tell shows within a ttl by what that one
    /// says that it has.
    pub(super) fn unfit_bound(&self) -> True {
        if self.scene.unfit.is_some() { self.bound(3000) } else { 0 }
    }
}
