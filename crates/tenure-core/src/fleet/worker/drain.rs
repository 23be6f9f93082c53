//! Draining: the user is asked to end what is done for a unit that has to go, by the plan or on request.

use super::FleetWorker;
use super::own::{Own, Stage};
use crate::bugs::Bug;
use crate::fleet::talk::{FleetNotice, Reason};
use crate::holder::lease_id::LeaseId;
use crate::values::time::{Now, Tick};
use std::time::Duration;

/// When units are drained.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Drains {
    /// When to drain what has to go.
    pub(super) at: Option<Tick>,
    /// That time has come, and a look must show that nothing has changed.
    pub(super) is_due: bool,
    /// When the last unit began to drain.
    pub(super) began: Tick,
}

impl FleetWorker {
    /// How many units have to go, as soon as those who are to have them could hear of it, so that nothing lies idle.
    pub(super) fn drain_what_goes(&mut self, now: Now) -> usize {
        let goes = self.own.values().filter(|own| own.stage == Stage::Held && own.goes.is_some()).count();
        if goes > 0 && self.drains.at.is_none() {
            // Without a push the others hear of it only when they next look. All that a leaver has goes, so it is worth the wait.
            let hear = self.life.leaving && !self.env.options.push;
            let heard = if hear { self.env.heard_within() } else { Duration::ZERO };
            self.drains.at = Some(now.held.after(heard + self.env.part(16)));
        }
        goes
    }

    /// The drains that are due. The plan they come from must still be the newest: a unit that is passed on by an old one comes
    /// to somebody who does not expect it.
    pub(super) fn wake_drains(&mut self, now: Now) {
        let Some(at) = self.drains_from().filter(|at| now.held >= *at) else { return };
        if !std::mem::replace(&mut self.drains.is_due, true) {
            self.look_now(now);
        }
        // Whoever is to have what the planner passes on has been told to wait for it: nobody tells a worker of what it does not wait for.
        if self.is_planner() && self.planner.is_telling() && now.held < at.after(self.env.part(1)) {
            return;
        }
        // Where something changes all the time, it is enough that the plan was made since.
        let is_stale =
            if self.is_planner() { self.is_behind() } else { self.has_news() || self.hearing.is_reading() };
        let is_newest = self.look.seen_from >= at && !is_stale && !self.lister.is_listing();
        if !is_newest && self.planned_from < at {
            return;
        }
        self.drains.at = None;
        self.drains.is_due = false;
        let goes =
            |own: &Own| own.goes.clone().filter(|_| own.stage == Stage::Held).map(|why| (own.lease, why));
        for (lease, reason) in self.own.values().filter_map(goes).collect::<Vec<_>>() {
            self.drain(now, lease, reason);
        }
    }

    /// When the next drains are due. A worker that leaves has told the others before.
    fn drains_from(&self) -> Option<Tick> {
        let at = self.drains.at?;
        if self.life.leaving { self.life.leave_from.map(|from| from.max(at)) } else { Some(at) }
    }

    pub(super) fn drains_wake_at(&self) -> Option<Tick> {
        // Once they are due, it is a look that is waited for.
        self.drains_from().filter(|_| !self.drains.is_due)
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
            self.drains.began = now.held;
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
