//! Where the notices of a worker's machine go: to the users of its units, to events, traces and metrics.

use super::membership::Membership;
use super::meters::FleetMeters;
use super::news::NewsItem;
use super::shared_unit::SharedUnit;
use super::shared_worker::SharedWorker;
use super::unit::Unit;
use super::users::{EndedByCommand, UnitReply};
use crate::driver::{NOW_AND_THEN, Sink};
use crate::meters;
use crate::renewals::{Renewals, Renewed};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tenure_core::fleet::{
    FleetCommand, FleetNotice, FleetWorker, Planning, Reason, RequestId, Role, Summary, Uncovered, UnitSpec,
};
use tenure_core::time::millis;
use tenure_core::{Fence, HolderId, Key, LeaseId, Loss, Metadata, StoreError, Tick};
use tenure_store::tell;

pub(super) struct WorkerSink {
    inner: Weak<SharedWorker>,
    /// The same while units are held: what becomes of them is told also when nobody stands for the worker any more.
    kept: Option<Arc<SharedWorker>>,
    holder: HolderId,
    meters: FleetMeters,
    /// How long the worker's session is believed in from when a renewal was sent.
    belief: Duration,
    renewals: Renewals,
    /// When it was told last that the fleet could not be looked at, by kind of error.
    told: BTreeMap<&'static str, Tick>,
}

impl WorkerSink {
    pub(super) fn new(inner: &Arc<SharedWorker>, meters: FleetMeters, belief: Duration) -> WorkerSink {
        let (holder, renewals) = (inner.holder.clone(), Renewals::of_workers());
        let (inner, told) = (Arc::downgrade(inner), BTreeMap::new());
        WorkerSink { inner, kept: None, holder, meters, belief, renewals, told }
    }
}

/// The driver is gone, by a panic or with its runtime: nobody is to wait for it, nor believe for long.
impl Drop for WorkerSink {
    fn drop(&mut self) {
        // Where it has stopped in order, that is so already.
        self.meters.stopped();
        if let Some(inner) = self.inner.upgrade() {
            inner.abandoned();
        }
    }
}

impl Sink<FleetWorker> for WorkerSink {
    fn tell(&mut self, notice: FleetNotice, commands: &mut Vec<FleetCommand>) -> ControlFlow<()> {
        let Some(inner) = self.inner.upgrade() else {
            // Nobody is left to do anything for a unit.
            match notice {
                FleetNotice::Assigned { lease, .. } | FleetNotice::Draining(lease, ..) => {
                    commands.push(FleetCommand::Drained(lease));
                }
                FleetNotice::Stopped => {
                    self.stopped();
                    return ControlFlow::Break(());
                }
                _ => {}
            }
            return ControlFlow::Continue(());
        };
        let flow = self.take(&inner, notice, commands);
        inner.told.notify_waiters();
        let holds_units = !inner.users().shares.is_empty();
        self.kept = holds_units.then_some(inner);
        flow
    }
}

impl WorkerSink {
    fn take(
        &mut self,
        inner: &Arc<SharedWorker>,
        notice: FleetNotice,
        commands: &mut Vec<FleetCommand>,
    ) -> ControlFlow<()> {
        match notice {
            FleetNotice::Valid(until) => self.valid(inner, until),
            FleetNotice::Assigned { unit, lease, fence, how, spec, fields } => {
                self.meters.assigned(how);
                assigned(inner, lease, unit, fence, (spec, fields));
            }
            FleetNotice::Draining(lease, reason, until) => {
                self.draining(inner, lease, &reason, until, commands)
            }
            FleetNotice::Withdrawn(lease, until) => {
                if let Some(share) = inner.users().shares.get(&lease) {
                    share.cell.belief.set(until);
                }
            }
            FleetNotice::Lost(lease, loss) => self.lost(inner, lease, &loss),
            FleetNotice::Updated { lease, request, fields } => {
                let mut users = inner.users();
                if let Some(share) = users.shares.get(&lease) {
                    share.knows(fields);
                }
                users.answer(lease, request, UnitReply::Updated);
            }
            FleetNotice::Failed(lease, request, error) => {
                let mut users = inner.users();
                if users.answer(lease, request, UnitReply::Failed(error)) == Some(EndedByCommand::Unit) {
                    commands.push(FleetCommand::Decline(lease, users.draw()));
                }
            }
            FleetNotice::Released(lease, request, ours) => self.released(inner, lease, request, ours),
            FleetNotice::Planned(summary) => self.planned(inner, &summary),
            FleetNotice::Planning(role, planning) => {
                self.meters.planning(role, &planning);
                let before = inner.planning.send_replace((role, (*planning).clone()));
                tell_planning(inner, &before, role, &planning);
            }
            FleetNotice::Rests { unit, failures, rest } => {
                let holder = &inner.holder;
                let rest_ms = millis(rest);
                tell!(
                    warn, name: "fleet.rests", target: "tenure::fleet", key = %unit, %holder, failures, rest_ms,
                    "this unit has failed, and is tried again later"
                );
            }
            FleetNotice::Trouble(error) => self.trouble(inner, error),
            FleetNotice::Stopped => {
                self.stopped();
                inner.entry.send_if_modified(Membership::leaves);
                inner.users().end();
                return ControlFlow::Break(());
            }
        }
        let held = inner.users().shares.len();
        self.meters.holds(held);
        ControlFlow::Continue(())
    }

    fn valid(&mut self, inner: &SharedWorker, until: Tick) {
        let holder = &inner.holder;
        if until == Tick(0) && !inner.is_leaving() {
            tell!(warn, name: "fleet.suspended", target: "tenure::fleet", %holder, "session not believed in");
        }
        let renewed = self.renewals.extended(&inner.session, until, self.belief, inner.clock().held());
        inner.session.set(until);
        renewed.iter().for_each(Renewed::measure);
        if until > Tick(0) {
            inner.entry.send_if_modified(|entry| entry.joined());
        }
    }

    /// A unit is to go: told to whoever has it, unless nothing was begun for it yet.
    fn draining(
        &self,
        inner: &Arc<SharedWorker>,
        lease: LeaseId,
        reason: &Reason,
        until: Tick,
        commands: &mut Vec<FleetCommand>,
    ) {
        let share = inner.users().shares.get(&lease).cloned();
        if let Some(share) = share {
            let unit = Unit { share, worker: Arc::clone(inner) };
            let (key, fence, holder) = unit.named();
            tell!(info, name: "fleet.draining", target: "tenure::fleet", %key, %fence, %holder, %reason, "unit is to go");
            self.meters.drained(reason);
            unit.share.told_to_drain(reason.clone(), until, inner.clock().held());
            let mut users = inner.users();
            if users.news.take_back(lease) {
                // Nothing was begun for it, so there is nothing to end.
                commands.push(FleetCommand::Drained(lease));
            } else {
                users.news.add(NewsItem::Draining {
                    unit: unit.name().to_owned(),
                    reason: reason.clone(),
                    until,
                });
            }
        }
    }

    fn released(&self, inner: &Arc<SharedWorker>, lease: LeaseId, request: Option<RequestId>, ours: bool) {
        let mut users = inner.users();
        users.news.take_back(lease);
        let share = users.shares.remove(&lease);
        drop(users);
        if let Some(share) = share {
            share.measure_end(&self.meters, ours, inner.clock().held());
            if !ours && share.is_lost_if_kept() {
                // What is done for a unit ends before it is lost, so that is let go of before, and then can't be.
                let trouble = inner.trouble.borrow().clone();
                let loss = trouble.map_or(Loss::Taken(None), Loss::from);
                self.tell_lost(&Unit { share, worker: Arc::clone(inner) }, &loss);
            }
        }
        let mut users = inner.users();
        if let Some(request) = request {
            users.answer(lease, request, UnitReply::Released(ours));
        }
        users.answer_all(lease, &Loss::Released);
    }

    fn planned(&mut self, inner: &SharedWorker, summary: &Summary) {
        let holder = &inner.holder;
        self.meters.planned(summary);
        let before = inner.summary.send_replace(summary.clone());
        tell_plan(holder, summary);
        // Whoever leaves alone leaves all units to nobody, on purpose.
        if !inner.is_leaving() {
            tell_uncovered(holder, &summary.uncovered, &before.uncovered);
        }
        inner.trouble.send_if_modified(|trouble| trouble.take().is_some());
    }

    fn trouble(&mut self, inner: &SharedWorker, error: StoreError) {
        let holder = &inner.holder;
        if self.is_due(&error, inner.clock().held()) {
            tell!(
                warn, name: "fleet.failing", target: "tenure::fleet", %holder, reason = %error,
                "the store could not be asked about the fleet"
            );
        }
        self.meters.trouble.increment(1);
        inner.trouble.send_replace(Some(error));
    }

    /// Nothing of what was measured last is so any more.
    fn stopped(&self) {
        let holder = &self.holder;
        tell!(info, name: "fleet.stopped", target: "tenure::fleet", %holder, "worker stopped");
        self.meters.stopped();
    }

    /// Whether this is to be told: at once, and then every 10 s while that goes on.
    fn is_due(&mut self, error: &StoreError, now: Tick) -> bool {
        let told = self.told.get(meters::kind(error));
        let is_due = told.is_none_or(|told| now.since(*told) >= NOW_AND_THEN);
        if is_due {
            self.told.insert(meters::kind(error), now);
        }
        is_due
    }

    fn tell_lost(&self, unit: &Unit, loss: &Loss) {
        let (key, fence, holder) = unit.named();
        tell!(
            warn, name: "fleet.lost", target: "tenure::fleet", %key, %fence, %holder, reason = %loss, loss = loss.name(),
            "unit lost"
        );
        self.meters.lost(loss);
    }

    fn lost(&self, inner: &Arc<SharedWorker>, lease: LeaseId, loss: &Loss) {
        let share = inner.users().shares.remove(&lease);
        if let Some(share) = share {
            share.cell.belief.end();
            let unit = Unit { share, worker: Arc::clone(inner) };
            unit.share.lost(loss.clone());
            self.tell_lost(&unit, loss);
            unit.share.measure_end(&self.meters, false, inner.clock().held());
            let mut users = inner.users();
            if !users.news.take_back(lease) {
                users.news.add(NewsItem::Lost { unit: unit.name().to_owned(), loss: loss.clone() });
            }
        }
        inner.users().answer_all(lease, loss);
    }
}

fn assigned(
    inner: &SharedWorker,
    lease: LeaseId,
    unit: Key,
    fence: Fence,
    (spec, fields): (UnitSpec, Metadata),
) {
    let holder = &inner.holder;
    tell!(info, name: "fleet.assigned", target: "tenure::fleet", key = %unit, %fence, %holder, "unit assigned");
    let name = inner.fleet.name().unit_of(&unit).unwrap_or_default().to_owned();
    let now = inner.clock().held();
    let share = Arc::new(SharedUnit::new(lease, (unit, name), fence, (spec, fields), now));
    let mut users = inner.users();
    users.shares.insert(lease, Arc::clone(&share));
    users.news.add(NewsItem::Assigned(share));
}

/// Who plans, by name; nobody is the empty one.
fn tell_planning(inner: &SharedWorker, before: &(Role, Planning), role: Role, planning: &Planning) {
    let (holder, name) = (&inner.holder, inner.fleet.name());
    let planner = planning.holder(name).map(|planner| planner.to_string()).unwrap_or_default();
    if (before.0, &before.1.planner) != (role, &planning.planner) {
        tell!(
            info, name: "fleet.role", target: "tenure::fleet", %holder, role = role.name(), planner,
            "role in the fleet's planning"
        );
    }
    if let Some(plan) = planning.plan.filter(|plan| before.1.plan != Some(*plan)) {
        tell!(debug, name: "fleet.told", target: "tenure::fleet", %holder, planner, plan, "plan told");
    }
}

/// How many units move for each cause.
fn causes(summary: &Summary) -> String {
    let causes = summary.moves.iter().map(|(cause, units)| format!("{units} {}", cause.name()));
    causes.collect::<Vec<_>>().join(", ")
}

fn tell_plan(holder: &HolderId, summary: &Summary) {
    let Summary { workers, units, ref uncovered, ref damaged, .. } = *summary;
    let (generation, moves) = (summary.generation, summary.incoming + summary.outgoing);
    tell!(
        debug, name: "fleet.planned", target: "tenure::fleet", %holder, %generation, workers, units, moves,
        uncovered = uncovered.len(), causes = causes(summary), "fleet planned"
    );
    for (key, error) in damaged {
        tell!(
            warn, name: "fleet.unreadable", target: "tenure::fleet", %key, %holder, reason = %error, "this record can't be read"
        );
    }
}

/// Of units that nobody can have, so many are told by name.
const NAMED: usize = 10;

/// Units that nobody can have, and that were not so by the plan before.
fn tell_uncovered(holder: &HolderId, uncovered: &[(Key, Uncovered)], before: &[(Key, Uncovered)]) {
    let before: BTreeSet<&(Key, Uncovered)> = before.iter().collect();
    let mut new = uncovered.iter().filter(|unit| !before.contains(unit));
    for (key, why) in new.by_ref().take(NAMED) {
        tell!(
            warn, name: "fleet.uncovered", target: "tenure::fleet", %key, %holder, reason = %why, "no worker can have this unit"
        );
    }
    let units = new.count();
    if units > 0 {
        tell!(
            warn, name: "fleet.more_uncovered", target: "tenure::fleet", %holder, units, "no worker can have that many more units"
        );
    }
}
