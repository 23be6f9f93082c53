//! The session: a lease on the process's own name, that its other leases are attached to.
//!
//! It begins when the first attached lease wants it. When it is lost, everything that is attached to it is lost with it; the
//! next lease that wants one begins a new tenure of it, with a higher fence, so that nothing old is attached to it by accident.

use crate::bugs::Bug;
use crate::holder::Holder;
use crate::holder::acquisition::{Acquisition, AcquisitionEnd, Goal, MetadataPolicy, WaitPolicy, Wakeup};
use crate::holder::command::LeaseId;
use crate::holder::ctx::Part;
use crate::holder::lease::Lease;
use crate::holder::notice::Notice;
use crate::holder::renewal::{Held, Loss, Renewal};
use crate::holder::update::{Change, Token, Update};
use crate::op::{Answer, OpId};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::{Ask, Attachment, Letter};
use crate::values::time::{Now, Tick};

/// What the session is doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Down,
    Acquiring(Box<Acquisition>),
    Up(Box<Renewal>),
    Leaving(Box<Update>),
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
    /// What a new lease would be attached to.
    pub(crate) fn attachment(&self, key: &Key) -> Option<Attachment> {
        match &self.state {
            State::Up(renewal) => Some(Attachment { session: key.clone(), fence: renewal.fence }),
            _ => None,
        }
    }

    /// Until when the session, and what is attached to it, is believed.
    pub(crate) fn valid_until(&self) -> Tick {
        if let State::Up(renewal) = &self.state { renewal.valid_until() } else { Tick(0) }
    }
}

impl Holder {
    /// Begins the session unless it is up or on its way.
    pub(crate) fn want_session(&mut self, now: Now) {
        if !matches!(self.session.state, State::Down) || self.stopping {
            return;
        }
        let identity = &self.env.identity;
        let goal = Goal {
            key: identity.session.clone(),
            ttl: identity.ttl,
            attachment: None,
            metadata_policy: MetadataPolicy::Replace(identity.about.clone()),
            wait_policy: WaitPolicy::Try,
        };
        let (acquisition, end) = self.lend(now, Part::Session, |ctx| Acquisition::start(goal, ctx));
        self.after_session_acquisition(now, acquisition, end);
    }

    /// What the session's record says about this process, from now on.
    pub(crate) fn announce(&mut self, now: Now, about: Metadata) {
        let old = std::mem::replace(&mut self.env.identity.about, about);
        self.session.former.get_or_insert(old);
        self.session.announcing = true;
        if matches!(self.session.state, State::Up(_)) {
            self.write_about(now);
        }
    }

    /// Has the session's record say what was announced last, unless it does.
    fn write_about(&mut self, now: Now) {
        let state = std::mem::replace(&mut self.session.state, State::Down);
        let State::Up(mut renewal) = state else {
            self.session.state = state;
            return;
        };
        if renewal.metadata != self.env.identity.about || renewal.is_updating() {
            let about = self.env.identity.about.clone();
            self.lend_to_session(now, &mut renewal, |renewal, ctx| renewal.update(ctx, about));
            self.set_wake(Part::Session, Some(renewal.wake_at()));
        } else {
            self.announced();
        }
        self.session.state = State::Up(renewal);
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
            self.env.identity.about = former;
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
            State::Acquiring(mut acquisition) => {
                let end = self.lend(now, Part::Session, |ctx| acquisition.wake(ctx, Wakeup::Time));
                self.after_session_acquisition(now, *acquisition, end);
            }
            State::Up(mut renewal) => {
                let mut out = Vec::new();
                self.lend_to_session(now, &mut renewal, |renewal, ctx| renewal.wake(ctx, &mut out));
                self.after_heartbeat(now, renewal, out);
            }
            State::Leaving(mut update) => {
                self.lend(now, Part::Session, |ctx| update.wake(ctx));
                self.set_wake(Part::Session, update.wake_at());
                self.session.state = State::Leaving(update);
            }
            State::Gone => self.session.state = State::Gone,
        }
    }

    pub(crate) fn answer_session(&mut self, now: Now, op: OpId, result: Result<Answer, StoreError>) {
        match std::mem::replace(&mut self.session.state, State::Down) {
            State::Acquiring(mut acquisition) => {
                let end = self.lend(now, Part::Session, |ctx| acquisition.answer(ctx, op, result));
                self.after_session_acquisition(now, *acquisition, end);
            }
            State::Up(mut renewal) => {
                let mut out = Vec::new();
                self.lend_to_session(now, &mut renewal, |renewal, ctx| {
                    renewal.answer(ctx, op, result, &mut out)
                });
                self.after_heartbeat(now, renewal, out);
            }
            State::Leaving(mut update) => {
                match self.lend(now, Part::Session, |ctx| update.answer(ctx, op, result)) {
                    Some(_) => self.session_gone(),
                    None => {
                        self.set_wake(Part::Session, update.wake_at());
                        self.session.state = State::Leaving(update);
                    }
                }
            }
            state => self.session.state = state,
        }
    }

    fn lend_to_session(
        &mut self,
        now: Now,
        renewal: &mut Renewal,
        f: impl FnOnce(&mut Renewal, &mut crate::holder::ctx::Ctx<'_>),
    ) {
        self.lend(now, Part::Session, |ctx| f(renewal, ctx));
    }

    fn after_session_acquisition(&mut self, now: Now, acquisition: Acquisition, end: Option<AcquisitionEnd>) {
        let Some(end) = end else {
            self.set_wake(Part::Session, acquisition.wake_at());
            self.session.state = State::Acquiring(Box::new(acquisition));
            return;
        };
        let (key, ttl) = (acquisition.key().clone(), acquisition.goal().ttl);
        match end {
            AcquisitionEnd::Won(won) => {
                let renewal = self.lend(now, Part::Session, |ctx| Renewal::new(key, ttl, won, ctx));
                self.session.failures = 0;
                self.set_wake(Part::Session, Some(renewal.wake_at()));
                self.tell(Notice::SessionValid(renewal.valid_until()));
                self.session.state = State::Up(Box::new(renewal));
                // It was claimed with what was known then.
                if self.session.announcing {
                    self.write_about(now);
                }
                for id in std::mem::take(&mut self.queued) {
                    self.unqueue(now, id);
                }
            }
            AcquisitionEnd::Failed(error)
                if error.kind() == ErrorKind::Invalid && self.session.former.is_some() =>
            {
                self.session.state = State::Down;
                self.not_announced(error);
                self.want_session(now);
            }
            AcquisitionEnd::Failed(error) => self.session_failed(now, error),
            AcquisitionEnd::Held(by) => {
                let by = by.map_or_else(String::new, |by| format!(" by {}", by.holder));
                let text = format!("the session key {key} is held{by}; give each process its own holder id");
                self.session_failed(now, StoreError::invalid(text));
            }
            AcquisitionEnd::Absent | AcquisitionEnd::Dropped => self.session.state = State::Down,
        }
    }

    fn unqueue(&mut self, now: Now, id: LeaseId) {
        if let Some(Lease::Queued(mut goal)) = self.leases.remove(&id) {
            goal.attachment = self.session.attachment(&self.env.identity.session);
            self.acquisition(now, id, *goal);
        }
    }

    /// The session can't be begun now. Who only tries is told; who waits, waits on.
    fn session_failed(&mut self, now: Now, error: StoreError) {
        self.session.state = State::Down;
        self.session.failures += 1;
        for id in std::mem::take(&mut self.queued) {
            let waits = match self.leases.get(&id) {
                Some(Lease::Queued(goal)) => match goal.wait_policy {
                    WaitPolicy::Try => false,
                    // Whose time is over has been told so before this.
                    WaitPolicy::Until(_)
                    | WaitPolicy::Forever
                    | WaitPolicy::Follow { .. }
                    | WaitPolicy::Watch { .. } => true,
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
        let ttl = self.env.identity.ttl;
        let retry = self.lend(now, Part::Session, |ctx| ctx.retry_at(ttl, failures));
        self.set_wake(Part::Session, (!self.queued.is_empty()).then_some(retry));
    }

    fn after_heartbeat(&mut self, now: Now, renewal: Box<Renewal>, out: Vec<Held>) {
        self.set_wake(Part::Session, Some(renewal.wake_at()));
        let key = renewal.key.clone();
        self.session.state = State::Up(renewal);
        for held in out {
            match held {
                Held::Extended(until) => {
                    self.tell(Notice::SessionValid(until));
                    if self.env.rules.bugs.has(Bug::RenewEachAttached) {
                        self.renew_each_attached(now);
                    }
                    self.audit(now);
                }
                Held::Suspended => self.tell(Notice::SessionValid(Tick(0))),
                Held::Mail(letters) => self.sort_mail(now, letters),
                Held::Updated => self.announced(),
                Held::Refused(error) => self.not_announced(error),
                Held::Lost(loss) => {
                    self.session.state = State::Down;
                    self.env.detector.end(&key);
                    self.set_wake(Part::Session, None);
                    self.session_lost(now, &loss);
                    return;
                }
            }
        }
    }

    /// Everything that was attached to the session ends; what was still being acquired begins again on the next one.
    fn session_lost(&mut self, now: Now, loss: &Loss) {
        if !self.env.rules.bugs.has(Bug::AttachedOutlivesSession) {
            self.tell(Notice::SessionValid(Tick(0)));
        }
        self.orphans.clear();
        let attached: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.is_attached()).map(|(id, _)| id).collect();
        self.leave_lines(now, &attached);
        for id in attached {
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
            let attached = self.leases.iter().filter(|(_, lease)| lease.is_attached_for(&letter.key));
            let attached: Vec<LeaseId> = attached.map(|(id, _)| id).collect();
            for id in &attached {
                self.on_letter(*id, letter.ask);
            }
            if letter.ask == Ask::Revoke {
                self.withdraw_acquisitions(now, &letter.key);
            }
            if !attached.is_empty() {
                continue;
            }
            match letter.ask {
                Ask::Confirm if letter.key == self.env.identity.session => {}
                ask if letter.key == self.env.identity.session => self.tell(Notice::SessionAsked(ask)),
                _ => self.settle_orphan(now, letter.key),
            }
        }
    }

    fn on_letter(&mut self, id: LeaseId, ask: Ask) {
        if ask == Ask::Revoke {
            self.revoke_attached(id);
        }
        // Of one that is left to expire, its user has heard the last.
        if ask != Ask::Confirm && !matches!(self.leases.get(&id), Some(Lease::Lapsing(_))) {
            self.tell(Notice::Asked(id, ask));
        }
        if ask != Ask::Confirm
            && let Some(Lease::Attached(attached)) = self.leases.get(&id)
        {
            self.turns.asked(attached.key());
        }
    }

    /// What was claimed for `key` and not answered yet may stand in the store already, and be what is withdrawn.
    fn withdraw_acquisitions(&mut self, now: Now, key: &Key) {
        for id in self.acquiring.iter().copied().collect::<Vec<_>>() {
            if let Some(Lease::Acquiring(acquisition)) = self.leases.get_mut(&id)
                && acquisition.key() == key
                && acquisition.goal().attachment.is_some()
            {
                acquisition.withdraw(now.held);
            }
        }
    }

    /// The last act of a stop.
    pub(crate) fn leave_session(&mut self, now: Now) {
        match std::mem::replace(&mut self.session.state, State::Gone) {
            State::Down | State::Acquiring(_) => self.session_gone(),
            State::Up(renewal) if self.lapsing > 0 && !self.env.rules.bugs.has(Bug::StopVacatesSession) => {
                // Something that is attached to it could not be ended for certain: let it all expire together.
                drop(renewal);
                self.session_gone();
            }
            State::Up(renewal) => {
                let until = now.held.after(renewal.ttl.duration());
                self.tell(Notice::SessionValid(Tick(0)));
                let token = Token {
                    key: renewal.key,
                    fence: renewal.fence,
                    id: renewal.id,
                    version: renewal.version,
                    holder: self.env.identity.holder.clone(),
                    ttl: renewal.ttl,
                    since: renewal.since,
                    metadata: renewal.metadata,
                };
                let update = self.start_update(now, Part::Session, token, Change::Vacate, until, false);
                self.set_wake(Part::Session, update.wake_at());
                self.session.state = State::Leaving(Box::new(update));
            }
            state => self.session.state = state,
        }
    }

    fn session_gone(&mut self) {
        self.session.state = State::Gone;
        self.orphans.clear();
        self.rest();
        self.tell(Notice::SessionValid(Tick(0)));
        self.tell(Notice::Stopped);
    }
}
