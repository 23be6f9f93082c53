//! The world of a fleet: nodes, a network, a store, units, and the queue of what happens next.

use super::invariants::{self, Checks};
use super::net::Message;
use super::node::{Input, WorkerNode};
use super::scenario::Scenario;
use crate::clock::{MILLI, True};
use crate::fault::Fault;
use crate::invariants::Rule;
use crate::registers::{Ages, Registers, StoreSpec};
use crate::rng::Rng;
use crate::trace::{Story, Trace};
use crate::world::{Setup, Tally};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tenure_core::fleet::{FleetName, Status};
use tenure_core::{Fence, Key, LeaseId, Nonces, Record, Ttl};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Message(u32),
    Wake(u8, u32),
    Turn(u8, u32, u64, u32),
    Ends(u8, u32, u64),
    /// A body's write reaches the resource.
    Effect {
        unit: u32,
        fence: u64,
        order: u64,
    },
    Resume(u8, u32),
    Boot(u8, u32),
    HealLink(u8, u32),
    StoreUp,
    Mend,
    /// A ttl after the holder of a unit under this fence was told to stop, by force.
    Seize(u32, u64),
    Strike(u8),
    Churn,
    Disturbance,
    Look,
    Phase,
}

/// What outsiders, who see everything, know of a unit.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) index: usize,
    pub(crate) status: Status,
    pub(crate) needs_label: bool,
    /// Whoever works on it fails.
    pub(crate) fails: bool,
    /// How often it was tried since all was healed, and how often its worker died, left or began anew meanwhile.
    pub(crate) tries: (u64, u64),
    /// Since when nobody works on it, and how long that may last.
    pub(crate) idle: Option<Idle>,
    /// The last claims: fence, and whether the unit was open then.
    pub(crate) claims: Vec<(Fence, bool)>,
    /// The highest fence that was assigned, to whom.
    pub(crate) assigned: (Fence, (usize, u32, LeaseId)),
    /// Tenures that its record does not show any more, since somebody has deleted it or put it back, and when that was.
    pub(crate) behind: Vec<(Fence, True)>,
    /// The checkpoints that took effect lately.
    pub(crate) points: Vec<i64>,
}

impl Truth {
    /// Whether its record was deleted or put back while it showed this tenure.
    pub(crate) fn is_behind(&self, fence: Fence) -> bool {
        self.behind.iter().any(|(other, _)| *other == fence)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Idle {
    pub(crate) since: True,
    pub(crate) bound: True,
    pub(crate) by_death: bool,
}

pub(crate) struct World {
    pub(crate) t: True,
    seq: u64,
    queue: BinaryHeap<Reverse<(True, u64, What)>>,
    pub(crate) rng: Rng,
    pub(crate) scenario: Scenario,
    pub(crate) setup: Setup,
    pub(crate) spec: StoreSpec,
    pub(crate) ttl: Ttl,
    pub(crate) fleet: FleetName,
    pub(crate) board: Key,
    pub(crate) nodes: Vec<WorkerNode>,
    pub(crate) store: Registers,
    pub(crate) messages: Vec<Option<Message>>,
    pub(crate) free_messages: Vec<u32>,
    pub(crate) store_down: bool,
    pub(crate) throttled: bool,
    pub(crate) healed: Option<True>,
    rounds_left: u64,
    pub(crate) units: BTreeMap<Key, Truth>,
    pub(crate) next_unit: usize,
    pub(crate) next_point: i64,
    pub(crate) admin: Nonces,
    /// A claim of a process that is gone took effect late: for a ttl, it counts as a worker for whoever lists.
    pub(crate) haunted: bool,
    /// When somebody last began to list the units.
    pub(crate) listed: True,
    /// When the board was raised last.
    pub(crate) raised: True,
    /// By then everything must be as planned, and stay so.
    pub(crate) settled_by: True,
    pub(crate) checks: Checks,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
    pub(crate) over: bool,
}

impl World {
    pub(crate) fn new(scenario: Scenario, setup: Setup) -> World {
        let mut rng = Rng::new(setup.seed);
        let any = StoreSpec { ages: Ages::any(&mut rng), push: rng.chance(0.5), lags: rng.chance(0.5) };
        let spec = scenario.store.unwrap_or(any);
        let fleet = FleetName::new("f").unwrap_or_else(|_| unreachable!("short and not empty"));
        let board = fleet.board().unwrap_or_else(|_| unreachable!("the name was checked"));
        let mut world = World {
            t: 0,
            seq: 0,
            queue: BinaryHeap::with_capacity(256),
            setup,
            spec,
            ttl: Ttl::clamped(10_000),
            fleet,
            board,
            nodes: Vec::new(),
            store: Registers::new(spec, false, scenario.has(Fault::RecordRestored)),
            messages: Vec::new(),
            free_messages: Vec::new(),
            store_down: false,
            throttled: false,
            healed: None,
            rounds_left: scenario.rounds,
            units: BTreeMap::new(),
            next_unit: 0,
            next_point: 0,
            admin: Nonces::new(u64::MAX),
            haunted: false,
            listed: 0,
            raised: 0,
            settled_by: True::MAX,
            checks: Checks { excused: scenario.excused.to_vec(), ..Checks::default() },
            tally: Tally::default(),
            trace: Trace::new(setup.trace),
            over: false,
            rng,
            scenario,
        };
        for _ in 0..scenario.units {
            world.create_unit();
        }
        let nodes = if setup.nodes == 0 { scenario.nodes } else { setup.nodes.min(scenario.nodes) };
        for index in 0..nodes {
            let node = world.bare_post(index);
            world.nodes.push(node);
            let span = world.rng.below(world.per_mille(200));
            world.at(span, What::Boot(index as u8, 0));
        }
        world.begin_chaos();
        world
    }

    /// So many thousandths of a ttl.
    pub(crate) fn per_mille(&self, n: u64) -> True {
        self.ttl.millis() * MILLI / 1000 * n
    }

    pub(crate) fn at(&mut self, t: True, what: What) {
        self.seq += 1;
        self.queue.push(Reverse((t.max(self.t), self.seq, what)));
    }

    /// At a random time with this mean from now.
    pub(crate) fn later(&mut self, mean: True, what: What) {
        let span = self.rng.span(mean);
        self.at(self.t + span, what);
    }

    pub(crate) fn run(&mut self) {
        while !self.over && self.checks.broken.is_none() {
            let Some(Reverse((t, seq, what))) = self.queue.pop() else { return };
            self.t = t;
            self.tally.events += 1;
            self.trace.fold(t ^ seq << 40);
            self.happen(what);
        }
        if self.checks.broken.is_some() {
            self.tell_standing();
        }
    }

    /// What the store shows at the end of a timeline.
    fn tell_standing(&mut self) {
        let lines: Vec<String> = self.store.keys().map(|(key, record)| standing(key, record)).collect();
        for line in lines {
            self.trace.tell(self.t, || Story::Store(line));
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Message(slot) => self.open(slot),
            What::Wake(index, life) => self.wake(usize::from(index), life),
            What::Turn(index, life, lease, turn) => {
                self.deliver_to_life(usize::from(index), life, Input::Turn(LeaseId(lease), turn));
            }
            What::Ends(index, life, lease) => {
                self.deliver_to_life(usize::from(index), life, Input::Ends(LeaseId(lease)));
            }
            What::Effect { unit, fence, order } => {
                let found = self.checks.resource.write(unit as usize, Fence(fence), order);
                self.checks.check(self.t, Rule::P2, found);
            }
            What::Resume(index, turn) => {
                if self.nodes[usize::from(index)].pause_turn == turn {
                    self.resume(usize::from(index));
                }
            }
            What::Boot(index, life) => {
                let node = &self.nodes[usize::from(index)];
                if node.life == life && node.machine.is_none() {
                    self.boot(usize::from(index));
                }
            }
            What::HealLink(index, turn) => self.heal_link(usize::from(index), turn),
            What::Mend => self.mend(),
            What::Seize(unit, fence) => self.vacate_by_force(unit as usize, Fence(fence)),
            What::StoreUp => (self.store_down, self.throttled) = (false, false),
            What::Strike(kind) => self.strike(usize::from(kind)),
            What::Churn => self.churn(),
            What::Disturbance => self.disturbance(),
            What::Look => self.look(),
            What::Phase => self.turn_phase(),
        }
    }

    fn begin_chaos(&mut self) {
        self.healed = None;
        self.settled_by = True::MAX;
        for kind in 0..self.scenario.faults.len() {
            self.schedule_strike(kind);
        }
        if self.scenario.churn > 0 {
            self.later(self.per_mille(self.scenario.churn), What::Churn);
        }
        self.at(self.t + self.per_mille(self.scenario.chaos * 1000), What::Phase);
    }

    fn turn_phase(&mut self) {
        if self.healed.is_none() {
            self.healed = Some(self.t);
            self.units.values_mut().for_each(|truth| truth.tries = (0, 0));
            self.heal();
            self.at(self.t + self.per_mille(self.scenario.calm * 1000), What::Phase);
            self.at(self.t + self.per_mille(100), What::Look);
            self.at(self.t + self.per_mille(12_000), What::Disturbance);
            return;
        }
        let audit = self.pages_of(&self.fleet.worker_prefix()) + self.pages_of(&self.fleet.unit_prefix());
        // All look and audit by the shortest ttl that there is.
        let quickest = if self.scenario.ttls { Ttl::clamped(self.ttl.millis() / 4) } else { self.ttl };
        let Scenario { rate, lag, .. } = self.scenario;
        let found = invariants::c1::little(&self.nodes, &self.checks, audit, quickest, rate, lag > 100);
        self.checks.check(self.t, Rule::C1, found);
        let ttls = self.checks.settled_time / self.per_mille(1000);
        let found = invariants::c1::refused(&self.checks, self.nodes.len() as u64, ttls);
        self.checks.check(self.t, Rule::C1, found);
        self.check_tries();
        self.rounds_left -= 1;
        if self.rounds_left == 0 {
            self.over = true;
        } else {
            self.begin_chaos();
        }
    }

    /// Was what fails always tried seldom enough?
    fn check_tries(&mut self) {
        let (workers, calm) = (self.nodes.len() as u64, self.scenario.calm);
        for truth in self.units.values().filter(|truth| truth.fails) {
            let (tries, owners) = truth.tries;
            // By the fastest clock.
            let ttls = calm * (1_000_000 + self.scenario.rate) / 1_000_000;
            let found = invariants::c1::tried(tries, workers, owners, ttls);
            self.checks.check(self.t, Rule::C1, found);
        }
    }

    /// Whether nobody can write some unit.
    pub(super) fn has_sealed(&self) -> bool {
        self.units.keys().any(|key| self.store.is_sealed(key))
    }

    /// How many pages it takes to list all of `prefix`.
    fn pages_of(&self, prefix: &str) -> u64 {
        let records = self.store.keys().filter(|(key, _)| key.as_str().starts_with(prefix)).count();
        (records / self.scenario.page + 1) as u64
    }

    /// Whether a fault of calls befalls this one.
    pub(crate) fn befalls(&mut self, fault: Fault) -> bool {
        if self.healed.is_some() || self.setup.without.has(fault) {
            return false;
        }
        let Some((_, probability)) = self.scenario.calls.iter().find(|(kind, _)| *kind == fault) else {
            return false;
        };
        let befalls = self.rng.chance(*probability);
        if befalls {
            self.tally.faults[fault as usize] += 1;
        }
        befalls
    }
}

fn standing(key: &Key, record: &Record) -> String {
    let fence = record.fence;
    match &record.tenure {
        None => format!("{key} {fence}: vacant {:?}", record.metadata),
        Some(tenure) => {
            let attachment = tenure
                .attachment
                .as_ref()
                .map(|attachment| format!(", attached to {} {}", attachment.session, attachment.fence));
            let attachment = attachment.unwrap_or_default();
            format!("{key} {fence}: of {}{attachment} {:?}", tenure.holder, record.metadata)
        }
    }
}
