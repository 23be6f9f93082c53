//! Getting a key: asking for it, waiting for it, taking it over from the dead.
//!
//! A bid has at most one operation under way. Whatever the answer, it *assesses* what the key's record now shows and
//! does the next thing: claim it, look at the session that it rides on, fence that session, or wait.

use crate::bugs::Bug;
use crate::ctx::{Attempt, Ctx};
use crate::error::{ErrorKind, StoreError};
use crate::fence::{Fence, Nonce, Version};
use crate::key::Key;
use crate::metadata::Metadata;
use crate::op::{Answer, Expect, OpId, Outcome, Write};
use crate::record::{Ask, Letter, MAILBOX, Occupant, Record, Ride, Stored, Tenure};
use crate::time::{Tick, Ttl, Wall};
use crate::vigil::Verdict;

/// How long to wait for a key that someone holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Not at all: be told who holds it.
    Try,
    /// Until this tick of the holder's time line ([`crate::time::Now::held`]).
    Until(Tick),
    /// For ever.
    Forever,
}

/// What becomes of the metadata that the key's record carries when it is claimed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Carry {
    /// The record is written anew with this metadata, whatever was there.
    Replace(Metadata),
    /// The record must exist and keeps its metadata. What was last seen of it saves a read, if it is still so.
    Keep(Option<Box<Stored>>),
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Goal {
    pub(crate) key: Key,
    pub(crate) ttl: Ttl,
    pub(crate) ride: Option<Ride>,
    pub(crate) carry: Carry,
    pub(crate) patience: Patience,
}

/// A tenure that a bid won.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Won {
    pub(crate) id: Nonce,
    pub(crate) fence: Fence,
    pub(crate) version: Version,
    /// When the write that won was sent, or before.
    pub(crate) sent: Tick,
    /// What the record says about when the tenure began.
    pub(crate) since: Wall,
    pub(crate) metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum BidEnd {
    Won(Won),
    /// Patience is over and someone holds it.
    Held(Option<Occupant>),
    /// [`Carry::Keep`] found no record.
    Absent,
    Failed(StoreError),
    /// Abandoned, and nothing of it stands in the store as far as is known.
    Dropped,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Claiming {
        op: OpId,
        attempt: Attempt,
        since: Wall,
        metadata: Metadata,
    },
    /// Reading the key.
    Looking {
        op: OpId,
    },
    /// Reading the session that `seen` rides on.
    Asking {
        op: OpId,
        seen: Box<Stored>,
    },
    /// Raising the fence of the dead session that `seen` rides on, so that it can never renew.
    Fencing {
        op: OpId,
        seen: Box<Stored>,
    },
    /// Someone holds it, or the store was in trouble: look again then.
    Waiting {
        until: Tick,
    },
}

/// One attempt to get one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Bid {
    goal: Goal,
    state: State,
    /// Claims that were sent and may have landed, or may yet.
    unresolved: Vec<Attempt>,
    failures: u32,
    occupant: Option<Occupant>,
    last_error: Option<StoreError>,
    abandoned: bool,
    /// The key is said to have changed while an operation was under way, which may have seen it before that.
    hinted: bool,
    /// Until then, and beyond the user's patience, it is worth finding out what became of unresolved claims.
    resolve_by: Tick,
}

impl Bid {
    /// Sends the first operation: a claim, in the uncontended case the only one.
    pub(crate) fn start(goal: Goal, ctx: &mut Ctx<'_>) -> (Bid, Option<BidEnd>) {
        let mut bid = Bid {
            goal,
            state: State::Waiting { until: ctx.now.held },
            unresolved: Vec::new(),
            failures: 0,
            occupant: None,
            last_error: None,
            abandoned: false,
            hinted: false,
            resolve_by: Tick(0),
        };
        let end = match &mut bid.goal.carry {
            Carry::Replace(_) => bid.claim_vacant(ctx),
            Carry::Keep(seen) => match seen.take() {
                Some(seen) => bid.assess(ctx, Some(*seen)),
                None => bid.look(ctx),
            },
        };
        (bid, end)
    }

    pub(crate) fn key(&self) -> &Key {
        &self.goal.key
    }

    pub(crate) fn goal(&self) -> &Goal {
        &self.goal
    }

    /// When to come back if nothing happens.
    pub(crate) fn wake_at(&self) -> Option<Tick> {
        match self.state {
            // What may stand in the store has to be found out first, however long that takes.
            State::Waiting { until } if self.abandoned || self.is_stray() => Some(until),
            State::Waiting { until } => Some(match self.goal.patience {
                Patience::Until(end) => until.min(end),
                _ => until,
            }),
            _ => None,
        }
    }

    /// Nobody wants it any more. It goes on only to find out whether something must be undone.
    pub(crate) fn abandon(&mut self) -> Option<BidEnd> {
        self.abandoned = true;
        let claiming = matches!(self.state, State::Claiming { .. });
        if claiming || self.is_stray() { None } else { Some(BidEnd::Dropped) }
    }

    /// Whether a claim was sent of which nothing is known: it may still land, long after this bid.
    pub(crate) fn is_stray(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Whether the tenure is one that this bid may be about to win.
    pub(crate) fn may_win(&self, id: Nonce) -> bool {
        let claiming = matches!(&self.state, State::Claiming { attempt, .. } if attempt.nonce == id);
        claiming || self.unresolved.iter().any(|attempt| attempt.nonce == id)
    }

    /// Time has passed, or the key is said to have changed.
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_>, changed: bool) -> Option<BidEnd> {
        let State::Waiting { until } = self.state else {
            self.hinted |= changed && !ctx.rules.bugs.has(Bug::HintWhileLooking);
            return None;
        };
        if self.patience_is_over(ctx) && !self.is_stray() && !self.abandoned {
            return Some(self.give_up());
        }
        if changed || ctx.now.held >= until { self.look(ctx) } else { None }
    }

    fn patience_is_over(&self, ctx: &Ctx<'_>) -> bool {
        let end = match self.goal.patience {
            Patience::Try => Tick(0),
            Patience::Until(end) => end,
            Patience::Forever => Tick::NEVER,
        };
        ctx.now.held >= if self.is_stray() { end.max(self.resolve_by) } else { end }
    }

    fn give_up(&mut self) -> BidEnd {
        match self.last_error.take() {
            Some(error) => BidEnd::Failed(error),
            None => BidEnd::Held(self.occupant.take()),
        }
    }

    /// An operation's answer.
    pub(crate) fn answer(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: OpId,
        result: Result<Answer, StoreError>,
    ) -> Option<BidEnd> {
        let wait = State::Waiting { until: ctx.now.held };
        match (std::mem::replace(&mut self.state, wait), result) {
            (
                State::Claiming { op, attempt, since, metadata },
                Ok(Answer::Write(Outcome::Won { version, fence })),
            ) if op == id => {
                let sent = if ctx.rules.bugs.has(Bug::ValidFromAnswer) { ctx.now.held } else { attempt.sent };
                self.won(ctx, Won { id: attempt.nonce, fence, version, sent, since, metadata })
            }
            (State::Claiming { op, .. }, Ok(Answer::Write(Outcome::Lost(current)))) if op == id => {
                self.settled();
                match current {
                    Some(current) if ctx.rules.bugs.has(Bug::TakeWithoutCondition) => self.take(ctx, current),
                    current => self.assess(ctx, current),
                }
            }
            (State::Claiming { op, attempt, metadata, .. }, Err(error)) if op == id => {
                self.claim_failed(ctx, attempt, metadata, error)
            }
            (State::Looking { op }, Ok(Answer::Read(current))) if op == id => {
                self.settled();
                self.assess(ctx, current)
            }
            (State::Asking { op, seen }, Ok(Answer::Read(session))) if op == id => {
                self.settled();
                self.judge_session(ctx, *seen, session)
            }
            (State::Fencing { op, seen }, Ok(Answer::Write(Outcome::Won { .. }))) if op == id => {
                self.take(ctx, *seen)
            }
            (State::Fencing { op, seen }, Ok(Answer::Write(Outcome::Lost(session)))) if op == id => {
                self.judge_session(ctx, *seen, session)
            }
            (State::Looking { op } | State::Asking { op, .. } | State::Fencing { op, .. }, Err(error))
                if op == id =>
            {
                self.pause(ctx, error)
            }
            (state, _) => {
                self.state = state;
                None
            }
        }
    }

    fn settled(&mut self) {
        self.failures = 0;
        self.last_error = None;
    }

    fn claim_failed(
        &mut self,
        ctx: &mut Ctx<'_>,
        attempt: Attempt,
        metadata: Metadata,
        error: StoreError,
    ) -> Option<BidEnd> {
        if error.kind() == ErrorKind::Unknown {
            if ctx.rules.bugs.has(Bug::UnknownIsSuccess) {
                let fence = Fence::floor(ctx.now.wall);
                let version = Version::of(attempt.nonce, fence);
                let (sent, since) = (attempt.sent, ctx.now.wall);
                return self.won(ctx, Won { id: attempt.nonce, fence, version, sent, since, metadata });
            }
            if !ctx.rules.bugs.has(Bug::UnknownIsFailure) {
                self.unresolved.push(attempt);
                self.resolve_by = attempt.sent.after(self.goal.ttl.duration());
            }
        }
        self.pause(ctx, error)
    }

    /// The store is in trouble: look again a little later, or tell the user if that can't help.
    fn pause(&mut self, ctx: &mut Ctx<'_>, error: StoreError) -> Option<BidEnd> {
        self.failures += 1;
        if self.abandoned {
            let expired =
                self.unresolved.iter().all(|a| ctx.now.held >= a.sent.after(self.goal.ttl.duration()));
            if self.goal.ride.is_none() && expired || !self.is_stray() {
                return Some(BidEnd::Dropped);
            }
        } else {
            if self.patience_is_over(ctx) || !error.is_passing() {
                return Some(BidEnd::Failed(error));
            }
        }
        self.last_error = Some(error);
        self.state = State::Waiting { until: ctx.retry_at(self.goal.ttl, self.failures) };
        None
    }

    fn look(&mut self, ctx: &mut Ctx<'_>) -> Option<BidEnd> {
        self.hinted = false;
        self.state = State::Looking { op: ctx.read(&self.goal.key, self.goal.ttl) };
        None
    }

    /// The heart of it: what does the key's record show, and what follows?
    fn assess(&mut self, ctx: &mut Ctx<'_>, current: Option<Stored>) -> Option<BidEnd> {
        let Some(seen) = current else { return self.assess_absent(ctx) };
        let Some(tenure) = &seen.record.tenure else { return self.assess_vacant(ctx, seen) };
        if let Some(attempt) = self.unresolved.iter().find(|attempt| attempt.nonce == tenure.id).copied() {
            let won = Won {
                id: attempt.nonce,
                fence: seen.record.fence,
                version: seen.version,
                sent: attempt.sent,
                since: tenure.since,
                metadata: seen.record.metadata,
            };
            return self.won(ctx, won);
        }
        if self.abandoned {
            return Some(BidEnd::Dropped);
        }
        let own_session = self.goal.key == *ctx.session_key && ctx.nonces.made(tenure.id);
        if own_session && !ctx.rules.bugs.has(Bug::OwnSessionForeign) {
            // A session of this very process that it does not believe in any more, or never did: no need to wait.
            return self.take(ctx, seen);
        }
        self.occupant = Occupant::of(&seen.record);
        match &tenure.ride {
            None => match ctx.vigils.judge(ctx.now, &self.goal.key, &seen, tenure, ctx.rules, true) {
                Verdict::Silent => self.take(ctx, seen),
                Verdict::Live { until } => self.held_by_another(ctx, tenure, until, None),
            },
            Some(ride) if ride.session == *ctx.session_key => {
                // Our own process's session: no need to ask the store whether it lives.
                let live = ctx.session.as_ref().is_some_and(|session| session.fence == ride.fence);
                if live && (ctx.is_ours)(tenure.id) {
                    self.held_by_another(ctx, tenure, Tick::NEVER, None)
                } else {
                    self.take(ctx, seen)
                }
            }
            Some(_) if ctx.rules.bugs.has(Bug::AgeIgnoresRide) => {
                match ctx.vigils.judge(ctx.now, &self.goal.key, &seen, tenure, ctx.rules, true) {
                    Verdict::Silent => self.take(ctx, seen),
                    Verdict::Live { until } => self.held_by_another(ctx, tenure, until, None),
                }
            }
            Some(ride) => {
                let op = ctx.read(&ride.session.clone(), self.goal.ttl);
                self.state = State::Asking { op, seen: Box::new(seen) };
                None
            }
        }
    }

    fn assess_absent(&mut self, ctx: &mut Ctx<'_>) -> Option<BidEnd> {
        if self.abandoned {
            return Some(BidEnd::Dropped);
        }
        match self.goal.carry {
            Carry::Replace(_) => self.claim_vacant(ctx),
            Carry::Keep(_) => Some(BidEnd::Absent),
        }
    }

    fn assess_vacant(&mut self, ctx: &mut Ctx<'_>, seen: Stored) -> Option<BidEnd> {
        if self.abandoned {
            return Some(BidEnd::Dropped);
        }
        match self.goal.carry {
            Carry::Replace(_) => self.claim_vacant(ctx),
            Carry::Keep(_) => self.take(ctx, seen),
        }
    }

    /// `seen` rides on `session`: is that alive?
    fn judge_session(&mut self, ctx: &mut Ctx<'_>, seen: Stored, session: Option<Stored>) -> Option<BidEnd> {
        let Some(tenure) = &seen.record.tenure else { return self.assess_vacant(ctx, seen) };
        let Some(ride) = &tenure.ride else { return self.look(ctx) };
        let Some(session) = session else {
            // Deleted: by `gc` long after its end, or by a hand while its process still believes. Wait as for any claim;
            // the age of `seen` says nothing about the session's last beat.
            return match ctx.vigils.judge(ctx.now, &self.goal.key, &seen, tenure, ctx.rules, false) {
                Verdict::Silent => self.take(ctx, seen),
                Verdict::Live { until } => self.held_by_another(ctx, tenure, until, None),
            };
        };
        let beating = match &session.record.tenure {
            Some(beating) if session.record.fence == ride.fence => beating,
            _ => return self.take(ctx, seen),
        };
        match ctx.vigils.judge(ctx.now, &ride.session, &session, beating, ctx.rules, true) {
            Verdict::Silent if ctx.rules.bugs.has(Bug::SessionNotFenced) => self.take(ctx, seen),
            Verdict::Silent => self.fence_session(ctx, ride.session.clone(), session, seen),
            Verdict::Live { until } => {
                self.held_by_another(ctx, tenure, until, Some((ride, session.clone())))
            }
        }
    }

    fn fence_session(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: Key,
        session: Stored,
        seen: Stored,
    ) -> Option<BidEnd> {
        let fence = match session.record.fence.next(Fence::floor(ctx.now.wall)) {
            Ok(fence) => fence,
            Err(error) => return self.pause(ctx, error),
        };
        let record =
            Record { fence, nonce: ctx.nonces.draw(), stamp: ctx.now.wall, tenure: None, ..session.record };
        let write = Write { key, expect: Expect::Unchanged(session.version), record };
        self.state = State::Fencing { op: ctx.write(write, self.goal.ttl), seen: Box::new(seen) };
        None
    }

    fn held_by_another(
        &mut self,
        ctx: &mut Ctx<'_>,
        tenure: &Tenure,
        until: Tick,
        session: Option<(&Ride, Stored)>,
    ) -> Option<BidEnd> {
        let patient = match self.goal.patience {
            Patience::Try => false,
            Patience::Until(end) => ctx.now.held < end,
            Patience::Forever => true,
        };
        if let Some((ride, session)) = session {
            self.knock(ctx, tenure, ride, session);
        }
        if !patient {
            if ctx.rules.bugs.has(Bug::TryForgetsVigil) {
                let key = tenure.ride.as_ref().map_or(&self.goal.key, |ride| &ride.session);
                ctx.vigils.end(key);
            }
            return Some(BidEnd::Held(self.occupant.take()));
        }
        if self.hinted {
            return self.look(ctx);
        }
        let poll = ctx.jittered(tenure.ttl.part(4).min(ctx.rules.poll));
        let next = until.min(poll).max(ctx.now.held.after(std::time::Duration::from_micros(100)));
        self.state = State::Waiting { until: next };
        None
    }

    /// Every two ttls behind a live session, asks it whether it knows about this claim: a claim that landed long after its
    /// process gave it up would otherwise stand as long as that process lives. Nobody waits for the answer.
    fn knock(&mut self, ctx: &mut Ctx<'_>, tenure: &Tenure, ride: &Ride, mut session: Stored) {
        let patience = tenure.ttl.duration() * 2;
        if !ctx.vigils.doubts(ctx.now, &self.goal.key, tenure.id, patience) {
            return;
        }
        let Some(beating) = &mut session.record.tenure else { return };
        if beating.mail.len() >= MAILBOX || beating.mail.iter().any(|letter| letter.key == self.goal.key) {
            return;
        }
        beating.mail.push(Letter { key: self.goal.key.clone(), ask: Ask::Confirm });
        session.record.nonce = ctx.nonces.draw();
        let expect = Expect::Unchanged(session.version);
        let write = Write { key: ride.session.clone(), expect, record: session.record };
        let _unawaited = ctx.write(write, self.goal.ttl);
    }

    fn claim_vacant(&mut self, ctx: &mut Ctx<'_>) -> Option<BidEnd> {
        let metadata = match &self.goal.carry {
            Carry::Replace(metadata) => metadata.clone(),
            Carry::Keep(_) => Metadata::new(),
        };
        let forgets = ctx.rules.bugs.has(Bug::FenceForgetsClock);
        let floor = if forgets { Fence(1) } else { Fence::floor(ctx.now.wall) };
        self.claim(ctx, Expect::Vacant, floor, metadata)
    }

    /// Claims the key over the record that was seen, vacant or of a dead holder, with a higher fence.
    fn take(&mut self, ctx: &mut Ctx<'_>, seen: Stored) -> Option<BidEnd> {
        if self.abandoned {
            return Some(BidEnd::Dropped);
        }
        let floor = Fence::floor(ctx.now.wall);
        let fence = match seen.record.fence.next(floor) {
            Ok(_) if ctx.rules.bugs.has(Bug::FenceForgetsClock) => Fence(seen.record.fence.0 + 1),
            Ok(_) if ctx.rules.bugs.has(Bug::FenceResetAtTakeover) => Fence(1),
            Ok(_) if ctx.rules.bugs.has(Bug::FenceNotRaised) => seen.record.fence,
            Ok(fence) => fence,
            Err(error) => return self.pause(ctx, error),
        };
        let metadata = match &self.goal.carry {
            Carry::Replace(metadata) => metadata.clone(),
            Carry::Keep(_) => seen.record.metadata,
        };
        self.claim(ctx, Expect::Unchanged(seen.version), fence, metadata)
    }

    fn claim(
        &mut self,
        ctx: &mut Ctx<'_>,
        expect: Expect,
        fence: Fence,
        metadata: Metadata,
    ) -> Option<BidEnd> {
        let nonce = ctx.nonces.draw();
        let tenure = Tenure {
            id: nonce,
            beat: nonce,
            holder: ctx.holder.clone(),
            ttl: self.goal.ttl,
            since: ctx.now.wall,
            ride: self.goal.ride.clone(),
            mail: Vec::new(),
        };
        let record =
            Record { fence, nonce, stamp: ctx.now.wall, tenure: Some(tenure), metadata: metadata.clone() };
        let write = Write { key: self.goal.key.clone(), expect, record };
        let (attempt, since) = (Attempt { nonce, sent: ctx.now.held }, ctx.now.wall);
        self.state = State::Claiming { op: ctx.write(write, self.goal.ttl), attempt, since, metadata };
        None
    }

    fn won(&mut self, ctx: &mut Ctx<'_>, won: Won) -> Option<BidEnd> {
        ctx.vigils.end(&self.goal.key);
        let valid_until = won.sent.after(ctx.rules.drift.belief(self.goal.ttl));
        let stale = self.goal.ride.is_none() && ctx.now.held >= valid_until;
        if stale && !self.abandoned && !ctx.rules.bugs.has(Bug::StaleWinBelieved) {
            // The answer came too late to be believed in. Nobody ever did, so it can be claimed anew at once.
            self.unresolved.clear();
            return self.claim_over(ctx, &won);
        }
        Some(BidEnd::Won(won))
    }

    fn claim_over(&mut self, ctx: &mut Ctx<'_>, won: &Won) -> Option<BidEnd> {
        let fence = match won.fence.next(Fence::floor(ctx.now.wall)) {
            Ok(fence) => fence,
            Err(error) => return self.pause(ctx, error),
        };
        self.claim(ctx, Expect::Unchanged(won.version), fence, won.metadata.clone())
    }
}
