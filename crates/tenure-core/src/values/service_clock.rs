//! A client's knowledge of the clock of a service that tells whole seconds with each answer.
//!
//! A record's age must never exceed the truth. So a record carries the latest time that the service's clock can
//! show when the write is *sent* ([`ServiceClock::at_most`]). An age is counted from that to the date of an answer, which
//! is the earliest that the clock shows now ([`ServiceClock::at_least`]). This host's clock only bridges the time from an earlier
//! answer to the write, with a margin for its rate. Time that was hidden from the host makes that bridge too short, and the
//! record look older than it is. The answer to the write betrays it ([`ServiceClock::refutes`]).

use crate::values::time::{Drift, Tick};
use std::time::Duration;

/// What the answers so far tell of the service's clock, in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct ServiceClock {
    /// How far the rates of the service's clock and of this host's may be off.
    drift: Drift,
    latest: Option<u64>,
    ceiling: Option<Ceiling>,
}

/// The service's clock shows no more than `millis` at `at`.
#[derive(Debug, Clone, Copy)]
struct Ceiling {
    millis: u64,
    at: Tick,
}

impl Ceiling {
    fn at(self, now: Tick, drift: Drift) -> u64 {
        self.millis.saturating_add(millis_up(drift.most(now.since(self.at))))
    }
}

fn millis_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl ServiceClock {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(drift: Drift) -> ServiceClock {
        ServiceClock { drift, latest: None, ceiling: None }
    }

    /// The least that the service's clock showed when it last answered.
    #[must_use]
    pub fn at_least(&self) -> Option<u64> {
        self.latest
    }

    /// The most that it can show at `now`, unless time was hidden from this host.
    #[must_use]
    pub fn at_most(&self, now: Tick) -> Option<u64> {
        self.ceiling.map(|ceiling| ceiling.at(now, self.drift))
    }

    /// The answer to a request that was sent at `sent` has come by `now`, with this date in whole seconds.
    pub fn answered(&mut self, sent: Tick, now: Tick, seconds: u64) {
        let date = seconds.saturating_mul(1000);
        // Dates are cut to seconds, and the answer was made no earlier than the request was sent.
        let fresh = Ceiling { millis: date.saturating_add(1000), at: sent };
        self.latest = Some(date);
        let keep = |old: &Ceiling| {
            let is_lower = old.at(now, self.drift) < fresh.at(now, self.drift);
            // One that an answer contradicts is from before time was hidden, or the service's clock was set.
            is_lower && old.at(now, self.drift) >= date
        };
        self.ceiling = Some(self.ceiling.filter(keep).unwrap_or(fresh));
    }

    /// Whether the answers up to `now` prove a record wrong that was dated `written` and sent at `sent`: the service shows more
    /// than it could by then. Then time was hidden from this host, and others may see a record that is older than it is.
    #[must_use]
    pub fn refutes(&self, written: u64, sent: Tick, now: Tick) -> bool {
        let most = written.saturating_add(millis_up(self.drift.most(now.since(sent))));
        self.latest.is_some_and(|latest| latest > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick(millis * 1_000_000)
    }

    #[test]
    fn a_date_that_no_clock_of_ours_explains_refutes_what_was_written() {
        let mut clock = ServiceClock::new(Drift::default());
        clock.answered(at(0), at(10), 100);
        let written = clock.at_most(at(1_000)).unwrap();
        clock.answered(at(1_000), at(1_020), 101);
        assert!(!clock.refutes(written, at(1_000), at(1_020)), "a second has passed here and there");
        // Twenty seconds that this host has not counted.
        clock.answered(at(1_000), at(1_020), 121);
        assert!(clock.refutes(written, at(1_000), at(1_020)));
        let anew = clock.at_most(at(1_030)).unwrap();
        clock.answered(at(1_030), at(1_050), 121);
        assert!(
            anew >= 121_000 && !clock.refutes(anew, at(1_030), at(1_050)),
            "what is written next is right"
        );
    }

    #[test]
    fn a_slow_answer_refutes_nothing() {
        let mut clock = ServiceClock::new(Drift::default());
        clock.answered(at(0), at(10), 100);
        let written = clock.at_most(at(10)).unwrap();
        // By a clock that is slow by a tenth, of a service whose clock is fast by one.
        clock.answered(at(10), at(9_010), 111);
        assert!(!clock.refutes(written, at(10), at(9_010)));
    }

    #[test]
    fn without_answers_nothing_is_known() {
        let clock = ServiceClock::new(Drift::default());
        assert_eq!((clock.at_least(), clock.at_most(at(1))), (None, None));
        assert!(!clock.refutes(0, at(0), at(1)));
    }
}
