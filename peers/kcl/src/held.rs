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

    /// It was renewed, and is believed until then, or for as long as another renewal says.
    pub(crate) fn renewed(&self, row: &Row, until: Tick) {
        let mut news = self.news();
        if news.loss.is_none() {
            self.until.fetch_max(until.0, Ordering::SeqCst);
        }
        // A release that is under way goes by this, too.
        if matches!(news.loss, None | Some(Loss::Released)) {
            news.see(row);
            news.known_until = news.known_until.max(until);
        }
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
    }

    /// It is given up, and not believed any more. Whether its row may have to be given back: it was not lost before, nor given back by now.
    pub(crate) fn gives_back(&self) -> bool {
        self.lose(Loss::Released);
        let news = self.news();
        news.loss == Some(Loss::Released) && !news.is_gone
    }

    /// It was given back, or is another's.
    pub(crate) fn gone(&self) {
        self.news().is_gone = true;
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
    //! Plan: whoever waits for the end of a lease that nobody minds any more is told at its deadline, and not before; a renewal puts that off. A row
    //! is this tenure's if one of its renewals may have made it and nobody can have taken it again, and no other is; the later of two renewals counts,
    //! however they are answered. A renewal that is refused too late tells of no other owner.
    use super::*;
    use crate::format::Format;
    use crate::row::{Fields, OWNER_SWITCHES};
    use tenure_dynamodb::service::{number, text};
    use tenure_testkit::ManualClock;
    use tokio::time::timeout;

    fn owned(counter: u64, owner: &str) -> Row {
        let mut row = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
        (row.counter, row.owner) = (counter, Some(text(owner)));
        row
    }

    #[test]
    fn s1_no_row_is_taken_up_but_one_that_a_renewal_of_the_same_tenure_may_have_made() {
        let base = owned(7, "me");
        let goes_on = |standing: Option<&Row>, now: u64| {
            let cell = TenureCell::new(&base, Tick(5));
            assert_eq!(cell.begin().1, 8);
            let goes_on = cell.goes_on(&base, standing, "me", Tick(now));
            assert_eq!(cell.until(), Tick(5), "when it was sent, nobody knows");
            goes_on
        };
        let made = owned(8, "me");
        assert!(goes_on(Some(&made), 4));
        assert!(!goes_on(Some(&made), 5), "a later take may have that counter, too");
        assert!(!goes_on(Some(&owned(9, "me")), 4), "no renewal has that counter");
        assert!(!goes_on(Some(&owned(8, "other")), 4) && !goes_on(None, 4));
        let mut back = made.clone();
        back.given_back = Some(6);
        assert!(goes_on(Some(&back), 4), "that was an earlier tenure");
        back.given_back = Some(7);
        assert!(!goes_on(Some(&back), 4), "it was given back meanwhile");
        let mut switched = made.clone();
        switched.fields.insert(OWNER_SWITCHES.to_owned(), number(1));
        assert!(!goes_on(Some(&switched), 4), "it was another's meanwhile");
        let mut handing = owned(8, "next");
        handing.checkpoint_owner = Some(text("me"));
        assert!(goes_on(Some(&handing), 4), "the KCL's leader waits for us");
        handing.counter = 7;
        assert!(goes_on(Some(&handing), 9), "it waits still, and no later take has that counter");
    }

    #[test]
    fn s1_what_was_given_up_is_known_by_its_renewals_for_as_long_as_it_was_to_be_believed() {
        let cell = TenureCell::new(&owned(7, "me"), Tick(5));
        assert_eq!(cell.begin().1, 8);
        cell.renewed(&owned(8, "me"), Tick(9));
        let (base, counter) = cell.begin();
        assert!(cell.gives_back());
        assert_eq!((counter, cell.until()), (9, Tick(0)));
        let made = owned(9, "me");
        assert!(!cell.goes_on(&base, Some(&made), "me", Tick(9)), "a later take may have that counter, too");
        assert!(cell.goes_on(&base, Some(&made), "me", Tick(8)));
    }

    #[test]
    fn a_renewal_that_is_refused_when_its_time_has_run_out_tells_of_that_alone() {
        for (held, is_in_time) in [(4, true), (5, false)] {
            let cell = TenureCell::new(&owned(7, "me"), Tick(5));
            cell.refused(Some(&owned(8, "me")), Now { held: Tick(held), ..Now::default() });
            let loss = cell.news().loss.clone();
            assert_eq!(matches!(loss, Some(Loss::Taken(_))), is_in_time, "{loss:?}");
            assert_eq!(loss == Some(Loss::Expired), !is_in_time, "{loss:?}");
        }
    }

    #[test]
    fn of_two_renewals_at_once_the_later_counts_however_they_are_answered() {
        let cell = TenureCell::new(&owned(7, "me"), Tick(5));
        let (base, first) = cell.begin();
        assert_eq!((first, cell.begin().1), (8, 9));
        // The second one is refused because of the first, whose answer has not come, and is made again.
        assert!(cell.goes_on(&base, Some(&owned(first, "me")), "me", Tick(4)));
        cell.unmade(9);
        let (row, again) = cell.begin();
        assert_eq!((row.counter(), again), (8, 9));
        cell.renewed(&owned(again, "me"), Tick(20));
        cell.renewed(&owned(first, "me"), Tick(10));
        assert_eq!((cell.news().row.counter(), cell.until()), (9, Tick(20)));
        assert!(
            cell.goes_on(&base, Some(&owned(first, "me")), "me", Tick(4)),
            "it is further than that by now"
        );
    }

    #[test]
    fn a_renewal_that_is_answered_while_the_lease_is_released_is_known_to_that_release() {
        let cell = TenureCell::new(&owned(7, "me"), Tick(5));
        let (base, counter) = cell.begin();
        assert!(cell.gives_back());
        cell.renewed(&owned(counter, "me"), Tick(20));
        assert_eq!((cell.news().row.counter(), cell.until()), (8, Tick(0)), "it is believed no more");
        assert!(cell.goes_on(&base, Some(&owned(counter, "me")), "me", Tick(30)), "its row would stay");
    }

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
