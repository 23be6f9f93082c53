//! The consequences of a session's outcomes for its holder, and for the attached leases.

use crate::bugs::Bug;
use crate::holder::Holder;
use crate::holder::acquisition::WaitPolicy;
use crate::holder::ctx::{Ctx, OpOwner};
use crate::holder::lease::LeaseState;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::holder::session::{Session, SessionStep};
use crate::op::{Answer, OpId};
use crate::values::error::StoreError;
use crate::values::metadata::Metadata;
use crate::values::record::{Ask, Letter};
use crate::values::time::{Now, Tick};

impl Holder {
    /// Begins the session unless it is up or on its way.
    pub(crate) fn want_session(&mut self, now: Now) {
        if !self.stopping {
            self.step_session(now, Session::begin);
        }
    }

    pub(crate) fn announce(&mut self, now: Now, about: Metadata) {
        self.step_session(now, |session, ctx| session.announce(ctx, about));
    }

    /// Has the session's next renewal say this about the process. False if it can't be said yet.
    pub(crate) fn carry(&mut self, about: Metadata) -> bool {
        self.session.carry(about)
    }

    pub(crate) fn wake_session(&mut self, now: Now) {
        let was_down = self.session.is_down();
        self.step_session(now, Session::wake);
        if was_down && (!self.queued.is_empty() || self.permits.listens()) {
            self.want_session(now);
        }
    }

    pub(crate) fn answer_session(&mut self, now: Now, op: OpId, result: Result<Answer, StoreError>) {
        self.step_session(now, |session, ctx| session.answer(ctx, op, result));
    }

    /// The last act of a stop. Where something that is attached to it could not be ended for certain, it all expires together.
    pub(crate) fn leave_session(&mut self, now: Now) {
        let lapses = (self.lapsing > 0 || self.permits.is_lapsing())
            && !self.env.rules.bugs.has(Bug::StopVacatesSession);
        self.step_session(now, |session, ctx| session.leave(ctx, lapses));
    }

    fn step_session(&mut self, now: Now, step: impl FnOnce(&mut Session, &mut Ctx<'_>) -> Vec<SessionStep>) {
        let had_session = self.session.attachment().is_some();
        let (mut ctx, session, _) = self.split(now, OpOwner::Session);
        let outcomes = step(session, &mut ctx);
        self.set_wake(OpOwner::Session, self.session.wake_at());
        for outcome in outcomes {
            self.on_session(now, outcome);
        }
        if self.session.attachment().is_some() {
            self.unqueue_all(now);
            if !had_session {
                self.permits_go_on(now);
            }
        }
    }

    fn on_session(&mut self, now: Now, outcome: SessionStep) {
        match outcome {
            SessionStep::Began(until) => self.tell(Notice::SessionValid(until)),
            SessionStep::Extended(until) => {
                self.tell(Notice::SessionValid(until));
                #[cfg(feature = "bugs")]
                self.renew_each_attached(now);
                self.audit(now);
                self.audit_permits(now);
            }
            SessionStep::Suspended => self.tell(Notice::SessionValid(Tick(0))),
            SessionStep::Mail(letters) => self.sort_mail(now, letters),
            SessionStep::Announced => self.tell(Notice::Announced),
            SessionStep::NotAnnounced(error) => {
                self.tell(Notice::NotAnnounced(error));
                self.want_session(now);
            }
            SessionStep::Failed(error) => self.session_failed(now, &error),
            SessionStep::Lost(loss) => self.session_lost(now, &loss),
            SessionStep::Gone => {
                self.orphans.clear();
                self.rest();
                self.tell(Notice::SessionValid(Tick(0)));
                self.tell(Notice::Stopped);
            }
        }
    }

    /// The leases that waited for the session are tried for.
    fn unqueue_all(&mut self, now: Now) {
        for id in std::mem::take(&mut self.queued) {
            if let Some(LeaseState::Queued(mut goal)) = self.leases.remove(&id) {
                goal.attachment = self.session.attachment();
                self.begin_acquisition(now, id, *goal);
            }
        }
    }

    /// The session can't be begun now. Who only tries is told; who waits, waits on. Where no lease would hear of it, it
    /// is told of the session itself.
    fn session_failed(&mut self, now: Now, error: &StoreError) {
        if self.queued.is_empty() && !self.permits.listens() {
            self.tell(Notice::SessionFailed(error.clone()));
        }
        for id in std::mem::take(&mut self.queued) {
            let waits = match self.leases.get(&id) {
                Some(LeaseState::Queued(goal)) => match goal.wait_policy {
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
                self.forget_wake(id);
                self.tell(Notice::Failed(id, error.clone()));
            }
        }
        self.permits_failed(now, error);
        let is_wanted = !self.queued.is_empty() || self.permits.listens();
        let (ctx, session, _) = self.split(now, OpOwner::Session);
        session.retry(&ctx, is_wanted);
        self.set_wake(OpOwner::Session, self.session.wake_at());
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
            self.forget_wake(id);
            self.end_with_session(now, id, lease, loss);
        }
        self.permits_lost(now, loss);
    }

    fn sort_mail(&mut self, now: Now, letters: Vec<Letter>) {
        for letter in letters {
            if letter.ask == Ask::Take {
                self.tell(Notice::Given(letter.key));
                continue;
            }
            if self.asked_about_permits(now, &letter.key, letter.ask) {
                continue;
            }
            // One that was lost unawares, or is being given up, may still be there beside the one that the letter is about.
            let attached = self.leases.iter().filter(|(_, lease)| lease.is_attached_for(&letter.key));
            let attached: Vec<LeaseId> = attached.map(|(id, _)| id).collect();
            let is_checked = !self.env.rules.bugs.has(Bug::LetterForAny);
            for id in &attached {
                let fence = self.leases.get(id).and_then(LeaseState::attached_fence);
                if !is_checked || fence.is_some_and(|fence| letter.concerns(fence)) {
                    self.on_letter(*id, letter.ask);
                }
            }
            if letter.ask == Ask::Revoke {
                self.withdraw_acquisitions(now, &letter);
            }
            if !attached.is_empty() {
                continue;
            }
            match letter.ask {
                ask if ask.is_question() && letter.key == self.env.identity.session => {}
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
        if !ask.is_question() && !matches!(self.leases.get(&id), Some(LeaseState::Lapsing(_))) {
            self.tell(Notice::Asked(id, ask));
        }
        if !ask.is_question()
            && let Some(LeaseState::Attached(attached)) = self.leases.get(&id)
        {
            self.turns.asked(attached.key());
        }
    }

    /// What was claimed for its key and not answered yet may stand in the store already, and be what is withdrawn.
    fn withdraw_acquisitions(&mut self, now: Now, letter: &Letter) {
        for id in self.acquiring(&letter.key).collect::<Vec<_>>() {
            if let Some(LeaseState::Acquiring(acquisition)) = self.leases.get_mut(&id)
                && acquisition.goal().attachment.is_some()
            {
                acquisition.withdraw(now.held, letter.fence);
            }
        }
    }
}
