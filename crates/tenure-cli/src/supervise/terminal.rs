//! The terminal, when standard input is one: a command that reads it must be its foreground group, or it would be stopped.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

/// The terminal, to be lent to one command's group.
#[derive(Debug)]
pub(crate) struct Terminal {
    own: Pid,
    group: i32,
    lent: AtomicBool,
}

impl Terminal {
    pub(crate) fn of(group: i32) -> Terminal {
        Terminal { own: getpgrp(), group, lent: AtomicBool::new(false) }
    }

    pub(crate) fn group(&self) -> i32 {
        self.group
    }

    pub(crate) fn is_lent(&self) -> bool {
        self.lent.load(Ordering::SeqCst)
    }

    /// Whether there is one, and we are its foreground group.
    pub(crate) fn is_ours(&self) -> bool {
        let stdin = std::io::stdin();
        stdin.is_terminal() && tcgetpgrp(&stdin) == Ok(self.own)
    }

    /// Makes the command's group the foreground group, if we are that now.
    pub(crate) fn lend(&self) {
        let stdin = std::io::stdin();
        if self.is_ours() && tcsetpgrp(&stdin, Pid::from_raw(self.group)).is_ok() {
            self.lent.store(true, Ordering::SeqCst);
            // It may have read, and have been stopped, before it was in the foreground.
            crate::supervise::process::signal_group(self.group, Signal::SIGCONT);
        }
    }

    /// Makes us the foreground group again.
    pub(crate) fn take_back(&self) {
        if !self.lent.swap(false, Ordering::SeqCst) {
            return;
        }
        // From the background this is only allowed to those who block TTOU.
        let mut ttou = SigSet::empty();
        ttou.add(Signal::SIGTTOU);
        if let Ok(before) = ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
            let _gone = tcsetpgrp(std::io::stdin(), self.own);
            let _restored = before.thread_set_mask();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Whether a command that was stopped by `signal` was suspended by the user of its terminal.
pub(crate) fn is_suspension(signal: Signal) -> bool {
    signal == Signal::SIGTSTP
}
