//! One lease of a holder, from the wish to its end.

use crate::bid::{Bid, Goal, Patience, Won};
use crate::bugs::Bug;
use crate::ctx::Part;
use crate::edit::{Change, Edit, EditEnd, Token};
use crate::error::StoreError;
use crate::fence::{Fence, Nonce, Version};
use crate::hold::{Held, Hold, Loss};
use crate::holder::{Holder, LeaseId, Notice};
use crate::key::Key;
use crate::metadata::Metadata;
use crate::op::{Answer, OpId};
use crate::record::{Ask, Letter};
use crate::time::{Now, Tick, Ttl, Wall};

/// A held lease that rides on the session. There may be a million of these.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Rider {
    key: Key,
    id: Nonce,
    version: Version,
    fence: Fence,
    since: Wall,
    /// None when it is empty, as it mostly is.
    metadata: Option<Box<Metadata>>,
    /// Withdrawn: vacated then at the latest.
    cap: Tick,
}

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
    /// To be given up as soon as the change is through.
    then_release: Option<Option<Metadata>>,
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
        let metadata = (!won.metadata.is_empty()).then(|| Box::new(won.metadata));
        Lease::Riding(Rider {
            key,
            id: won.id,
            version: won.version,
            fence: won.fence,
            since: won.since,
            metadata,
            cap: Tick::NEVER,
        })
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
            Lease::Riding(rider) | Lease::Lapsing(rider) => (rider.cap < Tick::NEVER).then_some(rider.cap),
            Lease::Beating(hold) => Some(hold.wake_at()),
            Lease::Editing(editing) => {
                let believed = editing.purpose == Purpose::Update && editing.then_release.is_none();
                let rider = editing.rider.as_ref().filter(|_| believed);
                let cap = rider.map(|rider| rider.cap).filter(|cap| *cap < Tick::NEVER);
                editing.edit.wake_at().into_iter().chain(cap).min()
            }
        }
    }

    /// Whether a tenure with this id is this lease's, or may turn out to be.
    pub(crate) fn may_own(&self, id: Nonce) -> bool {
        match self {
            Lease::Queued(_) => false,
            Lease::Bidding(bid) | Lease::Abandoned(bid) => bid.may_win(id),
            Lease::Riding(rider) | Lease::Lapsing(rider) => rider.id == id,
            Lease::Beating(hold) => hold.id == id,
            Lease::Editing(editing) => editing.edit.token.id == id,
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

    pub(crate) fn is_lapsing(&self) -> bool {
        matches!(self, Lease::Lapsing(_))
    }
}

impl Holder {
    fn put(&mut self, id: LeaseId, lease: Lease) {
        self.set_wake(Part::Lease(id.0), lease.wake_at());
        self.leases.insert(id, lease);
    }

    /// Takes a lease out for good.
    fn drop_lease(&mut self, id: LeaseId) {
        self.set_wake(Part::Lease(id.0), None);
        self.queued.remove(&id);
    }

    pub(crate) fn wake_lease(&mut self, now: Now, id: LeaseId, changed: bool) {
        let part = Part::Lease(id.0);
        let Some(lease) = self.leases.remove(&id) else { return self.drop_lease(id) };
        match lease {
            Lease::Queued(goal) if goal.patience_is_over(now) => {
                self.drop_lease(id);
                let error = StoreError::unavailable("the session could not be begun in time");
                self.tell(Notice::Failed(id, error));
            }
            Lease::Bidding(mut bid) => {
                let end = self.lend(now, part, |ctx| bid.wake(ctx, changed));
                self.after_bid(now, id, *bid, end, false);
            }
            Lease::Abandoned(mut bid) => {
                let end = self.lend(now, part, |ctx| bid.wake(ctx, changed));
                self.after_bid(now, id, *bid, end, true);
            }
            Lease::Riding(rider) if now.held >= rider.cap => {
                self.tell(Notice::Lost(id, Loss::Revoked));
                self.lapse_revoked(now, id, rider);
            }
            Lease::Lapsing(rider) if now.held >= rider.cap => {
                self.lapsing -= 1;
                self.vacate(now, id, rider, None, Purpose::Vacate);
            }
            Lease::Beating(mut hold) => {
                let mut out = Vec::new();
                self.lend(now, part, |ctx| hold.wake(ctx, &mut out));
                self.after_hold(id, hold, out);
            }
            Lease::Editing(mut editing) => {
                let believed = editing.purpose == Purpose::Update && editing.then_release.is_none();
                if let Some(rider) = editing.rider.take_if(|rider| believed && now.held >= rider.cap) {
                    // The change that is under way may or may not land; the claim is looked up again when it is vacated.
                    self.tell(Notice::Lost(id, Loss::Revoked));
                    return self.lapse_revoked(now, id, rider);
                }
                self.lend(now, part, |ctx| editing.edit.wake(ctx));
                self.put(id, Lease::Editing(editing));
            }
            lease => self.put(id, lease),
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
        for letter in letters.iter().filter(|letter| letter.ask != Ask::Confirm) {
            self.tell(Notice::Asked(id, letter.ask));
        }
    }

    fn after_edit(&mut self, now: Now, id: LeaseId, editing: Editing, end: EditEnd) {
        let Editing { edit, purpose, rider, then_release } = editing;
        let Edit { mut token, mail, .. } = edit;
        self.drop_lease(id);
        match (purpose, end) {
            (Purpose::Update, EditEnd::Done { .. }) => {
                self.tell(Notice::Updated(id));
                if let Some(mut rider) = rider {
                    rider.version = token.version;
                    rider.metadata = (!token.metadata.is_empty()).then(|| Box::new(token.metadata));
                    self.put(id, Lease::Riding(rider));
                }
            }
            (Purpose::Detach, EditEnd::Done { .. }) if then_release.is_some() => {
                if let Some(Some(metadata)) = then_release {
                    token.metadata = metadata;
                }
                let until = now.held.after(token.ttl.duration());
                return self.edit(now, id, token, Change::Vacate, until, Purpose::Release, None);
            }
            (Purpose::Detach | Purpose::Refresh, EditEnd::Done { .. }) => {
                self.tell(Notice::Detached(id, Box::new(token)));
            }
            (Purpose::Adopt, EditEnd::Done { sent })
                if now.held >= sent.after(self.desk.rules.drift.belief(token.ttl)) =>
            {
                // The answer came too late to be believed in: once more.
                let until = now.held.after(token.ttl.duration());
                self.edit(now, id, token, Change::Adopt, until, Purpose::Adopt, None);
                if let Some(Lease::Editing(editing)) = self.leases.get_mut(&id) {
                    editing.then_release = then_release;
                    editing.edit.mail = mail;
                }
                return;
            }
            (Purpose::Adopt, EditEnd::Done { sent }) => {
                let (key, ttl) = (token.key, token.ttl);
                let won = Won {
                    id: token.id,
                    fence: token.fence,
                    version: token.version,
                    sent,
                    since: token.since,
                    metadata: token.metadata,
                };
                let metadata = won.metadata.clone();
                let mut hold = self.lend(now, Part::Lease(id.0), |ctx| Hold::new(key, ttl, won, ctx));
                hold.open_mail(&mail);
                let (fence, until) = (hold.fence, hold.valid_until());
                self.put(id, Lease::Beating(Box::new(hold)));
                self.tell(Notice::Acquired { lease: id, fence, until, metadata });
                self.tell_mail(id, &mail);
            }
            (Purpose::Release, EditEnd::Done { .. }) => self.tell(Notice::Released(id, true)),
            (Purpose::Release, _) => self.tell(Notice::Released(id, false)),
            (Purpose::Vacate, _) => {}
            (Purpose::Update | Purpose::Detach, EditEnd::NotOurs(by)) => {
                self.tell(Notice::Lost(id, Loss::Taken(by)));
            }
            (Purpose::Detach, EditEnd::GaveUp(error)) => {
                // The record shows the lease or the token. The one rides on, and must be vacated; the other expires.
                self.tell(Notice::Lost(id, Loss::Unreachable(error)));
                if rider.is_some() {
                    self.tie_up(now, token.key);
                }
            }
            (Purpose::Update, EditEnd::GaveUp(error)) => {
                // It is still held. The record shows the old metadata or the new.
                if let Some(rider) = rider {
                    self.put(id, Lease::Riding(rider));
                }
                self.tell(Notice::Failed(id, error));
            }
            (Purpose::Refresh | Purpose::Adopt, EditEnd::NotOurs(by)) => self.tell(Notice::NotOurs(id, by)),
            (Purpose::Refresh | Purpose::Adopt, EditEnd::GaveUp(error)) => {
                self.tell(Notice::Failed(id, error));
            }
        }
        if let Some(metadata) = then_release {
            self.release(now, id, metadata);
        }
    }

    pub(crate) fn release(&mut self, now: Now, id: LeaseId, metadata: Option<Metadata>) {
        let Some(lease) = self.leases.remove(&id) else { return self.tell(Notice::Released(id, false)) };
        match lease {
            Lease::Queued(_) => {
                self.drop_lease(id);
                self.tell(Notice::Released(id, false));
            }
            Lease::Bidding(mut bid) | Lease::Abandoned(mut bid) => {
                let end = bid.abandon();
                self.after_bid(now, id, *bid, end, true);
            }
            Lease::Riding(rider) => self.vacate(now, id, rider, metadata, Purpose::Release),
            Lease::Beating(hold) => {
                let until = now.held.after(hold.ttl.duration());
                let mut token = self.token_of(&hold);
                if let Some(metadata) = metadata {
                    token.metadata = metadata;
                }
                self.edit(now, id, token, Change::Vacate, until, Purpose::Release, None);
            }
            Lease::Editing(mut editing) => {
                match editing.purpose {
                    Purpose::Update | Purpose::Detach | Purpose::Adopt => {
                        editing.then_release = Some(metadata);
                    }
                    Purpose::Vacate => editing.purpose = Purpose::Release,
                    Purpose::Release | Purpose::Refresh => {}
                }
                self.put(id, Lease::Editing(editing));
            }
            lease @ Lease::Lapsing(_) => self.put(id, lease),
        }
    }

    fn vacate(&mut self, now: Now, id: LeaseId, rider: Rider, metadata: Option<Metadata>, purpose: Purpose) {
        let mut token = self.token_of_rider(&rider);
        if let Some(metadata) = metadata {
            token.metadata = metadata;
        }
        // As long as the session lives, nothing else would ever free the key.
        self.edit(now, id, token, Change::Vacate, Tick::NEVER, purpose, None);
        if let Some(Lease::Editing(editing)) = self.leases.get_mut(&id) {
            editing.edit.ride = self.session.ride(&self.desk.identity.session);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "each is one plain fact of the edit")]
    fn edit(
        &mut self,
        now: Now,
        id: LeaseId,
        token: Token,
        change: Change,
        until: Tick,
        purpose: Purpose,
        rider: Option<Rider>,
    ) {
        let rides = rider.is_some() && purpose == Purpose::Update;
        let edit = self.start_edit(now, Part::Lease(id.0), token, change, until, rides);
        self.put(id, Lease::Editing(Box::new(Editing { edit, purpose, rider, then_release: None })));
    }

    pub(crate) fn update(&mut self, now: Now, id: LeaseId, metadata: Metadata) {
        match self.leases.remove(&id) {
            Some(Lease::Riding(rider)) => {
                let token = Token { metadata, ..self.token_of_rider(&rider) };
                let until = self.session.valid_until();
                self.edit(now, id, token, Change::Amend, until, Purpose::Update, Some(rider));
            }
            Some(Lease::Beating(mut hold)) => {
                self.lend(now, Part::Lease(id.0), |ctx| hold.update(ctx, metadata));
                self.put(id, Lease::Beating(hold));
            }
            Some(lease) => {
                self.put(id, lease);
                let error = StoreError::invalid("the lease is being changed already; wait for that to end");
                self.tell(Notice::Failed(id, error));
            }
            None => self.tell(Notice::Lost(id, Loss::Released)),
        }
    }

    pub(crate) fn detach(&mut self, now: Now, id: LeaseId, ttl: Ttl) {
        match self.leases.remove(&id) {
            Some(Lease::Riding(rider)) => {
                // Until it is known that the record does not ride any more, nothing else would ever free the key.
                let token = Token { ttl, ..self.token_of_rider(&rider) };
                self.edit(now, id, token, Change::Amend, Tick::NEVER, Purpose::Detach, Some(rider));
            }
            Some(Lease::Beating(hold)) => {
                let token = Token { ttl, ..self.token_of(&hold) };
                self.edit(now, id, token, Change::Amend, hold.deadline, Purpose::Detach, None);
            }
            Some(lease) => {
                self.put(id, lease);
                let error = StoreError::invalid("the lease is being changed already; wait for that to end");
                self.tell(Notice::Failed(id, error));
            }
            None => self.tell(Notice::Lost(id, Loss::Released)),
        }
    }

    pub(crate) fn use_token(&mut self, now: Now, id: LeaseId, mut token: Token, purpose: Purpose) {
        let change = match purpose {
            Purpose::Release => Change::Vacate,
            Purpose::Adopt => Change::Adopt,
            _ => Change::Amend,
        };
        if purpose == Purpose::Adopt {
            token.holder = self.desk.identity.holder.clone();
        }
        let until = now.held.after(token.ttl.duration());
        self.edit(now, id, token, change, until, purpose, None);
    }

    /// Gives a lease up without touching its record before a ttl has passed.
    pub(crate) fn lapse(&mut self, now: Now, id: LeaseId) {
        match self.leases.remove(&id) {
            Some(Lease::Riding(rider)) if self.desk.rules.bugs.has(Bug::LapseVacates) => {
                return self.vacate(now, id, rider, None, Purpose::Release);
            }
            Some(Lease::Riding(mut rider)) => {
                rider.cap = now.held.after(self.desk.identity.ttl.duration());
                self.lapsing += 1;
                self.put(id, Lease::Lapsing(rider));
            }
            Some(Lease::Editing(mut editing)) if editing.rider.is_some() => {
                // The change goes on; whoever changed it still has it, so it can be vacated after a ttl only.
                if let Some(mut rider) = editing.rider.take() {
                    rider.cap = now.held.after(self.desk.identity.ttl.duration());
                    self.lapsing += 1;
                    self.put(id, Lease::Lapsing(rider));
                }
            }
            // A claim that may have landed, or a change that gives the key up anyway: neither can be let go of.
            Some(Lease::Bidding(mut bid)) => {
                let end = bid.abandon();
                return self.after_bid(now, id, *bid, end, true);
            }
            Some(Lease::Editing(editing)) if editing.edit.ride.is_some() => {
                return self.put(id, Lease::Editing(editing));
            }
            Some(lease @ Lease::Abandoned(_)) => return self.put(id, lease),
            Some(Lease::Lapsing(mut rider)) => {
                rider.cap = rider.cap.max(now.held.after(self.desk.identity.ttl.duration()));
                self.put(id, Lease::Lapsing(rider));
            }
            _ => self.drop_lease(id),
        }
        self.tell(Notice::Released(id, false));
    }

    /// A withdrawn lease that was not given up in time: whoever acted under it may not have ended, so it is vacated no sooner
    /// than one that had beaten for itself would have expired.
    fn lapse_revoked(&mut self, now: Now, id: LeaseId, mut rider: Rider) {
        let ttl = self.desk.identity.ttl;
        rider.cap = now.held.after(ttl.duration().saturating_sub(self.desk.rules.drift.belief(ttl)));
        self.lapsing += 1;
        self.put(id, Lease::Lapsing(rider));
    }

    /// The holder of a riding lease is asked to stop: it has until the session's present deadline.
    pub(crate) fn revoke_rider(&mut self, _now: Now, id: LeaseId) {
        let until = self.session.valid_until();
        if let Some(mut lease) = self.leases.remove(&id) {
            match &mut lease {
                Lease::Riding(rider) => rider.cap = rider.cap.min(until),
                Lease::Editing(editing) => {
                    if let Some(rider) = &mut editing.rider {
                        rider.cap = rider.cap.min(until);
                    }
                }
                _ => {}
            }
            self.put(id, lease);
        }
    }

    /// One of the bugs on purpose: what the session is there to save.
    pub(crate) fn renew_each_rider(&mut self, now: Now) {
        let riders: Vec<LeaseId> = self
            .leases
            .iter()
            .filter(|(_, lease)| matches!(lease, Lease::Riding(_)))
            .map(|(id, _)| id)
            .collect();
        for id in riders {
            if let Some(Lease::Riding(rider)) = self.leases.remove(&id) {
                let token = self.token_of_rider(&rider);
                self.edit(now, id, token, Change::Amend, Tick::NEVER, Purpose::Update, Some(rider));
            }
        }
    }

    /// The session is lost, and `lease`, taken out already, rode on it.
    pub(crate) fn end_with_session(&mut self, now: Now, id: LeaseId, lease: Lease, loss: &Loss) {
        match lease {
            Lease::Bidding(_) if self.desk.rules.bugs.has(Bug::QueueForgotten) => {}
            Lease::Bidding(bid) => {
                // What it claimed so far is dead with the old session, whether it landed or not.
                let goal = bid.goal().clone();
                self.queue(now, id, Goal { ride: None, ..goal });
            }
            Lease::Abandoned(_) => self.tell(Notice::Released(id, false)),
            Lease::Riding(_) if self.desk.rules.bugs.has(Bug::RiderOutlivesSession) => {}
            Lease::Riding(_) => self.tell(Notice::Lost(id, loss.clone())),
            Lease::Lapsing(_) => self.lapsing -= 1,
            Lease::Editing(editing) => match editing.purpose {
                Purpose::Update | Purpose::Detach => {
                    self.tell(Notice::Lost(id, loss.clone()));
                    if editing.then_release.is_some() {
                        self.tell(Notice::Released(id, false));
                    }
                }
                Purpose::Release => self.tell(Notice::Released(id, false)),
                _ => {}
            },
            lease @ (Lease::Queued(_) | Lease::Beating(_)) => self.put(id, lease),
        }
    }

    fn token_of_rider(&self, rider: &Rider) -> Token {
        Token {
            key: rider.key.clone(),
            fence: rider.fence,
            id: rider.id,
            version: rider.version,
            holder: self.desk.identity.holder.clone(),
            ttl: self.desk.identity.ttl,
            since: rider.since,
            metadata: rider.metadata.as_deref().cloned().unwrap_or_default(),
        }
    }

    pub(crate) fn token_of(&self, hold: &Hold) -> Token {
        Token {
            key: hold.key.clone(),
            fence: hold.fence,
            id: hold.id,
            version: hold.version,
            holder: self.desk.identity.holder.clone(),
            ttl: hold.ttl,
            since: hold.since,
            metadata: hold.metadata.clone(),
        }
    }
}

impl Goal {
    fn patience_is_over(&self, now: Now) -> bool {
        matches!(self.patience, Patience::Until(end) if now.held >= end)
    }
}
