//! Dead sessions that were listed. Whoever plans ends them at once; other workers do so after a while, if nothing has come of that.

use super::FleetWorker;
use crate::backoff::refusal::Refusals;
use crate::values::key::Key;
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick};

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Burials {
    /// Sessions that others are to end, as they were listed.
    dead: Vec<(Key, Stored)>,
    end_at: Tick,
    /// Those that the store does not let this worker end.
    unended: Refusals<Attachment>,
}

impl Burials {
    pub(super) fn wake_at(&self) -> Option<Tick> {
        (!self.dead.is_empty()).then_some(self.end_at)
    }

    /// What could not be ended is tried at once.
    pub(super) fn forget_refusals(&mut self) {
        self.unended.clear();
    }
}

impl FleetWorker {
    /// Ends the sessions of those who were listed as dead, if this worker plans. Others do so after a while, if nothing has come of it.
    pub(super) fn bury(&mut self, now: Now, dead: Vec<(Key, Stored)>, plans: bool) {
        let is_dead = |of: &Attachment| {
            dead.iter().any(|(key, stored)| *key == of.session && stored.record.fence == of.fence)
        };
        self.burials.unended.retain(is_dead);
        let (mine, others) = if plans { (dead, Vec::new()) } else { (Vec::new(), dead) };
        self.burials.dead = others;
        self.burials.end_at = now.held.after(self.env.interval() / 2);
        for (key, stored) in mine {
            self.fence_session(now, key, stored);
        }
    }

    /// Until when a dead session is left alone, as the store does not let this worker end it.
    pub(super) fn unended_until(&self, now: Now, dead: &Attachment) -> Option<Tick> {
        self.burials.unended.until(now, dead)
    }

    /// A dead session could not be ended, and it may be so for good. When that is tried again.
    pub(super) fn could_not_end(&mut self, now: Now, dead: &Attachment, passes: bool) -> Tick {
        let ttl = self.env.part(1);
        self.burials.unended.add(now, dead.clone(), ttl, passes, now.held).again_at
    }

    /// By then all look at what became of a dead session, if that is soon: the attempt may have succeeded. What lasts is the planner's concern alone.
    pub(super) fn try_again_to_end(&mut self, now: Now, again_at: Tick) {
        if again_at <= now.held.after(self.env.part(4)) {
            self.want_advance(again_at);
        } else if self.is_planner() {
            self.list_again(again_at);
        }
    }

    /// Somebody has ended it.
    pub(super) fn has_ended(&mut self, dead: &Attachment) {
        self.burials.unended.remove(dead);
    }

    pub(super) fn wake_burials(&mut self, now: Now) {
        if self.burials.wake_at().is_some_and(|at| now.held >= at) {
            for (key, stored) in std::mem::take(&mut self.burials.dead) {
                self.fence_session(now, key, stored);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: of those who died, this worker ends the sessions at once if it plans, of others later, and each once.
    use super::*;
    use crate::fleet::worker::alone::{self, *};

    #[test]
    fn the_dead_are_ended_at_once_by_whoever_plans_and_later_by_all() {
        let dead = [session(1), session(2)];
        let listed = || dead.clone().map(|key| (key, *vacant())).to_vec();
        let ends = |worker: &FleetWorker| dead.clone().map(|key| worker.io.is_fencing(&key));
        let mut worker = worker(0);
        assert_eq!(worker.burials.wake_at(), None);
        for _ in 0..2 {
            worker.bury(at(50), listed(), false);
            assert_eq!(ends(&worker), [false; 2]);
        }
        assert_eq!(worker.burials.wake_at(), Some(at(58).held));
        worker.wake_burials(at(57));
        assert_eq!(ends(&worker), [false; 2]);
        worker.wake_burials(at(58));
        assert_eq!((ends(&worker), worker.burials.wake_at()), ([true; 2], None));
        let mut planner = alone::worker(0);
        for _ in 0..2 {
            planner.bury(at(50), listed(), true);
            assert_eq!((ends(&planner), planner.io.in_flight.len()), ([true; 2], 2), "each once");
        }
    }
}
