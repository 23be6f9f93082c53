//! Connections whose clients have shown no token yet, or one that may only look.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Those of one address, so many at the most: whoever is silent for long makes room for others, and nobody who has a token is kept out.
#[derive(Debug)]
pub(crate) struct Strangers {
    most: usize,
    /// So many may only look: the beats of others are not kept out by them.
    most_readers: usize,
    /// Who has waited for longest comes first.
    waiting: Mutex<VecDeque<Arc<Notify>>>,
    readers: Mutex<VecDeque<Arc<Notify>>>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Stranger {
    all: Arc<Strangers>,
    makes_room: Arc<Notify>,
}

impl Strangers {
    pub(crate) fn new(most: usize, most_readers: usize) -> Arc<Strangers> {
        let (waiting, readers) = (Mutex::default(), Mutex::default());
        Arc::new(Strangers { most, most_readers, waiting, readers })
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        // No code that can panic runs under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readers(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        // As above.
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more. If there are too many, the one that has waited for longest is to go.
    pub(crate) fn enter(self: &Arc<Self>) -> Stranger {
        let makes_room = Arc::new(Notify::new());
        let mut waiting = self.waiting();
        waiting.push_back(Arc::clone(&makes_room));
        if waiting.len() > self.most
            && let Some(first) = waiting.pop_front()
        {
            metrics::counter!("tenure_agent_strangers_closed_total").increment(1);
            first.notify_one();
        }
        Stranger { all: Arc::clone(self), makes_room }
    }
}

impl Stranger {
    /// Its client has shown a token, and makes room for nobody.
    pub(crate) fn is_known(&self) {
        self.all.waiting().retain(|other| !Arc::ptr_eq(other, &self.makes_room));
        self.all.readers().retain(|other| !Arc::ptr_eq(other, &self.makes_room));
    }

    /// Its client has shown a token that may only look: it makes room for others of that kind.
    pub(crate) fn is_reader(&self) {
        self.all.waiting().retain(|other| !Arc::ptr_eq(other, &self.makes_room));
        let mut readers = self.all.readers();
        if readers.iter().any(|other| Arc::ptr_eq(other, &self.makes_room)) {
            return;
        }
        readers.push_back(Arc::clone(&self.makes_room));
        if readers.len() > self.all.most_readers
            && let Some(first) = readers.pop_front()
        {
            metrics::counter!("tenure_agent_strangers_closed_total").increment(1);
            first.notify_one();
        }
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
