//! The world: nodes, a network, a store, and the queue of what happens next.

mod phase;
mod process;

use crate::clock::{MILLI, True};
use crate::coverage::Coverage;
use crate::fault::{Fault, Faults, KINDS};
use crate::invariants::c1::Spins;
use crate::invariants::once::Ledger;
use crate::invariants::s4::Claim;
use crate::invariants::s6::Lapse;
use crate::invariants::tried::Refused;
use crate::invariants::{Invariants, Rule};
use crate::net::{Message, Messages};
use crate::node::{Input, Node};
use crate::registers::{Ages, Registers, StoreSpec};
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::trace::Trace;
use crate::users::seizer::Seizer;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tenure_core::{Bugs, Fence, Key, LeaseId, Letter, Nonces, StoreError, Ttl};

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// A request or an answer reaches its end.
    Message(u32),
    Wake(u8, u32),
    User(u8, u32, u8, u32),
    /// A user's write reaches the resource.
    Effect {
        node: u8,
        life: u32,
        task: u8,
        turn: u32,
        key: u8,
        fence: u64,
        order: u64,
    },
    Resume(u8, u32),
    Restart(u8, u32),
    HealLink(u8, u32),
    StoreUp,
    /// A fault of a kind that comes now and then.
    Strike(u8),
    /// A candidate's turn, and its wake-up.
    Lead(u8, u32, u8),
    Candidate(u8, u32, u8, u32),
    /// Something waits in a process's inbox.
    Inbox(u8, u32),
    Letter,
    Collect,
    /// Someone dies in the calm.
    Death,
    Look,
    Phase,
    /// Who takes a lease away by force goes on.
    Seizer(u16, u32),
    /// By now, someone must not believe any more.
    Due,
    /// A machine stands still, its clocks too, as a renewal is under way.
    Hide(u8, u32),
    /// What was damaged is mended.
    Mend,
    /// By now, a process has noticed that time was hidden from it.
    Gap(u8, u32),
}

/// What ran, for a report.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) events: u64,
    pub(crate) steps: u64,
    pub(crate) faults: [u64; KINDS],
    pub(crate) coverage: [u64; 32],
}

impl Default for Tally {
    fn default() -> Self {
        Tally { events: 0, steps: 0, faults: [0; KINDS], coverage: [0; 32] }
    }
}

impl Tally {
    pub(crate) fn coverage(&mut self, coverage: Coverage) {
        self.coverage[coverage as usize] += 1;
    }

    /// Adds what befell another world.
    pub(crate) fn add(&mut self, other: &Tally) {
        let sums = self.faults.iter_mut().chain(&mut self.coverage);
        for (sum, n) in sums.zip(other.faults.iter().chain(&other.coverage)) {
            *sum += n;
        }
    }
}

/// How a world is run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) bugs: Bugs,
    /// Faults that do not happen.
    pub(crate) without: Faults,
    /// Nodes that take part; zero for all.
    pub(crate) nodes: usize,
    pub(crate) trace: bool,
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
    pub(crate) keys: Vec<Key>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) seizers: Vec<Option<Seizer>>,
    pub(crate) store: Registers,
    pub(crate) messages: Messages,
    pub(crate) errors: Errors,
    may_fail_over: bool,
    /// Counts failovers.
    pub(crate) store_term: u32,
    /// The store answers nothing, or only errors.
    pub(crate) store_down: bool,
    pub(crate) throttled: bool,
    /// Faults go on; if not, since when everything is healed.
    pub(crate) healed: Option<True>,
    rounds_left: u64,
    pub(crate) next_lease: u64,
    pub(crate) admin: Nonces,
    /// When mail was written that its holder has not emptied yet, by record.
    pub(crate) mailed: Vec<(Key, True)>,
    /// Letters that were written to holders, by the record that they were written into.
    pub(crate) letters: Vec<(Key, Letter)>,
    /// For each key, what updates wrote lately.
    pub(crate) updates: Vec<Vec<(Fence, i64)>>,
    /// For each node, what its users asked for and have no answer to.
    pub(crate) asked: Vec<Ledger>,
    /// When something was last left to expire.
    pub(crate) lapsed: Option<True>,
    /// For each node, how often it asked the store about what lately.
    pub(crate) spins: Vec<Spins>,
    /// For each node, what it has claimed and let lapse.
    pub(crate) claims: Vec<Vec<Claim>>,
    pub(crate) lapses: Vec<Vec<Lapse>>,
    /// For each key, when it was last claimed without a record.
    pub(crate) fresh: Vec<True>,
    /// For each key, since when nobody believes in it though someone waits.
    pub(crate) free_since: Vec<Option<True>>,
    /// For each key, since when a claim stands that its process knows of and nobody there wants.
    pub(crate) left_since: Vec<Option<True>>,
    /// For each key, the tries that were refused by its dead holder's claim.
    pub(crate) tried: Vec<Refused>,
    pub(crate) checks: Invariants,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
    pub(crate) over: bool,
}

/// Errors as a driver would report them, made once.
pub(crate) struct Errors {
    pub(crate) unavailable: StoreError,
    pub(crate) unknown: StoreError,
    pub(crate) refused: StoreError,
    pub(crate) denied: StoreError,
}

impl World {
    pub(crate) fn new(scenario: Scenario, setup: Setup) -> World {
        let mut rng = Rng::new(setup.seed);
        let ttl = Ttl::clamped(scenario.ttl_ms);
        let any = StoreSpec { ages: Ages::any(&mut rng), push: rng.chance(0.5), lags: false };
        let spec = scenario.store.unwrap_or(any);
        let nodes = if setup.nodes == 0 { scenario.nodes } else { setup.nodes.min(scenario.nodes) };
        let (may_fail_over, keeps_copies) =
            (scenario.has(Fault::Failover), scenario.has(Fault::RecordRestored));
        let name =
            |n: usize| Key::new(format!("k{n}")).unwrap_or_else(|_| unreachable!("short and not empty"));
        let mut world = World {
            t: 0,
            seq: 0,
            queue: BinaryHeap::with_capacity(256),
            setup,
            spec,
            ttl,
            keys: (0..scenario.keys).map(name).collect(),
            nodes: Vec::new(),
            seizers: Vec::new(),
            store: Registers::new(spec, may_fail_over, keeps_copies),
            messages: Messages::default(),
            errors: Errors {
                unavailable: StoreError::unavailable("no answer to a read"),
                unknown: StoreError::unknown("no answer to a write"),
                refused: StoreError::unavailable("the store refuses"),
                denied: StoreError::unsupported("access denied"),
            },
            may_fail_over,
            store_term: 0,
            store_down: false,
            throttled: false,
            healed: None,
            rounds_left: scenario.rounds,
            next_lease: 0,
            admin: Nonces::new(u64::MAX),
            mailed: Vec::new(),
            letters: Vec::new(),
            updates: vec![Vec::new(); scenario.keys],
            asked: vec![Ledger::default(); nodes],
            lapsed: None,
            spins: vec![Spins::default(); nodes],
            claims: vec![Vec::new(); nodes],
            lapses: vec![Vec::new(); nodes],
            fresh: vec![0; scenario.keys],
            free_since: vec![None; scenario.keys],
            left_since: vec![None; scenario.keys],
            tried: vec![Refused::default(); scenario.keys],
            checks: Invariants { excused: scenario.excused.to_vec(), ..Invariants::default() },
            tally: Tally::default(),
            trace: Trace::new(setup.trace),
            over: false,
            rng,
            scenario,
        };
        world.store.limit(String::new(), crate::users::LIMIT);
        for index in 0..nodes {
            let node = world.bare_node(index);
            world.nodes.push(node);
            world.boot(index);
        }
        world.begin_chaos();
        if world.scenario.users.mail > 0 {
            world.later(world.per_mille(world.scenario.users.mail), What::Letter);
        }
        if world.scenario.users.gc > 0 {
            world.later(world.per_mille(world.scenario.users.gc), What::Collect);
        }
        world
    }

    /// So many thousandths of a ttl.
    pub(crate) fn per_mille(&self, n: u64) -> True {
        self.ttl.millis() * MILLI / 1000 * n
    }

    pub(crate) fn ttl_ns(&self) -> True {
        self.ttl.millis() * MILLI
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

    /// Runs until the world is over or a promise is broken.
    pub(crate) fn run(&mut self) {
        while !self.over && self.checks.broken.is_none() {
            let Some(Reverse((t, _, what))) = self.queue.pop() else { return };
            self.t = t;
            self.tally.events += 1;
            self.trace.mark(t, &what);
            self.happen(what);
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Message(slot) => match self.messages.take(slot) {
                Some(Message::Request(envelope)) => self.arrive(*envelope),
                Some(Message::Reply(reply)) => self.reply(*reply),
                Some(Message::Token(to, token)) => self.deliver(to, Input::Token(token)),
                Some(Message::Hint(index, life, hint)) if self.nodes[index].life == life => {
                    self.deliver(index, Input::Hint(hint));
                }
                Some(Message::Hint(..)) | None => {}
            },
            What::Wake(index, life) => self.wake(usize::from(index), life),
            What::User(index, life, task, turn) => {
                if self.nodes[usize::from(index)].life == life {
                    self.deliver(usize::from(index), Input::User(usize::from(task), turn));
                }
            }
            What::Effect { node, life, task, turn, key, fence, order } => {
                let refused = self.checks.resource.refused;
                let found = self.checks.resource.write(usize::from(key), Fence(fence), order);
                if self.checks.resource.refused > refused {
                    self.tally.coverage(Coverage::RefusedByResource);
                }
                self.checks.check(self.t, Rule::P2, found);
                if self.nodes[usize::from(node)].life == life {
                    self.effect_is_over(usize::from(node), usize::from(task), turn);
                }
            }
            What::Resume(index, turn) => {
                if self.nodes[usize::from(index)].pause_turn == turn {
                    self.resume(usize::from(index));
                }
            }
            What::Restart(index, life) => {
                let node = &self.nodes[usize::from(index)];
                if node.life == life && node.holder.is_none() {
                    self.boot(usize::from(index));
                }
            }
            What::HealLink(index, turn) => self.heal_link(usize::from(index), turn),
            What::StoreUp => (self.store_down, self.throttled) = (false, false),
            What::Strike(kind) => self.strike(usize::from(kind)),
            What::Lead(index, life, key) => {
                if self.nodes[usize::from(index)].life == life {
                    self.deliver(usize::from(index), Input::Lead(usize::from(key)));
                }
            }
            What::Candidate(index, life, key, turn) => {
                if self.nodes[usize::from(index)].life == life {
                    self.deliver(usize::from(index), Input::Candidate(usize::from(key), turn));
                }
            }
            What::Inbox(index, life) => self.look_into_inbox(usize::from(index), life),
            What::Letter => self.letter(),
            What::Collect => self.collect(),
            What::Death => self.death(),
            What::Look => self.look(),
            What::Phase => self.turn_phase(),
            What::Seizer(slot, turn) => self.seizer_goes_on(usize::from(slot), turn),
            What::Due => self.check_acts(),
            What::Mend => drop(self.store.mend()),
            What::Hide(index, life) => self.hide(usize::from(index), life),
            What::Gap(index, life) => self.look_for_gap(usize::from(index), life),
        }
    }

    pub(crate) fn new_lease(&mut self) -> LeaseId {
        self.next_lease += 1;
        LeaseId(self.next_lease)
    }
}
