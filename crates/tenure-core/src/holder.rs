//! One process instance: its session, the leases that are attached to it, and those that renew themselves.
//!
//! This is the machine behind the library's `Leases`. It passes events to its parts and turns their outcomes into
//! notices. The parts are in `acquisition` (getting), `renewal` (keeping), `update` (changing and giving up), `session` and `orphans`.

pub(crate) mod acquisition;
mod audit;
#[cfg(feature = "bugs")]
mod bugs;
pub(crate) mod command;
pub(crate) mod ctx;
pub(crate) mod failure_detector;
mod judgement;
pub(crate) mod lease;
pub(crate) mod lease_id;
pub(crate) mod loss;
pub(crate) mod notice;
mod on_session;
mod orphans;
mod permits;
pub(crate) mod renewal;
pub(crate) mod seizure;
mod session;
pub(crate) mod table;
mod turns;
pub(crate) mod update;

use crate::bugs::Bug;
use crate::holder::acquisition::Wakeup;
use crate::holder::audit::Audit;
use crate::holder::command::Command;
use crate::holder::ctx::{Ctx, OpOwner};
use crate::holder::failure_detector::FailureDetector;
use crate::holder::lease::{LeaseState, UpdatePurpose};
use crate::holder::lease_id::LeaseId;
use crate::holder::notice::Notice;
use crate::holder::orphans::Orphans;
use crate::holder::permits::Semaphores;
use crate::holder::session::Session;
use crate::holder::table::LeaseMap;
use crate::holder::turns::Turns;
use crate::holder::update::Fields;
use crate::op::{Answer, Event, Hint, Machine, OpId, Request, Step};
use crate::rules::Rules;
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce, Nonces};
use crate::values::key::{HolderId, Key};
use crate::values::metadata::Metadata;
use crate::values::time::{Now, Tick, Ttl};
use std::collections::{BTreeMap, BTreeSet};

/// Who a holder is and what it goes by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its id, unique for each start.
    pub holder: HolderId,
    /// The key of its session.
    pub session: Key,
    /// The session's ttl.
    pub ttl: Ttl,
    /// Metadata of the session's record, for people: a host name, a process id.
    pub about: Metadata,
    /// 64 random bits for this process start.
    pub instance: u64,
}

/// What all parts share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Env {
    identity: Identity,
    rules: Rules,
    nonces: Nonces,
    detector: FailureDetector,
    ops: BTreeMap<OpId, OpOwner>,
    last_op: u64,
    requests: Vec<Request>,
    notices: Vec<Notice>,
}

/// The machine of one process instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    env: Env,
    pub(crate) session: Session,
    pub(crate) leases: LeaseMap<LeaseState>,
    pub(crate) orphans: Orphans,
    pub(crate) audit: Audit,
    /// Leases that wait for the session to be up.
    pub(crate) queued: BTreeSet<LeaseId>,
    /// Leases that are being got, by their keys: a busy store tells of many keys that nobody waits for here.
    pub(crate) acquiring: BTreeSet<(Key, LeaseId)>,
    /// Those of them that wait for somebody else's end.
    waiting: BTreeSet<LeaseId>,
    pub(crate) turns: Turns,
    pub(crate) permits: Semaphores,
    /// Leases that were left to expire while the session goes on renewing: a stop must not vacate the session before that.
    pub(crate) lapsing: u32,
    pub(crate) stopping: bool,
    timers: BTreeSet<(Tick, OpOwner)>,
    wakes: BTreeMap<OpOwner, Tick>,
}

impl Machine for Holder {
    type Command = Command;
    type Notice = Notice;

    fn step(&mut self, mut now: Now, event: Event<Command>) -> Step<Notice> {
        if self.env.rules.bugs.has(Bug::HolderMissesSuspend) {
            now.held = now.waited;
        }
        self.env.detector.see_clocks(now);
        // Deadlines first: whatever else came, a lease whose time is over is over.
        self.wake_due(now);
        match event {
            Event::Command(command) => self.command(now, command),
            Event::Answer(op, result) => self.answer(now, op, result),
            Event::Changed(hint) => self.changed(now, &hint),
            Event::Wake => {}
        }
        if self.stopping {
            self.go_on_stopping(now);
        }
        Step {
            requests: std::mem::take(&mut self.env.requests),
            notices: std::mem::take(&mut self.env.notices),
            wake_at: self.timers.first().map(|(tick, _)| *tick),
        }
    }

    fn listens(&self) -> bool {
        !self.waiting.is_empty() || self.permits.listens()
    }
}

impl Holder {
    /// A holder that holds nothing yet.
    #[must_use]
    pub fn new(identity: Identity, rules: Rules) -> Holder {
        let nonces = Nonces::new(identity.instance);
        let Identity { session, ttl, about, .. } = &identity;
        let (session, orphans) = (Session::new(session.clone(), *ttl, about.clone()), Orphans::new(*ttl));
        let env = Env {
            identity,
            rules,
            nonces,
            detector: FailureDetector::default(),
            ops: BTreeMap::new(),
            last_op: 0,
            requests: Vec::new(),
            notices: Vec::new(),
        };
        Holder {
            env,
            session,
            leases: LeaseMap::default(),
            orphans,
            audit: Audit::default(),
            queued: BTreeSet::new(),
            acquiring: BTreeSet::new(),
            waiting: BTreeSet::new(),
            turns: Turns::default(),
            permits: Semaphores::default(),
            lapsing: 0,
            stopping: false,
            timers: BTreeSet::new(),
            wakes: BTreeMap::new(),
        }
    }

    /// How many leases this holder has, wants, or is giving up.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.leases.len() + self.permits.len()
    }

    /// The fence of the session while it is up.
    #[must_use]
    pub fn session_fence(&self) -> Option<Fence> {
        self.session.attachment().map(|attachment| attachment.fence)
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.env.rules
    }

    /// Runs `f` for one part with everything that parts may use. A lease must be taken out of the table before: the context has the
    /// table, so that a part can tell the other leases' tenures from its own.
    pub(crate) fn lend<R>(&mut self, now: Now, part: OpOwner, f: impl FnOnce(&mut Ctx<'_>) -> R) -> R {
        f(&mut self.split(now, part).0)
    }

    /// What `part` may use while it takes a step, beside those parts that stay where they are.
    pub(crate) fn split(&mut self, now: Now, part: OpOwner) -> (Ctx<'_>, &mut Session, &mut Orphans) {
        let Holder { env, session, leases, orphans, .. } = self;
        let ctx = Ctx {
            now,
            rules: &env.rules,
            holder: &env.identity.holder,
            nonces: &mut env.nonces,
            detector: &mut env.detector,
            requests: &mut env.requests,
            ops: &mut env.ops,
            last_op: &mut env.last_op,
            part,
            session_key: &env.identity.session,
            session: session.attachment(),
            own: leases,
        };
        (ctx, session, orphans)
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.env.notices.push(notice);
    }

    /// Sets when `part` wants to be woken.
    pub(crate) fn set_wake(&mut self, part: OpOwner, at: Option<Tick>) {
        if let Some(old) = self.wakes.remove(&part) {
            self.timers.remove(&(old, part.clone()));
        }
        if let Some(at) = at {
            self.timers.insert((at, part.clone()));
            self.wakes.insert(part, at);
        }
    }

    /// Nothing is left to be woken for.
    pub(crate) fn rest(&mut self) {
        self.timers.clear();
        self.wakes.clear();
    }

    fn wake_due(&mut self, now: Now) {
        // Each part is woken at most once for a step, so that none that asks for the present tick can keep us here.
        if self.timers.first().is_none_or(|(at, _)| *at > now.held) {
            return;
        }
        let mut due: Vec<OpOwner> =
            self.timers.iter().take_while(|(at, _)| *at <= now.held).map(|(_, part)| part.clone()).collect();
        // The session first: if its time is over, so is that of all that is attached to it, and nothing is written for it.
        due.sort_unstable();
        if self.env.rules.bugs.has(Bug::AttachedBeforeSession) {
            due.reverse();
        }
        for part in due {
            match part {
                OpOwner::Session => self.wake_session(now),
                OpOwner::Lease(id) => self.wake_lease(now, id, Wakeup::Time),
                OpOwner::Orphan(key) => self.wake_orphan(now, &key),
                OpOwner::Semaphore(key) => self.wake_semaphore(now, key),
                // It goes by the session's renewals.
                OpOwner::Audit => {}
            }
        }
    }

    fn answer(&mut self, now: Now, op: OpId, result: Result<Answer, StoreError>) {
        match self.env.ops.remove(&op) {
            Some(OpOwner::Session) => self.answer_session(now, op, result),
            Some(OpOwner::Lease(id)) => self.answer_lease(now, id, op, result),
            Some(OpOwner::Orphan(key)) => self.answer_orphan(now, &key, op, result),
            Some(OpOwner::Semaphore(key)) => self.answer_semaphore(now, key, op, result),
            Some(OpOwner::Audit) => self.answer_audit(now, op, result),
            None => {}
        }
    }

    /// A hint from the store: whoever waits for this key looks at it again. If it names a version, silence is counted from now once
    /// that is what a look shows, be it of the key or of the session that its claim is attached to.
    fn changed(&mut self, now: Now, hint: &Hint) {
        if let Hint::Written(key, version) = hint {
            self.env.detector.heard(now, key, *version, &self.env.rules);
        }
        self.turns.heard(hint.key());
        self.semaphores_changed(now, hint);
        let why = match hint {
            Hint::Written(_, version) => Wakeup::Changed(Some(*version)),
            Hint::Any | Hint::Key(_) => Wakeup::Changed(None),
        };
        let waits = |id: &LeaseId| match self.leases.get(id) {
            // Who comes first is told, and goes on for all of this process.
            Some(LeaseState::Acquiring(acquisition)) => !acquisition.is_behind(),
            lease => lease.is_some(),
        };
        let mut waiting: Vec<LeaseId> = match hint.key() {
            Some(key) => self.acquiring(key).filter(waits).collect(),
            None => self.acquiring.iter().map(|(_, id)| *id).filter(waits).collect(),
        };
        // In the order in which they came.
        waiting.sort_unstable();
        for id in waiting {
            self.wake_lease(now, id, why);
        }
    }

    /// Leases for this key that are being got.
    pub(crate) fn acquiring(&self, key: &Key) -> impl Iterator<Item = LeaseId> {
        let all = self.acquiring.range((key.clone(), LeaseId(0))..=(key.clone(), LeaseId(u64::MAX)));
        all.map(|(_, id)| *id)
    }

    fn command(&mut self, now: Now, command: Command) {
        match command {
            Command::Acquire(id, _)
            | Command::Permits(id, _)
            | Command::Refresh(id, _)
            | Command::Adopt(id, _)
                if self.stopping =>
            {
                self.tell(Notice::Failed(
                    id,
                    StoreError::invalid("this holder is stopping; start another one"),
                ));
            }
            Command::Permits(id, wish) => self.acquire_permits(now, id, *wish),
            command if command.lease().is_some_and(|id| self.permits.has(id)) => {
                self.command_permits(now, command);
            }
            Command::Acquire(id, want) => self.acquire(now, id, want),
            Command::Release(id, None) => self.release(now, id, Fields::Keep),
            Command::Release(id, Some(metadata)) => self.release(now, id, Fields::Replace(metadata)),
            Command::Finish(id, metadata) => self.release(now, id, Fields::Merge(metadata)),
            Command::ReleaseNoted(id, own) => self.release(now, id, Fields::Own(own)),
            Command::Pass(id, transferee, own) => self.pass(now, id, *transferee, own),
            Command::Lapse(id) => self.lapse(now, id),
            Command::Update(id, metadata) => self.update(now, id, Fields::Replace(metadata)),
            Command::Merge(id, metadata) => self.update(now, id, Fields::Merge(metadata)),
            Command::Note(id, own) => self.update(now, id, Fields::Own(own)),
            Command::Detach(id, ttl) => self.detach(now, id, ttl),
            Command::Refresh(id, token) => self.use_token(now, id, *token, UpdatePurpose::Refresh),
            Command::Adopt(id, token) => self.use_token(now, id, *token, UpdatePurpose::Adopt),
            Command::Return(id, token) => self.use_token(now, id, *token, UpdatePurpose::Release),
            Command::Examine(id) => self.examine(now, id),
            Command::Announce(about) => self.announce(now, about),
            Command::Start => self.want_session(now),
            Command::Stop => self.stop(now),
        }
    }

    /// What a held lease's record carries, as far as is known here.
    pub(crate) fn metadata_of(&self, id: LeaseId) -> Metadata {
        self.leases.get(&id).map(LeaseState::metadata).unwrap_or_default()
    }

    /// Whether its record may still show this lease, of whose end its user has been told.
    pub(crate) fn is_given_up(&self, id: LeaseId) -> bool {
        self.leases.get(&id).is_some_and(LeaseState::is_given_up)
    }

    /// The id and the fence of the tenure that a lease is held by, if it is held and attached.
    pub(crate) fn tenure_of(&self, id: LeaseId) -> Option<(Nonce, Fence)> {
        match self.leases.get(&id)? {
            LeaseState::Attached(attached) => Some((attached.id(), attached.fence())),
            _ => None,
        }
    }

    fn stop(&mut self, now: Now) {
        self.stopping = true;
        let all: Vec<LeaseId> = self.leases.iter().map(|(id, _)| id).collect();
        for id in all {
            // Of what is being vacated already, its user has heard.
            if !self.is_given_up(id) {
                self.release(now, id, Fields::Keep);
            }
        }
        self.release_all_permits(now);
    }

    fn go_on_stopping(&mut self, now: Now) {
        if self.leases.len() == self.lapsing as usize && !self.permits.is_open() {
            self.leave_session(now);
        }
    }
}
