//! The pauses of a semaphore's machine: after operations that failed, and after writes that others were quicker than.

use crate::holder::ctx::Ctx;
use crate::values::error::{ErrorKind, StoreError};
use crate::values::time::{Now, Tick, Ttl};
use std::time::Duration;

/// After so many failures in a row, pauses grow no longer.
const MOST: u32 = 7;

/// What went wrong in a row, and until when nothing is sent for that.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    /// Nothing is sent before then.
    pause: Option<Tick>,
    /// That is because the store has refused something, and may for good.
    is_refused: bool,
    /// Operations in a row that failed.
    failures: u32,
    /// Writes in a row that the store has refused, and may for good; looks between them may go well.
    refusals: u32,
    /// Writes in a row that others were quicker than.
    losses: u32,
}

impl Backoff {
    /// Whether nothing is to be sent yet. A pause that is over is one no more.
    pub(super) fn holds(&mut self, now: Now) -> bool {
        self.pause.take_if(|at| now.held >= *at);
        self.pause.is_some()
    }

    /// Until when nothing is sent.
    pub(super) fn until(&self) -> Option<Tick> {
        self.pause
    }

    /// Something new is to be sent at once.
    pub(super) fn end(&mut self) {
        self.pause = None;
    }

    /// What has been refused is tried once more at once, however long the pause is by now: somebody may have mended it.
    pub(super) fn try_again(&mut self) {
        self.pause.take_if(|_| self.is_refused);
    }

    /// What is left to expire by then is given up in its time, whatever the store has refused before.
    pub(super) fn end_with_lapse(&mut self, lapse: Option<Tick>) {
        if let (true, Some(pause), Some(lapse)) = (self.is_refused, &mut self.pause, lapse) {
            *pause = lapse.min(*pause);
        }
    }

    /// The record was read.
    pub(super) fn read(&mut self) {
        self.failures = 0;
    }

    /// A write has taken effect.
    pub(super) fn won(&mut self) {
        (self.losses, self.failures, self.refusals) = (0, 0, 0);
    }

    /// Somebody was quicker with a write.
    pub(super) fn lost(&mut self) {
        (self.failures, self.refusals) = (0, 0);
        self.losses += 1;
    }

    /// Nothing is sent for some time after others were quicker so often that a pause is better than another attempt.
    pub(super) fn give_way(&mut self, ctx: &Ctx<'_>) {
        const OFTEN: u32 = 32;
        if self.losses.is_multiple_of(OFTEN) {
            let span = Duration::from_millis(1) * 2u32.pow((self.losses / OFTEN).min(6));
            (self.pause, self.is_refused) = (Some(ctx.jittered(span)), false);
        }
    }

    /// A write was refused, and has no effect.
    pub(super) fn write_refused(&mut self, error: &StoreError) {
        self.refusals += u32::from(!error.is_passing());
    }

    /// An operation has failed. What is refused, and may be for good, is repeated ever more seldom, and never let go. `gives`: somebody's
    /// claim is to go. Whether it has been refused for so long, some 64 ttls, that no copy of an earlier write is under way.
    pub(super) fn failed(&mut self, ctx: &Ctx<'_>, ttl: Ttl, error: &StoreError, gives: bool) -> bool {
        self.failures += 1;
        self.is_refused = !error.is_passing();
        let refusals = self.failures.max(self.refusals);
        let at = if self.is_refused {
            // A damaged record is in everybody's way, and somebody mends it.
            let most = if gives && error.kind() == ErrorKind::Foreign { 1 } else { MOST };
            ctx.jittered(ttl.part(4).saturating_mul(1 << refusals.min(most)))
        } else {
            ctx.retry_at(ttl, self.failures)
        };
        self.pause = Some(at.max(ctx.now.held.after(Duration::from_millis(1))));
        self.is_refused && refusals > MOST
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a pause is over in its time; of the pauses, only that of a refusal ends for who tries again, or for what lapses.
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
}
