//! Jumps ahead of a process's wall clock.
//!
//! Two witnesses tell how long a record has stood: the store's clock, and the wall clocks. Where the store's server runs on this host, both
//! are one clock. If that is set ahead, a record that was written before seems older than it is by as much, to both witnesses. What was
//! written since is as old as it seems.
//!
//! So, for a machine that was there: a record that seems older than the last jump has stood for as long as that is ago, at the least.

use super::{Now, TRIPWIRE, Tick};
use crate::bugs::{Bug, Bugs};
use std::time::Duration;

/// When the wall clock was last set ahead, as far as this machine could see.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClockJumps {
    /// By how many milliseconds the wall clock was ahead of the elapsed time when both were read last. As long as no clock is set, that stays so:
    /// events that are harmless leave the machine as it is.
    ahead: Option<i128>,
    /// On the waiter's time line.
    last: Option<Tick>,
}

impl ClockJumps {
    /// Compares the clocks with what they showed before.
    pub(crate) fn look(&mut self, now: Now) {
        let ahead = i128::from(now.wall.0) - i128::from(now.held.0 / 1_000_000);
        let before = self.ahead.replace(ahead);
        if before.is_some_and(|before| ahead - before > TRIPWIRE.as_millis() as i128) {
            self.last = Some(now.waited);
        }
    }

    /// What is certain of the time that both witnesses say has passed, where they may be one.
    pub(crate) fn certain(&self, now: Now, agreed: Duration, bugs: Bugs) -> Duration {
        match self.last.filter(|_| !bugs.has(Bug::SharedClockTrusted)) {
            Some(last) => agreed.min(now.waited.since(last)),
            None => agreed,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a jump ahead, which limits what is certain until it is long ago; no jump by a suspend, by a clock that runs a little
    //! faster, or by one that is set back.
    use super::*;
    use crate::values::time::Wall;

    fn at(held_ms: u64, waited_ms: u64, wall_ms: u64) -> Now {
        Now { held: Tick(held_ms * 1_000_000), waited: Tick(waited_ms * 1_000_000), wall: Wall(wall_ms) }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn what_seems_older_than_a_jump_ahead_is_certain_to_be_as_old_as_that() {
        let mut jumps = ClockJumps::default();
        let certain = |jumps: &ClockJumps, now| jumps.certain(now, MINUTE, Bugs::default());
        for now in [at(0, 0, 5000), at(1000, 1000, 6100), at(4000, 4000, 9400), at(100_000, 100_000, 106_300)]
        {
            jumps.look(now);
            assert_eq!(certain(&jumps, now), MINUTE, "less than a second is none");
        }
        let jumped = at(105_000, 105_000, 171_300);
        jumps.look(jumped);
        assert_eq!(certain(&jumps, jumped), Duration::ZERO);
        let later = at(112_000, 112_000, 178_300);
        jumps.look(later);
        assert_eq!(certain(&jumps, later), Duration::from_secs(7));
        assert_eq!(jumps.certain(later, Duration::from_secs(2), Bugs::default()), Duration::from_secs(2));
        assert_eq!(certain(&jumps, at(199_000, 199_000, 265_300)), MINUTE);
    }

    #[test]
    fn a_suspend_and_a_clock_that_is_set_back_are_no_jumps() {
        let mut jumps = ClockJumps::default();
        for now in [at(0, 0, 100_000), at(3_600_000, 0, 3_700_000), at(3_601_000, 1000, 50_000)] {
            jumps.look(now);
            assert_eq!(jumps.certain(now, MINUTE, Bugs::default()), MINUTE);
        }
    }
}
