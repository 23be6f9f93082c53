//! The planner's role: it belongs to the worker that the board names. A worker that sees no planner takes the role. Workers that watch
//! the others end the sessions of silent ones.

use super::look::PeerStep;
use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::board::ToldPlan;
use crate::fleet::planning::Role;
use crate::fleet::talk::FleetNotice;
use crate::op::{Answer, Expect, Op, Outcome, Write};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::Key;
use crate::values::record::{Attachment, Record, Stored};
use crate::values::time::Now;
use std::time::Duration;

/// About so many workers at the most do at once what one of them has to do.
const MOST_AT_ONCE: u64 = 40;

impl FleetWorker {
    /// Whether this worker is to take the planner's place.
    pub(super) fn is_standby(&self) -> bool {
        self.board.names_standby(&self.env.id) && !self.is_planner() && self.session_fence().is_some()
    }

    /// The generation that the board shows.
    pub(super) fn generation(&self) -> Fence {
        self.board.generation()
    }

    /// The last plan that was told by who plans now.
    pub(super) fn told_plan(&self) -> Option<&ToldPlan> {
        self.board.told_plan()
    }

    /// Whether this worker plans for all.
    pub(super) fn is_planner(&self) -> bool {
        self.board.planner().is_some_and(|planner| {
            planner.session == self.env.me && Some(planner.fence) == self.session_fence()
        })
    }

    /// What this worker is to its fleet's planning.
    pub(super) fn role(&self) -> Role {
        match () {
            () if self.is_planner() => Role::Planner,
            () if self.is_standby() => Role::Standby,
            () => Role::Member,
        }
    }

    /// Tells users who plans, and what this worker is to that, if either has changed.
    pub(super) fn tell_planning(&mut self) {
        if let Some(notice) = self.board.planning(self.role()) {
            self.tell(notice);
        }
    }

    /// Whether nobody plans, going by a board that names this planner.
    pub(super) fn is_vacant(&self, planner: Option<&Attachment>) -> bool {
        planner.is_none_or(|planner| self.board.has_gone(planner) || planner.session == self.env.me)
            && !self.is_planner()
    }

    /// If nobody plans, this worker does from now on, unless somebody else is sooner.
    pub(super) fn fill_vacancy(&mut self, now: Now) {
        let fills =
            self.is_vacant(self.board.planner()) && self.session_fence().is_some() && self.life.joined;
        let fills = fills && self.planner.may_plan(now, &self.env);
        if !fills || self.is_stopping() || !self.advance.is_idle() || self.env.has_bug(Bug::StandsByForEver) {
            return;
        }
        // Whoever stands by has watched the others. Whoever leaves plans only if nobody else does.
        let later = match () {
            () if self.life.leaving || self.planner.has_failed() || !self.is_early() => {
                self.env.interval() / 2
            }
            () if !self.board.has_standbys() || self.is_standby() => Duration::ZERO,
            () => self.env.part(16),
        };
        self.advance.fill(now.held.after(later));
    }

    /// In a large fleet some are sooner than others, so that not all of them write at once.
    fn is_early(&self) -> bool {
        let workers = self.told_plan().map_or(1, |plan| plan.counts.0);
        crate::fleet::digest::spread(&self.env.me) % workers.max(1) < MOST_AT_ONCE
    }

    pub(super) fn saw_session(
        &mut self,
        now: Now,
        key: &Key,
        fence: Fence,
        found: Option<Result<Stored, StoreError>>,
    ) {
        let stored = match found {
            Some(Ok(stored)) => stored,
            // Whoever deletes or damages a session has it counted as gone once the roster is listed again.
            Some(Err(_)) | None => return self.session_left(now, key),
        };
        let tenure = match &stored.record.tenure {
            Some(tenure) if stored.record.fence == fence => tenure.clone(),
            _ => return self.session_left(now, key),
        };
        let attested = self.is_attested(now, &stored, &tenure);
        self.roster.attest(key, attested);
        let verdict = self.holder.judge(now, key, &stored, &tenure);
        if self.env.has_bug(Bug::SessionSilenceForgotten) {
            self.holder.forget_silence(key);
        }
        match self.as_looker(now, |look, ctx| look.judged(ctx, key, &tenure, verdict)) {
            Some(PeerStep::End) => self.fence_session(now, key.clone(), stored),
            Some(PeerStep::Alarm) => self.raise_alarm(now),
            None => {}
        }
    }

    /// It has stopped, or its session is a new one.
    fn session_left(&mut self, now: Now, key: &Key) {
        let leaving = self.roster.left(key).is_some_and(|peer| peer.about.leaving);
        self.look.left(key);
        if !self.replaces_planner(now, key) && !leaving && self.is_planner() {
            self.want_advance(now.held);
        }
    }

    /// Its units can be taken once its session can't be renewed any more.
    pub(super) fn fence_session(&mut self, now: Now, key: Key, stored: Stored) {
        self.roster.left(&key);
        self.look.left(&key);
        if self.io.is_fencing(&key) || self.env.has_bug(Bug::DeadSessionIgnored) {
            return;
        }
        let dead = Attachment { session: key.clone(), fence: stored.record.fence };
        if let Some(again_at) = self.burials.unended_until(now, &dead) {
            if !self.replaces_planner(now, &dead.session) {
                self.try_again_to_end(now, again_at);
            }
            return;
        }
        let Ok(fence) = stored.record.fence.next(Fence::floor(now.wall)) else { return };
        let heartbeat = heartbeat(&stored.record);
        let record =
            Record { fence, nonce: self.env.nonces.draw(), stamp: now.wall, tenure: None, ..stored.record };
        let write = Write { key: key.clone(), expect: Expect::Unchanged(stored.version), record };
        self.send(InFlight::Fence(dead, heartbeat), Op::Write(Box::new(write)));
    }

    pub(super) fn fenced(
        &mut self,
        now: Now,
        dead: &Attachment,
        last: Option<Nonce>,
        result: Result<Answer, StoreError>,
    ) {
        // A letter that somebody has written meanwhile is no sign of life.
        let is_silent = |stored: &Stored| {
            last.is_some() && stored.record.fence == dead.fence && heartbeat(&stored.record) == last
        };
        let has_bug = self.env.has_bug(Bug::LetterTakenForLife);
        let result = match result {
            Ok(Answer::Write(Outcome::Lost(Some(stored)))) if is_silent(&stored) && !has_bug => {
                return self.fence_session(now, dead.session.clone(), stored);
            }
            result => result,
        };
        let mut again_at = None;
        if let Err(error) = result {
            again_at = Some(self.burials.could_not_end(now, &self.env, dead, error.is_passing()));
            self.tell(FleetNotice::Trouble(error));
        } else {
            self.holder.forget_silence(&dead.session);
            self.burials.has_ended(dead);
        }
        if self.env.has_bug(Bug::DeathNotTold) {
            return;
        }
        // Won or lost, the roster shows what it came to.
        match again_at {
            _ if self.replaces_planner(now, &dead.session) => {}
            None => self.want_advance(now.held),
            Some(again_at) => self.try_again_to_end(now, again_at),
        }
    }

    /// Whether a session that is over was the planner's. Then this worker plans from now on, unless somebody else is sooner.
    fn replaces_planner(&mut self, now: Now, session: &Key) -> bool {
        let was_planner = self.board.names_planner(session);
        if was_planner {
            self.board.planner_went();
            self.fill_vacancy(now);
        }
        was_planner
    }
}

/// The last renewal by whoever has it.
fn heartbeat(record: &Record) -> Option<Nonce> {
    record.tenure.as_ref().map(|tenure| tenure.heartbeat)
}

#[cfg(test)]
mod tests;
