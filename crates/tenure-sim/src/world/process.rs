//! The processes of the world: they start, take what comes to them, stop for a while, and end.

use super::{What, World};
use crate::clock::{MILLI, NodeClock, Pace, SECOND, True};
use crate::fault::Fault;
use crate::invariants::once::Ledger;
use crate::invariants::{self, Rule};
use crate::node::{Doing, Input, Node, Task};
use crate::trace::Story;
use tenure_core::op::{Event, Machine, Step};
use tenure_core::{
    Command, Drift, Holder, HolderId, Host, Identity, Key, Metadata, Notice, Now, Rules, ServiceClock, Tick,
};

impl World {
    pub(super) fn bare_node(&mut self, index: usize) -> Node {
        let rate = self.rng.between(1_000_000 - self.scenario.rate, 1_000_000 + self.scenario.rate);
        let off = self.scenario.wall_off_ms;
        let offset = self.rng.between(0, 2 * off) as i64 - off as i64;
        let held = self.rng.below(1000 * SECOND);
        Node {
            index,
            life: 0,
            holder: None,
            session: self.keys[0].clone(),
            who: HolderId::new("nobody").unwrap_or_else(|_| unreachable!("short and not empty")),
            goes_by: None,
            names: Vec::new(),
            clock: NodeClock::new(self.t, held, rate, offset),
            boot: if self.scenario.clones { 0 } else { index as u64 },
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
            heartbeats: Vec::new(),
            closed: Vec::new(),
            tokens: Vec::new(),
            announced: None,
            asked: Vec::new(),
            won: Vec::new(),
            denied: Vec::new(),
            stopping: false,
            seats: Vec::new(),
            stumbled: Vec::new(),
            service: ServiceClock::new(Drift::default()),
            dim: Tick(0),
            gap: None,
        }
    }

    /// Starts a process: a new holder id, a new session key, a new instance.
    pub(crate) fn boot(&mut self, index: usize) {
        let instance = self.rng.bits();
        let life = self.nodes[index].life + 1;
        let own = format!("n{index}.{life}");
        let who = self.nodes[index].goes_by.take().map_or(own, |taken| taken.to_string());
        let session = Key::new(format!("session/{who}"));
        let (Ok(holder), Ok(session)) = (HolderId::new(&who), session) else { return };
        let identity = Identity {
            holder: holder.clone(),
            session: session.clone(),
            ttl: self.ttl,
            about: Metadata::new(),
            instance,
        };
        let renew = self.scenario.users.elects.then(|| self.ttl.part(5));
        // A node's clocks go on from one process to the next.
        let host = Host { boot: self.nodes[index].boot, held: Tick(0), waited: Tick(0) };
        let (bugs, poll) = (self.setup.bugs, self.ttl.duration());
        let rules = Rules { bugs, poll, renew, host: Some(host), ..Rules::default() };
        let tasks = self.scenario.users.tasks;
        self.claims[index].clear();
        self.lapses[index].clear();
        let node = &mut self.nodes[index];
        node.life = life;
        node.holder = Some(Holder::new(identity, rules));
        node.session = session;
        node.who = holder.clone();
        node.names.push((life, holder));
        node.tasks = vec![Task { doing: Doing::Idle, turn: 0 }; tasks];
        node.wake_at = None;
        node.scheduled = True::MAX;
        node.stopping = false;
        // Its store's client has looked at the table, and been told a date.
        let held = node.clock.held(self.t);
        node.service = ServiceClock::new(Drift::default());
        node.service.answered(held, held, self.store.date(self.t));
        for task in 0..tasks {
            self.think(index, task);
        }
        self.seat_candidates(index);
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
        node.heartbeats.clear();
        node.closed.clear();
        node.gap = None;
        node.tokens.clear();
        node.announced = None;
        node.seats.clear();
        node.asked.clear();
        node.won.clear();
        node.denied.clear();
        node.paused = false;
        node.pause_turn += 1;
        node.clock.set_pace(self.t, Pace::Running);
        self.asked[index] = Ledger::default();
        self.claims[index].clear();
        self.lapses[index].clear();
        self.checks.takeovers.waiters_died(index);
    }

    pub(super) fn wake(&mut self, index: usize, life: u32) {
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
        let due = node.clock.when(at).max(self.t) + self.rng.below(MILLI / 4);
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
            Input::Hint(hint) => self.step(index, Event::Changed(hint)),
            Input::User(task, turn) => self.user(index, task, turn),
            Input::Token(token) => self.token_came(index, *token),
            Input::Stop => self.stop_process(index),
            Input::Lead(key) => self.lead(index, key),
            Input::Candidate(key, turn) => self.wake_candidate(index, key, turn),
            Input::Command(command) => {
                if let Command::Lapse(lease) = *command {
                    self.note_lapse(index, lease);
                }
                self.command(index, *command);
            }
        }
    }

    /// Takes the next thing out of a process's inbox, unless the process stands still.
    pub(super) fn look_into_inbox(&mut self, index: usize, life: u32) {
        let node = &mut self.nodes[index];
        if node.life == life
            && !node.paused
            && let Some(input) = node.inbox.pop_front()
        {
            self.deliver(index, input);
        }
    }

    pub(crate) fn command(&mut self, index: usize, command: Command) {
        self.asked[index].asks(&command);
        if matches!(command, Command::Lapse(_)) {
            self.lapsed = Some(self.t);
        }
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
            let span = self.rng.span(self.per_mille(600));
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

    /// A third of a ttl after time was hidden from a process, it has noticed that.
    pub(super) fn look_for_gap(&mut self, index: usize, life: u32) {
        let node = &self.nodes[index];
        let Some(gap) = node.gap.filter(|_| node.life == life) else { return };
        let due = gap.after(self.ttl.part(3) + self.ttl.part(50));
        if node.paused || node.clock.held(self.t) < due {
            return self.at(self.t + self.per_mille(50), What::Gap(index as u8, life));
        }
        let found = invariants::s4::gap_noticed(node, self.t);
        self.checks.check(self.t, Rule::S4, found);
        self.nodes[index].gap = None;
    }

    /// Lets a process go on.
    pub(crate) fn resume(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if !node.paused {
            return;
        }
        node.paused = false;
        node.pause_turn += 1;
        let hidden = node.clock.hidden_for(self.t) >= 2 * SECOND;
        if node.clock.end_freeze(self.t) {
            // Whatever it does from here on, it does later than that.
            node.clock.leap(self.t, 1);
        }
        node.clock.set_pace(self.t, Pace::Running);
        node.scheduled = True::MAX;
        if hidden {
            node.gap = Some(node.clock.held(self.t));
            let life = node.life;
            self.later(self.per_mille(300), What::Gap(index as u8, life));
        }
        let node = &mut self.nodes[index];
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
}
