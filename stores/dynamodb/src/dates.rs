//! The service's own clock, as far as its answers tell: each has a `Date`, in whole seconds. What follows from that is
//! [`ServiceClock`]'s matter: an age is short of the truth by up to two seconds, by a margin for this host's clock, and by a
//! round trip ([`ERROR`]).
//!
//! This host's clock that bridges the time from the last answer to the next write is one that suspend does not stop. Time that
//! was hidden from it altogether shows in the date of the write's own answer, which is then not taken for an answer.

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::{Clock, Drift, ServiceClock, StoreError, Tick};

/// How far an age may fall short of the truth, where a record is written within four seconds of another answer, as a session of
/// a ttl of up to twelve is. One second is what the date of a read lacks, and one is what is added to the date before the write.
/// The last is for the rates of two clocks from that date on. Clocks are seldom that bad, but no date is trusted for more: an age
/// must never be over the truth.
pub(crate) const ERROR: Duration = Duration::from_secs(3);

/// What is known of the service's clock. Clones share it.
#[derive(Clone)]
pub(crate) struct Dates {
    clock: Arc<dyn Clock>,
    known: Arc<Mutex<ServiceClock>>,
}

/// A write that is about to be sent, and what it is dated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dated {
    sent: Tick,
    /// The most that the service's clock can show, in milliseconds since 1970.
    pub(crate) written: u64,
}

impl Dates {
    pub(crate) fn new(clock: Arc<dyn Clock>, drift: Drift) -> Self {
        Dates { clock, known: Arc::new(Mutex::new(ServiceClock::new(drift))) }
    }

    /// The least that the service's clock showed when it last answered, in milliseconds since 1970.
    pub(crate) fn at_least(&self) -> Option<u64> {
        self.known().at_least()
    }

    /// A date for what is written now.
    pub(crate) fn date(&self) -> Option<Dated> {
        let sent = self.clock.held();
        self.known().at_most(sent).map(|written| Dated { sent, written })
    }

    /// To be asked when a write has taken effect.
    ///
    /// # Errors
    /// `Unknown`: the service has counted time that this host has not. The record looks older than it is, and others may take
    /// it for a dead one's. Nothing may be believed on it; the next write, which is dated right, has to come at once.
    pub(crate) fn confirm(&self, dated: Dated) -> Result<(), StoreError> {
        let now = self.clock.held();
        if self.known().refutes(dated.written, dated.sent, now) {
            return Err(StoreError::unknown(
                "time was hidden from this host, or the service's clock was set: what was written is dated too early",
            ));
        }
        Ok(())
    }

    /// An answer to a request that was sent at `sent` has this date.
    fn seen(&self, sent: Tick, seconds: u64) {
        let now = self.clock.held();
        self.known().answered(sent, now, seconds);
    }

    fn known(&self) -> MutexGuard<'_, ServiceClock> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Dates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dates").field(&*self.known()).finish()
    }
}

/// When a request was sent, kept beside it until its answer comes.
#[derive(Debug, Clone, Copy)]
struct SentAt(Tick);

impl Storable for SentAt {
    type Storer = StoreReplace<SentAt>;
}

impl Intercept for Dates {
    fn name(&self) -> &'static str {
        "tenure-dates"
    }

    fn read_before_transmit(
        &self,
        _request: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        bag.interceptor_state().store_put(SentAt(self.clock.held()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        answer: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = answer.response().headers().get("date");
        let date = date.and_then(|date| DateTime::from_str(date, DateTimeFormat::HttpDate).ok());
        // An answer without a date, or with one before 1970, tells nothing.
        let seconds = date.and_then(|date| u64::try_from(date.secs()).ok());
        if let (Some(seconds), Some(SentAt(sent))) = (seconds, bag.load::<SentAt>().copied()) {
            self.seen(sent, seconds);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Plan: nothing is known before the first answer. The ceiling is never below the truth, whatever part of a second the date has
    //! lost, however slow the answer was, and with this host's clock slow by a tenth and the service's fast by one. It is as low as
    //! the best of the answers allows. A service whose clock is set, to either side, is followed. The ages that follow are good
    //! enough for fleets from the ttl on that doctor names, and not for much shorter ones.
    use super::*;
    use tenure_core::fleet::least_ttl_attested;
    use tenure_testkit::ManualClock;

    fn at_most(dates: &Dates) -> Option<u64> {
        dates.date().map(|dated| dated.written)
    }

    fn dates() -> (Dates, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new());
        (Dates::new(clock.clone(), Drift::default()), clock)
    }

    #[test]
    fn s1_a_write_from_behind_hidden_time_is_not_confirmed_and_the_next_one_is() {
        let (dates, clock) = dates();
        dates.seen(clock.held(), 1000);
        let dated = dates.date().unwrap();
        // The service counts twenty seconds, and this host a tenth of one.
        let sent = clock.held();
        clock.advance(Duration::from_millis(100));
        dates.seen(sent, 1020);
        assert_eq!(dates.confirm(dated).unwrap_err().kind(), tenure_core::ErrorKind::Unknown);
        let again = dates.date().unwrap();
        let sent = clock.held();
        clock.advance(Duration::from_millis(100));
        dates.seen(sent, 1021);
        assert_eq!(dates.confirm(again), Ok(()));
    }

    #[test]
    fn nothing_is_known_without_an_answer() {
        let (dates, _) = dates();
        assert_eq!((dates.at_least(), at_most(&dates)), (None, None));
    }

    #[test]
    fn the_bounds_hold_the_truth_between_them() {
        for started in [0, 1, 499, 999] {
            for (to, from) in [(0, 0), (300, 0), (0, 300), (2000, 1500)] {
                let (dates, clock) = dates();
                let truth = |clock: &ManualClock, began: u64| began + clock.now().held.0 / 1_000_000;
                let began = 1_700_000_000_000 + started;
                for _ in 0..5 {
                    let sent = clock.held();
                    clock.advance(Duration::from_millis(to));
                    let date = truth(&clock, began) / 1000;
                    clock.advance(Duration::from_millis(from));
                    dates.seen(sent, date);
                    let now = truth(&clock, began);
                    let (least, most) = (dates.at_least().unwrap(), at_most(&dates).unwrap());
                    assert!(least <= now && now <= most, "{least} {now} {most}");
                    // Besides the second and the round trip, only the margin for the clock's rate.
                    let slack = 1000 + to + from + (to + from) * 2 / 9 + 2;
                    assert!(most - now <= slack, "{} over", most - now);
                    clock.advance(Duration::from_millis(730));
                }
            }
        }
    }

    #[test]
    fn s1_a_slow_clock_here_and_a_fast_one_there_do_not_lower_the_ceiling() {
        let (dates, clock) = dates();
        dates.seen(clock.held(), 1000);
        clock.advance(Duration::from_secs(9));
        // Ten seconds have passed in truth, and the service has counted eleven.
        assert_eq!(at_most(&dates), Some(1_001_000 + 11_000));
    }

    #[test]
    fn the_best_answer_counts() {
        let (dates, clock) = dates();
        dates.seen(clock.held(), 1000);
        clock.advance(Duration::from_millis(200));
        dates.seen(clock.held(), 1001);
        assert_eq!(at_most(&dates), Some(1_001_245), "the turn of the second tells more than the new date");
        clock.advance(Duration::from_millis(700));
        dates.seen(clock.held(), 1000);
        assert_eq!(
            at_most(&dates),
            Some(1_001_000),
            "and a second that lasts less than was feared, more than that"
        );
    }

    const BEGAN: u64 = 1_700_000_000_000;

    /// An answer that comes at once, at so many milliseconds.
    fn hears(dates: &Dates, clock: &ManualClock, at: u64) {
        clock.advance(Duration::from_millis(at).saturating_sub(Duration::from_nanos(clock.held().0)));
        dates.seen(clock.held(), (BEGAN + at) / 1000);
    }

    /// By how many milliseconds ages fall short at the most, of sessions that are renewed in each third of this ttl, each third
    /// beginning at `phase`. Their holders look at others `after` each renewal, and are themselves looked at at any time.
    fn most_short(ttl: u64, phase: u64, after: u64) -> u64 {
        let (dates, clock) = dates();
        let mut most = 0;
        for third in 0..12 {
            let renewed = phase + third * ttl / 3;
            clock
                .advance(Duration::from_millis(renewed).saturating_sub(Duration::from_nanos(clock.held().0)));
            if let Some(written) = at_most(&dates) {
                // A look's own answer is dated in whole seconds, so the worst is just before the turn of one.
                most = most.max(written - (BEGAN + renewed) + 999);
            }
            hears(&dates, &clock, renewed);
            hears(&dates, &clock, renewed + after);
        }
        most
    }

    #[test]
    fn ages_are_told_within_a_quarter_of_the_least_ttl_of_small_looks() {
        let worst = |ttl: u64| {
            let phases =
                (0..1000).step_by(37).flat_map(|phase| [0, 1, 3].map(|part| (phase, part * ttl / 12)));
            phases.map(|(phase, after)| most_short(ttl, phase, after)).max().unwrap()
        };
        let least = u64::try_from(least_ttl_attested(ERROR).as_millis()).unwrap();
        for ttl in [least, least + 1_500, 2 * least, 5 * least] {
            assert!(worst(ttl) < ttl / 4, "{ttl}: {}", worst(ttl));
        }
        assert!(worst(least) < u64::try_from(ERROR.as_millis()).unwrap());
        for ttl in [3_000, 6_000, 8_000] {
            assert!(worst(ttl) > ttl / 4, "the bound would be too careful: {ttl} {}", worst(ttl));
        }
    }

    #[test]
    fn a_service_whose_clock_is_set_is_followed() {
        let (dates, clock) = dates();
        dates.seen(clock.held(), 1000);
        dates.seen(clock.held(), 5000);
        assert_eq!((dates.at_least(), at_most(&dates)), (Some(5_000_000), Some(5_001_000)));
        dates.seen(clock.held(), 70);
        assert_eq!((dates.at_least(), at_most(&dates)), (Some(70_000), Some(71_000)));
    }
}
