//! Draining: the user is asked to end what is done for a unit that has to go, by the plan or on request.

use super::FleetWorker;
use super::drain::{DrainStep, PlanAge};
use super::own::{Own, Stage};
use crate::bugs::Bug;
use crate::fleet::talk::{FleetNotice, Reason};
use crate::holder::lease_id::LeaseId;
use crate::values::time::Now;

impl FleetWorker {
    /// How many units have to go. They drain soon.
    pub(super) fn drain_what_goes(&mut self, now: Now) -> usize {
        let goes = self.own.values().filter(|own| own.stage == Stage::Held && own.goes.is_some()).count();
        if goes > 0 {
            self.drains.plan(now, &self.env, self.life.leaving);
        }
        goes
    }

    pub(super) fn wake_drains(&mut self, now: Now) {
        let plan = self.plan_age();
        for step in self.drains.wake(now, &self.env, &self.life, plan) {
            match step {
                DrainStep::Look => self.look.now(now),
                DrainStep::Begin => self.begin_drains(now),
            }
        }
    }

    fn plan_age(&self) -> PlanAge {
        let plans = self.is_planner();
        let is_stale = if plans { self.is_behind() } else { self.has_news() || self.hearing.is_reading() };
        PlanAge {
            is_being_told: plans && self.planner.is_telling(),
            is_stale: is_stale || self.lister.is_listing(),
            looked_from: self.look.seen_from(),
            planned_from: self.own.planned_from(),
        }
    }

    fn begin_drains(&mut self, now: Now) {
        let goes =
            |own: &Own| own.goes.clone().filter(|_| own.stage == Stage::Held).map(|why| (own.lease, why));
        for (lease, reason) in self.own.values().filter_map(goes).collect::<Vec<_>>() {
            self.drain(now, lease, reason);
        }
    }

    pub(super) fn asked(&mut self, now: Now, lease: LeaseId, reason: Reason) {
        let Some((_, own)) = self.own_of(lease) else { return };
        let is_held = own.stage == Stage::Held;
        if is_held || own.stage == Stage::Draining {
            // No plan has it stay from now on: what was withdrawn has its own deadline, also where it drains already.
            own.transferee = None;
            own.goes = Some(reason.clone());
        }
        if is_held {
            self.drain(now, lease, reason);
        }
    }

    fn drain(&mut self, now: Now, lease: LeaseId, reason: Reason) {
        let until = now.held.after(self.env.options.drain);
        if self.own_of(lease).is_some_and(|(_, own)| own.asked.end.is_some()) {
            // What was done for it has ended.
            return;
        }
        if self.own_of(lease).is_some_and(|(_, own)| !own.told) {
            // It rests: nothing is done for it.
            return self.give_away(now, lease);
        }
        if let Some((_, own)) = self.own_of(lease) {
            own.stage = Stage::Draining;
            self.drains.begin(now);
            self.tell(FleetNotice::Draining(lease, reason, until));
        }
        if self.env.has_bug(Bug::DrainNotAwaited) {
            self.give_away(now, lease);
        }
    }

    /// What was done for it has ended.
    pub(super) fn drained(&mut self, now: Now, lease: LeaseId) {
        let me = self.env.me.clone();
        let leaving = self.life.leaving;
        let Some((_, own)) = self.own_of(lease) else {
            return self.tell(FleetNotice::Released(lease, None, false));
        };
        match own.stage {
            Stage::Draining if own.transferee.as_ref() == Some(&me) && !leaving => {
                // The plan has changed its mind.
                own.stage = Stage::Held;
                self.begin_work(now, lease);
            }
            Stage::Held | Stage::Draining => self.give_away(now, lease),
            Stage::Acquiring | Stage::Going => {}
        }
    }
}

#[cfg(test)]
mod tests;
