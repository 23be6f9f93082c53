//! The session: a lease on the process's own name, to which its other leases are attached.
//!
//! It is **down** until something wants it. Then it is **acquired** like any key. While it is **up** it renews itself and all leases
//! attached to it; its record has the process's announcements. A stop vacates the record: the session is **leaving** until the
//! outcome is known, and then **gone** for good. A lost session is down again. Its next tenure has a higher fence, so that no old
//! lease is attached to it by accident.
//!
//! A session knows nothing of leases. A step ends with [`Outcome`]s; `on_session` applies them to the holder.

use crate::holder::acquisition::{Acquisition, AcquisitionEnd, Goal, MetadataPolicy, WaitPolicy, Wakeup};
use crate::holder::ctx::Ctx;
use crate::holder::renewal::{Held, Loss, Renewal};
use crate::holder::update::{Change, Update};
use crate::op::{Answer, OpId};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Letter};
use crate::values::time::{Tick, Ttl};

/// What the session is doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Down,
    Acquiring(Box<Acquisition>),
    Up(Box<Renewal>),
    Leaving(Box<Update>),
    Gone,
}

/// What a step of the session came to, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
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
    state: State,
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
        let (state, retry_at) = (State::Down, None);
        Session { key, ttl, about, state, failures: 0, retry_at, announcing: false, former: None }
    }

    /// What a new lease would be attached to.
    pub(crate) fn attachment(&self) -> Option<Attachment> {
        match &self.state {
            State::Up(renewal) => Some(Attachment { session: self.key.clone(), fence: renewal.fence }),
            _ => None,
        }
    }

    /// Until when the session, and what is attached to it, is believed.
    pub(crate) fn valid_until(&self) -> Tick {
        if let State::Up(renewal) = &self.state { renewal.valid_until() } else { Tick(0) }
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state, State::Down)
    }

    /// When to come back if nothing happens.
    pub(crate) fn wake_at(&self) -> Option<Tick> {
        match &self.state {
            State::Down => self.retry_at,
            State::Acquiring(acquisition) => acquisition.wake_at(),
            State::Up(renewal) => Some(renewal.wake_at()),
            State::Leaving(update) => update.wake_at(),
            State::Gone => None,
        }
    }

    /// Begins, unless it is up or on its way.
    pub(crate) fn begin(&mut self, ctx: &mut Ctx<'_>) -> Vec<Outcome> {
        if !self.is_down() {
            return Vec::new();
        }
        let goal = Goal {
            key: self.key.clone(),
            ttl: self.ttl,
            attachment: None,
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
    pub(crate) fn announce(&mut self, ctx: &mut Ctx<'_>, about: Metadata) -> Vec<Outcome> {
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
            State::Up(renewal) if renewal.is_updating() => return false,
            State::Up(renewal) => renewal.metadata = about.clone(),
            State::Acquiring(_) => return false,
            State::Down | State::Leaving(_) | State::Gone => {}
        }
        self.about = about;
        true
    }

    /// Its time has come. One that is down is begun by whoever wants it.
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_>) -> Vec<Outcome> {
        match std::mem::replace(&mut self.state, State::Down) {
            State::Down => {
                self.retry_at = None;
                Vec::new()
            }
            State::Acquiring(mut acquisition) => {
                let end = acquisition.wake(ctx, Wakeup::Time);
                self.acquiring(ctx, acquisition, end)
            }
            State::Up(mut renewal) => {
                let mut out = Vec::new();
                renewal.wake(ctx, &mut out);
                self.renewed(ctx, renewal, out)
            }
            State::Leaving(mut update) => {
                update.wake(ctx);
                self.state = State::Leaving(update);
                Vec::new()
            }
            State::Gone => {
                self.state = State::Gone;
                Vec::new()
            }
        }
    }

    pub(crate) fn answer(
        &mut self,
        ctx: &mut Ctx<'_>,
        op: OpId,
        result: Result<Answer, StoreError>,
    ) -> Vec<Outcome> {
        match std::mem::replace(&mut self.state, State::Down) {
            State::Acquiring(mut acquisition) => {
                let end = acquisition.answer(ctx, op, result);
                self.acquiring(ctx, acquisition, end)
            }
            State::Up(mut renewal) => {
                let mut out = Vec::new();
                renewal.answer(ctx, op, result, &mut out);
                self.renewed(ctx, renewal, out)
            }
            State::Leaving(mut update) => {
                if update.answer(ctx, op, result).is_some() {
                    self.state = State::Gone;
                    return vec![Outcome::Gone];
                }
                self.state = State::Leaving(update);
                Vec::new()
            }
            state @ (State::Down | State::Gone) => {
                self.state = state;
                Vec::new()
            }
        }
    }

    /// The last act of a stop: its record is vacated, or left to expire together with what is attached to it.
    pub(crate) fn leave(&mut self, ctx: &mut Ctx<'_>, lapses: bool) -> Vec<Outcome> {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Up(renewal) if !lapses => {
                let until = ctx.now.held.after(renewal.ttl.duration());
                let update = Update::start(renewal.token(ctx.holder), None, Change::Vacate, until, ctx);
                self.state = State::Leaving(Box::new(update));
                vec![Outcome::Suspended]
            }
            State::Down | State::Acquiring(_) | State::Up(_) => vec![Outcome::Gone],
            state @ (State::Leaving(_) | State::Gone) => {
                self.state = state;
                Vec::new()
            }
        }
    }

    /// Has the record say what was announced last, unless it does, or the session is not up.
    fn write_about(&mut self, ctx: &mut Ctx<'_>) -> Option<Outcome> {
        let State::Up(renewal) = &mut self.state else { return None };
        if renewal.metadata != self.about || renewal.is_updating() {
            renewal.update(ctx, self.about.clone());
            return None;
        }
        self.announced()
    }

    fn announced(&mut self) -> Option<Outcome> {
        self.former = None;
        std::mem::take(&mut self.announcing).then_some(Outcome::Announced)
    }

    fn not_announced(&mut self, error: StoreError) -> Outcome {
        if let Some(former) = self.former.take() {
            self.about = former;
        }
        self.announcing = false;
        Outcome::NotAnnounced(error)
    }

    fn acquiring(
        &mut self,
        ctx: &mut Ctx<'_>,
        acquisition: Box<Acquisition>,
        end: Option<AcquisitionEnd>,
    ) -> Vec<Outcome> {
        let Some(end) = end else {
            self.state = State::Acquiring(acquisition);
            return Vec::new();
        };
        (self.state, self.retry_at) = (State::Down, None);
        match end {
            AcquisitionEnd::Won(won) => {
                let renewal = Renewal::new(self.key.clone(), self.ttl, won, ctx);
                self.failures = 0;
                let began = Outcome::Began(renewal.valid_until());
                self.state = State::Up(Box::new(renewal));
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

    fn failed(&mut self, error: StoreError) -> Vec<Outcome> {
        self.failures += 1;
        vec![Outcome::Failed(error)]
    }

    fn renewed(&mut self, ctx: &mut Ctx<'_>, renewal: Box<Renewal>, out: Vec<Held>) -> Vec<Outcome> {
        self.state = State::Up(renewal);
        let mut outcomes = Vec::new();
        for held in out {
            outcomes.extend(match held {
                Held::Extended(until) => Some(Outcome::Extended(until)),
                Held::Suspended => Some(Outcome::Suspended),
                Held::Mail(letters) => Some(Outcome::Mail(letters)),
                Held::Updated => self.announced(),
                Held::Refused(error) => Some(self.not_announced(error)),
                Held::Lost(loss) => {
                    (self.state, self.retry_at) = (State::Down, None);
                    ctx.detector.end(&self.key);
                    outcomes.push(Outcome::Lost(loss));
                    return outcomes;
                }
            });
        }
        outcomes
    }
}
