//! The processes of a fleet's world: they start, take what comes to them, stop for a while, and end.

use super::invariants;
use super::node::{Input, WorkerNode};
use super::world::{What, World};
use crate::clock::{MILLI, NodeClock, Pace, SECOND, True};
use crate::fault::Fault;
use crate::invariants::Rule;
use crate::trace::{Story, describe};
use tenure_core::fleet::{About, Balance, FleetCommand, FleetNotice, Options, Worker};
use tenure_core::op::{Event, Machine, Step};
use tenure_core::{HolderId, Identity, Key, LeaseId, Metadata, Now, Rules, Tick, Ttl};

/// The label that some units need.
pub(crate) const LABEL: &str = "gpu";

impl World {
    pub(super) fn bare_post(&mut self, index: usize) -> WorkerNode {
        let rate = self.rng.between(1_000_000 - self.scenario.rate, 1_000_000 + self.scenario.rate);
        let off = self.scenario.wall_off_ms;
        let offset = self.rng.between(0, 2 * off) as i64 - off as i64;
        let held = self.rng.below(1000 * SECOND);
        WorkerNode {
            index,
            life: 0,
            machine: None,
            who: HolderId::new("nobody").unwrap_or_else(|_| unreachable!("short and not empty")),
            ttl: self.ttl,
            session: self.board.clone(),
            clock: NodeClock::new(self.t, held, rate, offset),
            paused: false,
            pause_turn: 0,
            inbox: Default::default(),
            held_back: None,
            works: Default::default(),
            lapses: Vec::new(),
            valid: Tick(0),
            deadline: Tick(0),
            heartbeats: Default::default(),
            wake_at: None,
            scheduled: True::MAX,
            requests_pass: true,
            answers_pass: true,
            link_turn: 0,
            leaving: false,
            unsaid: None,
            stopping: false,
            doomed: false,
            settled_reads: 0,
            late: Default::default(),
            known: Default::default(),
        }
    }

    pub(super) fn about(&self, index: usize) -> About {
        let balance = if self.scenario.weighs { Balance::Weight } else { Balance::Count };
        let about = About::default().units(self.scenario.room).balance(balance);
        if index % 3 == 2 { about } else { about.label(LABEL) }
    }

    /// The ttl of a new process's session: the world's, or a half or a quarter of it where they differ.
    fn any_ttl(&mut self) -> Ttl {
        if !self.scenario.ttls {
            return self.ttl;
        }
        Ttl::clamped(self.ttl.millis() >> self.rng.below(3))
    }

    /// Starts a process: a new holder id, a new instance.
    pub(crate) fn boot(&mut self, index: usize) {
        let instance = self.rng.bits();
        let life = self.nodes[index].life + 1;
        let (Ok(who), Ok(unset)) = (HolderId::new(format!("w{index}.{life}")), Key::new("unset")) else {
            return;
        };
        let Ok(session) = self.fleet.worker(&who) else { return };
        let ttl = self.any_ttl();
        let identity =
            Identity { holder: who.clone(), session: unset, ttl, about: Metadata::new(), instance };
        let rules = Rules { bugs: self.setup.bugs, ..Rules::default() };
        let options = Options {
            fleet: self.fleet.clone(),
            about: self.about(index),
            drain: self.ttl.part(2),
            push: self.spec.push,
            page: self.scenario.page,
        };
        let Ok(machine) = Worker::new(identity, rules, options) else { return };
        let node = &mut self.nodes[index];
        node.life = life;
        node.machine = Some(machine);
        node.who = who;
        node.ttl = ttl;
        node.session = session;
        node.wake_at = None;
        node.scheduled = True::MAX;
        (node.leaving, node.stopping, node.doomed) = (false, false, false);
        self.disturb_by_plan();
        self.command(index, FleetCommand::Join);
    }

    /// The process is gone, and with it all that was done on it.
    pub(crate) fn end_process(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.life += 1;
        node.machine = None;
        let works = std::mem::take(&mut node.works);
        node.lapses.clear();
        node.unsaid = None;
        node.known.clear();
        node.late.clear();
        node.inbox.clear();
        node.held_back = None;
        (node.valid, node.deadline) = (Tick(0), Tick(0));
        node.heartbeats.clear();
        node.paused = false;
        node.pause_turn += 1;
        node.clock.set_pace(self.t, Pace::Running);
        let ttl = self.nodes[index].ttl;
        for work in works.into_values() {
            if let Some(truth) = self.units.get_mut(&work.unit) {
                truth.tries.1 += 1;
            }
            self.idles(&work.unit, Some(ttl));
        }
    }

    pub(super) fn wake(&mut self, index: usize, life: u32) {
        let node = &mut self.nodes[index];
        if node.life != life || node.scheduled != self.t {
            return;
        }
        node.scheduled = True::MAX;
        let Some(at) = node.wake_at else { return };
        if node.paused {
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
        let (Some(at), true) = (node.wake_at, node.machine.is_some()) else { return };
        // Timers are a little late.
        let due = node.clock.when(at).max(self.t) + self.rng.below(MILLI / 4);
        if due < node.scheduled {
            node.scheduled = due;
            let life = node.life;
            self.at(due, What::Wake(index as u8, life));
        }
    }

    pub(crate) fn deliver_to_life(&mut self, index: usize, life: u32, input: Input) {
        if self.nodes[index].life == life {
            self.deliver(index, input);
        }
    }

    /// Hands something to a process, or keeps it until the process runs again.
    pub(crate) fn deliver(&mut self, index: usize, input: Input) {
        let node = &mut self.nodes[index];
        if node.machine.is_none() {
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
            Input::Turn(lease, turn) => self.turn(index, lease, turn),
            Input::Ends(lease) => self.ends(index, lease),
            Input::Leave => self.leave(index),
            Input::Stop => self.stop(index),
        }
    }

    pub(crate) fn command(&mut self, index: usize, command: FleetCommand) {
        self.trace.tell(self.t, || Story::Command(index, format!("{command:?}")));
        self.step(index, Event::Command(command));
    }

    fn step(&mut self, index: usize, event: Event<FleetCommand>) {
        let node = &mut self.nodes[index];
        let Some(machine) = &mut node.machine else { return };
        let now = node.clock.read(self.t);
        self.tally.steps += 1;
        let step = machine.step(now, event);
        if self.befalls(Fault::PauseMidStep) {
            // What the user was told before is no different for that; what is told now comes after the pause.
            if let Some((_, held)) = &mut self.nodes[index].held_back {
                held.notices.extend(step.notices);
                held.requests.extend(step.requests);
                held.wake_at = step.wake_at;
                return;
            }
            self.nodes[index].held_back = Some((now, step));
            let span = self.rng.span(self.per_mille(600));
            self.pause(index, span);
            return;
        }
        self.act(index, now, step);
    }

    /// Does what a machine said: tells its users first, so that nothing is given up that someone still believes in.
    pub(crate) fn act(&mut self, index: usize, now: Now, step: Step<FleetNotice>) {
        self.trace.fold(index as u64 | (step.requests.len() as u64) << 8 | (step.notices.len() as u64) << 16);
        self.trace.fold(step.wake_at.unwrap_or(Tick(0)).0);
        let life = self.nodes[index].life;
        for notice in step.notices {
            self.trace.tell(self.t, || Story::Fault(Some(index), format!("→ {notice:?}")));
            self.heard(index, now, notice);
        }
        if self.nodes[index].life != life {
            return;
        }
        for request in step.requests {
            self.trace.tell(self.t, || {
                Story::Fault(Some(index), format!("sends #{:x} {}", request.id.0, describe(&request.op)))
            });
            self.send(index, now, request);
        }
        let node = &mut self.nodes[index];
        node.wake_at = step.wake_at;
        let found = invariants::s5::told_in_time(node, now.held, step.wake_at);
        self.checks.check(self.t, Rule::S5, found);
        self.schedule_wake(index);
    }

    /// Stops a process for so long.
    pub(crate) fn pause(&mut self, index: usize, span: True) {
        let node = &mut self.nodes[index];
        if node.machine.is_none() {
            return;
        }
        node.paused = true;
        node.pause_turn += 1;
        let turn = node.pause_turn;
        self.at(self.t + span, What::Resume(index as u8, turn));
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

    /// Goes in good order: everything is passed on.
    fn leave(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if !node.leaving && !node.stopping {
            node.leaving = true;
            self.disturb_by_plan();
            self.command(index, FleetCommand::Leave);
        }
    }

    /// Goes at once: all bodies have been ended.
    fn stop(&mut self, index: usize) {
        if std::mem::replace(&mut self.nodes[index].stopping, true) {
            return;
        }
        let running: Vec<LeaseId> =
            self.nodes[index].works.iter().filter(|(_, work)| work.runs()).map(|(lease, _)| *lease).collect();
        for lease in running {
            self.body_is_over(index, lease, false);
        }
        self.disturb_by_plan();
        self.command(index, FleetCommand::Stop);
    }
}
