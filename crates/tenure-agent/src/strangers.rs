//! Connections whose clients have shown no token yet, or one that may only look.

use crate::permit::{ConnectionPermit, CountedAs};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Those of one agent, so many at the most: whoever is silent for long makes room for others, and nobody who has a token is kept out.
#[derive(Debug)]
pub(crate) struct Strangers {
    silent: ConnectionQueue,
    /// They may only look: the beats of others are not kept out by them.
    readers: ConnectionQueue,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Stranger {
    all: Arc<Strangers>,
    seat: Arc<StrangerSeat>,
}

/// The place of one of them, which a newcomer may be given.
#[derive(Debug)]
struct StrangerSeat {
    is_asked_to_go: Notify,
    /// None once a newcomer has it.
    place: Mutex<Option<ConnectionPermit>>,
}

impl StrangerSeat {
    fn place(&self) -> MutexGuard<'_, Option<ConnectionPermit>> {
        // No code that can panic runs under the lock.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those of one kind. Who has waited for longest comes first.
#[derive(Debug)]
struct ConnectionQueue {
    most: usize,
    counts: CountedAs,
    waiting: Mutex<VecDeque<Arc<StrangerSeat>>>,
}

impl ConnectionQueue {
    fn new(most: usize, counts: CountedAs) -> ConnectionQueue {
        ConnectionQueue { most, counts, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Arc<StrangerSeat>>> {
        // No code that can panic runs under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, unless it is there. If there are too many, the one that has waited for longest is to go.
    fn enter(&self, one: &Arc<StrangerSeat>) {
        let mut waiting = self.waiting();
        if waiting.iter().any(|other| Arc::ptr_eq(other, one)) {
            return;
        }
        waiting.push_back(Arc::clone(one));
        if waiting.len() > self.most
            && let Some(first) = waiting.pop_front()
        {
            drop(first.place().take());
            self.close(&first);
        }
    }

    fn close(&self, one: &StrangerSeat) {
        self.counts.add_closed();
        one.is_asked_to_go.notify_one();
    }

    fn count(&self) -> usize {
        self.waiting().len()
    }

    fn leave(&self, one: &Arc<StrangerSeat>) {
        self.waiting().retain(|other| !Arc::ptr_eq(other, one));
    }

    /// The place of the one that has waited for longest, which is to go.
    fn make_room(&self) -> Option<ConnectionPermit> {
        // Nobody becomes known in between.
        let mut waiting = self.waiting();
        loop {
            let first = waiting.pop_front()?;
            // One that is to go already has none.
            if let Some(place) = first.place().take() {
                self.close(&first);
                return Some(place);
            }
        }
    }
}

impl Strangers {
    pub(crate) fn new(most: usize, most_readers: usize, counts: CountedAs) -> Arc<Strangers> {
        Arc::new(Strangers {
            silent: ConnectionQueue::new(most, counts),
            readers: ConnectionQueue::new(most_readers, counts),
        })
    }

    /// One more, of whom nothing is known.
    pub(crate) fn enter(self: &Arc<Self>, place: ConnectionPermit) -> Stranger {
        let seat = Arc::new(StrangerSeat { is_asked_to_go: Notify::new(), place: Mutex::new(Some(place)) });
        self.silent.enter(&seat);
        Stranger { all: Arc::clone(self), seat }
    }

    /// How many would make room for others.
    pub(crate) fn count(&self) -> usize {
        self.silent.count() + self.readers.count()
    }

    /// A place for a newcomer, if any of these can go. A newcomer has it at once, so that nobody else can take it meanwhile.
    pub(crate) fn make_room(&self) -> Option<ConnectionPermit> {
        self.silent.make_room().or_else(|| self.readers.make_room())
    }
}

impl Stranger {
    /// Its client has shown a token, and makes room for nobody. False if it is to go already: what it asks for must not be begun, since the
    /// answer would not arrive.
    pub(crate) fn is_known(&self) -> bool {
        self.all.silent.leave(&self.seat);
        self.all.readers.leave(&self.seat);
        self.seat.place().is_some()
    }

    /// Its client has shown a token that may only look: it makes room for others of that kind. False if it is to go already.
    pub(crate) fn is_reader(&self) -> bool {
        self.all.silent.leave(&self.seat);
        let stays = self.seat.place().is_some();
        if stays {
            self.all.readers.enter(&self.seat);
        }
        stays
    }

    /// Waits until it is to go.
    pub(crate) async fn makes_room(&self) {
        self.seat.is_asked_to_go.notified().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.is_known();
    }
}
