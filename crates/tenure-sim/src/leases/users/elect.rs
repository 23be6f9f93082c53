//! Candidates: on each node one for each key, which steps the real machine of elections on top of the node's holder, leads,
//! uses the resource while it says that it leads, runs bodies, resigns, and is asked to hand over.

use crate::invariants::leads::Prompt;
use crate::invariants::s6::LeaseLapse;
use crate::invariants::{self, Rule};
use crate::kernel;
use crate::kernel::clock::MILLI;
use crate::kernel::fault::FaultKind;
use crate::leases::node::{Closed, LeaseCall, LeaseStage, LeaseView};
use crate::leases::seat::CandidateSeat;
use crate::leases::{LeaseDue, What, World};
use tenure_core::election::{self, Change, Output, Standing, StepDownCause, Terms};
use tenure_core::{Command, KeepAlive, LeaseId, Notice, Tick, WaitPolicy, Want};

/// The task of leases that are a candidate's: it has no turns of its own.
const SEAT: usize = usize::MAX - 1;
/// The task of a candidate's effects.
const EFFECT: u8 = u8::MAX;

impl World {
    /// A process has begun: its candidates begin too.
    pub(crate) fn seat_candidates(&mut self, index: usize) {
        if !self.scenario.users.elects {
            return;
        }
        for key in 0..self.scene.keys.len() {
            let is_attached = self.rng.below(100) < self.scenario.users.attached;
            let terms = Terms {
                is_attached,
                rank: index as u32 % 2,
                ..Terms::of(self.scene.keys[key].clone(), self.ttl)
            };
            self.nodes[index].own.seats.push(CandidateSeat::new(terms, self.setup.bugs));
        }
        for key in 0..self.scene.keys.len() {
            self.input(index, key, election::Input::Start);
            self.next_turn(index, key, self.scenario.users.use_every);
        }
    }

    fn next_turn(&mut self, index: usize, key: usize, mean: u64) {
        let life = self.nodes[index].life;
        self.later(self.per_mille(mean), What::Input(index as u8, life, LeaseCall::Lead(key as u8)));
    }

    /// A candidate's turn to do something.
    pub(crate) fn lead(&mut self, index: usize, key: usize) {
        let node = &self.nodes[index];
        let Some(seat) = node.own.seats.get(key).filter(|_| !node.stopping) else { return };
        if seat.stopping.is_some() {
            return self.lead_out(index, key);
        }
        let (standing, bodies) = (seat.election.standing(), seat.bodies);
        let term = seat.election.leadership(node.clock.read(self.t));
        let users = self.scenario.users;
        self.check_leaders(index, key);
        let ends = standing != Standing::Leading && bodies > 0;
        self.next_turn(index, key, if ends { 60 } else { users.use_every });
        match (standing, term) {
            (Standing::SteppingDown, _) if ends => {
                let stuck = self.coin(0.15);
                self.end_body(index, key, !stuck);
            }
            _ if ends => self.end_body(index, key, true),
            (Standing::Leading, Some(term)) => match self.rng.below(100) {
                0..=24 if bodies < 2 => {
                    self.nodes[index].own.seats[key].bodies += 1;
                    self.input(index, key, election::Input::BodyBegan);
                }
                25..=44 if bodies > 0 => self.end_body(index, key, true),
                _ if self.coin(0.02) => {
                    self.nodes[index].own.seats[key].stopping = Some(self.t);
                    self.input(index, key, election::Input::Stop);
                }
                _ if users.hold > 0 && self.coin(users.use_every as f64 / users.hold as f64) => {
                    self.input(index, key, election::Input::Resign);
                }
                _ => self.act_as_leader(index, key, term.fence),
            },
            _ => {}
        }
    }

    /// The turn of a candidate that was stopped: its bodies end, and some time after that another one takes its place.
    fn lead_out(&mut self, index: usize, key: usize) {
        self.check_leaders(index, key);
        self.next_turn(index, key, 300);
        let seat = &self.nodes[index].own.seats[key];
        if seat.bodies > 0 {
            let joined = !self.coin(0.15);
            return self.end_body(index, key, joined);
        }
        self.checks.check(
            self.t,
            Rule::Answered,
            invariants::leads::has_stopped(
                index,
                key,
                seat.has_stopped,
                seat.stopping,
                self.t,
                self.ttl_ns(),
            ),
        );
        let (has_stopped, terms, turn) = (seat.has_stopped, seat.election.terms().clone(), seat.wake_turn);
        if has_stopped && self.coin(0.2) {
            let next = CandidateSeat::new(terms, self.setup.bugs);
            self.nodes[index].own.seats[key] = CandidateSeat { wake_turn: turn, ..next };
            // It hears first how the session is, which may have begun long ago.
            let session = Notice::SessionValid(self.nodes[index].own.session_until);
            self.input(index, key, election::Input::Told(&session));
            self.input(index, key, election::Input::Start);
        }
    }

    fn coin(&mut self, probability: f64) -> bool {
        self.rng.chance(probability)
    }

    fn end_body(&mut self, index: usize, key: usize, joined: bool) {
        self.nodes[index].own.seats[key].bodies -= 1;
        self.input(index, key, election::Input::BodyEnded { joined });
    }

    /// It says that it leads, and so it writes to the resource, which may take long.
    fn act_as_leader(&mut self, index: usize, key: usize, fence: tenure_core::Fence) {
        let longest = if self.befalls(FaultKind::PauseBeforeEffect) { self.per_mille(4000) } else { MILLI };
        let delay = self.rng.below(longest);
        let effect = LeaseDue::Effect {
            node: index as u8,
            life: self.nodes[index].life,
            task: EFFECT,
            turn: 0,
            key: key as u8,
            fence: fence.0,
            order: self.checks.tenures.order(&self.scene.keys[key], fence),
        };
        self.at(self.t + delay, What::Own(effect));
    }

    /// The machine asked to be woken.
    pub(crate) fn wake_candidate(&mut self, index: usize, key: usize, turn: u32) {
        if self.nodes[index].own.seats.get(key).is_some_and(|seat| seat.wake_turn == turn) {
            self.input(index, key, election::Input::Wake);
        }
    }

    /// The process stops in good order: its candidates do first.
    pub(crate) fn stop_candidates(&mut self, index: usize) {
        for key in 0..self.nodes[index].own.seats.len() {
            while self.nodes[index].own.seats[key].bodies > 0 {
                self.end_body(index, key, true);
            }
            self.input(index, key, election::Input::Stop);
        }
    }

    /// The holder has told something.
    pub(crate) fn tell_candidates(&mut self, index: usize, notice: &Notice) {
        for key in 0..self.nodes[index].own.seats.len() {
            self.input(index, key, election::Input::Told(notice));
        }
    }

    fn input(&mut self, index: usize, key: usize, input: election::Input<'_>) {
        let next = &mut self.scene.next_lease;
        let node = &mut self.nodes[index];
        let (now, life) = (node.clock.read(self.t), node.life);
        let Some(seat) = node.own.seats.get_mut(key) else { return };
        let held = node.own.views.iter().find(|view| view.key == key && view.task == SEAT && view.is_held());
        let prompt = Prompt::of(&input, held, node.own.session_deadline);
        let mut next_lease = || {
            *next += 1;
            LeaseId(*next)
        };
        let Output { changes, commands, wake_at } = seat.election.step(now, input, &mut next_lease);
        self.tally.steps += 1;
        seat.wake_turn += 1;
        if let Some(at) = wake_at {
            let (due, turn) = (node.clock.when(at).max(self.t), seat.wake_turn);
            let late = self.rng.below(MILLI / 4);
            self.at(due + late, What::Input(index as u8, life, LeaseCall::Candidate(key as u8, turn)));
        }
        for change in changes {
            self.changed(index, key, now.held, &change, prompt);
        }
        for command in commands {
            self.commanded(index, key, now.held, &command);
            self.queue_command(index, command);
        }
    }

    /// As by a channel: it reaches the holder after all that is under way in this step.
    pub(crate) fn queue_command(&mut self, index: usize, command: Command) {
        let node = &mut self.nodes[index];
        node.inbox.push_back(kernel::NodeInput::Own(LeaseCall::Command(Box::new(command))));
        let life = node.life;
        self.at(self.t, What::Own(LeaseDue::Inbox(index as u8, life)));
    }

    fn changed(&mut self, index: usize, key: usize, held: Tick, change: &Change, prompt: Prompt) {
        if let Change::StepDown(cause) = change {
            let seat = &self.nodes[index].own.seats[key];
            self.check(
                Rule::L4,
                invariants::leads::has_cause(index, key, cause, prompt, held, seat.election.terms()),
            );
        }
        match change {
            Change::StepDown(_) if self.nodes[index].own.seats[key].bodies > 0 => {
                self.next_turn(index, key, 30)
            }
            Change::Stopped => self.nodes[index].own.seats[key].has_stopped = true,
            Change::Ended(StepDownCause::Lost(_)) => {}
            Change::Ended(cause) => {
                let seat = &mut self.nodes[index].own.seats[key];
                if *cause != StepDownCause::Stopping {
                    seat.tries_from = held.after(seat.election.terms().cooldown);
                }
                self.checks.check(
                    self.t,
                    Rule::S6,
                    invariants::leads::bodies_are_over(index, key, seat.bodies),
                );
                // From now on nobody believes, before the holder hears of it.
                let t = self.t;
                for view in self.nodes[index].own.views.iter_mut().filter(|view| view.key == key) {
                    if let LeaseStage::Held(belief) = view.stage {
                        (view.stage, view.asked_at) = (LeaseStage::Ending(Some(belief)), t);
                    }
                }
            }
            _ => {}
        }
    }

    fn commanded(&mut self, index: usize, key: usize, held: Tick, command: &Command) {
        match command {
            Command::Acquire(id, want) => self.tries(index, key, held, *id, want),
            Command::Release(lease, _) => {
                let t = self.t;
                self.scene.takeovers.waiter_left(*lease);
                if let Some(view) = self.nodes[index].view(*lease)
                    && view.stage == LeaseStage::Wanted
                {
                    (view.stage, view.asked_at) = (LeaseStage::Ending(None), t);
                }
            }
            _ => {}
        }
    }

    fn tries(&mut self, index: usize, key: usize, held: Tick, id: LeaseId, want: &Want) {
        let follows = matches!(want.wait_policy, WaitPolicy::Follow { .. });
        let view = LeaseView {
            id,
            key,
            is_attached: want.keep_alive == KeepAlive::Session,
            task: SEAT,
            stage: LeaseStage::Wanted,
            asked_at: self.t,
            waits: follows,
            tries: false,
            updating: false,
            update: 0,
            withdrawn: None,
        };
        let seat = &self.nodes[index].own.seats[key];
        self.checks.check(
            self.t,
            Rule::Cooldown,
            invariants::leads::may_try(index, key, seat.stopping.is_some()),
        );
        if follows {
            self.check(Rule::Cooldown, invariants::leads::stood_back(index, key, held, seat.tries_from));
        }
        self.nodes[index].own.views.push(view);
    }

    /// A lease is left to expire: nobody may vacate it before.
    pub(crate) fn note_lapse(&mut self, index: usize, lease: LeaseId) {
        let node = &mut self.nodes[index];
        let now = node.clock.held(self.t);
        let session = node.machine.as_ref().and_then(|holder| holder.session_fence());
        let Some(view) = node.view(lease) else { return };
        let (LeaseStage::Ending(Some(belief)), is_attached) = (view.stage, view.is_attached) else { return };
        view.stage = LeaseStage::Ending(None);
        let (key, fence) = (self.scene.keys[view.key].clone(), belief.fence);
        let until = now.after(self.ttl.duration());
        let vacate_from = if is_attached { until } else { Tick::NEVER };
        node.close(Closed { key: key.clone(), fence, since: now, vacate_from });
        let lapses = &mut self.scene.lapses[index];
        if lapses.len() >= 16 {
            lapses.remove(0);
        }
        lapses.push(LeaseLapse { key, fence, until, session: session.filter(|_| is_attached) });
    }

    /// What candidates say must be so.
    pub(crate) fn check_leaders(&mut self, index: usize, key: usize) {
        self.check(Rule::S1, invariants::leads::one_leader(&self.nodes, &self.scene.acts, key, self.t));
        self.check(Rule::S5, invariants::leads::not_past_the_deadline(&self.nodes[index], key, self.t));
    }
}
