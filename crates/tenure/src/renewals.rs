//! How renewals fare of what renews itself: sessions, leases with a ttl of their own, and workers of fleets.

use crate::belief::AtomicBelief;
use crate::meters;
use std::collections::VecDeque;
use std::time::Duration;
use tenure_core::Tick;

/// The renewals of one kind that one driver sends.
pub(crate) struct Renewals {
    /// What is renewed, as the label says it.
    of: &'static str,
    least: Least,
}

impl Renewals {
    pub(crate) fn of_sessions() -> Renewals {
        Renewals { of: "session", least: Least::default() }
    }

    pub(crate) fn of_leases() -> Renewals {
        Renewals { of: "lease", least: Least::default() }
    }

    pub(crate) fn of_workers() -> Renewals {
        Renewals { of: "worker", least: Least::default() }
    }

    /// What is believed in is believed in until then from now on. `whole` is how long that lasts from when a renewal was sent.
    pub(crate) fn extended(
        &mut self,
        belief: &AtomicBelief,
        until: Tick,
        whole: Duration,
        now: Tick,
    ) -> Option<Renewed> {
        let left = belief.until().since(now);
        // What did not reach further is no renewal, and what was not believed in had nothing left.
        (until > belief.deadline() && !left.is_zero()).then(|| {
            let took = whole.saturating_sub(until.since(now));
            Renewed { of: self.of, took, left, least: self.least.of(left, now) }
        })
    }
}

/// A renewal that is yet to be measured, once nothing is locked.
#[must_use]
pub(crate) struct Renewed {
    of: &'static str,
    took: Duration,
    left: Duration,
    least: Duration,
}

impl Renewed {
    pub(crate) fn measure(&self) {
        meters::renewed(self.of, self.took, self.left, self.least);
    }
}

/// The least of late: for as long as a scrape or two take, and not for ever. It keeps one figure for each slice of a minute, however many
/// leases renew themselves.
#[derive(Default)]
struct Least(VecDeque<(u64, Duration)>);

/// Slices of the clock, in nanoseconds.
const SLICE: u64 = 10_000_000_000;
/// How many of them are looked back on.
const SLICES: u64 = 6;

impl Least {
    fn of(&mut self, next: Duration, now: Tick) -> Duration {
        let slice = now.0 / SLICE;
        match self.0.back_mut() {
            Some((last, least)) if *last == slice => *least = next.min(*least),
            _ => self.0.push_back((slice, next)),
        }
        while self.0.front().is_some_and(|(first, _)| first + SLICES < slice) {
            self.0.pop_front();
        }
        self.0.iter().map(|(_, least)| *least).min().unwrap_or(next)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the least is that of the last minute, whatever came before, and takes no more room where renewals are many.
    use super::*;

    #[test]
    fn the_least_is_that_of_the_last_minute_in_little_room() {
        let mut least = Least::default();
        let mut at = |second: u64, millis: u64| {
            least.of(Duration::from_millis(millis), Tick(second * 1_000_000_000)).as_millis()
        };
        assert_eq!((at(0, 7000), at(3, 900), at(4, 7000), at(59, 8000)), (7000, 900, 900, 900));
        assert_eq!(at(80, 6000), 6000, "the one of 900 ms is long ago");
        for n in 0..10_000 {
            at(80 + n / 100, 5000 + n);
        }
        assert_eq!(at(180, 20_000), 9000, "that of second 120, a minute ago");
        assert!(least.0.len() <= 7, "{}", least.0.len());
    }
}
