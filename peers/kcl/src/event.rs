//! What a coordinator tells its user.

use super::held::Held;
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
}

impl Events {
    pub(crate) fn new(told: mpsc::UnboundedReceiver<Event>) -> Events {
        Events { told }
    }

    /// The next event; none after the end. A lease that is lost by now is not told as taken, and neither is what becomes of it.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.told.recv().await? {
                Event::Taken(lease) if lease.loss().is_some() => {}
                // Nothing is told of the end of one that its user gave up, so what was not heard can't be kept until then.
                Event::Lost { lease, .. } | Event::Wanted { lease, .. } | Event::Finished(lease)
                    if !lease.cell.is_heard() => {}
                event => {
                    if let Event::Taken(lease) = &event {
                        lease.cell.hear();
                    }
                    return Some(event);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: of a lease that is lost before it is heard of nothing is told, and of one that is lost later all is, in order; nothing is kept of one that
    //! its user gave up before.
    use super::*;
    use crate::format::Format;
    use crate::held::TenureCell;
    use crate::row::{Fields, Row};
    use std::sync::Arc;
    use tenure_core::Tick;
    use tenure_testkit::ManualClock;

    fn held() -> Held {
        let row = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
        Held { cell: Arc::new(TenureCell::new(&row, Tick(1))), clock: Arc::new(ManualClock::new()) }
    }

    #[tokio::test]
    async fn what_is_lost_before_it_is_heard_of_is_not_told_and_what_is_lost_later_is() {
        let (sender, told) = mpsc::unbounded_channel();
        let mut events = Events::new(told);
        let (early, late) = (held(), held());
        let lose = |lease: &Held| {
            lease.cell.lose(Loss::Expired);
            for event in [
                Event::Wanted { lease: lease.clone(), by: "b".to_owned() },
                Event::Finished(lease.clone()),
                Event::Lost { lease: lease.clone(), loss: Loss::Expired },
            ] {
                sender.send(event).unwrap();
            }
        };
        sender.send(Event::Taken(early.clone())).unwrap();
        sender.send(Event::Taken(late.clone())).unwrap();
        lose(&early);
        let told = events.next().await;
        let is_late = |lease: &Held| Arc::ptr_eq(&lease.cell, &late.cell);
        assert!(matches!(&told, Some(Event::Taken(lease)) if is_late(lease)), "{told:?}");
        lose(&late);
        drop(sender);
        let told = events.next().await;
        assert!(matches!(&told, Some(Event::Wanted { lease, .. }) if is_late(lease)), "{told:?}");
        let told = events.next().await;
        assert!(matches!(&told, Some(Event::Finished(lease)) if is_late(lease)), "{told:?}");
        let told = events.next().await;
        assert!(matches!(&told, Some(Event::Lost { lease, .. }) if is_late(lease)), "{told:?}");
        assert!(events.next().await.is_none());
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_lease_that_was_given_up_before_it_was_heard_of() {
        let (sender, told) = mpsc::unbounded_channel();
        let mut events = Events::new(told);
        let lease = held();
        let cell = Arc::downgrade(&lease.cell);
        sender.send(Event::Taken(lease.clone())).unwrap();
        // Whoever gives one up is answered, and told nothing more.
        lease.cell.lose(Loss::Released);
        drop(lease);
        sender.send(Event::Skipped(1)).unwrap();
        assert!(matches!(events.next().await, Some(Event::Skipped(1))));
        assert!(cell.upgrade().is_none(), "it would be kept for as long as the events are");
    }
}
