//! What is done for units: bodies use the resource that a unit stands for, write checkpoints, finish, and end when asked.

use super::node::{Body, FleetCall, UnitLapse};
use super::{FleetDue, What, World};
use crate::invariants::Rule;
use crate::kernel::clock::MILLI;
use crate::kernel::fault::FaultKind;
use tenure_core::fleet::{FleetCommand, RequestId};
use tenure_core::{Key, LeaseId, Metadata, Value};

/// The users' field that a checkpoint writes.
pub(crate) const POINT: &str = "point";

/// The request that asks for something with this point.
pub(crate) fn asking(point: i64) -> RequestId {
    RequestId(point.unsigned_abs())
}

pub(crate) fn fields(point: i64) -> Metadata {
    Metadata::from([(POINT.to_owned(), Value::from(point))])
}

impl World {
    /// Gives a body its next turn.
    pub(super) fn appoint(&mut self, index: usize, lease: LeaseId) {
        let Some(work) = self.nodes[index].own.works.get(&lease) else { return };
        let fails = self.scene.units.get(&work.unit).is_some_and(|truth| truth.fails);
        let mean = if fails { 20 } else { self.scenario.bodies.turn };
        let span = self.rng.span(self.per_mille(mean)) + MILLI;
        let node = &mut self.nodes[index];
        let life = node.life;
        let Some(work) = node.own.works.get_mut(&lease) else { return };
        work.turn += 1;
        let turn = work.turn;
        self.at(self.t + span, What::Input(index as u8, life, FleetCall::Turn(lease, turn)));
    }

    /// A body's turn has come.
    pub(super) fn turn(&mut self, index: usize, lease: LeaseId, turn: u32) {
        let node = &self.nodes[index];
        let Some(work) = node.own.works.get(&lease).filter(|work| work.turn == turn && work.runs()) else {
            return;
        };
        let (unit, writes) = (work.unit.clone(), work.writes.is_some());
        let is_believed = node.believes(self.t);
        if self.scene.units.get(&unit).is_some_and(|truth| truth.fails) {
            if is_believed && work.body == Body::Works && !node.stopping {
                return self.fail(index, lease);
            }
            return self.appoint(index, lease);
        }
        let bodies = self.scenario.bodies;
        let calm = self.healed.is_some();
        let rng = self.rng.below(1000);
        let passing = bodies.finish + bodies.pass;
        if rng < bodies.update {
            // Some don't wait for the answer to the one before.
            if !node.stopping && (!writes || self.rng.chance(0.25)) {
                self.checkpoint(index, lease);
            }
        } else if rng < bodies.update + passing && !calm && work.body == Body::Works && is_believed {
            return self.let_go(index, lease, rng - bodies.update < bodies.finish);
        } else if is_believed {
            self.use_resource(index, lease, &unit);
        }
        self.appoint(index, lease);
    }

    /// Between the check of the belief and its effect anything may happen.
    fn use_resource(&mut self, index: usize, lease: LeaseId, unit: &Key) {
        let delay = if self.befalls(FaultKind::PauseBeforeEffect) {
            self.rng.span(self.per_mille(2000))
        } else {
            self.rng.below(2 * MILLI)
        };
        let Some(truth) = self.scene.units.get(unit) else { return };
        let Some(work) = self.nodes[index].own.works.get(&lease) else { return };
        let effect = FleetDue::Effect { unit: truth.index as u32, fence: work.fence.0, order: work.order };
        self.at(self.t + delay, What::Own(effect));
    }

    fn checkpoint(&mut self, index: usize, lease: LeaseId) {
        self.scene.next_point += 1;
        let point = self.scene.next_point;
        if let Some(work) = self.nodes[index].own.works.get_mut(&lease) {
            let before = work.writes.replace((point, self.t));
            work.forsaken.extend(before.map(|(point, _)| asking(point)));
        }
        let command = if point % 2 == 0 { FleetCommand::Update } else { FleetCommand::Merge };
        self.command(index, command(lease, asking(point), fields(point)));
    }

    /// The body has ended by itself: the unit is finished, or another is to have it.
    fn let_go(&mut self, index: usize, lease: LeaseId, finishes: bool) {
        self.body_is_over(index, lease, finishes);
        self.disturb_by_plan();
        self.scene.next_point += 1;
        let (point, request) = (self.scene.next_point, asking(self.scene.next_point));
        if let Some(work) = self.nodes[index].own.works.get_mut(&lease) {
            work.end = Some(request);
        }
        let abandons =
            self.scenario.bodies.abandon > 0 && self.rng.below(1000) < self.scenario.bodies.abandon;
        let command = if finishes {
            let point = self.rng.chance(0.5).then_some(point);
            FleetCommand::Finish(lease, request, point.map(fields))
        } else if abandons {
            self.abandoned(index, lease);
            FleetCommand::Abandon(lease, request)
        } else if self.rng.chance(0.5) {
            FleetCommand::Decline(lease, request)
        } else {
            let to = self.rng.index(self.nodes.len());
            FleetCommand::HandTo(lease, request, self.nodes[to].who.clone())
        };
        self.command(index, command);
    }

    /// The body is not believed in any more, and may write yet.
    fn abandoned(&mut self, index: usize, lease: LeaseId) {
        let Some(work) = self.nodes[index].own.works.get(&lease) else { return };
        if let Some(truth) = self.scene.units.get_mut(&work.unit) {
            truth.abandoned = work.fence;
        }
    }

    /// The body has failed.
    fn fail(&mut self, index: usize, lease: LeaseId) {
        self.body_is_over(index, lease, false);
        self.scene.next_point += 1;
        let request = asking(self.scene.next_point);
        if let Some(work) = self.nodes[index].own.works.get_mut(&lease) {
            work.end = Some(request);
        }
        self.command(index, FleetCommand::Decline(lease, request));
    }

    /// The user was asked to end a body.
    pub(super) fn begin_end(&mut self, index: usize, lease: LeaseId) {
        let mean = self.per_mille(self.scenario.bodies.ends);
        let span = self.rng.span(mean).min(mean * 8);
        let life = self.nodes[index].life;
        self.at(self.t + span, What::Input(index as u8, life, FleetCall::Ends(lease)));
    }

    /// A body that was asked to end has done so, or can't be made to.
    pub(super) fn ends(&mut self, index: usize, lease: LeaseId) {
        let lapses = self.rng.below(1000) < self.scenario.bodies.lapse;
        let t = self.t;
        let node = &mut self.nodes[index];
        let full = node.own.ttl.duration();
        if !node.own.works.contains_key(&lease) && !node.stopping {
            return self.end_late(index, lease, lapses);
        }
        let Some(work) = node.own.works.get_mut(&lease).filter(|work| work.runs()) else { return };
        if node.stopping {
            return;
        }
        if !lapses {
            self.body_is_over(index, lease, false);
            return self.command(index, FleetCommand::Drained(lease));
        }
        work.body = Body::Lapsed;
        let now = node.clock.held(t);
        let session = node.machine.as_ref().and_then(tenure_core::fleet::FleetWorker::session_fence);
        // What was withdrawn is not kept up any more: its time is what it was then.
        let until = work.until.unwrap_or(now.after(full));
        let lapse = UnitLapse { unit: work.unit.clone(), fence: work.fence, until, session };
        let unit = work.unit.clone();
        if node.own.lapses.len() >= 16 {
            node.own.lapses.remove(0);
        }
        node.own.lapses.push(lapse);
        // It is vacated after a ttl.
        let bound = self.bound(1400) + self.per_mille(3000);
        self.idles_for(&unit, bound, false);
        self.disturb(bound + self.per_mille(1500));
        self.command(index, FleetCommand::Lapse(lease));
    }

    /// The same for a unit that is lost by then. Whoever gives it up has to be answered all the same.
    fn end_late(&mut self, index: usize, lease: LeaseId, lapses: bool) {
        self.nodes[index].own.late.insert(lease);
        let command =
            if lapses || self.rng.chance(0.5) { FleetCommand::Lapse } else { FleetCommand::Drained };
        self.command(index, command(lease));
        // One that was stopped in that very step says so when it goes on.
        let node = &self.nodes[index];
        if node.acts() && node.own.late.contains(&lease) {
            let text = format!("w{index} gave up lease {}, which was lost, and has no answer", lease.0);
            self.check(Rule::Answered, Err(text));
        }
    }

    /// Nothing is being done for the unit any more.
    pub(super) fn body_is_over(&mut self, index: usize, lease: LeaseId, finished: bool) {
        let t = self.t;
        let Some(work) = self.nodes[index].own.works.get_mut(&lease) else { return };
        work.body = Body::Ended { at: t, finished };
        let unit = work.unit.clone();
        self.idles(&unit, None);
    }
}
