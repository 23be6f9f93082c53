//! Ctrl-Z, and whoever else sends TSTP: a process that stops within a transaction on a SQLite file locks it for all others, whose
//! leases then end. So this one stops between two transactions. SIGSTOP can't be caught.

use super::signals::is_ignored;
use super::table::Table;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgrp, getsid};
use std::io::Read;
use std::os::unix::net::UnixStream;

/// From now on TSTP stops this process between transactions. Nothing changes if it was ignored when we were started, or there is
/// no thread to be had.
pub(crate) fn between_transactions() {
    const STOP: i32 = Signal::SIGTSTP as i32;
    if is_ignored(STOP) {
        return;
    }
    let Ok((waker, mut woken)) = UnixStream::pair() else { return };
    let listen = move || {
        let mut buffer = [0; 64];
        while woken.read(&mut buffer).is_ok_and(|read| read > 0) {
            if !is_orphaned() {
                let _paused = tenure::sqlite::pause_writes();
                // Returns when the process is continued.
                let _stopped = signal_hook::low_level::emulate_default_handler(STOP);
            }
        }
    };
    let thread = std::thread::Builder::new().name("suspend".to_owned()).stack_size(256 << 10).spawn(listen);
    if thread.is_ok() {
        let _as_ever_otherwise = signal_hook::low_level::pipe::register(STOP, waker);
    }
}

/// Whether nobody could continue our process group: the system does not stop such a group by TSTP, either (setpgid(2)).
fn is_orphaned() -> bool {
    let (Some(table), Ok(session)) = (Table::read(), getsid(None)) else { return false };
    let own = getpgrp().as_raw();
    let is_controlled = |parent: i32| {
        let is_here = getsid(Some(Pid::from_raw(parent))) == Ok(session);
        is_here && table.all().any(|entry| entry.pid == parent && entry.group != own)
    };
    !table.all().filter(|entry| entry.group == own).any(|entry| is_controlled(entry.parent))
}
