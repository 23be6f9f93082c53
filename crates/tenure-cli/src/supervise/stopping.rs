//! A command that is told to stop: why, and by whatever means.

use super::process::ProcessGroup;
use super::termination::Termination;
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
    /// It is not well, as its check says.
    Unwell,
}

/// The means to stop a command, for whoever decides that. It may come before the command is started, which is then not done.
#[derive(Debug, Default)]
pub(crate) struct Stopper {
    pub(super) process_group: Arc<ProcessGroup>,
    stopping: Mutex<Option<(Why, Termination)>>,
    /// It was told to stop.
    pub(super) news: Notify,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_what_is_to_stop_already_is_not_started() {
        let stopper = Stopper::default();
        assert_eq!(stopper.unless_stopped(|| 1), Some(1));
        stopper.stop(Why::Losing, Duration::ZERO);
        stopper.stop(Why::Asked, Duration::from_secs(9));
        assert_eq!((stopper.unless_stopped(|| 1), stopper.why()), (None, Some(Why::Losing)));
    }
}
