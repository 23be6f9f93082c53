//! What users hear of their leases, and what they and the invariants make of it.

use crate::invariants::{self, Rule};
use crate::kernel::clock::MILLI;
use crate::kernel::coverage::Coverage;
use crate::kernel::fault::FaultKind;
use crate::leases::World;
use crate::leases::node::{Closed, LeaseActivity, LeaseStage, LeaseView, Node, UserBelief};
use tenure_core::once::OnceEvent;
use tenure_core::{Ask, Fence, LeaseId, Loss, Notice, Now, Tick, Token};

impl World {
    /// A machine tells its users something.
    pub(crate) fn told(&mut self, index: usize, now: Now, notice: Notice) {
        let found = self.scene.asked[index].told(index, &notice);
        self.check(Rule::Answered, found);
        self.tell_candidates(index, &notice);
        match notice {
            Notice::Acquired { lease, fence, until, metadata } => {
                self.acquired(index, now, lease, fence, until);
                self.tick_hears(index, lease, OnceEvent::Held(fence, metadata));
            }
            Notice::Held(lease, _) => {
                self.refused(index, lease);
                self.not_had(index, now, lease);
            }
            Notice::Failed(lease, error) => {
                let shares_ids = self.frame.has(FaultKind::SameId);
                self.check(Rule::Answered, invariants::answered::not_blamed(index, &error, shares_ids));
                self.not_had(index, now, lease);
            }
            Notice::Released(lease, true) => {
                self.tick_over(index, lease, true);
                self.released(index, lease);
            }
            Notice::Released(lease, false) => {
                self.note_denied(index, lease);
                self.finished(index, lease);
            }
            Notice::Absent(lease) => {
                self.make_record(index, lease);
                self.finished(index, lease);
            }
            Notice::NotOurs(lease, _) => self.finished(index, lease),
            Notice::Valid(lease, until) => self.valid(index, now, lease, until),
            Notice::SessionValid(until) => self.session_valid(index, now, until),
            Notice::Asked(lease, ask) => self.asked(index, lease, ask),
            Notice::Lost(lease, loss) => self.lost(index, now, lease, &loss),
            Notice::Updated(lease) => {
                self.updated(index, lease);
                let node = &self.nodes[index];
                let is_held =
                    node.own.views.iter().any(|view| view.id == lease && node.believes(view, self.t));
                self.tick_hears(index, lease, OnceEvent::Written { is_held });
            }
            // Only candidates follow keys, and have heard of it above.
            Notice::Seen(..) => {}
            Notice::Detached(lease, token) => self.detached(index, lease, *token),
            // Only workers of a fleet are asked as a whole.
            Notice::SessionAsked(_) | Notice::SessionFailed(_) | Notice::Given(_) => {}
            Notice::NotAnnounced(_) => self.nodes[index].own.announced = None,
            Notice::Announced => {
                self.checks.check(
                    self.t,
                    Rule::Answered,
                    invariants::answered::announced(&mut self.nodes[index], &self.store),
                );
            }
            Notice::Stopped => self.stopped(index),
        }
        for key in 0..self.nodes[index].own.seats.len() {
            self.check_leaders(index, key);
        }
    }

    fn acquired(&mut self, index: usize, now: Now, lease: LeaseId, fence: Fence, until: Tick) {
        let t = self.t;
        let Some(view) = self.nodes[index].view(lease) else { return };
        let (key, is_attached, task) = (view.key, view.is_attached, view.task);
        if !matches!(view.stage, LeaseStage::Wanted | LeaseStage::Token) {
            return;
        }
        let order = self.checks.tenures.order(&self.scene.keys[key], fence);
        view.stage = LeaseStage::Held(UserBelief { fence, until, deadline: until, order, since: t });
        let ends = t + self.rng.span(self.per_mille(self.scenario.users.hold));
        self.set_doing(index, task, LeaseActivity::Holding { lease, ends });
        self.next_use(index, task, ends);
        if !is_attached {
            self.check(
                Rule::S4,
                invariants::s4::founded(&self.nodes[index], &self.scene.keys[key], fence, until, now),
            );
        }
        self.check(Rule::S1, invariants::s1::one_holder(&self.nodes, &self.scene.acts, key, t, self.ttl));
    }

    fn valid(&mut self, index: usize, now: Now, lease: LeaseId, until: Tick) {
        let t = self.t;
        let Some(view) = self.nodes[index].view(lease) else { return };
        let (key, is_attached) = (view.key, view.is_attached);
        let LeaseStage::Held(belief) = &mut view.stage else { return };
        belief.until = until;
        if until == Tick(0) {
            return;
        }
        belief.deadline = until;
        if is_attached {
            // It was withdrawn, and lasts no longer than the session as that was then.
            return;
        }
        let fence = belief.fence;
        self.checks.check(self.t, Rule::Withdrawn, invariants::withdrawn::not_prolonged(index, view, until));
        self.check(
            Rule::S4,
            invariants::s4::founded(&self.nodes[index], &self.scene.keys[key], fence, until, now),
        );
        self.check(Rule::S1, invariants::s1::one_holder(&self.nodes, &self.scene.acts, key, t, self.ttl));
    }

    fn session_valid(&mut self, index: usize, now: Now, until: Tick) {
        let t = self.t;
        let node = &mut self.nodes[index];
        node.own.session_until = until;
        if until == Tick(0) {
            return;
        }
        node.own.session_deadline = Some(until);
        let node = &self.nodes[index];
        let heartbeats = node.own.heartbeats.iter();
        let found = invariants::s4::session_founded(&node.who, &node.session, heartbeats, until, now);
        self.check(Rule::S4, found);
        for key in 0..self.scene.keys.len() {
            let is_attached = |view: &LeaseView| {
                view.key == key && view.is_attached && matches!(view.stage, LeaseStage::Held(_))
            };
            if self.nodes[index].own.views.iter().any(is_attached) {
                self.check(
                    Rule::S1,
                    invariants::s1::one_holder(&self.nodes, &self.scene.acts, key, t, self.ttl),
                );
            }
        }
    }

    fn updated(&mut self, index: usize, lease: LeaseId) {
        let Some(view) = self.nodes[index].view(lease) else { return };
        let asked = std::mem::take(&mut view.updating);
        let (key, n) = (view.key, view.update);
        if self.scenario.users.ticks > 0 {
            // What it writes has no number.
            return;
        }
        if let (true, LeaseStage::Held(belief)) = (asked, view.stage) {
            let (node, written) = (&self.nodes[index], &self.scene.updates[key]);
            self.check(
                Rule::S4,
                invariants::s4::updated(node, &self.scene.keys[key], belief.fence, n, written),
            );
        }
    }

    /// It could not be had; or, if it is held, could not be changed.
    fn not_had(&mut self, index: usize, now: Now, lease: LeaseId) {
        let Some(view) = self.nodes[index].view(lease) else { return };
        match view.stage {
            LeaseStage::Held(_) => {
                view.updating = false;
                self.tick_hears(index, lease, OnceEvent::NotWritten);
            }
            // What was asked before it was given up; that it is given up will be told too.
            LeaseStage::Ending(_) => view.updating = false,
            _ => {
                let (key, is_attached) = (view.key, view.is_attached || view.stage != LeaseStage::Wanted);
                let alone = self.nodes[index].own.views.iter().filter(|view| view.key == key).count() == 1;
                // Where that can't be looked at, the error says so.
                if alone && !is_attached && !self.store.is_unreadable(&self.scene.keys[key]) {
                    self.check(
                        Rule::S4,
                        invariants::s4::resolved(index, &self.scene.claims[index], key, now.held),
                    );
                }
                self.finished(index, lease);
            }
        }
    }

    fn released(&mut self, index: usize, lease: LeaseId) {
        let node = &self.nodes[index];
        let view = node.own.views.iter().find(|view| view.id == lease);
        if let Some(LeaseView { key, stage: LeaseStage::Ending(Some(belief)), .. }) = view
            && !self.scene.acts.is_behind(*key, belief.fence)
        {
            let key = &self.scene.keys[*key];
            self.check(
                Rule::Answered,
                invariants::answered::given_up(node, key, belief.fence, self.store.get(key)),
            );
        }
        self.finished(index, lease);
    }

    /// A lease is given up, but not by a write.
    fn note_denied(&mut self, index: usize, lease: LeaseId) {
        let t = self.t;
        if let Some(LeaseView { key, is_attached: true, stage: LeaseStage::Ending(Some(belief)), .. }) =
            self.nodes[index].view(lease)
        {
            let denied = (*key, belief.fence, t);
            self.nodes[index].own.denied.push(denied);
        }
    }

    fn finished(&mut self, index: usize, lease: LeaseId) {
        self.scene.takeovers.waiter_left(lease);
        self.tick_over(index, lease, false);
        if let Some(view) = self.nodes[index].forget(lease) {
            if !self.nodes[index].own.views.iter().any(|other| other.key == view.key) {
                self.scene.claims[index].retain(|claim| claim.key != view.key);
            }
            self.think(index, view.task);
        }
    }

    fn lost(&mut self, index: usize, now: Now, lease: LeaseId, loss: &Loss) {
        let Some(view) = self.nodes[index].view(lease) else { return };
        let (key, is_attached) = (view.key, view.is_attached);
        let ending = matches!(view.stage, LeaseStage::Ending(_));
        let belief = match view.stage {
            LeaseStage::Held(belief) | LeaseStage::Ending(Some(belief)) => Some(belief),
            _ => None,
        };
        if let Some(belief) = belief {
            let node = &self.nodes[index];
            let session =
                if is_attached { node.own.session_deadline.unwrap_or(Tick(0)) } else { Tick::NEVER };
            let deadline = session.min(belief.deadline);
            if now.held.0 > deadline.0 + self.ttl_ns() / 10 {
                self.tally.coverage(Coverage::LossOverdue);
            } else if matches!(loss, Loss::Unreachable(_)) {
                self.tally.coverage(Coverage::LossUnreachable);
            }
            // Nobody has believed in what was to become plain data since that was asked for.
            let given_up = ending && matches!(loss, Loss::Unreachable(_));
            let withdrawn = *loss == Loss::Revoked || given_up;
            self.check(
                Rule::Withdrawn,
                invariants::withdrawn::was_asked(node, lease, now.held, loss, &self.scene.letters),
            );
            let vacate_from = if withdrawn { Tick(0) } else { Tick::NEVER };
            let key = self.scene.keys[key].clone();
            self.nodes[index].close(Closed {
                key,
                fence: belief.fence,
                since: Tick(now.held.0.saturating_sub(1)),
                vacate_from,
            });
        }
        let settled = self.healed.is_some_and(|healed| self.t > healed + self.per_mille(2000));
        if settled && belief.is_some_and(|belief| self.healed.is_some_and(|healed| belief.since > healed)) {
            self.check(Rule::L4, invariants::l4::not_lost(index, key, loss));
        }
        // Whoever gives a lease up is told twice: of the loss, and that it is given up.
        let ending =
            self.nodes[index].view(lease).is_some_and(|view| matches!(view.stage, LeaseStage::Ending(None)));
        if !ending {
            self.finished(index, lease);
        }
    }

    fn asked(&mut self, index: usize, lease: LeaseId, ask: Ask) {
        let t = self.t;
        let node = &mut self.nodes[index];
        let Some(view) = node.own.views.iter().find(|view| view.id == lease) else { return };
        let (key, task, fence) = (view.key, view.task, view.fence());
        if node.own.asked.len() >= 32 {
            node.own.asked.remove(0);
        }
        node.own.asked.push((key, ask, t));
        // Of a session that is suspended nothing is believed now.
        let (is_attached, own) =
            (node.own.session_deadline.map(|_| node.own.session_until), view_deadline(node, lease));
        if ask == Ask::Revoke
            && let Some(view) = node.view(lease)
            && let Some(end) = if view.is_attached { is_attached } else { own }
        {
            view.withdrawn = Some(view.withdrawn.map_or(end, |before| before.min(end)));
        }
        let node = &self.nodes[index];
        let (name, letters) = (&self.scene.keys[key], &self.scene.letters);
        self.check(Rule::Withdrawn, invariants::withdrawn::was_written(node, name, fence, ask, letters));
        // Half of all users do what they are asked for.
        if self.rng.chance(0.5)
            && let Some(slot) = self.nodes[index].own.tasks.get_mut(task)
            && let LeaseActivity::Holding { lease, .. } = slot.doing
        {
            slot.doing = LeaseActivity::Holding { lease, ends: t };
            self.appoint(index, task, t + MILLI);
        }
    }

    fn detached(&mut self, index: usize, lease: LeaseId, token: Token) {
        // Whoever has the token has the lease for a ttl, though nobody believes in it.
        if let Some(key) = self.scene.keys.iter().position(|key| *key == token.key) {
            self.scene.free_since[key] = None;
        }
        if let Some(view) = self.nodes[index].view(lease) {
            self.checks.check(self.t, Rule::Withdrawn, invariants::withdrawn::not_detached(index, view));
        }
        self.finished(index, lease);
        if self.rng.chance(0.1) {
            return;
        }
        let to = self.rng.index(self.nodes.len());
        if self.rng.chance(0.15) {
            // Plain data can be copied: two processes may use one token.
            let other = self.rng.index(self.nodes.len());
            self.deliver_token(other, token.clone());
        }
        self.deliver_token(to, token);
    }

    fn stopped(&mut self, index: usize) {
        self.end_process(index);
        self.restart(index, self.per_mille(1000));
    }
}

/// The last end of belief that was told of a lease that renews itself.
fn view_deadline(node: &Node, lease: LeaseId) -> Option<Tick> {
    match node.own.views.iter().find(|view| view.id == lease)?.stage {
        LeaseStage::Held(belief) | LeaseStage::Ending(Some(belief)) => Some(belief.deadline),
        _ => None,
    }
}
