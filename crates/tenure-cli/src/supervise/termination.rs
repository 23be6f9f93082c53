//! What was sent TERM: when KILL follows, and what to think of one that outlives even that.

use std::time::Duration;
use tenure::clock::boottime;

/// What can't be killed within this time hangs in the kernel, and nobody knows when it acts again.
const LONG: Duration = Duration::from_secs(5);
/// KILL is repeated: the command may have been about to start something.
const AGAIN: Duration = Duration::from_millis(50);

/// What was sent TERM.
#[derive(Debug)]
pub(super) struct Termination {
    kill_at: Duration,
    /// When it was first sent KILL, and when last.
    killed: Option<(Duration, Duration)>,
}

impl Termination {
    /// KILL is to follow `within` this time.
    pub(super) fn new(within: Duration) -> Termination {
        Termination { kill_at: boottime() + within, killed: None }
    }

    pub(super) fn hasten(&mut self, within: Duration) {
        self.kill_at = self.kill_at.min(boottime() + within);
    }

    /// Whether to send KILL now, and whether it should have helped long ago.
    pub(super) fn judge(&mut self, now: Duration) -> (bool, bool) {
        match &mut self.killed {
            None if now < self.kill_at => (false, false),
            None => {
                self.killed = Some((now, now));
                (true, false)
            }
            Some((first, last)) => {
                let is_due = now.saturating_sub(*last) >= AGAIN;
                if is_due {
                    *last = now;
                }
                (is_due, now.saturating_sub(*first) > LONG)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_kill_comes_in_time_and_again_and_what_outlives_it_is_known_after_a_while() {
        let at = Duration::from_millis;
        let mut ending = Termination { kill_at: at(1_000), killed: None };
        let mut judged = |ms| ending.judge(at(ms));
        assert_eq!(judged(999), (false, false));
        assert_eq!(judged(1_000), (true, false));
        assert_eq!((judged(1_049), judged(1_050)), ((false, false), (true, false)));
        // However late it was killed: its time begins then.
        assert_eq!(judged(6_000), (true, false));
        assert_eq!(judged(6_001), (false, true));
    }
}
