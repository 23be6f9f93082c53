//! One machine of a world, with its clocks, and the process on it: it starts, takes what comes to it, stops for a while, and ends.

use super::scene::{Command, NewProcess, Notice, Scene};
use super::{What, World};
use crate::kernel::clock::{ClockPace, MILLI, NodeClock, SECOND, True};
use crate::kernel::fault::FaultKind;
use crate::kernel::trace::Story;
use std::collections::VecDeque;
use tenure_core::op::{Answer, Event, Hint, Machine, OpId, Step};
use tenure_core::{Drift, HolderId, Key, Now, ServiceClock, StoreError, Tick};

/// What reaches a process.
pub(crate) enum NodeInput<S: Scene> {
    Answer(OpId, Result<Answer, StoreError>),
    Wake,
    Hint(Hint),
    /// From its users.
    Own(S::Input),
}

pub(crate) struct Node<S: Scene> {
    pub(crate) index: usize,
    /// Counts processes here.
    pub(crate) life: u32,
    pub(crate) machine: Option<S::Machine>,
    pub(crate) who: HolderId,
    /// The key of this process's session, where there are sessions.
    pub(crate) session: Key,
    /// What its processes went by, each with its life.
    pub(crate) names: Vec<(u32, HolderId)>,
    pub(crate) clock: NodeClock,
    /// The process, or the whole machine, stands still.
    pub(crate) paused: bool,
    pub(crate) pause_turn: u32,
    pub(crate) inbox: VecDeque<NodeInput<S>>,
    /// A step that was taken before a pause and shows after it.
    pub(crate) held_back: Option<(Now, Step<Notice<S>>)>,
    pub(crate) wake_at: Option<Tick>,
    /// The true time of the next wake-up in the queue.
    pub(crate) scheduled: True,
    pub(crate) requests_pass: bool,
    pub(crate) answers_pass: bool,
    pub(crate) link_turn: u32,
    /// Its users have told it to stop.
    pub(crate) stopping: bool,
    /// When time was last hidden from it without a trace: what was sent until then is excused from S1.
    pub(crate) dim: Tick,
    /// What its store's client knows of the store's clock, where that tells dates.
    pub(crate) service: ServiceClock,
    /// What the scene knows of it.
    pub(crate) own: S::Own,
}

impl<S: Scene> Node<S> {
    /// Whether the process runs and can be expected to act.
    pub(crate) fn acts(&self) -> bool {
        self.machine.is_some() && !self.paused
    }

    /// What the process of this life goes by, or went by.
    pub(crate) fn name_of(&self, life: u32) -> &HolderId {
        let known = self.names.iter().rev().find(|(known, _)| *known == life);
        known.map_or(&self.who, |(_, who)| who)
    }
}

impl<S: Scene> World<S> {
    /// Starts a process: a new holder id, a new instance.
    pub(crate) fn boot(&mut self, index: usize) {
        let instance = self.rng.bits();
        let life = self.nodes[index].life + 1;
        let Some(process) = S::process(self, index, life, instance) else { return };
        let NewProcess { who, session, machine } = process;
        let date = self.store.date(self.t);
        let node = &mut self.nodes[index];
        node.names.push((life, who.clone()));
        (node.life, node.who, node.session, node.machine) = (life, who, session, Some(machine));
        (node.wake_at, node.scheduled, node.stopping) = (None, True::MAX, false);
        // Its store's client has looked at the table, and been told a date.
        let held = node.clock.held(self.t);
        node.service = ServiceClock::new(Drift::default());
        node.service.answered(held, held, date);
        S::booted(self, index);
        if self.frame.has(FaultKind::SharedClock) {
            // As drivers do: it sees its clocks from the beginning.
            self.deliver(index, NodeInput::Wake);
        }
    }

    /// The process is gone, and with it all that anyone on it believed.
    pub(crate) fn end_process(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.life += 1;
        node.machine = None;
        node.inbox.clear();
        node.held_back = None;
        node.paused = false;
        node.pause_turn += 1;
        node.clock.set_pace(self.t, ClockPace::Running);
        S::ended(self, index);
    }

    /// The next process begins there after some time with this mean.
    pub(crate) fn restart(&mut self, index: usize, mean: True) {
        let life = self.nodes[index].life;
        self.later(mean, What::Restart(index as u8, life));
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
        self.deliver(index, NodeInput::Wake);
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

    pub(super) fn deliver_to_life(&mut self, index: u8, life: u32, input: NodeInput<S>) {
        if self.nodes[usize::from(index)].life == life {
            self.deliver(usize::from(index), input);
        }
    }

    /// Hands something to a process, or keeps it until the process runs again.
    pub(crate) fn deliver(&mut self, index: usize, input: NodeInput<S>) {
        let node = &mut self.nodes[index];
        if node.machine.is_none() {
            return;
        }
        if node.paused {
            node.inbox.push_back(input);
            return;
        }
        match input {
            NodeInput::Answer(op, result) => self.step(index, Event::Answer(op, result)),
            NodeInput::Wake => self.step(index, Event::Wake),
            NodeInput::Hint(hint) => self.step(index, Event::Changed(hint)),
            NodeInput::Own(input) => S::input(self, index, input),
        }
    }

    /// The users of a process give it a command.
    pub(crate) fn command(&mut self, index: usize, command: Command<S>) {
        S::commanded(self, index, &command);
        self.tell(|world| Story::Process(world.name(index), format!("← {command:?}")));
        self.step(index, Event::Command(command));
    }

    fn step(&mut self, index: usize, event: Event<Command<S>>) {
        let node = &mut self.nodes[index];
        let Some(machine) = &mut node.machine else { return };
        let now = node.clock.read(self.t);
        self.tally.steps += 1;
        let step = machine.step(now, event);
        S::stepped(self, index, now, &step);
        if self.befalls(FaultKind::PauseMidStep) {
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
    fn act(&mut self, index: usize, now: Now, step: Step<Notice<S>>) {
        self.trace.step(&step, index);
        let life = self.nodes[index].life;
        for notice in step.notices {
            self.tell(|world| Story::Process(world.name(index), format!("→ {notice:?}")));
            S::told(self, index, now, notice);
        }
        if self.nodes[index].life != life {
            return;
        }
        for request in step.requests {
            self.send(index, now, request);
        }
        self.nodes[index].wake_at = step.wake_at;
        S::acted(self, index, now.held, step.wake_at);
        self.schedule_wake(index);
    }

    /// Stops a process for so long. What it did last may show only afterwards.
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
        let missed = node.clock.hidden_for(self.t) >= 2 * SECOND;
        if node.clock.end_freeze(self.t) {
            // Whatever it does from here on, it does later than that.
            node.clock.leap(self.t, 1);
        }
        node.clock.set_pace(self.t, ClockPace::Running);
        node.scheduled = True::MAX;
        if missed {
            S::missed_time(self, index);
        }
        if let Some((now, step)) = self.nodes[index].held_back.take() {
            self.act(index, now, step);
        }
        // What came meanwhile is taken in turn, unless the process stops again. However much that is: an answer that is left there is never given.
        while !self.nodes[index].paused
            && let Some(input) = self.nodes[index].inbox.pop_front()
        {
            self.deliver(index, input);
        }
        if !self.nodes[index].paused {
            self.schedule_wake(index);
        }
    }
}
