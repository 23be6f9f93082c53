//! Since when a lease stands in its section, by the store's own clock.
//!
//! A store attests the age of a *record*, which every write of the section makes young. So each entry keeps the time of the first
//! write that it is known to have stood in. Elapsed time is then one difference, and loses one rounding however often others write.
//! Sums of ages would lose one with each write: a dead process's entry would stay as long as short-lived processes write often.
//!
//! The writer of an entry does not know the time of that write. It states how long the entry has stood by its own measure, which
//! is nothing for a new one. The next process that sees the record counts back from the store's time of the write.

use super::ledger::{Entry, SectionLedger};
use crate::bugs::Bug;
use crate::rules::Rules;
use crate::values::record::Times;
use std::time::Duration;

/// Since when an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
    fn seen(self, times: Times) -> Since {
        let Times { clock, written, .. } = times;
        let at = match self {
            Since::Written(stood) => written.saturating_sub(micros(stood)),
            // It stood when the record was last written, too: which tells more if that clock was set back since then.
            Since::Clock { clock: other, at } if other == clock => at.min(written),
            Since::Clock { .. } => written,
        };
        Since::Clock { clock, at }
    }

    /// For how long, at least, an entry has stood when the store's clock shows `now`. None: it is not known yet.
    pub(super) fn elapsed(self, now: u64) -> Option<Duration> {
        match self {
            Since::Written(_) => None,
            Since::Clock { at, .. } => Some(Duration::from_micros(now.saturating_sub(at))),
        }
    }
}

impl SectionLedger {
    /// The same as a record shows it that has these times: each entry with the time since which it stands, by that clock.
    ///
    /// True if entries stand since a time that the clock, having been set back, won't reach for long: they stand since the next
    /// write then, so that there should be one.
    pub(super) fn seen(&mut self, times: Times, rules: &Rules) -> bool {
        let mut is_set_back = false;
        for entry in &mut self.entries {
            entry.since = match entry.since.seen(times) {
                _ if rules.bugs.has(Bug::EntryBornAnew) => {
                    Since::Clock { clock: times.clock, at: times.written }
                }
                Since::Clock { at, .. } if at > micros(reach(entry)).saturating_add(times.now) => {
                    is_set_back = true;
                    Since::NEW
                }
                since => since,
            };
        }
        is_set_back
    }
}

/// A clock that is behind by more than this was set back. Less is a matter of how a store rounds, or soon over.
fn reach(entry: &Entry) -> Duration {
    const ROUNDING: Duration = Duration::from_secs(60);
    entry.duration.duration().max(ROUNDING)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! Plan: an entry counts from the write that began it, whoever wrote since then and however the store rounds; by a clock that
    //! was set back, or is another one, it counts from a later write, and never from an earlier time than the truth.
    use super::*;
    use crate::values::fence::{Fence, Nonce};
    use crate::values::key::HolderId;
    use crate::values::time::{Ttl, Wall};

    const SECOND: u64 = 1_000_000;

    fn ledger(since: Since) -> SectionLedger {
        let entry = Entry {
            id: Nonce(1),
            holder: HolderId::new("dead").unwrap(),
            fence: Fence(7),
            stamp: Wall(0),
            duration: Ttl::clamped(3_000),
            since,
            parts: Default::default(),
        };
        SectionLedger { entries: vec![entry] }
    }

    fn times(written: u64, now: u64) -> Times {
        Times { clock: 0, written: written * SECOND, now: now * SECOND }
    }

    /// What is seen of an entry in a record with these times.
    fn seen(since: Since, times: Times) -> Since {
        let mut ledger = ledger(since);
        ledger.seen(times, &Rules::default());
        ledger.entries[0].since
    }

    fn clock(at: u64) -> Since {
        Since::Clock { clock: 0, at: at * SECOND }
    }

    #[test]
    fn an_entry_counts_from_the_first_write_that_it_is_seen_in_however_often_others_write() {
        let mut since = seen(Since::NEW, times(100, 98));
        // A store that tells whole seconds, and a write in each of them: every single age is nothing.
        for n in 101..=103 {
            assert_eq!(times(n, n - 1).age(), Duration::ZERO);
            since = seen(since.after(Duration::ZERO), times(n, n - 1));
            assert_eq!(since, clock(100), "{n}");
        }
        assert_eq!(since.elapsed(103 * SECOND), Some(Duration::from_secs(3)));
    }

    #[test]
    fn what_its_writer_has_measured_counts_until_the_store_has_told_the_time_of_a_write() {
        let since = Since::NEW.after(Duration::from_secs(2)).after(Duration::from_secs(1));
        assert_eq!((since, since.elapsed(u64::MAX)), (Since::Written(Duration::from_secs(3)), None));
        assert_eq!(seen(since, times(100, 101)), clock(97));
        assert_eq!(clock(97).after(Duration::from_secs(5)), clock(97), "and is not added to that");
    }

    #[test]
    fn a_later_write_that_is_dated_earlier_tells_more() {
        assert_eq!(seen(clock(101), times(100, 99)), clock(100));
    }

    #[test]
    fn by_another_clock_an_entry_counts_from_the_last_write() {
        let other = Since::Clock { clock: 5, at: 1 };
        assert_eq!(seen(other, times(100, 101)), clock(100));
        assert_eq!(
            seen(clock(1), Times { clock: 5, ..times(100, 101) }),
            Since::Clock { clock: 5, at: 100 * SECOND }
        );
    }

    #[test]
    fn by_a_clock_that_was_set_back_it_counts_from_the_next_write() {
        let rules = Rules::default();
        let (mut long_ahead, mut ahead) = (ledger(clock(5_000)), ledger(clock(5_000)));
        assert!(long_ahead.seen(times(5_001, 4_000), &rules), "a write helps");
        assert_eq!(long_ahead.entries[0].since, Since::NEW);
        assert!(!ahead.seen(times(4_001, 4_000), &rules), "there was one");
        assert_eq!(ahead.entries[0].since, clock(4_001));
        assert!(
            !ledger(clock(5_000)).seen(times(5_000, 4_998), &rules),
            "a store that rounds was not set back"
        );
    }
}
