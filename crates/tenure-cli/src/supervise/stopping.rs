//! A command that was told to stop: TERM, then KILL, and what to think of one that outlives even that.

use super::process::ProcessGroup;
use nix::sys::signal::Signal;
use std::time::Duration;
use tenure::clock::boottime;

/// A command that was told to stop.
#[derive(Debug)]
pub(crate) struct Stopping {
    kill_at: Duration,
    /// When it was first sent KILL, and when last.
    killed: Option<(Duration, Duration)>,
}

/// What can't be killed within this time hangs in the kernel, and nobody knows when it acts again.
const LONG: Duration = Duration::from_secs(5);
/// KILL is repeated: the command may have been about to start something, or have been about to be started.
const AGAIN: Duration = Duration::from_millis(50);

impl Stopping {
    /// Sends TERM, with KILL to follow `within` this time. If it was stopping already, KILL may come sooner.
    pub(crate) fn begin(stop: &mut Option<Stopping>, within: Duration, process_group: &ProcessGroup) {
        let kill_at = boottime() + within;
        match stop {
            None => {
                process_group.signal(Signal::SIGTERM);
                *stop = Some(Stopping { kill_at, killed: None });
            }
            Some(stop) => stop.kill_at = stop.kill_at.min(kill_at),
        }
    }

    /// Sends KILL when its time has come. To be called every few milliseconds. True if even that has not helped for long.
    pub(crate) fn go_on(&mut self, process_group: &ProcessGroup) -> bool {
        let (is_due, is_overdue) = self.judge(boottime());
        if is_due {
            process_group.signal(Signal::SIGKILL);
        }
        is_overdue
    }

    /// Whether to send KILL now, and whether it should have helped long ago.
    fn judge(&mut self, now: Duration) -> (bool, bool) {
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
        let mut stop = Stopping { kill_at: at(1_000), killed: None };
        let mut judged = |ms| stop.judge(at(ms));
        assert_eq!(judged(999), (false, false));
        assert_eq!(judged(1_000), (true, false));
        assert_eq!((judged(1_049), judged(1_050)), ((false, false), (true, false)));
        // However late it was killed: its time begins then.
        assert_eq!(judged(6_000), (true, false));
        assert_eq!(judged(6_001), (false, true));
    }
}
