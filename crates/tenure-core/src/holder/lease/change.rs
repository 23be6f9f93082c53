//! Changes of a lease's record on the strength of its tenure: other metadata, from lease to plain data and back.
//!
//! These are all that there are. *Held by* is what the lease is held by meanwhile. *Attached* tells whether its record is attached to the session;
//! of a `Detach`, whether it is once that has landed. There are no further attempts after *until*.
//!
//! | purpose | begun by | kind | held by | attached | until |
//! |---|---|---|---|---|---|
//! | `Update` | `update` of an attached lease | `Amend` | that lease | yes | belief in the session ends |
//! | `Detach` | `detach` of an attached lease | `Amend` | that lease | no | never |
//! | `Detach` | `detach` of a lease that renews itself | `Amend` | nothing | no | its deadline |
//! | `Release` | `release` of an attached lease (`give_up`) | `Vacate` or `Next` | nothing | yes | never |
//! | `Release` | `pass` of an attached lease | `Pass` | nothing | yes | never |
//! | `Release` | `release` of a lease that renews itself; `Return` of a token; a detachment that was given up meanwhile | `Vacate` | nothing | no | a ttl |
//! | `Vacate` | a lease that was handed on to one that is gone (`give_up`) | `Vacate` or `Next` | nothing | yes | never |
//! | `Vacate` | the time of a lapsed lease is over (`vacate`); `end_withdrawn` of what is attached | `Vacate` | nothing | yes | never |
//! | `Vacate` | `end_withdrawn` of what is not attached | `Vacate` | nothing | no | a ttl |
//! | `Refresh` | `use_token` | `Amend` | nothing | no | a ttl |
//! | `Adopt` | `use_token`, and again if the answer can't be believed in (`after_adoption`) | `Adopt` | nothing | no | a ttl |
//!
//! What others do meanwhile (`ending`):
//! - `release` and `pass` of an `Update`, and `release` of a `Detach` or `Adopt`, wait for its end (`then`). `release` makes a `Release` of a `Vacate`.
//! - `lapse` drops what is not attached, and what is held. A held lease is left to expire. Other changes give the key up, and go on.
//! - A withdrawal drops an `Update` once its time is over, unless a release or a pass waits. After a `Detach` the key is given up.
//! - The loss of the session drops what is held or attached.

use super::{AttachedLease, LeaseState, Then, UpdatePurpose, Updating};
use crate::holder::Holder;
use crate::holder::ctx::OpOwner;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::holder::update::{Fields, Token, Update, UpdateKind, ends_plain_data};
use crate::values::error::StoreError;
use crate::values::record::{Attachment, Letter};
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
    pub(in crate::holder) held_by: Option<AttachedLease>,
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
            held_by: None,
            mail: Vec::new(),
            then: None,
        }
    }
}

impl Holder {
    pub(in crate::holder) fn begin_change(&mut self, now: Now, id: LeaseId, change: RecordChange) {
        let RecordChange { token, kind, purpose, until, fields, attachment, held_by, mail, then } = change;
        let part = OpOwner::Lease(id);
        let mut update = self.lend(now, part, |ctx| Update::start(token, attachment, kind, until, ctx));
        (update.fields, update.mail) = (fields, mail);
        self.put(id, LeaseState::Updating(Box::new(Updating { update, purpose, held_by, then })));
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
                    held_by: Some(attached),
                    ..RecordChange::new(token, UpdateKind::Amend, UpdatePurpose::Update, until)
                };
                self.begin_change(now, id, change);
            }
            Some(LeaseState::Renewing(mut renewal)) => {
                let metadata = match fields {
                    Fields::Replace(fields) => fields,
                    fields => fields.over(renewal.metadata.clone(), self.env.rules.bugs),
                };
                self.lend(now, OpOwner::Lease(id), |ctx| renewal.update(ctx, metadata));
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
            Some(LeaseState::Attached(attached)) if ends_plain_data(attached.is_capped(), bugs) => {
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
                self.begin_change(now, id, RecordChange { held_by: Some(attached), ..change });
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
    pub(super) fn end_withdrawn(&mut self, now: Now, id: LeaseId, token: Token, is_attached: bool) {
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
    let text = "an earlier change of the lease is still under way; try again when it has ended";
    Notice::Failed(id, StoreError::unavailable(text))
}
