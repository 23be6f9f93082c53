//! The metrics of one worker, by the names that the module's documentation lists.

use tenure_core::HolderId;
use tenure_core::fleet::{FleetName, Summary};

pub(super) struct Meters {
    pub(super) held: metrics::Gauge,
    workers: metrics::Gauge,
    units: metrics::Gauge,
    uncovered: metrics::Gauge,
    moves: metrics::Gauge,
    pub(super) assigned: metrics::Counter,
    pub(super) drained: metrics::Counter,
    pub(super) lost: metrics::Counter,
    pub(super) trouble: metrics::Counter,
}

impl Meters {
    /// Two workers of one process don't overwrite each other's.
    pub(super) fn new(fleet: &FleetName, worker: &HolderId) -> Meters {
        let labels = vec![
            metrics::Label::new("fleet", fleet.as_str().to_owned()),
            metrics::Label::new("worker", worker.as_str().to_owned()),
        ];
        let gauge = |name: &'static str| metrics::gauge!(name, labels.clone());
        let counter = |name: &'static str| metrics::counter!(name, labels.clone());
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
