//! Ctrl-Z, and whoever else sends TSTP: a process that stops within a transaction on a SQLite file locks it for all others, whose
//! leases then end. So this one stops between two transactions. SIGSTOP can't be caught.
//!
//! This process and its commands, which are groups of their own, stop and go on together: for a shell they are one job. What stands
//! still for longer than its lease lasts is ended by the watchdogs.

use super::client::Watchdogs;
use super::ignored::IgnoredSignals;
use super::table::ProcessTable;
use super::told_to_end;
use nix::sys::signal::{Signal, kill, killpg, raise};
use nix::unistd::{Pid, getpgrp, getsid, tcgetpgrp};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const STOP: i32 = Signal::SIGTSTP as i32;

/// What stops this process next. A tenure around it has to see that it wants the terminal, if that is why.
static STOPPED_BY: AtomicI32 = AtomicI32::new(STOP);

/// Who knows the commands.
static WATCHDOGS: Mutex<Weak<Watchdogs>> = Mutex::new(Weak::new());
/// TSTP is heeded.
static IS_LISTENING: AtomicBool = AtomicBool::new(false);
/// All of us are stopping, or stand still, or are about to go on. Whoever signals the commands for that holds it, throughout the stop.
static IS_SUSPENDED: Mutex<bool> = Mutex::new(false);
/// The terminal that a command may be lent. It goes on when it is known whether it has that, and not before.
static TERMINAL: Mutex<Option<Arc<OwnedFd>>> = Mutex::new(None);
/// A command waits for the terminal, and its borrower has been called.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// From now on TSTP stops this process between transactions, and its commands with it. Nothing changes if it was ignored when we
/// were started, or there is no thread to be had.
pub(crate) fn between_transactions() {
    if IgnoredSignals::at_start().has(STOP) {
        return;
    }
    let Ok((waker, mut woken)) = UnixStream::pair() else { return };
    let listen = move || {
        let mut buffer = [0; 64];
        while woken.read(&mut buffer).is_ok_and(|read| read > 0) {
            if is_orphaned() {
                // Nobody could continue us, so what was stopped with a view to that goes on.
                go_on_if_suspended();
            } else {
                stop();
                if terminal().is_none() {
                    go_on();
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("suspend".to_owned()).stack_size(256 << 10).spawn(listen);
    if thread.is_ok() {
        let registered = signal_hook::low_level::pipe::register(STOP, waker);
        IS_LISTENING.store(registered.is_ok(), Ordering::SeqCst);
    }
}

/// Whose commands stop and go on with this process.
pub(super) fn together_with(watchdogs: &Arc<Watchdogs>) {
    *WATCHDOGS.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(watchdogs);
}

/// With a terminal, it is its borrower that makes commands go on.
pub(super) fn for_terminal(terminal: Option<Arc<OwnedFd>>) {
    *TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) = terminal;
}

fn terminal() -> Option<Arc<OwnedFd>> {
    TERMINAL.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A command, of this group, was stopped because it wants the terminal. True if it is about to go on with it.
pub(super) fn ask_for_terminal(group: i32) -> bool {
    let Some(terminal) = terminal() else { return false };
    match tcgetpgrp(&*terminal) {
        // After `fg` in a shell whose job was not stopped nobody tells us so: the borrower is called as if we had been continued.
        Ok(front) if front == getpgrp() => {
            IS_ASKED.store(true, Ordering::SeqCst);
            kill(Pid::this(), Signal::SIGCONT).is_ok()
        }
        // It has got it meanwhile.
        Ok(front) if front.as_raw() == group => killpg(front, Signal::SIGCONT).is_ok(),
        _ => false,
    }
}

/// Whether a command has asked for the terminal since this was last looked at.
pub(super) fn was_asked_for_terminal() -> bool {
    IS_ASKED.swap(false, Ordering::SeqCst)
}

/// A command was stopped by its terminal with this signal, and all of us with it, as if it were in our group: whoever ignores that signal, as
/// timeout(1) ignores TTIN, goes on. False if nobody could continue us then, TSTP is ignored, or we are to end: the command alone must not
/// stand still.
pub(super) fn follow_command(signal: Signal, is_still_stopped: impl Fn() -> bool) -> bool {
    let mut is_suspended = lock();
    if *is_suspended {
        return true;
    }
    if !IS_LISTENING.load(Ordering::SeqCst) || told_to_end::was_told() || is_orphaned() {
        return false;
    }
    // Old news of a stop that is over must not stop us again.
    if is_still_stopped() {
        *is_suspended = true;
        STOPPED_BY.store(signal as i32, Ordering::SeqCst);
        stop_group(signal);
    }
    true
}

/// Stops our group as its terminal does. This process hears TSTP whatever the others hear: only for that does it wait until no transaction
/// is under way.
fn stop_group(signal: Signal) {
    let (own, group) = (Pid::this(), getpgrp());
    match ProcessTable::read().filter(|_| signal != Signal::SIGTSTP) {
        Some(table) => {
            let others =
                table.all().filter(|entry| entry.group == group.as_raw() && entry.pid != own.as_raw());
            others.for_each(|entry| super::kill::kill(entry.pid, signal));
            super::kill::kill(own.as_raw(), Signal::SIGTSTP);
        }
        None => {
            let _we_are_in_it = killpg(group, Signal::SIGTSTP);
        }
    }
}

/// Returns when this process is continued.
fn stop() {
    let mut is_suspended = lock();
    if let Some(watchdogs) = watchdogs() {
        watchdogs.let_start();
    }
    *is_suspended = true;
    signal_commands(Signal::SIGTSTP);
    let _paused = tenure::sqlite::pause_writes();
    match Signal::try_from(STOPPED_BY.swap(STOP, Ordering::SeqCst)) {
        // Nobody handles these here.
        Ok(signal @ (Signal::SIGTTIN | Signal::SIGTTOU))
            if !IgnoredSignals::at_start().has(signal as i32) =>
        {
            let _stopped = raise(signal);
        }
        _ => {
            let _stopped = signal_hook::low_level::emulate_default_handler(STOP);
        }
    }
}

/// Does something that must not be interrupted by a stop: a shell may give the terminal to others then.
pub(super) fn in_one_go<T>(it: impl FnOnce() -> T) -> T {
    let _no_stop = lock();
    it()
}

/// The commands go on, after this process does.
pub(super) fn go_on() {
    let mut is_suspended = lock();
    signal_commands(Signal::SIGCONT);
    *is_suspended = false;
}

/// The terminal has no borrower any more, who would have done that.
pub(super) fn go_on_if_suspended() {
    if *lock() {
        go_on();
    }
}

fn signal_commands(signal: Signal) {
    if let Some(watchdogs) = watchdogs() {
        watchdogs.signal_all(signal);
    }
}

fn lock() -> MutexGuard<'static, bool> {
    IS_SUSPENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watchdogs() -> Option<Arc<Watchdogs>> {
    WATCHDOGS.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
}

/// Whether nobody could continue our process group: the system does not stop such a group by TSTP, either (setpgid(2)).
fn is_orphaned() -> bool {
    let (Some(table), Ok(session)) = (ProcessTable::read(), getsid(None)) else { return false };
    let own = getpgrp().as_raw();
    let is_controlled = |parent: i32| {
        let is_here = getsid(Some(Pid::from_raw(parent))) == Ok(session);
        is_here && table.all().any(|entry| entry.pid == parent && entry.group != own)
    };
    !table.all().filter(|entry| entry.group == own).any(|entry| is_controlled(entry.parent))
}
