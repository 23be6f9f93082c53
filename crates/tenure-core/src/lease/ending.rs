//! The ends of a lease: given up, left to expire, withdrawn, or lost with its session.

use super::{Lease, Purpose, Rider, Then};
use crate::bugs::Bug;
use crate::command::LeaseId;
use crate::edit::{Change, Fields, Heir, Token};
use crate::hold::Loss;
use crate::holder::Holder;
use crate::metadata::Metadata;
use crate::notice::Notice;
use crate::time::{Now, Tick};

impl Holder {
    pub(crate) fn release(&mut self, now: Now, id: LeaseId, fields: Fields) {
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
            Lease::Riding(rider) => self.give_up(now, id, rider, fields, Purpose::Release),
            Lease::Beating(hold) => {
                let until = now.held.after(hold.ttl.duration());
                let mut token = self.token_of(&hold);
                token.metadata = match &fields {
                    Fields::Replace(fields) => fields.clone(),
                    fields => fields.over(token.metadata, self.desk.rules.bugs),
                };
                self.edit(now, id, token, Change::Vacate, until, Purpose::Release, None);
                if let Some(Lease::Editing(editing)) = self.leases.get_mut(&id) {
                    editing.edit.fields = fields;
                }
            }
            Lease::Editing(mut editing) => {
                match editing.purpose {
                    Purpose::Update | Purpose::Detach | Purpose::Adopt => {
                        // Whoever gave it up first said what is to be written with that.
                        editing.then.get_or_insert(Then::Release(fields));
                    }
                    Purpose::Vacate => editing.purpose = Purpose::Release,
                    Purpose::Release | Purpose::Refresh => {}
                }
                self.put(id, Lease::Editing(editing));
            }
            lease @ Lease::Lapsing(_) => {
                self.put(id, lease);
                self.tell(Notice::Released(id, false));
            }
        }
    }

    pub(crate) fn vacate(&mut self, now: Now, id: LeaseId, rider: Rider, fields: Fields, purpose: Purpose) {
        let mut token = self.token_of_rider(&rider);
        token.metadata = fields.over(token.metadata, self.desk.rules.bugs);
        self.part_with(now, id, token, Change::Vacate, purpose, fields);
    }

    pub(crate) fn part_with(
        &mut self,
        now: Now,
        id: LeaseId,
        token: Token,
        change: Change,
        purpose: Purpose,
        fields: Fields,
    ) {
        // As long as the session lives, nothing else would ever free the key.
        self.edit(now, id, token, change, Tick::NEVER, purpose, None);
        if let Some(Lease::Editing(editing)) = self.leases.get_mut(&id) {
            editing.edit.ride = self.session.ride(&self.desk.identity.session);
            editing.edit.fields = fields;
        }
    }

    /// Gives a held lease to another process; once a change of its metadata that is under way has come to an end. One that is
    /// not held by the session is given up instead.
    pub(crate) fn pass(&mut self, now: Now, id: LeaseId, heir: Heir, own: Metadata) {
        match self.leases.remove(&id) {
            Some(Lease::Riding(rider)) => {
                let mut token = self.token_of_rider(&rider);
                let fields = if own.is_empty() { Fields::Keep } else { Fields::Own(own) };
                token.metadata = fields.over(token.metadata, self.desk.rules.bugs);
                self.part_with(now, id, token, Change::Pass(Box::new(heir)), Purpose::Release, fields);
            }
            // Whoever gave it up first said what is to become of it.
            Some(Lease::Editing(mut editing)) if editing.purpose == Purpose::Update => {
                editing.then.get_or_insert(Then::Pass(Box::new(heir), own));
                self.put(id, Lease::Editing(editing));
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
            Some(Lease::Riding(rider)) if self.desk.rules.bugs.has(Bug::LapseVacates) => {
                return self.vacate(now, id, rider, Fields::Keep, Purpose::Release);
            }
            Some(Lease::Riding(mut rider)) => {
                rider.set_cap(now.held.after(self.desk.identity.ttl.duration()));
                self.lapsing += 1;
                self.put(id, Lease::Lapsing(rider));
            }
            Some(Lease::Editing(mut editing)) if editing.rider.is_some() => {
                // The change goes on; whoever changed it still has it, so it can be vacated after a ttl only.
                if let Some(mut rider) = editing.rider.take() {
                    rider.set_cap(now.held.after(self.desk.identity.ttl.duration()));
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
                // A full ttl from now is later than what was set before.
                rider.set_cap(now.held.after(self.desk.identity.ttl.duration()));
                self.put(id, Lease::Lapsing(rider));
            }
            _ => self.drop_lease(id),
        }
        self.tell(Notice::Released(id, false));
    }

    /// A withdrawn lease that was not given up in time: whoever acted under it may not have ended, so it is vacated no sooner
    /// than one that had beaten for itself would have expired.
    pub(super) fn lapse_revoked(&mut self, now: Now, id: LeaseId, mut rider: Rider) {
        let ttl = self.desk.identity.ttl;
        rider.set_cap(now.held.after(ttl.duration().saturating_sub(self.desk.rules.drift.belief(ttl))));
        self.lapsing += 1;
        self.put(id, Lease::Lapsing(rider));
    }

    /// The holder of a riding lease is asked to stop: it has until the session's present deadline.
    pub(crate) fn revoke_rider(&mut self, id: LeaseId) {
        let until = self.session.valid_until();
        let Some(mut lease) = self.leases.remove(&id) else { return };
        let rider = match &mut lease {
            Lease::Riding(rider) => Some(rider),
            Lease::Editing(editing) => editing.rider.as_mut(),
            _ => None,
        };
        let cap = rider.and_then(|rider| {
            rider.cap_at_most(until);
            rider.cap()
        });
        self.put(id, lease);
        // The session goes on. Whoever asks without I/O, in a process that was stopped over the end, must find it over.
        if let Some(cap) = cap.filter(|_| !self.desk.rules.bugs.has(Bug::WithdrawnUncapped)) {
            self.tell(Notice::Valid(id, cap));
        }
    }

    /// The session is lost, and `lease`, taken out already, rode on it.
    pub(crate) fn end_with_session(&mut self, now: Now, id: LeaseId, lease: Lease, loss: &Loss) {
        match lease {
            Lease::Bidding(_) if self.desk.rules.bugs.has(Bug::QueueForgotten) => {}
            Lease::Bidding(bid) => {
                // What it claimed so far is dead with the old session, whether it landed or not.
                self.forget_bid(id);
                self.queue(now, id, bid.goal().clone());
            }
            Lease::Abandoned(_) => {
                self.forget_bid(id);
                self.tell(Notice::Released(id, false));
            }
            Lease::Riding(_) if self.desk.rules.bugs.has(Bug::RiderOutlivesSession) => {}
            Lease::Riding(_) => self.tell(Notice::Lost(id, loss.clone())),
            Lease::Lapsing(_) => self.lapsing -= 1,
            Lease::Editing(editing) => match editing.purpose {
                Purpose::Update | Purpose::Detach => {
                    self.tell(Notice::Lost(id, loss.clone()));
                    if editing.then.is_some() {
                        self.tell(Notice::Released(id, false));
                    }
                }
                Purpose::Release => self.tell(Notice::Released(id, false)),
                _ => {}
            },
            lease @ (Lease::Queued(_) | Lease::Beating(_)) => self.put(id, lease),
        }
    }
}
