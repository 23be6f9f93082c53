//! Changes of a lease's record on the strength of its tenure: other metadata, from lease to plain data and back.

use super::{AttachedLease, LeaseState, Then, UpdatePurpose, Updating};
use crate::bugs::Bug;
use crate::holder::Holder;
use crate::holder::acquisition::Won;
use crate::holder::ctx::OpOwner;
use crate::holder::lease_id::LeaseId;
use crate::holder::notice::Notice;
use crate::holder::renewal::{Loss, Renewal};
use crate::holder::update::{Fields, Token, Update, UpdateEnd, UpdateKind, ends_plain_data};
use crate::values::error::StoreError;
use crate::values::fence::Version;
use crate::values::record::{Ask, Attachment, Letter};
use crate::values::time::{Now, Tick, Ttl};

/// A change of a lease's record that begins: what is to be written, and what is known of the lease.
pub(in crate::holder) struct RecordChange {
    pub(in crate::holder) token: Token,
    pub(in crate::holder) kind: UpdateKind,
    pub(in crate::holder) purpose: UpdatePurpose,
    /// No further attempts after this.
    pub(in crate::holder) until: Tick,
    /// What becomes of the metadata that stand in the record, should they be others than we knew.
    pub(in crate::holder) fields: Fields,
    /// What its record is attached to meanwhile, if it is given up or changed on the session.
    pub(in crate::holder) attachment: Option<Attachment>,
    /// What the lease is held by meanwhile, if it is.
    pub(in crate::holder) attached: Option<AttachedLease>,
    /// Letters that were found in the record already.
    pub(in crate::holder) mail: Vec<Letter>,
    /// What is to become of the lease as soon as the change is through, if that is known already.
    pub(in crate::holder) then: Option<Then>,
}

impl RecordChange {
    pub(in crate::holder) fn new(
        token: Token,
        kind: UpdateKind,
        purpose: UpdatePurpose,
        until: Tick,
    ) -> RecordChange {
        RecordChange {
            token,
            kind,
            purpose,
            until,
            fields: Fields::Keep,
            attachment: None,
            attached: None,
            mail: Vec::new(),
            then: None,
        }
    }
}

impl Holder {
    pub(in crate::holder) fn begin_change(&mut self, now: Now, id: LeaseId, change: RecordChange) {
        let RecordChange { token, kind, purpose, until, fields, attachment, attached, mail, then } = change;
        let part = OpOwner::Lease(id.0);
        let mut update = self.lend(now, part, |ctx| Update::start(token, attachment, kind, until, ctx));
        (update.fields, update.mail) = (fields, mail);
        self.put(id, LeaseState::Updating(Box::new(Updating { update, purpose, attached, then })));
    }

    pub(crate) fn update(&mut self, now: Now, id: LeaseId, fields: Fields) {
        match self.leases.remove(&id) {
            Some(LeaseState::Attached(attached)) => {
                let mut token = self.token_of_attached(&attached);
                token.metadata = fields.over(token.metadata, self.env.rules.bugs);
                let until = self.session.valid_until();
                let change = RecordChange {
                    fields,
                    attachment: self.session.attachment(),
                    attached: Some(attached),
                    ..RecordChange::new(token, UpdateKind::Amend, UpdatePurpose::Update, until)
                };
                self.begin_change(now, id, change);
            }
            Some(LeaseState::Renewing(mut renewal)) => {
                let metadata = match fields {
                    Fields::Replace(fields) => fields,
                    fields => fields.over(renewal.metadata.clone(), self.env.rules.bugs),
                };
                self.lend(now, OpOwner::Lease(id.0), |ctx| renewal.update(ctx, metadata));
                self.put(id, LeaseState::Renewing(renewal));
            }
            Some(lease) => {
                self.put(id, lease);
                self.tell(busy(id));
            }
            None => self.tell(Notice::Lost(id, Loss::Released)),
        }
    }

    pub(crate) fn detach(&mut self, now: Now, id: LeaseId, ttl: Ttl) {
        let bugs = self.env.rules.bugs;
        match self.leases.remove(&id) {
            Some(LeaseState::Attached(attached)) if ends_plain_data(attached.cap().is_some(), bugs) => {
                let token = self.token_of_attached(&attached);
                self.end_withdrawn(now, id, token, true);
            }
            Some(LeaseState::Renewing(renewal)) if ends_plain_data(renewal.is_revoked(), bugs) => {
                let token = renewal.token(&self.env.identity.holder);
                self.end_withdrawn(now, id, token, false);
            }
            Some(LeaseState::Attached(attached)) => {
                self.turns.over(attached.key());
                // Until it is known that the record is not attached any more, nothing else would ever free the key.
                let token = Token { ttl, ..self.token_of_attached(&attached) };
                let change = RecordChange::new(token, UpdateKind::Amend, UpdatePurpose::Detach, Tick::NEVER);
                self.begin_change(now, id, RecordChange { attached: Some(attached), ..change });
            }
            Some(LeaseState::Renewing(renewal)) => {
                let token = Token { ttl, ..renewal.token(&self.env.identity.holder) };
                let (kind, until) = (UpdateKind::Amend, renewal.deadline);
                self.begin_change(now, id, RecordChange::new(token, kind, UpdatePurpose::Detach, until));
            }
            Some(lease) => {
                self.put(id, lease);
                self.tell(busy(id));
            }
            None => self.tell(Notice::Lost(id, Loss::Released)),
        }
    }

    /// A withdrawn lease was to become plain data, so nobody here believes in it any more. It is given up instead.
    fn end_withdrawn(&mut self, now: Now, id: LeaseId, token: Token, is_attached: bool) {
        let until = if is_attached { Tick::NEVER } else { now.held.after(token.ttl.duration()) };
        if is_attached {
            self.turns.over(&token.key);
        }
        let attachment = self.session.attachment().filter(|_| is_attached);
        let change = RecordChange::new(token, UpdateKind::Vacate, UpdatePurpose::Vacate, until);
        self.begin_change(now, id, RecordChange { attachment, ..change });
        self.tell(Notice::Lost(id, Loss::Revoked));
    }

    pub(crate) fn use_token(&mut self, now: Now, id: LeaseId, mut token: Token, purpose: UpdatePurpose) {
        let kind = match purpose {
            UpdatePurpose::Release => UpdateKind::Vacate,
            UpdatePurpose::Adopt => UpdateKind::Adopt,
            _ => UpdateKind::Amend,
        };
        if purpose == UpdatePurpose::Adopt {
            token.holder = self.env.identity.holder.clone();
        }
        let until = now.held.after(token.ttl.duration());
        self.begin_change(now, id, RecordChange::new(token, kind, purpose, until));
    }

    pub(super) fn after_update(&mut self, now: Now, id: LeaseId, updating: Updating, end: UpdateEnd) {
        let Updating { update, purpose, attached, then } = updating;
        // A letter to the session may have come meanwhile, or one to the record when the change had just landed.
        let is_withdrawn =
            update.is_withdrawn() || attached.as_ref().is_some_and(|attached| attached.cap().is_some());
        let is_withdrawn = ends_plain_data(is_withdrawn, self.env.rules.bugs);
        let Update { mut token, mail, attachment, change, .. } = update;
        self.drop_lease(id);
        match (purpose, end) {
            (UpdatePurpose::Update, UpdateEnd::Done { .. }) => {
                self.tell(Notice::Updated(id));
                if let Some(mut attached) = attached {
                    attached.change(token.version, token.metadata);
                    self.put(id, LeaseState::Attached(attached));
                }
            }
            (UpdatePurpose::Detach, UpdateEnd::Done { .. }) if then.is_some() => {
                if let Some(Then::Release(fields)) = then {
                    token.metadata = fields.over(token.metadata, self.env.rules.bugs);
                }
                let until = now.held.after(token.ttl.duration());
                let (kind, purpose) = (UpdateKind::Vacate, UpdatePurpose::Release);
                return self.begin_change(now, id, RecordChange::new(token, kind, purpose, until));
            }
            (UpdatePurpose::Detach, UpdateEnd::Done { .. }) if is_withdrawn => {
                self.end_withdrawn(now, id, token, false);
            }
            // What could not become plain data is attached again, if it was before.
            (UpdatePurpose::Detach, UpdateEnd::Withdrawn) => {
                self.end_withdrawn(now, id, token, attached.is_some())
            }
            (_, UpdateEnd::Withdrawn) => self.tell(Notice::Lost(id, Loss::Revoked)),
            (UpdatePurpose::Detach | UpdatePurpose::Refresh, UpdateEnd::Done { .. }) => {
                if mail.iter().any(|letter| letter.ask != Ask::Confirm) {
                    // Whoever uses it is to meet the letters: so it names a version that is gone.
                    token.version = Version::of(token.id, token.fence);
                }
                self.tell(Notice::Detached(id, Box::new(token)));
            }
            (UpdatePurpose::Adopt, UpdateEnd::Done { sent, wall })
                if now.held >= sent.after(self.env.rules.drift.belief(token.ttl))
                    || now.has_gap(sent, wall) =>
            {
                // The answer came too late to be believed in, or after a time that was hidden: once more.
                let until = now.held.after(token.ttl.duration());
                let change = RecordChange::new(token, UpdateKind::Adopt, UpdatePurpose::Adopt, until);
                return self.begin_change(now, id, RecordChange { mail, then, ..change });
            }
            (UpdatePurpose::Adopt, UpdateEnd::Done { sent, wall }) => {
                let (key, ttl) = (token.key, token.ttl);
                let won = Won {
                    id: token.id,
                    fence: token.fence,
                    version: token.version,
                    sent,
                    wall,
                    since: token.since,
                    metadata: token.metadata,
                };
                let metadata = won.metadata.clone();
                let mut renewal =
                    self.lend(now, OpOwner::Lease(id.0), |ctx| Renewal::new(key, ttl, won, ctx));
                renewal.open_mail(&mail);
                let (fence, until) = (renewal.fence, renewal.valid_until());
                self.put(id, LeaseState::Renewing(Box::new(renewal)));
                self.tell(Notice::Acquired { lease: id, fence, until, metadata });
                self.tell_mail(id, &mail);
            }
            (UpdatePurpose::Release | UpdatePurpose::Vacate, UpdateEnd::Done { sent, wall }) => {
                if purpose == UpdatePurpose::Release {
                    self.tell(Notice::Released(id, true));
                }
                let Token { key, id: tenure, fence, version, since, metadata, .. } = token;
                match change {
                    UpdateKind::Next(next) => {
                        let won = Won { id: tenure, fence, version, sent, wall, since, metadata };
                        self.handed_on(now, id, key, next.lease, won);
                    }
                    _ => self.wake_first(now, &key, Some(version)),
                }
            }
            (UpdatePurpose::Release | UpdatePurpose::Vacate, end) => {
                // The store will not have it, for now. What is attached is kept alive by the session, so it is looked at again.
                if matches!(end, UpdateEnd::GaveUp(_))
                    && attachment.is_some()
                    && !self.env.rules.bugs.has(Bug::DenialIsFinal)
                {
                    self.settle_orphan(now, token.key.clone());
                }
                if purpose == UpdatePurpose::Release {
                    self.tell(Notice::Released(id, false));
                }
                self.wake_first(now, &token.key, None);
            }
            (UpdatePurpose::Update | UpdatePurpose::Detach, UpdateEnd::NotOurs(by)) => {
                self.tell(Notice::Lost(id, Loss::Taken(by)));
                self.look_anew_for_orphan(now, &token.key);
            }
            (UpdatePurpose::Detach, UpdateEnd::GaveUp(error)) => {
                // The record shows the lease or the token. The one is attached, and must be vacated; the other expires.
                self.tell(Notice::Lost(id, Loss::Unreachable(error)));
                if attached.is_some() {
                    self.settle_orphan(now, token.key);
                }
            }
            (UpdatePurpose::Update, UpdateEnd::GaveUp(error)) => {
                // It is still held. The record shows the old metadata or the new.
                if let Some(attached) = attached {
                    self.put(id, LeaseState::Attached(attached));
                }
                self.tell(Notice::Failed(id, error));
            }
            (UpdatePurpose::Refresh | UpdatePurpose::Adopt, UpdateEnd::NotOurs(by)) => {
                self.tell(Notice::NotOurs(id, by))
            }
            (UpdatePurpose::Refresh | UpdatePurpose::Adopt, UpdateEnd::GaveUp(error)) => {
                self.tell(Notice::Failed(id, error));
            }
        }
        match then {
            Some(Then::Release(fields)) => self.release(now, id, fields),
            Some(Then::Pass(transferee, own)) => self.pass(now, id, *transferee, own),
            None => {}
        }
    }

    pub(crate) fn token_of_attached(&self, attached: &AttachedLease) -> Token {
        Token {
            key: attached.key.clone(),
            fence: attached.fence,
            id: attached.id(),
            version: attached.version(),
            holder: self.env.identity.holder.clone(),
            ttl: self.env.identity.ttl,
            since: attached.since,
            metadata: attached.metadata(),
        }
    }
}

fn busy(id: LeaseId) -> Notice {
    let text = "the lease is being changed already; wait for that to end";
    Notice::Failed(id, StoreError::invalid(text))
}
