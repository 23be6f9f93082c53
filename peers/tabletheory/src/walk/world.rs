//! The world: time, the item, the network between it and the processes.

mod checks;
mod peer;
mod troubles;

use super::caller::{CallerOperation, CallerProcess, LeaseCaller, RunningOperation};
use super::counts::ManagersCounts;
use super::table::SimulatedTable;
use super::{BUFFER, EPOCH, PATIENCE, SKEW};
use crate::error::LeaseKey;
use crate::item::{self, ItemLease};
use crate::lease::HeldLease;
use crate::machine::{ItemAnswer, ItemRequest, LeaseAcquisition, LeaseRefresh, LeaseRelease, OperationEnd};
use crate::options::TableTheoryOptions;
use crate::request::RequestExpressions;
use checks::TokenFate;
use peer::{GoPeer, PeerCall};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Now, StoreError, Tick, Wall};
use tenure_store::parts::SplitMix64;

/// What may go wrong in a world.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ManagersFaults {
    /// Requests and answers are lost, or late.
    pub(super) losses: bool,
    /// Far more of them, and callers stop waiting far more often.
    pub(super) storms: bool,
    pub(super) stalls: bool,
    /// Clocks of processes that stand still are set back meanwhile.
    pub(super) sets_back: bool,
    pub(super) crashes: bool,
    /// Callers stop waiting for an operation.
    pub(super) drops: bool,
    pub(super) hands: bool,
    pub(super) hands_over: bool,
    /// Refusals come without the item, as from an emulator.
    pub(super) bare: bool,
    /// No item of ours has a ttl.
    pub(super) without_ttl: bool,
    /// By how much wall clocks may differ, in milliseconds.
    pub(super) apart: u64,
    pub(super) peers: usize,
}

#[derive(Debug, Clone)]
enum ManagersEvent {
    /// A caller is due, if this is still its last wake-up.
    Wake(usize, u64),
    /// A caller waits no longer for that operation.
    Drops(usize, u64),
    Lands {
        caller: usize,
        call: u64,
        operation: u64,
        request: ItemRequest,
    },
    Answered(usize, u64, Result<ItemAnswer, StoreError>),
    PeerWakes(usize),
    PeerLands(usize, u64, PeerCall),
    PeerHears(usize, u64, PeerCall, Option<bool>),
    Hand,
    Sweep,
    SetClock,
    SetRight(usize),
    Stall,
    Crash,
}

pub(super) struct ManagersWorld {
    seed: u64,
    rng: SplitMix64,
    faults: ManagersFaults,
    options: TableTheoryOptions,
    at: u64,
    /// Until then there are faults.
    rough: u64,
    queue: BTreeMap<(u64, u64), ManagersEvent>,
    sequence: u64,
    table: SimulatedTable,
    processes: Vec<CallerProcess>,
    callers: Vec<LeaseCaller>,
    peers: Vec<GoPeer>,
    pub(super) counts: ManagersCounts,
    drawn: Cell<u64>,
    operations: u64,
    /// What each operation has written.
    landed: BTreeMap<u64, Vec<ItemLease>>,
    /// Operations that were told that they have written nothing, and never will.
    never: BTreeSet<u64>,
    /// The process that asks with a token.
    owners: BTreeMap<String, usize>,
    /// What becomes of tokens that were drawn to acquire, in the process and its start.
    fates: BTreeMap<String, (usize, u64, TokenFate)>,
    /// Leases whose item was deleted or written over by a hand.
    undone: BTreeSet<String>,
    /// A token that another process may know.
    relic: Option<String>,
}

impl ManagersWorld {
    pub(super) fn new(seed: u64, faults: ManagersFaults) -> ManagersWorld {
        let mut rng = SplitMix64::new(seed);
        let processes: Vec<CallerProcess> = (0..3)
            .map(|_| CallerProcess {
                orphans: Arc::default(),
                ahead: rng.below(faults.apart + 1),
                set_back: 0,
                // A clock that is slow by a tenth counts a tenth too long, and only the wall clock says so.
                rate: if faults.sets_back { 1000 } else { 900 } + rng.below(101),
                frozen: 0,
                starts: 0,
            })
            .collect();
        // Two of them have one manager.
        let callers = [0, 1, 2, 2].map(|process| LeaseCaller {
            process,
            lease: None,
            running: None,
            gives_back: false,
            call: 0,
            wake: 0,
        });
        let peers = (0..faults.peers).map(|_| GoPeer::new(rng.below(faults.apart + 1))).collect();
        let options = TableTheoryOptions::new("simulated").skew_margin(Duration::from_millis(SKEW));
        let mut world = ManagersWorld {
            seed,
            rng,
            faults,
            options: options.ttl(!faults.without_ttl).ttl_buffer(Duration::from_secs(BUFFER)),
            at: EPOCH,
            rough: EPOCH + 200_000,
            queue: BTreeMap::new(),
            sequence: 0,
            table: SimulatedTable::default(),
            processes,
            callers: callers.into(),
            peers,
            counts: ManagersCounts::default(),
            drawn: Cell::new(0),
            operations: 0,
            landed: BTreeMap::new(),
            never: BTreeSet::new(),
            owners: BTreeMap::new(),
            fates: BTreeMap::new(),
            undone: BTreeSet::new(),
            relic: None,
        };
        for n in 0..world.callers.len() {
            world.wake_in(n, 5_000);
        }
        for n in 0..world.peers.len() {
            let start = world.rng.below(5_000);
            world.push(start, ManagersEvent::PeerWakes(n));
        }
        use ManagersEvent::{Crash, Hand, SetClock, Stall, Sweep};
        for event in [Hand, Sweep, SetClock, Stall, Crash] {
            world.push(1_000, event);
        }
        world
    }

    fn push(&mut self, after: u64, event: ManagersEvent) {
        self.sequence += 1;
        self.queue.insert((self.at + after, self.sequence), event);
    }

    fn wake_in(&mut self, n: usize, most: u64) {
        self.callers[n].wake += 1;
        let (after, wake) = (1 + self.rng.below(most), self.callers[n].wake);
        self.push(after, ManagersEvent::Wake(n, wake));
    }

    fn is_rough(&self) -> bool {
        self.at < self.rough
    }

    /// A new token.
    fn draw(&self) -> String {
        self.drawn.set(self.drawn.get() + 1);
        format!("token-{}", self.drawn.get())
    }

    fn flight(&mut self) -> u64 {
        let late = self.faults.losses && self.is_rough() && self.seldom(8);
        if late { self.rng.below(12_000) } else { 1 + self.rng.below(200) }
    }

    fn is_lost(&mut self) -> bool {
        self.faults.losses && self.is_rough() && self.seldom(6)
    }

    /// Once in so many times, or twice as often in a storm.
    fn seldom(&mut self, n: u64) -> bool {
        self.rng.one_in(if self.faults.storms { n / 2 } else { n })
    }

    fn now_of(&self, n: usize) -> Now {
        let process = &self.processes[self.callers[n].process];
        let tick = Tick((self.at - EPOCH) * process.rate * 1000);
        Now { held: tick, waited: tick, wall: Wall(self.at + process.ahead - process.set_back) }
    }

    pub(super) fn run(&mut self, span: u64) {
        let until = self.at + span;
        while let Some(((at, sequence), event)) = self.queue.pop_first() {
            if at > until {
                self.queue.insert((at, sequence), event);
                break;
            }
            self.at = at;
            self.counts.steps += 1;
            self.handle(event);
            self.check();
        }
        self.at = until;
    }

    fn handle(&mut self, event: ManagersEvent) {
        if let ManagersEvent::Wake(n, _) | ManagersEvent::Drops(n, _) | ManagersEvent::Answered(n, ..) = event
        {
            let frozen = self.processes[self.callers[n].process].frozen;
            if frozen > self.at {
                return self.push(frozen - self.at, event);
            }
        }
        match event {
            ManagersEvent::Wake(n, wake) if wake == self.callers[n].wake => self.wake(n),
            ManagersEvent::Drops(n, operation) => {
                if self.callers[n].running.as_ref().is_some_and(|running| running.id == operation) {
                    self.callers[n].call += 1;
                    self.over(n, None);
                }
            }
            ManagersEvent::Lands { caller, call, operation, request } => {
                let answer = self.land(caller, operation, &request);
                if !self.is_lost() {
                    let back = self.flight();
                    self.push(back, ManagersEvent::Answered(caller, call, answer));
                }
            }
            ManagersEvent::Answered(n, call, answer) if call == self.callers[n].call => {
                self.answered(n, answer)
            }
            ManagersEvent::Wake(..) | ManagersEvent::Answered(..) => {}
            ManagersEvent::PeerWakes(n) => self.peer_wakes(n),
            ManagersEvent::PeerLands(n, call, request) => self.peer_lands(n, call, request),
            ManagersEvent::PeerHears(n, call, request, heard) if call == self.peers[n].call => {
                self.peer_hears(n, &request, heard);
            }
            ManagersEvent::PeerHears(..) => {}
            ManagersEvent::Hand => self.hand(),
            ManagersEvent::Sweep => self.sweep(),
            ManagersEvent::SetClock => self.set_clock(),
            ManagersEvent::SetRight(n) => self.processes[n].set_back = 0,
            ManagersEvent::Stall => self.stall(),
            ManagersEvent::Crash => self.crash(),
        }
    }

    /// A caller that waits for nothing decides what to do with its lease, or without one.
    fn wake(&mut self, n: usize) {
        if self.callers[n].running.is_some() {
            return;
        }
        let skew = self.options.skew;
        let duration = Duration::from_secs([3, 5, 10][self.rng.below(3) as usize]);
        let (chance, process) = (self.rng.below(20), self.callers[n].process);
        let (gives_back, is_calm) = (self.callers[n].gives_back, !self.is_rough());
        if let Some(token) = self.relic.take_if(|_| self.callers[n].lease.is_none() && chance < 15) {
            self.owners.insert(token.clone(), process);
            self.callers[n].lease = Some(HeldLease::known_by("job", "LOCK", token));
            self.counts.handed_over += 1;
        }
        let operation = match &mut self.callers[n].lease {
            None => {
                let lease = HeldLease::known_by("job", "LOCK", self.draw());
                let orphans = Arc::clone(&self.processes[process].orphans);
                CallerOperation::Acquire(Box::new(LeaseAcquisition::new(duration, skew, orphans)), lease)
            }
            Some(_) if chance == 0 => {
                self.forget(n);
                return self.wake_in(n, 400);
            }
            Some(lease) if chance < if gives_back || is_calm { 10 } else { 6 } => {
                CallerOperation::Release(LeaseRelease::of(lease))
            }
            Some(_) => CallerOperation::Refresh(LeaseRefresh::new(duration, skew)),
        };
        self.operations += 1;
        let before = self.callers[n].lease.clone();
        let tokens = Vec::new();
        self.callers[n].running = Some(RunningOperation {
            operation,
            id: self.operations,
            before,
            second: 0,
            asked: None,
            claim_unknown: false,
            other_unknown: false,
            was_refused_bare: false,
            was_gone: false,
            sight: None,
            tokens,
        });
        if self.faults.drops && self.is_rough() && self.seldom(5) {
            let after = self.rng.below(4_000);
            self.push(after, ManagersEvent::Drops(n, self.operations));
        }
        self.send(n);
    }

    fn send(&mut self, n: usize) {
        let now = self.now_of(n);
        let drawn = &self.drawn;
        let request = self.callers[n].request(now, &|| {
            drawn.set(drawn.get() + 1);
            Ok(format!("token-{}", drawn.get()))
        });
        self.asked(n, &request);
        let caller = &mut self.callers[n];
        caller.call += 1;
        let (call, operation) = (caller.call, caller.running.as_ref().map_or(0, |running| running.id));
        let is_look = request == ItemRequest::Look;
        if self.faults.losses && self.is_rough() && self.rng.one_in(20) {
            let refused = StoreError::unavailable("busy");
            return self.push(20, ManagersEvent::Answered(n, call, Err(refused)));
        }
        if !self.is_lost() {
            let there = self.flight();
            self.push(there, ManagersEvent::Lands { caller: n, call, operation, request });
        }
        let none =
            if is_look { StoreError::unavailable("no answer") } else { StoreError::unknown("no answer") };
        self.push(PATIENCE, ManagersEvent::Answered(n, call, Err(none)));
    }

    fn answered(&mut self, n: usize, answer: Result<ItemAnswer, StoreError>) {
        self.callers[n].call += 1;
        self.heard(n, &answer);
        match self.callers[n].on(answer) {
            None => self.send(n),
            Some(end) => self.over(n, Some(end)),
        }
    }

    /// What the table does with a request of ours.
    fn land(&mut self, n: usize, operation: u64, request: &ItemRequest) -> Result<ItemAnswer, StoreError> {
        let key = LeaseKey { pk: "job".to_owned(), sk: "LOCK".to_owned() };
        let shown = |item: Option<&tenure_dynamodb::service::Item>| {
            item.map(|item| item::read(&self.options.names, item).map_err(StoreError::foreign)).transpose()
        };
        let Some(asked) = RequestExpressions::of(&self.options, request) else {
            return shown(self.table.0.as_ref()).map(ItemAnswer::Seen);
        };
        if !self.table.holds(&asked) {
            let old = if self.faults.bare { None } else { self.table.0.as_ref() };
            return shown(old).map(ItemAnswer::Refused);
        }
        self.takes_effect(n, request);
        match request {
            ItemRequest::Claim { claim, .. } => {
                let names = &self.options.names;
                self.table.0 = Some(item::written(names, &key.pk, &key.sk, claim, self.options.buffer()));
            }
            ItemRequest::Refresh { .. } => self.table.update(&asked),
            ItemRequest::Release { .. } | ItemRequest::Look => self.table.0 = None,
        }
        self.took_effect(operation);
        Ok(ItemAnswer::Done)
    }

    /// The operation has ended, or nobody waits for it any more.
    fn over(&mut self, n: usize, end: Option<OperationEnd>) {
        let Some(running) = self.callers[n].running.take() else { return };
        self.ended(n, &running, end.as_ref());
        let caller = &mut self.callers[n];
        let next = match (running.operation, end) {
            (CallerOperation::Acquire(_, lease), Some(OperationEnd::Done)) => {
                caller.lease = Some(lease);
                4_000
            }
            (CallerOperation::Acquire(..), _) => 3_000,
            (CallerOperation::Refresh(_), Some(OperationEnd::Gone(_))) => {
                // Most give up then.
                caller.lease.take_if(|_| !self.rng.one_in(4));
                2_000
            }
            (CallerOperation::Refresh(_), _) => 4_000,
            (CallerOperation::Release(_), Some(OperationEnd::Done | OperationEnd::Gone(_))) => {
                (caller.lease, caller.gives_back) = (None, false);
                3_000
            }
            (CallerOperation::Release(_), _) => {
                caller.gives_back = true;
                1_000
            }
        };
        self.wake_in(n, next);
    }
}
