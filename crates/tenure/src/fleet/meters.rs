//! The metrics of one worker, by the names that the module's documentation lists.

use super::seat::Seat;
use crate::meters::{self, Counter, Gauge};
use tenure_core::fleet::{FleetName, Summary};

pub(super) struct Meters {
    pub(super) held: Gauge,
    workers: Gauge,
    units: Gauge,
    uncovered: Gauge,
    moves: Gauge,
    pub(super) assigned: Counter,
    pub(super) drained: Counter,
    pub(super) lost: Counter,
    pub(super) trouble: Counter,
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
        Meters {
            held: gauge("tenure_fleet_held"),
            workers: gauge("tenure_fleet_workers"),
            units: gauge("tenure_fleet_units"),
            uncovered: gauge("tenure_fleet_uncovered"),
            moves: gauge("tenure_fleet_moves"),
            assigned: counter("tenure_fleet_assigned_total"),
            drained: counter("tenure_fleet_drained_total"),
            lost: counter("tenure_fleet_lost_total"),
            trouble: counter("tenure_fleet_trouble_total"),
            _seat: seat,
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
