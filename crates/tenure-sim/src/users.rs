//! The users of each process: they get leases, use what they guard, change them, pass them on, and give them up.

use crate::clock::{MILLI, True};
use crate::fault::Fault;
use crate::invariants::l1::Vacancy;
use crate::invariants::s6::Lapse;
use crate::invariants::{self, Rule};
use crate::node::{Belief, Closed, Doing, Node, Stage, View};
use crate::trace::Story;
use crate::world::{What, World};
use tenure_core::op::{Expect, Write};
use tenure_core::{
    Ask, Beat, Carry, Command, Fence, LeaseId, Letter, Loss, MAILBOX, Metadata, Notice, Now, Patience, Tick,
    Token, Ttl, Value, Wall, Want,
};

/// The task of leases that came as tokens: it has no turns of its own.
const GUEST: usize = usize::MAX;

impl World {
    fn appoint(&mut self, index: usize, task: usize, t: True) {
        let node = &mut self.nodes[index];
        let Some(doing) = node.tasks.get_mut(task) else { return };
        doing.turn += 1;
        let (life, turn) = (node.life, doing.turn);
        self.at(t, What::User(index as u8, life, task as u8, turn));
    }

    /// The task does nothing for a while and then wants something again.
    pub(crate) fn think(&mut self, index: usize, task: usize) {
        let Some(slot) = self.nodes[index].tasks.get_mut(task) else { return };
        slot.doing = Doing::Idle;
        let span = self.dice.span(self.per_mille(self.scenario.users.think));
        self.appoint(index, task, self.t + span);
    }

    /// A task's turn has come.
    pub(crate) fn user(&mut self, index: usize, task: usize, turn: u32) {
        let node = &self.nodes[index];
        let Some(slot) = node.tasks.get(task).filter(|slot| slot.turn == turn && !node.stopping) else {
            return;
        };
        match slot.doing {
            Doing::Idle => self.want(index, task),
            Doing::Waiting(lease) => self.give_up_lease(index, lease, None),
            Doing::Holding { lease, ends } => self.hold(index, task, lease, ends),
            Doing::Busy { .. } | Doing::Ending => {}
        }
    }

    fn want(&mut self, index: usize, task: usize) {
        let users = self.scenario.users;
        let key = self.dice.index(self.keys.len());
        let rides = self.dice.below(100) < users.riding;
        let held = self.nodes[index].clock.held(self.t);
        let patience = match self.dice.below(100) {
            n if n < users.trying => Patience::Try,
            n if n < users.trying + 25 => {
                let span = self.dice.below(self.per_mille(4000));
                Patience::Until(Tick(held.0 + span))
            }
            _ => Patience::Forever,
        };
        let carry = match self.dice.below(20) {
            0 => Carry::Keep(None),
            1 => Carry::Keep(self.store.stored_at(&self.keys[key], self.t).map(Box::new)),
            2 => Carry::Replace(Metadata::from([("at".to_owned(), Value::Bool(true))])),
            _ => Carry::Replace(Metadata::new()),
        };
        let (id, ttl) = (self.new_lease(), self.ttl);
        let keeps = matches!(carry, Carry::Keep(_));
        let view = View {
            id,
            key,
            rides,
            task,
            stage: Stage::Wanted,
            asked_at: self.t,
            waits: patience == Patience::Forever && !keeps,
            tries: patience == Patience::Try,
            updating: false,
        };
        self.nodes[index].views.push(view);
        self.nodes[index].tasks[task].doing = Doing::Waiting(id);
        if self.dice.chance(0.1) {
            // It will have changed its mind by then.
            let span = self.dice.span(self.per_mille(1500));
            self.appoint(index, task, self.t + span);
        }
        let beat = if rides { Beat::Session } else { Beat::Own(ttl) };
        let want = Want { key: self.keys[key].clone(), beat, carry, patience };
        self.command(index, Command::Acquire(id, want));
    }

    /// What to do with a lease that is held.
    fn hold(&mut self, index: usize, task: usize, lease: LeaseId, ends: True) {
        let Some(view) = self.nodes[index].view(lease) else { return };
        let Stage::Held(belief) = view.stage else { return };
        let (updating, rides, key) = (view.updating, view.rides, view.key);
        if self.t >= ends && !updating {
            return self.end_lease(index, task, lease, key, rides, belief);
        }
        if !updating && self.dice.chance(0.08) {
            if let Some(view) = self.nodes[index].view(lease) {
                view.updating = true;
            }
            self.asked_now(index, lease);
            self.next_use(index, task, ends);
            let fields = Metadata::from([("n".to_owned(), Value::from((self.t % 10) as i64))]);
            return self.command(index, Command::Update(lease, fields));
        }
        let node = &self.nodes[index];
        let believes = node.views.iter().any(|view| view.id == lease && node.believes(view, self.t));
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
        belief: Belief,
        ends: True,
    ) {
        let delay = if self.befalls(Fault::PauseBeforeEffect) {
            self.dice.below(self.per_mille(4000))
        } else {
            self.dice.below(MILLI)
        };
        let node = &mut self.nodes[index];
        let Some(slot) = node.tasks.get_mut(task) else { return };
        slot.doing = Doing::Busy { lease, ends };
        slot.turn += 1;
        let effect = What::Effect {
            node: index as u8,
            life: node.life,
            task: task as u8,
            turn: slot.turn,
            key: key as u8,
            fence: belief.fence.0,
            order: belief.order,
        };
        self.at(self.t + delay, effect);
    }

    pub(crate) fn effect_is_over(&mut self, index: usize, task: usize, turn: u32) {
        let Some(slot) = self.nodes[index].tasks.get_mut(task) else { return };
        if let (Doing::Busy { lease, ends }, true) = (slot.doing, slot.turn == turn) {
            slot.doing = Doing::Holding { lease, ends };
            self.next_use(index, task, ends);
        }
    }

    fn next_use(&mut self, index: usize, task: usize, ends: True) {
        let span = self.dice.span(self.per_mille(self.scenario.users.use_every));
        let next = (self.t + span).min(ends.max(self.t + MILLI));
        self.appoint(index, task, next);
    }

    fn asked_now(&mut self, index: usize, lease: LeaseId) {
        let t = self.t;
        if let Some(view) = self.nodes[index].view(lease) {
            view.asked_at = t;
        }
    }

    fn set_doing(&mut self, index: usize, task: usize, doing: Doing) {
        if let Some(slot) = self.nodes[index].tasks.get_mut(task) {
            slot.doing = doing;
        }
    }

    fn give_up_lease(&mut self, index: usize, lease: LeaseId, metadata: Option<Metadata>) {
        let t = self.t;
        let Some(view) = self.nodes[index].view(lease) else { return };
        let belief = if let Stage::Held(belief) = view.stage { Some(belief) } else { None };
        view.stage = Stage::Ending(belief);
        view.asked_at = t;
        let task = view.task;
        self.checks.takeovers.waiter_left(lease);
        self.set_doing(index, task, Doing::Ending);
        self.command(index, Command::Release(lease, metadata));
    }

    fn end_lease(
        &mut self,
        index: usize,
        task: usize,
        lease: LeaseId,
        key: usize,
        rides: bool,
        belief: Belief,
    ) {
        let dice = self.dice.below(100);
        if dice < self.scenario.users.tokens {
            let ttl = if self.dice.chance(0.3) { Ttl::clamped(self.ttl.millis() / 2) } else { self.ttl };
            if let Some(view) = self.nodes[index].view(lease) {
                view.stage = Stage::Ending(Some(belief));
            }
            self.asked_now(index, lease);
            self.set_doing(index, task, Doing::Ending);
            self.command(index, Command::Detach(lease, ttl));
        } else if dice < self.scenario.users.tokens + 8 {
            let node = &mut self.nodes[index];
            let now = node.clock.held(self.t);
            let until = now.after(self.ttl.duration());
            let (key, fence) = (self.keys[key].clone(), belief.fence);
            let vacate_from = if rides { until } else { Tick::NEVER };
            let closed = Closed { key: key.clone(), fence, since: now, vacate_from };
            let session = node.holder.as_ref().and_then(|holder| holder.session_fence());
            let session = session.filter(|_| rides);
            self.lapses[index].push(Lapse { key, fence, until, session });
            if self.lapses[index].len() > 16 {
                self.lapses[index].remove(0);
            }
            if let Some(view) = self.nodes[index].view(lease) {
                view.stage = Stage::Ending(None);
            }
            self.set_doing(index, task, Doing::Ending);
            self.command(index, Command::Lapse(lease));
            self.nodes[index].close(closed);
        } else {
            let metadata = self.dice.chance(0.1).then(Metadata::new);
            self.give_up_lease(index, lease, metadata);
        }
    }

    /// A token came from another process.
    pub(crate) fn token_came(&mut self, index: usize, token: Token) {
        let Some(key) = self.keys.iter().position(|key| *key == token.key) else { return };
        if self.nodes[index].stopping {
            return;
        }
        let id = self.new_lease();
        let view = View {
            id,
            key,
            rides: false,
            task: GUEST,
            stage: Stage::Token,
            asked_at: self.t,
            waits: false,
            tries: false,
            updating: false,
        };
        // A guest takes the place of a task that has nothing to do, so that it has turns.
        let idle = self.nodes[index].tasks.iter().position(|task| task.doing == Doing::Idle);
        let task = idle.unwrap_or(GUEST);
        let tokens = &mut self.nodes[index].tokens;
        if tokens.len() >= 16 {
            tokens.remove(0);
        }
        tokens.push((token.key.clone(), token.fence));
        self.nodes[index].views.push(View { task, ..view });
        self.set_doing(index, task, Doing::Ending);
        let command = match self.dice.below(10) {
            0..=2 => Command::Refresh(id, Box::new(token)),
            3..=6 if task != GUEST => Command::Adopt(id, Box::new(token)),
            _ => Command::Return(id, Box::new(token)),
        };
        self.command(index, command);
    }

    /// A machine tells its users something.
    pub(crate) fn told(&mut self, index: usize, now: Now, notice: Notice) {
        match notice {
            Notice::Acquired { lease, fence, until, .. } => self.acquired(index, lease, fence, until),
            Notice::Held(lease, _) => self.not_had(index, now, lease),
            Notice::Failed(lease, error) => {
                let found = invariants::answered::not_blamed(index, &error);
                self.checks.check(self.t, Rule::Answered, found);
                self.not_had(index, now, lease);
            }
            Notice::Released(lease, true) => self.released(index, lease),
            Notice::Absent(lease) | Notice::NotOurs(lease, _) | Notice::Released(lease, _) => {
                self.finished(index, lease);
            }
            Notice::Valid(lease, until) => self.valid(index, lease, until),
            Notice::SessionValid(until) => self.session_valid(index, until),
            Notice::Asked(lease, ask) => self.asked(index, lease, ask),
            Notice::Lost(lease, loss) => self.lost(index, now, lease, &loss),
            Notice::Updated(lease) => {
                if let Some(view) = self.nodes[index].view(lease) {
                    view.updating = false;
                }
            }
            Notice::Detached(lease, token) => self.detached(index, lease, *token),
            Notice::Stopped => self.stopped(index),
        }
    }

    fn acquired(&mut self, index: usize, lease: LeaseId, fence: Fence, until: Tick) {
        let t = self.t;
        let Some(view) = self.nodes[index].view(lease) else { return };
        let (key, rides, task) = (view.key, view.rides, view.task);
        if !matches!(view.stage, Stage::Wanted | Stage::Token) {
            return;
        }
        let order = self.checks.tenures.order(&self.keys[key], fence);
        view.stage = Stage::Held(Belief { fence, until, deadline: until, order, since: t });
        let ends = t + self.dice.span(self.per_mille(self.scenario.users.hold));
        self.set_doing(index, task, Doing::Holding { lease, ends });
        self.next_use(index, task, ends);
        if !rides {
            let found = invariants::s4::founded(&self.nodes[index], &self.keys[key], fence, until);
            self.checks.check(t, Rule::S4, found);
        }
        let found = invariants::s1::one_holder(&self.nodes, key, t);
        self.checks.check(t, Rule::S1, found);
    }

    fn valid(&mut self, index: usize, lease: LeaseId, until: Tick) {
        let t = self.t;
        let Some(view) = self.nodes[index].view(lease) else { return };
        let key = view.key;
        let Stage::Held(belief) = &mut view.stage else { return };
        belief.until = until;
        if until == Tick(0) {
            return;
        }
        belief.deadline = until;
        let fence = belief.fence;
        let found = invariants::s4::founded(&self.nodes[index], &self.keys[key], fence, until);
        self.checks.check(t, Rule::S4, found);
        let found = invariants::s1::one_holder(&self.nodes, key, t);
        self.checks.check(t, Rule::S1, found);
    }

    fn session_valid(&mut self, index: usize, until: Tick) {
        let t = self.t;
        let node = &mut self.nodes[index];
        node.session_until = until;
        if until == Tick(0) {
            return;
        }
        node.session_deadline = Some(until);
        let node = &self.nodes[index];
        let found = invariants::s4::session_founded(node, until);
        self.checks.check(t, Rule::S4, found);
        for key in 0..self.keys.len() {
            let rides = |view: &View| view.key == key && view.rides && matches!(view.stage, Stage::Held(_));
            if self.nodes[index].views.iter().any(rides) {
                let found = invariants::s1::one_holder(&self.nodes, key, t);
                self.checks.check(t, Rule::S1, found);
            }
        }
    }

    /// It could not be had; or, if it is held, could not be changed.
    fn not_had(&mut self, index: usize, now: Now, lease: LeaseId) {
        let Some(view) = self.nodes[index].view(lease) else { return };
        match view.stage {
            Stage::Held(_) => view.updating = false,
            // What was asked before it was given up; that it is given up will be told too.
            Stage::Ending(_) => view.updating = false,
            _ => {
                let (key, rides) = (view.key, view.rides || view.stage != Stage::Wanted);
                let alone = self.nodes[index].views.iter().filter(|view| view.key == key).count() == 1;
                if alone && !rides {
                    let found = invariants::s4::resolved(index, &self.claims[index], key, now.held);
                    self.checks.check(self.t, Rule::S4, found);
                }
                self.finished(index, lease);
            }
        }
    }

    fn released(&mut self, index: usize, lease: LeaseId) {
        let node = &self.nodes[index];
        let view = node.views.iter().find(|view| view.id == lease);
        if let Some(View { key, stage: Stage::Ending(Some(belief)), .. }) = view {
            let key = &self.keys[*key];
            let found = invariants::answered::given_up(node, key, belief.fence, self.store.get(key));
            self.checks.check(self.t, Rule::Answered, found);
        }
        self.finished(index, lease);
    }

    fn finished(&mut self, index: usize, lease: LeaseId) {
        self.checks.takeovers.waiter_left(lease);
        if let Some(view) = self.nodes[index].forget(lease) {
            if !self.nodes[index].views.iter().any(|other| other.key == view.key) {
                self.claims[index].retain(|claim| claim.key != view.key);
            }
            self.think(index, view.task);
        }
    }

    fn lost(&mut self, index: usize, now: Now, lease: LeaseId, loss: &Loss) {
        let Some(view) = self.nodes[index].view(lease) else { return };
        let key = view.key;
        let belief = match view.stage {
            Stage::Held(belief) | Stage::Ending(Some(belief)) => Some(belief),
            _ => None,
        };
        if let Some(belief) = belief {
            let withdrawn = *loss == Loss::Revoked;
            let vacate_from = if withdrawn { Tick(0) } else { Tick::NEVER };
            let key = self.keys[key].clone();
            self.nodes[index].close(Closed {
                key,
                fence: belief.fence,
                since: Tick(now.held.0.saturating_sub(1)),
                vacate_from,
            });
        }
        let settled = self.healed.is_some_and(|healed| self.t > healed + self.per_mille(2000));
        if settled && belief.is_some_and(|belief| self.healed.is_some_and(|healed| belief.since > healed)) {
            let found = invariants::l4::not_lost(index, key, loss);
            self.checks.check(self.t, Rule::L4, found);
        }
        // Whoever gives a lease up is told twice: of the loss, and that it is given up.
        let ending =
            self.nodes[index].view(lease).is_some_and(|view| matches!(view.stage, Stage::Ending(None)));
        if !ending {
            self.finished(index, lease);
        }
    }

    fn asked(&mut self, index: usize, lease: LeaseId, ask: Ask) {
        let t = self.t;
        let node = &mut self.nodes[index];
        let Some(view) = node.views.iter().find(|view| view.id == lease) else { return };
        let (key, task) = (view.key, view.task);
        if node.asked.len() >= 32 {
            node.asked.remove(0);
        }
        node.asked.push((key, ask, t));
        // Half of all users do what they are asked for.
        if self.dice.chance(0.5)
            && let Some(slot) = self.nodes[index].tasks.get_mut(task)
            && let Doing::Holding { lease, .. } = slot.doing
        {
            slot.doing = Doing::Holding { lease, ends: t };
            self.appoint(index, task, t + MILLI);
        }
    }

    fn detached(&mut self, index: usize, lease: LeaseId, token: Token) {
        self.finished(index, lease);
        if self.dice.chance(0.1) {
            return;
        }
        let to = self.dice.index(self.nodes.len());
        if self.dice.chance(0.15) {
            // Plain data can be copied: two processes may use one token.
            let other = self.dice.index(self.nodes.len());
            self.deliver_token(other, token.clone());
        }
        self.deliver_token(to, token);
    }

    fn deliver_token(&mut self, index: usize, token: Token) {
        let span = self.dice.span(self.per_mille(300));
        let parcel = self.parcels.token(index, token);
        self.at(self.t + span, parcel);
    }

    /// A process stops in good order.
    pub(crate) fn stop_process(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.stopping {
            return;
        }
        node.stopping = true;
        for view in &mut node.views {
            let belief = if let Stage::Held(belief) = view.stage { Some(belief) } else { None };
            view.stage = Stage::Ending(belief);
            view.asked_at = self.t;
        }
        self.command(index, Command::Stop);
    }

    fn stopped(&mut self, index: usize) {
        self.end_process(index);
        let (life, span) = (self.nodes[index].life, self.dice.span(self.per_mille(1000)));
        self.at(self.t + span, What::Restart(index as u8, life));
    }

    /// Someone writes to whoever holds a key.
    pub(crate) fn letter(&mut self) {
        self.later(self.per_mille(self.scenario.users.mail), What::Letter);
        let index = self.dice.index(self.keys.len());
        let key = self.keys[index].clone();
        let ask = if self.dice.chance(0.6) { Ask::HandOver } else { Ask::Revoke };
        let Some(stored) = self.store.stored_at(&key, self.t) else { return };
        let Some(tenure) = &stored.record.tenure else { return };
        let to = match &tenure.ride {
            None => key.clone(),
            Some(ride) => {
                let alive = self.store.get(&ride.session).filter(|record| record.fence == ride.fence);
                if alive.is_none() {
                    return;
                }
                ride.session.clone()
            }
        };
        let Some(mut stored) = self.store.stored_at(&to, self.t) else { return };
        let Some(tenure) = &mut stored.record.tenure else { return };
        if tenure.mail.len() >= MAILBOX {
            return;
        }
        tenure.mail.push(Letter { key, ask });
        stored.record.nonce = self.admin.draw();
        self.trace.tell(self.t, || Story::Store(format!("someone writes {ask:?} about k{index} to {to}")));
        let write =
            Write { key: to.clone(), expect: Expect::Unchanged(stored.version), record: stored.record };
        self.mail_landed();
        if self.write_as_admin(write) && !self.mailed.iter().any(|(mailed, _)| *mailed == to) {
            self.mailed.push((to.clone(), self.t));
        }
        self.hint(&to, self.keys.iter().position(|key| *key == to));
    }

    pub(crate) fn mail_landed(&mut self) {
        let bound = self.per_mille(1400) + self.slowness();
        self.checks.takeovers.age_is_lost(bound);
    }

    /// `gc` of vacant records, by whoever's clock is right.
    pub(crate) fn collect(&mut self) {
        self.later(self.per_mille(self.scenario.users.gc), What::Collect);
        // Longer than any clock is behind and any claim is under way, so that no later claim has a lower clock.
        let retention = self.scenario.wall_off_ms * 2 + self.ttl.millis() * 10;
        let wall = Wall(crate::clock::WALL_AT_START + self.t / MILLI);
        let old: Vec<_> = self
            .store
            .keys()
            .filter(|(_, record)| record.tenure.is_none())
            .filter(|(_, record)| record.stamp.0.max(record.fence.0) + retention < wall.0)
            .map(|(key, _)| key.clone())
            .collect();
        for key in old {
            self.trace.tell(self.t, || Story::Store(format!("gc removes {key}")));
            self.store.remove(self.t, &key);
        }
    }

    /// A key was given up. If someone waits for it, it goes to them soon.
    pub(crate) fn given_up(&mut self, key: usize) {
        let Some(waiter) = self.eager_waiter(key, None) else { return };
        let bound = if self.spec.push {
            self.per_mille(60)
        } else {
            self.per_mille(250) * 10 / 9 + self.per_mille(60)
        };
        let vacancy = Vacancy { since: self.t, bound: bound + self.slowness(), by_death: false, waiter };
        self.checks.takeovers.begin(key, vacancy);
    }

    /// How much longer calls take where they are slow.
    pub(crate) fn slowness(&self) -> True {
        if self.scenario.stumbles { self.per_mille(1000) } else { 0 }
    }

    /// Someone on another node than `but` who waits for `key` as long as it takes, with a bid that is under way.
    pub(crate) fn eager_waiter(&self, key: usize, but: Option<usize>) -> Option<(usize, LeaseId)> {
        let healed = self.healed?;
        let eager = |node: &Node, view: &View| {
            let up = !view.rides || node.session_deadline.is_some();
            let asked = view.asked_at.max(healed) + self.per_mille(700) < self.t;
            view.key == key && view.waits && view.stage == Stage::Wanted && asked && up
        };
        let nodes = self.nodes.iter().filter(|node| node.acts() && Some(node.index) != but);
        nodes
            .flat_map(|node| node.views.iter().map(move |view| (node, view)))
            .find(|(node, view)| eager(node, view))
            .map(|(node, view)| (node.index, view.id))
    }
}
