//! One process instance: its session, the leases that ride on it, and those that beat for themselves.
//!
//! This is the machine behind the library's `Leases`. It sorts events to its parts and turns what they end with into
//! notices; the parts are in `bid` (getting), `hold` (keeping), `edit` (changing and giving up), `session` and `loose`.

use crate::audit::Audit;
use crate::bid::{Bid, BidEnd, Cue, Goal};
use crate::bugs::Bug;
use crate::command::{Beat, Command, LeaseId, Want};
use crate::ctx::{Ctx, Part};
use crate::edit::{Edit, Fields, Token};
use crate::error::StoreError;
use crate::fence::{Fence, Nonce, Nonces};
use crate::hold::Hold;
use crate::key::{HolderId, Key};
use crate::lease::Lease;
use crate::loose::Loose;
use crate::metadata::Metadata;
use crate::notice::Notice;
use crate::op::{Answer, Event, Hint, Machine, OpId, Request, Step};
use crate::session::Session;
use crate::table::Table;
use crate::time::{Now, Tick, Ttl};
use crate::turns::Turns;
use crate::vigil::{Rules, Vigils};
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

/// The workbench that all parts share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Desk {
    pub(crate) identity: Identity,
    pub(crate) rules: Rules,
    pub(crate) nonces: Nonces,
    pub(crate) vigils: Vigils,
    pub(crate) ops: BTreeMap<OpId, Part>,
    pub(crate) last_op: u64,
    pub(crate) requests: Vec<Request>,
    pub(crate) notices: Vec<Notice>,
}

/// The machine of one process instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    pub(crate) desk: Desk,
    pub(crate) session: Session,
    pub(crate) leases: Table<Lease>,
    pub(crate) loose: BTreeMap<Key, Loose>,
    pub(crate) audit: Audit,
    /// Leases that wait for the session to be up.
    pub(crate) queued: BTreeSet<LeaseId>,
    /// Leases that are being bid for.
    pub(crate) bidding: BTreeSet<LeaseId>,
    /// Those of them that wait for somebody else's end.
    waiting: BTreeSet<LeaseId>,
    pub(crate) turns: Turns,
    /// Leases that were left to expire while the session beats on: a stop must not vacate the session before that.
    pub(crate) lapsing: u32,
    pub(crate) stopping: bool,
    timers: BTreeSet<(Tick, Part)>,
    wakes: BTreeMap<Part, Tick>,
}

impl Machine for Holder {
    type Command = Command;
    type Notice = Notice;

    fn step(&mut self, mut now: Now, event: Event<Command>) -> Step<Notice> {
        if self.desk.rules.bugs.has(Bug::HolderMissesSuspend) {
            now.held = now.waited;
        }
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
            requests: std::mem::take(&mut self.desk.requests),
            notices: std::mem::take(&mut self.desk.notices),
            wake_at: self.timers.first().map(|(tick, _)| *tick),
        }
    }

    fn listens(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Holder {
    /// A holder that holds nothing yet.
    #[must_use]
    pub fn new(identity: Identity, rules: Rules) -> Holder {
        let nonces = Nonces::new(identity.instance);
        let desk = Desk {
            identity,
            rules,
            nonces,
            vigils: Vigils::default(),
            ops: BTreeMap::new(),
            last_op: 0,
            requests: Vec::new(),
            notices: Vec::new(),
        };
        Holder {
            desk,
            session: Session::default(),
            leases: Table::default(),
            loose: BTreeMap::new(),
            audit: Audit::default(),
            queued: BTreeSet::new(),
            bidding: BTreeSet::new(),
            waiting: BTreeSet::new(),
            turns: Turns::default(),
            lapsing: 0,
            stopping: false,
            timers: BTreeSet::new(),
            wakes: BTreeMap::new(),
        }
    }

    /// How many leases this holder has, wants, or is giving up.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.leases.len()
    }

    /// The fence of the session while it is up.
    #[must_use]
    pub fn session_fence(&self) -> Option<Fence> {
        self.session.ride(&self.desk.identity.session).map(|ride| ride.fence)
    }

    /// Runs `f` for one part with everything that parts may use. The part itself must be taken out of `self` before.
    pub(crate) fn lend<R>(&mut self, now: Now, part: Part, f: impl FnOnce(&mut Ctx<'_>) -> R) -> R {
        let Holder { desk, session, leases, .. } = self;
        let is_ours = |id: Nonce| leases.values().any(|lease| lease.may_own(id));
        let mut ctx = Ctx {
            now,
            rules: &desk.rules,
            holder: &desk.identity.holder,
            nonces: &mut desk.nonces,
            vigils: &mut desk.vigils,
            requests: &mut desk.requests,
            ops: &mut desk.ops,
            last_op: &mut desk.last_op,
            part,
            session_key: &desk.identity.session,
            session: session.ride(&desk.identity.session),
            is_ours: &is_ours,
        };
        f(&mut ctx)
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.desk.notices.push(notice);
    }

    /// Sets when `part` wants to be woken.
    pub(crate) fn set_wake(&mut self, part: Part, at: Option<Tick>) {
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
        let mut due: Vec<Part> =
            self.timers.iter().take_while(|(at, _)| *at <= now.held).map(|(_, part)| part.clone()).collect();
        // The session first: if its time is over, so is that of all that rides on it, and nothing is written for it.
        due.sort_unstable();
        if self.desk.rules.bugs.has(Bug::RidersBeforeSession) {
            due.reverse();
        }
        for part in due {
            match part {
                Part::Session => self.wake_session(now),
                Part::Lease(id) => self.wake_lease(now, LeaseId(id), Cue::Time),
                Part::Loose(key) => self.wake_loose(now, &key),
                // It goes by the session's renewals.
                Part::Audit => {}
            }
        }
    }

    fn answer(&mut self, now: Now, op: OpId, result: Result<Answer, StoreError>) {
        match self.desk.ops.remove(&op) {
            Some(Part::Session) => self.answer_session(now, op, result),
            Some(Part::Lease(id)) => self.answer_lease(now, LeaseId(id), op, result),
            Some(Part::Loose(key)) => self.answer_loose(now, &key, op, result),
            Some(Part::Audit) => self.answer_audit(now, op, result),
            None => {}
        }
    }

    /// A hint from the store: whoever waits for this key looks at it again. If it names a version, silence is counted from now once
    /// that is what a look shows, be it of the key or of the session that its claim rides on.
    fn changed(&mut self, now: Now, hint: &Hint) {
        if let Hint::Written(key, version) = hint {
            self.desk.vigils.heard(now, key, *version, &self.desk.rules);
        }
        self.turns.heard(hint.key());
        let cue = match hint {
            Hint::Written(_, version) => Cue::Changed(Some(*version)),
            Hint::Any | Hint::Key(_) => Cue::Changed(None),
        };
        let key = hint.key();
        let waits = |id: &LeaseId| match (self.leases.get(id), key) {
            // Who comes first is told, and goes on for all of this process.
            (Some(Lease::Bidding(bid)), _) if bid.is_behind() => false,
            (Some(Lease::Bidding(bid)), Some(key)) => bid.key() == key,
            (lease, _) => lease.is_some(),
        };
        let waiting: Vec<LeaseId> = self.bidding.iter().copied().filter(waits).collect();
        for id in waiting {
            self.wake_lease(now, id, cue);
        }
    }

    fn command(&mut self, now: Now, command: Command) {
        match command {
            Command::Acquire(id, _) | Command::Refresh(id, _) | Command::Adopt(id, _) if self.stopping => {
                self.tell(Notice::Failed(
                    id,
                    StoreError::invalid("this holder is stopping; start another one"),
                ));
            }
            Command::Acquire(id, want) => self.acquire(now, id, want),
            Command::Release(id, None) => self.release(now, id, Fields::Keep),
            Command::Release(id, Some(metadata)) => self.release(now, id, Fields::Replace(metadata)),
            Command::Finish(id, metadata) => self.release(now, id, Fields::Merge(metadata)),
            Command::Pass(id, heir, own) => self.pass(now, id, *heir, own),
            Command::Lapse(id) => self.lapse(now, id),
            Command::Update(id, metadata) => self.update(now, id, Fields::Replace(metadata)),
            Command::Merge(id, metadata) => self.update(now, id, Fields::Merge(metadata)),
            Command::Note(id, own) => self.update(now, id, Fields::Own(own)),
            Command::Detach(id, ttl) => self.detach(now, id, ttl),
            Command::Refresh(id, token) => self.use_token(now, id, *token, crate::lease::Purpose::Refresh),
            Command::Adopt(id, token) => self.use_token(now, id, *token, crate::lease::Purpose::Adopt),
            Command::Return(id, token) => self.use_token(now, id, *token, crate::lease::Purpose::Release),
            Command::Examine(id) => self.examine(now, id),
            Command::Announce(about) => self.announce(now, about),
            Command::Start => self.want_session(now),
            Command::Stop => self.stop(now),
        }
    }

    /// What a held lease's record carries, as far as is known here.
    pub(crate) fn metadata_of(&self, id: LeaseId) -> Metadata {
        self.leases.get(&id).map(Lease::metadata).unwrap_or_default()
    }

    /// The id and the fence of the tenure that a lease is held by, if it is held and rides.
    pub(crate) fn tenure_of(&self, id: LeaseId) -> Option<(Nonce, Fence)> {
        match self.leases.get(&id)? {
            Lease::Riding(rider) => Some((rider.id(), rider.fence())),
            _ => None,
        }
    }

    fn stop(&mut self, now: Now) {
        self.stopping = true;
        let all: Vec<LeaseId> = self.leases.iter().map(|(id, _)| id).collect();
        for id in all {
            // Of what is being vacated already, its user has heard.
            if !self.leases.get(&id).is_some_and(Lease::is_given_up) {
                self.release(now, id, Fields::Keep);
            }
        }
    }

    fn go_on_stopping(&mut self, now: Now) {
        if self.leases.len() == self.lapsing as usize {
            self.leave_session(now);
        }
    }

    pub(crate) fn acquire(&mut self, now: Now, id: LeaseId, want: Want) {
        let (ttl, rides) = match want.beat {
            Beat::Own(ttl) => (ttl, false),
            Beat::Session => (self.desk.identity.ttl, true),
        };
        let goal = Goal { key: want.key, ttl, ride: None, carry: want.carry, patience: want.patience };
        if !rides {
            self.bid(now, id, goal);
        } else {
            match self.session.ride(&self.desk.identity.session) {
                Some(ride) => self.bid(now, id, Goal { ride: Some(ride), ..goal }),
                None => self.queue(now, id, goal),
            }
        }
    }

    /// Keeps a wish until the session is up.
    pub(crate) fn queue(&mut self, now: Now, id: LeaseId, goal: Goal) {
        self.put(id, Lease::Queued(Box::new(goal)));
        self.queued.insert(id);
        self.want_session(now);
    }

    pub(crate) fn bid(&mut self, now: Now, id: LeaseId, goal: Goal) {
        if goal.takes_turns() && self.waits_behind(id, &goal.key) {
            let bid = Bid::behind(goal);
            return self.after_bid(now, id, bid, None, false);
        }
        let (bid, end) = self.lend(now, Part::Lease(id.0), |ctx| Bid::start(goal, ctx));
        self.after_bid(now, id, bid, end, false);
    }

    /// Puts a bid back, or what it ended with in its place.
    pub(crate) fn after_bid(
        &mut self,
        now: Now,
        id: LeaseId,
        mut bid: Bid,
        end: Option<BidEnd>,
        abandoned: bool,
    ) {
        let part = Part::Lease(id.0);
        let Some(end) = end else {
            self.set_wake(part, bid.wake_at());
            if let Some(seen) = bid.take_news() {
                self.tell(Notice::Seen(id, seen.map(Box::new)));
            }
            self.bidding.insert(id);
            if bid.waits() {
                self.waiting.insert(id);
            }
            let key = bid.key().clone();
            if abandoned {
                self.waiting.remove(&id);
                self.leases.insert(id, Lease::Abandoned(Box::new(bid)));
                self.leave_line(now, &key, id, None);
            } else {
                self.leases.insert(id, Lease::Bidding(Box::new(bid)));
            }
            return;
        };
        self.forget_bid(id);
        self.set_wake(part.clone(), None);
        if bid.is_stray() && bid.goal().ride.is_some() {
            self.tie_up(now, bid.key().clone());
        }
        match end {
            BidEnd::Won(won) => {
                let (key, version) = (bid.key().clone(), won.version);
                let goal = bid.goal();
                let (fence, metadata) = (won.fence, won.metadata.clone());
                let lease = if goal.ride.is_some() {
                    Lease::riding(goal.key.clone(), won)
                } else {
                    let (key, ttl) = (goal.key.clone(), goal.ttl);
                    let hold = self.lend(now, part.clone(), |ctx| Hold::new(key, ttl, won, ctx));
                    Lease::Beating(Box::new(hold))
                };
                let until = lease.valid_until();
                self.set_wake(part, lease.wake_at());
                self.leases.insert(id, lease);
                if abandoned {
                    self.release(now, id, Fields::Keep);
                } else {
                    self.tell(Notice::Acquired { lease: id, fence, until, metadata });
                }
                return self.leave_line(now, &key, id, Some(version));
            }
            _ if abandoned => self.tell(Notice::Released(id, false)),
            BidEnd::Held(by) => {
                let by = by.or_else(|| self.known_occupant(bid.key()));
                self.tell(Notice::Held(id, by));
            }
            BidEnd::Absent => self.tell(Notice::Absent(id)),
            BidEnd::Failed(error) => self.tell(Notice::Failed(id, error)),
            BidEnd::Dropped => self.tell(Notice::Released(id, false)),
        }
        self.leave_line(now, bid.key(), id, None);
    }

    /// A lease is not bid for any more.
    pub(crate) fn forget_bid(&mut self, id: LeaseId) {
        self.bidding.remove(&id);
        self.waiting.remove(&id);
    }

    pub(crate) fn start_edit(
        &mut self,
        now: Now,
        part: Part,
        token: Token,
        change: crate::edit::Change,
        until: Tick,
        rides: bool,
    ) -> Edit {
        let ride = if rides { self.session.ride(&self.desk.identity.session) } else { None };
        self.lend(now, part, |ctx| Edit::start(token, ride, change, until, ctx))
    }
}
