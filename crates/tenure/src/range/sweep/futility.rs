//! Pieces of a sweep that come to nothing again and again.

use tenure_core::range::{KeyRange, Point};

/// How often in a row one piece came to nothing. What happens once to each of several pieces says nothing of the next.
#[derive(Debug, Default)]
pub(super) struct Futility {
    low: Option<Point>,
    times: u32,
}

impl Futility {
    /// One more time, of the piece of this range; or a lease that came to something.
    pub(super) fn count(&mut self, range: &KeyRange, is_futile: bool) -> u32 {
        if !is_futile {
            *self = Futility::default();
        } else if self.low.as_ref() == Some(range.low()) {
            self.times += 1;
        } else {
            *self = Futility { low: Some(range.low().clone()), times: 1 };
        }
        self.times
    }
}
