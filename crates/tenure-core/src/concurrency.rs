//! How much may be asked of a store at a time: as much as it serves in good time. Drivers of machines obey it.
//!
//! What is over that would only wait there, in front of renewals, until its time is up; and what is given up then is done all
//! the same, in place of what is still waited for. So each process learns from the answers: it asks for more at a time while
//! they are quick, and for less once they are late, or the store refuses for want of capacity. It is TCP's way, a slow start and
//! then additive increase and multiplicative decrease (Chiu and Jain, 1989), with lateness in place of loss.

use std::time::Duration;

/// The most operations that wait for a store at a time, however quick it is.
const MOST: u32 = 1024;
/// The least that are allowed, however slow it is.
const LEAST: u32 = 4;
/// With so many it begins.
const FIRST: u32 = 32;
/// Growth is by parts of one.
const WHOLE: u32 = 1024;

/// How many operations may be under way, learned from how those before them ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    /// In parts of one operation.
    size: u32,
    /// Nothing was ever late: it grows with each answer until then.
    untried: bool,
    /// The shortest time in which the store has answered.
    quickest: Duration,
    launched: u64,
    /// Those launched before this one tell of a time that is over.
    counts_from: u64,
}

/// An operation as it was launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    number: u64,
    /// All that was allowed was used.
    full: bool,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// It was answered.
    Answered {
        /// The time until then.
        took: Duration,
        /// The time that it had.
        of: Duration,
    },
    /// The store was in trouble, or did not answer in time.
    Failed,
}

impl Default for ConcurrencyLimit {
    fn default() -> ConcurrencyLimit {
        let (size, quickest) = (FIRST * WHOLE, Duration::MAX);
        ConcurrencyLimit { size, untried: true, quickest, launched: 0, counts_from: 0 }
    }
}

impl ConcurrencyLimit {
    /// Whether there is room for one more.
    #[must_use]
    pub fn has_room(&self, under_way: usize) -> bool {
        under_way < self.limit()
    }

    fn limit(&self) -> usize {
        (self.size / WHOLE) as usize
    }

    /// One is launched beside so many others.
    pub fn launch(&mut self, under_way: usize) -> Launch {
        self.launched += 1;
        Launch { number: self.launched, full: under_way + 1 >= self.limit() }
    }

    /// One that did not count has come back: how quick the store can be is all that it tells.
    pub fn saw(&mut self, took: Duration) {
        self.quickest = self.quickest.min(took);
    }

    /// One has come back.
    pub fn landed(&mut self, launch: Launch, completion: Completion) {
        let Completion::Answered { took, of } = completion else { return self.shrink(launch, 2) };
        self.saw(took);
        // A store that is far away is not one that is busy.
        let usual = self.quickest.saturating_mul(4);
        if took > usual.max(of / 4) {
            // Renewals wait there just as long: a quarter of a quarter of the ttl leaves them time enough.
            self.shrink(launch, 4);
        } else if launch.full && took <= usual.max(of / 8) {
            let step = if self.untried { WHOLE } else { WHOLE * WHOLE / self.size };
            self.size = (self.size + step.max(1)).min(MOST * WHOLE);
        }
    }

    /// By a part of what it is, once for all that were under way together.
    fn shrink(&mut self, launch: Launch, part: u32) {
        if launch.number >= self.counts_from {
            self.untried = false;
            self.counts_from = self.launched + 1;
            self.size = (self.size - self.size / part).max(LEAST * WHOLE);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a quick store is asked for more at a time, to the limit, but only where that much is wanted; lateness and failures
    //! shrink the room once for all that were under way together, and never to nothing; what is far away is not late; after a
    //! store was late, growth is slow.
    use super::*;

    const OF: Duration = Duration::from_millis(2500);

    /// As many as are allowed, all launched together, each with that end.
    fn round(room: &mut ConcurrencyLimit, completion: Completion) {
        let launches: Vec<Launch> = (0..room.limit()).map(|under_way| room.launch(under_way)).collect();
        launches.into_iter().for_each(|launch| room.landed(launch, completion));
    }

    fn after(took: u64) -> Completion {
        Completion::Answered { took: Duration::from_millis(took), of: OF }
    }

    #[test]
    fn a_quick_store_is_asked_for_more_where_more_is_wanted() {
        let mut room = ConcurrencyLimit::default();
        for _ in 0..1000 {
            let launch = room.launch(20);
            room.landed(launch, after(5));
        }
        assert_eq!(room.limit(), 32, "nobody wants more");
        let mut limits = Vec::new();
        for _ in 0..2000 {
            let launch = room.launch(room.limit() - 1);
            room.landed(launch, after(5));
            limits.push(room.limit());
        }
        assert_eq!((limits[0], limits[99], limits[1999]), (33, 132, 1024));
        assert!(room.has_room(1023) && !room.has_room(1024));
    }

    #[test]
    fn lateness_and_failures_shrink_it_once_for_all_that_were_under_way() {
        let mut room = ConcurrencyLimit::default();
        round(&mut room, after(5));
        assert_eq!(room.limit(), 33, "one of those filled it");
        round(&mut room, after(700));
        assert_eq!(room.limit(), 24);
        round(&mut room, Completion::Failed);
        assert_eq!(room.limit(), 12);
        for _ in 0..10 {
            round(&mut room, Completion::Failed);
        }
        assert_eq!(room.limit(), 4);
        // Neither quick nor late.
        round(&mut room, after(400));
        assert_eq!(room.limit(), 4);
        for _ in 0..4 {
            round(&mut room, after(5));
        }
        assert_eq!(room.limit(), 4, "slowly from now on");
        for _ in 0..4 {
            round(&mut room, after(5));
        }
        assert_eq!(room.limit(), 5);
    }

    #[test]
    fn a_store_that_is_far_away_is_not_late() {
        let mut room = ConcurrencyLimit::default();
        for _ in 0..3 {
            round(&mut room, after(700));
        }
        assert_eq!(room.limit(), 35);
        round(&mut room, after(2801));
        assert!(room.limit() < 35);
    }
}
