//! The machine of one semaphore in one process. One operation is under way at a time, and all later wishes go into the next.

mod answers;
mod deaths;
mod plan;

use super::Wish;
use super::job::{Giving, SemaphoreJob, WantedPermits};
use super::ledger::SemaphoreLedger;
use crate::bugs::Bug;
use crate::holder::acquisition::WaitPolicy;
use crate::holder::ctx::Ctx;
use crate::holder::lease_id::LeaseId;
use crate::holder::notice::Notice;
use crate::holder::renewal::Loss;
use crate::op::{Freshness, OpId};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::Key;
use crate::values::record::{Attachment, Occupant, Stored};
use crate::values::time::{Now, Tick, Ttl};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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
    Looking { op: OpId, sessions: Vec<Attachment> },
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
    jobs: BTreeMap<LeaseId, SemaphoreJob>,
    seen: Option<SeenSemaphore>,
    /// There may be a record: nothing is guessed any more.
    is_known: bool,
    flight: Option<SemaphoreInFlight>,
    /// A write that was not answered was sent over this version, and may land as long as that stands.
    ghost: Option<Option<Version>>,
    /// A write that asks for something was refused over this version. A copy of it may be under way all the same.
    refused: Option<Option<Version>>,
    /// Writes in a row that the store has refused, and may for good; looks between them may go well.
    refusals: u32,
    /// Sessions that are over, of those whose claims the record shows.
    dead: BTreeSet<Attachment>,
    /// Sessions of claims that the record shows which have been looked at, of those that last for less time than ours.
    judged: BTreeSet<Attachment>,
    /// Those of whom the store refuses to tell, or to have them fenced: how often in a row.
    unjudged: BTreeMap<Attachment, u32>,
    /// Sessions that have been silent for too long, and are to be fenced.
    suspects: Vec<(Attachment, Stored)>,
    /// The last look that showed sessions.
    looked: OpId,
    /// When the record is looked at again, and when the sessions in its way, as long as somebody waits.
    look_at: Tick,
    sessions_at: Tick,
    /// Where the next look at sessions begins.
    turn: usize,
    /// Changes that the store told of since the record was last seen.
    changes: u32,
    /// One of them came while an operation was under way, which may not have seen it.
    hinted: Option<Option<Version>>,
    /// Somebody asks what stands in the record.
    curious: bool,
    /// The process gives up everything.
    is_stopping: bool,
    /// Which holder was in the way when, and how many were asked about.
    doubt: Option<(Nonce, Tick)>,
    asked: usize,
    /// Writes in a row that others were quicker than.
    losses: u32,
    /// Operations in a row that failed.
    failures: u32,
    /// Nothing is sent before then.
    pause: Option<Tick>,
    /// That is because the store has refused something, and may for good.
    is_refused: bool,
    notices: Vec<Notice>,
}

impl Semaphore {
    /// A machine that has seen nothing yet. `most_bytes`: the most that the store takes for a ledger.
    pub(crate) fn new(key: Key, ttl: Ttl, most_bytes: usize) -> Semaphore {
        Semaphore {
            key,
            ttl,
            most_bytes,
            jobs: BTreeMap::new(),
            seen: None,
            is_known: false,
            flight: None,
            ghost: None,
            refused: None,
            refusals: 0,
            dead: BTreeSet::new(),
            judged: BTreeSet::new(),
            unjudged: BTreeMap::new(),
            suspects: Vec::new(),
            looked: OpId(0),
            look_at: Tick(0),
            sessions_at: Tick(0),
            turn: 0,
            changes: 0,
            hinted: None,
            curious: false,
            is_stopping: false,
            doubt: None,
            asked: 0,
            losses: 0,
            failures: 0,
            pause: None,
            is_refused: false,
            notices: Vec::new(),
        }
    }

    fn tell(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// What users are to be told.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether nothing is held, wanted or under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.flight.is_none() && !self.curious
    }

    /// Whether something of a lease is left, but for what is left to expire.
    pub(crate) fn is_open(&self) -> bool {
        self.jobs.values().any(|job| !job.is_lapsing())
    }

    /// Whether something is left to expire.
    pub(crate) fn is_lapsing(&self) -> bool {
        self.jobs.values().any(SemaphoreJob::is_lapsing)
    }

    /// Whether it waits for something that a push of the store would tell it sooner.
    pub(crate) fn listens(&self) -> bool {
        self.jobs.values().any(|job| matches!(job, SemaphoreJob::Wanted(_)))
    }

    /// Whether anything is held.
    pub(crate) fn holds(&self) -> bool {
        self.jobs.values().any(|job| matches!(job, SemaphoreJob::Held { .. }))
    }

    /// The leases that hold permits.
    pub(crate) fn held(&self) -> impl Iterator<Item = LeaseId> {
        self.jobs.iter().filter(|(_, job)| matches!(job, SemaphoreJob::Held { .. })).map(|(lease, _)| *lease)
    }

    /// All leases that it has something to do for.
    pub(crate) fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.jobs.keys().copied()
    }

    /// Whether it has something to do for a lease.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.jobs.contains_key(&lease)
    }

    /// Somebody wants permits.
    pub(crate) fn want(&mut self, ctx: &mut Ctx<'_>, lease: LeaseId, mut wish: Wish) {
        // Who has no time to wait tries.
        if matches!(wish.wait_policy, WaitPolicy::Until(end) if ctx.now.held >= end) {
            wish.wait_policy = WaitPolicy::Try;
        }
        let reused = ctx.rules.bugs.has(Bug::PermitIdReused);
        let shared = self.jobs.values().next().map(SemaphoreJob::id).filter(|_| reused);
        let id = shared.unwrap_or_else(|| ctx.nonces.draw());
        let born = OpId(*ctx.last_op);
        self.pause = None;
        let wanted = WantedPermits { wish, id, born, since: ctx.now.wall, sent: None, last_error: None };
        self.jobs.insert(lease, SemaphoreJob::Wanted(Box::new(wanted)));
    }

    /// Permits, or the attempt to get them, are given up.
    pub(crate) fn release(&mut self, lease: LeaseId) {
        let (id, was_held) = match self.jobs.get_mut(&lease) {
            None => return self.tell(Notice::Released(lease, false)),
            Some(SemaphoreJob::Wanted(wanted)) if wanted.sent.is_none() => {
                self.jobs.remove(&lease);
                return self.tell(Notice::Released(lease, false));
            }
            Some(SemaphoreJob::Wanted(wanted)) => (wanted.id, false),
            Some(SemaphoreJob::Held { id, .. }) => (*id, true),
            // Its user has been told of its end, or will be.
            Some(SemaphoreJob::Giving(Giving { is_awaited: true, .. })) => return,
            Some(SemaphoreJob::Giving(_)) => return self.tell(Notice::Released(lease, false)),
        };
        let giving = Giving { id, is_awaited: true, tried: false, was_held, not_before: None };
        self.jobs.insert(lease, SemaphoreJob::Giving(giving));
        self.try_again();
    }

    /// What has been refused is tried once more at once, however long the pause is by now: somebody may have mended it.
    fn try_again(&mut self) {
        self.pause.take_if(|_| self.is_refused);
    }

    /// Permits are given up, but what was done under them could not be ended for certain: they stay out for a full ttl.
    pub(crate) fn lapse(&mut self, ctx: &Ctx<'_>, lease: LeaseId) {
        let not_before = Some(ctx.now.held.after(self.ttl.duration()));
        match self.jobs.get_mut(&lease) {
            Some(SemaphoreJob::Held { id, .. }) if !ctx.rules.bugs.has(Bug::LapseVacates) => {
                let (id, is_awaited) = (*id, false);
                let giving = Giving { id, is_awaited, tried: false, was_held: true, not_before };
                self.jobs.insert(lease, SemaphoreJob::Giving(giving));
            }
            Some(SemaphoreJob::Giving(giving)) if giving.not_before.is_some() => {
                giving.not_before = not_before
            }
            _ => return self.release(lease),
        }
        self.end_pause_with_lapses(ctx.now);
        self.tell(Notice::Released(lease, false));
    }

    /// What is left to expire is given up in its time, whatever the store has refused before then.
    fn end_pause_with_lapses(&mut self, now: Now) {
        let lapses = self.jobs.values().filter_map(|job| match job {
            SemaphoreJob::Giving(giving) => giving.not_before.filter(|at| now.held < *at),
            _ => None,
        });
        if let (true, Some(pause), Some(lapse)) = (self.is_refused, &mut self.pause, lapses.min()) {
            *pause = lapse.min(*pause);
        }
    }

    /// What is done with other leases can't be done with permits.
    pub(crate) fn cannot(&mut self, lease: LeaseId) {
        let error = StoreError::invalid("permits carry no metadata, and can't become plain data");
        self.tell(Notice::Failed(lease, error));
    }

    /// All is given up. What the store refuses for good ends with the session.
    pub(crate) fn stop(&mut self, ctx: &mut Ctx<'_>) {
        for lease in self.jobs.keys().copied().collect::<Vec<_>>() {
            if !matches!(self.jobs.get(&lease), Some(SemaphoreJob::Giving(_))) {
                self.release(lease);
            }
        }
        self.is_stopping = true;
        self.try_again();
        self.go_on(ctx);
    }

    /// The session that all of it is attached to is gone. Whoever waits, waits on: behind those who came meanwhile.
    pub(crate) fn session_lost(&mut self, ctx: &mut Ctx<'_>, loss: &Loss) {
        (self.flight, self.seen, self.ghost, self.refused, self.pause) = (None, None, None, None, None);
        self.suspects.clear();
        for (lease, job) in std::mem::take(&mut self.jobs) {
            match job {
                SemaphoreJob::Wanted(mut wanted) => {
                    (wanted.id, wanted.sent) = (ctx.nonces.draw(), None);
                    self.jobs.insert(lease, SemaphoreJob::Wanted(wanted));
                }
                SemaphoreJob::Held { .. } if ctx.rules.bugs.has(Bug::AttachedOutlivesSession) => {}
                SemaphoreJob::Held { .. } => self.tell(Notice::Lost(lease, loss.clone())),
                SemaphoreJob::Giving(Giving { is_awaited: true, .. }) => {
                    self.tell(Notice::Released(lease, false))
                }
                SemaphoreJob::Giving(_) => {}
            }
        }
    }

    /// The session can't be begun now. Who only tries is told; who waits, waits on.
    pub(crate) fn session_failed(&mut self, now: Now, error: &StoreError) {
        for (lease, job) in std::mem::take(&mut self.jobs) {
            match job {
                SemaphoreJob::Wanted(wanted) if !wanted.is_patient(now) || !error.is_passing() => {
                    self.tell(Notice::Failed(lease, error.clone()));
                }
                SemaphoreJob::Wanted(mut wanted) => {
                    wanted.last_error = Some(error.clone());
                    self.jobs.insert(lease, SemaphoreJob::Wanted(wanted));
                }
                job => drop(self.jobs.insert(lease, job)),
            }
        }
    }

    /// The store says that the record has changed.
    pub(crate) fn heard(&mut self, ctx: &mut Ctx<'_>, version: Option<Version>) {
        let is_known = self.seen.as_ref().is_some_and(|seen| seen.version == version);
        if !self.listens() || version.is_some() && is_known {
            return;
        }
        self.changes = self.changes.saturating_add(1);
        let awaited = self.jobs.values().filter_map(|job| match (job, &self.seen) {
            (SemaphoreJob::Wanted(wanted), Some(seen)) => Some(seen.ledger.grants_before(wanted.id)),
            _ => None,
        });
        // A hint that names no version may stand for any number of changes.
        if version.is_some() && awaited.min().is_some_and(|writes| self.changes < writes) {
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
        let ends = self.jobs.values().filter_map(|job| match job {
            SemaphoreJob::Wanted(wanted) => wanted.end().into_iter().chain(self.resolves_by(wanted)).min(),
            SemaphoreJob::Giving(giving) => giving.not_before.filter(|at| now.held < *at),
            SemaphoreJob::Held { .. } => None,
        });
        let acts = has_session && self.flight.is_none();
        let look_at = (acts && self.listens()).then_some(self.look_at.min(self.sessions_at));
        let next = match self.pause.filter(|_| acts && !self.is_idle()) {
            Some(pause) => Some(pause),
            None => look_at,
        };
        ends.chain(next).min()
    }

    /// Until when it is worth finding out what became of an attempt that only tries.
    fn resolves_by(&self, wanted: &WantedPermits) -> Option<Tick> {
        let is_open = wanted.wish.wait_policy == WaitPolicy::Try && wanted.last_error.is_some();
        is_open.then_some(wanted.sent?.after(self.ttl.duration()))
    }

    /// Does what there is to do, if nothing is under way.
    pub(crate) fn go_on(&mut self, ctx: &mut Ctx<'_>) {
        if ctx.session.is_some() {
            self.settle(ctx);
        }
        self.give_up_overdue(ctx.now);
        if ctx.session.is_none() || self.flight.is_some() {
            return;
        }
        if self.pause.is_some_and(|at| ctx.now.held < at) {
            return;
        }
        self.pause = None;
        if let Some((attachment, session)) = self.suspects.pop() {
            return self.fence(ctx, attachment, session);
        }
        if let Some(version) = self.hinted.take()
            && (version.is_none() || self.seen.as_ref().is_none_or(|seen| seen.version != version))
        {
            self.look_at = Tick(0);
        }
        let is_work = |job: &SemaphoreJob| match job {
            SemaphoreJob::Wanted(_) => true,
            SemaphoreJob::Held { .. } => false,
            SemaphoreJob::Giving(giving) => giving.is_due(ctx.now),
        };
        if !self.jobs.values().any(is_work) && !self.curious && !self.has_strays(ctx) {
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

    /// Those who have waited for long enough are told so, whatever is under way.
    fn give_up_overdue(&mut self, now: Now) {
        let overdue = |(lease, job): (&LeaseId, &SemaphoreJob)| match job {
            SemaphoreJob::Wanted(wanted) => {
                let by = wanted.end().into_iter().chain(self.resolves_by(wanted)).min();
                by.is_some_and(|by| now.held >= by).then_some(*lease)
            }
            _ => None,
        };
        for lease in self.jobs.iter().filter_map(overdue).collect::<Vec<_>>() {
            let error = match self.jobs.get_mut(&lease) {
                Some(SemaphoreJob::Wanted(wanted)) => wanted.last_error.take(),
                _ => None,
            };
            let occupant = self.seen.as_ref().and_then(|seen| seen.ledger.occupant());
            self.give_up(lease, error.ok_or(occupant));
        }
    }

    /// An attempt is over without permits: because of an error, or of somebody who holds them.
    fn give_up(&mut self, lease: LeaseId, why: Result<StoreError, Option<Occupant>>) {
        let Some(SemaphoreJob::Wanted(wanted)) = self.jobs.remove(&lease) else { return };
        self.tell(match why {
            Ok(error) => Notice::Failed(lease, error),
            Err(occupant) => Notice::Held(lease, occupant),
        });
        if wanted.sent.is_some() {
            let (id, is_awaited, was_held) = (wanted.id, false, false);
            let giving = Giving { id, is_awaited, tried: false, was_held, not_before: None };
            self.jobs.insert(lease, SemaphoreJob::Giving(giving));
        }
    }

    /// Reads the record, and the sessions in the way of those who wait if it is time for that.
    fn look(&mut self, ctx: &mut Ctx<'_>) {
        let wants = self.listens() && (self.sessions_at <= ctx.now.held || self.must_judge());
        let own = ctx.session.clone().filter(|_| wants);
        let sessions = own.map(|own| self.in_the_way(&own)).unwrap_or_default();
        let op = if sessions.is_empty() {
            ctx.read(&self.key, self.ttl)
        } else {
            let others: BTreeSet<&Key> = sessions.iter().map(|attachment| &attachment.session).collect();
            // The first is what the call is about, should it fail.
            let keys = [&self.key].into_iter().chain(others).cloned().collect();
            ctx.read_many(keys, Freshness::Latest, self.ttl)
        };
        self.flight = Some(SemaphoreInFlight::Looking { op, sessions });
    }

    /// Whether the record shows a claim of our session that nobody here knows of.
    fn has_strays(&self, ctx: &Ctx<'_>) -> bool {
        let Some((seen, own)) = self.seen.as_ref().zip(ctx.session.as_ref()) else { return false };
        let known: BTreeSet<Nonce> = self.jobs.values().map(SemaphoreJob::id).collect();
        let mut own = seen.ledger.tickets().filter(|ticket| ticket.attachment == *own);
        own.any(|ticket| !known.contains(&ticket.id)) && !ctx.rules.bugs.has(Bug::StraysKept)
    }

    /// Whether somebody is to be refused unless those in its way are dead.
    fn must_judge(&self) -> bool {
        let has = |id| self.seen.as_ref().is_some_and(|seen| seen.ledger.has(id));
        let asks = |job: &SemaphoreJob| matches!(job, SemaphoreJob::Wanted(wanted) if self.looked <= wanted.born && !has(wanted.id));
        self.jobs.values().any(asks)
    }

    /// When to look again, between ¾ of the usual time and that.
    fn set_look(&mut self, ctx: &Ctx<'_>) {
        self.look_at = ctx.jittered(self.ttl.part(4).min(ctx.rules.poll));
    }

    /// Nothing is sent for some time after others were quicker so often that a pause is better than another attempt.
    fn give_way(&mut self, ctx: &Ctx<'_>) {
        const OFTEN: u32 = 32;
        if self.losses.is_multiple_of(OFTEN) {
            let span = Duration::from_millis(1) * 2u32.pow((self.losses / OFTEN).min(6));
            (self.pause, self.is_refused) = (Some(ctx.jittered(span)), false);
        }
    }
}
