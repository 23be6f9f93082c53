//! Where the notices of a worker's machine go: to the users of its units, to events, traces and metrics.

use super::assignment::Assignment;
use super::unit::Share;
use super::worker::{Event, Inner, Reply};
use crate::driver::Sink;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use tenure_core::fleet::{FleetCommand, FleetNotice, Summary, Worker as Machine};
use tenure_core::{LeaseId, Loss, Tick};
use tokio::sync::mpsc;

pub(super) struct Notices {
    pub(super) inner: Weak<Inner>,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) meters: Meters,
}

impl Sink<Machine> for Notices {
    fn tell(&mut self, notice: FleetNotice, commands: &mut Vec<FleetCommand>) -> ControlFlow<()> {
        let Some(inner) = self.inner.upgrade() else {
            // Nobody is left to do anything for a unit.
            match notice {
                FleetNotice::Assigned { lease, .. } | FleetNotice::Draining(lease, ..) => {
                    commands.push(FleetCommand::Drained(lease));
                }
                FleetNotice::Stopped => return ControlFlow::Break(()),
                _ => {}
            }
            return ControlFlow::Continue(());
        };
        self.take(&inner, notice)
    }
}

impl Notices {
    fn take(&mut self, inner: &Arc<Inner>, notice: FleetNotice) -> ControlFlow<()> {
        match notice {
            FleetNotice::Valid(until) => {
                if until == Tick(0) {
                    tracing::warn!(target: "tenure::fleet", worker = %inner.holder, "session not believed in");
                }
                inner.session.set(until);
            }
            FleetNotice::Assigned { unit, lease, fence, fields } => {
                tracing::info!(target: "tenure::fleet", %unit, %fence, "assigned");
                self.meters.assigned.increment(1);
                let share = Arc::new(Share::new(Arc::clone(inner), lease, unit, fence, fields));
                inner.users().shares.insert(lease, Arc::clone(&share));
                // Without a listener the assignment is dropped, which lets another worker have the unit.
                let _ = self.events.send(Event::Assigned(Assignment::new(share)));
            }
            FleetNotice::Draining(lease, reason, until) => {
                let share = inner.users().shares.get(&lease).cloned();
                if let Some(share) = share {
                    let unit = super::Unit { share };
                    tracing::info!(target: "tenure::fleet", unit = %unit.key(), ?reason, "draining");
                    self.meters.drained.increment(1);
                    unit.share.told_to_drain(reason.clone(), until);
                    let within = until.since(inner.clock().held());
                    let _ =
                        self.events.send(Event::Draining { unit: unit.name().to_owned(), reason, within });
                }
            }
            FleetNotice::Lost(lease, loss) => self.lost(inner, lease, loss),
            FleetNotice::Updated(lease) => answer(inner, lease, Reply::Updated),
            FleetNotice::Failed(lease, error) => answer(inner, lease, Reply::Failed(error)),
            FleetNotice::Released(lease, ours) => {
                inner.users().shares.remove(&lease);
                answer(inner, lease, Reply::Released(ours));
            }
            FleetNotice::Planned(summary) => {
                self.meters.planned(&summary);
                tracing::debug!(target: "tenure::fleet", ?summary, "planned");
                for (unit, why) in &summary.uncovered {
                    tracing::warn!(target: "tenure::fleet", %unit, ?why, "no worker can have this unit");
                }
                for (unit, error) in &summary.damaged {
                    tracing::warn!(target: "tenure::fleet", %unit, %error, "this record can't be read");
                }
                inner.summary.send_replace(*summary);
            }
            FleetNotice::Trouble(error) => {
                tracing::warn!(target: "tenure::fleet", %error, "the store could not be asked about the fleet");
                self.meters.trouble.increment(1);
            }
            FleetNotice::Stopped => {
                tracing::info!(target: "tenure::fleet", worker = %inner.holder, "stopped");
                self.meters.held.set(0.0);
                let mut users = inner.users();
                users.over = true;
                users.replies.clear();
                for share in std::mem::take(&mut users.shares).values() {
                    share.lost(Loss::Released);
                }
                for stopped in std::mem::take(&mut users.stopped) {
                    let _ = stopped.send(());
                }
                return ControlFlow::Break(());
            }
        }
        self.meters.held.set(inner.users().shares.len() as f64);
        ControlFlow::Continue(())
    }

    fn lost(&self, inner: &Inner, lease: LeaseId, loss: Loss) {
        let share = inner.users().shares.remove(&lease);
        if let Some(share) = share {
            let unit = super::Unit { share };
            tracing::warn!(target: "tenure::fleet", unit = %unit.key(), ?loss, "lost");
            self.meters.lost.increment(1);
            unit.share.lost(loss.clone());
            let _ = self.events.send(Event::Lost { unit: unit.name().to_owned(), loss: loss.clone() });
        }
        answer(inner, lease, Reply::Lost(loss));
    }
}

fn answer(inner: &Inner, lease: LeaseId, reply: Reply) {
    let asker = inner.users().replies.remove(&lease);
    if let Some(asker) = asker {
        // Whoever asked may have gone away.
        let _ = asker.send(reply);
    }
}

/// The metrics of one worker, by the names that the module's documentation lists.
pub(super) struct Meters {
    held: metrics::Gauge,
    workers: metrics::Gauge,
    units: metrics::Gauge,
    uncovered: metrics::Gauge,
    moves: metrics::Gauge,
    assigned: metrics::Counter,
    drained: metrics::Counter,
    lost: metrics::Counter,
    trouble: metrics::Counter,
}

impl Meters {
    pub(super) fn new(fleet: &str) -> Meters {
        let fleet = || fleet.to_owned();
        Meters {
            held: metrics::gauge!("tenure_fleet_held", "fleet" => fleet()),
            workers: metrics::gauge!("tenure_fleet_workers", "fleet" => fleet()),
            units: metrics::gauge!("tenure_fleet_units", "fleet" => fleet()),
            uncovered: metrics::gauge!("tenure_fleet_uncovered", "fleet" => fleet()),
            moves: metrics::gauge!("tenure_fleet_moves", "fleet" => fleet()),
            assigned: metrics::counter!("tenure_fleet_assigned_total", "fleet" => fleet()),
            drained: metrics::counter!("tenure_fleet_drained_total", "fleet" => fleet()),
            lost: metrics::counter!("tenure_fleet_lost_total", "fleet" => fleet()),
            trouble: metrics::counter!("tenure_fleet_trouble_total", "fleet" => fleet()),
        }
    }

    fn planned(&self, summary: &Summary) {
        self.workers.set(summary.workers as f64);
        self.units.set(summary.units as f64);
        self.uncovered.set(summary.uncovered.len() as f64);
        self.moves.set((summary.incoming + summary.outgoing) as f64);
    }
}
