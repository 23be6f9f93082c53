//! The metrics of one worker, by the names that the module's documentation lists.

use super::seat::WorkerSeat;
use crate::meters::{self, Counter, Gauge, Histogram};
use std::collections::BTreeMap;
use tenure_core::Loss;
use tenure_core::fleet::{Cause, FleetName, Planning, Reason, Role, Summary, Taken};

pub(super) struct FleetMeters {
    held: Gauge,
    workers: Gauge,
    units: Gauge,
    uncovered: Gauge,
    moves: Gauge,
    moving: Moving,
    planner: Gauge,
    standby: Gauge,
    plan: Gauge,
    plan_told: Gauge,
    /// By cause.
    planned_moves: Vec<(Cause, Gauge)>,
    /// By reason.
    assigned: Vec<(&'static str, Counter)>,
    /// By reason.
    drained: Vec<(&'static str, Counter)>,
    /// By reason.
    lost: Vec<(&'static str, Counter)>,
    pub(super) trouble: Counter,
    pub(super) hold: Histogram,
    pub(super) drain: Histogram,
    /// Its number is free for another once nothing is told of it any more.
    _seat: WorkerSeat,
}

impl FleetMeters {
    /// Two workers of one process don't overwrite each other's. A name would be a new series at each start.
    pub(super) fn new(fleet: &FleetName) -> FleetMeters {
        let seat = WorkerSeat::take(fleet);
        let labels = [("fleet", seat.fleet().to_owned()), ("worker", seat.number().to_string())];
        let gauge = |name: &'static str| meters::gauge(name, &labels);
        let counter = |name: &'static str| meters::counter(name, &labels);
        let [fleet, worker] = &labels;
        let with = |reason: &str| [fleet.clone(), worker.clone(), ("reason", reason.to_owned())];
        // All are there from the start, as nobody sees a counter rise that begins with its first event.
        let counters = |name: &'static str, reasons: &[&'static str]| {
            reasons.iter().map(|reason| (*reason, meters::counter(name, &with(reason)))).collect::<Vec<_>>()
        };
        let planned_moves = |cause: Cause| meters::gauge("tenure_fleet_planned_moves", &with(cause.name()));
        FleetMeters {
            held: gauge("tenure_fleet_held"),
            workers: gauge("tenure_fleet_workers"),
            units: gauge("tenure_fleet_units"),
            uncovered: gauge("tenure_fleet_uncovered"),
            moves: gauge("tenure_fleet_moves"),
            moving: Moving::default(),
            planner: gauge("tenure_fleet_planner"),
            standby: gauge("tenure_fleet_standby"),
            plan: gauge("tenure_fleet_plan"),
            plan_told: gauge("tenure_fleet_plan_told_seconds"),
            planned_moves: Cause::ALL.into_iter().map(|cause| (cause, planned_moves(cause))).collect(),
            assigned: counters("tenure_fleet_assigned_total", &Taken::ALL.map(Taken::name)),
            drained: counters("tenure_fleet_drained_total", &Reason::NAMES),
            lost: counters("tenure_fleet_lost_total", &Loss::COUNTED),
            trouble: counter("tenure_fleet_trouble_total"),
            hold: meters::histogram("tenure_fleet_hold_seconds", &labels),
            drain: meters::histogram("tenure_fleet_drain_seconds", &labels),
            _seat: seat,
        }
    }

    pub(super) fn lost(&self, loss: &Loss) {
        count(&self.lost, loss.name());
    }

    pub(super) fn assigned(&self, how: Taken) {
        count(&self.assigned, how.name());
    }

    pub(super) fn drained(&self, reason: &Reason) {
        count(&self.drained, reason.name());
    }

    /// Who plans, or what this worker is to that, has changed.
    pub(super) fn planning(&self, role: Role, planning: &Planning) {
        self.planner.set(f64::from(u8::from(role == Role::Planner)));
        self.standby.set(f64::from(u8::from(role == Role::Standby)));
        self.plan.set(planning.plan.unwrap_or_default() as f64);
        self.plan_told.set(planning.told.map_or(0.0, |told| told.0 as f64 / 1000.0));
        if role != Role::Planner {
            self.moves_planned(&BTreeMap::new());
        }
    }

    fn moves_planned(&self, moves: &BTreeMap<Cause, usize>) {
        for (cause, gauge) in &self.planned_moves {
            gauge.set(moves.get(cause).copied().unwrap_or_default() as f64);
        }
    }

    pub(super) fn planned(&mut self, summary: &Summary) {
        self.workers.set(summary.workers as f64);
        self.units.set(summary.units as f64);
        self.uncovered.set(summary.uncovered.len() as f64);
        (self.moving.incoming, self.moving.outgoing) = (summary.incoming, summary.outgoing);
        self.moves.set(self.moving.count() as f64);
        self.moves_planned(&summary.moves);
    }

    /// It has so many units now.
    pub(super) fn holds(&mut self, units: usize) {
        self.moving.holds(units);
        self.held.set(units as f64);
        self.moves.set(self.moving.count() as f64);
    }

    /// It has stopped: nothing of what it said last is so any more.
    pub(super) fn stopped(&self) {
        for gauge in [&self.held, &self.workers, &self.units, &self.uncovered, &self.moves] {
            gauge.set(0.0);
        }
        self.planning(Role::Member, &Planning::default());
    }
}

/// What is on its way by the last plan. A plan is told once, and what comes and goes after that is not told of with it.
#[derive(Default)]
struct Moving {
    incoming: usize,
    outgoing: usize,
    held: usize,
}

impl Moving {
    fn holds(&mut self, units: usize) {
        let before = std::mem::replace(&mut self.held, units);
        self.incoming = self.incoming.saturating_sub(units.saturating_sub(before));
        self.outgoing = self.outgoing.saturating_sub(before.saturating_sub(units));
    }

    fn count(&self) -> usize {
        self.incoming + self.outgoing
    }
}

fn count(counters: &[(&'static str, Counter)], reason: &str) {
    if let Some((_, counter)) = counters.iter().find(|(name, _)| *name == reason) {
        counter.increment(1);
    }
}
