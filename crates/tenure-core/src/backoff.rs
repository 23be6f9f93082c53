//! Pauses after what the store does not do. A machine keeps a [`Backoff`], or a [`LastingRefusal`](refusal::LastingRefusal) of each thing that the store
//! refuses.

pub(crate) mod refusal;

use crate::values::error::StoreError;
use crate::values::fence::Nonces;
use crate::values::time::{Now, Tick};
use std::time::Duration;

/// So long one call may take, and the pause after one that has failed.
pub(crate) const MOMENT: Duration = Duration::from_secs(5);

/// So often in a row a pause is doubled at the most.
pub(crate) const MOST: u32 = 7;

/// A pause that has been doubled so often.
pub(crate) fn doubled(pause: Duration, times: u32) -> Duration {
    pause.saturating_mul(1 << times.min(MOST))
}

/// What went wrong in a row for one machine, and until when it sends nothing for that.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Backoff {
    /// Nothing is sent before then.
    pause: Option<Tick>,
    /// That is because the store has refused something, and may for good.
    is_refused: bool,
    /// Operations in a row that failed, and all were refused, or none.
    failures: u32,
    /// Writes in a row that the store has refused, and may for good; looks between them may go well.
    refusals: u32,
    /// Writes in a row that others were quicker than.
    losses: u32,
}

impl Backoff {
    /// Whether nothing is to be sent yet. A pause that is over is one no more.
    pub(crate) fn holds(&mut self, now: Now) -> bool {
        self.pause.take_if(|at| now.held >= *at);
        self.pause.is_some()
    }

    /// Until when nothing is sent.
    pub(crate) fn until(&self) -> Option<Tick> {
        self.pause
    }

    /// Something new is to be sent at once.
    pub(crate) fn end(&mut self) {
        self.pause = None;
    }

    /// What has been refused is tried once more at once, however long the pause is by now: somebody may have mended it.
    pub(crate) fn try_again(&mut self) {
        self.pause.take_if(|_| self.is_refused);
    }

    /// What is left to expire by then is given up in its time, whatever the store has refused before.
    pub(crate) fn end_with_lapse(&mut self, lapse: Option<Tick>) {
        if let (true, Some(pause), Some(lapse)) = (self.is_refused, &mut self.pause, lapse) {
            *pause = lapse.min(*pause);
        }
    }

    /// The record was read.
    pub(crate) fn read(&mut self) {
        self.failures = 0;
    }

    /// A write has taken effect.
    pub(crate) fn won(&mut self) {
        (self.losses, self.failures, self.refusals) = (0, 0, 0);
    }

    /// Somebody was quicker with a write.
    pub(crate) fn lost(&mut self) {
        (self.failures, self.refusals) = (0, 0);
        self.losses += 1;
    }

    /// Whoever lost tries again at once, with the record that came with the refusal: of those who do, one wins each time. A pause
    /// would make that record old, so it is only for those who have lost very often.
    pub(crate) fn give_way(&mut self, now: Now, nonces: &Nonces) {
        const OFTEN: u32 = 32;
        if self.losses.is_multiple_of(OFTEN) {
            let span = Duration::from_millis(1) * 2u32.pow((self.losses / OFTEN).min(6));
            (self.pause, self.is_refused) = (Some(now.held.after(nonces.jittered(span))), false);
        }
    }

    /// A write was refused, and has no effect.
    pub(crate) fn write_refused(&mut self, error: &StoreError) {
        self.refusals += u32::from(!error.is_passing());
    }

    /// An operation has failed, and the next may go well. `until` is told how many in a row have failed so.
    pub(crate) fn failed(&mut self, until: impl FnOnce(u32) -> Tick) {
        let failures = self.count(false);
        self.pause = Some(until(failures));
    }

    /// Something is refused, and may be for good: it is tried ever more seldom, and never let go. `until` is told how often in a row. How often that is.
    pub(crate) fn refused(&mut self, until: impl FnOnce(u32) -> Tick) -> u32 {
        let times = self.count(true).max(self.refusals);
        self.pause = Some(until(times));
        times
    }

    /// What was for a moment begins nothing that lasts.
    fn count(&mut self, is_refused: bool) -> u32 {
        if std::mem::replace(&mut self.is_refused, is_refused) != is_refused {
            self.failures = 0;
        }
        self.failures += 1;
        self.failures
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a pause is over in its time; of the pauses, only that of a refusal ends for who tries again, or for what lapses; failures and refusals
    //! are counted apart, and a look that goes well ends only what it shows to be over; only those who have lost very often give way.
    use super::*;
    use crate::values::time::Wall;

    fn at(held: u64) -> Now {
        Now { held: Tick(held), wall: Wall(0), ..Now::default() }
    }

    #[test]
    fn a_pause_is_over_in_its_time() {
        let mut backoff = Backoff { pause: Some(Tick(10)), ..Backoff::default() };
        assert!(backoff.holds(at(9)));
        assert_eq!(backoff.until(), Some(Tick(10)));
        assert!(!backoff.holds(at(10)));
        assert_eq!(backoff, Backoff::default());
    }

    #[test]
    fn what_was_refused_is_tried_again_and_does_not_hold_up_what_lapses() {
        for (is_refused, again, with_lapses) in [(true, None, [5, 10, 10]), (false, Some(10), [10, 10, 10])] {
            let backoff = Backoff { pause: Some(Tick(10)), is_refused, ..Backoff::default() };
            let ended = |end: &dyn Fn(&mut Backoff)| {
                let mut backoff = backoff.clone();
                end(&mut backoff);
                backoff.until()
            };
            assert_eq!(ended(&|it| it.end()), None);
            assert_eq!(ended(&|it| it.try_again()), again.map(Tick));
            let lapses = [Some(Tick(5)), Some(Tick(20)), None];
            assert_eq!(
                lapses.map(|lapse| ended(&|it| it.end_with_lapse(lapse))),
                with_lapses.map(|at| Some(Tick(at)))
            );
        }
    }

    /// How many in a row it tells of.
    fn times(backoff: &mut Backoff, is_refused: bool) -> u32 {
        let mut told = 0;
        let mut until = |times| {
            told = times;
            Tick(u64::from(times))
        };
        if is_refused {
            assert_eq!(backoff.refused(&mut until), backoff.failures.max(backoff.refusals));
        } else {
            backoff.failed(&mut until);
        }
        assert_eq!((backoff.until(), backoff.is_refused), (Some(Tick(u64::from(told))), is_refused));
        told
    }

    #[test]
    fn what_was_for_a_moment_is_no_refusal_and_begins_none() {
        let mut backoff = Backoff::default();
        let kinds = [false, false, false, true, true, false, true];
        assert_eq!(kinds.map(|is_refused| times(&mut backoff, is_refused)), [1, 2, 3, 1, 2, 1, 1]);
        backoff.read();
        assert_eq!(times(&mut backoff, true), 1, "a look went well");
    }

    #[test]
    fn writes_that_are_refused_are_counted_though_looks_between_them_go_well() {
        for won in [true, false] {
            let mut backoff = Backoff::default();
            for times_in_a_row in 1..=9 {
                backoff.read();
                backoff.write_refused(&StoreError::unsupported("denied"));
                backoff.write_refused(&StoreError::unavailable("away"));
                assert_eq!(times(&mut backoff, true), times_in_a_row);
            }
            if won {
                backoff.won();
            } else {
                backoff.lost();
            }
            backoff.write_refused(&StoreError::unsupported("denied"));
            backoff.write_refused(&StoreError::unavailable("away"));
            assert_eq!(times(&mut backoff, true), 1);
        }
    }

    #[test]
    fn who_has_lost_very_often_gives_way_for_ever_longer() {
        let (mut backoff, nonces) = (Backoff::default(), Nonces::new(7));
        let mut pauses = Vec::new();
        for losses in 1..=32 * 8u32 {
            backoff.lost();
            backoff.give_way(at(0), &nonces);
            if let Some(until) = backoff.until() {
                assert!(losses.is_multiple_of(32));
                pauses.push(until.0.div_ceil(1_000_000).next_power_of_two());
            }
            backoff.end();
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn a_pause_is_doubled_only_so_often() {
        let most = Duration::from_secs(1 << MOST);
        assert_eq!(
            [0, 1, MOST, MOST + 1, u32::MAX].map(|times| doubled(Duration::from_secs(1), times)),
            [Duration::from_secs(1), Duration::from_secs(2), most, most, most]
        );
    }
}
