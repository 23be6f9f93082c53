//! A small world of one section: two processes that lease ranges which overlap.

use super::Message;
use super::store::{Network, Records, now};
use stateright::{Model, Property};
use std::time::Duration;
use tenure_core::op::{Event, Machine, Step};
use tenure_core::range::{KeyRange, RangeSet};
use tenure_core::section::{
    Portion, SectionCommand, SectionLedger, SectionMachine, SectionNotice, SectionSetup, key,
};
use tenure_core::{Bugs, Fence, HolderId, LeaseId, Rules, Tick, Ttl};

const DURATION: Duration = Duration::from_millis(30);

/// How much may happen.
#[derive(Clone, Copy)]
pub(crate) struct SectionScope {
    /// What each process wants, from where to where, and how much of it at the least.
    pub(crate) wants: [(u64, u64, Portion); 2],
    pub(crate) units: u64,
    /// How often each process asks.
    pub(crate) asks: u8,
    pub(crate) losses: u8,
    pub(crate) deaths: u8,
    pub(crate) releases: u8,
    /// Steps of time that come before what is due.
    pub(crate) delays: u8,
    pub(crate) bugs: Bugs,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SectionProcess {
    machine: Option<SectionMachine>,
    wake_at: Option<Tick>,
    /// Its lease, counted from 1, and whether it has no answer to that.
    lease: u64,
    waits: bool,
    held: Option<(RangeSet, Fence, Tick)>,
    asks: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SectionState {
    processes: Vec<SectionProcess>,
    store: Records,
    network: Network,
    unit: u64,
    highest: Fence,
    losses: u8,
    deaths: u8,
    releases: u8,
    delays: u8,
    /// What a process that died believed in.
    left: RangeSet,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SectionAction {
    Deliver(usize),
    Lose(usize),
    Wake(usize),
    Ask(usize),
    Release(usize),
    Die(usize),
    Tick,
}

impl SectionState {
    fn believed(&self) -> impl Iterator<Item = &(RangeSet, Fence, Tick)> {
        let now = now(self.unit).held;
        self.processes.iter().filter_map(|process| process.held.as_ref()).filter(move |held| now < held.2)
    }

    fn is_something_due(&self) -> bool {
        let due = |process: &SectionProcess| process.wake_at.is_some_and(|at| at <= now(self.unit).held);
        !self.network.0.is_empty() || self.processes.iter().any(due)
    }

    fn act(&mut self, index: usize, event: Event<SectionCommand>) {
        let now = now(self.unit);
        let process = &mut self.processes[index];
        let Some(machine) = &mut process.machine else { return };
        let Step { requests, notices, wake_at } = machine.step(now, event);
        process.wake_at = wake_at;
        for notice in notices {
            match notice {
                SectionNotice::Obtained { lease, parts, fence, until } if lease.0 == process.lease => {
                    process.waits = false;
                    process.held = fence.map(|fence| (parts, fence, until));
                }
                SectionNotice::Failed(lease, _) if lease.0 == process.lease => process.waits = false,
                _ => {}
            }
        }
        self.network.send(index, requests);
    }

    fn ask(&mut self, scope: &SectionScope, index: usize) {
        let process = &mut self.processes[index];
        process.asks -= 1;
        (process.lease, process.waits, process.held) = (process.lease + 1, true, None);
        let (low, high, portion) = scope.wants[index];
        let wanted = KeyRange::new(low, high).unwrap().into();
        let duration = Ttl::new(DURATION).unwrap();
        let command = SectionCommand::Acquire(LeaseId(process.lease), wanted, duration, portion);
        self.act(index, Event::Command(command));
    }

    /// S2 and S3: of what a write made of a ledger.
    fn wrote(&mut self, before: &SectionLedger, after: &SectionLedger) {
        let stands = |ledger: &SectionLedger, fence| ledger.entries.iter().any(|entry| entry.fence == fence);
        for entry in after.entries.iter().filter(|entry| !stands(before, entry.fence)) {
            if entry.fence <= self.highest {
                self.broken = Some("S2");
            }
            self.highest = self.highest.max(entry.fence);
        }
        if self.believed().any(|held| stands(before, held.1) && !stands(after, held.1)) {
            self.broken = Some("S3");
        }
    }
}

impl Model for SectionScope {
    type State = SectionState;
    type Action = SectionAction;

    fn init_states(&self) -> Vec<SectionState> {
        let mut state = SectionState {
            processes: Vec::new(),
            store: Records::default(),
            network: Network::default(),
            unit: 0,
            highest: Fence(0),
            losses: self.losses,
            deaths: self.deaths,
            releases: self.releases,
            delays: self.delays,
            left: RangeSet::new(),
            broken: None,
        };
        for index in 0..self.wants.len() {
            let setup = SectionSetup {
                key: key("s").unwrap(),
                holder: HolderId::new(format!("p{index}")).unwrap(),
                instance: index as u64 + 1,
                rules: Rules { bugs: self.bugs, ..Rules::default() },
                most_parts: 8,
                most_bytes: SectionLedger::MAX_BYTES,
            };
            state.processes.push(SectionProcess {
                machine: Some(SectionMachine::new(setup)),
                wake_at: None,
                lease: 0,
                waits: false,
                held: None,
                asks: self.asks,
            });
            state.ask(self, index);
        }
        vec![state]
    }

    fn actions(&self, state: &SectionState, actions: &mut Vec<SectionAction>) {
        if state.broken.is_some() {
            return;
        }
        let now = now(state.unit).held;
        actions.extend((0..state.network.0.len()).map(SectionAction::Deliver));
        if state.losses > 0 {
            actions.extend(state.network.can_be_lost().map(SectionAction::Lose));
        }
        for (index, process) in state.processes.iter().enumerate() {
            if process.machine.is_none() {
                continue;
            }
            if process.wake_at.is_some_and(|at| at <= now) {
                actions.push(SectionAction::Wake(index));
            }
            let believes = process.held.as_ref().is_some_and(|held| now < held.2);
            if process.asks > 0 && !process.waits && !believes {
                actions.push(SectionAction::Ask(index));
            }
            if state.releases > 0 && believes {
                actions.push(SectionAction::Release(index));
            }
            if state.deaths > 0 && believes {
                actions.push(SectionAction::Die(index));
            }
        }
        if state.unit < self.units && (state.delays > 0 || !state.is_something_due()) {
            actions.push(SectionAction::Tick);
        }
    }

    fn next_state(&self, last: &SectionState, action: SectionAction) -> Option<SectionState> {
        let mut state = last.clone();
        match action {
            SectionAction::Deliver(at) => match state.network.0.remove(at) {
                Message::Request(index, id, op) => {
                    let (answer, written) = state.store.perform(op);
                    if let Some((before, after)) = written {
                        let before = before.map(|record| SectionLedger::of(&record).unwrap());
                        match SectionLedger::of(&after) {
                            Ok(after) => state.wrote(&before.unwrap_or_default(), &after),
                            // Nobody would read it: what it says contradicts itself.
                            Err(_) => state.broken = Some("S7"),
                        }
                    }
                    if state.processes[index].machine.is_some() {
                        state.network.answer(index, id, Ok(answer));
                    }
                }
                Message::Answer(index, id, result) => state.act(index, Event::Answer(id, result)),
            },
            SectionAction::Lose(at) => {
                state.losses -= 1;
                state.network.lose(at);
            }
            SectionAction::Wake(index) => state.act(index, Event::Wake),
            SectionAction::Ask(index) => state.ask(self, index),
            SectionAction::Release(index) => {
                state.releases -= 1;
                // Belief ends with the command.
                state.processes[index].held = None;
                let lease = LeaseId(state.processes[index].lease);
                state.act(index, Event::Command(SectionCommand::Release(lease)));
            }
            SectionAction::Die(index) => {
                state.deaths -= 1;
                let process = &mut state.processes[index];
                state.left = process.held.take().map(|held| held.0).unwrap_or_default();
                (process.machine, process.wake_at) = (None, None);
                state.network.forget(index);
            }
            SectionAction::Tick => {
                state.delays -= u8::from(state.is_something_due());
                state.unit += 1;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("S7: ranges are disjoint", |_, state: &SectionState| {
                let all: Vec<&RangeSet> = state.believed().map(|held| &held.0).collect();
                all.iter().zip(all.iter().skip(1)).all(|(one, other)| one.intersection(other).is_empty())
            }),
            Property::always("S2, S3, and what is written can be read", |_, state: &SectionState| {
                state.broken.is_none()
            }),
            Property::sometimes("both hold what the other does not", |_, state: &SectionState| {
                state.believed().count() == 2
            }),
            Property::sometimes("what a dead process had is had by the other", |_, state: &SectionState| {
                state.believed().any(|held| !held.0.intersection(&state.left).is_empty())
            }),
        ]
    }
}
