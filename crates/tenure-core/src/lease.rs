//! One lease of a holder, from the wish to its end.

mod change;
mod ending;
mod rider;

use crate::bid::{Bid, Cue, Goal, Patience, Won};
use crate::command::LeaseId;
use crate::ctx::Part;
use crate::edit::{Edit, Fields, Heir};
use crate::error::StoreError;
use crate::fence::Nonce;
use crate::hold::{Held, Hold, Loss};
use crate::holder::Holder;
use crate::key::Key;
use crate::metadata::Metadata;
use crate::notice::Notice;
use crate::op::{Answer, OpId};
use crate::record::{Ask, Letter};
use crate::time::{Now, Tick};
pub(crate) use rider::Rider;

/// Why a lease's record is being changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
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
pub(crate) struct Editing {
    edit: Edit,
    purpose: Purpose,
    /// What it is held by meanwhile, if it is.
    rider: Option<Rider>,
    /// What is to become of it as soon as the change is through, if it is to be given up.
    then: Option<Then>,
}

/// How a lease is given up that is being changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    Release(Fields),
    /// Another process is to have it at once.
    Pass(Box<Heir>, Metadata),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Lease {
    /// Waits for the session.
    Queued(Box<Goal>),
    Bidding(Box<Bid>),
    /// A bid that nobody wants any more.
    Abandoned(Box<Bid>),
    Riding(Rider),
    Beating(Box<Hold>),
    Editing(Box<Editing>),
    /// Given up but left to expire: vacated only after a full ttl.
    Lapsing(Rider),
}

impl Lease {
    pub(crate) fn riding(key: Key, won: Won) -> Lease {
        Lease::Riding(Rider::new(key, won))
    }

    pub(crate) fn valid_until(&self) -> Tick {
        if let Lease::Beating(hold) = self { hold.valid_until() } else { Tick::NEVER }
    }

    pub(crate) fn wake_at(&self) -> Option<Tick> {
        match self {
            Lease::Queued(goal) => match goal.patience {
                Patience::Until(end) => Some(end),
                _ => None,
            },
            Lease::Bidding(bid) | Lease::Abandoned(bid) => bid.wake_at(),
            Lease::Riding(rider) | Lease::Lapsing(rider) => rider.cap(),
            Lease::Beating(hold) => Some(hold.wake_at()),
            Lease::Editing(editing) => editing.edit.wake_at().into_iter().chain(editing.cap()).min(),
        }
    }

    /// What its record carries, as far as is known here.
    pub(crate) fn metadata(&self) -> Metadata {
        match self {
            Lease::Riding(rider) | Lease::Lapsing(rider) => rider.metadata(),
            Lease::Beating(hold) => hold.metadata.clone(),
            // What is being written may not come to stand there.
            Lease::Editing(editing) => match &editing.rider {
                Some(rider) => rider.metadata(),
                None => editing.edit.token.metadata.clone(),
            },
            Lease::Queued(_) | Lease::Bidding(_) | Lease::Abandoned(_) => Metadata::new(),
        }
    }

    /// Whether a tenure with this id is this lease's, or may turn out to be.
    pub(crate) fn may_own(&self, id: Nonce) -> bool {
        match self {
            Lease::Queued(_) => false,
            Lease::Bidding(bid) | Lease::Abandoned(bid) => bid.may_win(id),
            Lease::Riding(rider) | Lease::Lapsing(rider) => rider.id() == id,
            Lease::Beating(hold) => hold.id == id,
            Lease::Editing(editing) => editing.edit.token.id == id || editing.edit.may_begin(id),
        }
    }

    /// Whether its user has been told that it is over, though its record may still show it.
    pub(crate) fn is_given_up(&self) -> bool {
        match self {
            Lease::Lapsing(_) => true,
            Lease::Editing(editing) => editing.purpose == Purpose::Vacate,
            _ => false,
        }
    }

    /// Whether it stands or falls with the session.
    pub(crate) fn rides(&self) -> bool {
        match self {
            Lease::Queued(_) | Lease::Beating(_) => false,
            Lease::Bidding(bid) | Lease::Abandoned(bid) => bid.goal().ride.is_some(),
            Lease::Riding(_) | Lease::Lapsing(_) => true,
            Lease::Editing(editing) => editing.rider.is_some() || editing.edit.ride.is_some(),
        }
    }

    /// Whether it is held for `key` on the session.
    pub(crate) fn rides_for(&self, key: &Key) -> bool {
        match self {
            Lease::Riding(rider) | Lease::Lapsing(rider) => rider.key == *key,
            Lease::Editing(editing) => editing.rider.as_ref().is_some_and(|rider| rider.key == *key),
            _ => false,
        }
    }
}

impl Holder {
    pub(crate) fn put(&mut self, id: LeaseId, lease: Lease) {
        self.set_wake(Part::Lease(id.0), lease.wake_at());
        self.leases.insert(id, lease);
    }

    /// Takes a lease out for good.
    fn drop_lease(&mut self, id: LeaseId) {
        self.set_wake(Part::Lease(id.0), None);
        self.queued.remove(&id);
    }

    pub(crate) fn wake_lease(&mut self, now: Now, id: LeaseId, cue: Cue) {
        let part = Part::Lease(id.0);
        let Some(lease) = self.leases.remove(&id) else { return self.drop_lease(id) };
        match lease {
            Lease::Queued(goal) if goal.patience_is_over(now) => {
                self.drop_lease(id);
                let error = StoreError::unavailable("the session could not be begun in time");
                self.tell(Notice::Failed(id, error));
            }
            // It was a bid when it was to be woken, and the session that it rode on has just been lost.
            Lease::Queued(_) => self.put(id, lease),
            Lease::Bidding(mut bid) => {
                let end = self.lend(now, part, |ctx| bid.wake(ctx, cue));
                self.after_bid(now, id, *bid, end, false);
            }
            Lease::Abandoned(mut bid) => {
                let end = self.lend(now, part, |ctx| bid.wake(ctx, cue));
                self.after_bid(now, id, *bid, end, true);
            }
            // These two are woken when their time is over, and only then.
            Lease::Riding(rider) => {
                self.tell(Notice::Lost(id, Loss::Revoked));
                self.lapse_revoked(now, id, rider);
            }
            Lease::Lapsing(rider) => {
                self.lapsing -= 1;
                self.vacate(now, id, rider, Fields::Keep, Purpose::Vacate);
            }
            Lease::Beating(mut hold) => {
                let mut out = Vec::new();
                self.lend(now, part, |ctx| hold.wake(ctx, &mut out));
                self.after_hold(id, hold, out);
            }
            Lease::Editing(mut editing) => {
                let is_over = editing.cap().is_some_and(|cap| now.held >= cap);
                if let Some(rider) = editing.rider.take_if(|_| is_over) {
                    // The change that is under way may or may not land; the claim is looked up again when it is vacated.
                    self.tell(Notice::Lost(id, Loss::Revoked));
                    return self.lapse_revoked(now, id, rider);
                }
                self.lend(now, part, |ctx| editing.edit.wake(ctx));
                self.put(id, Lease::Editing(editing));
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
        let part = Part::Lease(id.0);
        match self.leases.remove(&id) {
            Some(Lease::Bidding(mut bid)) => {
                let end = self.lend(now, part, |ctx| bid.answer(ctx, op, result));
                self.after_bid(now, id, *bid, end, false);
            }
            Some(Lease::Abandoned(mut bid)) => {
                let end = self.lend(now, part, |ctx| bid.answer(ctx, op, result));
                self.after_bid(now, id, *bid, end, true);
            }
            Some(Lease::Beating(mut hold)) => {
                let mut out = Vec::new();
                self.lend(now, part, |ctx| hold.answer(ctx, op, result, &mut out));
                self.after_hold(id, hold, out);
            }
            Some(Lease::Editing(mut editing)) => {
                let end = self.lend(now, part, |ctx| editing.edit.answer(ctx, op, result));
                match end {
                    Some(end) => self.after_edit(now, id, *editing, end),
                    None => self.put(id, Lease::Editing(editing)),
                }
            }
            Some(lease) => self.put(id, lease),
            None => {}
        }
    }

    fn after_hold(&mut self, id: LeaseId, hold: Box<Hold>, out: Vec<Held>) {
        for held in out {
            match held {
                Held::Extended(until) => self.tell(Notice::Valid(id, until)),
                Held::Suspended => self.tell(Notice::Valid(id, Tick(0))),
                Held::Updated => self.tell(Notice::Updated(id)),
                Held::Refused(error) => self.tell(Notice::Failed(id, error)),
                Held::Mail(letters) => {
                    self.tell_mail(id, &letters);
                }
                Held::Lost(loss) => {
                    self.drop_lease(id);
                    self.desk.vigils.end(&hold.key);
                    self.tell(Notice::Lost(id, loss));
                    return;
                }
            }
        }
        self.put(id, Lease::Beating(hold));
    }

    fn tell_mail(&mut self, id: LeaseId, letters: &[Letter]) {
        for letter in letters.iter().filter(|letter| !matches!(letter.ask, Ask::Confirm | Ask::Take)) {
            self.tell(Notice::Asked(id, letter.ask));
        }
    }
}

impl Editing {
    /// When what it is held by ends, if it was withdrawn and is still believed in.
    fn cap(&self) -> Option<Tick> {
        let believed = self.purpose == Purpose::Update && self.then.is_none();
        self.rider.as_ref().filter(|_| believed)?.cap()
    }
}

impl Goal {
    fn patience_is_over(&self, now: Now) -> bool {
        matches!(self.patience, Patience::Until(end) if now.held >= end)
    }
}
