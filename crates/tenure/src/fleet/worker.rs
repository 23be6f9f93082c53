//! One process in a fleet.

use super::assignment::Assignment;
use super::catalogue::Fleet;
use super::membership::Membership;
use super::news::NewsItem;
use super::presence::{AtStop, WorkerPresence};
use super::shared_worker::SharedWorker;
use crate::latest::Latest;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::fleet::{About, FleetCommand, Planning, Reason, Role, Summary};
use tenure_core::{Fence, HolderId, InvalidInput, Loss, StoreError};

/// This process, in a fleet. Cheap to clone; clones are the same worker.
///
/// When the last clone and the last [`Assignment`] are dropped it leaves in the background, or does what
/// [`WorkerBuilder::at_stop`](super::WorkerBuilder::at_stop) says; [`Worker::leave`] waits for that.
#[derive(Clone)]
pub struct Worker {
    pub(super) inner: Arc<SharedWorker>,
    presence: Arc<WorkerPresence>,
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
        /// How long that may take from now on. What takes longer delays others, but does no harm while the unit is held.
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

/// How a worker came to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEnd {
    /// It was told to, by this process or as by [`Fleet::drain`].
    Asked,
    /// It could not take part, as [`Worker::joined`] says.
    Refused(StoreError),
    /// What renews it is gone: that panicked, or its runtime has ended.
    Crashed,
}

impl Worker {
    pub(super) fn new(inner: Arc<SharedWorker>, at_stop: AtStop) -> Worker {
        let presence = Arc::new(WorkerPresence::new(Arc::clone(&inner), at_stop));
        Worker { inner, presence }
    }

    /// What happens next to this worker's units; none once it has stopped.
    ///
    /// A unit that has to go before it was taken from here goes at once, and nothing is told of it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&self) -> Option<Event> {
        loop {
            if !self.inner.process.is_this() {
                return None;
            }
            let told = self.inner.told.notified();
            {
                let mut users = self.inner.users();
                match users.news.take() {
                    Some(news) => return Some(self.event(news)),
                    None if users.ending.is_over() => return None,
                    None => {}
                }
            }
            told.await;
        }
    }

    fn event(&self, news: NewsItem) -> Event {
        match news {
            NewsItem::Assigned(share) => Event::Assigned(Assignment::new(share, Arc::clone(&self.presence))),
            NewsItem::Draining { unit, reason, until } => {
                Event::Draining { unit, reason, within: until.since(self.inner.clock().held()) }
            }
            NewsItem::Lost { unit, loss } => Event::Lost { unit, loss },
        }
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
        // A thread of the parent's may have had the lock when this was forked off.
        if self.inner.process.is_forked() {
            return Vec::new();
        }
        let (session, now) = (self.inner.session.until(), self.inner.clock().held());
        let users = self.inner.users();
        let held = users.shares.values().filter(|share| now < share.cell.belief.until().min(session));
        let mut held: Vec<_> = held.map(|share| (share.name.clone(), share.fence)).collect();
        held.sort_unstable();
        held
    }

    /// Whether its session, which all its units are attached to, is believed in at this instant.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long its session, and with it all its units, is held if no renewal succeeds from now on; zero while it is not.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.inner.until().since(self.inner.clock().held())
    }

    /// What the last plan came to. Its generation is 0 before the first one.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.inner.summary.borrow().clone()
    }

    /// How it came to stop; none while it has not stopped.
    #[must_use]
    pub fn end(&self) -> Option<WorkerEnd> {
        // In a forked child, a thread of the parent's may have had the lock.
        if self.inner.process.is_forked() || !self.inner.users().ending.is_over() {
            return None;
        }
        Some(match &*self.inner.entry.borrow() {
            Membership::Refused(error) => WorkerEnd::Refused(error.clone()),
            _ if self.inner.has_crashed() => WorkerEnd::Crashed,
            _ => WorkerEnd::Asked,
        })
    }

    /// Waits until this worker takes part in its fleet.
    ///
    /// # Errors
    /// `Foreign` when the fleet's workers divide units in another way, as [`Fleet::check_layout`] says: then this one has stopped, and has
    /// written nothing. `Unavailable` when it was told to leave or to stop before it could take part.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn joined(&self) -> Result<(), StoreError> {
        self.inner.process.check()?;
        let mut entry = self.inner.entry.subscribe();
        let entry = entry.wait_for(|entry| entry.outcome().is_some()).await;
        let outcome = entry.ok().and_then(|entry| entry.outcome());
        outcome.unwrap_or_else(|| Err(StoreError::unavailable("the worker has stopped")))
    }

    /// What it is to the fleet's planning, and what the board said of that when this worker last saw it.
    #[must_use]
    pub fn planning(&self) -> (Role, Planning) {
        self.inner.planning.borrow().clone()
    }

    /// A watch of that.
    #[must_use]
    pub fn plannings(&self) -> Latest<(Role, Planning)> {
        Latest::of(&self.inner.planning)
    }

    /// A watch of what plans come to.
    #[must_use]
    pub fn summaries(&self) -> Latest<Summary> {
        Latest::of(&self.inner.summary)
    }

    /// What kept the fleet from being looked at last, or this worker from taking part, until it was looked at again. So it names a live process
    /// that has this worker's holder id.
    #[must_use]
    pub fn trouble(&self) -> Option<StoreError> {
        self.inner.trouble.borrow().clone()
    }

    /// A watch of that.
    #[must_use]
    pub fn troubles(&self) -> Latest<Option<StoreError>> {
        Latest::of(&self.inner.trouble)
    }

    /// Offers something else from now on: more room, or less, or other labels. Should the session's record not take it beside
    /// the fields that the worker was built with, the former offer stays, and [`Worker::trouble`] says so.
    ///
    /// # Errors
    /// When there are more labels than a session's record takes.
    pub fn offer(&self, about: About) -> Result<(), InvalidInput> {
        tenure_store::codec::check_metadata(&about.at_most().compose(tenure_core::Metadata::new()))?;
        self.inner.send(FleetCommand::Offer(about));
        Ok(())
    }

    /// Leaves: units drain, go to the others, and the worker stops. Waits until that is done.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the leaving.
    pub async fn leave(&self) {
        self.ended(|| self.inner.send(FleetCommand::Leave)).await;
    }

    /// Gives everything up at once, without waiting for what is done for units to end: end that before. Others are given the
    /// units once they notice.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the stopping.
    pub async fn stop(&self) {
        self.ended(|| self.inner.stop()).await;
    }

    async fn ended(&self, order: impl FnOnce()) {
        if !self.inner.process.is_this() {
            return;
        }
        let Some(stopped) = self.inner.users().ending.wait() else { return };
        order();
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
