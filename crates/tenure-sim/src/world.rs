//! The world: nodes, a network, a store, and the queue of what happens next.

use crate::clock::{MILLI, NodeClock, Pace, SECOND, True};
use crate::dice::Dice;
use crate::fault::{Fault, Faults};
use crate::invariants::s4::Claim;
use crate::invariants::s6::Lapse;
use crate::invariants::{self, Invariants, Rule};
use crate::net::{Parcel, Parcels};
use crate::node::{Doing, Input, Node, Stage, Task};
use crate::registers::{Registers, StoreSpec};
use crate::scenario::Scenario;
use crate::trace::{Story, Trace};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tenure_core::op::{Event, Machine, Step};
use tenure_core::{
    Bugs, Command, Holder, HolderId, Identity, Key, LeaseId, Metadata, Nonces, Notice, Now, Rules,
    StoreError, Tick, Ttl,
};

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// A request or an answer reaches its end.
    Parcel(u32),
    Wake(u8, u32),
    User(u8, u32, u8, u32),
    Hint(u8, u32, u8),
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
    Letter,
    Collect,
    /// Someone dies in the calm.
    Death,
    Look,
    Phase,
}

/// What ran, for a report.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) events: u64,
    pub(crate) steps: u64,
    pub(crate) faults: [u64; 32],
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
    pub(crate) dice: Dice,
    pub(crate) scenario: Scenario,
    pub(crate) setup: Setup,
    pub(crate) spec: StoreSpec,
    pub(crate) ttl: Ttl,
    pub(crate) keys: Vec<Key>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) store: Registers,
    pub(crate) parcels: Parcels,
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
    /// For each node, what it has claimed and let lapse.
    pub(crate) claims: Vec<Vec<Claim>>,
    pub(crate) lapses: Vec<Vec<Lapse>>,
    /// For each key, since when nobody believes in it though someone waits.
    free_since: Vec<Option<True>>,
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
}

impl World {
    pub(crate) fn new(scenario: Scenario, setup: Setup) -> World {
        let mut dice = Dice::new(setup.seed);
        let ttl = Ttl::clamped(scenario.ttl_ms);
        let any = StoreSpec { age: dice.chance(0.5), push: dice.chance(0.5) };
        let spec = scenario.store.unwrap_or(any);
        let nodes = if setup.nodes == 0 { scenario.nodes } else { setup.nodes.min(scenario.nodes) };
        let may_fail_over = scenario.faults.iter().any(|(fault, _)| *fault == Fault::Failover);
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
            store: Registers::new(spec, may_fail_over),
            parcels: Parcels::default(),
            errors: Errors {
                unavailable: StoreError::unavailable("no answer to a read"),
                unknown: StoreError::unknown("no answer to a write"),
                refused: StoreError::unavailable("the store refuses"),
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
            claims: vec![Vec::new(); nodes],
            lapses: vec![Vec::new(); nodes],
            free_since: vec![None; scenario.keys],
            checks: Invariants { excused: scenario.excused.to_vec(), ..Invariants::default() },
            tally: Tally::default(),
            trace: Trace::new(setup.trace),
            over: false,
            dice,
            scenario,
        };
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

    fn bare_node(&mut self, index: usize) -> Node {
        let rate = self.dice.between(1_000_000 - self.scenario.rate, 1_000_000 + self.scenario.rate);
        let off = self.scenario.wall_off_ms;
        let offset = self.dice.between(0, 2 * off) as i64 - off as i64;
        let held = self.dice.below(1000 * SECOND);
        Node {
            index,
            life: 0,
            holder: None,
            session: self.keys[0].clone(),
            who: HolderId::new("nobody").unwrap_or_else(|_| unreachable!("short and not empty")),
            clock: NodeClock::new(self.t, held, rate, offset),
            paused: false,
            pause_turn: 0,
            inbox: Default::default(),
            held_back: None,
            views: Vec::new(),
            session_until: Tick(0),
            session_deadline: None,
            wake_at: None,
            scheduled: True::MAX,
            tasks: Vec::new(),
            requests_pass: true,
            answers_pass: true,
            link_turn: 0,
            beats: Vec::new(),
            closed: Vec::new(),
            tokens: Vec::new(),
            asked: Vec::new(),
            stopping: false,
            stumbled: Vec::new(),
        }
    }

    /// Starts a process: a new holder id, a new session key, a new instance.
    pub(crate) fn boot(&mut self, index: usize) {
        let instance = self.dice.bits();
        let life = self.nodes[index].life + 1;
        let who = format!("n{index}.{life}");
        let session = Key::new(format!("session/{who}"));
        let (Ok(holder), Ok(session)) = (HolderId::new(&who), session) else { return };
        let identity = Identity {
            holder: holder.clone(),
            session: session.clone(),
            ttl: self.ttl,
            about: Metadata::new(),
            instance,
        };
        let rules = Rules { bugs: self.setup.bugs, poll: self.ttl.duration(), ..Rules::default() };
        let tasks = self.scenario.users.tasks;
        self.claims[index].clear();
        self.lapses[index].clear();
        let node = &mut self.nodes[index];
        node.life = life;
        node.holder = Some(Holder::new(identity, rules));
        node.session = session;
        node.who = holder;
        node.tasks = vec![Task { doing: Doing::Idle, turn: 0 }; tasks];
        node.wake_at = None;
        node.scheduled = True::MAX;
        node.stopping = false;
        for task in 0..tasks {
            self.think(index, task);
        }
    }

    /// The process is gone, and with it all that anyone on it believed.
    pub(crate) fn end_process(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.life += 1;
        node.holder = None;
        node.views.clear();
        node.inbox.clear();
        node.held_back = None;
        node.session_until = Tick(0);
        node.session_deadline = None;
        node.beats.clear();
        node.closed.clear();
        node.tokens.clear();
        node.asked.clear();
        node.paused = false;
        node.pause_turn += 1;
        node.clock.set_pace(self.t, Pace::Running);
        self.claims[index].clear();
        self.lapses[index].clear();
        self.checks.takeovers.waiters_died(index);
    }

    pub(crate) fn at(&mut self, t: True, what: What) {
        self.seq += 1;
        self.queue.push(Reverse((t.max(self.t), self.seq, what)));
    }

    /// At a random time with this mean from now.
    pub(crate) fn later(&mut self, mean: True, what: What) {
        let span = self.dice.span(mean);
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
            What::Parcel(slot) => match self.parcels.take(slot) {
                Some(Parcel::Request(envelope)) => self.arrive(*envelope),
                Some(Parcel::Reply(reply)) => self.reply(*reply),
                Some(Parcel::Token(to, token)) => self.deliver(to, Input::Token(token)),
                None => {}
            },
            What::Wake(index, life) => self.wake(usize::from(index), life),
            What::User(index, life, task, turn) => {
                if self.nodes[usize::from(index)].life == life {
                    self.deliver(usize::from(index), Input::User(usize::from(task), turn));
                }
            }
            What::Hint(index, life, key) => {
                if self.nodes[usize::from(index)].life == life {
                    let key = self.keys.get(usize::from(key)).cloned();
                    self.deliver(usize::from(index), Input::Hint(key));
                }
            }
            What::Effect { node, life, task, turn, key, fence, order } => {
                let found = self.checks.resource.write(usize::from(key), tenure_core::Fence(fence), order);
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
            What::Letter => self.letter(),
            What::Collect => self.collect(),
            What::Death => self.death(),
            What::Look => self.look(),
            What::Phase => self.turn_phase(),
        }
    }

    fn begin_chaos(&mut self) {
        self.healed = None;
        self.checks.takeovers.clear();
        for kind in 0..self.scenario.faults.len() {
            self.schedule_strike(kind);
        }
        self.at(self.t + self.per_mille(self.scenario.chaos * 1000), What::Phase);
    }

    fn turn_phase(&mut self) {
        if self.healed.is_none() {
            self.heal();
            self.healed = Some(self.t);
            self.free_since.fill(None);
            self.at(self.t + self.per_mille(self.scenario.calm * 1000), What::Phase);
            self.at(self.t + self.per_mille(100), What::Look);
            if self.scenario.deaths {
                self.later(self.per_mille(3000), What::Death);
            }
            return;
        }
        self.rounds_left -= 1;
        if self.rounds_left == 0 {
            self.over = true;
        } else {
            self.begin_chaos();
        }
    }

    /// Everything works from now on; only what is under way already may still arrive late.
    fn heal(&mut self) {
        (self.store_down, self.throttled) = (false, false);
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            node.requests_pass = true;
            node.answers_pass = true;
            node.link_turn += 1;
            if node.paused {
                self.resume(index);
            }
            if self.nodes[index].holder.is_none() {
                self.boot(index);
            }
        }
    }

    /// In the calm: does everything go on as it should?
    fn look(&mut self) {
        let Some(healed) = self.healed else { return };
        let (t, ttl) = (self.t, self.ttl_ns());
        for key in 0..self.keys.len() {
            if t > healed + ttl * 3 / 2 && self.scenario.rate <= 100_000 && !self.may_fail_over {
                // Whatever was excused before: once nothing goes wrong, whoever was deposed has found out. (Except after a
                // failover, which may have lost the claim of a lease that rides on a session that was not lost.)
                let found = invariants::s1::one_holder(&self.nodes, key, t);
                self.checks.must(t, Rule::S1, found);
            }
            let held = self.is_believed(key);
            let waited_for = self.nodes.iter().any(|node| {
                node.acts()
                    && node
                        .views
                        .iter()
                        .any(|view| view.key == key && view.waits && view.stage == Stage::Wanted)
            });
            // Where all only try, over and over, someone always wants it.
            let waited_for = waited_for || self.scenario.users.trying == 100;
            if held || !waited_for {
                self.free_since[key] = None;
                if !waited_for {
                    self.checks.takeovers.cancel(key);
                }
                continue;
            }
            let since = *self.free_since[key].get_or_insert(t);
            let found = invariants::l3::not_free_for_long(key, since, t, ttl);
            self.checks.check(t, Rule::L3, found);
        }
        for node in self.nodes.iter().filter(|node| node.acts()) {
            for view in &node.views {
                let found = invariants::answered::in_time(node, view, healed, t, ttl);
                self.checks.check(t, Rule::Answered, found);
            }
        }
        let found = self.checks.takeovers.look(t);
        self.checks.check(t, Rule::L1, found);
        self.at(t + self.per_mille(250), What::Look);
    }

    /// A claim took effect late: whoever waits has to find out about it anew.
    pub(crate) fn tenure_landed(&mut self, key: usize) {
        if self.healed.is_some() {
            self.free_since[key] = None;
            let (t, ttl) = (self.t, self.ttl_ns());
            let found = self.checks.takeovers.held(key, t, ttl);
            self.checks.check(t, Rule::L1, found);
        }
    }

    pub(crate) fn is_believed(&self, key: usize) -> bool {
        let believes =
            |node: &Node| node.views.iter().any(|view| view.key == key && node.believes(view, self.t));
        self.nodes.iter().any(believes)
    }

    fn wake(&mut self, index: usize, life: u32) {
        let node = &mut self.nodes[index];
        if node.life != life || node.scheduled != self.t {
            return;
        }
        node.scheduled = True::MAX;
        let Some(at) = node.wake_at else { return };
        if node.paused {
            // Whoever lets it go on looks at its wake-up again.
            return;
        }
        if node.clock.held(self.t) < at {
            return self.schedule_wake(index);
        }
        self.deliver(index, Input::Wake);
    }

    /// Puts the next wake-up into the queue, unless one that is early enough is there.
    pub(crate) fn schedule_wake(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let (Some(at), true) = (node.wake_at, node.holder.is_some()) else { return };
        // Timers are a little late.
        let due = node.clock.when(at).max(self.t) + self.dice.below(MILLI / 4);
        if due < node.scheduled {
            node.scheduled = due;
            let life = node.life;
            self.at(due, What::Wake(index as u8, life));
        }
    }

    /// Hands something to a process, or keeps it until the process runs again.
    pub(crate) fn deliver(&mut self, index: usize, input: Input) {
        let node = &mut self.nodes[index];
        if node.holder.is_none() {
            return;
        }
        if node.paused {
            node.inbox.push_back(input);
            return;
        }
        match input {
            Input::Answer(op, result) => self.step(index, Event::Answer(op, result)),
            Input::Wake => self.step(index, Event::Wake),
            Input::Hint(key) => self.step(index, Event::Changed(key)),
            Input::User(task, turn) => self.user(index, task, turn),
            Input::Token(token) => self.token_came(index, *token),
            Input::Stop => self.stop_process(index),
        }
    }

    pub(crate) fn command(&mut self, index: usize, command: Command) {
        self.trace.tell(self.t, || Story::Command(index, format!("{command:?}")));
        self.step(index, Event::Command(command));
    }

    fn step(&mut self, index: usize, event: Event<Command>) {
        let node = &mut self.nodes[index];
        let Some(holder) = &mut node.holder else { return };
        let now = node.clock.read(self.t);
        self.tally.steps += 1;
        let step = holder.step(now, event);
        if self.healed.is_none() && self.befalls(Fault::PauseMidStep) {
            self.nodes[index].held_back = Some((now, step));
            let span = self.dice.span(self.per_mille(600));
            self.pause(index, span);
            return;
        }
        self.act(index, now, step);
    }

    /// Does what a machine said: tells its users first, so that nothing is given up that someone still believes in.
    pub(crate) fn act(&mut self, index: usize, now: Now, step: Step<Notice>) {
        self.trace.step(index, &step);
        let life = self.nodes[index].life;
        for notice in step.notices {
            self.told(index, now, notice);
        }
        if self.nodes[index].life != life {
            return;
        }
        for request in step.requests {
            self.send(index, now, request);
        }
        let node = &mut self.nodes[index];
        node.wake_at = step.wake_at;
        let found = invariants::s5::told_in_time(node, now.held, step.wake_at);
        self.checks.check(self.t, Rule::S5, found);
        self.schedule_wake(index);
    }

    /// Lets a process go on.
    pub(crate) fn resume(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if !node.paused {
            return;
        }
        node.paused = false;
        node.pause_turn += 1;
        node.clock.set_pace(self.t, Pace::Running);
        node.scheduled = True::MAX;
        if let Some((now, step)) = node.held_back.take() {
            self.act(index, now, step);
        }
        // What came meanwhile is taken in turn, unless the process stops again.
        for _ in 0..1000 {
            let node = &mut self.nodes[index];
            if node.paused {
                break;
            }
            let Some(input) = node.inbox.pop_front() else { break };
            self.deliver(index, input);
        }
        if !self.nodes[index].paused {
            self.schedule_wake(index);
        }
    }

    pub(crate) fn new_lease(&mut self) -> LeaseId {
        self.next_lease += 1;
        LeaseId(self.next_lease)
    }
}
