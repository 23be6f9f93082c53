//! One process in a fleet.

use super::assignment::Assignment;
use super::catalogue::Fleet;
use super::unit::Share;
use crate::belief::Belief;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::fleet::{About, FleetCommand, Reason, Summary};
use tenure_core::{Clock, Fence, HolderId, LeaseId, Loss, StoreError, Ttl};
use tokio::sync::{mpsc, oneshot, watch};

/// This process, in a fleet. Cheap to clone; clones are the same worker.
///
/// When the last clone and the last [`Assignment`] are dropped it leaves in the background; [`Worker::leave`] waits for that.
#[derive(Clone)]
pub struct Worker {
    pub(super) inner: Arc<Inner>,
    events: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Event>>>,
}

/// What happens to this worker's units.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A unit is this worker's now.
    Assigned(Assignment),
    /// A unit is to go: end what is done for it within this time, and then let go of it with [`Assignment::drained`].
    Draining {
        /// Its name.
        unit: String,
        /// Why it has to go.
        reason: Reason,
        /// How long that may take. What takes longer delays others, but does no harm while the unit is held.
        within: Duration,
    },
    /// A unit is gone.
    Lost {
        /// Its name.
        unit: String,
        /// Why.
        loss: Loss,
    },
}

pub(super) struct Inner {
    pub(super) fleet: Fleet,
    pub(super) session: Belief,
    pub(super) ttl: Ttl,
    pub(super) holder: HolderId,
    pub(super) summary: watch::Sender<Summary>,
    commands: mpsc::UnboundedSender<FleetCommand>,
    pub(super) users: Mutex<Users>,
}

/// Who works on what, and who waits for an answer.
#[derive(Default)]
pub(super) struct Users {
    pub(super) shares: BTreeMap<LeaseId, Arc<Share>>,
    pub(super) replies: BTreeMap<LeaseId, oneshot::Sender<Reply>>,
    pub(super) stopped: Vec<oneshot::Sender<()>>,
    pub(super) over: bool,
}

/// The answer to a command about a unit.
#[derive(Debug)]
pub(super) enum Reply {
    Updated,
    Released(bool),
    Failed(StoreError),
    Lost(Loss),
}

impl Inner {
    pub(super) fn new(
        fleet: Fleet,
        ttl: Ttl,
        holder: HolderId,
        commands: mpsc::UnboundedSender<FleetCommand>,
    ) -> Inner {
        let (session, summary, users) = (Belief::default(), watch::Sender::default(), Mutex::default());
        Inner { fleet, session, ttl, holder, summary, commands, users }
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        self.fleet.clock()
    }

    pub(super) fn users(&self) -> MutexGuard<'_, Users> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn send(&self, command: FleetCommand) {
        // The driver only ends after everything is given up.
        let _ = self.commands.send(command);
    }

    /// Gives a command about a unit and waits for the answer; none when the worker has stopped.
    pub(super) async fn ask(&self, lease: LeaseId, command: FleetCommand) -> Option<Reply> {
        let (sender, reply) = oneshot::channel();
        {
            let mut users = self.users();
            if users.over {
                return None;
            }
            users.replies.insert(lease, sender);
        }
        self.send(command);
        reply.await.ok()
    }
}

impl Worker {
    pub(super) fn new(inner: Arc<Inner>, events: mpsc::UnboundedReceiver<Event>) -> Worker {
        Worker { inner, events: Arc::new(tokio::sync::Mutex::new(events)) }
    }

    /// What happens next to this worker's units; none once it has stopped.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&self) -> Option<Event> {
        self.events.lock().await.recv().await
    }

    /// This worker's name as others see it.
    #[must_use]
    pub fn holder(&self) -> &HolderId {
        &self.inner.holder
    }

    /// The fleet that it is in.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.inner.fleet
    }

    /// The units that it holds at this instant, with their fences, by name.
    #[must_use]
    pub fn held(&self) -> Vec<(String, Fence)> {
        if !self.is_valid() {
            return Vec::new();
        }
        let shares = self.inner.users();
        let units = shares.shares.values().map(|share| super::Unit { share: Arc::clone(share) });
        let mut held: Vec<_> = units.map(|unit| (unit.name().to_owned(), unit.fence())).collect();
        held.sort_unstable();
        held
    }

    /// Whether its session, which all its units ride on, is believed in at this instant.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long its session, and with it all its units, is held if no renewal succeeds from now on; zero while it is not.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.inner.session.until().since(self.inner.clock().held())
    }

    /// What the last plan came to. Its generation is 0 before the first one.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.inner.summary.borrow().clone()
    }

    /// A watch of what plans come to.
    #[must_use]
    pub fn summaries(&self) -> watch::Receiver<Summary> {
        self.inner.summary.subscribe()
    }

    /// Offers something else from now on: more room, or less, or other labels.
    pub fn offer(&self, about: About) {
        self.inner.send(FleetCommand::Offer(about));
    }

    /// Leaves: units drain, go to the others, and the worker stops. Waits until that is done.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the leaving.
    pub async fn leave(&self) {
        self.ended(FleetCommand::Leave).await;
    }

    /// Gives everything up at once, without waiting for what is done for units to end: end that before. Others are given the
    /// units once they notice.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the stopping.
    pub async fn stop(&self) {
        for share in self.inner.users().shares.values() {
            share.lost(Loss::Released);
        }
        self.ended(FleetCommand::Stop).await;
    }

    async fn ended(&self, command: FleetCommand) {
        let (sender, stopped) = oneshot::channel();
        {
            let mut users = self.inner.users();
            if users.over {
                return;
            }
            users.stopped.push(sender);
        }
        self.inner.send(command);
        // An error means that the driver is gone, which is as good.
        let _ = stopped.await;
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("holder", &self.inner.holder)
            .field("fleet", &self.inner.fleet)
            .finish_non_exhaustive()
    }
}
