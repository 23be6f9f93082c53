//! Where the notices of a worker's machine go: to the users of its units, to events, traces and metrics.

use super::meters::Meters;
use super::news::Piece;
use super::unit::Share;
use super::worker::{Ends, Inner, Reply, Users};
use crate::driver::Sink;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use tenure_core::fleet::{FleetCommand, FleetNotice, RequestId, Worker as Machine};
use tenure_core::{LeaseId, Loss, Tick};

pub(super) struct Notices {
    pub(super) inner: Weak<Inner>,
    pub(super) meters: Meters,
}

/// The driver is gone, by a panic or with its runtime: nobody is to wait for it, nor believe for long.
impl Drop for Notices {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.users().end();
            inner.told.notify_waiters();
        }
    }
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
        let flow = self.take(&inner, notice, commands);
        inner.told.notify_waiters();
        flow
    }
}

impl Notices {
    fn take(
        &mut self,
        inner: &Arc<Inner>,
        notice: FleetNotice,
        commands: &mut Vec<FleetCommand>,
    ) -> ControlFlow<()> {
        match notice {
            FleetNotice::Valid(until) => {
                if until == Tick(0) {
                    tracing::warn!(target: "tenure::fleet", worker = %inner.holder, "session not believed in");
                }
                inner.session.set(until);
            }
            FleetNotice::Assigned { unit, lease, fence, spec, fields } => {
                tracing::info!(target: "tenure::fleet", %unit, %fence, "assigned");
                self.meters.assigned.increment(1);
                let share = Arc::new(Share::new(Arc::clone(inner), lease, unit, fence, (spec, fields)));
                let mut users = inner.users();
                users.shares.insert(lease, Arc::clone(&share));
                users.news.add(Piece::Assigned(share));
            }
            FleetNotice::Draining(lease, reason, until) => {
                let mut users = inner.users();
                if let Some(share) = users.shares.get(&lease).cloned() {
                    let unit = super::Unit { share };
                    tracing::info!(target: "tenure::fleet", unit = %unit.key(), ?reason, "draining");
                    self.meters.drained.increment(1);
                    unit.share.told_to_drain(reason.clone(), until);
                    if users.news.take_back(lease) {
                        // Nothing was begun for it, so there is nothing to end.
                        commands.push(FleetCommand::Drained(lease));
                    } else {
                        users.news.add(Piece::Draining { unit: unit.name().to_owned(), reason, until });
                    }
                }
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
                users.answer(lease, request, Reply::Updated);
            }
            FleetNotice::Failed(lease, request, error) => {
                let mut users = inner.users();
                if users.answer(lease, request, Reply::Failed(error)) == Some(Ends::Unit) {
                    commands.push(FleetCommand::Decline(lease, users.draw()));
                }
            }
            FleetNotice::Released(lease, request, ours) => {
                let mut users = inner.users();
                users.news.take_back(lease);
                users.shares.remove(&lease);
                if let Some(request) = request {
                    users.answer(lease, request, Reply::Released(ours));
                }
                users.answer_all(lease, &Loss::Released);
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
                inner.trouble.send_if_modified(|trouble| trouble.take().is_some());
            }
            FleetNotice::Rests { unit, failures, rest } => {
                tracing::warn!(target: "tenure::fleet", %unit, failures, ?rest, "this unit has failed, and is tried again later");
            }
            FleetNotice::Trouble(error) => {
                tracing::warn!(target: "tenure::fleet", %error, "the store could not be asked about the fleet");
                self.meters.trouble.increment(1);
                inner.trouble.send_replace(Some(error));
            }
            FleetNotice::Stopped => {
                tracing::info!(target: "tenure::fleet", worker = %inner.holder, "stopped");
                self.meters.stopped();
                inner.users().end();
                return ControlFlow::Break(());
            }
        }
        self.meters.held.set(inner.users().shares.len() as f64);
        ControlFlow::Continue(())
    }

    fn lost(&self, inner: &Inner, lease: LeaseId, loss: &Loss) {
        let mut users = inner.users();
        if let Some(share) = users.shares.remove(&lease) {
            let unit = super::Unit { share };
            tracing::warn!(target: "tenure::fleet", unit = %unit.key(), ?loss, "lost");
            self.meters.lost.increment(1);
            unit.share.lost(loss.clone());
            if !users.news.take_back(lease) {
                users.news.add(Piece::Lost { unit: unit.name().to_owned(), loss: loss.clone() });
            }
        }
        users.answer_all(lease, loss);
    }
}

impl Users {
    /// All hear that it is over.
    fn end(&mut self) {
        self.over = true;
        self.replies.clear();
        self.news.take_all_back();
        for share in std::mem::take(&mut self.shares).values() {
            share.lost(Loss::Released);
        }
        for stopped in std::mem::take(&mut self.stopped) {
            let _ = stopped.send(());
        }
    }

    /// Answers a request, and says what that was to end; none if nobody made it.
    fn answer(&mut self, lease: LeaseId, request: RequestId, reply: Reply) -> Option<Ends> {
        let (ends, asker) = self.replies.remove(&(lease, request))?;
        // Whoever asked may have gone away.
        let _ = asker.send(reply);
        Some(ends)
    }

    /// The unit is over, and whatever is asked about it is not done any more.
    fn answer_all(&mut self, lease: LeaseId, loss: &Loss) {
        let all = (lease, RequestId(0))..=(lease, RequestId(u64::MAX));
        let requests: Vec<RequestId> = self.replies.range(all).map(|((_, request), _)| *request).collect();
        for request in requests {
            self.answer(lease, request, Reply::Lost(loss.clone()));
        }
    }
}
