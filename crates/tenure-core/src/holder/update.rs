//! Changing a record under a tenure of this process: giving it up, or writing other metadata.
//!
//! Every write is conditional on the record still showing this very tenure (S3), and is repeated until its outcome is
//! known. Losing to another process ends the update and changes nothing.

use crate::bugs::{Bug, Bugs};
use crate::holder::ctx::{Attempt, Ctx};
use crate::holder::lease_id::LeaseId;
use crate::op::{Answer, Expect, OpId, Outcome, Write};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::{HolderId, Key};
use crate::values::metadata::{Metadata, RESERVED, STATUS, Value};
use crate::values::record::{Ask, Attachment, Letter, Occupant, Record, Stored, Tenure};
use crate::values::time::{Tick, Ttl, Wall};

/// A tenure as plain data: enough to refresh it, to release it, or to go on holding it, from any process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Token {
    /// The key.
    pub key: Key,
    /// Its fence.
    pub fence: Fence,
    /// The tenure's id.
    pub id: Nonce,
    /// The record's version when the token was last used.
    pub version: Version,
    /// Who holds it by name.
    pub holder: HolderId,
    /// How long it lasts after a refresh.
    pub ttl: Ttl,
    /// When the tenure began.
    pub since: Wall,
    /// The users' fields.
    pub metadata: Metadata,
}

/// What others wrote into the reserved field stays as it stands there, except that what is finished by this write is finished.
pub(crate) fn keep_reserved(ours: &mut Metadata, standing: &Metadata, bugs: Bugs) {
    if bugs.has(Bug::RevisionOverwritten) {
        return;
    }
    let done = match ours.remove(RESERVED) {
        Some(Value::Map(mut own)) => own.remove(STATUS),
        _ => None,
    };
    let done = done.filter(|_| !bugs.has(Bug::FinishOverwritten));
    let kept = match (standing.get(RESERVED).cloned(), done) {
        (None, Some(done)) => Some(Value::Map(Metadata::from([(STATUS.to_owned(), done)]))),
        (Some(Value::Map(mut kept)), Some(done)) => {
            kept.entry(STATUS.to_owned()).or_insert(done);
            Some(Value::Map(kept))
        }
        (kept, _) => kept,
    };
    if let Some(kept) = kept {
        ours.insert(RESERVED.to_owned(), kept);
    }
}

/// Whether a withdrawal has to be obeyed by what is plain data, or is to become that: nobody could ask for it back.
pub(crate) fn ends_plain_data(is_withdrawn: bool, bugs: Bugs) -> bool {
    is_withdrawn && !bugs.has(Bug::WithdrawnDetached)
}

/// What a change makes of the metadata that stand in a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Fields {
    /// They stay as they stand there.
    Keep,
    /// Others take their place; the reserved field stays.
    Replace(Metadata),
    /// These are written over those of the same names; all others stay, and so does the reserved field.
    Merge(Metadata),
    /// They stay as they stand there, but for these names in the reserved field: what is `Null` goes.
    Own(Metadata),
}

impl Fields {
    pub(crate) fn over(&self, standing: Metadata, bugs: Bugs) -> Metadata {
        let mut ours = match self {
            Fields::Keep => return standing,
            Fields::Own(own) => return with_own(standing, own),
            Fields::Replace(fields) => fields.clone(),
            Fields::Merge(fields) => {
                let mut ours = standing.clone();
                ours.extend(fields.iter().map(|(name, value)| (name.clone(), value.clone())));
                ours
            }
        };
        keep_reserved(&mut ours, &standing, bugs);
        ours
    }
}

/// Others of these names in the reserved field, unless that is none of ours.
fn with_own(mut standing: Metadata, own: &Metadata) -> Metadata {
    let mut kept = match standing.remove(RESERVED) {
        None => Metadata::new(),
        Some(Value::Map(kept)) => kept,
        Some(other) => {
            standing.insert(RESERVED.to_owned(), other);
            return standing;
        }
    };
    kept.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
    kept.retain(|_, value| *value != Value::Null);
    if !kept.is_empty() {
        standing.insert(RESERVED.to_owned(), Value::Map(kept));
    }
    standing
}

/// Who is to have a key next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transferee {
    /// Who.
    pub holder: HolderId,
    /// The session that its lease is to be attached to. If that has ended meanwhile, the key is free for anyone.
    pub attachment: Attachment,
    /// The session's ttl, by which those judge the claim who find the session deleted.
    pub ttl: Ttl,
}

/// Which lease of this very process is to have a key next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Successor {
    pub(crate) lease: LeaseId,
    /// What its tenure is attached to.
    pub(crate) attachment: Attachment,
    pub(crate) ttl: Ttl,
    /// What it wants to stand in the record.
    pub(crate) metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum UpdateKind {
    /// Leave a vacant record that keeps the fence.
    Vacate,
    /// Write the tenure again: a heartbeat, with the metadata and the attachment that the update names.
    Amend,
    /// Write a new tenure of another process, with a higher fence: so there is no instant without a holder.
    Pass(Box<Transferee>),
    /// Write a new tenure for another lease of this process, with a higher fence.
    Next(Box<Successor>),
    /// As `Amend`, under a new tenure id: so whoever else has a copy of the token has nothing any more.
    Adopt,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum UpdateEnd {
    /// The record shows the change. `sent`: before the write that made it.
    Done {
        sent: Tick,
        /// The wall clock at that time.
        wall: Wall,
    },
    /// The key was withdrawn: what is plain data, or is to become that, is not prolonged any more.
    Withdrawn,
    /// The record shows another tenure, or none.
    NotOurs(Option<Occupant>),
    GaveUp(StoreError),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Update {
    pub(crate) token: Token,
    pub(crate) attachment: Option<Attachment>,
    /// Letters that were found in the record. They stay there, unless it is adopted by whom they are told to.
    pub(crate) mail: Vec<Letter>,
    /// What becomes of the metadata that stand in the record, should they be others than we knew.
    pub(crate) fields: Fields,
    pub(crate) change: UpdateKind,
    in_flight: Option<(OpId, Attempt)>,
    /// Writes that may have landed: all that were sent but for those that were refused.
    unresolved: Vec<Attempt>,
    retry_at: Tick,
    failures: u32,
    /// No further attempts after this.
    until: Tick,
}

impl Update {
    pub(crate) fn start(
        token: Token,
        attachment: Option<Attachment>,
        change: UpdateKind,
        until: Tick,
        ctx: &mut Ctx<'_>,
    ) -> Update {
        let mut update = Update {
            token,
            attachment,
            mail: Vec::new(),
            fields: Fields::Keep,
            change,
            in_flight: None,
            unresolved: Vec::new(),
            retry_at: ctx.now.held,
            failures: 0,
            until,
        };
        update.send(ctx);
        update
    }

    pub(crate) fn wake_at(&self) -> Option<Tick> {
        if self.in_flight.is_some() { None } else { Some(self.retry_at) }
    }

    /// Whether this is the write that is under way.
    pub(crate) fn awaits(&self, id: OpId) -> bool {
        self.in_flight.as_ref().is_some_and(|(op, _)| *op == id)
    }

    fn send(&mut self, ctx: &mut Ctx<'_>) {
        let nonce = ctx.nonces.draw();
        let token = &self.token;
        // A hostile fence that leaves no higher one can't be passed on.
        let next = token.fence.next(Fence::floor(ctx.now.wall)).ok();
        if next.is_none() && matches!(self.change, UpdateKind::Next(_)) {
            self.change = UpdateKind::Vacate;
        }
        let hands_on = matches!(self.change, UpdateKind::Pass(_) | UpdateKind::Next(_));
        let fence = match next {
            Some(next) if hands_on && !ctx.rules.bugs.has(Bug::HandoverKeepsFence) => next,
            _ => token.fence,
        };
        let new = |holder: &HolderId, attachment: &Attachment, ttl: Ttl| Tenure {
            attachment: Some(attachment.clone()),
            ..Tenure::new(nonce, holder.clone(), ttl, ctx.now.wall)
        };
        let tenure = match &self.change {
            UpdateKind::Vacate => None,
            UpdateKind::Pass(transferee) => {
                next.map(|_| new(&transferee.holder, &transferee.attachment, transferee.ttl))
            }
            UpdateKind::Next(next) => Some(new(ctx.holder, &next.attachment, next.ttl)),
            UpdateKind::Amend | UpdateKind::Adopt => {
                let id = if self.renames(ctx) { nonce } else { token.id };
                Some(Tenure {
                    heartbeat: nonce,
                    attachment: self.attachment.clone(),
                    mail: if self.change == UpdateKind::Adopt { Vec::new() } else { self.mail.clone() },
                    ..Tenure::new(id, token.holder.clone(), token.ttl, token.since)
                })
            }
        };
        let metadata = match &self.change {
            UpdateKind::Next(next) => next.metadata.clone(),
            _ => token.metadata.clone(),
        };
        let record = Record { fence, nonce, stamp: ctx.now.wall, tenure, metadata };
        let write = Write { key: token.key.clone(), expect: Expect::Unchanged(token.version), record };
        let attempt = ctx.attempt(nonce);
        self.in_flight = Some((ctx.write(write, token.ttl), attempt));
    }

    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_>) {
        if self.wake_at().is_some_and(|at| ctx.now.held >= at) {
            self.send(ctx);
        }
    }

    pub(crate) fn answer(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: OpId,
        result: Result<Answer, StoreError>,
    ) -> Option<UpdateEnd> {
        let (_, attempt) = self.in_flight.take_if(|(op, _)| *op == id)?;
        match result {
            Ok(Answer::Write(Outcome::Won { version, fence })) => {
                Some(self.done(ctx, version, fence, attempt))
            }
            Ok(Answer::Write(Outcome::Lost(current))) => self.refused(ctx, current),
            Ok(Answer::Read(_) | Answer::Listed(_)) => None,
            Err(error) => {
                if error.kind() == ErrorKind::Unknown {
                    self.unresolved.push(attempt);
                }
                self.failures += 1;
                self.retry_at = ctx.retry_at(self.token.ttl, self.failures);
                if ctx.rules.bugs.has(Bug::UnknownReleaseIsDone) && matches!(self.change, UpdateKind::Vacate)
                {
                    return Some(UpdateEnd::Done { sent: attempt.sent, wall: attempt.wall });
                }
                let over = !error.is_passing() || self.until.since(self.retry_at).is_zero();
                over.then_some(UpdateEnd::GaveUp(error))
            }
        }
    }

    fn refused(&mut self, ctx: &mut Ctx<'_>, current: Option<Stored>) -> Option<UpdateEnd> {
        let Some(current) = current else { return Some(UpdateEnd::NotOurs(None)) };
        // Mail changes the record's nonce, but not its heartbeat.
        let last_own = match (&self.change, &current.record.tenure) {
            (UpdateKind::Amend | UpdateKind::Adopt, Some(tenure)) => tenure.heartbeat,
            (UpdateKind::Next(_), Some(tenure)) => tenure.id,
            _ => current.record.nonce,
        };
        if let Some(attempt) = self.unresolved.iter().find(|attempt| attempt.nonce == last_own).copied() {
            // It landed, and somebody else may have written since: that is what the next write must carry on.
            let is_misdated = attempt.is_misdated(ctx.now, &current, ctx.rules);
            self.token.metadata = current.record.metadata;
            self.mail = current.record.tenure.map(|tenure| tenure.mail).unwrap_or_default();
            let done = self.done(ctx, current.version, current.record.fence, attempt);
            let is_believed =
                self.attachment.is_none() && matches!(self.change, UpdateKind::Amend | UpdateKind::Adopt);
            if is_misdated && is_believed {
                if ends_plain_data(self.is_withdrawn(), ctx.rules.bugs) {
                    return Some(UpdateEnd::Withdrawn);
                }
                // A beat once more: others may take a record for a dead one's that is dated too early.
                self.change = UpdateKind::Amend;
                self.send(ctx);
                return None;
            }
            return Some(done);
        }
        let vacates = matches!(self.change, UpdateKind::Vacate);
        let unconditional = vacates && ctx.rules.bugs.has(Bug::ReleaseUnconditional);
        // A repeated claim can land once more, with the same nonce and a higher fence: that is not this tenure.
        let ours = current.tenure(self.token.id).is_some() && current.record.fence == self.token.fence;
        if !ours && !unconditional {
            return Some(UpdateEnd::NotOurs(Occupant::of(&current.record)));
        }
        // Still ours, but something else was written: mail, or another process with the same token.
        self.token.version = current.version;
        self.mail = current.record.tenure.map(|tenure| tenure.mail).unwrap_or_default();
        let is_plain = self.attachment.is_none() && self.change == UpdateKind::Amend;
        if is_plain && ends_plain_data(self.is_withdrawn(), ctx.rules.bugs) {
            return Some(UpdateEnd::Withdrawn);
        }
        if self.mail.iter().any(|letter| !letter.ask.is_question())
            && matches!(self.change, UpdateKind::Next(_))
        {
            // Others want it, and have said so.
            self.change = UpdateKind::Vacate;
        }
        self.token.metadata = self.fields.over(current.record.metadata, ctx.rules.bugs);
        if unconditional {
            self.token.fence = current.record.fence;
        }
        self.send(ctx);
        None
    }

    /// Whether a letter that was found in the record withdraws the key.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.mail.iter().any(|letter| letter.is(Ask::Revoke, &self.token.key))
    }

    /// Whether the tenure gets a new id by this.
    fn renames(&self, ctx: &Ctx<'_>) -> bool {
        self.change == UpdateKind::Adopt && !ctx.rules.bugs.has(Bug::AdoptKeepsId)
    }

    /// Whether the tenure is that of the next one of this process, and may come to stand.
    pub(crate) fn may_begin(&self, id: Nonce) -> bool {
        let sent = self.in_flight.iter().map(|(_, attempt)| attempt).chain(&self.unresolved);
        matches!(self.change, UpdateKind::Next(_)) && sent.into_iter().any(|attempt| attempt.nonce == id)
    }

    fn done(&mut self, ctx: &Ctx<'_>, version: Version, fence: Fence, attempt: Attempt) -> UpdateEnd {
        self.token.version = version;
        if let UpdateKind::Next(next) = &self.change {
            (self.token.id, self.token.fence, self.token.since) = (attempt.nonce, fence, attempt.wall);
            self.token.metadata = next.metadata.clone();
        }
        if self.renames(ctx) {
            self.token.id = attempt.nonce;
        }
        UpdateEnd::Done { sent: attempt.sent, wall: attempt.wall }
    }
}
