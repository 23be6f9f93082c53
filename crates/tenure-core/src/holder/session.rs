//! The session: a lease on the process's own name, to which its other leases are attached.
//!
//! It is **down** until something wants it. Then it is **acquired** like any key. While it is **up** it renews itself and all leases
//! attached to it; its record has the process's announcements. A stop vacates the record: the session is **leaving** until the
//! outcome is known, and then **gone** for good. A lost session is down again. Its next tenure has a higher fence, whatever became
//! of its record, so that no old lease is attached to it by accident.
//!
//! A session knows nothing of leases. A step ends with [`SessionStep`]s; `on_session` applies them to the holder.

use crate::bugs::Bug;
use crate::holder::acquisition::{Acquisition, AcquisitionEnd, Goal, MetadataPolicy, WaitPolicy, Wakeup};
use crate::holder::ctx::Ctx;
use crate::holder::loss::Loss;
use crate::holder::renewal::{Renewal, RenewalStep};
use crate::holder::update::{Update, UpdateKind};
use crate::op::{Answer, OpId};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Letter};
use crate::values::time::{Tick, Ttl};

/// What the session is doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SessionState {
    Down,
    Acquiring(Box<Acquisition>),
    Up(Box<Renewal>),
    Leaving(Box<Update>),
    Gone,
}

/// What a step of the session came to, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionStep {
    /// It is up, and believed until then.
    Began(Tick),
    /// It was renewed, and is believed until then.
    Extended(Tick),
    /// It is not believed any more, or not for now: time was hidden, or it is being vacated.
    Suspended,
    Mail(Vec<Letter>),
    /// Its record shows what was announced last.
    Announced,
    /// What was announced can't be written: what was said before stays.
    NotAnnounced(StoreError),
    /// It can't be begun now.
    Failed(StoreError),
    Lost(Loss),
    /// It is gone: given up at a stop, or left to expire.
    Gone,
}

/// The session of a holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    key: Key,
    ttl: Ttl,
    /// What its record says about the process.
    about: Metadata,
    state: SessionState,
    /// The fence of its last tenure. Claims name a session by its fence: none is to be taken for one of a later tenure, though somebody deletes its
    /// record or puts an older one back, and its clock is behind.
    last: Fence,
    failures: u32,
    /// When it is begun again, while it is down and wanted.
    retry_at: Option<Tick>,
    /// Users wait to hear that its record shows what they announced last.
    announcing: bool,
    /// What was announced before that, and could be written.
    former: Option<Metadata>,
}

impl Session {
    /// One that is down.
    pub(crate) fn new(key: Key, ttl: Ttl, about: Metadata) -> Session {
        let (state, last, retry_at) = (SessionState::Down, Fence(0), None);
        Session { key, ttl, about, state, last, failures: 0, retry_at, announcing: false, former: None }
    }

    /// What a new lease would be attached to.
    pub(crate) fn attachment(&self) -> Option<Attachment> {
        match &self.state {
            SessionState::Up(renewal) => Some(Attachment { session: self.key.clone(), fence: renewal.fence }),
            _ => None,
        }
    }

    /// Until when the session, and what is attached to it, is believed.
    pub(crate) fn valid_until(&self) -> Tick {
        if let SessionState::Up(renewal) = &self.state { renewal.valid_until() } else { Tick(0) }
    }

    /// When it ends unless it is renewed, whether it is believed until then or not for now.
    pub(crate) fn deadline(&self) -> Tick {
        if let SessionState::Up(renewal) = &self.state { renewal.deadline } else { Tick(0) }
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state, SessionState::Down)
    }

    /// When to come back if nothing happens.
    pub(crate) fn wake_at(&self) -> Option<Tick> {
        match &self.state {
            SessionState::Down => self.retry_at,
            SessionState::Acquiring(acquisition) => acquisition.wake_at(),
            SessionState::Up(renewal) => Some(renewal.wake_at()),
            SessionState::Leaving(update) => update.wake_at(),
            SessionState::Gone => None,
        }
    }

    /// Begins, unless it is up or on its way.
    pub(crate) fn begin(&mut self, ctx: &mut Ctx<'_>) -> Vec<SessionStep> {
        if !self.is_down() {
            return Vec::new();
        }
        let forgets = ctx.rules.bugs.has(Bug::SessionFenceForgotten);
        let next = self.last.next(Fence(0)).unwrap_or(Fence::MAX);
        let goal = Goal {
            key: self.key.clone(),
            ttl: self.ttl,
            attachment: None,
            least: if forgets { Fence(0) } else { next },
            metadata_policy: MetadataPolicy::Replace(self.about.clone()),
            wait_policy: WaitPolicy::Try,
        };
        let (acquisition, end) = Acquisition::start(goal, ctx);
        self.acquiring(ctx, Box::new(acquisition), end)
    }

    /// After a failure it is begun again later, if something still wants it.
    pub(crate) fn retry(&mut self, ctx: &Ctx<'_>, is_wanted: bool) {
        self.retry_at = is_wanted.then(|| ctx.retry_at(self.ttl, self.failures));
    }

    /// What its record says about this process, from now on.
    pub(crate) fn announce(&mut self, ctx: &mut Ctx<'_>, about: Metadata) -> Vec<SessionStep> {
        let old = std::mem::replace(&mut self.about, about);
        self.former.get_or_insert(old);
        self.announcing = true;
        self.write_about(ctx).into_iter().collect()
    }

    /// What its record says about this process from its next renewal on; nobody waits for that. False if it can't be said yet, since
    /// something else is being written.
    pub(crate) fn carry(&mut self, about: Metadata) -> bool {
        if self.announcing || self.former.is_some() {
            return false;
        }
        match &mut self.state {
            SessionState::Up(renewal) if renewal.is_updating() => return false,
            SessionState::Up(renewal) => renewal.metadata = about.clone(),
            SessionState::Acquiring(_) => return false,
            SessionState::Down | SessionState::Leaving(_) | SessionState::Gone => {}
        }
        self.about = about;
        true
    }

    /// Its time has come. One that is down is begun by whoever wants it.
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_>) -> Vec<SessionStep> {
        match std::mem::replace(&mut self.state, SessionState::Down) {
            SessionState::Down => {
                self.retry_at = None;
                Vec::new()
            }
            SessionState::Acquiring(mut acquisition) => {
                let end = acquisition.wake(ctx, Wakeup::Time);
                self.acquiring(ctx, acquisition, end)
            }
            SessionState::Up(mut renewal) => {
                let mut out = Vec::new();
                renewal.wake(ctx, &mut out);
                self.renewed(ctx, renewal, out)
            }
            SessionState::Leaving(mut update) => {
                update.wake(ctx);
                self.state = SessionState::Leaving(update);
                Vec::new()
            }
            SessionState::Gone => {
                self.state = SessionState::Gone;
                Vec::new()
            }
        }
    }

    pub(crate) fn answer(
        &mut self,
        ctx: &mut Ctx<'_>,
        op: OpId,
        result: Result<Answer, StoreError>,
    ) -> Vec<SessionStep> {
        match std::mem::replace(&mut self.state, SessionState::Down) {
            SessionState::Acquiring(mut acquisition) => {
                let end = acquisition.answer(ctx, op, result);
                self.acquiring(ctx, acquisition, end)
            }
            SessionState::Up(mut renewal) => {
                let mut out = Vec::new();
                renewal.answer(ctx, op, result, &mut out);
                self.renewed(ctx, renewal, out)
            }
            SessionState::Leaving(mut update) => {
                if update.answer(ctx, op, result).is_some() {
                    self.state = SessionState::Gone;
                    return vec![SessionStep::Gone];
                }
                self.state = SessionState::Leaving(update);
                Vec::new()
            }
            state @ (SessionState::Down | SessionState::Gone) => {
                self.state = state;
                Vec::new()
            }
        }
    }

    /// The last act of a stop: its record is vacated, or left to expire together with what is attached to it.
    pub(crate) fn leave(&mut self, ctx: &mut Ctx<'_>, lapses: bool) -> Vec<SessionStep> {
        match std::mem::replace(&mut self.state, SessionState::Gone) {
            SessionState::Up(renewal) if !lapses => {
                let until = ctx.now.held.after(renewal.ttl.duration());
                let update = Update::start(renewal.token(ctx.holder), None, UpdateKind::Vacate, until, ctx);
                self.state = SessionState::Leaving(Box::new(update));
                vec![SessionStep::Suspended]
            }
            SessionState::Down | SessionState::Acquiring(_) | SessionState::Up(_) => vec![SessionStep::Gone],
            state @ (SessionState::Leaving(_) | SessionState::Gone) => {
                self.state = state;
                Vec::new()
            }
        }
    }

    /// Has the record say what was announced last, unless it does, or the session is not up.
    fn write_about(&mut self, ctx: &mut Ctx<'_>) -> Option<SessionStep> {
        let SessionState::Up(renewal) = &mut self.state else { return None };
        if renewal.metadata != self.about || renewal.is_updating() {
            renewal.update(ctx, self.about.clone());
            return None;
        }
        self.announced()
    }

    fn announced(&mut self) -> Option<SessionStep> {
        self.former = None;
        std::mem::take(&mut self.announcing).then_some(SessionStep::Announced)
    }

    fn not_announced(&mut self, error: StoreError) -> SessionStep {
        if let Some(former) = self.former.take() {
            self.about = former;
        }
        self.announcing = false;
        SessionStep::NotAnnounced(error)
    }

    fn acquiring(
        &mut self,
        ctx: &mut Ctx<'_>,
        acquisition: Box<Acquisition>,
        end: Option<AcquisitionEnd>,
    ) -> Vec<SessionStep> {
        let Some(end) = end else {
            self.state = SessionState::Acquiring(acquisition);
            return Vec::new();
        };
        (self.state, self.retry_at) = (SessionState::Down, None);
        match end {
            AcquisitionEnd::Won(won) => {
                let renewal = Renewal::new(self.key.clone(), self.ttl, won, ctx);
                (self.failures, self.last) = (0, renewal.fence);
                let began = SessionStep::Began(renewal.valid_until());
                self.state = SessionState::Up(Box::new(renewal));
                // It was claimed with what was known then.
                let announced = if self.announcing { self.write_about(ctx) } else { None };
                [Some(began), announced].into_iter().flatten().collect()
            }
            AcquisitionEnd::Failed(error) if error.kind() == ErrorKind::Invalid && self.former.is_some() => {
                vec![self.not_announced(error)]
            }
            AcquisitionEnd::Failed(error) => self.failed(error),
            AcquisitionEnd::Held(by) => {
                let by = by.map_or_else(String::new, |by| format!(" by {}", by.holder));
                let key = &self.key;
                let text = format!("the session key {key} is held{by}; give each process its own holder id");
                self.failed(StoreError::invalid(text))
            }
            AcquisitionEnd::Absent | AcquisitionEnd::Dropped => Vec::new(),
        }
    }

    fn failed(&mut self, error: StoreError) -> Vec<SessionStep> {
        self.failures += 1;
        vec![SessionStep::Failed(error)]
    }

    fn renewed(
        &mut self,
        ctx: &mut Ctx<'_>,
        renewal: Box<Renewal>,
        out: Vec<RenewalStep>,
    ) -> Vec<SessionStep> {
        self.state = SessionState::Up(renewal);
        let mut outcomes = Vec::new();
        for step in out {
            outcomes.extend(match step {
                RenewalStep::Extended(until) => Some(SessionStep::Extended(until)),
                RenewalStep::Suspended => Some(SessionStep::Suspended),
                RenewalStep::Mail(letters) => Some(SessionStep::Mail(letters)),
                RenewalStep::Updated => self.announced(),
                RenewalStep::Refused(error) => Some(self.not_announced(error)),
                RenewalStep::Lost(loss) => {
                    (self.state, self.retry_at) = (SessionState::Down, None);
                    ctx.detector.end(&self.key);
                    outcomes.push(SessionStep::Lost(loss));
                    return outcomes;
                }
            });
        }
        outcomes
    }
}
