//! A small world of one tick: two processes that are to run it, each under a lease of the key.

use super::Message;
use super::store::{Network, Records, now};
use stateright::{Model, Property};
use std::time::Duration;
use tenure_core::once::{Delivery, Once, OnceAction, OnceEvent};
use tenure_core::op::{Event, Machine, Step};
use tenure_core::{
    Bugs, Command, Fence, Holder, HolderId, Identity, KeepAlive, Key, LeaseId, Metadata, MetadataPolicy,
    Nonce, Notice, Record, Rules, Tick, Ttl, WaitPolicy, Wall, Want,
};

const TTL: Duration = Duration::from_millis(30);
const LEASE: LeaseId = LeaseId(1);
/// Due from the beginning.
const TICK: Wall = Wall(1_000_000);

/// How much may happen.
#[derive(Clone, Copy)]
pub(crate) struct TickScope {
    pub(crate) delivery: Delivery,
    pub(crate) units: u64,
    pub(crate) losses: u8,
    pub(crate) deaths: u8,
    /// Steps of time that come before what is due.
    pub(crate) delays: u8,
    pub(crate) bugs: Bugs,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TickProcess {
    holder: Option<Holder>,
    once: Once,
    wake_at: Option<Tick>,
    held: Option<Tick>,
    is_running: bool,
    /// Its body has ended.
    has_ended: bool,
    /// It was told why nothing runs.
    is_told: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TickState {
    processes: Vec<TickProcess>,
    store: Records,
    network: Network,
    unit: u64,
    losses: u8,
    deaths: u8,
    delays: u8,
    /// How often the tick was begun.
    begun: u8,
    /// A process was told that the end is written.
    is_written: bool,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TickAction {
    Deliver(usize),
    Lose(usize),
    Wake(usize),
    End(usize),
    Die(usize),
    Tick,
}

impl TickState {
    fn is_something_due(&self) -> bool {
        let due = |process: &TickProcess| process.wake_at.is_some_and(|at| at <= now(self.unit).held);
        !self.network.0.is_empty() || self.processes.iter().any(due)
    }

    fn act(&mut self, scope: &TickScope, index: usize, event: Event<Command>) {
        let now = now(self.unit);
        let Some(holder) = &mut self.processes[index].holder else { return };
        let Step { requests, notices, wake_at } = holder.step(now, event);
        self.network.send(index, requests);
        self.processes[index].wake_at = wake_at;
        for notice in notices {
            let process = &mut self.processes[index];
            let event = match notice {
                Notice::Acquired { fence, until, metadata, .. } => {
                    process.held = Some(until);
                    OnceEvent::Held(fence, metadata)
                }
                Notice::Valid(_, until) => {
                    process.held = process.held.map(|_| until);
                    continue;
                }
                Notice::Updated(_) => {
                    OnceEvent::Written { is_held: process.held.is_some_and(|until| now.held < until) }
                }
                Notice::Lost(..) | Notice::Failed(..) => {
                    (process.held, process.is_running) = (None, false);
                    OnceEvent::NotWritten
                }
                Notice::Released(_, is_done) => {
                    self.is_written |= process.has_ended && is_done;
                    (process.held, process.is_running) = (None, false);
                    OnceEvent::NotWritten
                }
                _ => continue,
            };
            self.job(scope, index, event);
        }
    }

    /// Something happens to what is to be run under the lease.
    fn job(&mut self, scope: &TickScope, index: usize, event: OnceEvent) {
        let wall = now(self.unit).wall;
        for action in self.processes[index].once.on(wall, event) {
            let command = match action {
                OnceAction::Write(fields) => Command::Update(LEASE, fields),
                OnceAction::Release(fields) => {
                    let process = &mut self.processes[index];
                    (process.held, process.is_running) = (None, false);
                    Command::Release(LEASE, fields)
                }
                OnceAction::Run => {
                    self.processes[index].is_running = true;
                    self.begun += 1;
                    let is_again = match scope.delivery {
                        Delivery::AtMostOnce => self.begun > 1,
                        Delivery::AtLeastOnce => self.is_written,
                    };
                    if is_again {
                        self.broken = Some("Ticks");
                    }
                    continue;
                }
                OnceAction::Tell(_) => {
                    self.processes[index].is_told = true;
                    continue;
                }
            };
            self.act(scope, index, Event::Command(command));
        }
    }
}

impl Model for TickScope {
    type State = TickState;
    type Action = TickAction;

    fn init_states(&self) -> Vec<TickState> {
        let (ttl, key) = (Ttl::new(TTL).unwrap(), Key::new("k").unwrap());
        // The record that keeps what ran is there.
        let (fence, nonce, metadata) = (Fence(7), Nonce(7), Metadata::new());
        let record = Record { fence, nonce, stamp: TICK, tenure: None, metadata };
        let mut state = TickState {
            processes: Vec::new(),
            store: Records([(key.clone(), record)].into()),
            network: Network::default(),
            unit: 0,
            losses: self.losses,
            deaths: self.deaths,
            delays: self.delays,
            begun: 0,
            is_written: false,
            broken: None,
        };
        for index in 0..2 {
            let holder = HolderId::new(format!("p{index}")).unwrap();
            let session = Key::new(format!("s{index}")).unwrap();
            let (about, instance) = (Metadata::new(), index as u64 + 1);
            let identity = Identity { holder: holder.clone(), session, ttl, about, instance };
            let rules = Rules { poll: TTL, audit: 0, bugs: self.bugs, ..Rules::default() };
            state.processes.push(TickProcess {
                holder: Some(Holder::new(identity, rules)),
                once: Once::new(TICK, holder).delivery(self.delivery).bugs(self.bugs),
                wake_at: None,
                held: None,
                is_running: false,
                has_ended: false,
                is_told: false,
            });
            let want = Want {
                key: key.clone(),
                keep_alive: KeepAlive::Own(ttl),
                metadata_policy: MetadataPolicy::Keep(None),
                wait_policy: WaitPolicy::Forever,
            };
            state.act(self, index, Event::Command(Command::Acquire(LEASE, want)));
        }
        vec![state]
    }

    fn actions(&self, state: &TickState, actions: &mut Vec<TickAction>) {
        if state.broken.is_some() {
            return;
        }
        let now = now(state.unit).held;
        actions.extend((0..state.network.0.len()).map(TickAction::Deliver));
        if state.losses > 0 {
            actions.extend(state.network.can_be_lost().map(TickAction::Lose));
        }
        for (index, process) in state.processes.iter().enumerate() {
            if process.holder.is_none() {
                continue;
            }
            if process.wake_at.is_some_and(|at| at <= now) {
                actions.push(TickAction::Wake(index));
            }
            if process.is_running {
                actions.push(TickAction::End(index));
            }
            if state.deaths > 0 && process.held.is_some() {
                actions.push(TickAction::Die(index));
            }
        }
        if state.unit < self.units && (state.delays > 0 || !state.is_something_due()) {
            actions.push(TickAction::Tick);
        }
    }

    fn next_state(&self, last: &TickState, action: TickAction) -> Option<TickState> {
        let mut state = last.clone();
        match action {
            TickAction::Deliver(at) => match state.network.0.remove(at) {
                Message::Request(index, id, op) => {
                    let (answer, _) = state.store.perform(op);
                    if state.processes[index].holder.is_some() {
                        state.network.answer(index, id, Ok(answer));
                    }
                }
                Message::Answer(index, id, result) => state.act(self, index, Event::Answer(id, result)),
            },
            TickAction::Lose(at) => {
                state.losses -= 1;
                state.network.lose(at);
            }
            TickAction::Wake(index) => state.act(self, index, Event::Wake),
            TickAction::End(index) => {
                let process = &mut state.processes[index];
                (process.is_running, process.has_ended) = (false, true);
                state.job(self, index, OnceEvent::Ended(true, String::new()));
            }
            TickAction::Die(index) => {
                state.deaths -= 1;
                let process = &mut state.processes[index];
                (process.holder, process.held, process.wake_at) = (None, None, None);
                process.is_running = false;
                state.network.forget(index);
            }
            TickAction::Tick => {
                state.delays -= u8::from(state.is_something_due());
                state.unit += 1;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a tick is begun as often as it may be", |_, state: &TickState| {
                state.broken.is_none()
            }),
            Property::sometimes("a tick is run to its end, and that is known", |_, state: &TickState| {
                state.is_written
            }),
            Property::sometimes("who comes after a death runs it, or hears of it", |_, state: &TickState| {
                let gone = state.processes.iter().any(|process| process.holder.is_none());
                gone && state.processes.iter().any(|process| process.is_running || process.is_told)
            }),
        ]
    }
}
