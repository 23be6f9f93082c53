//! The metrics of one worker, by the names that the module's documentation lists.

use super::seat::Seat;
use crate::meters::{self, Counter, Gauge, Histogram};
use tenure_core::Loss;
use tenure_core::fleet::{FleetName, Summary};

pub(super) struct Meters {
    pub(super) held: Gauge,
    workers: Gauge,
    units: Gauge,
    uncovered: Gauge,
    moves: Gauge,
    pub(super) assigned: Counter,
    pub(super) drained: Counter,
    /// By reason.
    lost: Vec<(&'static str, Counter)>,
    pub(super) trouble: Counter,
    pub(super) hold: Histogram,
    pub(super) drain: Histogram,
    /// Its number is free for another once nothing is told of it any more.
    _seat: Seat,
}

impl Meters {
    /// Two workers of one process don't overwrite each other's. A name would be a new series at each start.
    pub(super) fn new(fleet: &FleetName) -> Meters {
        let seat = Seat::take(fleet);
        let labels = [("fleet", fleet.as_str().to_owned()), ("worker", seat.number().to_string())];
        let gauge = |name: &'static str| meters::gauge(name, &labels);
        let counter = |name: &'static str| meters::counter(name, &labels);
        let [fleet, worker] = &labels;
        let lost = |reason: &str| {
            let labels = [fleet.clone(), worker.clone(), ("reason", reason.to_owned())];
            meters::counter("tenure_fleet_lost_total", &labels)
        };
        Meters {
            held: gauge("tenure_fleet_held"),
            workers: gauge("tenure_fleet_workers"),
            units: gauge("tenure_fleet_units"),
            uncovered: gauge("tenure_fleet_uncovered"),
            moves: gauge("tenure_fleet_moves"),
            assigned: counter("tenure_fleet_assigned_total"),
            drained: counter("tenure_fleet_drained_total"),
            // All are there from the start, as nobody sees a counter rise that begins with its first event.
            lost: meters::LOSSES.iter().map(|reason| (*reason, lost(reason))).collect(),
            trouble: counter("tenure_fleet_trouble_total"),
            hold: meters::histogram("tenure_fleet_hold_seconds", &labels),
            drain: meters::histogram("tenure_fleet_drain_seconds", &labels),
            _seat: seat,
        }
    }

    pub(super) fn lost(&self, loss: &Loss) {
        let counter = self.lost.iter().find(|(reason, _)| *reason == loss.name());
        if let Some((_, counter)) = counter {
            counter.increment(1);
        }
    }

    pub(super) fn planned(&self, summary: &Summary) {
        self.workers.set(summary.workers as f64);
        self.units.set(summary.units as f64);
        self.uncovered.set(summary.uncovered.len() as f64);
        self.moves.set((summary.incoming + summary.outgoing) as f64);
    }

    /// It has stopped: nothing of what it said last is so any more.
    pub(super) fn stopped(&self) {
        for gauge in [&self.held, &self.workers, &self.units, &self.uncovered, &self.moves] {
            gauge.set(0.0);
        }
    }
}
