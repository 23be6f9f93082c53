//! The terminal, if we have one: a command that reads it must be its foreground group, or it would be stopped.
//!
//! A command that reads our standard input, and so the terminal, has it from its start. Where our output goes into a pipe, it has the terminal only
//! once it wants it: the pipe's reader may be a pager of our own group, which would be in the background then. The system would stop it at its first
//! key, and us with it. Whatever has another input has the terminal once it wants it, too, as what asks for a password on /dev/tty does.

use super::client::Watchdogs;
use super::keyboard::{Insistence, Keyboard};
use super::process::ProcessGroup;
use super::suspend;
use crate::exit::Asked;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tokio::signal::unix::{SignalKind, signal};

/// The terminal, to be lent to one command's group.
pub(super) struct Terminal {
    /// None if there is no terminal.
    tty: Option<Arc<OwnedFd>>,
    /// It is the command's standard input.
    is_input: bool,
    own: Pid,
    group: i32,
    process_group: Arc<ProcessGroup>,
    watchdogs: Arc<Watchdogs>,
    is_lent: bool,
    /// The command has it only when it asks.
    is_on_demand: bool,
    /// After `fg` in a shell, the command wants the terminal that it could not have before.
    resumed: tokio::signal::unix::Signal,
    keyboard: Option<Keyboard>,
    insistence: Insistence,
    was_interrupted: bool,
}

impl Terminal {
    /// `may_read`: the command has our standard input.
    pub(super) fn of(
        process_group: &Arc<ProcessGroup>,
        watchdogs: &Arc<Watchdogs>,
        may_read: bool,
    ) -> std::io::Result<Terminal> {
        let is_input = may_read && std::io::stdin().is_terminal();
        let tty = if is_input { std::io::stdin().as_fd().try_clone_to_owned().ok() } else { controlling() };
        let tty = tty.map(Arc::new);
        // Before the command is there, which may want it at once.
        suspend::for_terminal(tty.clone());
        let resumed = signal(SignalKind::from_raw(Signal::SIGCONT as i32))?;
        Ok(Terminal {
            tty,
            is_input,
            own: getpgrp(),
            group: 0,
            process_group: Arc::clone(process_group),
            watchdogs: Arc::clone(watchdogs),
            is_lent: false,
            is_on_demand: !is_input || is_pipe(&std::io::stdout()),
            resumed,
            keyboard: None,
            insistence: Insistence::default(),
            was_interrupted: false,
        })
    }

    /// The command is there, as this group.
    pub(super) fn begin(&mut self, group: i32) {
        self.group = group;
        if !self.is_on_demand {
            self.lend();
        }
    }

    /// Makes the command's group the foreground group, if there is a terminal and we are that now.
    fn lend(&mut self) {
        let group = self.group;
        if self.is_lent || !self.is_in_front() {
            return;
        }
        // Before anything can be typed into the command.
        let keyboard = Keyboard::beside(group, &self.watchdogs);
        // From the background this would stop us.
        let lend = || self.is_in_front() && self.put_in_front(Pid::from_raw(group));
        if suspend::in_one_go(lend) {
            self.keyboard = keyboard;
            self.is_lent = true;
            self.process_group.resume(true);
        }
    }

    /// The next time that its user insists on a stop. Cancel safe.
    pub(super) async fn insists(&mut self) -> Asked {
        loop {
            tokio::select! {
                () = pressed(&mut self.keyboard) => {
                    self.was_interrupted = true;
                    if self.insistence.note(boottime()) {
                        return Asked::Keyboard;
                    }
                }
                Some(()) = self.resumed.recv(), if self.group > 0 => self.resume(),
            }
        }
    }

    /// Whether a signal that has come to us is one of the keyboard for the command: we are in front, beside one that has not asked for the terminal.
    pub(super) fn is_for_command(&self, signal: i32) -> bool {
        signal == Signal::SIGINT as i32
            && self.is_input
            && self.is_on_demand
            && !self.is_lent
            && self.group > 0
            && self.is_in_front()
    }

    /// Whether there is a terminal, and our group is its foreground group.
    fn is_in_front(&self) -> bool {
        self.has_in_front(self.own)
    }

    fn has_in_front(&self, group: Pid) -> bool {
        self.tty.as_ref().is_some_and(|tty| tcgetpgrp(&**tty) == Ok(group))
    }

    fn put_in_front(&self, group: Pid) -> bool {
        self.tty.as_ref().is_some_and(|tty| tcsetpgrp(&**tty, group).is_ok())
    }

    /// The command has it, as from its terminal. Answers if its user insists on a stop by now.
    pub(super) fn interrupt(&mut self) -> Option<Asked> {
        self.process_group.interrupt();
        self.was_interrupted = true;
        self.insistence.note(boottime()).then_some(Asked::Keyboard)
    }

    /// We were continued: by `fg`, so that the command is to have the terminal again, by `bg`, or because it wants the terminal.
    fn resume(&mut self) {
        let is_asked = suspend::was_asked_for_terminal();
        self.is_lent = self.is_lent && self.has_in_front(Pid::from_raw(self.group));
        if is_asked || !self.is_on_demand {
            self.lend();
        }
        suspend::go_on();
    }

    /// Makes us the foreground group again.
    pub(super) fn take_back(&mut self) {
        if !std::mem::take(&mut self.is_lent) {
            return;
        }
        // From the background this is only allowed to those who block TTOU.
        let mut ttou = SigSet::empty();
        ttou.add(Signal::SIGTTOU);
        if let Ok(before) = ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
            let _or_gone = self.put_in_front(self.own);
            let _restored = before.thread_set_mask();
        }
    }

    /// Whether an interrupt of the terminal has ended the command, whose status this is. What ends by that was to end, and so was
    /// whoever called us.
    pub(super) async fn has_ended(&mut self, status: &ExitStatus) -> bool {
        /// We hear of it when the command does, or a little later.
        const WITHIN: Duration = Duration::from_secs(1);
        let is_interrupted = status.signal() == Some(Signal::SIGINT as i32);
        if is_interrupted && !self.was_interrupted && self.keyboard.is_some() {
            self.was_interrupted = tokio::time::timeout(WITHIN, pressed(&mut self.keyboard)).await.is_ok();
        }
        is_interrupted && self.was_interrupted
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        suspend::for_terminal(None);
        suspend::go_on_if_suspended();
        self.take_back();
    }
}

/// The terminal of our session, if it has one: no program gets another one by opening this.
fn controlling() -> Option<OwnedFd> {
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty").ok().map(OwnedFd::from)
}

/// Whether somebody reads what is written there.
fn is_pipe(out: &impl AsFd) -> bool {
    let kind = fstat(out).map(|file| SFlag::from_bits_truncate(file.st_mode) & SFlag::S_IFMT);
    kind.is_ok_and(|kind| kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK)
}

/// The next interrupt, if anybody hears of them. Cancel safe.
async fn pressed(keyboard: &mut Option<Keyboard>) {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}
