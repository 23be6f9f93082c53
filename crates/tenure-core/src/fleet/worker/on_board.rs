//! Advancing the generation of the board. A worker that has changed something makes all workers look again. A worker that misses a renewal makes all look
//! more often.

use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::board;
use crate::fleet::talk::FleetNotice;
use crate::op::{Answer, Op, Outcome};
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick};

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
                    self.look.now(now);
                }
            }
            Ok(_) => {
                self.advance.forget_refusal();
                self.look.now(now);
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
