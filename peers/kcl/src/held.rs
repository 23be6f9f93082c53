//! A lease that is held, as its user sees it.

use super::row::Row;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::{Clock, Fence, Loss, Tick};
use tenure_store::parts::nap;
use tokio::sync::Notify;

/// What the driver and the users of one tenure share.
#[derive(Debug)]
pub(crate) struct TenureCell {
    key: String,
    counter_at_take: u64,
    /// Until when it is believed.
    until: AtomicU64,
    news: Mutex<TenureNews>,
    wake: Notify,
}

#[derive(Debug)]
struct TenureNews {
    row: Row,
    loss: Option<Loss>,
}

impl TenureCell {
    /// Of a row that was just taken.
    pub(crate) fn new(row: &Row, until: Tick) -> TenureCell {
        TenureCell {
            key: row.key().to_owned(),
            counter_at_take: row.counter(),
            until: AtomicU64::new(until.0),
            news: Mutex::new(TenureNews { row: row.clone(), loss: None }),
            wake: Notify::new(),
        }
    }

    fn news(&self) -> MutexGuard<'_, TenureNews> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn counter_at_take(&self) -> u64 {
        self.counter_at_take
    }

    pub(crate) fn until(&self) -> Tick {
        Tick(self.until.load(Ordering::SeqCst))
    }

    /// It was renewed, and is believed until then.
    pub(crate) fn renewed(&self, row: &Row, until: Tick) {
        let mut news = self.news();
        if news.loss.is_none() {
            news.row = row.clone();
            self.until.store(until.0, Ordering::SeqCst);
        }
    }

    /// It is over. The first reason counts.
    pub(crate) fn lose(&self, loss: Loss) {
        let mut news = self.news();
        self.until.store(0, Ordering::SeqCst);
        news.loss.get_or_insert(loss);
        self.wake.notify_waiters();
    }
}

/// A lease that is held, or was. Clones are of the same tenure.
#[derive(Clone)]
pub struct Held {
    pub(crate) cell: Arc<TenureCell>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Held {
    /// The lease's name.
    #[must_use]
    pub fn key(&self) -> &str {
        self.cell.key()
    }

    /// The counter of the row when it was taken. It grows with each take, so it is a fencing token *while the row lives*: a row
    /// that is deleted and created again begins anew.
    #[must_use]
    pub fn counter_at_take(&self) -> u64 {
        self.cell.counter_at_take
    }

    /// The same as a fence, with the same caveat.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence(self.cell.counter_at_take)
    }

    /// Whether it is held, without I/O.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.clock.held() < self.cell.until()
    }

    /// How long it is held if it is not renewed again.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.cell.until().since(self.clock.held())
    }

    /// Why it is over, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.cell.news().loss.clone()
    }

    /// Waits until it is over, or not believed any more: no later than its deadline, also where nothing renews it any more. After a suspend over the
    /// deadline that is noticed soon, within 30 s at most.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) -> Loss {
        loop {
            let mut news = std::pin::pin!(self.cell.wake.notified());
            news.as_mut().enable();
            if let Some(loss) = self.loss() {
                return loss;
            }
            let left = self.remaining();
            if left.is_zero() {
                return self.loss().unwrap_or(Loss::Expired);
            }
            // The runtime's timers stop while the machine is suspended.
            tokio::select! {
                () = news => {}
                () = tokio::time::sleep(nap(left, left / 8)) => {}
            }
        }
    }

    /// The row as this worker last saw it: its users' fields, a handoff of the KCL's.
    #[must_use]
    pub fn row(&self) -> Row {
        self.cell.news().row.clone()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("key", &self.cell.key)
            .field("counter_at_take", &self.cell.counter_at_take)
            .field("is_held", &self.is_held())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: whoever waits for the end of a lease that nobody minds any more is told at its deadline, and not before; a renewal puts that off.
    use super::*;
    use crate::format::Format;
    use crate::row::Fields;
    use tenure_testkit::ManualClock;
    use tokio::time::timeout;

    #[tokio::test]
    async fn s5_an_end_that_nobody_tells_is_noticed() {
        const LONG: Duration = Duration::from_secs(20);
        let clock = Arc::new(ManualClock::new());
        let row = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
        let at = |ms| Tick(0).after(Duration::from_millis(ms));
        let cell = Arc::new(TenureCell::new(&row, at(400)));
        let held = Held { cell: Arc::clone(&cell), clock: clock.clone() };
        assert!(timeout(Duration::from_millis(150), held.lost()).await.is_err(), "it is held");
        cell.renewed(&row, at(800));
        clock.advance(Duration::from_millis(400));
        assert!(timeout(Duration::from_millis(150), held.lost()).await.is_err(), "it was renewed");
        // The runtime's timers know nothing of that.
        clock.advance(Duration::from_secs(3600));
        assert!(!held.is_held());
        assert_eq!(timeout(LONG, held.lost()).await, Ok(Loss::Expired));
    }
}
