//! A small world for the model checker: two or three processes, the real machine of each, one key and up to one session, a store,
//! and a network that delivers in any order, with bounded numbers of lost messages, deaths and releases. Time goes on in
//! coarse steps; a bounded number of these come before what is under way and due, which is what a delay or a pause is.
#![allow(clippy::unwrap_used, clippy::large_enum_variant, reason = "a test's own model")]

pub(crate) mod sections;
mod store;
pub(crate) mod ticks;

use stateright::{Model, Property};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure_core::op::{Answer, Event, Expect, Listed, Machine, Op, OpId, Outcome, Step};
use tenure_core::semaphore::{Mode, SemaphoreLedger, Wish};
use tenure_core::{
    Bugs, Command, Fence, Holder, HolderId, Identity, KeepAlive, Key, LeaseId, Metadata, MetadataPolicy,
    Notice, Now, Record, Rules, StoreError, Stored, Tick, Ttl, WaitPolicy, Wall, Want,
};

const TTL_MS: u64 = 30;
/// Time goes on by so much.
const UNIT_MS: u64 = 6;
const LEASE: LeaseId = LeaseId(1);

/// How much may happen.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// For each process, whether its lease is attached to its session.
    pub(crate) attached: &'static [bool],
    /// For each process, how it wants one permit of two, if that is what all want; all are attached then.
    pub(crate) permits: &'static [Mode],
    pub(crate) units: u64,
    pub(crate) losses: u8,
    pub(crate) deaths: u8,
    pub(crate) releases: u8,
    /// Steps of time that come before what is due.
    pub(crate) delays: u8,
    pub(crate) bugs: Bugs,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    holder: Option<Holder>,
    wake_at: Option<Tick>,
    held: Option<(Fence, Tick)>,
    session_until: Tick,
    released: bool,
}

/// A message under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    Request(usize, OpId, Op),
    Answer(usize, OpId, Result<Answer, StoreError>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    processes: Vec<Process>,
    store: BTreeMap<Key, Record>,
    /// In order, so that the same messages are the same state.
    messages: Vec<Message>,
    unit: u64,
    highest: BTreeMap<Key, Fence>,
    losses: u8,
    deaths: u8,
    releases: u8,
    delays: u8,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Deliver(usize),
    Lose(usize),
    Wake(usize),
    Release(usize),
    Die(usize),
    Tick,
}

fn now(unit: u64) -> Now {
    let at = Tick(unit * UNIT_MS * 1_000_000);
    Now { held: at, waited: at, wall: Wall(1_000_000 + unit * UNIT_MS) }
}

fn stored(record: &Record) -> Stored {
    Stored::new(record.clone())
}

impl State {
    fn is_something_due(&self) -> bool {
        let due = |process: &Process| process.wake_at.is_some_and(|at| at <= now(self.unit).held);
        !self.messages.is_empty() || self.processes.iter().any(due)
    }

    fn believes(&self, process: &Process, is_attached: bool) -> bool {
        let Some((_, until)) = process.held else { return false };
        now(self.unit).held < if is_attached { process.session_until } else { until }
    }

    fn act(&mut self, index: usize, attached: bool, event: Event<Command>) {
        let now = now(self.unit);
        let Some(holder) = &mut self.processes[index].holder else { return };
        let Step { requests, notices, wake_at } = holder.step(now, event);
        let process = &mut self.processes[index];
        process.wake_at = wake_at;
        for notice in notices {
            match notice {
                Notice::Acquired { fence, until, .. } => process.held = Some((fence, until)),
                Notice::Valid(_, until) => process.held = process.held.map(|(fence, _)| (fence, until)),
                Notice::SessionValid(until) => process.session_until = until,
                Notice::Lost(..) | Notice::Released(..) => process.held = None,
                _ => {}
            }
        }
        let deadline = process.held.map(|(_, until)| if attached { process.session_until } else { until });
        if deadline.is_some_and(|deadline| now.held >= deadline || wake_at.is_none_or(|at| at > deadline)) {
            self.broken = Some("S5");
        }
        for request in requests {
            self.messages.push(Message::Request(index, request.id, request.op));
        }
        self.messages.sort();
    }

    fn perform(&mut self, op: Op) -> Answer {
        let write = match op {
            Op::Read(key) => return Answer::Read(self.store.get(&key).map(stored)),
            Op::ReadMany(keys, _) => {
                let found = keys.into_iter().filter_map(|key| Some((self.store.get(&key).map(stored)?, key)));
                return Answer::Listed(
                    found.map(|(stored, key)| Listed { key, stored: Ok(stored) }).collect(),
                );
            }
            Op::List { .. } => return Answer::Listed(Vec::new()),
            Op::Write(write) => *write,
        };
        let standing = self.store.get(&write.key);
        let holds = match write.expect {
            Expect::Absent => standing.is_none(),
            Expect::Vacant => standing.is_none_or(|record| record.tenure.is_none()),
            Expect::Unchanged(version) => standing.is_some_and(|record| record.version() == version),
        };
        if !holds {
            return Answer::Write(Outcome::Lost(standing.map(stored)));
        }
        let mut record = write.record;
        if let (Expect::Vacant, Some(standing)) = (write.expect, standing) {
            record.fence = standing.fence.next(record.fence).unwrap();
        }
        if record.tenure.as_ref().is_some_and(|tenure| tenure.id == record.nonce) {
            let highest = self.highest.insert(write.key.clone(), record.fence);
            if highest.is_some_and(|highest| record.fence <= highest) {
                self.broken = Some("S2");
            }
        }
        for grant in SemaphoreLedger::of(&record).into_iter().flat_map(|ledger| ledger.holders) {
            let before = self.store.get(&write.key).and_then(|record| SemaphoreLedger::of(record).ok());
            let is_new = before.is_none_or(|before| before.grant(grant.ticket.id).is_none());
            let highest = self.highest.get(&write.key).copied().filter(|_| is_new);
            if highest.is_some_and(|highest| grant.fence <= highest) {
                self.broken = Some("S2");
            }
            let highest = self.highest.entry(write.key.clone()).or_default();
            *highest = grant.fence.max(*highest);
        }
        let (version, fence) = (record.version(), record.fence);
        self.store.insert(write.key, record);
        Answer::Write(Outcome::Won { version, fence })
    }
}

impl Model for Scope {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let ttl = Ttl::new(Duration::from_millis(TTL_MS)).unwrap();
        let mut state = State {
            processes: Vec::new(),
            store: BTreeMap::new(),
            messages: Vec::new(),
            unit: 0,
            highest: BTreeMap::new(),
            losses: self.losses,
            deaths: self.deaths,
            releases: self.releases,
            delays: self.delays,
            broken: None,
        };
        for (index, attached) in self.attached.iter().enumerate() {
            let identity = Identity {
                holder: HolderId::new(format!("p{index}")).unwrap(),
                session: Key::new(format!("s{index}")).unwrap(),
                ttl,
                about: Metadata::new(),
                instance: index as u64 + 1,
            };
            // The audit asks after nothing that this small world can bring about.
            let rules = Rules { poll: ttl.duration(), audit: 0, bugs: self.bugs, ..Rules::default() };
            state.processes.push(Process {
                holder: Some(Holder::new(identity, rules)),
                wake_at: None,
                held: None,
                session_until: Tick(0),
                released: false,
            });
            let keep_alive = if *attached { KeepAlive::Session } else { KeepAlive::Own(ttl) };
            let metadata_policy = MetadataPolicy::Replace(Metadata::new());
            let want = Want {
                key: Key::new("k").unwrap(),
                keep_alive,
                metadata_policy,
                wait_policy: WaitPolicy::Forever,
            };
            let command = match self.permits.get(index) {
                None => Command::Acquire(LEASE, want),
                Some(mode) => {
                    let (key, wait_policy) = (Key::new("semaphore/k").unwrap(), WaitPolicy::Forever);
                    let wish = Wish { key, permits: 2, take: 1, mode: *mode, barges: false, wait_policy };
                    Command::Permits(LEASE, Box::new(wish))
                }
            };
            state.act(index, *attached, Event::Command(command));
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for (at, message) in state.messages.iter().enumerate() {
            actions.push(Action::Deliver(at));
            // A lost request or answer is a timeout; what the driver itself said is not lost.
            if state.losses > 0 && !matches!(message, Message::Answer(_, _, Err(_))) {
                actions.push(Action::Lose(at));
            }
        }
        for (index, process) in state.processes.iter().enumerate() {
            if process.holder.is_none() {
                continue;
            }
            if process.wake_at.is_some_and(|at| at <= now(state.unit).held) {
                actions.push(Action::Wake(index));
            }
            if state.releases > 0 && process.held.is_some() && !process.released {
                actions.push(Action::Release(index));
            }
            if state.deaths > 0 && process.held.is_some() {
                actions.push(Action::Die(index));
            }
        }
        if state.unit < self.units && (state.delays > 0 || !state.is_something_due()) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Deliver(at) => match state.messages.remove(at) {
                Message::Request(index, id, op) => {
                    let answer = state.perform(op);
                    if state.processes[index].holder.is_some() {
                        state.messages.push(Message::Answer(index, id, Ok(answer)));
                        state.messages.sort();
                    }
                }
                Message::Answer(index, id, result) => {
                    state.act(index, self.attached[index], Event::Answer(id, result));
                }
            },
            Action::Lose(at) => {
                state.losses -= 1;
                let (index, id) = match state.messages.remove(at) {
                    Message::Request(index, id, _) | Message::Answer(index, id, _) => (index, id),
                };
                let error = Err(StoreError::unknown("lost"));
                state.messages.push(Message::Answer(index, id, error));
                state.messages.sort();
            }
            Action::Wake(index) => state.act(index, self.attached[index], Event::Wake),
            Action::Release(index) => {
                state.releases -= 1;
                state.processes[index].released = true;
                // Belief ends with the command.
                state.processes[index].held = None;
                state.act(index, self.attached[index], Event::Command(Command::Release(LEASE, None)));
            }
            Action::Die(index) => {
                state.deaths -= 1;
                let process = &mut state.processes[index];
                (process.holder, process.held, process.wake_at) = (None, None, None);
                state.messages.retain(|message| !matches!(message, Message::Answer(of, ..) if *of == index));
            }
            Action::Tick => {
                state.delays -= u8::from(state.is_something_due());
                state.unit += 1;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("S1: one holder", |scope: &Scope, state: &State| {
                let pairs = state.processes.iter().zip(scope.attached);
                let held =
                    pairs.filter(|(process, is_attached)| state.believes(process, **is_attached)).count();
                held <= if scope.permits.is_empty() { 1 } else { 2 }
            }),
            Property::always(
                "S8: a writer is alone, and there are two permits",
                |scope: &Scope, state: &State| {
                    let believed = state
                        .processes
                        .iter()
                        .zip(scope.permits)
                        .filter(|(process, _)| state.believes(process, true));
                    let modes: Vec<&Mode> = believed.map(|(_, mode)| mode).collect();
                    modes.len() <= if modes.contains(&&Mode::Exclusive) { 1 } else { 2 }
                },
            ),
            Property::always("S2 and S5", |_, state: &State| state.broken.is_none()),
            Property::sometimes("someone takes over", |scope: &Scope, state: &State| {
                let pairs = state.processes.iter().zip(scope.attached).enumerate();
                let gone = state.processes.iter().any(|process| process.holder.is_none());
                gone && pairs
                    .into_iter()
                    .any(|(_, (process, is_attached))| state.believes(process, *is_attached))
            }),
        ]
    }
}

pub(crate) const SCOPE: Scope = Scope {
    attached: &[],
    permits: &[],
    units: 0,
    losses: 0,
    deaths: 0,
    releases: 0,
    delays: 0,
    bugs: Bugs::NONE,
};
