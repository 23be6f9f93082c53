//! When units are drained that have to go, by the plan or since they were passed on to this worker for another.
//!
//! Drains are *planned* for a time, by which those who are to have the units could hear of it. Then they are *due*: a look must show that nothing has
//! changed. They *begin* once the plan that they come from is known to be the newest.

use super::env::FleetEnv;
use super::lifecycle::Lifecycle;
use crate::values::time::{Now, Tick};
use std::time::Duration;

/// When units are drained.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Drains {
    /// When to drain what has to go.
    at: Option<Tick>,
    /// That time has come, and a look must show that nothing has changed.
    is_due: bool,
    /// When the last unit began to drain.
    began: Tick,
}

/// How old the plan is that drains come from, as far as this worker knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanAge {
    /// This worker plans, and some of those whom the plan concerns were not told of it yet.
    pub(super) is_being_told: bool,
    /// There is a newer one, or may be one.
    pub(super) is_stale: bool,
    /// When the last look that was answered was sent.
    pub(super) looked_from: Tick,
    /// When the reading or the listing began that the plan is by.
    pub(super) planned_from: Tick,
}

/// What is to be done about drains, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainStep {
    /// A look is to show that nothing has changed.
    Look,
    /// All that has to go drains now.
    Begin,
}

impl Drains {
    /// Whether drains are due, and a look is waited for.
    pub(super) fn are_due(&self) -> bool {
        self.is_due
    }

    /// When the last unit began to drain.
    pub(super) fn began(&self) -> Tick {
        self.began
    }

    /// The plan has some units go: they drain as soon as those who are to have them could hear of it, so that nothing lies idle.
    pub(super) fn plan(&mut self, now: Now, env: &FleetEnv, leaving: bool) {
        // Without a push the others hear of it only when they next look. All that a leaver has goes, so it is worth the wait.
        let hear = leaving && !env.options.push;
        let heard = if hear { env.heard_within() } else { Duration::ZERO };
        self.want(now.held.after(heard + env.part(16)));
    }

    /// A unit was passed on to this worker that is another's by the plan.
    pub(super) fn got_for_another(&mut self, now: Now, env: &FleetEnv) {
        self.want(now.held.after(env.part(16)));
    }

    /// Another plan puts nothing off.
    fn want(&mut self, at: Tick) {
        self.at.get_or_insert(at);
    }

    /// The others are only now to hear that this worker leaves: a look that was asked for before says nothing about then.
    pub(super) fn look_anew(&mut self) {
        self.is_due = false;
    }

    /// When the next drains are due. A worker that leaves has told the others before.
    fn due_from(&self, life: &Lifecycle) -> Option<Tick> {
        let at = self.at?;
        if life.leaving { life.leave_from.map(|from| from.max(at)) } else { Some(at) }
    }

    pub(super) fn wake_at(&self, life: &Lifecycle) -> Option<Tick> {
        // Once they are due, it is a look that is waited for.
        self.due_from(life).filter(|_| !self.is_due)
    }

    /// The drains that are due. The plan they come from must still be the newest: a unit that is passed on by an old one comes
    /// to somebody who does not expect it.
    pub(super) fn wake(
        &mut self,
        now: Now,
        env: &FleetEnv,
        life: &Lifecycle,
        plan: PlanAge,
    ) -> Vec<DrainStep> {
        let mut steps = Vec::new();
        let Some(at) = self.due_from(life).filter(|at| now.held >= *at) else { return steps };
        if !std::mem::replace(&mut self.is_due, true) {
            steps.push(DrainStep::Look);
        }
        // Whoever is to have what the planner passes on has been told to wait for it: nobody tells a worker of what it does not wait for.
        if plan.is_being_told && now.held < at.after(env.part(1)) {
            return steps;
        }
        // Where something changes all the time, it is enough that the plan was made since.
        let is_newest = plan.looked_from >= at && !plan.is_stale;
        if is_newest || plan.planned_from >= at {
            (self.at, self.is_due) = (None, false);
            steps.push(DrainStep::Begin);
        }
        steps
    }

    /// A unit drains from now on.
    pub(super) fn begin(&mut self, now: Now) {
        self.began = now.held;
    }
}

#[cfg(test)]
impl Drains {
    /// Drains that were planned for then.
    pub(super) fn planned(at: Option<Tick>, is_due: bool) -> Drains {
        Drains { at, is_due, began: Tick(0) }
    }

    pub(super) fn planned_for(&self) -> Option<Tick> {
        self.at
    }
}
