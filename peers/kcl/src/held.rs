//! A lease that is held, as its user sees it.

use super::row::Row;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::{Clock, Fence, HolderId, Loss, Now, Occupant, Tick, Wall};
use tenure_store::parts::nap;
use tokio::sync::Notify;

/// What the driver and the users of one tenure share.
#[derive(Debug)]
pub(crate) struct TenureCell {
    key: String,
    counter_at_take: u64,
    /// Until when it is believed.
    until: AtomicU64,
    /// Users were told that it was taken.
    is_heard: AtomicBool,
    news: Mutex<TenureNews>,
    wake: Notify,
}

#[derive(Debug)]
struct TenureNews {
    row: Row,
    loss: Option<Loss>,
    /// The counters of a claimant's renewals whose answers are not known. The row may have any of them.
    unanswered: BTreeSet<u64>,
    /// Until when it is believed, or was to be before it was lost or given up. Nobody can have found it silent for a failover time before.
    known_until: Tick,
    /// Nothing is left to be given back.
    is_gone: bool,
}

impl TenureNews {
    /// The row as an answer shows it. Of two renewals at once, the first may be answered last.
    fn see(&mut self, row: &Row) {
        if row.counter() >= self.row.counter() {
            self.row = row.clone();
        }
        self.unanswered.retain(|counter| *counter > row.counter());
    }

    /// Whether a row that was read before `now` is this tenure's still: that worker works on it, and its counter is known. A handoff of the KCL's does
    /// not count.
    fn owns(&self, row: &Row, worker: &str, now: Tick) -> bool {
        let counter = row.counter();
        // Later on the same worker may have taken it again, with the counter of a renewal that never came.
        let may_be_made = now < self.known_until && self.unanswered.contains(&counter);
        let is_known = may_be_made || counter == self.row.counter();
        is_known && row.holder() == Some(worker) && !row.has_changed_hands(&self.row)
    }
}

/// Why a lease is lost whose row stands so.
pub(crate) fn loss_by(standing: Option<&Row>, wall: Wall) -> Loss {
    let Some(row) = standing else { return Loss::Deleted };
    let Some(holder) = row.holder() else { return Loss::Revoked };
    let occupant = HolderId::new(holder).ok();
    Loss::Taken(occupant.map(|holder| Occupant::new(holder, Fence(row.counter()), wall)))
}

impl TenureCell {
    /// Of a row that was just taken.
    pub(crate) fn new(row: &Row, until: Tick) -> TenureCell {
        TenureCell {
            key: row.key().to_owned(),
            counter_at_take: row.counter(),
            until: AtomicU64::new(until.0),
            is_heard: AtomicBool::new(false),
            news: Mutex::new(TenureNews {
                row: row.clone(),
                loss: None,
                unanswered: BTreeSet::new(),
                known_until: until,
                is_gone: false,
            }),
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

    /// Users are told that it was taken.
    pub(crate) fn hear(&self) {
        self.is_heard.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::SeqCst)
    }

    /// Whether it is over by then. What was so for anybody stays so: no answer that comes later brings it back.
    pub(crate) fn is_over(&self, now: Tick) -> bool {
        if now < self.until() {
            return false;
        }
        let mut news = self.news();
        self.expire(&mut news, now)
    }

    fn expire(&self, news: &mut TenureNews, now: Tick) -> bool {
        let is_over = now >= self.until();
        if is_over && news.loss.is_none() {
            self.end(news, Loss::Expired);
        }
        is_over
    }

    /// It was renewed, and is believed until then, or for as long as another renewal says. False if it was over before that was known, at `now`.
    pub(crate) fn renewed(&self, row: &Row, until: Tick, now: Tick) -> bool {
        let mut news = self.news();
        let is_believed = !self.expire(&mut news, now) && news.loss.is_none();
        if is_believed {
            self.until.fetch_max(until.0, Ordering::SeqCst);
        }
        // A release goes by this, too.
        if matches!(news.loss, None | Some(Loss::Released | Loss::Expired)) {
            news.see(row);
            news.known_until = news.known_until.max(until);
        }
        is_believed
    }

    /// A renewal is about to be sent: the row that it goes by, and its counter. No other renewal has that, so a row tells which of them made it.
    pub(crate) fn begin(&self) -> (Row, u64) {
        let mut news = self.news();
        let last = news.unanswered.last().copied().unwrap_or_default();
        let counter = last.max(news.row.counter()) + 1;
        news.unanswered.insert(counter);
        (news.row.clone(), counter)
    }

    /// The renewal with that counter was not made, and can't be any more.
    pub(crate) fn unmade(&self, counter: u64) {
        self.news().unanswered.remove(&counter);
    }

    /// Whether it goes on, though a change that went by the row `base` found `standing`: another of its requests was answered meanwhile, or made that
    /// row. It is believed for no longer then: when that request was sent, nobody knows any more. `now`: after that row was read.
    pub(crate) fn goes_on(&self, base: &Row, standing: Option<&Row>, worker: &str, now: Tick) -> bool {
        let mut news = self.news();
        if !news.row.is_same(base) {
            return true;
        }
        let Some(row) = standing.filter(|row| news.owns(row, worker, now)) else { return false };
        news.see(row);
        true
    }

    /// A renewal was refused, and does not go on by the row that stands there: it is lost, unless its time has run out before.
    pub(crate) fn refused(&self, standing: Option<&Row>, now: Now) {
        let is_in_time = now.held < self.until();
        self.lose(if is_in_time { loss_by(standing, now.wall) } else { Loss::Expired });
        self.gone();
    }

    /// It is given up, and not believed any more. Whether its row may have to be given back: it was not lost to others before, nor given back by now.
    pub(crate) fn gives_back(&self) -> bool {
        self.lose(Loss::Released);
        let news = self.news();
        matches!(news.loss, Some(Loss::Released | Loss::Expired)) && !news.is_gone
    }

    /// It was given back, or is another's.
    pub(crate) fn gone(&self) {
        self.news().is_gone = true;
    }

    /// It is over. The first reason counts; but why it was not renewed in time is known only to whoever has tried.
    pub(crate) fn lose(&self, loss: Loss) {
        let mut news = self.news();
        self.end(&mut news, loss);
    }

    fn end(&self, news: &mut TenureNews, loss: Loss) {
        self.until.store(0, Ordering::SeqCst);
        let is_why = news.loss == Some(Loss::Expired) && matches!(loss, Loss::Unreachable(_));
        if is_why || news.loss.is_none() {
            news.loss = Some(loss);
        }
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

    /// Whether it is held, without I/O. Once it is not, it is never again.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.cell.is_over(self.clock.held())
    }

    /// How long it is held if it is not renewed again.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let now = self.clock.held();
        // At nothing, it is over for good.
        if self.cell.is_over(now) { Duration::ZERO } else { self.cell.until().since(now) }
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
            let left = self.remaining();
            if let Some(loss) = self.loss() {
                return loss;
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
mod tests;
