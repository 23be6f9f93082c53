//! Since when a lease stands in its section, by the store's own clock.
//!
//! A store attests the age of a *record*, which every write of the section makes young. So each entry keeps the time of the first
//! write that it is known to have stood in. Elapsed time is then one difference, and loses one rounding however often others write.
//! Sums of ages would lose one with each write: a dead process's entry would stay as long as short-lived processes write often.
//!
//! The writer of an entry does not know the time of that write. It states how long the entry has stood by its own measure, which
//! is nothing for a new one. The next process that sees the record counts back from the store's time of the write.

use crate::values::record::Times;
use std::time::Duration;

/// Since when an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Since {
    /// When the record was last written, it had stood for so long, at least.
    Written(Duration),
    /// At this reading of the store's clock it stood already.
    Clock {
        /// The clock's name.
        clock: u64,
        /// Its reading, in microseconds.
        at: u64,
    },
}

impl Since {
    /// An entry that the next write begins.
    pub const NEW: Since = Since::Written(Duration::ZERO);

    /// The same in a record that is written a while after it was seen.
    pub(super) fn after(self, waited: Duration) -> Since {
        /// Longer than any lease lasts.
        const MOST: Duration = Duration::from_secs(7 * 24 * 3600);
        match self {
            Since::Written(stood) => Since::Written(stood.saturating_add(waited).min(MOST)),
            Since::Clock { .. } => self,
        }
    }

    /// The same as a record shows it that has these times.
    pub(super) fn seen(self, times: Times) -> Since {
        let Times { clock, written, .. } = times;
        let at = match self {
            Since::Written(stood) => written.saturating_sub(micros(stood)),
            // It stood when the record was last written, too: which tells more if that clock was set back since then.
            Since::Clock { clock: other, at } if other == clock => at.min(written),
            Since::Clock { .. } => written,
        };
        Since::Clock { clock, at }
    }

    /// Whether that is later by more than `span` than what the store's clock shows, which is `now`.
    pub(super) fn is_ahead(self, now: u64, span: Duration) -> bool {
        matches!(self, Since::Clock { at, .. } if at > micros(span).saturating_add(now))
    }

    /// For how long, at least, an entry has stood when the store's clock shows `now`. None: it is not known yet.
    pub(super) fn elapsed(self, now: u64) -> Option<Duration> {
        match self {
            Since::Written(_) => None,
            Since::Clock { at, .. } => Some(Duration::from_micros(now.saturating_sub(at))),
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! Plan: an entry counts from the write that began it, whoever wrote since then and however the store rounds; by another
    //! clock it counts from a later write, and never from an earlier time than the truth.
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn times(written: u64, now: u64) -> Times {
        Times { clock: 0, written: written * SECOND, now: now * SECOND }
    }

    fn clock(at: u64) -> Since {
        Since::Clock { clock: 0, at: at * SECOND }
    }

    #[test]
    fn an_entry_counts_from_the_first_write_that_it_is_seen_in_however_often_others_write() {
        let mut since = Since::NEW.seen(times(100, 98));
        // A store that tells whole seconds, and a write in each of them: every single age is nothing.
        for n in 101..=103 {
            assert_eq!(times(n, n - 1).age(), Duration::ZERO);
            since = since.after(Duration::ZERO).seen(times(n, n - 1));
            assert_eq!(since, clock(100), "{n}");
        }
        assert_eq!(since.elapsed(103 * SECOND), Some(Duration::from_secs(3)));
    }

    #[test]
    fn what_its_writer_has_measured_counts_until_the_store_has_told_the_time_of_a_write() {
        let since = Since::NEW.after(Duration::from_secs(2)).after(Duration::from_secs(1));
        assert_eq!((since, since.elapsed(u64::MAX)), (Since::Written(Duration::from_secs(3)), None));
        assert_eq!(since.seen(times(100, 101)), clock(97));
        assert_eq!(clock(97).after(Duration::from_secs(5)), clock(97), "and is not added to that");
    }

    #[test]
    fn a_later_write_that_is_dated_earlier_tells_more() {
        assert_eq!(clock(101).seen(times(100, 99)), clock(100));
    }

    #[test]
    fn by_another_clock_an_entry_counts_from_the_last_write() {
        let other = Since::Clock { clock: 5, at: 1 };
        assert_eq!(other.seen(times(100, 101)), clock(100));
        assert_eq!(
            clock(1).seen(Times { clock: 5, ..times(100, 101) }),
            Since::Clock { clock: 5, at: 100 * SECOND }
        );
    }
}
