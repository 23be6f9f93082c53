//! What a coordinator tells its user.

use super::held::Held;
use std::sync::Arc;
use tenure_core::{Loss, StoreError};
use tokio::sync::mpsc;

/// What a coordinator tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A lease is held: work on it.
    Taken(Held),
    /// A lease is over: its work must have ended by now. Told no later than its local deadline, without any I/O.
    Lost {
        /// Which.
        lease: Held,
        /// Why.
        loss: Loss,
    },
    /// The KCL's leader wants a lease to be handed over: end the work and [release](crate::Coordinator::release) it. It stays held
    /// until then.
    Wanted {
        /// Which.
        lease: Held,
        /// Who is to have it.
        by: String,
    },
    /// The checkpoint of a lease that is held says that its shard was read to the end (`SHARD_END`). Told once for each tenure, where rows are
    /// [shards](crate::Options::shards). It stays held until it is [deleted](crate::Coordinator::delete), which is due once its
    /// children have begun, or [released](crate::Coordinator::release); no worker of tenure takes it then.
    Finished(Held),
    /// The table could not be read. It is read again soon, and what is held is renewed meanwhile.
    LookFailed(StoreError),
    /// A lease was to be taken, and the table did not do it. Where the error may pass, it is tried again after the next look, and otherwise after three
    /// failover times; other leases are taken meanwhile.
    TakeFailed {
        /// The lease's name.
        key: String,
        /// Why.
        error: StoreError,
    },
    /// A row can't be read as a lease, and is left as it is. Told once for each text.
    Foreign(StoreError),
    /// This worker renews leases, though another of its leases was taken because it had been silent for a failover time. It stood
    /// still; or its failover time is longer than [this one's](crate::Options::failover), which takes what live workers have.
    Revived(String),
    /// So many rows are no leases by the KCL, as they have another `entityType`, and are passed over; in a table of `a8m/lease`
    /// they are leases. Told whenever there are more than before.
    Skipped(usize),
}

/// The events of a coordinator, in order.
#[derive(Debug)]
pub struct Events {
    told: mpsc::UnboundedReceiver<Event>,
    /// Leases that were lost before anybody heard that they had been taken.
    unheard: Vec<Held>,
}

impl Events {
    pub(crate) fn new(told: mpsc::UnboundedReceiver<Event>) -> Events {
        Events { told, unheard: Vec::new() }
    }

    /// The next event; none after the end. A lease that is lost by now is told neither as taken nor as lost.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.told.recv().await? {
                Event::Taken(lease) if lease.loss().is_some() => self.unheard.push(lease),
                Event::Lost { lease, .. } if self.was_unheard(&lease) => {}
                event => return Some(event),
            }
        }
    }

    fn was_unheard(&mut self, lease: &Held) -> bool {
        let place = self.unheard.iter().position(|other| Arc::ptr_eq(&other.cell, &lease.cell));
        place.map(|place| self.unheard.swap_remove(place)).is_some()
    }
}
