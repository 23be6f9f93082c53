//! A command that is told to stop: TERM, then KILL, and what to think of one that outlives even that.

use super::process::ProcessGroup;
use nix::sys::signal::Signal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;
use tokio::sync::Notify;

/// Why a command was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The user wants to stop, or the unit is to go.
    Asked,
    /// The lease was withdrawn.
    Revoked,
    /// The lease was about to be lost.
    Losing,
    /// It has run for as long as it may.
    Overran,
}

/// The means to stop a command, for whoever decides that. It may come before the command is started, which is then not done.
#[derive(Debug, Default)]
pub(crate) struct Stopper {
    pub(super) process_group: Arc<ProcessGroup>,
    stopping: Mutex<Option<(Why, Termination)>>,
    /// It was told to stop.
    pub(super) news: Notify,
}

/// What was sent TERM.
#[derive(Debug)]
pub(super) struct Termination {
    kill_at: Duration,
    /// When it was first sent KILL, and when last.
    killed: Option<(Duration, Duration)>,
}

/// What can't be killed within this time hangs in the kernel, and nobody knows when it acts again.
const LONG: Duration = Duration::from_secs(5);
/// KILL is repeated: the command may have been about to start something.
const AGAIN: Duration = Duration::from_millis(50);

impl Stopper {
    /// Sends TERM, with KILL to follow `within` this time. If it was stopping already, KILL may come sooner; the first reason stays.
    pub(crate) fn stop(&self, why: Why, within: Duration) {
        match &mut *self.stopping() {
            Some((_, ending)) => ending.hasten(within),
            stopping => {
                self.process_group.signal(Signal::SIGTERM);
                *stopping = Some((why, Termination::new(within)));
            }
        }
        self.news.notify_one();
    }

    /// Sends KILL now, for whoever does not wait for anything.
    pub(crate) fn kill(&self) {
        self.process_group.signal(Signal::SIGKILL);
    }

    /// Why it was told to stop, if it was.
    pub(crate) fn why(&self) -> Option<Why> {
        self.stopping().as_ref().map(|(why, _)| *why)
    }

    /// Does `start` unless the command is to stop already. Whoever tells it to stop meanwhile waits until there is something to signal.
    pub(super) fn unless_stopped<T>(&self, start: impl FnOnce() -> T) -> Option<T> {
        self.stopping().is_none().then(start)
    }

    /// Sends KILL when its time has come. To be called every few milliseconds. True if even that has not helped for long.
    pub(super) fn go_on(&self) -> bool {
        let judged = self.stopping().as_mut().map(|(_, ending)| ending.judge(boottime()));
        let (is_due, is_overdue) = judged.unwrap_or_default();
        if is_due {
            self.kill();
        }
        is_overdue
    }

    fn stopping(&self) -> MutexGuard<'_, Option<(Why, Termination)>> {
        self.stopping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Termination {
    /// KILL is to follow `within` this time.
    pub(super) fn new(within: Duration) -> Termination {
        Termination { kill_at: boottime() + within, killed: None }
    }

    fn hasten(&mut self, within: Duration) {
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

    #[test]
    fn s6_what_is_to_stop_already_is_not_started() {
        let stopper = Stopper::default();
        assert_eq!(stopper.unless_stopped(|| 1), Some(1));
        stopper.stop(Why::Losing, Duration::ZERO);
        stopper.stop(Why::Asked, Duration::from_secs(9));
        assert_eq!((stopper.unless_stopped(|| 1), stopper.why()), (None, Some(Why::Losing)));
    }
}
