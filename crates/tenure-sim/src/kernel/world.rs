//! The world: nodes, a network, a store, and the queue of what happens next.

mod chaos;
mod net;
pub(super) mod node;
mod phase;
pub(super) mod scene;

use super::clock::{MILLI, NodeClock, SECOND, True};
use super::coverage::{Coverage, MOMENTS};
use super::envelope::Envelope;
use super::fault::{FaultKind, FaultSet, KINDS};
use super::registers::{Registers, StorePast, StoreSpec};
use super::rng::Rng;
use super::trace::{Story, Trace};
use crate::invariants::{Checks, Rule};
use net::NetReply;
use node::{Node, NodeInput};
use scene::{Frame, Scene};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use tenure_core::op::Hint;
use tenure_core::{Bugs, Drift, HolderId, Nonces, ServiceClock, StoreError, Tick, Ttl};

/// What is due.
pub(crate) enum What<S: Scene> {
    Request(Box<Envelope>),
    Reply(Box<NetReply>),
    /// A hint of a change, on its way to a life of a node.
    Hint(u8, u32, Box<Hint>),
    Wake(u8, u32),
    /// Something from users, for a life of a node.
    Input(u8, u32, S::Input),
    Resume(u8, u32),
    Restart(u8, u32),
    HealLink(u8, u32),
    StoreUp,
    WritesGoOn,
    /// A fault of a kind that comes now and then.
    Strike(u8),
    /// A machine stands still, its clocks too, as a renewal is under way.
    Hide(u8, u32),
    /// What was damaged is mended.
    Mend,
    /// Chaos or calm is over.
    Phase,
    /// Something of the scene's own.
    Own(S::Due),
}

/// Something due, at its place in the queue: earlier first, and of the same time, whichever was put there first.
struct Appointment<S: Scene> {
    t: True,
    seq: u64,
    what: What<S>,
}

impl<S: Scene> PartialEq for Appointment<S> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<S: Scene> Eq for Appointment<S> {}

impl<S: Scene> PartialOrd for Appointment<S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<S: Scene> Ord for Appointment<S> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.t, other.seq).cmp(&(self.t, self.seq))
    }
}

/// What ran, for a report.
#[derive(Debug, Clone)]
pub(crate) struct WorldTally {
    pub(crate) events: u64,
    pub(crate) steps: u64,
    pub(crate) faults: [u64; KINDS],
    pub(crate) coverage: [u64; MOMENTS],
}

impl Default for WorldTally {
    fn default() -> Self {
        WorldTally { events: 0, steps: 0, faults: [0; KINDS], coverage: [0; MOMENTS] }
    }
}

impl WorldTally {
    pub(crate) fn coverage(&mut self, coverage: Coverage) {
        self.coverage[coverage as usize] += 1;
    }

    /// Adds what befell another world.
    pub(crate) fn add(&mut self, other: &WorldTally) {
        (self.events, self.steps) = (self.events + other.events, self.steps + other.steps);
        let sums = self.faults.iter_mut().chain(&mut self.coverage);
        for (sum, n) in sums.zip(other.faults.iter().chain(&other.coverage)) {
            *sum += n;
        }
    }
}

/// How a world is run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorldSetup {
    pub(crate) seed: u64,
    pub(crate) bugs: Bugs,
    /// Faults that do not happen.
    pub(crate) without: FaultSet,
    /// Nodes that take part; zero for all.
    pub(crate) nodes: usize,
    /// The one promise that is checked; none for all.
    pub(crate) only: Option<Rule>,
    pub(crate) trace: bool,
}

pub(crate) struct World<S: Scene> {
    pub(crate) t: True,
    seq: u64,
    queue: BinaryHeap<Appointment<S>>,
    pub(crate) rng: Rng,
    pub(crate) scenario: S::Scenario,
    pub(crate) frame: Frame,
    pub(crate) setup: WorldSetup,
    pub(crate) spec: StoreSpec,
    pub(crate) ttl: Ttl,
    pub(crate) nodes: Vec<Node<S>>,
    pub(crate) store: Registers,
    pub(crate) errors: Errors,
    /// Counts failovers.
    pub(crate) store_term: u32,
    /// The store answers nothing, or only errors.
    pub(crate) store_down: bool,
    pub(crate) throttled: bool,
    /// Since when it does no writes, and says nothing of them.
    hanging: Option<True>,
    /// Faults go on; if not, since when everything is healed.
    pub(crate) healed: Option<True>,
    pub(crate) rounds_left: u64,
    /// Those who write without a process.
    pub(crate) admin: Nonces,
    pub(crate) checks: Checks,
    pub(crate) tally: WorldTally,
    pub(crate) trace: Trace,
    pub(crate) over: bool,
    /// All that only this kind of world has.
    pub(crate) scene: S,
}

/// Errors as a driver would report them, made once.
pub(crate) struct Errors {
    pub(crate) unavailable: StoreError,
    pub(crate) unknown: StoreError,
    pub(crate) refused: StoreError,
    pub(crate) denied: StoreError,
}

impl Errors {
    fn new() -> Errors {
        Errors {
            unavailable: StoreError::unavailable("no answer to a read"),
            unknown: StoreError::unknown("no answer to a write"),
            refused: StoreError::unavailable("the store refuses"),
            denied: StoreError::unsupported("access denied"),
        }
    }
}

impl<S: Scene> World<S> {
    pub(crate) fn new(scenario: S::Scenario, setup: WorldSetup) -> World<S> {
        let mut rng = Rng::new(setup.seed);
        let frame = S::frame(&scenario);
        let spec = S::store(&scenario, &mut rng);
        let nodes = if setup.nodes == 0 { frame.nodes } else { setup.nodes.min(frame.nodes) };
        let past = StorePast {
            may_fail_over: frame.has(FaultKind::Failover),
            may_be_restored: frame.has(FaultKind::RecordRestored),
        };
        let mut world = World {
            t: 0,
            seq: 0,
            queue: BinaryHeap::with_capacity(256),
            setup,
            spec,
            ttl: frame.ttl,
            nodes: Vec::new(),
            store: Registers::new(spec, past),
            errors: Errors::new(),
            store_term: 0,
            store_down: false,
            throttled: false,
            hanging: None,
            healed: None,
            rounds_left: frame.rounds,
            admin: Nonces::new(u64::MAX),
            checks: Checks { excused: frame.excused, only: setup.only, ..Checks::default() },
            tally: WorldTally::default(),
            trace: Trace::new(setup.trace),
            over: false,
            scene: S::new(&scenario, nodes),
            rng,
            scenario,
            frame,
        };
        S::set_up(&mut world);
        for index in 0..nodes {
            let node = world.bare_node(index);
            world.nodes.push(node);
            S::start(&mut world, index);
        }
        world.begin_chaos();
        S::begun(&mut world);
        world
    }

    fn bare_node(&mut self, index: usize) -> Node<S> {
        let Frame { rate, wall_off_ms: off, .. } = self.frame;
        let rate = self.rng.between(1_000_000 - rate, 1_000_000 + rate);
        let offset = self.rng.between(0, 2 * off) as i64 - off as i64;
        let held = self.rng.below(1000 * SECOND);
        let name = HolderId::new(format!("{}{index}", S::LETTER));
        let name = name.unwrap_or_else(|_| unreachable!("short and not empty"));
        let session = tenure_core::Key::new("none").unwrap_or_else(|_| unreachable!("short and not empty"));
        Node {
            index,
            life: 0,
            machine: None,
            who: name,
            session,
            names: Vec::new(),
            clock: NodeClock::new(self.t, held, rate, offset),
            paused: false,
            pause_turn: 0,
            inbox: Default::default(),
            held_back: None,
            wake_at: None,
            scheduled: True::MAX,
            requests_pass: true,
            answers_pass: true,
            link_turn: 0,
            stopping: false,
            dim: Tick(0),
            service: ServiceClock::new(Drift::default()),
            own: S::own(&self.scenario, index),
        }
    }

    /// So many thousandths of a ttl.
    pub(crate) fn per_mille(&self, n: u64) -> True {
        self.ttl.millis() * MILLI / 1000 * n
    }

    pub(crate) fn ttl_ns(&self) -> True {
        self.ttl.millis() * MILLI
    }

    pub(crate) fn at(&mut self, t: True, what: What<S>) {
        self.seq += 1;
        self.queue.push(Appointment { t: t.max(self.t), seq: self.seq, what });
    }

    /// At a random time with this mean from now.
    pub(crate) fn later(&mut self, mean: True, what: What<S>) {
        let span = self.rng.span(mean);
        self.at(self.t + span, what);
    }

    /// Runs until the world is over, a promise is broken, or so many events have happened.
    pub(crate) fn run(&mut self, most: u64) {
        while !self.over && self.checks.broken.is_none() && self.tally.events < most {
            let Some(Appointment { t, what, .. }) = self.queue.pop() else { return };
            self.t = t;
            self.tally.events += 1;
            self.trace.fold(t);
            self.happen(what);
        }
    }

    fn happen(&mut self, what: What<S>) {
        match what {
            What::Request(envelope) => self.arrive(envelope),
            What::Reply(reply) => self.reply(reply),
            What::Hint(index, life, hint) => self.deliver_to_life(index, life, NodeInput::Hint(*hint)),
            What::Wake(index, life) => self.wake(usize::from(index), life),
            What::Input(index, life, input) => self.deliver_to_life(index, life, NodeInput::Own(input)),
            What::Resume(index, turn) => {
                if self.nodes[usize::from(index)].pause_turn == turn {
                    self.resume(usize::from(index));
                }
            }
            What::Restart(index, life) => {
                let node = &self.nodes[usize::from(index)];
                if node.life == life && node.machine.is_none() {
                    self.boot(usize::from(index));
                }
            }
            What::HealLink(index, turn) => self.heal_link(usize::from(index), turn),
            What::StoreUp => (self.store_down, self.throttled) = (false, false),
            What::WritesGoOn => {
                if let Some(since) = self.hanging.take() {
                    S::writes_hung(self, since);
                }
            }
            What::Strike(kind) => self.strike(usize::from(kind)),
            What::Hide(index, life) => self.hide(usize::from(index), life),
            What::Mend => S::mend(self),
            What::Phase => self.turn_phase(),
            What::Own(due) => S::due(self, due),
        }
    }

    /// Reports what a check found.
    pub(crate) fn check(&mut self, rule: Rule, found: Result<(), String>) {
        self.checks.check(self.t, rule, found);
    }

    /// Tells a line of the timeline.
    pub(crate) fn tell(&mut self, story: impl FnOnce(&Self) -> Story) {
        if self.trace.is_read() {
            let story = story(self);
            self.trace.push(self.t, story);
        }
    }

    /// The name of the process on a node, or of the last one there.
    pub(crate) fn name(&self, index: usize) -> HolderId {
        self.nodes[index].who.clone()
    }

    /// The wall clock of somebody whose clock is right.
    pub(crate) fn true_wall(&self) -> tenure_core::Wall {
        tenure_core::Wall(super::clock::WALL_AT_START + self.t / MILLI)
    }
}
