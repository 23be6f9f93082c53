//! Signals to processes and to groups of them, by their numbers (kill(2)), and whether a group is there to get one.

use super::table::ProcessTable;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Signals a whole group. That it is gone already is no failure.
pub(super) fn signal_group(group: i32, signal: Signal) {
    // 0 and 1 would be our own group and everything.
    if group > 1 {
        let _gone = killpg(Pid::from_raw(group), signal);
    }
}

/// Signals one process.
pub(super) fn kill(pid: i32, signal: Signal) {
    if pid > 1 {
        let _gone = nix::sys::signal::kill(Pid::from_raw(pid), signal);
    }
}

/// Whether nothing has this group. Members that are another user's may not be signalled, and are there.
pub(super) fn is_group_gone(group: i32) -> bool {
    killpg(Pid::from_raw(group), None) == Err(Errno::ESRCH)
}

/// Whether anything runs in a group.
pub(super) fn is_group_alive(group: i32) -> bool {
    if group <= 1 || is_group_gone(group) {
        return false;
    }
    // Without a table that tells, the group must be taken for alive.
    ProcessTable::read().is_none_or(|table| table.all().any(|entry| entry.group == group && entry.is_alive()))
}
