//! The world of a section: processes, a store, and the queue of what happens next.

use super::Spec;
use super::messages::Envelope;
use super::users::{Doing, View};
use crate::clock::{MILLI, NodeClock, Pace, SECOND, True};
use crate::fault::{Fault, Faults, KINDS};
use crate::invariants::asked::Asked;
use crate::invariants::p2::Resource;
use crate::invariants::reach::Anchor;
use crate::invariants::s5;
use crate::invariants::s7::{Believed, Entries};
use crate::invariants::{Rule, Violation};
use crate::registers::{Ages, Registers, StoreSpec};
use crate::rng::Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use tenure_core::op::{Answer, Event, Machine, Op, OpId, Step};
use tenure_core::section::{self, Ledger, Section, SectionCommand, SectionNotice, SectionSetup};
use tenure_core::{Bugs, Drift, HolderId, Key, LeaseId, Nonce, Now, Rules, ServiceClock, StoreError, Tick};

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A message reaches its end.
    Message(u64),
    /// No answer has come in time.
    Timeout(usize, u32, OpId),
    Wake(usize, u32),
    User(usize, u32, usize, u32),
    Resume(usize, u32),
    Restart(usize, u32),
    Strike(usize),
    Collect,
    Calm,
    End,
}

/// One machine and the process on it.
pub(super) struct Node {
    pub(super) life: u32,
    pub(super) who: HolderId,
    pub(super) machine: Option<Section>,
    pub(super) clock: NodeClock,
    pub(super) paused: bool,
    pause_turn: u32,
    pub(super) inbox: VecDeque<Input>,
    /// A step that was taken before a pause and shows after it.
    pub(super) held_back: Option<Step<SectionNotice>>,
    pub(super) wake_at: Option<Tick>,
    pub(super) tasks: Vec<(Doing, u32)>,
    pub(super) views: BTreeMap<LeaseId, View>,
    /// When each entry of ours was sent.
    pub(super) sent: BTreeMap<Nonce, Tick>,
    /// What its client knows of the store's clock.
    pub(super) service: ServiceClock,
    /// Commands that are not answered yet.
    pub(super) asked: Asked,
    /// Operations that are under way.
    pub(super) waiting: Vec<(OpId, bool)>,
}

#[allow(clippy::large_enum_variant, reason = "most are answers")]
pub(super) enum Input {
    Event(Event<SectionCommand>),
    User(usize, u32),
}

pub(super) struct World {
    pub(super) t: True,
    seq: u64,
    queue: BinaryHeap<Reverse<(True, u64, What)>>,
    pub(super) rng: Rng,
    pub(super) spec: Spec,
    bugs: Bugs,
    pub(super) without: Faults,
    pub(super) key: Key,
    pub(super) nodes: Vec<Node>,
    pub(super) store: Registers,
    pub(super) ages: Ages,
    /// Since when, by true time, what stands in the section can be told to be old.
    pub(super) anchor: Anchor,
    pub(super) messages: BTreeMap<u64, Envelope>,
    pub(super) last_message: u64,
    pub(super) calm: bool,
    /// Until then nobody wants anything anew.
    pub(super) rest_until: True,
    /// How often the section was removed.
    pub(super) removals: u64,
    last_lease: u64,
    pub(super) entries: Entries,
    /// When each entry was sent, in true time.
    pub(super) posted: BTreeMap<Nonce, True>,
    /// Processes that have stopped in good order, and when.
    pub(super) stopped: BTreeMap<HolderId, True>,
    pub(super) resource: Resource,
    /// At the end, this node must obtain everything.
    pub(super) last_asked: Option<(LeaseId, u32)>,
    pub(super) broken: Option<Violation>,
    pub(super) events: u64,
    pub(super) steps: u64,
    pub(super) faults: [u64; KINDS],
    pub(super) hash: u64,
    told: bool,
    pub(super) lines: Vec<String>,
}

impl World {
    pub(super) fn run(spec: Spec, seed: u64, bugs: Bugs, without: Faults, told: bool) -> World {
        let mut rng = Rng::new(seed ^ 0x5ec7_1045);
        let ages = spec.ages[rng.index(spec.ages.len())];
        let key = section::key("s").unwrap_or_else(|_| unreachable!("short and not empty"));
        let mut world = World {
            t: 0,
            seq: 0,
            queue: BinaryHeap::new(),
            rng,
            spec,
            bugs,
            without,
            key,
            nodes: Vec::new(),
            store: Registers::new(StoreSpec { ages, push: false, lags: false }, false, false),
            ages,
            anchor: Anchor::default(),
            messages: BTreeMap::new(),
            last_message: 0,
            calm: false,
            rest_until: 0,
            removals: 0,
            last_lease: 0,
            entries: Entries::default(),
            posted: BTreeMap::new(),
            stopped: BTreeMap::new(),
            resource: Resource::default(),
            last_asked: None,
            broken: None,
            events: 0,
            steps: 0,
            faults: [0; KINDS],
            hash: seed,
            told,
            lines: Vec::new(),
        };
        for index in 0..spec.nodes {
            let rate = world.rng.between(900_000, 1_100_000);
            let off = world.wall_offset();
            let held = world.rng.below(1000 * SECOND);
            let nobody = HolderId::new("nobody").unwrap_or_else(|_| unreachable!("short and not empty"));
            world.nodes.push(Node {
                life: 0,
                who: nobody,
                machine: None,
                clock: NodeClock::new(0, held, rate, off),
                paused: false,
                pause_turn: 0,
                inbox: VecDeque::new(),
                held_back: None,
                wake_at: None,
                tasks: Vec::new(),
                views: BTreeMap::new(),
                sent: BTreeMap::new(),
                service: ServiceClock::new(Drift::default()),
                asked: Asked::default(),
                waiting: Vec::new(),
            });
            world.boot(index);
        }
        for kind in 0..spec.faults.len() {
            world.schedule_strike(kind);
        }
        if spec.gc {
            world.at(world.spans(6), What::Collect);
        }
        world.at(world.spans(60), What::Calm);
        world.go();
        world
    }

    /// So many durations.
    pub(super) fn spans(&self, n: u64) -> True {
        self.spec.duration_ms * MILLI * n
    }

    fn wall_offset(&mut self) -> i64 {
        let off = self.spec.wall_off_ms;
        self.rng.between(0, 2 * off) as i64 - off as i64
    }

    pub(super) fn at(&mut self, t: True, what: What) {
        self.seq += 1;
        self.queue.push(Reverse((t.max(self.t), self.seq, what)));
    }

    pub(super) fn later(&mut self, mean: True, what: What) {
        let span = self.rng.span(mean);
        self.at(self.t + span, what);
    }

    pub(super) fn check(&mut self, rule: Rule, found: Result<(), String>) {
        if let (Err(text), None) = (found, &self.broken) {
            self.broken = Some(Violation { rule, at: self.t, text });
        }
    }

    pub(super) fn tell(&mut self, text: impl FnOnce() -> String) {
        if self.told {
            self.lines.push(format!("{:>12.6} s  {}", self.t as f64 / SECOND as f64, text()));
        }
    }

    fn go(&mut self) {
        while self.broken.is_none() {
            let Some(Reverse((t, _, what))) = self.queue.pop() else { return };
            self.t = t;
            self.events += 1;
            self.hash = (self.hash.rotate_left(5) ^ t).wrapping_mul(0x517c_c1b7_2722_0a95);
            match what {
                What::Message(id) => self.deliver_message(id),
                What::Timeout(index, life, op) => self.time_out(index, life, op),
                What::Wake(index, life) => {
                    let node = &self.nodes[index];
                    if node.life == life && node.wake_at.is_some_and(|at| node.clock.held(self.t) >= at) {
                        self.deliver(index, Input::Event(Event::Wake));
                    }
                }
                What::User(index, life, task, turn) => {
                    if self.nodes[index].life == life {
                        self.deliver(index, Input::User(task, turn));
                    }
                }
                What::Resume(index, turn) if self.nodes[index].pause_turn == turn => self.resume(index),
                What::Restart(index, life) if self.nodes[index].life == life => self.boot(index),
                What::Resume(..) | What::Restart(..) => {}
                What::Strike(kind) => self.strike(kind),
                What::Collect => self.collect(),
                What::Calm => self.calm_down(),
                What::End if self.end() => return,
                What::End => {}
            }
        }
    }

    /// Starts a process, with everything anew.
    fn boot(&mut self, index: usize) {
        let instance = self.rng.bits();
        let life = self.nodes[index].life + 1;
        let Ok(who) = HolderId::new(format!("n{index}.{life}")) else { return };
        let machine = Section::new(SectionSetup {
            key: self.key.clone(),
            holder: who.clone(),
            instance,
            rules: Rules { bugs: self.bugs, ..Rules::default() },
            most_parts: self.spec.most_parts,
            most_bytes: Ledger::MAX_BYTES,
        });
        let tasks = self.spec.tasks;
        let node = &mut self.nodes[index];
        (node.life, node.who, node.machine) = (life, who, Some(machine));
        // Its store's client has looked at the table, and been told a date.
        let held = node.clock.held(self.t);
        node.service = ServiceClock::new(Drift::default());
        node.service.answered(held, held, self.store.date(self.t));
        node.tasks = vec![(Doing::Idle, 0); tasks];
        for task in 0..tasks {
            self.think(index, task);
        }
    }

    pub(super) fn kill(&mut self, index: usize) {
        self.tell(|| format!("n{index} ** dies"));
        let node = &mut self.nodes[index];
        node.life += 1;
        node.machine = None;
        node.inbox.clear();
        node.held_back = None;
        node.wake_at = None;
        node.views.clear();
        node.sent.clear();
        node.asked = Asked::default();
        node.waiting.clear();
        node.paused = false;
        node.pause_turn += 1;
        node.clock.set_pace(self.t, Pace::Running);
        let life = self.nodes[index].life;
        let mean = if self.spec.brief { self.spans(1) / 20 } else { self.spans(1) };
        self.later(mean, What::Restart(index, life));
    }

    pub(super) fn deliver(&mut self, index: usize, input: Input) {
        let node = &mut self.nodes[index];
        if node.machine.is_none() {
            return;
        }
        if node.paused {
            return node.inbox.push_back(input);
        }
        match input {
            Input::Event(event) => self.step(index, event),
            Input::User(task, turn) => self.user(index, task, turn),
        }
    }

    pub(super) fn step(&mut self, index: usize, event: Event<SectionCommand>) {
        let t = self.t;
        let node = &mut self.nodes[index];
        let now: Now = node.clock.read(t);
        let Some(machine) = &mut node.machine else { return };
        match &event {
            Event::Answer(op, _) => node.waiting.retain(|(waiting, _)| waiting != op),
            Event::Command(command) => node.asked.ask(command),
            _ => {}
        }
        let step = machine.step(now, event);
        // What a machine sends, it sends at its own time, whenever that leaves the process.
        for request in &step.requests {
            let Op::Write(write) = &request.op else { continue };
            let ledger = Ledger::of(&write.record).unwrap_or_default();
            for entry in ledger.entries.iter().filter(|entry| entry.holder == node.who) {
                node.sent.entry(entry.id).or_insert(now.held);
                self.posted.entry(entry.id).or_insert(t);
            }
        }
        let found = told_in_time(node, now.held, &step);
        self.check(Rule::S5, found);
        self.steps += 1;
        self.hash = self.hash.wrapping_add(step.wake_at.map_or(0, |at| at.0)).rotate_left(3);
        if !self.calm && self.befalls(Fault::PauseMidStep) {
            let span = self.rng.span(self.spans(1));
            self.nodes[index].held_back = Some(step);
            return self.pause(index, span);
        }
        self.obey(index, step);
    }

    fn obey(&mut self, index: usize, step: Step<SectionNotice>) {
        let Step { requests, notices, wake_at } = step;
        for notice in notices {
            self.told(index, notice);
        }
        if self.nodes[index].machine.is_none() {
            return;
        }
        for request in requests {
            self.post(index, request);
        }
        let node = &mut self.nodes[index];
        node.wake_at = wake_at;
        if let Some(at) = wake_at {
            // A machine that misreads its clock is woken too early for it, and must not keep the world from going on.
            let (when, life) = (node.clock.when(at).max(self.t + MILLI), node.life);
            self.at(when, What::Wake(index, life));
        }
    }

    pub(super) fn pause(&mut self, index: usize, span: True) {
        let node = &mut self.nodes[index];
        if node.machine.is_none() {
            return;
        }
        node.paused = true;
        node.pause_turn += 1;
        let turn = node.pause_turn;
        self.tell(|| format!("n{index} ** stands still"));
        self.at(self.t + span, What::Resume(index, turn));
    }

    fn resume(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.paused = false;
        node.clock.set_pace(self.t, Pace::Running);
        if let Some(step) = node.held_back.take() {
            self.obey(index, step);
        }
        let waiting = std::mem::take(&mut self.nodes[index].inbox);
        for input in waiting {
            self.deliver(index, input);
        }
        self.deliver(index, Input::Event(Event::Wake));
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.store.get(&self.key).and_then(|record| Ledger::of(record).ok()).unwrap_or_default()
    }

    pub(super) fn lease(&mut self) -> LeaseId {
        self.last_lease += 1;
        LeaseId(self.last_lease)
    }

    /// What is believed in at this instant.
    pub(super) fn believed(&self) -> impl Iterator<Item = &Believed> {
        let t = self.t;
        self.nodes.iter().flat_map(move |node| {
            node.views
                .values()
                .filter(move |view| node.clock.held(t) < view.until)
                .filter_map(|view| view.held.as_ref())
        })
    }

    /// Everything works from now on. When all leases there were are over, one process must obtain everything.
    fn calm_down(&mut self) {
        self.calm = true;
        for index in 0..self.nodes.len() {
            if self.nodes[index].paused {
                self.nodes[index].pause_turn += 1;
                self.resume(index);
            }
            if self.nodes[index].machine.is_none() {
                self.boot(index);
            }
        }
        self.at(self.t + self.spans(16), What::End);
    }

    /// True when nothing is left to find out.
    fn end(&mut self) -> bool {
        match self.last_asked {
            None => {
                // Every command of a user has been answered by now.
                let open = self
                    .nodes
                    .iter()
                    .flat_map(|node| node.views.iter().map(move |(id, view)| (node, id, view)));
                let open = open
                    .filter(|(_, _, view)| view.is_open())
                    .map(|(node, id, _)| format!("{} {}", node.who, id.0));
                if let Some(open) = open.min() {
                    self.check(Rule::Answered, Err(format!("a command was never answered: {open}")));
                }
                for index in 0..self.nodes.len() {
                    let found = self.nodes[index].asked.nothing_is_open();
                    self.check(Rule::Answered, found);
                }
                self.ask_for_all(0);
            }
            // The first look was to begin watching what the dead have left.
            Some((_, 0)) => self.ask_for_all(1),
            Some((_, 1)) => {
                self.check(Rule::Answered, Err("the last wish was never answered".to_owned()));
                return true;
            }
            Some(_) => return true,
        }
        self.at(self.t + self.spans(2), What::End);
        false
    }

    pub(super) fn unavailable(writes: bool) -> Result<Answer, StoreError> {
        Err(if writes { StoreError::unknown("no answer") } else { StoreError::unavailable("no answer") })
    }
}

/// S5, after a step and before anybody hears what came of it.
fn told_in_time(node: &mut Node, now: Tick, step: &Step<SectionNotice>) -> Result<(), String> {
    let answered = |notice: &SectionNotice| match notice {
        SectionNotice::Obtained { lease, .. }
        | SectionNotice::Failed(lease, _)
        | SectionNotice::Listed(lease, _)
        | SectionNotice::Reclaimed(lease, _) => Some(*lease),
        _ => None,
    };
    for lease in step.notices.iter().filter_map(answered) {
        if let Some(view) = node.views.get_mut(&lease) {
            view.answer_by = None;
        }
    }
    let obtained = step.notices.iter().filter_map(|notice| match notice {
        SectionNotice::Obtained { fence: Some(_), until, .. } => Some(*until),
        _ => None,
    });
    let open = node.views.iter().filter_map(|(lease, view)| Some((*lease, view.answer_by?)));
    s5::ranges_told_in_time(&node.who, now, step.wake_at, obtained, open)
}
