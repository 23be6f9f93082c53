//! Users of semaphores: they ask for permits, wait, change their minds, use what they hold, and give it up in every way there is.

use super::{Node, SemaphoreCall, What, World};
use crate::invariants::s8::BelievedPermits;
use crate::invariants::{Rule, s4};
use crate::kernel::clock::True;
use tenure_core::op::{Expect, Op};
use tenure_core::semaphore::{Mode, SemaphoreLedger, Wish};
use tenure_core::{Command, Fence, HolderId, Key, LeaseId, Notice, Now, Tick, WaitPolicy};

/// What a user is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermitActivity {
    Idle,
    Waiting(LeaseId),
    Using(LeaseId),
}

/// How far permits are, as their user knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermitStage {
    Wanted,
    Held(Fence),
    Ending,
}

/// What a user knows of permits.
#[derive(Debug, Clone, Copy)]
pub(super) struct PermitView {
    pub(super) key: usize,
    task: usize,
    mode: Mode,
    permits: u32,
    stage: PermitStage,
    asked: True,
}

/// Permits that could not be ended: their process may not take them out before this, by its clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct PermitLapse {
    key: usize,
    fence: Fence,
    /// The fence of the session that they are attached to.
    session: Option<Fence>,
    over: Tick,
}

impl PermitView {
    /// Whether it was given up, and its user is not told what came of that.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.stage, PermitStage::Ending)
    }

    pub(super) fn waits(&self) -> bool {
        self.stage == PermitStage::Wanted
    }

    pub(super) fn believed<'a>(&self, holder: &'a HolderId) -> Option<BelievedPermits<'a>> {
        let PermitStage::Held(fence) = self.stage else { return None };
        Some(BelievedPermits { holder, fence, mode: self.mode, permits: self.permits })
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        if let PermitStage::Held(fence) = self.stage { Some(fence) } else { None }
    }
}

impl World {
    fn turn(&mut self, index: usize, task: usize, doing: PermitActivity, mean: True) {
        let node = &mut self.nodes[index];
        let Some(slot) = node.own.tasks.get_mut(task) else { return };
        *slot = (doing, slot.1 + 1);
        let (turn, life) = (slot.1, node.life);
        self.later(mean, What::Input(index as u8, life, SemaphoreCall::Turn(task as u8, turn)));
    }

    pub(super) fn think(&mut self, index: usize, task: usize) {
        self.turn(index, task, PermitActivity::Idle, self.per_mille(self.scenario.think));
    }

    /// A user's next move.
    pub(super) fn user(&mut self, index: usize, task: usize, turn: u32) {
        let node = &self.nodes[index];
        let Some((doing, current)) = node.own.tasks.get(task).copied() else { return };
        if current != turn || node.stopping {
            return;
        }
        match doing {
            PermitActivity::Idle => self.want(index, task),
            PermitActivity::Waiting(lease) => self.give_up(index, task, lease, false),
            PermitActivity::Using(lease) => self.use_it(index, task, lease),
        }
    }

    fn want(&mut self, index: usize, task: usize) {
        let key = self.rng.index(self.scene.keys.len());
        let of = self.scenario.keys[key];
        let mode = if self.rng.below(100) < of.exclusive { Mode::Exclusive } else { Mode::Shared };
        let take = if mode == Mode::Exclusive { 1 } else { self.rng.between(1, of.most) as u32 };
        let held = self.nodes[index].clock.held(self.t);
        let wait_policy = if self.rng.below(100) < self.scenario.trying {
            WaitPolicy::Try
        } else if self.rng.chance(0.2) {
            let span = self.rng.below(self.per_mille(3000));
            WaitPolicy::Until(held.after(std::time::Duration::from_nanos(span)))
        } else {
            WaitPolicy::Forever
        };
        let barges = self.rng.below(100) < of.barging;
        let (wished, permits) = (self.scene.keys[key].clone(), of.permits);
        let wish = Wish { key: wished, permits, take, mode, barges, wait_policy };
        let lease = self.lease();
        let view = PermitView { key, task, mode, permits: take, stage: PermitStage::Wanted, asked: self.t };
        self.nodes[index].own.views.insert(lease, view);
        if wait_policy == WaitPolicy::Try {
            self.scene.late.insert(lease, self.t);
        }
        self.command(index, Command::Permits(lease, Box::new(wish)));
        // Some change their mind.
        let mean = if self.rng.chance(0.1) { self.per_mille(100) } else { self.per_mille(40_000) };
        if self.nodes[index].own.views.get(&lease).is_some_and(PermitView::waits) {
            self.turn(index, task, PermitActivity::Waiting(lease), mean);
        }
    }

    fn give_up(&mut self, index: usize, task: usize, lease: LeaseId, lapses: bool) {
        let (t, ttl) = (self.t, self.ttl.duration());
        let node = &mut self.nodes[index];
        if let Some(view) = node.own.views.get_mut(&lease) {
            if let Some(fence) = view.fence().filter(|_| lapses) {
                let over = node.clock.held(t).after(ttl);
                let session = node.machine.as_ref().and_then(tenure_core::Holder::session_fence);
                node.own.lapses.push(PermitLapse { key: view.key, fence, session, over });
            }
            view.stage = PermitStage::Ending;
            self.scene.late.insert(lease, t);
        }
        let command = if lapses { Command::Lapse(lease) } else { Command::Release(lease, None) };
        self.command(index, command);
        self.think(index, task);
    }

    /// Writes to what the permits protect, and perhaps gives them up.
    fn use_it(&mut self, index: usize, task: usize, lease: LeaseId) {
        let node = &self.nodes[index];
        let Some(view) = node.own.views.get(&lease).copied() else { return self.think(index, task) };
        let believes = node.clock.held(self.t) < node.own.session_until;
        if let Some(fence) = view.fence().filter(|_| believes && view.mode == Mode::Exclusive) {
            // Of those who share, the resource can't tell an earlier one from one that is deposed.
            let order = self.scene.grants[view.key].order(fence);
            if self.scenario.keys[view.key].exclusive == 100
                && !self.scene.behind.contains(&(view.key, fence))
            {
                let found = self.checks.resource.write(view.key, fence, order);
                self.check(Rule::P2, found);
            }
        }
        match self.rng.below(20) {
            0 => self.give_up(index, task, lease, true),
            1..=9 => self.give_up(index, task, lease, false),
            _ => self.turn(index, task, PermitActivity::Using(lease), self.per_mille(self.scenario.hold / 2)),
        }
    }

    /// A machine tells its users something.
    pub(super) fn told(&mut self, index: usize, now: Now, notice: Notice) {
        if let Some(lease) = notice.lease()
            && !matches!(notice, Notice::Asked(..))
        {
            self.scene.late.remove(&lease);
        }
        match notice {
            Notice::Acquired { lease, fence, .. } => self.acquired(index, lease, fence),
            Notice::SessionValid(until) => self.session_valid(index, now, until),
            Notice::Held(lease, _) | Notice::Failed(lease, _) | Notice::Lost(lease, _) => {
                let view = self.nodes[index].own.views.remove(&lease);
                if let (Some(view), Notice::Failed(_, error)) = (&view, &notice) {
                    self.check_full(index, view.key, view.asked, error);
                }
                if let Some(view) = view
                    && view.stage != PermitStage::Ending
                {
                    self.think(index, view.task);
                }
            }
            Notice::Released(lease, _) => drop(self.nodes[index].own.views.remove(&lease)),
            Notice::Stopped => self.kill(index),
            _ => {}
        }
    }

    fn acquired(&mut self, index: usize, lease: LeaseId, fence: Fence) {
        let node = &mut self.nodes[index];
        let who = node.who.clone();
        let Some(view) = node.own.views.get_mut(&lease) else { return };
        let (key, task) = (view.key, view.task);
        node.own.told.insert((key, fence));
        if view.stage != PermitStage::Wanted {
            let found = Err(format!("{who} is told of fence {fence} that it has given up"));
            return self.check(Rule::Answered, found);
        }
        view.stage = PermitStage::Held(fence);
        let new = BelievedPermits { holder: &who, fence, mode: view.mode, permits: view.permits };
        let found = self.scene.grants[key].obtained(new);
        self.check(Rule::S4, found);
        self.check_permits(key);
        self.turn(index, task, PermitActivity::Using(lease), self.per_mille(self.scenario.hold / 2));
    }

    fn session_valid(&mut self, index: usize, now: Now, until: Tick) {
        if until > Tick(0) {
            let node = &self.nodes[index];
            let heartbeats = node.own.heartbeats.iter();
            let found = s4::session_founded(&node.who, &node.session, heartbeats, until, now);
            self.check(Rule::S4, found);
        }
        let own = &mut self.nodes[index].own;
        own.session_until = until;
        if until > Tick(0) {
            own.session_deadline = Some(until);
            if std::mem::take(&mut own.session_claimed) {
                self.check_session(index);
            }
            for key in 0..self.scene.keys.len() {
                self.check_permits(key);
            }
        }
    }

    /// S2: a session that a process begins has a greater fence than each that it had before, whatever was done to its record.
    fn check_session(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Some(fence) = node.machine.as_ref().and_then(tenure_core::Holder::session_fence) else { return };
        let before = std::mem::replace(&mut node.own.session_fence, fence);
        if fence <= before {
            let found =
                Err(format!("{} begins a session with fence {fence}, and had one with {before}", node.who));
            self.check(Rule::S2, found);
        }
    }

    /// S6: what a user let lapse is not taken out by its own process before its time, nor is the session vacated that it is attached to.
    pub(super) fn check_lapses(&mut self, index: usize, now: Tick, op: &Op) {
        let Op::Write(write) = op else { return };
        let node = &mut self.nodes[index];
        node.own.lapses.retain(|lapse| now < lapse.over);
        if write.key == node.session && write.record.tenure.is_none() {
            let fence = Some(write.record.fence);
            let found = match node.own.lapses.iter().find(|lapse| lapse.session == fence) {
                Some(lapse) => Err(format!(
                    "{} vacates its session although fence {} of k{} was left to expire",
                    node.who, lapse.fence, lapse.key
                )),
                None => Ok(()),
            };
            return self.check(Rule::S6, found);
        }
        let Some(key) = self.key_index(&write.key) else { return };
        let version = self.store.get(&write.key).map(tenure_core::Record::version);
        if version.is_none_or(|version| write.expect != Expect::Unchanged(version)) {
            // It takes nothing out of what stands there.
            return;
        }
        let (standing, written) = (self.ledger(key), SemaphoreLedger::of(&write.record).unwrap_or_default());
        let stands =
            |ledger: &SemaphoreLedger, fence| ledger.holders.iter().any(|grant| grant.fence == fence);
        let node = &self.nodes[index];
        let session = node.machine.as_ref().and_then(tenure_core::Holder::session_fence);
        let is_live = |fence| {
            let grant = standing.holders.iter().find(|grant| grant.fence == fence);
            grant.is_some_and(|grant| Some(grant.ticket.attachment.fence) == session)
        };
        let found = node
            .own
            .lapses
            .iter()
            .find(|lapse| lapse.key == key && is_live(lapse.fence) && !stands(&written, lapse.fence));
        let found = match found {
            Some(lapse) => {
                Err(format!("{} takes out fence {}, which was left to expire", node.who, lapse.fence))
            }
            None => Ok(()),
        };
        self.check(Rule::S6, found);
    }
}

/// Whether it asks for the beginning of a session.
pub(super) fn begins(session: &Key, op: &Op) -> bool {
    let Op::Write(write) = op else { return false };
    let tenure = write.record.tenure.as_ref();
    write.key == *session && tenure.is_some_and(|tenure| tenure.id == write.record.nonce)
}

/// S5, after a step, its notices told.
pub(super) fn told_in_time(node: &Node, now: Tick, wake_at: Option<Tick>) -> Result<(), String> {
    let Some(fence) = node.own.views.values().find_map(PermitView::fence) else { return Ok(()) };
    let deadline = node.own.session_deadline.unwrap_or(Tick(0));
    if now >= deadline {
        return Err(format!(
            "{} was not told of the loss of fence {fence} at its deadline {}",
            node.who, deadline.0
        ));
    }
    if wake_at.is_none_or(|at| at > deadline) {
        return Err(format!(
            "{} holds fence {fence} until {} and wants to be woken at {wake_at:?}",
            node.who, deadline.0
        ));
    }
    Ok(())
}
