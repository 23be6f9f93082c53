//! What a worker does with the plan that it hears: it finds the units to read, follows its part, and tells who plans of what is missing.

mod following;

use super::hear::{HearCtx, HearStep, Hearing, Reading};
use super::{FleetWorker, InFlight};
use crate::fleet::talk::FleetNotice;
use crate::op::{Answer, Freshness, Op};
use crate::values::error::StoreError;
use crate::values::key::Key;
use crate::values::time::{Now, Tick};
use std::collections::{BTreeSet, VecDeque};

impl FleetWorker {
    /// Whether the board tells of a plan that this worker has not heard.
    pub(super) fn has_news(&self) -> bool {
        self.hearing.has_news(&self.board, self.is_planner())
    }

    /// Whether this worker goes by what it lists itself.
    fn is_deaf(&self) -> bool {
        self.session_fence().is_none() || self.is_planner() || self.board.is_blind() || self.hearing.lists()
    }

    pub(super) fn hearing_wake_at(&self) -> Option<Tick> {
        if self.is_deaf() { None } else { self.hearing.wake_at(&self.board, self.doubts.list_at) }
    }

    pub(super) fn wake_hearing(&mut self, now: Now) {
        if self.is_deaf() {
            return self.hearing.end_reading();
        }
        let again_at = self.doubts.list_at;
        self.as_hearer(now, |hearing, ctx| hearing.wake(ctx, again_at));
    }

    pub(super) fn heard(&mut self, now: Now, result: Result<Answer, StoreError>) {
        self.as_hearer(now, |hearing, ctx| hearing.answered(ctx, result));
    }

    /// Lets the hearing take a step, and does what comes of it.
    fn as_hearer<S: IntoIterator<Item = HearStep>>(
        &mut self,
        now: Now,
        step: impl FnOnce(&mut Hearing, &mut HearCtx<'_>) -> S,
    ) {
        let (session, plans, may_list) = (self.session_fence(), self.is_planner(), self.lister.may_list(now));
        let mut ctx = HearCtx { now, env: &mut self.env, board: &self.board, session, plans, may_list };
        let steps = step(&mut self.hearing, &mut ctx);
        steps.into_iter().for_each(|step| self.on_hear_step(now, step));
    }

    fn on_hear_step(&mut self, now: Now, step: HearStep) {
        match step {
            HearStep::Begin(keys) => {
                self.doubts.list_at = None;
                if let Some(keys) = keys {
                    self.read_plan(keys);
                }
            }
            HearStep::Read(keys) => self.read_plan(keys),
            HearStep::Unconcerned(planner) => self.tell_summary(&planner, 0),
            HearStep::FindUnits(units) => {
                let units = self.units_to_read(units);
                let step = self.hearing.read_units(units);
                step.into_iter().for_each(|step| self.on_hear_step(now, step));
            }
            HearStep::Follow(reading) => self.follow_reading(now, *reading),
            HearStep::PartMissing => self.want_advance(now.held.after(self.env.interval() / 2)),
            HearStep::ListAgain(at) => self.list_again(at),
            HearStep::Trouble(error) => self.tell(FleetNotice::Trouble(error)),
        }
    }

    fn read_plan(&mut self, keys: Vec<Key>) {
        self.send(InFlight::Hear, Op::ReadMany(keys, Freshness::Latest));
    }

    /// Units that its part is about, and that it waited for before, but for those that it has: what was passed on to it meanwhile shows by
    /// that. And those that it claims, as the store may refuse that meanwhile, and those that rest here: somebody may have ended that.
    fn units_to_read(&self, of_part: Vec<Key>) -> VecDeque<Key> {
        let claimed: BTreeSet<&Key> =
            self.claims.under_way().filter_map(|lease| self.own.unit_of(*lease)).collect();
        let has = |unit: &Key| self.own.contains_key(unit) && !claimed.contains(unit);
        let units = of_part.into_iter().chain(self.awaited.iter().cloned()).filter(|unit| !has(unit));
        let units = units.chain(claimed.iter().map(|unit| (*unit).clone()));
        let units: BTreeSet<Key> = units.chain(self.retries.resting().cloned()).collect();
        units.into_iter().collect()
    }

    fn follow_reading(&mut self, now: Now, reading: Reading) {
        let Reading { is_news, began, part, found, .. } = reading;
        self.own.plan_from(began);
        let Some(part) = part else { return };
        let is_overtaken = self.follow_part(now, &part, found, is_news);
        if is_news && is_overtaken {
            // Somebody has done meanwhile what an earlier plan said.
            self.want_advance(now.held.after(self.env.interval() / 2));
        }
    }
}

#[cfg(test)]
mod tests;
