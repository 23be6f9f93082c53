//! The users of each process: they get leases, use what they guard, change them, pass them on, and give them up.

mod admin;
mod collect;
pub(crate) mod elect;
mod fleeting;
pub(crate) mod seizer;
pub(crate) mod ticks;
mod told;
mod waiter;

use crate::invariants::s6::LeaseLapse;
use crate::kernel::clock::{MILLI, True};
use crate::kernel::coverage::Coverage;
use crate::kernel::fault::FaultKind;
use crate::leases::node::{Closed, LeaseActivity, LeaseCall, LeaseStage, LeaseView, UserBelief};
use crate::leases::{LeaseDue, What, World};
use tenure_core::{
    Command, KeepAlive, LeaseId, Metadata, MetadataPolicy, Tick, Token, Ttl, Value, WaitPolicy, Want,
};

/// The most bytes of names and texts in a record's metadata.
pub(crate) const LIMIT: usize = 300;

/// The task of leases that came as tokens: it has no turns of its own.
const GUEST: usize = usize::MAX;

impl World {
    fn appoint(&mut self, index: usize, task: usize, t: True) {
        let node = &mut self.nodes[index];
        let Some(doing) = node.own.tasks.get_mut(task) else { return };
        doing.turn += 1;
        let (life, turn) = (node.life, doing.turn);
        self.at(t, What::Input(index as u8, life, LeaseCall::User(task as u8, turn)));
    }

    /// The task does nothing for a while and then wants something again.
    pub(crate) fn think(&mut self, index: usize, task: usize) {
        let Some(slot) = self.nodes[index].own.tasks.get_mut(task) else { return };
        slot.doing = LeaseActivity::Idle;
        let span = self.rng.span(self.per_mille(self.scenario.users.think));
        self.appoint(index, task, self.t + span);
    }

    /// A task's turn has come.
    pub(crate) fn user(&mut self, index: usize, task: usize, turn: u32) {
        let node = &self.nodes[index];
        let Some(slot) = node.own.tasks.get(task).filter(|slot| slot.turn == turn && !node.stopping) else {
            return;
        };
        match slot.doing {
            LeaseActivity::Idle => self.want(index, task),
            LeaseActivity::Waiting(lease) => self.give_up_lease(index, lease, None),
            LeaseActivity::Holding { lease, ends } => self.hold(index, task, lease, ends),
            LeaseActivity::Busy { .. } | LeaseActivity::Ending => {}
        }
    }

    fn want(&mut self, index: usize, task: usize) {
        let users = self.scenario.users;
        if users.ticks > 0 {
            return self.want_tick(index, task);
        }
        // Whoever lives on finds its own orphaned claims when it wants their keys again: so in the calm it wants but one.
        let all = index >= users.residents || self.healed.is_none();
        let key = if all { self.rng.index(self.scene.keys.len()) } else { 0 };
        let is_attached = self.rng.below(100) < users.attached;
        let held = self.nodes[index].clock.held(self.t);
        let wait_policy = match self.rng.below(100) {
            n if n < users.trying => WaitPolicy::Try,
            n if n < users.trying + 25 => {
                let span = self.rng.below(self.per_mille(4000));
                WaitPolicy::Until(Tick(held.0 + span))
            }
            _ => WaitPolicy::Forever,
        };
        let metadata_policy = match self.rng.below(20) {
            0 => MetadataPolicy::Keep(None),
            1 => MetadataPolicy::Keep(self.store.stored_at(&self.scene.keys[key], self.t).map(Box::new)),
            2 => MetadataPolicy::Replace(Metadata::from([("at".to_owned(), Value::Bool(true))])),
            _ => MetadataPolicy::Replace(Metadata::new()),
        };
        let (id, ttl) = (self.new_lease(), self.ttl);
        let keeps = matches!(metadata_policy, MetadataPolicy::Keep(_));
        let view = LeaseView {
            id,
            key,
            is_attached,
            task,
            stage: LeaseStage::Wanted,
            asked_at: self.t,
            waits: wait_policy == WaitPolicy::Forever && !keeps,
            tries: wait_policy == WaitPolicy::Try,
            updating: false,
            update: 0,
            withdrawn: None,
        };
        self.nodes[index].own.views.push(view);
        self.nodes[index].own.tasks[task].doing = LeaseActivity::Waiting(id);
        if self.rng.chance(0.1) {
            // It will have changed its mind by then.
            let span = self.rng.span(self.per_mille(1500));
            self.appoint(index, task, self.t + span);
        }
        let keep_alive = if is_attached { KeepAlive::Session } else { KeepAlive::Own(ttl) };
        let want = Want { key: self.scene.keys[key].clone(), keep_alive, metadata_policy, wait_policy };
        self.command(index, Command::Acquire(id, want));
        if is_attached && self.rng.chance(0.1) && self.nodes[index].acts() {
            // As likely as not while the session is being begun.
            self.nodes[index].own.announced = Some(self.t);
            let fields = Metadata::from([("told".to_owned(), Value::from((self.t % 10) as i64))]);
            self.command(index, Command::Announce(fields));
        }
    }

    /// What to do with a lease that is held.
    fn hold(&mut self, index: usize, task: usize, lease: LeaseId, ends: True) {
        if self.scenario.users.ticks > 0 {
            return self.run_tick(index, task, lease);
        }
        let Some(view) = self.nodes[index].view(lease) else { return };
        let LeaseStage::Held(belief) = view.stage else { return };
        let (updating, is_attached, key) = (view.updating, view.is_attached, view.key);
        if self.t >= ends && !updating {
            return self.end_lease(index, task, lease, key, is_attached, belief);
        }
        if !updating && self.rng.chance(0.08) {
            let n = self.t as i64;
            if let Some(view) = self.nodes[index].view(lease) {
                (view.updating, view.update) = (true, n);
            }
            self.asked_now(index, lease);
            self.next_use(index, task, ends);
            let mut fields = Metadata::from([("n".to_owned(), Value::from(n))]);
            if self.rng.chance(0.1) {
                fields.insert("large".to_owned(), "x".repeat(LIMIT).into());
            }
            return self.command(index, Command::Update(lease, fields));
        }
        let node = &self.nodes[index];
        let believes = node.own.views.iter().any(|view| view.id == lease && node.believes(view, self.t));
        if !believes {
            return self.next_use(index, task, ends);
        }
        self.use_resource(index, task, lease, key, belief, ends);
    }

    /// Checks, and then writes to the resource, which may take long.
    fn use_resource(
        &mut self,
        index: usize,
        task: usize,
        lease: LeaseId,
        key: usize,
        belief: UserBelief,
        ends: True,
    ) {
        let delay = if self.befalls(FaultKind::PauseBeforeEffect) {
            self.rng.below(self.per_mille(4000))
        } else {
            self.rng.below(MILLI)
        };
        let node = &mut self.nodes[index];
        let Some(slot) = node.own.tasks.get_mut(task) else { return };
        slot.doing = LeaseActivity::Busy { lease, ends };
        slot.turn += 1;
        let effect = LeaseDue::Effect {
            node: index as u8,
            life: node.life,
            task: task as u8,
            turn: slot.turn,
            key: key as u8,
            fence: belief.fence.0,
            order: belief.order,
        };
        self.at(self.t + delay, What::Own(effect));
    }

    pub(crate) fn effect_is_over(&mut self, index: usize, task: usize, turn: u32) {
        let Some(slot) = self.nodes[index].own.tasks.get_mut(task) else { return };
        if let (LeaseActivity::Busy { lease, ends }, true) = (slot.doing, slot.turn == turn) {
            slot.doing = LeaseActivity::Holding { lease, ends };
            self.next_use(index, task, ends);
        }
    }

    fn next_use(&mut self, index: usize, task: usize, ends: True) {
        let span = self.rng.span(self.per_mille(self.scenario.users.use_every));
        let next = (self.t + span).min(ends.max(self.t + MILLI));
        self.appoint(index, task, next);
    }

    fn asked_now(&mut self, index: usize, lease: LeaseId) {
        let t = self.t;
        if let Some(view) = self.nodes[index].view(lease) {
            view.asked_at = t;
        }
    }

    fn set_doing(&mut self, index: usize, task: usize, doing: LeaseActivity) {
        if let Some(slot) = self.nodes[index].own.tasks.get_mut(task) {
            slot.doing = doing;
        }
    }

    fn give_up_lease(&mut self, index: usize, lease: LeaseId, metadata: Option<Metadata>) {
        let t = self.t;
        let Some(view) = self.nodes[index].view(lease) else { return };
        let belief = if let LeaseStage::Held(belief) = view.stage { Some(belief) } else { None };
        view.stage = LeaseStage::Ending(belief);
        view.asked_at = t;
        let task = view.task;
        self.scene.takeovers.waiter_left(lease);
        self.set_doing(index, task, LeaseActivity::Ending);
        let key = self.nodes[index].view(lease).map(|view| view.key);
        self.command(index, Command::Release(lease, metadata));
        if belief.is_some() && self.rng.chance(0.03) {
            self.change_a_mind(index, key);
        }
    }

    /// Somebody who waits on the same node goes away just as the key is about to become its own.
    fn change_a_mind(&mut self, index: usize, key: Option<usize>) {
        let node = &self.nodes[index];
        let waits = |lease: LeaseId| {
            node.own
                .views
                .iter()
                .any(|view| view.id == lease && Some(view.key) == key && view.stage == LeaseStage::Wanted)
        };
        let task = node
            .own
            .tasks
            .iter()
            .position(|task| matches!(task.doing, LeaseActivity::Waiting(lease) if waits(lease)));
        if let Some(task) = task {
            let soon = self.rng.below(20 * MILLI);
            self.appoint(index, task, self.t + soon);
        }
    }

    fn end_lease(
        &mut self,
        index: usize,
        task: usize,
        lease: LeaseId,
        key: usize,
        is_attached: bool,
        belief: UserBelief,
    ) {
        let rng = self.rng.below(100);
        if rng < self.scenario.users.tokens {
            let ttl = if self.rng.chance(0.3) { Ttl::clamped(self.ttl.millis() / 2) } else { self.ttl };
            if let Some(view) = self.nodes[index].view(lease) {
                view.stage = LeaseStage::Ending(Some(belief));
            }
            self.asked_now(index, lease);
            self.set_doing(index, task, LeaseActivity::Ending);
            self.command(index, Command::Detach(lease, ttl));
        } else if rng < self.scenario.users.tokens + 8 {
            let node = &mut self.nodes[index];
            let now = node.clock.held(self.t);
            let until = now.after(self.ttl.duration());
            let (key, fence) = (self.scene.keys[key].clone(), belief.fence);
            let vacate_from = if is_attached { until } else { Tick::NEVER };
            let closed = Closed { key: key.clone(), fence, since: now, vacate_from };
            let session = node.machine.as_ref().and_then(|holder| holder.session_fence());
            let session = session.filter(|_| is_attached);
            self.scene.lapses[index].push(LeaseLapse { key, fence, until, session });
            if self.scene.lapses[index].len() > 16 {
                self.scene.lapses[index].remove(0);
            }
            if let Some(view) = self.nodes[index].view(lease) {
                view.stage = LeaseStage::Ending(None);
            }
            self.set_doing(index, task, LeaseActivity::Ending);
            self.tally.coverage(Coverage::LeftToExpire);
            self.command(index, Command::Lapse(lease));
            self.nodes[index].close(closed);
        } else {
            let metadata = self.rng.chance(0.1).then(Metadata::new);
            self.give_up_lease(index, lease, metadata);
        }
    }

    /// A token came from another process.
    pub(crate) fn token_came(&mut self, index: usize, token: Token) {
        let Some(key) = self.scene.keys.iter().position(|key| *key == token.key) else { return };
        if self.nodes[index].stopping {
            return;
        }
        let id = self.new_lease();
        let view = LeaseView {
            id,
            key,
            is_attached: false,
            task: GUEST,
            stage: LeaseStage::Token,
            asked_at: self.t,
            waits: false,
            tries: false,
            updating: false,
            update: 0,
            withdrawn: None,
        };
        // A guest takes the place of a task that has nothing to do, so that it has turns.
        let idle = self.nodes[index].own.tasks.iter().position(|task| task.doing == LeaseActivity::Idle);
        let task = idle.unwrap_or(GUEST);
        let tokens = &mut self.nodes[index].own.tokens;
        if tokens.len() >= 16 {
            tokens.remove(0);
        }
        tokens.push((token.key.clone(), token.fence));
        self.nodes[index].own.views.push(LeaseView { task, ..view });
        self.set_doing(index, task, LeaseActivity::Ending);
        let command = match self.rng.below(10) {
            0..=2 => Command::Refresh(id, Box::new(token)),
            3..=6 if task != GUEST => Command::Adopt(id, Box::new(token)),
            _ => Command::Return(id, Box::new(token)),
        };
        self.command(index, command);
    }

    fn deliver_token(&mut self, index: usize, token: Token) {
        let span = self.rng.span(self.per_mille(300));
        self.at(self.t + span, What::Own(LeaseDue::Token(index as u8, Box::new(token))));
    }

    /// A process stops in good order.
    pub(crate) fn stop_process(&mut self, index: usize) {
        if self.nodes[index].stopping {
            return;
        }
        self.stop_candidates(index);
        let node = &mut self.nodes[index];
        node.stopping = true;
        for view in &mut node.own.views {
            let belief = if let LeaseStage::Held(belief) = view.stage { Some(belief) } else { None };
            view.stage = LeaseStage::Ending(belief);
            view.asked_at = self.t;
        }
        if self.scenario.users.elects {
            // After what the candidates wanted before.
            self.queue_command(index, Command::Stop);
        } else {
            self.command(index, Command::Stop);
        }
    }
}
