//! What a worker does with what its looks show: the board, sessions, and units that are on their way to it.

use super::look::{Look, LookCtx, LookNeeds, LookOutcome, PageOutcome};
use super::own::Stage;
use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::board;
use crate::fleet::planning::Role;
use crate::fleet::talk::FleetNotice;
use crate::holder::failure_detector;
use crate::op::{Answer, Hint, Op};
use crate::values::error::StoreError;
use crate::values::record::{Stored, Tenure};
use crate::values::time::Now;
use std::time::Duration;

/// For so many ttls a worker looks often for what is on its way to it or drains; after that, ever less often.
const DRAINS: u32 = 8;

/// Records tell enough if ages fall short of the truth by no more than this part of a ttl, and the wall clocks by [`CLOCKS`] more: a death
/// is judged later by as much, which is within the time that observing it takes.
const AGES: u32 = 3;
const CLOCKS: u32 = 16;

impl FleetWorker {
    /// Lets the look take a step.
    pub(super) fn as_looker<R>(&mut self, now: Now, step: impl FnOnce(&mut Look, &LookCtx<'_>) -> R) -> R {
        let role = self.role();
        let ctx = LookCtx { now, env: &self.env, board: &self.board, peers: &self.roster, role };
        step(&mut self.look, &ctx)
    }

    /// A hint from the store.
    pub(super) fn hint(&mut self, now: Now, hint: &Hint) {
        match hint.key() {
            Some(key) if *key == self.env.board_key => self.look.now(now),
            Some(key) if self.awaited.contains(key) && self.has_waited(now).is_zero() => {
                self.try_unit(now, key.clone(), None);
                if let Some(own) = self.own.get_mut(key) {
                    own.hinted = true;
                }
            }
            // Its owner may go on writing it for hours, and drain no sooner for that.
            Some(key) if self.awaited.contains(key) => {
                self.awaited.wrote(key);
                self.look.soon(now, &self.env);
            }
            Some(_) => {}
            // It may be about anything, such as each write of every other user of the store.
            None if self.awaited.is_empty() || !self.has_waited(now).is_zero() => {
                self.look.soon(now, &self.env);
            }
            None => self.look.now(now),
        }
    }

    pub(super) fn wake_look(&mut self, now: Now) {
        if self.look.wake_at().is_none_or(|at| now.held < at) {
            return;
        }
        let latest = self.drains.are_due() || self.board.is_blind() || self.is_planner() && self.is_behind();
        let needs = LookNeeds { units: self.awaited.next_look(), pace: self.pace(now), latest };
        let op = self.as_looker(now, |look, ctx| look.begin(ctx, needs));
        self.send(InFlight::Look, op);
        if self.awaited.has_more() {
            self.look.soon(now, &self.env);
        }
    }

    /// How long until the next look, if nothing happens.
    fn pace(&self, now: Now) -> Duration {
        let expects = self.hearing.expects(now) && !self.is_planner() && !self.env.options.push;
        let alarmed = self.board.is_alarmed(now, &self.env) || self.look.is_wary(now) || expects;
        let drains = self.own.values().any(|own| own.stage == Stage::Draining);
        let often = if self.env.options.push { self.env.interval() / 4 } else { self.env.part(32) };
        match () {
            () if alarmed => often,
            () if drains || !self.awaited.is_empty() => {
                (self.has_waited(now) / 32).max(often).min(self.env.interval())
            }
            () => self.env.interval(),
        }
    }

    /// For how long what is on its way to this worker, or from it, has taken longer than drains take. It may never come, as a unit whose
    /// owner the store does not let give it up, or take hours, as a body that its user does not end.
    fn has_waited(&self, now: Now) -> Duration {
        if self.env.has_bug(Bug::AwaitedForEver) {
            return Duration::ZERO;
        }
        now.held.since(self.awaited.since().max(self.drains.began()).after(self.env.part(1) * DRAINS))
    }

    pub(super) fn looked(&mut self, now: Now, result: Result<Answer, StoreError>) {
        let (mut found, sessions) = match self.look.answered(now, &self.env, &self.board, result) {
            LookOutcome::Seen(found, sessions) => (found, sessions),
            LookOutcome::Missed(error) => {
                self.awaited.missed();
                return error.into_iter().for_each(|error| self.tell(FleetNotice::Trouble(error)));
            }
            LookOutcome::Nothing => return,
        };
        match found.remove(&self.env.board_key).transpose() {
            Ok(board) => {
                self.board.reads(true);
                self.saw_board(now, board);
            }
            Err(error) => {
                self.board.reads(self.env.has_bug(Bug::BoardTrusted));
                self.tell(FleetNotice::Trouble(error));
            }
        }
        let planner = self.board.planner().and_then(|planner| found.get(&planner.session)?.as_ref().ok());
        let planner = planner.cloned();
        for (key, fence) in sessions {
            self.saw_session(now, &key, fence, found.remove(&key));
        }
        self.mark_plan(now);
        for (key, stored) in found {
            if let (true, Ok(stored)) = (self.awaited.contains(&key), stored) {
                self.saw_awaited(now, key, stored);
            }
        }
        self.rest_after(now, planner.as_ref());
        let page = self.as_looker(now, Look::turn_to_pages);
        self.ask_page(page);
        self.as_looker(now, Look::resume_watching);
    }

    pub(super) fn watched_page(&mut self, now: Now, asked: usize, result: Result<Answer, StoreError>) {
        let mut page = match self.look.page(now, &self.env, asked, result) {
            PageOutcome::Seen(page) => page,
            PageOutcome::Failed(error) => return self.tell(FleetNotice::Trouble(error)),
            PageOutcome::Nothing => return,
        };
        for (key, fence) in page.sessions {
            // Meanwhile it may have been found to be gone, or to have come again.
            if self.roster.has(&key, fence) {
                self.saw_session(now, &key, fence, page.found.remove(&key));
            }
        }
        let next = self.as_looker(now, |look, ctx| look.next_page(ctx, page.rest));
        self.ask_page(next);
    }

    fn ask_page(&mut self, page: Option<(usize, Op)>) {
        if let Some((limit, op)) = page {
            self.send(InFlight::Watch(limit), op);
        }
    }

    pub(super) fn saw_board(&mut self, now: Now, board: Option<Stored>) {
        let same = self.board.is_same(board.as_ref());
        if !same || !board::is_alarmed(board.as_ref()) {
            if board::generation(board.as_ref()) != self.generation() {
                self.look.saw_generation(now, &self.env);
            }
            self.board.see_alarm(now, board.as_ref());
            self.look.by(now.held.after(self.pace(now)));
        }
        let was_planner = self.is_planner();
        self.board.see(board);
        if was_planner != self.is_planner() {
            self.planner.begin();
            self.lister.begin_role(now);
            self.look.begin_role();
        }
        if !same {
            self.tell_planning();
        }
        self.fill_vacancy(now);
    }

    /// Whether this worker is to notice that others are dead.
    pub(super) fn is_watcher(&self) -> bool {
        self.role() != Role::Member
    }

    /// Whether a session's record tells at first sight how long its worker has been silent.
    pub(super) fn is_attested(&self, now: Now, stored: &Stored, tenure: &Tenure) -> bool {
        let told = self.env.options.age_error.is_some_and(|error| error <= tenure.ttl.part(AGES));
        let within = tenure.ttl.part(CLOCKS);
        told && failure_detector::is_attested(now, stored, within, self.holder.rules())
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod watching;
