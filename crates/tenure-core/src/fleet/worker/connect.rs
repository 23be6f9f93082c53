//! What small parts of a worker ask for, and what it tells them of the others: letters, and the ends of dead sessions.

use super::letters::LetterStep;
use super::{FleetWorker, InFlight};
use crate::op::Answer;
use crate::values::error::StoreError;
use crate::values::key::{HolderId, Key};
use crate::values::record::Stored;
use crate::values::time::{Now, Tick};

impl FleetWorker {
    /// Tells the worker with this session that a unit was passed on to it.
    pub(super) fn tell_of_unit(&mut self, now: Now, unit: Key, session: Key) {
        let fence = self.roster.fence_of(&session);
        let step = self.letters.about_unit(&self.env, session, unit, fence);
        self.on_letter_step(now.held, step);
    }

    /// Tells a worker that its part of the plan is a new one. If it can't be told, it hears of it when it next looks at the board.
    pub(super) fn tell_of_part(&mut self, now: Now, who: &HolderId) {
        if let (Ok(session), Ok(part)) = (self.env.fleet().worker(who), self.env.fleet().part(who)) {
            self.on_letter_step(now.held, Some(LetterStep::Again(session, part)));
        }
    }

    pub(super) fn lettered(
        &mut self,
        now: Now,
        session: Key,
        about: Key,
        result: Result<Answer, StoreError>,
    ) {
        let step = self.letters.answered(now, &mut self.env, (session, about), result);
        self.on_letter_step(now.held, step);
    }

    pub(super) fn wake_letters(&mut self, now: Now) {
        for step in self.letters.wake(now) {
            self.on_letter_step(now.held, Some(step));
        }
    }

    fn on_letter_step(&mut self, now: Tick, step: Option<LetterStep>) {
        match step {
            Some(LetterStep::Send(session, about, op)) => self.send(InFlight::Letter(session, about), op),
            Some(LetterStep::Again(session, about)) => {
                if let Some(fence) = self.roster.fence_of(&session) {
                    let step = self.letters.write(session, about, fence);
                    self.on_letter_step(now, step);
                }
            }
            Some(LetterStep::TellAll) => self.want_advance(now),
            None => {}
        }
    }

    /// A letter has come.
    pub(super) fn got_letter(&mut self, now: Now, about: Key) {
        if self.session_fence().is_none() {
            return;
        }
        if self.env.fleet().unit_of(&about).is_some() {
            self.given(now, about);
        } else if self.env.fleet().part(&self.env.id).as_ref() == Ok(&about) {
            self.look.now(now);
        }
    }

    /// Ends the sessions of those who were listed as dead, if this worker plans. Others do so after a while, if nothing has come of it.
    pub(super) fn bury(&mut self, now: Now, dead: Vec<(Key, Stored)>, plans: bool) {
        for (key, stored) in self.burials.listed(now, &self.env, dead, plans) {
            self.fence_session(now, key, stored);
        }
    }

    pub(super) fn wake_burials(&mut self, now: Now) {
        for (key, stored) in self.burials.wake(now) {
            self.fence_session(now, key, stored);
        }
    }

    /// By then all look at what became of a dead session, if that is soon: the attempt may have succeeded. What lasts is the planner's concern alone.
    pub(super) fn try_again_to_end(&mut self, now: Now, again_at: Tick) {
        if again_at <= now.held.after(self.env.part(4)) {
            self.want_advance(again_at);
        } else if self.is_planner() {
            self.list_again(again_at);
        }
    }
}
