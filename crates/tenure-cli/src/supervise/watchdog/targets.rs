//! What a watchdog is to stop: process groups, and processes that have left theirs.

use super::super::kill::{is_group_alive, kill, signal_group};
use super::super::table::ProcessEntry;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::time::Duration;

/// Processes to be stopped.
#[derive(Default, Clone)]
pub(super) struct Targets {
    pub(super) groups: BTreeSet<i32>,
    /// Number and time of start of each.
    pub(super) processes: BTreeSet<(i32, u64)>,
}

impl Targets {
    /// Asks them to end: what is stopped can't do what it is told.
    pub(super) fn signal_to_end(&self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    pub(super) fn signal(&self, signal: Signal) {
        for group in &self.groups {
            signal_group(*group, signal);
        }
        for (pid, start) in &self.processes {
            // What is in its group has been told already.
            if ProcessEntry::of(*pid)
                .is_some_and(|entry| entry.start == *start && !self.groups.contains(&entry.group))
            {
                kill(*pid, signal);
            }
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.processes.iter().any(is_there) || self.groups.iter().any(|group| is_group_alive(*group))
    }
}

/// What is to be killed, and when.
pub(super) struct Doomed {
    pub(super) targets: Targets,
    pub(super) kill_at: Duration,
}

/// Whether this process, by its number and the time of its start, is alive.
pub(super) fn is_there((pid, start): &(i32, u64)) -> bool {
    ProcessEntry::of(*pid).is_some_and(|entry| entry.start == *start && entry.is_alive())
}
