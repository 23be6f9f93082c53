//! Dead sessions that were listed. Whoever plans ends them at once; other workers do so after a while, if nothing has come of that.

use super::env::FleetEnv;
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

    /// These were listed as dead. Those whose sessions are to be ended now, which are all of them if this worker plans.
    pub(super) fn listed(
        &mut self,
        now: Now,
        env: &FleetEnv,
        dead: Vec<(Key, Stored)>,
        plans: bool,
    ) -> Vec<(Key, Stored)> {
        let is_dead = |of: &Attachment| {
            dead.iter().any(|(key, stored)| *key == of.session && stored.record.fence == of.fence)
        };
        self.unended.retain(is_dead);
        let (mine, others) = if plans { (dead, Vec::new()) } else { (Vec::new(), dead) };
        self.dead = others;
        self.end_at = now.held.after(env.interval() / 2);
        mine
    }

    /// Those whose sessions nobody else has ended in time.
    pub(super) fn wake(&mut self, now: Now) -> Vec<(Key, Stored)> {
        let is_due = self.wake_at().is_some_and(|at| now.held >= at);
        if is_due { std::mem::take(&mut self.dead) } else { Vec::new() }
    }

    /// Until when a dead session is left alone, as the store does not let this worker end it.
    pub(super) fn unended_until(&self, now: Now, dead: &Attachment) -> Option<Tick> {
        self.unended.until(now, dead)
    }

    /// A dead session could not be ended, and it may be so for good. When that is tried again.
    pub(super) fn could_not_end(
        &mut self,
        now: Now,
        env: &FleetEnv,
        dead: &Attachment,
        passes: bool,
    ) -> Tick {
        self.unended.add(now, dead.clone(), env.part(1), passes, now.held).again_at
    }

    /// Somebody has ended it.
    pub(super) fn has_ended(&mut self, dead: &Attachment) {
        self.unended.remove(dead);
    }
}

#[cfg(test)]
mod tests {
    //! Plan: of those who died, this worker ends the sessions at once if it plans, of others later, and each once.
    use super::*;
    use crate::fleet::worker::alone::{at, session, vacant, worker};

    #[test]
    fn the_dead_are_ended_at_once_by_whoever_plans_and_later_by_all() {
        let dead = || [session(1), session(2)].map(|key| (key, *vacant())).to_vec();
        let (mut burials, env) = (Burials::default(), worker(0).env);
        assert_eq!(burials.wake_at(), None);
        for _ in 0..2 {
            assert_eq!(burials.listed(at(50), &env, dead(), false), []);
        }
        assert_eq!(burials.wake_at(), Some(at(58).held));
        assert_eq!(burials.wake(at(57)), []);
        assert_eq!((burials.wake(at(58)), burials.wake_at()), (dead(), None));
        assert_eq!((burials.listed(at(60), &env, dead(), true), burials.wake_at()), (dead(), None));
    }

    #[test]
    fn each_of_the_dead_is_ended_once() {
        let mut planner = worker(0);
        for _ in 0..2 {
            planner.bury(at(50), [session(1), session(2)].map(|key| (key, *vacant())).to_vec(), true);
            let ends = [session(1), session(2)].map(|key| planner.io.is_fencing(&key));
            assert_eq!((ends, planner.io.in_flight.len()), ([true; 2], 2));
        }
    }
}
