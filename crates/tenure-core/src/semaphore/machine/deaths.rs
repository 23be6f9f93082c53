//! Dead processes among those ahead. A claim is live while its session's record shows the same fence, like an attached lease.
//!
//! A waiter looks at the sessions of processes that hold permits or came before it, some at a time. A session that has been silent for a full
//! ttl is fenced first, so that its process can't renew it any more. Only then are its claims removed. A live session that
//! stays ahead is asked now and then whether it knows its claim (see [`Ask::Confirm`]).

use super::{Semaphore, SemaphoreInFlight};
use crate::bugs::Bug;
use crate::holder::ctx::Ctx;
use crate::holder::failure_detector::Verdict;
use crate::op::{Expect, Listed, OpId, Write};
use crate::semaphore::ledger::SemaphoreLedger;
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::record::{Ask, Attachment, Letter, Record, Stored};
use crate::values::time::{Tick, Ttl};
use std::collections::{BTreeMap, BTreeSet};

/// So many sessions are looked at in one request.
const SESSIONS: usize = 15;

impl Semaphore {
    /// The sessions of others that hold permits, or wait for them: some of them, those that have their turn.
    pub(super) fn in_the_way(&self, own: &Attachment) -> Vec<Attachment> {
        self.seen.as_ref().map(|seen| self.in_the_way_of(&seen.ledger, own)).unwrap_or_default()
    }

    /// The same, as this ledger shows them.
    pub(super) fn in_the_way_of(&self, ledger: &SemaphoreLedger, own: &Attachment) -> Vec<Attachment> {
        let (mut all, mut known): (Vec<&Attachment>, BTreeSet<&Attachment>) = Default::default();
        for ticket in ledger.tickets() {
            let attachment = &ticket.attachment;
            if !is_own(attachment, own) && !self.dead.contains(attachment) && known.insert(attachment) {
                all.push(attachment);
            }
        }
        let count = all.len();
        let from = if count > SESSIONS { self.turn % count } else { 0 };
        all.into_iter().cycle().skip(from).take(count.min(SESSIONS)).cloned().collect()
    }

    /// Sessions were looked at: the next look at them is due after a quarter of a ttl. Where they have turns, that is of the one that lasts for
    /// the least time: what is known of it by its last turn may be of no use by now.
    pub(super) fn set_sessions(&mut self, ctx: &Ctx<'_>, op: OpId) {
        self.looked = op;
        self.turn = self.turn.wrapping_add(SESSIONS);
        let has_turns = ctx.session.as_ref().is_some_and(|own| self.in_the_way(own).len() >= SESSIONS);
        let least = if has_turns { self.shortest_lived(ctx, |_| true) } else { None };
        self.sessions_at = ctx.jittered(least.unwrap_or(self.ttl).part(4));
    }

    /// Of the claims of others, the ttl of the one that lasts for the least time, if that is less than our own.
    fn shortest_lived(&self, ctx: &Ctx<'_>, is_meant: impl Fn(&Attachment) -> bool) -> Option<Ttl> {
        let (seen, own) = self.seen.as_ref().zip(ctx.session.as_ref())?;
        let shorter = seen.ledger.tickets().filter(|ticket| ticket.ttl < self.ttl);
        let others = shorter.map(|ticket| (&ticket.attachment, ticket.ttl)).filter(|(attachment, _)| {
            !is_own(attachment, own) && !self.dead.contains(*attachment) && is_meant(attachment)
        });
        others.map(|(_, ttl)| ttl).min()
    }

    /// Who has come since sessions were looked at, and lasts for less time than we do, is looked at within a quarter of its own ttl.
    pub(super) fn mind_newcomers(&mut self, ctx: &Ctx<'_>) {
        if let Some(ttl) = self.shortest_lived(ctx, |attachment| !self.judged.contains(attachment)) {
            self.sessions_at = self.sessions_at.min(ctx.now.held.after(ttl.part(4)));
        }
    }

    /// It was not told of this one whether it is dead: it is looked at as a newcomer is.
    pub(super) fn judge_again(&mut self, ctx: &Ctx<'_>, attachment: &Attachment) {
        self.judged.remove(attachment);
        self.mind_newcomers(ctx);
    }

    /// The same after an error. What may be refused for good is asked for ever more seldom, after two of its ttls.
    pub(super) fn not_judged(&mut self, ctx: &Ctx<'_>, attachment: &Attachment, error: &StoreError) {
        /// So often it is asked for in quarters of its ttl.
        const OFTEN: u32 = 8;
        if error.is_passing() {
            return self.judge_again(ctx, attachment);
        }
        let Some(ttl) = self.shortest_lived(ctx, |other| other == attachment) else { return };
        let times = self.unjudged.entry(attachment.clone()).or_default();
        *times = times.saturating_add(1);
        let pause = ttl.part(4).saturating_mul(1 << times.saturating_sub(OFTEN).min(20));
        self.sessions_at = self.sessions_at.min(ctx.now.held.after(pause));
    }

    /// Sessions in the way, as they were just read.
    pub(super) fn judge(&mut self, ctx: &mut Ctx<'_>, sessions: &[Attachment], records: &[Listed]) {
        let Some(seen) = &self.seen else { return };
        let ttls: BTreeMap<Attachment, Ttl> =
            seen.ledger.tickets().map(|ticket| (ticket.attachment.clone(), ticket.ttl)).collect();
        for attachment in sessions {
            let Some(ttl) = ttls.get(attachment).copied() else { continue };
            if ttl < self.ttl {
                self.judged.insert(attachment.clone());
            }
            let found = records.iter().find(|listed| listed.key == attachment.session);
            match found.map(|listed| &listed.stored) {
                None => self.judge_missing(ctx, attachment, ttl),
                Some(Ok(session)) => {
                    self.unjudged.remove(attachment);
                    self.judge_session(ctx, attachment, session, ttl);
                }
                // What can't be read can't be told to be dead.
                Some(Err(error)) => self.not_judged(ctx, attachment, error),
            }
        }
        self.mind_the_first(ctx, records);
    }

    fn judge_missing(&mut self, ctx: &mut Ctx<'_>, attachment: &Attachment, ttl: Ttl) {
        match ctx.detector.judge_missing(ctx.now, attachment, ttl, ctx.rules) {
            Verdict::Suspected => drop(self.dead.insert(attachment.clone())),
            Verdict::Live { until } => self.sooner(ctx, until),
        }
    }

    fn judge_session(&mut self, ctx: &mut Ctx<'_>, attachment: &Attachment, session: &Stored, ttl: Ttl) {
        if is_over(attachment, &session.record) {
            ctx.detector.session_is_there(attachment);
            self.dead.insert(attachment.clone());
            return;
        }
        // One that shows an earlier tenure was put back, or begun anew by a clock that is behind: the claim's own counts as missing, for
        // nobody renews it.
        let is_another = session.record.fence != attachment.fence;
        let Some(tenure) = session.record.tenure.as_ref().filter(|_| !is_another) else {
            return self.judge_missing(ctx, attachment, ttl);
        };
        ctx.detector.session_is_there(attachment);
        match ctx.detector.judge(ctx.now, &attachment.session, session, tenure, ctx.rules) {
            Verdict::Suspected if ctx.rules.bugs.has(Bug::SessionNotFenced) => {
                self.dead.insert(attachment.clone());
            }
            Verdict::Suspected if ctx.rules.bugs.has(Bug::DeadTicketKept) => {}
            Verdict::Suspected => self.suspects.push((attachment.clone(), session.clone())),
            Verdict::Live { until } => self.sooner(ctx, until),
        }
    }

    /// The next look at sessions is no later than when one of them may be told to be dead.
    fn sooner(&mut self, ctx: &Ctx<'_>, until: Tick) {
        let soonest = ctx.now.held.after(std::time::Duration::from_millis(1));
        self.sessions_at = self.sessions_at.min(until).max(soonest);
    }

    /// Raises the fence of a session that is dead, so that its process can never renew it.
    pub(super) fn fence(&mut self, ctx: &mut Ctx<'_>, attachment: Attachment, session: Stored) {
        let Ok(fence) = session.record.fence.max(attachment.fence).next(Fence::floor(ctx.now.wall)) else {
            return;
        };
        let record =
            Record { fence, nonce: ctx.nonces.draw(), stamp: ctx.now.wall, tenure: None, ..session.record };
        let key = attachment.session.clone();
        let op = ctx.write(Write { key, expect: Expect::Unchanged(session.version), record }, self.ttl);
        self.flight = Some(SemaphoreInFlight::Fencing { op, attachment });
    }

    /// Whoever is in the way for two ttls is asked whether it knows of that; one after the other. Nobody waits for the answer.
    fn mind_the_first(&mut self, ctx: &mut Ctx<'_>, records: &[Listed]) {
        let Some(seen) = &self.seen else { return };
        let others = seen.ledger.holders.iter().map(|grant| &grant.ticket);
        let others: Vec<_> =
            others.filter(|ticket| Some(&ticket.attachment) != ctx.session.as_ref()).collect();
        let Some(ticket) = others.get(self.asked.checked_rem(others.len()).unwrap_or(0)) else {
            self.doubt = None;
            return;
        };
        let since = match self.doubt {
            Some((id, since)) if id == ticket.id => since,
            _ => return self.doubt = Some((ticket.id, ctx.now.held)),
        };
        if ctx.now.held.since(since) < ticket.ttl.duration() * 2 {
            return;
        }
        let session = records.iter().find(|listed| listed.key == ticket.attachment.session);
        let Some(Ok(session)) = session.map(|listed| &listed.stored) else { return };
        let letter = letter(ctx, &self.key, &ticket.attachment, session);
        (self.doubt, self.asked) = (None, self.asked.wrapping_add(1));
        if let Some(letter) = letter {
            let _unawaited = ctx.write(letter, self.ttl);
        }
    }
}

/// Whether a claim is one of this session, or of an earlier tenure of it.
fn is_own(attachment: &Attachment, own: &Attachment) -> bool {
    own.session == attachment.session && own.fence >= attachment.fence
}

/// Whether a session's record shows that the tenure of it that `attachment` names is over.
pub(super) fn is_over(attachment: &Attachment, session: &Record) -> bool {
    session.fence > attachment.fence || session.fence == attachment.fence && session.tenure.is_none()
}

/// The question to a live session about this key, unless it is there already or there is no room.
fn letter(ctx: &mut Ctx<'_>, about: &crate::Key, attachment: &Attachment, session: &Stored) -> Option<Write> {
    let mut record = session.record.clone();
    let renewing = record.tenure.as_mut()?;
    let letter = Letter::new(about.clone(), Ask::Confirm);
    if renewing.mail.iter().any(|other| other.key == letter.key) || !renewing.post(letter) {
        return None;
    }
    record.nonce = ctx.nonces.draw();
    Some(Write { key: attachment.session.clone(), expect: Expect::Unchanged(session.version), record })
}
