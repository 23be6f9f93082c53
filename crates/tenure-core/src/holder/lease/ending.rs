//! The ends of a lease: given up, left to expire, withdrawn, or lost with its session.

use super::change::RecordChange;
use super::{AttachedLease, LeaseState, Then, UpdatePurpose};
use crate::bugs::Bug;
use crate::holder::Holder;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::holder::update::{Fields, Token, Transferee, UpdateKind};
use crate::values::metadata::Metadata;
use crate::values::time::{Now, Tick};
use std::time::Duration;

impl Holder {
    pub(crate) fn release(&mut self, now: Now, id: LeaseId, fields: Fields) {
        let Some(lease) = self.leases.remove(&id) else { return self.tell(Notice::Released(id, false)) };
        match lease {
            LeaseState::Queued(_) => {
                self.forget_wake(id);
                self.tell(Notice::Released(id, false));
            }
            LeaseState::Acquiring(acquisition) => {
                self.step_acquisition(now, id, acquisition, |acquisition, _| acquisition.abandon());
            }
            LeaseState::Attached(attached) => self.give_up(now, id, attached, fields, UpdatePurpose::Release),
            LeaseState::Renewing(renewal) => {
                let until = now.held.after(renewal.ttl.duration());
                let mut token = renewal.token(&self.env.identity.holder);
                token.metadata = match &fields {
                    Fields::Replace(fields) => fields.clone(),
                    fields => fields.over(token.metadata, self.env.rules.bugs),
                };
                let change = RecordChange::new(token, UpdateKind::Vacate, UpdatePurpose::Release, until);
                self.begin_change(now, id, RecordChange { fields, ..change });
            }
            LeaseState::Updating(mut updating) => {
                match updating.purpose {
                    UpdatePurpose::Update | UpdatePurpose::Detach | UpdatePurpose::Adopt => {
                        // Whoever gave it up first said what is to be written with that.
                        updating.then.get_or_insert(Then::Release(fields));
                    }
                    UpdatePurpose::Vacate => updating.purpose = UpdatePurpose::Release,
                    UpdatePurpose::Release | UpdatePurpose::Refresh => {}
                }
                self.put(id, LeaseState::Updating(updating));
            }
            lease @ LeaseState::Lapsing(_) => {
                self.put(id, lease);
                self.tell(Notice::Released(id, false));
            }
        }
    }

    pub(crate) fn vacate(
        &mut self,
        now: Now,
        id: LeaseId,
        attached: AttachedLease,
        fields: Fields,
        purpose: UpdatePurpose,
    ) {
        let mut token = self.token_of_attached(&attached);
        token.metadata = fields.over(token.metadata, self.env.rules.bugs);
        self.part_with(now, id, token, UpdateKind::Vacate, purpose, fields);
    }

    pub(crate) fn part_with(
        &mut self,
        now: Now,
        id: LeaseId,
        token: Token,
        kind: UpdateKind,
        purpose: UpdatePurpose,
        fields: Fields,
    ) {
        let attachment = self.session.attachment();
        // As long as the session lives, nothing else would ever free the key.
        let change = RecordChange::new(token, kind, purpose, Tick::NEVER);
        self.begin_change(now, id, RecordChange { fields, attachment, ..change });
    }

    /// Gives a held lease to another process; once a change of its metadata that is under way has come to an end. One that is
    /// not held by the session is given up instead.
    pub(crate) fn pass(&mut self, now: Now, id: LeaseId, transferee: Transferee, own: Metadata) {
        match self.leases.remove(&id) {
            Some(LeaseState::Attached(attached)) => {
                self.turns.over(attached.key());
                let mut token = self.token_of_attached(&attached);
                let fields = if own.is_empty() { Fields::Keep } else { Fields::Own(own) };
                token.metadata = fields.over(token.metadata, self.env.rules.bugs);
                self.part_with(
                    now,
                    id,
                    token,
                    UpdateKind::Pass(Box::new(transferee)),
                    UpdatePurpose::Release,
                    fields,
                );
            }
            // Whoever gave it up first said what is to become of it.
            Some(LeaseState::Updating(mut updating)) if updating.purpose == UpdatePurpose::Update => {
                updating.then.get_or_insert(Then::Pass(Box::new(transferee), own));
                self.put(id, LeaseState::Updating(updating));
            }
            Some(lease) => {
                self.put(id, lease);
                self.release(now, id, Fields::Keep);
            }
            None => self.tell(Notice::Released(id, false)),
        }
    }

    /// Gives a lease up without touching its record before a ttl has passed.
    pub(crate) fn lapse(&mut self, now: Now, id: LeaseId) {
        match self.leases.remove(&id) {
            Some(LeaseState::Attached(attached)) if self.env.rules.bugs.has(Bug::LapseVacates) => {
                return self.vacate(now, id, attached, Fields::Keep, UpdatePurpose::Release);
            }
            Some(LeaseState::Attached(attached)) => {
                self.leave_to_expire(now, id, attached, self.env.identity.ttl.duration());
            }
            Some(LeaseState::Updating(mut updating)) if updating.held_by.is_some() => {
                // The change goes on; whoever changed it still has it, so it can be vacated after a ttl only.
                if let Some(attached) = updating.held_by.take() {
                    self.leave_to_expire(now, id, attached, self.env.identity.ttl.duration());
                }
            }
            // A claim that may have landed, or a change that gives the key up anyway: neither can be let go of.
            Some(LeaseState::Acquiring(acquisition)) => {
                return self.step_acquisition(now, id, acquisition, |acquisition, _| acquisition.abandon());
            }
            Some(LeaseState::Updating(updating)) if updating.update.attachment.is_some() => {
                // Only a release tells of its end.
                let is_told = updating.purpose == UpdatePurpose::Release;
                self.put(id, LeaseState::Updating(updating));
                if is_told {
                    return;
                }
            }
            Some(LeaseState::Lapsing(mut attached)) => {
                // A full ttl from now is later than what was set before.
                attached.set_cap(now.held.after(self.env.identity.ttl.duration()));
                self.put(id, LeaseState::Lapsing(attached));
            }
            // None of these is attached. What waits for the session has written nothing, and what renews itself expires. So does what is being
            // written: a `Detach` of what renewed itself, a `Refresh`, an `Adopt`, a `Release` or a `Vacate` of plain data.
            Some(LeaseState::Renewing(_) | LeaseState::Updating(_) | LeaseState::Queued(_)) | None => {
                self.forget_wake(id);
            }
        }
        self.tell(Notice::Released(id, false));
    }

    /// A withdrawn lease that was not given up in time: whoever acted under it may not have ended, so it is vacated no sooner
    /// than one that had beaten for itself would have expired.
    pub(super) fn lapse_revoked(&mut self, now: Now, id: LeaseId, attached: AttachedLease) {
        let ttl = self.env.identity.ttl;
        let rest = ttl.duration().saturating_sub(self.env.rules.drift.belief(ttl));
        self.leave_to_expire(now, id, attached, rest);
    }

    /// Lets a lease go without touching its record before so long has passed.
    fn leave_to_expire(&mut self, now: Now, id: LeaseId, mut attached: AttachedLease, span: Duration) {
        self.turns.over(attached.key());
        attached.set_cap(now.held.after(span));
        self.lapsing += 1;
        self.put(id, LeaseState::Lapsing(attached));
    }

    /// The holder of an attached lease is asked to stop: it has until the session's present deadline.
    pub(crate) fn revoke_attached(&mut self, id: LeaseId) {
        // Belief may be suspended for now; then the next renewal restores it, and this lease ends no sooner for that.
        let until = self.session.deadline();
        let Some(mut lease) = self.leases.remove(&id) else { return };
        let attached = match &mut lease {
            LeaseState::Attached(attached) => Some(attached),
            LeaseState::Updating(updating) => updating.held_by.as_mut(),
            _ => None,
        };
        let cap = attached.and_then(|attached| {
            attached.cap_at_most(until);
            attached.cap()
        });
        self.put(id, lease);
        // The session goes on. Whoever asks without I/O, in a process that was stopped over the end, must find it over.
        if let Some(cap) = cap.filter(|_| !self.env.rules.bugs.has(Bug::WithdrawnUncapped)) {
            self.tell(Notice::Valid(id, cap));
        }
    }

    /// The session is lost, and `lease`, taken out already, was attached to it.
    pub(crate) fn end_with_session(&mut self, now: Now, id: LeaseId, lease: LeaseState, loss: &Loss) {
        match lease {
            LeaseState::Acquiring(acquisition) if acquisition.is_abandoned() => {
                self.forget_acquisition(id, acquisition.key());
                self.tell(Notice::Released(id, false));
            }
            LeaseState::Acquiring(_) if self.env.rules.bugs.has(Bug::QueueForgotten) => {}
            LeaseState::Acquiring(acquisition) => {
                // What it claimed so far is dead with the old session, whether it landed or not.
                self.forget_acquisition(id, acquisition.key());
                self.queue(now, id, acquisition.goal().clone());
            }
            LeaseState::Attached(_) if self.env.rules.bugs.has(Bug::AttachedOutlivesSession) => {}
            LeaseState::Attached(_) => self.tell(Notice::Lost(id, loss.clone())),
            LeaseState::Lapsing(_) => self.lapsing -= 1,
            LeaseState::Updating(updating) => match updating.purpose {
                UpdatePurpose::Update | UpdatePurpose::Detach => {
                    self.tell(Notice::Lost(id, loss.clone()));
                    if updating.then.is_some() {
                        self.tell(Notice::Released(id, false));
                    }
                }
                UpdatePurpose::Release => self.tell(Notice::Released(id, false)),
                _ => {}
            },
            lease @ (LeaseState::Queued(_) | LeaseState::Renewing(_)) => self.put(id, lease),
        }
    }
}
