//! The machine of one semaphore in one process. One operation is under way at a time, and all later wishes go into the next.
//!
//! Each lease has a job with one claim, which is in one of three states ([`SemaphoreJob`](super::job::SemaphoreJob)):
//!
//! - *wanted*, until the record shows its grant, or its user waits no longer;
//! - *held*, until its user gives it up, or the record does not show it any more, or the session is lost;
//! - *given up*, until the record shows it no more, and no write that was sent can bring it back. What is left to expire stands for a ttl first.
//!
//! The machine itself is in one of these states. `go_on` goes from each of them to the next, after every event:
//!
//! - *without a session*: nothing is sent. Users who can't wait are told.
//! - *looking*, *writing* or *fencing* ([`SemaphoreInFlight`]): an operation is under way. Its answer ends that (`answers`); events that come
//!   meanwhile change jobs only.
//! - *pausing*: nothing is sent for a while, because something has failed or others were quicker.
//! - *at rest*: nobody wants anything, and nothing is to be given up; or who waits stands in the queue, until it is time for the next look.
//!
//! Its next step depends on what it knows of the record. Before its first operation it guesses that there is none, and writes. What an answer
//! has shown counts until something fails; then it looks first. A write that was not answered, or was refused, *may land* all the same. As long
//! as it may, no claim is told to be gone. The next write is conditional on the same version, so only one of both takes effect.
//!
//! Its parts keep their own state, know nothing of each other, and tell the machine what comes of an event:
//!
//! | part | what it has |
//! |---|---|
//! | `jobs` | what users want, hold and give up, and what they are told |
//! | `deaths` | which sessions in the way are dead, suspected or live, and when they are looked at |
//! | `challenge` | which live holder is asked next whether it knows its claim |
//! | `backoff` | failures, refusals and lost writes in a row, and the pause that they bring: a [`Backoff`], as other machines have |
//!
//! `answers` and `plan` are the machine's own steps: what an answer means, and what the next write is.

mod answers;
mod challenge;
mod deaths;
mod jobs;
mod plan;

use super::Wish;
use super::job::WantedPermits;
use super::ledger::SemaphoreLedger;
use crate::backoff::Backoff;
use crate::bugs::Bug;
use crate::holder::acquisition::WaitPolicy;
use crate::holder::ctx::Ctx;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::op::{Freshness, OpId};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::Key;
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick, Ttl};
use challenge::HolderChallenge;
use deaths::{Deaths, Whom};
use jobs::SemaphoreJobs;
use std::collections::BTreeSet;

/// What was last seen of the record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SeenSemaphore {
    ledger: SemaphoreLedger,
    fence: Fence,
    /// None: there is no record.
    version: Option<Version>,
    /// The operation that has shown it; 0 for a guess.
    op: OpId,
}

/// The operation that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SemaphoreInFlight {
    /// The record is read, and these sessions with it.
    Looking { op: OpId, sessions: Vec<Attachment>, whom: Whom },
    /// `version`: that of the record if it takes effect.
    Writing { op: OpId, ledger: Box<SemaphoreLedger>, fence: Fence, version: Version, over: Option<Version> },
    /// The fence of a dead session is being raised.
    Fencing { op: OpId, attachment: Attachment },
}

impl SemaphoreInFlight {
    fn op(&self) -> OpId {
        match self {
            SemaphoreInFlight::Looking { op, .. }
            | SemaphoreInFlight::Writing { op, .. }
            | SemaphoreInFlight::Fencing { op, .. } => *op,
        }
    }
}

/// The machine of one semaphore in one process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Semaphore {
    key: Key,
    /// The session's ttl.
    ttl: Ttl,
    most_bytes: usize,
    jobs: SemaphoreJobs,
    deaths: Deaths,
    challenge: HolderChallenge,
    backoff: Backoff,
    seen: Option<SeenSemaphore>,
    /// There may be a record: nothing is guessed any more.
    is_known: bool,
    flight: Option<SemaphoreInFlight>,
    /// A write that was not answered was sent over this version, and may land as long as that stands.
    ghost: Option<Option<Version>>,
    /// A write that asks for something was refused over this version. A copy of it may be under way all the same.
    refused: Option<Option<Version>>,
    /// When the record is looked at again, as long as somebody waits.
    look_at: Tick,
    /// Changes that the store told of since the record was last seen.
    changes: u32,
    /// One of them came while an operation was under way, which may not have seen it.
    hinted: Option<Option<Version>>,
    /// Somebody asks what stands in the record.
    curious: bool,
    /// The process gives up everything.
    is_stopping: bool,
}

impl Semaphore {
    /// A machine that has seen nothing yet. `most_bytes`: the most that the store takes for a ledger.
    pub(crate) fn new(key: Key, ttl: Ttl, most_bytes: usize) -> Semaphore {
        Semaphore {
            key,
            ttl,
            most_bytes,
            jobs: SemaphoreJobs::default(),
            deaths: Deaths::new(ttl),
            challenge: HolderChallenge::default(),
            backoff: Backoff::default(),
            seen: None,
            is_known: false,
            flight: None,
            ghost: None,
            refused: None,
            look_at: Tick(0),
            changes: 0,
            hinted: None,
            curious: false,
            is_stopping: false,
        }
    }

    /// What users are to be told.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        self.jobs.take_notices()
    }

    /// Whether nothing is held, wanted or under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.flight.is_none() && !self.curious
    }

    /// Whether something of a lease is left, but for what is left to expire.
    pub(crate) fn is_open(&self) -> bool {
        self.jobs.is_open()
    }

    /// Whether something is left to expire.
    pub(crate) fn is_lapsing(&self) -> bool {
        self.jobs.is_lapsing()
    }

    /// Whether it waits for something that a push of the store would tell it sooner.
    pub(crate) fn listens(&self) -> bool {
        self.jobs.is_wanted()
    }

    /// Whether anything is held.
    pub(crate) fn holds(&self) -> bool {
        self.held().next().is_some()
    }

    /// The leases that hold permits.
    pub(crate) fn held(&self) -> impl Iterator<Item = LeaseId> {
        self.jobs.held()
    }

    /// All leases that it has something to do for.
    pub(crate) fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.jobs.leases()
    }

    /// Whether it has something to do for a lease.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.jobs.has(lease)
    }

    /// Somebody wants permits.
    pub(crate) fn want(&mut self, ctx: &mut Ctx<'_>, lease: LeaseId, mut wish: Wish) {
        // Who has no time to wait tries.
        if matches!(wish.wait_policy, WaitPolicy::Until(end) if ctx.now.held >= end) {
            wish.wait_policy = WaitPolicy::Try;
        }
        let reused = ctx.rules.bugs.has(Bug::PermitIdReused);
        let shared = self.jobs.ids().next().filter(|_| reused);
        let id = shared.unwrap_or_else(|| ctx.nonces.draw());
        let born = OpId(*ctx.last_op);
        self.backoff.end();
        let wanted = WantedPermits { wish, id, born, since: ctx.now.wall, sent: None, last_error: None };
        self.jobs.want(lease, wanted);
    }

    /// Permits, or the attempt to get them, are given up.
    pub(crate) fn release(&mut self, lease: LeaseId) {
        if self.jobs.release(lease) {
            self.backoff.try_again();
        }
    }

    /// Permits are given up, but what was done under them could not be ended for certain: they stay out for a full ttl.
    pub(crate) fn lapse(&mut self, ctx: &Ctx<'_>, lease: LeaseId) {
        let until = ctx.now.held.after(self.ttl.duration());
        if !self.jobs.lapse(lease, until, ctx.rules.bugs) {
            return self.release(lease);
        }
        self.backoff.end_with_lapse(self.jobs.lapses_at(ctx.now));
    }

    /// What is done with other leases can't be done with permits.
    pub(crate) fn cannot(&mut self, lease: LeaseId) {
        let error = StoreError::invalid("permits carry no metadata, and can't become plain data");
        self.jobs.tell(Notice::Failed(lease, error));
    }

    /// All is given up. What the store refuses for good ends with the session.
    pub(crate) fn stop(&mut self, ctx: &mut Ctx<'_>) {
        self.jobs.release_all();
        self.is_stopping = true;
        self.backoff.try_again();
        self.go_on(ctx);
    }

    /// The session that all of it is attached to is gone.
    pub(crate) fn session_lost(&mut self, ctx: &mut Ctx<'_>, loss: &Loss) {
        (self.flight, self.seen, self.ghost, self.refused) = (None, None, None, None);
        self.backoff.end();
        self.deaths.session_lost();
        self.jobs.session_lost(ctx, loss);
    }

    /// The session can't be begun now.
    pub(crate) fn session_failed(&mut self, now: Now, error: &StoreError) {
        self.jobs.session_failed(now, error);
    }

    /// The store says that the record has changed.
    pub(crate) fn heard(&mut self, ctx: &mut Ctx<'_>, version: Option<Version>) {
        let is_known = self.seen.as_ref().is_some_and(|seen| seen.version == version);
        if !self.listens() || version.is_some() && is_known {
            return;
        }
        self.changes = self.changes.saturating_add(1);
        let seen = self.seen.as_ref();
        // That of the first in the queue is the least, but for those who don't wait for others. What is granted, or not there yet, comes before: nothing has to come
        // for that.
        let awaited = seen.and_then(|seen| {
            let wanted = || self.jobs.wanted().map(|(_, wanted)| wanted);
            let places = wanted().map(|wanted| (seen.ledger.place(wanted.id), wanted.id));
            let first = places.min().map(|(_, id)| seen.ledger.grants_before(id))?;
            Some(if wanted().any(|wanted| wanted.wish.barges) { first.min(1) } else { first })
        });
        // A hint that names no version may stand for any number of changes.
        if version.is_some() && awaited.is_some_and(|writes| self.changes < writes) {
            return;
        }
        self.hinted = if self.hinted == Some(None) { self.hinted } else { Some(version) };
        self.go_on(ctx);
    }

    /// Somebody asks about a claim that nobody here may know of: see [`crate::Ask::Confirm`].
    pub(crate) fn ask(&mut self, ctx: &mut Ctx<'_>) {
        self.curious = true;
        self.go_on(ctx);
    }

    /// When to come back if nothing happens.
    pub(crate) fn wake_at(&self, now: Now, has_session: bool) -> Option<Tick> {
        let acts = has_session && self.flight.is_none();
        let look_at = (acts && self.listens()).then(|| self.looks_at());
        let pause = self.backoff.until().filter(|_| acts && !self.is_idle());
        self.jobs.wake_at(now, self.ttl).into_iter().chain(pause.or(look_at)).min()
    }

    /// When the record, or the sessions in the way, are looked at again, as long as somebody waits.
    fn looks_at(&self) -> Tick {
        self.look_at.min(self.deaths.look_at())
    }

    /// Does what there is to do, if nothing is under way.
    pub(crate) fn go_on(&mut self, ctx: &mut Ctx<'_>) {
        let (may_land, seen) = (self.may_land(), self.seen.as_ref());
        if let (Some(seen), true) = (seen, ctx.session.is_some()) {
            self.jobs.settle(ctx, seen, may_land);
        }
        // Nobody waits any longer because something is under way.
        self.jobs.give_up_overdue(ctx.now, self.ttl, seen.map(|seen| &seen.ledger));
        if ctx.session.is_none() || self.flight.is_some() || self.backoff.holds(ctx.now) {
            return;
        }
        if let Some((attachment, session)) = self.deaths.take_suspect() {
            return self.fence(ctx, attachment, session);
        }
        if let Some(version) = self.hinted.take()
            && (version.is_none() || self.seen.as_ref().is_none_or(|seen| seen.version != version))
        {
            self.look_at = Tick(0);
        }
        let has_work = self.listens() || self.jobs.due(ctx.now).next().is_some();
        if !has_work && !self.curious && !self.has_strays(ctx) {
            return;
        }
        match self.seen.take() {
            Some(seen) => self.plan(ctx, seen),
            None if self.is_known || self.curious => {
                self.curious = false;
                self.look(ctx);
            }
            None => {
                let nothing = SeenSemaphore {
                    ledger: SemaphoreLedger::default(),
                    fence: Fence(0),
                    version: None,
                    op: OpId(0),
                };
                self.plan(ctx, nothing);
            }
        }
    }

    /// Whether a write that was sent may land, though it was not answered, or refused.
    fn may_land(&self) -> bool {
        self.ghost.is_some() || self.refused.is_some()
    }

    /// The ledger as it was last seen.
    fn ledger(&self) -> Option<&SemaphoreLedger> {
        self.seen.as_ref().map(|seen| &seen.ledger)
    }

    /// Raises the fence of a session that is dead.
    fn fence(&mut self, ctx: &mut Ctx<'_>, attachment: Attachment, session: Stored) {
        if let Some(write) = deaths::fencing(ctx, &attachment, session) {
            let op = ctx.write(write, self.ttl);
            self.flight = Some(SemaphoreInFlight::Fencing { op, attachment });
        }
    }

    /// Reads the record, and the sessions in the way of those who wait if it is time for that.
    fn look(&mut self, ctx: &mut Ctx<'_>) {
        let wants = self.listens() && (self.deaths.look_at() <= ctx.now.held || self.must_judge());
        let others = self.ledger().zip(ctx.session.as_ref()).filter(|_| wants);
        let whom = self.whom();
        let sessions = others.map(|(ledger, own)| self.deaths.in_the_way(ledger, own, whom));
        let sessions = sessions.unwrap_or_default();
        let op = if sessions.is_empty() {
            ctx.read(&self.key, self.ttl)
        } else {
            let others: BTreeSet<&Key> = sessions.iter().map(|attachment| &attachment.session).collect();
            // The first is what the call is about, should it fail.
            let keys = [&self.key].into_iter().chain(others).cloned().collect();
            ctx.read_many(keys, Freshness::Latest, self.ttl)
        };
        self.flight = Some(SemaphoreInFlight::Looking { op, sessions, whom });
    }

    /// Whether the record shows a claim of our session that nobody here knows of.
    fn has_strays(&self, ctx: &Ctx<'_>) -> bool {
        let Some((seen, own)) = self.seen.as_ref().zip(ctx.session.as_ref()) else { return false };
        let known: BTreeSet<Nonce> = self.jobs.ids().collect();
        let mut own = seen.ledger.tickets().filter(|ticket| ticket.attachment == *own);
        own.any(|ticket| !known.contains(&ticket.id)) && !ctx.rules.bugs.has(Bug::StraysKept)
    }

    /// Whose sessions matter now. Whoever is to be refused is behind all who are there.
    fn whom(&self) -> Whom {
        if self.must_judge() { Whom::All } else { Whom::Before }
    }

    /// Whether somebody is to be refused unless those in its way are dead.
    fn must_judge(&self) -> bool {
        let has = |id| self.ledger().is_some_and(|ledger| ledger.has(id));
        let mut wanted = self.jobs.wanted().map(|(_, wanted)| wanted);
        wanted.any(|wanted| !self.deaths.has_looked_since(wanted.born) && !has(wanted.id))
    }

    /// When to look again, between ¾ of the usual time and that.
    fn set_look(&mut self, ctx: &Ctx<'_>) {
        self.look_at = ctx.jittered(self.ttl.part(4).min(ctx.rules.poll));
    }
}
