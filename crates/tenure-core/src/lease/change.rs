//! Changes of a lease's record on the strength of its tenure: other metadata, from lease to plain data and back.

use super::{Editing, Lease, Purpose, Rider, Then};
use crate::bid::Won;
use crate::bugs::Bug;
use crate::command::LeaseId;
use crate::ctx::Part;
use crate::edit::{Change, Edit, EditEnd, Fields, Token};
use crate::error::StoreError;
use crate::fence::Version;
use crate::hold::{Hold, Loss};
use crate::holder::Holder;
use crate::notice::Notice;
use crate::record::Ask;
use crate::time::{Now, Tick, Ttl};

impl Holder {
    #[allow(clippy::too_many_arguments, reason = "each is one plain fact of the edit")]
    pub(super) fn edit(
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
        self.put(id, Lease::Editing(Box::new(Editing { edit, purpose, rider, then: None })));
    }

    pub(crate) fn update(&mut self, now: Now, id: LeaseId, fields: Fields) {
        match self.leases.remove(&id) {
            Some(Lease::Riding(rider)) => {
                let mut token = self.token_of_rider(&rider);
                token.metadata = fields.over(token.metadata, self.desk.rules.bugs);
                let until = self.session.valid_until();
                self.edit(now, id, token, Change::Amend, until, Purpose::Update, Some(rider));
                if let Some(Lease::Editing(editing)) = self.leases.get_mut(&id) {
                    editing.edit.fields = fields;
                }
            }
            Some(Lease::Beating(mut hold)) => {
                let metadata = match fields {
                    Fields::Replace(fields) => fields,
                    fields => fields.over(hold.metadata.clone(), self.desk.rules.bugs),
                };
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
        let ignores = self.desk.rules.bugs.has(Bug::WithdrawnDetached);
        match self.leases.remove(&id) {
            Some(Lease::Riding(rider)) if rider.cap().is_some() && !ignores => {
                let token = self.token_of_rider(&rider);
                self.end_withdrawn(now, id, token, true);
            }
            Some(Lease::Beating(hold)) if hold.is_revoked() && !ignores => {
                let token = self.token_of(&hold);
                self.end_withdrawn(now, id, token, false);
            }
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

    /// A withdrawn lease was to become plain data, so nobody here believes in it any more. It is given up instead.
    fn end_withdrawn(&mut self, now: Now, id: LeaseId, token: Token, rides: bool) {
        let until = if rides { Tick::NEVER } else { now.held.after(token.ttl.duration()) };
        self.edit(now, id, token, Change::Vacate, until, Purpose::Vacate, None);
        if let Some(Lease::Editing(editing)) = self.leases.get_mut(&id)
            && rides
        {
            editing.edit.ride = self.session.ride(&self.desk.identity.session);
        }
        self.tell(Notice::Lost(id, Loss::Revoked));
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

    pub(super) fn after_edit(&mut self, now: Now, id: LeaseId, editing: Editing, end: EditEnd) {
        let Editing { edit, purpose, rider, then } = editing;
        // A letter to the session may have come meanwhile, or one to the record when the change had just landed.
        let is_withdrawn = edit.is_withdrawn() || rider.as_ref().is_some_and(|rider| rider.cap().is_some());
        let is_withdrawn = is_withdrawn && !self.desk.rules.bugs.has(Bug::WithdrawnDetached);
        let Edit { mut token, mail, ride, change, .. } = edit;
        self.drop_lease(id);
        match (purpose, end) {
            (Purpose::Update, EditEnd::Done { .. }) => {
                self.tell(Notice::Updated(id));
                if let Some(mut rider) = rider {
                    rider.change(token.version, token.metadata);
                    self.put(id, Lease::Riding(rider));
                }
            }
            (Purpose::Detach, EditEnd::Done { .. }) if then.is_some() => {
                if let Some(Then::Release(fields)) = then {
                    token.metadata = fields.over(token.metadata, self.desk.rules.bugs);
                }
                let until = now.held.after(token.ttl.duration());
                return self.edit(now, id, token, Change::Vacate, until, Purpose::Release, None);
            }
            (Purpose::Detach, EditEnd::Done { .. }) if is_withdrawn => {
                self.end_withdrawn(now, id, token, false);
            }
            // What could not become plain data rides on, if it did before.
            (Purpose::Detach, EditEnd::Withdrawn) => self.end_withdrawn(now, id, token, rider.is_some()),
            (_, EditEnd::Withdrawn) => self.tell(Notice::Lost(id, Loss::Revoked)),
            (Purpose::Detach | Purpose::Refresh, EditEnd::Done { .. }) => {
                if mail.iter().any(|letter| letter.ask != Ask::Confirm) {
                    // Whoever uses it is to meet the letters: so it names a version that is gone.
                    token.version = Version::of(token.id, token.fence);
                }
                self.tell(Notice::Detached(id, Box::new(token)));
            }
            (Purpose::Adopt, EditEnd::Done { sent, wall })
                if now.held >= sent.after(self.desk.rules.drift.belief(token.ttl))
                    || now.has_gap(sent, wall) =>
            {
                // The answer came too late to be believed in, or after a time that was hidden: once more.
                let until = now.held.after(token.ttl.duration());
                self.edit(now, id, token, Change::Adopt, until, Purpose::Adopt, None);
                if let Some(Lease::Editing(editing)) = self.leases.get_mut(&id) {
                    editing.then = then;
                    editing.edit.mail = mail;
                }
                return;
            }
            (Purpose::Adopt, EditEnd::Done { sent, wall }) => {
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
                let mut hold = self.lend(now, Part::Lease(id.0), |ctx| Hold::new(key, ttl, won, ctx));
                hold.open_mail(&mail);
                let (fence, until) = (hold.fence, hold.valid_until());
                self.put(id, Lease::Beating(Box::new(hold)));
                self.tell(Notice::Acquired { lease: id, fence, until, metadata });
                self.tell_mail(id, &mail);
            }
            (Purpose::Release | Purpose::Vacate, EditEnd::Done { sent, wall }) => {
                if purpose == Purpose::Release {
                    self.tell(Notice::Released(id, true));
                }
                let Token { key, id: tenure, fence, version, since, metadata, .. } = token;
                match change {
                    Change::Next(next) => {
                        let won = Won { id: tenure, fence, version, sent, wall, since, metadata };
                        self.handed_on(now, id, key, next.lease, won);
                    }
                    _ => self.wake_first(now, &key, Some(version)),
                }
            }
            (Purpose::Release | Purpose::Vacate, end) => {
                // The store will not have it, for now. What rides is kept alive by the session, so it is looked at again.
                if matches!(end, EditEnd::GaveUp(_))
                    && ride.is_some()
                    && !self.desk.rules.bugs.has(Bug::DenialIsFinal)
                {
                    self.tie_up(now, token.key.clone());
                }
                if purpose == Purpose::Release {
                    self.tell(Notice::Released(id, false));
                }
                self.wake_first(now, &token.key, None);
            }
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
        match then {
            Some(Then::Release(fields)) => self.release(now, id, fields),
            Some(Then::Pass(heir, own)) => self.pass(now, id, *heir, own),
            None => {}
        }
    }

    pub(crate) fn token_of_rider(&self, rider: &Rider) -> Token {
        Token {
            key: rider.key.clone(),
            fence: rider.fence,
            id: rider.id(),
            version: rider.version(),
            holder: self.desk.identity.holder.clone(),
            ttl: self.desk.identity.ttl,
            since: rider.since,
            metadata: rider.metadata(),
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
