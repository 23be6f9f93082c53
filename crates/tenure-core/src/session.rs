//! The session: a lease on the process's own name, that its other leases ride on.
//!
//! It begins when the first riding lease wants it. When it is lost, everything that rides on it is lost with it; the
//! next lease that wants one begins a new tenure of it, with a higher fence, so that nothing old rides on it by accident.

use crate::bid::{Bid, BidEnd, Carry, Cue, Goal, Patience};
use crate::bugs::Bug;
use crate::command::LeaseId;
use crate::ctx::Part;
use crate::edit::{Change, Edit, Token};
use crate::error::{ErrorKind, StoreError};
use crate::hold::{Held, Hold, Loss};
use crate::holder::Holder;
use crate::key::Key;
use crate::lease::Lease;
use crate::metadata::Metadata;
use crate::notice::Notice;
use crate::op::{Answer, OpId};
use crate::record::{Ask, Letter, Ride};
use crate::time::{Now, Tick};

/// What the session is doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Down,
    Bidding(Box<Bid>),
    Up(Box<Hold>),
    Leaving(Box<Edit>),
    Gone,
}

/// The session of a holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) state: State,
    failures: u32,
    /// Users wait to hear that its record shows what they announced last.
    announcing: bool,
    /// What was announced before that, and could be written.
    former: Option<Metadata>,
}

impl Default for Session {
    fn default() -> Self {
        Session { state: State::Down, failures: 0, announcing: false, former: None }
    }
}

impl Session {
    /// What a new lease would ride on.
    pub(crate) fn ride(&self, key: &Key) -> Option<Ride> {
        match &self.state {
            State::Up(hold) => Some(Ride { session: key.clone(), fence: hold.fence }),
            _ => None,
        }
    }

    /// Until when the session, and what rides on it, is believed.
    pub(crate) fn valid_until(&self) -> Tick {
        if let State::Up(hold) = &self.state { hold.valid_until() } else { Tick(0) }
    }
}

impl Holder {
    /// Begins the session unless it is up or on its way.
    pub(crate) fn want_session(&mut self, now: Now) {
        if !matches!(self.session.state, State::Down) || self.stopping {
            return;
        }
        let identity = &self.desk.identity;
        let goal = Goal {
            key: identity.session.clone(),
            ttl: identity.ttl,
            ride: None,
            carry: Carry::Replace(identity.about.clone()),
            patience: Patience::Try,
        };
        let (bid, end) = self.lend(now, Part::Session, |ctx| Bid::start(goal, ctx));
        self.after_session_bid(now, bid, end);
    }

    /// What the session's record says about this process, from now on.
    pub(crate) fn announce(&mut self, now: Now, about: Metadata) {
        let old = std::mem::replace(&mut self.desk.identity.about, about);
        self.session.former.get_or_insert(old);
        self.session.announcing = true;
        if matches!(self.session.state, State::Up(_)) {
            self.write_about(now);
        }
    }

    /// Has the session's record say what was announced last, unless it does.
    fn write_about(&mut self, now: Now) {
        let state = std::mem::replace(&mut self.session.state, State::Down);
        let State::Up(mut hold) = state else {
            self.session.state = state;
            return;
        };
        if hold.metadata != self.desk.identity.about || hold.is_updating() {
            let about = self.desk.identity.about.clone();
            self.lend_to_session(now, &mut hold, |hold, ctx| hold.update(ctx, about));
            self.set_wake(Part::Session, Some(hold.wake_at()));
        } else {
            self.announced();
        }
        self.session.state = State::Up(hold);
    }

    fn announced(&mut self) {
        self.session.former = None;
        if std::mem::take(&mut self.session.announcing) {
            self.tell(Notice::Announced);
        }
    }

    /// What was announced can't be written: what was said before stays, and the session with it.
    fn not_announced(&mut self, error: StoreError) {
        if let Some(former) = self.session.former.take() {
            self.desk.identity.about = former;
        }
        self.session.announcing = false;
        self.tell(Notice::NotAnnounced(error));
    }

    pub(crate) fn wake_session(&mut self, now: Now) {
        match std::mem::replace(&mut self.session.state, State::Down) {
            State::Down => {
                self.set_wake(Part::Session, None);
                if !self.queued.is_empty() {
                    self.want_session(now);
                }
            }
            State::Bidding(mut bid) => {
                let end = self.lend(now, Part::Session, |ctx| bid.wake(ctx, Cue::Time));
                self.after_session_bid(now, *bid, end);
            }
            State::Up(mut hold) => {
                let mut out = Vec::new();
                self.lend_to_session(now, &mut hold, |hold, ctx| hold.wake(ctx, &mut out));
                self.after_beat(now, hold, out);
            }
            State::Leaving(mut edit) => {
                self.lend(now, Part::Session, |ctx| edit.wake(ctx));
                self.set_wake(Part::Session, edit.wake_at());
                self.session.state = State::Leaving(edit);
            }
            State::Gone => self.session.state = State::Gone,
        }
    }

    pub(crate) fn answer_session(&mut self, now: Now, op: OpId, result: Result<Answer, StoreError>) {
        match std::mem::replace(&mut self.session.state, State::Down) {
            State::Bidding(mut bid) => {
                let end = self.lend(now, Part::Session, |ctx| bid.answer(ctx, op, result));
                self.after_session_bid(now, *bid, end);
            }
            State::Up(mut hold) => {
                let mut out = Vec::new();
                self.lend_to_session(now, &mut hold, |hold, ctx| hold.answer(ctx, op, result, &mut out));
                self.after_beat(now, hold, out);
            }
            State::Leaving(mut edit) => {
                match self.lend(now, Part::Session, |ctx| edit.answer(ctx, op, result)) {
                    Some(_) => self.session_gone(),
                    None => {
                        self.set_wake(Part::Session, edit.wake_at());
                        self.session.state = State::Leaving(edit);
                    }
                }
            }
            state => self.session.state = state,
        }
    }

    fn lend_to_session(
        &mut self,
        now: Now,
        hold: &mut Hold,
        f: impl FnOnce(&mut Hold, &mut crate::ctx::Ctx<'_>),
    ) {
        self.lend(now, Part::Session, |ctx| f(hold, ctx));
    }

    fn after_session_bid(&mut self, now: Now, bid: Bid, end: Option<BidEnd>) {
        let Some(end) = end else {
            self.set_wake(Part::Session, bid.wake_at());
            self.session.state = State::Bidding(Box::new(bid));
            return;
        };
        let (key, ttl) = (bid.key().clone(), bid.goal().ttl);
        match end {
            BidEnd::Won(won) => {
                let hold = self.lend(now, Part::Session, |ctx| Hold::new(key, ttl, won, ctx));
                self.session.failures = 0;
                self.set_wake(Part::Session, Some(hold.wake_at()));
                self.tell(Notice::SessionValid(hold.valid_until()));
                self.session.state = State::Up(Box::new(hold));
                // It was claimed with what was known then.
                if self.session.announcing {
                    self.write_about(now);
                }
                for id in std::mem::take(&mut self.queued) {
                    self.unqueue(now, id);
                }
            }
            BidEnd::Failed(error) if error.kind() == ErrorKind::Invalid && self.session.former.is_some() => {
                self.session.state = State::Down;
                self.not_announced(error);
                self.want_session(now);
            }
            BidEnd::Failed(error) => self.session_failed(now, error),
            BidEnd::Held(by) => {
                let by = by.map_or_else(String::new, |by| format!(" by {}", by.holder));
                let text = format!("the session key {key} is held{by}; give each process its own holder id");
                self.session_failed(now, StoreError::invalid(text));
            }
            BidEnd::Absent | BidEnd::Dropped => self.session.state = State::Down,
        }
    }

    fn unqueue(&mut self, now: Now, id: LeaseId) {
        if let Some(Lease::Queued(mut goal)) = self.leases.remove(&id) {
            goal.ride = self.session.ride(&self.desk.identity.session);
            self.bid(now, id, *goal);
        }
    }

    /// The session can't be begun now. Who only tries is told; who waits, waits on.
    fn session_failed(&mut self, now: Now, error: StoreError) {
        self.session.state = State::Down;
        self.session.failures += 1;
        for id in std::mem::take(&mut self.queued) {
            let waits = match self.leases.get(&id) {
                Some(Lease::Queued(goal)) => match goal.patience {
                    Patience::Try => false,
                    // Whose time is over has been told so before this.
                    Patience::Until(_)
                    | Patience::Forever
                    | Patience::Follow { .. }
                    | Patience::Watch { .. } => true,
                },
                _ => continue,
            };
            if waits && error.is_passing() {
                self.queued.insert(id);
            } else {
                self.leases.remove(&id);
                self.set_wake(Part::Lease(id.0), None);
                self.tell(Notice::Failed(id, error.clone()));
            }
        }
        let failures = self.session.failures;
        let ttl = self.desk.identity.ttl;
        let retry = self.lend(now, Part::Session, |ctx| ctx.retry_at(ttl, failures));
        self.set_wake(Part::Session, (!self.queued.is_empty()).then_some(retry));
    }

    fn after_beat(&mut self, now: Now, hold: Box<Hold>, out: Vec<Held>) {
        self.set_wake(Part::Session, Some(hold.wake_at()));
        let key = hold.key.clone();
        self.session.state = State::Up(hold);
        for held in out {
            match held {
                Held::Extended(until) => {
                    self.tell(Notice::SessionValid(until));
                    if self.desk.rules.bugs.has(Bug::RenewEachRider) {
                        self.renew_each_rider(now);
                    }
                    self.audit(now);
                }
                Held::Suspended => self.tell(Notice::SessionValid(Tick(0))),
                Held::Mail(letters) => self.sort_mail(now, letters),
                Held::Updated => self.announced(),
                Held::Refused(error) => self.not_announced(error),
                Held::Lost(loss) => {
                    self.session.state = State::Down;
                    self.desk.vigils.end(&key);
                    self.set_wake(Part::Session, None);
                    self.session_lost(now, &loss);
                    return;
                }
            }
        }
    }

    /// Everything that rode on the session ends; what was still bidding begins again on the next one.
    fn session_lost(&mut self, now: Now, loss: &Loss) {
        if !self.desk.rules.bugs.has(Bug::RiderOutlivesSession) {
            self.tell(Notice::SessionValid(Tick(0)));
        }
        self.loose.clear();
        let riding: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.rides()).map(|(id, _)| id).collect();
        self.leave_lines(now, &riding);
        for id in riding {
            let Some(lease) = self.leases.remove(&id) else { continue };
            self.set_wake(Part::Lease(id.0), None);
            self.end_with_session(now, id, lease, loss);
        }
    }

    fn sort_mail(&mut self, now: Now, letters: Vec<Letter>) {
        for letter in letters {
            if letter.ask == Ask::Take {
                self.tell(Notice::Given(letter.key));
                continue;
            }
            // One that was lost unawares, or is being given up, may still be there beside the one that the letter is about.
            let riding = self.leases.iter().filter(|(_, lease)| lease.rides_for(&letter.key));
            let riding: Vec<LeaseId> = riding.map(|(id, _)| id).collect();
            for id in &riding {
                self.heed_letter(*id, letter.ask);
            }
            if letter.ask == Ask::Revoke {
                self.withdraw_bids(now, &letter.key);
            }
            if !riding.is_empty() {
                continue;
            }
            match letter.ask {
                Ask::Confirm if letter.key == self.desk.identity.session => {}
                ask if letter.key == self.desk.identity.session => self.tell(Notice::SessionAsked(ask)),
                _ => self.tie_up(now, letter.key),
            }
        }
    }

    fn heed_letter(&mut self, id: LeaseId, ask: Ask) {
        if ask == Ask::Revoke {
            self.revoke_rider(id);
        }
        // Of one that is left to expire, its user has heard the last.
        if ask != Ask::Confirm && !matches!(self.leases.get(&id), Some(Lease::Lapsing(_))) {
            self.tell(Notice::Asked(id, ask));
        }
        if ask != Ask::Confirm
            && let Some(Lease::Riding(rider)) = self.leases.get(&id)
        {
            self.turns.asked(rider.key());
        }
    }

    /// What was claimed for `key` and not answered yet may stand in the store already, and be what is withdrawn.
    fn withdraw_bids(&mut self, now: Now, key: &Key) {
        for id in self.bidding.iter().copied().collect::<Vec<_>>() {
            if let Some(Lease::Bidding(bid)) = self.leases.get_mut(&id)
                && bid.key() == key
                && bid.goal().ride.is_some()
            {
                bid.withdraw(now.held);
            }
        }
    }

    /// The last act of a stop.
    pub(crate) fn leave_session(&mut self, now: Now) {
        match std::mem::replace(&mut self.session.state, State::Gone) {
            State::Down | State::Bidding(_) => self.session_gone(),
            State::Up(hold) if self.lapsing > 0 && !self.desk.rules.bugs.has(Bug::StopVacatesSession) => {
                // Something that rides on it could not be ended for certain: let it all expire together.
                drop(hold);
                self.session_gone();
            }
            State::Up(hold) => {
                let until = now.held.after(hold.ttl.duration());
                self.tell(Notice::SessionValid(Tick(0)));
                let token = Token {
                    key: hold.key,
                    fence: hold.fence,
                    id: hold.id,
                    version: hold.version,
                    holder: self.desk.identity.holder.clone(),
                    ttl: hold.ttl,
                    since: hold.since,
                    metadata: hold.metadata,
                };
                let edit = self.start_edit(now, Part::Session, token, Change::Vacate, until, false);
                self.set_wake(Part::Session, edit.wake_at());
                self.session.state = State::Leaving(Box::new(edit));
            }
            state => self.session.state = state,
        }
    }

    fn session_gone(&mut self) {
        self.session.state = State::Gone;
        self.loose.clear();
        self.rest();
        self.tell(Notice::SessionValid(Tick(0)));
        self.tell(Notice::Stopped);
    }
}
