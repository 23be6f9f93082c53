//! What users hear of their units, and what they and the invariants make of it.

use super::World;
use super::bodies::{POINT, asking};
use super::invariants;
use super::node::{AssignedWork, Body};
use super::world::Truth;
use crate::invariants::Rule;
use crate::kernel::coverage::Coverage;
use tenure_core::fleet::{FleetNotice, Reason, RequestId, Uncovered};
use tenure_core::{ErrorKind, Fence, Key, LeaseId, Loss, Metadata, Now, StoreError, Tick, Value};

impl World {
    /// A machine tells its users something.
    pub(super) fn heard(&mut self, index: usize, now: Now, notice: FleetNotice) {
        match notice {
            FleetNotice::Assigned { unit, lease, fence, fields, .. } => {
                self.assigned(index, now, unit, lease, fence, &fields);
            }
            FleetNotice::Draining(lease, reason, until) => {
                let is_full = reason == Reason::Uncovered(Uncovered::NoRoom);
                if is_full && self.scenario.room == u64::MAX && self.healed.is_some() {
                    let text = format!("w{index} goes by a part that nobody planned: there is room for all");
                    self.check(Rule::L2, Err(text));
                }
                self.check(Rule::S6, invariants::s6::drain_is_due(index, now.held, until, self.ttl));
                self.draining(index, lease);
                if matches!(reason, Reason::Moved(_)) {
                    self.catch(index, lease);
                }
            }
            FleetNotice::Lost(lease, loss) => self.lost(index, lease, &loss),
            FleetNotice::Updated { lease, request, .. } => self.updated(index, lease, request),
            FleetNotice::Failed(lease, request, error) => self.failed(index, lease, request, &error),
            FleetNotice::Released(lease, request, ours) => self.released(index, lease, request, ours),
            FleetNotice::Valid(until) => self.valid(index, until),
            FleetNotice::Stopped => self.stopped(index),
            FleetNotice::Withdrawn(lease, until) => {
                if let Some(work) = self.nodes[index].own.works.get_mut(&lease) {
                    work.until = Some(until);
                }
            }
            FleetNotice::Planned(summary) => self.obeys(index, summary.planner.as_ref()),
            FleetNotice::Trouble(_) | FleetNotice::Rests { .. } | FleetNotice::Planning(..) => {}
        }
    }

    fn assigned(
        &mut self,
        index: usize,
        now: Now,
        unit: Key,
        lease: LeaseId,
        fence: Fence,
        fields: &Metadata,
    ) {
        let t = self.t;
        let node = &self.nodes[index];
        let who = (index, node.life, lease);
        self.checks.check(self.t, Rule::S4, invariants::s4::assigned_while_believed(node, now.held));
        let order = self.checks.tenures.order(&unit, fence);
        let Some(truth) = self.scene.units.get_mut(&unit) else { return };
        // Whoever is told so late that he does not believe in it any more does nothing with it.
        if node.believes(t) && !self.checks.excused.contains(&Rule::S1) {
            self.checks.check(self.t, Rule::S2, invariants::s2::grows(&unit, truth, fence, who));
            if fence >= truth.assigned.0 {
                truth.assigned = (fence, who);
            }
        }
        self.checks.check(self.t, Rule::S4, invariants::s4::open_when_claimed(&unit, truth, fence));
        self.checks.check(
            self.t,
            Rule::S4,
            invariants::s4::carried(&unit, truth, fields.get(POINT).and_then(Value::as_i64)),
        );
        truth.tries.0 += 1;
        let idle = truth.idle.take();
        if let Some(idle) = idle.filter(|idle| idle.by_death && self.healed.is_some()) {
            self.scene.takeovers.push(((t - idle.since) * 100 / (self.ttl.millis() * 1_000_000)) as u32);
        }
        let before = self.nodes[index].own.works.get(&lease);
        let again = invariants::s5::not_again(index, &unit, before);
        let turn = before.map_or(0, |work| work.turn);
        let writes = before.and_then(|work| work.writes);
        let forsaken = before.map(|work| work.forsaken.clone()).unwrap_or_default();
        let (body, key) = (Body::Works, unit.clone());
        let work =
            AssignedWork { unit: key, fence, order, body, until: None, turn, writes, forsaken, end: None };
        self.nodes[index].own.works.insert(lease, work);
        self.check(Rule::S5, again);
        self.nodes[index].own.known.insert(lease);
        let behind = self.scene.units.get(&unit).map(|truth| truth.behind.as_slice()).unwrap_or_default();
        self.check(Rule::S1, invariants::s1::one_worker(&self.nodes, &unit, behind, t));
        self.moved(index, "takes", &unit);
        self.appoint(index, lease);
    }

    fn draining(&mut self, index: usize, lease: LeaseId) {
        let Some(work) = self.nodes[index].own.works.get_mut(&lease) else {
            return self.unheard(index, lease);
        };
        let unit = work.unit.clone();
        if let Some(truth) = self.scene.units.get_mut(&unit) {
            truth.tries.1 += 1;
        }
        if work.body == Body::Works {
            work.body = Body::Drains;
            self.begin_end(index, lease);
        }
        self.moved(index, "drains", &unit);
    }

    fn lost(&mut self, index: usize, lease: LeaseId, loss: &Loss) {
        let Some(work) = self.nodes[index].own.works.get(&lease) else {
            return self.unheard(index, lease);
        };
        let (unit, body) = (work.unit.clone(), work.body);
        let settled = self.t > self.scene.settled_by || self.scenario.capacity.is_some();
        if settled && !matches!(loss, Loss::Revoked) {
            let text = format!("w{index} lost {unit} though nothing went wrong: {loss:?}");
            self.check(Rule::L4, Err(text));
        }
        // Whoever has said that it ended is told twice: that it is lost, and that it is given up.
        if !matches!(body, Body::Ended { .. } | Body::Lapsed) {
            self.nodes[index].own.works.remove(&lease);
            if self.rng.chance(0.2) {
                // Users say that its body has ended before they hear of the loss.
                self.begin_end(index, lease);
            }
            if *loss == Loss::Revoked {
                self.tally.coverage(Coverage::Outlasted);
                let bound = self.bound(1400) + self.per_mille(1500);
                self.idles_for(&unit, bound, false);
                self.disturb(bound + self.per_mille(1500));
            } else {
                self.idles(&unit, None);
                self.disturb_by_plan();
            }
        }
    }

    fn updated(&mut self, index: usize, lease: LeaseId, request: RequestId) {
        let Some(work) = self.nodes[index].own.works.get_mut(&lease) else { return };
        if work.forsaken.contains(&request) {
            // Nobody waits for it any more; whether it was written does not matter.
            return;
        }
        let Some((point, _)) = work.writes.take_if(|(point, _)| asking(*point) == request) else {
            let text =
                format!("w{index} is told of a checkpoint of lease {} that it did not ask for", lease.0);
            return self.check(Rule::Answered, Err(text));
        };
        let unit = work.unit.clone();
        if let Some(truth) = self.scene.units.get(&unit) {
            self.check(Rule::S4, invariants::s4::written(&unit, truth, point));
        }
    }

    /// Something could not be done; the unit is still held.
    fn failed(&mut self, index: usize, lease: LeaseId, request: RequestId, error: &StoreError) {
        let blamed = error.kind() == ErrorKind::Invalid && !error.to_string().contains("no worker");
        if blamed && !error.to_string().contains("given up") {
            let text = format!("w{index} is told of a mistake that it did not make: {error}");
            self.check(Rule::Answered, Err(text));
        }
        let Some(work) = self.nodes[index].own.works.get_mut(&lease) else { return };
        work.writes.take_if(|(point, _)| asking(*point) == request);
        if let (Body::Ended { finished: false, .. }, true) =
            (work.body, error.to_string().contains("no worker"))
        {
            // It could not be handed to whom the user named: it goes on here.
            work.body = Body::Works;
            work.end = None;
            let unit = work.unit.clone();
            if let Some(truth) = self.scene.units.get_mut(&unit) {
                truth.idle = None;
            }
            self.appoint(index, lease);
        }
    }

    fn released(&mut self, index: usize, lease: LeaseId, request: Option<RequestId>, ours: bool) {
        let Some(work) = self.nodes[index].own.works.remove(&lease) else {
            if !self.nodes[index].own.late.remove(&lease) {
                let text = format!("w{index} is told once more that lease {} is given up", lease.0);
                self.check(Rule::Answered, Err(text));
            }
            return self.unheard(index, lease);
        };
        if request != work.end && work.end.is_some() {
            let text =
                format!("w{index} is told that {} ended by {request:?}, and asked {:?}", work.unit, work.end);
            self.check(Rule::Answered, Err(text));
        }
        self.check(Rule::S6, invariants::s6::ended(index, &work));
        if let (Body::Ended { finished: true, .. }, true) = (work.body, ours) {
            let behind = self.scene.units.get(&work.unit).is_some_and(|truth| truth.is_behind(work.fence));
            if !behind {
                self.check(Rule::S4, invariants::s4::finished(&work.unit, self.store.get(&work.unit)));
            }
            if let Some(truth) = self.scene.units.get_mut(&work.unit) {
                truth.idle = None;
            }
        }
    }

    fn valid(&mut self, index: usize, until: Tick) {
        let t = self.t;
        let node = &mut self.nodes[index];
        node.own.valid = until;
        if until == Tick(0) {
            return;
        }
        node.own.deadline = until;
        self.checks.check(self.t, Rule::S4, invariants::s4::founded(node, until, node.own.ttl));
        let units: Vec<Key> = self.nodes[index].own.works.values().map(|work| work.unit.clone()).collect();
        for unit in units {
            let behind = self.scene.units.get(&unit).map(|truth| truth.behind.as_slice()).unwrap_or_default();
            self.check(Rule::S1, invariants::s1::one_worker(&self.nodes, &unit, behind, t));
        }
    }

    fn stopped(&mut self, index: usize) {
        let node = &self.nodes[index];
        let running = node.own.works.values().find(|work| work.runs()).map(|work| work.unit.clone());
        if let Some(unit) = running.filter(|_| !node.stopping) {
            let text = format!("w{index} has stopped, and {unit} is still worked on there");
            self.checks.check(self.t, Rule::S6, Err(text));
        }
        let (now, is_calm) = (node.clock.held(self.t), self.healed.is_some() && self.board_is_sound());
        self.check(Rule::L2, invariants::l2::last_word(node, now, is_calm));
        self.end_process(index);
        let span = if self.healed.is_some() { self.per_mille(100) } else { self.per_mille(1000) };
        self.restart(index, span);
    }

    /// Something was said of a lease that is over. That is no news; but of one that nobody was told of, nothing may be said.
    fn unheard(&mut self, index: usize, lease: LeaseId) {
        if !self.nodes[index].own.known.contains(&lease) {
            let text = format!("w{index} is told of lease {}, which it never had", lease.0);
            self.check(Rule::Answered, Err(text));
        }
    }

    /// With nothing changing, nothing moves.
    fn moved(&mut self, index: usize, what: &str, unit: &Key) {
        // These rest, for up to 32 ttls.
        let fails = |truth: &Truth| truth.fails || truth.abandoned > Fence(0);
        if self.t > self.scene.settled_by && !self.scene.units.get(unit).is_some_and(fails) {
            let text = format!("w{index} {what} {unit} though nothing has changed");
            self.check(Rule::L2, Err(text));
        }
    }
}
