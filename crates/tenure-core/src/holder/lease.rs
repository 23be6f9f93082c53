//! One lease of a holder, from the request to its end.

mod acquiring;
mod attached;
pub(super) mod change;
mod changed;
mod ending;

use crate::holder::Holder;
use crate::holder::acquisition::{Acquisition, Goal, Wakeup, Won};
use crate::holder::ctx::{OpOwner, OwnTenures};
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::holder::renewal::{Renewal, RenewalStep};
use crate::holder::table::LeaseMap;
use crate::holder::update::{Fields, Transferee, Update};
use crate::op::{Answer, OpId};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::{Ask, Letter};
use crate::values::time::{Now, Tick};
pub(crate) use attached::AttachedLease;

/// Why a lease's record is being changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UpdatePurpose {
    /// It is held, and its metadata changes.
    Update,
    /// It is held, and becomes plain data.
    Detach,
    /// It is given up, and the user waits to hear of it.
    Release,
    /// It is given up, and the user has heard of it already.
    Vacate,
    /// A token is prolonged.
    Refresh,
    /// A token becomes a lease.
    Adopt,
}

/// A lease whose record is being changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Updating {
    update: Update,
    purpose: UpdatePurpose,
    /// What it is held by meanwhile, if it is. What its record is attached to may be another thing: see `change`.
    held_by: Option<AttachedLease>,
    /// What is to become of it as soon as the change is through, if it is to be given up.
    then: Option<Then>,
}

/// How a lease is given up that is being changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    Release(Fields),
    /// Another process is to have it at once.
    Pass(Box<Transferee>, Metadata),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum LeaseState {
    /// Waits for the session.
    Queued(Box<Goal>),
    /// Being got; or not wanted any more, until it is known that nothing of it stands in the store (`Acquisition::is_abandoned`).
    Acquiring(Box<Acquisition>),
    Attached(AttachedLease),
    Renewing(Box<Renewal>),
    Updating(Box<Updating>),
    /// Given up but left to expire: vacated only after a full ttl.
    Lapsing(AttachedLease),
}

impl LeaseState {
    pub(crate) fn attached(key: Key, won: Won) -> LeaseState {
        LeaseState::Attached(AttachedLease::new(key, won))
    }

    pub(crate) fn valid_until(&self) -> Tick {
        if let LeaseState::Renewing(renewal) = self { renewal.valid_until() } else { Tick::NEVER }
    }

    pub(crate) fn wake_at(&self) -> Option<Tick> {
        match self {
            LeaseState::Queued(goal) => goal.wait_policy.deadline(),
            LeaseState::Acquiring(acquisition) => acquisition.wake_at(),
            LeaseState::Attached(attached) | LeaseState::Lapsing(attached) => attached.cap(),
            LeaseState::Renewing(renewal) => Some(renewal.wake_at()),
            LeaseState::Updating(updating) => {
                updating.update.wake_at().into_iter().chain(updating.cap()).min()
            }
        }
    }

    /// What its record carries, as far as is known here.
    pub(crate) fn metadata(&self) -> Metadata {
        match self {
            LeaseState::Attached(attached) | LeaseState::Lapsing(attached) => attached.metadata(),
            LeaseState::Renewing(renewal) => renewal.metadata.clone(),
            // What is being written may not come to stand there.
            LeaseState::Updating(updating) => match &updating.held_by {
                Some(attached) => attached.metadata(),
                None => updating.update.token.metadata.clone(),
            },
            LeaseState::Queued(_) | LeaseState::Acquiring(_) => Metadata::new(),
        }
    }

    /// Whether a tenure with this id is this lease's, or may turn out to be.
    pub(crate) fn may_own(&self, id: Nonce) -> bool {
        match self {
            LeaseState::Queued(_) => false,
            LeaseState::Acquiring(acquisition) => acquisition.may_win(id),
            LeaseState::Attached(attached) | LeaseState::Lapsing(attached) => attached.id() == id,
            LeaseState::Renewing(renewal) => renewal.id == id,
            LeaseState::Updating(updating) => updating.update.token.id == id || updating.update.may_begin(id),
        }
    }

    /// Whether its user has been told that it is over, though its record may still show it.
    pub(crate) fn is_given_up(&self) -> bool {
        match self {
            LeaseState::Lapsing(_) => true,
            LeaseState::Updating(updating) => updating.purpose == UpdatePurpose::Vacate,
            _ => false,
        }
    }

    /// Whether it stands or falls with the session.
    pub(crate) fn is_attached(&self) -> bool {
        match self {
            LeaseState::Queued(_) | LeaseState::Renewing(_) => false,
            LeaseState::Acquiring(acquisition) => acquisition.goal().attachment.is_some(),
            LeaseState::Attached(_) | LeaseState::Lapsing(_) => true,
            LeaseState::Updating(updating) => {
                updating.held_by.is_some() || updating.update.attachment.is_some()
            }
        }
    }

    /// What is held on the session, if anything is.
    fn on_session(&self) -> Option<&AttachedLease> {
        match self {
            LeaseState::Attached(attached) | LeaseState::Lapsing(attached) => Some(attached),
            LeaseState::Updating(updating) => updating.held_by.as_ref(),
            _ => None,
        }
    }

    /// Whether it is held for `key` on the session.
    pub(crate) fn is_attached_for(&self, key: &Key) -> bool {
        self.on_session().is_some_and(|attached| attached.key == *key)
    }

    /// Under which fence it is held on the session.
    pub(crate) fn attached_fence(&self) -> Option<Fence> {
        self.on_session().map(AttachedLease::fence)
    }
}

impl OwnTenures for LeaseMap<LeaseState> {
    fn may_have(&self, id: Nonce) -> bool {
        self.values().any(|lease| lease.may_own(id))
    }
}

impl Holder {
    pub(crate) fn put(&mut self, id: LeaseId, lease: LeaseState) {
        self.set_wake(OpOwner::Lease(id), lease.wake_at());
        self.leases.insert(id, lease);
    }

    /// Nothing wakes it any more, and it waits for no session: it is out of the table.
    pub(super) fn forget_wake(&mut self, id: LeaseId) {
        self.set_wake(OpOwner::Lease(id), None);
        self.queued.remove(&id);
    }

    pub(crate) fn wake_lease(&mut self, now: Now, id: LeaseId, why: Wakeup) {
        let part = OpOwner::Lease(id);
        let Some(lease) = self.leases.remove(&id) else { return self.forget_wake(id) };
        match lease {
            LeaseState::Queued(goal) if goal.wait_policy.deadline().is_some_and(|end| now.held >= end) => {
                self.forget_wake(id);
                let error = StoreError::unavailable("the session could not be begun in time");
                self.tell(Notice::Failed(id, error));
            }
            // It was an acquisition when it was to be woken, and the session that it was attached to has just been lost.
            LeaseState::Queued(_) => self.put(id, lease),
            LeaseState::Acquiring(acquisition) => {
                self.step_acquisition(now, id, acquisition, |acquisition, ctx| acquisition.wake(ctx, why));
            }
            // These two are woken when their time is over, and only then.
            LeaseState::Attached(attached) => {
                self.tell(Notice::Lost(id, Loss::Revoked));
                self.lapse_revoked(now, id, attached);
            }
            LeaseState::Lapsing(attached) => {
                self.lapsing -= 1;
                self.vacate(now, id, attached, Fields::Keep, UpdatePurpose::Vacate);
            }
            LeaseState::Renewing(mut renewal) => {
                let mut out = Vec::new();
                self.lend(now, part, |ctx| renewal.wake(ctx, &mut out));
                self.after_renewal(id, renewal, out);
            }
            LeaseState::Updating(mut updating) => {
                let is_over = updating.cap().is_some_and(|cap| now.held >= cap);
                if let Some(attached) = updating.held_by.take_if(|_| is_over) {
                    // The change that is under way may or may not land; the claim is looked up again when it is vacated.
                    self.tell(Notice::Lost(id, Loss::Revoked));
                    return self.lapse_revoked(now, id, attached);
                }
                self.lend(now, part, |ctx| updating.update.wake(ctx));
                self.put(id, LeaseState::Updating(updating));
            }
        }
    }

    pub(crate) fn answer_lease(
        &mut self,
        now: Now,
        id: LeaseId,
        op: OpId,
        result: Result<Answer, StoreError>,
    ) {
        let part = OpOwner::Lease(id);
        match self.leases.remove(&id) {
            Some(LeaseState::Acquiring(acquisition)) => {
                self.step_acquisition(now, id, acquisition, |acquisition, ctx| {
                    acquisition.answer(ctx, op, result)
                });
            }
            Some(LeaseState::Renewing(mut renewal)) => {
                let mut out = Vec::new();
                self.lend(now, part, |ctx| renewal.answer(ctx, op, result, &mut out));
                self.after_renewal(id, renewal, out);
            }
            Some(LeaseState::Updating(mut updating)) => {
                let end = self.lend(now, part, |ctx| updating.update.answer(ctx, op, result));
                match end {
                    Some(end) => self.after_update(now, id, *updating, end),
                    None => self.put(id, LeaseState::Updating(updating)),
                }
            }
            Some(lease) => self.put(id, lease),
            None => {}
        }
    }

    fn after_renewal(&mut self, id: LeaseId, renewal: Box<Renewal>, out: Vec<RenewalStep>) {
        for step in out {
            match step {
                RenewalStep::Extended(until) => self.tell(Notice::Valid(id, until)),
                RenewalStep::Suspended => self.tell(Notice::Valid(id, Tick(0))),
                RenewalStep::Updated => self.tell(Notice::Updated(id)),
                RenewalStep::Refused(error) => self.tell(Notice::Failed(id, error)),
                RenewalStep::Mail(letters) => {
                    self.tell_mail(id, &letters);
                }
                RenewalStep::Lost(loss) => {
                    self.forget_wake(id);
                    self.env.detector.end(&renewal.key);
                    self.tell(Notice::Lost(id, loss));
                    return;
                }
            }
        }
        self.put(id, LeaseState::Renewing(renewal));
    }

    fn tell_mail(&mut self, id: LeaseId, letters: &[Letter]) {
        let is_told = |ask: Ask| !ask.is_question() && ask != Ask::Take;
        for letter in letters.iter().filter(|letter| is_told(letter.ask)) {
            self.tell(Notice::Asked(id, letter.ask));
        }
    }
}

impl Updating {
    /// When what it is held by ends, if it was withdrawn and is still believed in.
    fn cap(&self) -> Option<Tick> {
        let believed = self.purpose == UpdatePurpose::Update && self.then.is_none();
        self.held_by.as_ref().filter(|_| believed)?.cap()
    }
}
