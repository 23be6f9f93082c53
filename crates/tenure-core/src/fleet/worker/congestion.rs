//! How fast a worker goes on with what it has much of: claims, and parts of a plan. Where the store refuses some of it because it has too much to do, a pause
//! follows, and less is under way after it. What is refused costs the store's capacity, too, and renewals of sessions need some of that.
//!
//! Between two pauses, one more may be under way for each answer, as in the slow start of TCP (Jacobson 1988). A run of few answers doubles
//! the next pause, and one of many halves it: so however many workers there are, the store has capacity left most of the time.

use crate::values::time::{Now, Tick};
use std::time::Duration;

/// How much is under way at the most.
const MOST: usize = 128;
/// The first pause is a 64th to a 32nd of a ttl, and the longest one two to this power of that.
const DOUBLED: u32 = 4;
/// So few answers between two pauses are few, and more than so many are many.
const FEW: usize = 4;
const MANY: usize = 16;

/// A congestion window: how much may be under way, and when more may begin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CongestionWindow {
    most: usize,
    resume_at: Tick,
    /// How often the pause was doubled.
    doubled: u32,
    /// How many answers there were since the last pause.
    answers: usize,
}

impl Default for CongestionWindow {
    fn default() -> CongestionWindow {
        CongestionWindow { most: MOST, resume_at: Tick(0), doubled: 0, answers: MOST }
    }
}

impl CongestionWindow {
    /// The store has done what was asked, or has shown what stands there.
    pub(super) fn answered(&mut self) {
        self.most = (self.most + 1).min(MOST);
        self.answers = self.answers.saturating_add(1);
    }

    /// The store has refused something for now. What it refuses before the end of a pause was sent before that, and counts no more.
    pub(super) fn refused(&mut self, now: Now, pause: Duration) {
        if now.held < self.resume_at {
            return;
        }
        let answers = std::mem::take(&mut self.answers);
        self.most = (answers / 2).clamp(1, self.most);
        self.doubled = match answers {
            ..FEW => (self.doubled + 1).min(DOUBLED),
            MANY.. => self.doubled.saturating_sub(1),
            _ => self.doubled,
        };
        self.resume_at = now.held.after(pause * (1 << self.doubled));
    }

    /// Whether more may begin where so much is under way.
    pub(super) fn is_open(&self, now: Now, under_way: usize) -> bool {
        self.wake_at(under_way).is_some_and(|at| now.held >= at)
    }

    /// When more may begin, unless something has to end before.
    pub(super) fn wake_at(&self, under_way: usize) -> Option<Tick> {
        (under_way < self.most).then_some(self.resume_at)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: so much is under way and no more; where some is refused, it becomes less, and pauses become longer where little is answered between
    //! them, and shorter where much is.
    use super::*;
    use crate::fleet::worker::alone::at;

    const PAUSE: Duration = Duration::from_secs(1);

    #[test]
    fn so_much_is_under_way_and_no_more() {
        let window = CongestionWindow::default();
        assert!(window.is_open(at(0), MOST - 1));
        assert_eq!((window.is_open(at(0), MOST), window.wake_at(MOST)), (false, None));
    }

    #[test]
    fn where_the_store_refuses_some_less_is_under_way_and_later() {
        let mut window = CongestionWindow::default();
        let mut secs = 10;
        let runs = [
            (0, 1, 64),
            (9, 1, 4),
            (3, 2, 1),
            (3, 4, 1),
            (5, 4, 2),
            (0, 8, 1),
            (0, 16, 1),
            (0, 16, 1),
            (16, 8, 8),
        ];
        for (answers, waits, most) in runs {
            (0..answers).for_each(|_| window.answered());
            for _ in 0..3 {
                window.refused(at(secs), PAUSE);
            }
            assert_eq!(
                (window.wake_at(0), window.wake_at(most)),
                (Some(at(secs + waits).held), None),
                "{answers}"
            );
            assert!(!window.is_open(at(secs + waits - 1), 0) && window.is_open(at(secs + waits), most - 1));
            secs += waits;
        }
        (0..MOST).for_each(|_| window.answered());
        assert_eq!((window.wake_at(MOST - 1).is_some(), window.wake_at(MOST)), (true, None));
    }
}
