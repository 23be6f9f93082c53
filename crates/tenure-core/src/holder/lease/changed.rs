//! What comes of a change of a lease's record, by what the change was for. Each method says what is to become of the lease next, if somebody
//! said so while the change was under way, and it does not go on as another.

use super::change::RecordChange;
use super::{AttachedLease, LeaseState, Then, UpdatePurpose, Updating};
use crate::bugs::Bug;
use crate::holder::Holder;
use crate::holder::acquisition::Won;
use crate::holder::ctx::OpOwner;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::holder::renewal::Renewal;
use crate::holder::update::{Token, Update, UpdateEnd, UpdateKind, ends_plain_data};
use crate::values::fence::Version;
use crate::values::key::Key;
use crate::values::record::{Ask, Letter, Occupant};
use crate::values::time::{Now, Tick, Wall};

impl Holder {
    pub(super) fn after_update(&mut self, now: Now, id: LeaseId, updating: Updating, end: UpdateEnd) {
        self.forget_wake(id);
        let then = match (updating.purpose, end) {
            (UpdatePurpose::Update, end) => self.after_amendment(now, id, updating, end),
            (UpdatePurpose::Detach, end) => self.after_detachment(now, id, updating, end),
            // It was to be held again, and was not yet: a loss would be no answer.
            (UpdatePurpose::Adopt, UpdateEnd::Withdrawn) => {
                self.tell(Notice::NotOurs(id, None));
                updating.then
            }
            (_, UpdateEnd::Withdrawn) => {
                self.tell(Notice::Lost(id, Loss::Revoked));
                updating.then
            }
            (UpdatePurpose::Refresh, UpdateEnd::Done { .. }) => {
                self.tell_plain(id, updating.update.token, &updating.update.mail);
                updating.then
            }
            (UpdatePurpose::Adopt, UpdateEnd::Done { sent, wall }) => {
                self.after_adoption(now, id, updating, (sent, wall))
            }
            (UpdatePurpose::Refresh | UpdatePurpose::Adopt, UpdateEnd::NotOurs(by)) => {
                self.tell(Notice::NotOurs(id, by));
                updating.then
            }
            (UpdatePurpose::Refresh | UpdatePurpose::Adopt, UpdateEnd::GaveUp(error)) => {
                self.tell(Notice::Failed(id, error));
                updating.then
            }
            (UpdatePurpose::Release | UpdatePurpose::Vacate, end) => {
                self.after_vacation(now, id, updating, end)
            }
        };
        match then {
            Some(Then::Release(fields)) => self.release(now, id, fields),
            Some(Then::Pass(transferee, own)) => self.pass(now, id, *transferee, own),
            None => {}
        }
    }

    /// Other metadata, or not.
    fn after_amendment(&mut self, now: Now, id: LeaseId, updating: Updating, end: UpdateEnd) -> Option<Then> {
        let Updating { update: Update { token, .. }, held_by, then, .. } = updating;
        match end {
            UpdateEnd::Done { .. } => {
                self.tell(Notice::Updated(id));
                if let Some(mut attached) = held_by {
                    attached.change(token.version, token.metadata);
                    self.put(id, LeaseState::Attached(attached));
                }
            }
            UpdateEnd::Withdrawn => self.tell(Notice::Lost(id, Loss::Revoked)),
            UpdateEnd::NotOurs(by) => self.taken(now, id, &token.key, by),
            UpdateEnd::GaveUp(error) => {
                // It is still held. The record shows the old metadata or the new.
                if let Some(attached) = held_by {
                    self.put(id, LeaseState::Attached(attached));
                }
                self.tell(Notice::Failed(id, error));
            }
        }
        then
    }

    /// A lease has become plain data, or not.
    fn after_detachment(
        &mut self,
        now: Now,
        id: LeaseId,
        updating: Updating,
        end: UpdateEnd,
    ) -> Option<Then> {
        let Updating { update, held_by, then, .. } = updating;
        // A letter to the session may have come meanwhile, or one to the record when the change had just landed.
        let is_withdrawn = update.is_withdrawn() || held_by.as_ref().is_some_and(AttachedLease::is_capped);
        let is_withdrawn = ends_plain_data(is_withdrawn, self.env.rules.bugs);
        let Update { mut token, mail, .. } = update;
        match end {
            UpdateEnd::Done { .. } if then.is_some() => {
                if let Some(Then::Release(fields)) = then {
                    token.metadata = fields.over(token.metadata, self.env.rules.bugs);
                }
                let until = now.held.after(token.ttl.duration());
                let (kind, purpose) = (UpdateKind::Vacate, UpdatePurpose::Release);
                self.begin_change(now, id, RecordChange::new(token, kind, purpose, until));
                return None;
            }
            UpdateEnd::Done { .. } if is_withdrawn => self.end_withdrawn(now, id, token, false),
            UpdateEnd::Done { .. } => self.tell_plain(id, token, &mail),
            // What could not become plain data is attached again, if it was before.
            UpdateEnd::Withdrawn => self.end_withdrawn(now, id, token, held_by.is_some()),
            UpdateEnd::NotOurs(by) => self.taken(now, id, &token.key, by),
            UpdateEnd::GaveUp(error) => {
                // The record shows the lease or the token. The one is attached, and must be vacated; the other expires.
                self.tell(Notice::Lost(id, error.into()));
                if held_by.is_some() {
                    self.settle_orphan(now, token.key);
                }
            }
        }
        then
    }

    /// Plain data has become a lease again.
    fn after_adoption(
        &mut self,
        now: Now,
        id: LeaseId,
        updating: Updating,
        (sent, wall): (Tick, Wall),
    ) -> Option<Then> {
        let Updating { update: Update { token, mail, .. }, then, .. } = updating;
        if now.held >= sent.after(self.env.rules.drift.belief(token.ttl)) || now.has_gap(sent, wall) {
            // The answer came too late to be believed in, or after a time that was hidden: once more.
            let until = now.held.after(token.ttl.duration());
            let change = RecordChange::new(token, UpdateKind::Adopt, UpdatePurpose::Adopt, until);
            self.begin_change(now, id, RecordChange { mail, then, ..change });
            return None;
        }
        let Token { key, id: tenure, fence, version, ttl, since, metadata, .. } = token;
        let won = Won { id: tenure, fence, version, sent, wall, since, metadata };
        let metadata = won.metadata.clone();
        let mut renewal = self.lend(now, OpOwner::Lease(id), |ctx| Renewal::new(key, ttl, won, ctx));
        renewal.open_mail(&mail);
        let (fence, until) = (renewal.fence, renewal.valid_until());
        self.put(id, LeaseState::Renewing(Box::new(renewal)));
        self.tell(Notice::Acquired { lease: id, fence, until, metadata });
        self.tell_mail(id, &mail);
        then
    }

    /// A lease was given up, or the store will not have that.
    fn after_vacation(&mut self, now: Now, id: LeaseId, updating: Updating, end: UpdateEnd) -> Option<Then> {
        let Updating { update: Update { token, attachment, change, .. }, purpose, then, .. } = updating;
        if let UpdateEnd::Done { sent, wall } = end {
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
            return then;
        }
        // What is attached is kept alive by the session, so it is looked at again.
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
        then
    }

    /// Its record shows another tenure, or none.
    fn taken(&mut self, now: Now, id: LeaseId, key: &Key, by: Option<Occupant>) {
        self.tell(Notice::Lost(id, Loss::Taken(by)));
        self.look_anew_for_orphan(now, key);
    }

    fn tell_plain(&mut self, id: LeaseId, mut token: Token, mail: &[Letter]) {
        if mail.iter().any(|letter| letter.ask != Ask::Confirm) {
            // Whoever uses it is to meet the letters: so it names a version that is gone.
            token.version = Version::of(token.id, token.fence);
        }
        self.tell(Notice::Detached(id, Box::new(token)));
    }
}
