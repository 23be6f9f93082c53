//! Advancing the generation of the board. A worker that has changed something makes all workers look again. A worker that misses a renewal makes all look
//! more often.

use super::env::FleetEnv;
use super::{FleetWorker, InFlight};
use crate::backoff::refusal::LastingRefusal;
use crate::bugs::Bug;
use crate::fleet::board;
use crate::fleet::talk::FleetNotice;
use crate::op::{Answer, Op, Outcome, Write};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::Fence;
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick};
use std::time::Duration;

/// Whether the generation of the board is to be advanced.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
enum Advance {
    #[default]
    Idle,
    At(Tick),
    Sent {
        write: Box<Write>,
        /// The generation that made the first attempt fail: a higher one than this does as well as our own.
        lost_to: Option<Fence>,
        /// Something more has happened since.
        again: bool,
    },
}

/// The advance of the board that is wanted or under way, and how the store takes it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct BoardAdvance {
    state: Advance,
    /// The store does not let this worker raise the board.
    refused: Option<LastingRefusal>,
    /// The board is to be raised for no other reason than that nobody plans.
    only_fills: bool,
}

impl BoardAdvance {
    pub(super) fn is_idle(&self) -> bool {
        self.state == Advance::Idle
    }

    /// When it is wanted, whether the store lets this worker or not.
    pub(super) fn wanted_at(&self) -> Option<Tick> {
        if let Advance::At(at) = self.state { Some(at) } else { None }
    }

    /// When the board is raised next. While the store does not let this worker write it, that is not hastened by all that happens.
    pub(super) fn wake_at(&self) -> Option<Tick> {
        let refused = self.refused.map(|refusal| refusal.again_at);
        self.wanted_at().map(|at| refused.map_or(at, |again_at| at.max(again_at)))
    }

    /// Whether it is wanted for no other reason than that nobody plans.
    pub(super) fn only_fills(&self) -> bool {
        self.only_fills
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether it is wanted, and the store has not let this worker for so long.
    pub(super) fn waits_in_vain(&self, now: Now, least: Duration) -> bool {
        self.wanted_at().is_some() && self.refused.is_some_and(|refusal| refusal.stood(now) >= least)
    }

    /// The board can be written, or may be by now.
    pub(super) fn forget_refusal(&mut self) {
        self.refused = None;
    }

    /// Something has changed that the others should look into.
    pub(super) fn want(&mut self, at: Tick) {
        self.only_fills = false;
        match &mut self.state {
            Advance::Idle => self.state = Advance::At(at),
            Advance::At(planned) => *planned = (*planned).min(at),
            Advance::Sent { again, .. } => *again = true,
        }
    }

    /// Nobody plans, and nothing else is to be told.
    pub(super) fn fill(&mut self, at: Tick) {
        (self.state, self.only_fills) = (Advance::At(at), true);
    }

    /// Nothing is to be told any more.
    pub(super) fn end(&mut self) {
        self.state = Advance::Idle;
    }

    fn sent(&mut self, write: Write, lost_to: Option<Fence>) {
        let again = self.is_wanted_again();
        self.state = Advance::Sent { write: Box::new(write), lost_to, again };
    }

    /// The write under way, and the generation that made the first attempt fail.
    fn under_way(&self) -> Option<(Write, Option<Fence>)> {
        let Advance::Sent { write, lost_to, .. } = &self.state else { return None };
        Some(((**write).clone(), *lost_to))
    }

    fn is_wanted_again(&self) -> bool {
        matches!(self.state, Advance::Sent { again: true, .. })
    }

    /// The board was raised. What has happened meanwhile is told by another raise.
    fn raised(&mut self, again_at: Tick) {
        self.state = if self.is_wanted_again() { Advance::At(again_at) } else { Advance::Idle };
    }

    fn failed(&mut self, again_at: Tick) {
        self.state = Advance::At(again_at);
    }

    /// What to do about a board that can't be written, after an answer.
    fn judge(&mut self, now: Now, env: &FleetEnv, failed: Option<&StoreError>, retry: Tick) {
        self.refused = match failed {
            None => None,
            // A damaged board is in everybody's way, and somebody mends it.
            Some(error) if error.is_passing() || error.kind() == ErrorKind::Foreign => self.refused,
            Some(_) => {
                let next = LastingRefusal::next(self.refused, now, env.part(1), false);
                Some(next.at_the_soonest(retry))
            }
        };
    }
}

impl FleetWorker {
    /// Without a push, the others would learn of a death only at their next regular look.
    pub(super) fn raise_alarm(&mut self, now: Now) {
        if self.env.options.push
            || self.board.is_alarmed(now, &self.env)
            || self.board.is_blind()
            || self.env.has_bug(Bug::AlarmNotRaised)
        {
            return;
        }
        if let Some(seen) = self.board.stored().cloned() {
            self.board.alarms(now);
            let write = board::alarm(self.env.board_key.clone(), &seen, self.env.nonces.draw(), now.wall);
            self.send(InFlight::Alarm, Op::Write(Box::new(write)));
        } else {
            // Somebody has deleted it.
            self.want_advance(now.held);
        }
    }

    pub(super) fn alarmed(&mut self, now: Now, result: Result<Answer, StoreError>) {
        match result {
            Ok(Answer::Write(Outcome::Lost(current))) => {
                self.saw_board(now, current);
                if !self.board.is_alarmed(now, &self.env) {
                    // Somebody wrote something else there: what that is, and whether it still takes an alarm, the next look shows.
                    self.look_now(now);
                }
            }
            Ok(_) => {
                self.advance.forget_refusal();
                self.look_now(now);
            }
            Err(error) => self.tell(FleetNotice::Trouble(error)),
        }
    }

    /// Something has changed that the others should look into.
    pub(super) fn want_advance(&mut self, at: Tick) {
        if self.board.is_blind() {
            // Nobody can be told, this worker included.
            self.lister.hasten(at);
        }
        if self.is_planner() && self.advance.is_refused() {
            // It needs no board to list all.
            self.list_again(at);
        }
        self.advance.want(at);
    }

    pub(super) fn wake_advance(&mut self, now: Now) {
        if self.advance.wake_at().is_some_and(|at| now.held >= at) {
            let seen = self.board.stored().cloned();
            self.send_advance(now, seen.as_ref(), None);
        }
    }

    fn send_advance(&mut self, now: Now, seen: Option<&Stored>, lost_to: Option<Fence>) {
        let planner = seen.and_then(|seen| board::planner(&seen.record));
        let vacant = self.is_vacant(planner.as_ref()) && !self.env.has_bug(Bug::StandsByForEver);
        let plans = vacant
            && self.planner.may_plan(now, &self.env)
            && (!self.life.leaving || self.advance.only_fills());
        let fence = self.session_fence().filter(|_| plans);
        let (key, nonce) = (self.env.board_key.clone(), self.env.nonces.draw());
        let write = match fence {
            Some(fence) => {
                let me = Attachment { session: self.env.me.clone(), fence };
                board::claim(key, seen, &me, nonce, now.wall)
            }
            None => board::advance(key, seen, nonce, now.wall),
        };
        match write {
            Ok(write) => {
                self.send(InFlight::Advance, Op::Write(Box::new(write.clone())));
                self.advance.sent(write, lost_to);
            }
            Err(error) => {
                self.advance.end();
                self.tell(FleetNotice::Trouble(error));
            }
        }
    }

    pub(super) fn advanced(&mut self, now: Now, result: Result<Answer, StoreError>) {
        let Some((write, lost_to)) = self.advance.under_way() else { return };
        let failed = result.as_ref().err();
        let pause = failed.map_or(self.env.least_pause(), |error| self.env.pause(32, error));
        let retry = now.held.after(if self.board.is_blind() { self.env.interval() } else { pause });
        self.advance.judge(now, &self.env, failed, retry);
        match result {
            Ok(Answer::Write(Outcome::Won { version, .. })) => {
                let board = Stored::new(write.record).versioned(version);
                self.advance.raised(retry);
                self.saw_board(now, Some(board));
            }
            Ok(Answer::Write(Outcome::Lost(current))) => {
                self.saw_board(now, current.clone());
                let standing = board::generation(current.as_ref());
                if self.advance.only_fills()
                    && !self.advance.is_wanted_again()
                    && !self.is_vacant(self.board.planner())
                {
                    return self.advance.end();
                }
                match lost_to {
                    // Between the two attempts, and so after what we have to tell, somebody else has raised it.
                    Some(before) if standing > before => {
                        self.advance.raised(retry);
                    }
                    before => self.send_advance(now, current.as_ref(), Some(before.unwrap_or(standing))),
                }
            }
            Ok(_) => self.advance.end(),
            Err(error) => {
                self.advance.failed(retry);
                self.tell(FleetNotice::Trouble(error));
            }
        }
    }
}

#[cfg(test)]
mod tests;
