//! Advancing the generation of the board. A worker that has changed something makes all workers look again. A worker that misses a renewal makes all look
//! more often.

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

/// Whether the generation of the board is to be advanced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Advance {
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

impl Advance {
    pub(super) fn wake_at(&self) -> Option<Tick> {
        if let Advance::At(at) = self { Some(*at) } else { None }
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
                self.advance_refused = None;
                self.look_now(now);
            }
            Err(error) => self.tell(FleetNotice::Trouble(error)),
        }
    }

    /// When the board is raised next. While the store does not let this worker write it, that is not hastened by all that happens.
    pub(super) fn advance_wake_at(&self) -> Option<Tick> {
        let refused = self.advance_refused.map(|refusal| refusal.again_at);
        self.advance.wake_at().map(|at| refused.map_or(at, |again_at| at.max(again_at)))
    }

    /// Something has changed that the others should look into.
    pub(super) fn want_advance(&mut self, at: Tick) {
        if self.board.is_blind() {
            // Nobody can be told, this worker included.
            self.lister.hasten(at);
        }
        if self.is_planner() && self.advance_refused.is_some() {
            // It needs no board to list all.
            self.list_again(at);
        }
        self.lead.only_fills = false;
        match &mut self.advance {
            Advance::Idle => self.advance = Advance::At(at),
            Advance::At(planned) => *planned = (*planned).min(at),
            Advance::Sent { again, .. } => *again = true,
        }
    }

    pub(super) fn wake_advance(&mut self, now: Now) {
        if self.advance_wake_at().is_some_and(|at| now.held >= at) {
            let seen = self.board.stored().cloned();
            self.send_advance(now, seen.as_ref(), None);
        }
    }

    fn send_advance(&mut self, now: Now, seen: Option<&Stored>, lost_to: Option<Fence>) {
        let planner = seen.and_then(|seen| board::planner(&seen.record));
        let vacant = self.is_vacant(planner.as_ref()) && !self.env.has_bug(Bug::StandsByForEver);
        let plans =
            vacant && self.planner.may_plan(now, &self.env) && (!self.life.leaving || self.lead.only_fills);
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
                let again = matches!(self.advance, Advance::Sent { again: true, .. });
                self.send(InFlight::Advance, Op::Write(Box::new(write.clone())));
                self.advance = Advance::Sent { write: Box::new(write), lost_to, again };
            }
            Err(error) => {
                self.advance = Advance::Idle;
                self.tell(FleetNotice::Trouble(error));
            }
        }
    }

    /// What to do about a board that can't be written, after this answer.
    fn board_refusal(&self, now: Now, failed: Option<&StoreError>, retry: Tick) -> Option<LastingRefusal> {
        let error = failed?;
        // A damaged board is in everybody's way, and somebody mends it.
        if error.is_passing() || error.kind() == ErrorKind::Foreign {
            return self.advance_refused;
        }
        let next = LastingRefusal::next(self.advance_refused, now, self.env.part(1), false);
        Some(next.at_the_soonest(retry))
    }

    pub(super) fn advanced(&mut self, now: Now, result: Result<Answer, StoreError>) {
        let Advance::Sent { write, lost_to, again } = &self.advance else { return };
        let (lost_to, again) = (*lost_to, *again);
        let failed = result.as_ref().err();
        let pause = failed.map_or(self.env.least_pause(), |error| self.env.pause(32, error));
        let retry = now.held.after(if self.board.is_blind() { self.env.interval() } else { pause });
        self.advance_refused = self.board_refusal(now, failed, retry);
        match result {
            Ok(Answer::Write(Outcome::Won { version, .. })) => {
                let board = Stored::new(write.record.clone()).versioned(version);
                self.advance = if again { Advance::At(retry) } else { Advance::Idle };
                self.saw_board(now, Some(board));
            }
            Ok(Answer::Write(Outcome::Lost(current))) => {
                self.saw_board(now, current.clone());
                let standing = board::generation(current.as_ref());
                if self.lead.only_fills && !again && !self.is_vacant(self.board.planner()) {
                    return self.advance = Advance::Idle;
                }
                match lost_to {
                    // Between the two attempts, and so after what we have to tell, somebody else has raised it.
                    Some(before) if standing > before => {
                        self.advance = if again { Advance::At(retry) } else { Advance::Idle };
                    }
                    before => self.send_advance(now, current.as_ref(), Some(before.unwrap_or(standing))),
                }
            }
            Ok(_) => self.advance = Advance::Idle,
            Err(error) => {
                self.advance = Advance::At(retry);
                self.tell(FleetNotice::Trouble(error));
            }
        }
    }
}

#[cfg(test)]
mod tests;
