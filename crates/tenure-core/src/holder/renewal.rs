//! Holding a lease that renews itself: a session, or a key of its own.
//!
//! Belief is counted from before each renewal was sent. A renewal whose answer was lost extends nothing until the record's
//! own heartbeat shows that it took effect. At the deadline belief ends by itself, without any I/O.

use crate::bugs::Bug;
use crate::holder::acquisition::Won;
use crate::holder::ctx::{Attempt, Ctx};
use crate::holder::loss::Loss;
use crate::holder::update::Token;
use crate::op::{Answer, Expect, OpId, Outcome, Write};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::{HolderId, Key};
use crate::values::metadata::Metadata;
use crate::values::record::{Ask, Letter, Record, Stored, Tenure};
use crate::values::time::{Now, Tick, Ttl, Wall};
use std::time::Duration;

/// The pause after a refusal grows for so many of them: up to a 16th of the ttl.
const BUSY: u32 = 3;

/// What a step of holding brought about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RenewalStep {
    /// Belief reaches until this tick now.
    Extended(Tick),
    /// The wall clock says that time was hidden: belief is suspended until a renewal succeeds.
    Suspended,
    /// Requests to this holder.
    Mail(Vec<Letter>),
    /// The metadata that was asked for is written.
    Updated,
    /// The metadata that was asked for can't be written, and what the record has stays.
    Refused(StoreError),
    Lost(Loss),
}

/// A renewal under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RenewalInFlight {
    op: OpId,
    attempt: Attempt,
    /// It carries the metadata as it is now.
    fresh: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Renewal {
    pub(crate) key: Key,
    pub(crate) id: Nonce,
    pub(crate) fence: Fence,
    pub(crate) version: Version,
    pub(crate) ttl: Ttl,
    pub(crate) since: Wall,
    pub(crate) metadata: Metadata,
    /// Belief ends here.
    pub(crate) deadline: Tick,
    renew_at: Tick,
    in_flight: Option<RenewalInFlight>,
    unresolved: Vec<Attempt>,
    failures: u32,
    last_error: Option<StoreError>,
    /// New metadata was asked for, and it isn't known that the record shows it.
    updating: bool,
    /// What the record had before, so that a renewal which can't carry the new does not end the lease.
    before: Option<Box<Metadata>>,
    /// Withdrawn by mail: not renewed any more.
    revoked: bool,
    suspended: bool,
    /// The wall clock and the holder's clock at the last look.
    mark: (Wall, Tick),
}

impl Renewal {
    pub(crate) fn new(key: Key, ttl: Ttl, won: Won, ctx: &Ctx<'_>) -> Renewal {
        let deadline = won.sent.after(belief(ctx, ttl));
        Renewal {
            key,
            id: won.id,
            fence: won.fence,
            version: won.version,
            ttl,
            since: won.since,
            metadata: won.metadata,
            deadline,
            renew_at: renew_at(ctx, won.sent, ttl),
            in_flight: None,
            unresolved: Vec::new(),
            failures: 0,
            last_error: None,
            updating: false,
            before: None,
            revoked: false,
            suspended: false,
            mark: (ctx.now.wall, ctx.now.held),
        }
    }

    /// When to come back if nothing happens.
    pub(crate) fn wake_at(&self) -> Tick {
        let is_idle = self.in_flight.is_none() && !self.revoked;
        // Time may be hidden also where nothing is to be renewed, or an update has put that off.
        let next = if is_idle { self.renew_at } else { self.mark.1.after(self.ttl.part(3)) };
        next.min(self.deadline)
    }

    /// Until when the holder may believe: not at all while suspended.
    pub(crate) fn valid_until(&self) -> Tick {
        if self.suspended { Tick(0) } else { self.deadline }
    }

    /// What it is held by, as plain data.
    pub(crate) fn token(&self, holder: &HolderId) -> Token {
        Token {
            key: self.key.clone(),
            fence: self.fence,
            id: self.id,
            version: self.version,
            holder: holder.clone(),
            ttl: self.ttl,
            since: self.since,
            metadata: self.metadata.clone(),
        }
    }

    /// Whether metadata was asked for that the record may not show yet.
    pub(crate) fn is_updating(&self) -> bool {
        self.updating
    }

    /// Whether it was withdrawn by mail.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// Asks for new metadata, written with a renewal at once.
    pub(crate) fn update(&mut self, ctx: &mut Ctx<'_>, metadata: Metadata) {
        let old = std::mem::replace(&mut self.metadata, metadata);
        self.before.get_or_insert_with(|| Box::new(old));
        self.updating = true;
        if let Some(flight) = &mut self.in_flight {
            flight.fresh = false;
        }
        self.renew(ctx);
    }

    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_>, out: &mut Vec<RenewalStep>) {
        if ctx.now.held >= self.deadline && !ctx.rules.bugs.has(Bug::RenewAfterExpiry) {
            if !ctx.rules.bugs.has(Bug::LossNotTold) {
                out.push(RenewalStep::Lost(self.expiry()));
            }
            return;
        }
        self.mind_hidden_time(ctx.now, out);
        if ctx.now.held >= self.renew_at {
            self.renew(ctx);
        }
    }

    fn expiry(&mut self) -> Loss {
        match self.last_error.take() {
            _ if self.revoked => Loss::Revoked,
            Some(error) => error.into(),
            None if self.in_flight.is_some() => {
                StoreError::unknown("the store has not answered a renewal").into()
            }
            None => Loss::Expired,
        }
    }

    fn mind_hidden_time(&mut self, now: Now, out: &mut Vec<RenewalStep>) {
        let (wall, held) = std::mem::replace(&mut self.mark, (now.wall, now.held));
        // What was hidden little by little shows from one look to the next as little as it does at all.
        let is_old = |flight: &RenewalInFlight| now.has_gap(flight.attempt.sent, flight.attempt.wall);
        if !now.has_gap(held, wall) && !self.in_flight.as_ref().is_some_and(is_old) {
            return;
        }
        self.renew_at = now.held;
        // A renewal under way was sent before the gap: it proves nothing about the time since.
        self.in_flight = None;
        if !std::mem::replace(&mut self.suspended, true) {
            out.push(RenewalStep::Suspended);
        }
    }

    fn renew(&mut self, ctx: &mut Ctx<'_>) {
        if self.in_flight.is_some() || self.revoked {
            return;
        }
        if ctx.rules.bugs.has(Bug::FenceChangesOnRenewal) {
            self.fence = Fence(self.fence.0.wrapping_add(1));
        }
        let nonce = ctx.nonces.draw();
        let tenure =
            Tenure { heartbeat: nonce, ..Tenure::new(self.id, ctx.holder.clone(), self.ttl, self.since) };
        let record = Record {
            fence: self.fence,
            nonce,
            stamp: ctx.now.wall,
            tenure: Some(tenure),
            metadata: self.metadata.clone(),
        };
        let write = Write { key: self.key.clone(), expect: Expect::Unchanged(self.version), record };
        // A sixth of the ttl lets a second renewal follow the first in time, with room for one that mail makes lose.
        let timeout = self.ttl.part(6).min(self.deadline.since(ctx.now.held));
        let attempt = ctx.attempt(nonce);
        self.in_flight = Some(RenewalInFlight { op: ctx.renew(write, timeout), attempt, fresh: true });
    }

    /// An operation's answer. Whoever holds beyond the deadline has been woken, and has lost it, before that.
    pub(crate) fn answer(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: OpId,
        result: Result<Answer, StoreError>,
        out: &mut Vec<RenewalStep>,
    ) {
        self.mind_hidden_time(ctx.now, out);
        let Some(RenewalInFlight { attempt, fresh, .. }) = self.in_flight.take_if(|flight| flight.op == id)
        else {
            return;
        };
        match result {
            Ok(Answer::Write(Outcome::Won { version, .. })) => {
                let sent = if ctx.rules.bugs.has(Bug::ValidFromAnswer) { ctx.now.held } else { attempt.sent };
                self.renewed(ctx, version, sent, out);
                if self.updating && fresh {
                    self.updating = false;
                    self.before = None;
                    out.push(RenewalStep::Updated);
                } else if self.updating {
                    self.renew(ctx);
                }
            }
            Ok(Answer::Write(Outcome::Lost(current))) => self.refused(ctx, current, out),
            Ok(Answer::Read(_) | Answer::Listed(_)) => {}
            Err(error) if fresh && self.updating && error.kind() == ErrorKind::Invalid => {
                self.refuse_update(ctx, error, out);
            }
            Err(error) => self.failed(ctx, attempt, error, out),
        }
    }

    /// What was asked for is too large, say. Renewals go on with what the record had.
    fn refuse_update(&mut self, ctx: &mut Ctx<'_>, error: StoreError, out: &mut Vec<RenewalStep>) {
        if !ctx.rules.bugs.has(Bug::GrowthUnbounded)
            && let Some(before) = self.before.take()
        {
            self.metadata = *before;
        }
        self.updating = false;
        out.push(RenewalStep::Refused(error));
        self.renew(ctx);
    }

    fn renewed(&mut self, ctx: &Ctx<'_>, version: Version, sent: Tick, out: &mut Vec<RenewalStep>) {
        self.version = version;
        self.unresolved.clear();
        self.failures = 0;
        self.last_error = None;
        self.suspended = false;
        self.renew_at = renew_at(ctx, sent, self.ttl);
        self.extend(ctx, sent, out);
    }

    fn extend(&mut self, ctx: &Ctx<'_>, sent: Tick, out: &mut Vec<RenewalStep>) {
        self.deadline = self.deadline.max(sent.after(belief(ctx, self.ttl)));
        out.push(RenewalStep::Extended(self.valid_until()));
    }

    /// A renewal lost its compare-and-set: by mail, by an earlier renewal of ours whose answer was lost, or because the
    /// lease is gone.
    fn refused(&mut self, ctx: &mut Ctx<'_>, current: Option<Stored>, out: &mut Vec<RenewalStep>) {
        let Some(current) = current else { return out.push(RenewalStep::Lost(Loss::Deleted)) };
        // A repeated claim can land once more, with the same nonce and a higher fence: that is not this tenure.
        let Some(tenure) = current.tenure(self.id).filter(|_| current.record.fence == self.fence) else {
            if ctx.rules.bugs.has(Bug::LostIsStillMine) {
                (self.version, self.fence) = (current.version, current.record.fence);
                return self.renew(ctx);
            }
            return out.push(RenewalStep::Lost(Loss::shown_by(Some(&current.record), self.fence)));
        };
        self.version = current.version;
        let landed = self.unresolved.iter().find(|attempt| attempt.nonce == tenure.heartbeat).copied();
        let landed = landed.filter(|attempt| !attempt.is_misdated(ctx.now, &current, ctx.rules));
        self.unresolved.clear();
        self.failures = 0;
        self.last_error = None;
        if let Some(attempt) = landed.filter(|old| !self.suspended && !ctx.has_gap(old.sent, old.wall)) {
            self.extend(ctx, attempt.sent, out);
        }
        if !ctx.rules.bugs.has(Bug::MailLost) {
            self.open_mail(&tenure.mail);
            out.push(RenewalStep::Mail(tenure.mail.clone()));
        }
        // Once more over what stands there now, which also empties the mailbox.
        self.renew(ctx);
    }

    pub(crate) fn open_mail(&mut self, letters: &[Letter]) {
        self.revoked |= letters.iter().any(|letter| letter.is(Ask::Revoke, &self.key));
    }

    fn failed(&mut self, ctx: &mut Ctx<'_>, attempt: Attempt, error: StoreError, out: &mut Vec<RenewalStep>) {
        self.failures += 1;
        if error.kind() == ErrorKind::Unknown {
            if ctx.rules.bugs.has(Bug::UnknownIsSuccess) {
                return self.renewed(ctx, Version::of(attempt.nonce, self.fence), attempt.sent, out);
            }
            if !ctx.rules.bugs.has(Bug::UnknownIsFailure) {
                self.unresolved.push(attempt);
            }
        }
        // What others ask of a busy store comes in waves, and one renewal in time is all that the lease needs.
        let is_busy = error.kind() == ErrorKind::Unavailable;
        let failures = if is_busy { self.failures.min(BUSY) } else { self.failures };
        self.renew_at = ctx.renew_again_at(self.ttl, failures);
        self.last_error = Some(error);
        if let Some(every) = ctx.rules.renew {
            // Whoever counts failed renewals means those at the rate; one more is no use long after the store is back.
            self.renew_at = self.renew_at.min(ctx.jittered(every / 4));
        }
    }
}

fn belief(ctx: &Ctx<'_>, ttl: Ttl) -> Duration {
    if ctx.rules.bugs.has(Bug::NoDriftMargin) { ttl.duration() } else { ctx.rules.drift.belief(ttl) }
}

fn renew_at(ctx: &Ctx<'_>, sent: Tick, ttl: Ttl) -> Tick {
    let rule = ctx.rules.renew.map_or(ttl.part(3), |every| ctx.jitter(every).min(ttl.part(3)));
    sent.after(if ctx.rules.bugs.has(Bug::RenewTooLate) { ttl.part(5).saturating_mul(4) } else { rule })
}
