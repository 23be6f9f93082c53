//! Connections whose clients have shown no token yet, or one that may only look.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Those of one address, so many at the most: whoever is silent for long makes room for others, and nobody who has a token is kept out.
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
    makes_room: Arc<Notify>,
}

/// Those of one kind. Who has waited for longest comes first.
#[derive(Debug)]
struct ConnectionQueue {
    most: usize,
    waiting: Mutex<VecDeque<Arc<Notify>>>,
}

impl ConnectionQueue {
    fn new(most: usize) -> ConnectionQueue {
        ConnectionQueue { most, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        // No code that can panic runs under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, unless it is there. If there are too many, the one that has waited for longest is to go.
    fn enter(&self, one: &Arc<Notify>) {
        let mut waiting = self.waiting();
        if waiting.iter().any(|other| Arc::ptr_eq(other, one)) {
            return;
        }
        waiting.push_back(Arc::clone(one));
        if waiting.len() > self.most
            && let Some(first) = waiting.pop_front()
        {
            metrics::counter!("tenure_agent_strangers_closed_total").increment(1);
            first.notify_one();
        }
    }

    fn leave(&self, one: &Arc<Notify>) {
        self.waiting().retain(|other| !Arc::ptr_eq(other, one));
    }
}

impl Strangers {
    pub(crate) fn new(most: usize, most_readers: usize) -> Arc<Strangers> {
        Arc::new(Strangers {
            silent: ConnectionQueue::new(most),
            readers: ConnectionQueue::new(most_readers),
        })
    }

    /// One more, of whom nothing is known.
    pub(crate) fn enter(self: &Arc<Self>) -> Stranger {
        let makes_room = Arc::new(Notify::new());
        self.silent.enter(&makes_room);
        Stranger { all: Arc::clone(self), makes_room }
    }
}

impl Stranger {
    /// Its client has shown a token, and makes room for nobody.
    pub(crate) fn is_known(&self) {
        self.all.silent.leave(&self.makes_room);
        self.all.readers.leave(&self.makes_room);
    }

    /// Its client has shown a token that may only look: it makes room for others of that kind.
    pub(crate) fn is_reader(&self) {
        self.all.silent.leave(&self.makes_room);
        self.all.readers.enter(&self.makes_room);
    }

    /// Waits until it is to go.
    pub(crate) async fn makes_room(&self) {
        self.makes_room.notified().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.is_known();
    }
}
