//! The terminal, when standard input is one: a command that reads it must be its foreground group, or it would be stopped.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use std::io::IsTerminal;

/// The terminal, lent to a command; it comes back when this is dropped.
pub(crate) struct Lent {
    own: Pid,
}

impl Lent {
    /// Makes `group` the terminal's foreground group, if we are that now.
    pub(crate) fn to(group: i32) -> Option<Lent> {
        let stdin = std::io::stdin();
        let own = getpgrp();
        if !stdin.is_terminal() || tcgetpgrp(&stdin).ok()? != own {
            return None;
        }
        tcsetpgrp(&stdin, Pid::from_raw(group)).ok()?;
        // It may have read, and have been stopped, before it was in the foreground.
        crate::process::signal_group(group, Signal::SIGCONT);
        Some(Lent { own })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // From the background this is only allowed to those who block TTOU.
        let mut ttou = SigSet::empty();
        ttou.add(Signal::SIGTTOU);
        if let Ok(before) = ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
            let _gone = tcsetpgrp(std::io::stdin(), self.own);
            let _restored = before.thread_set_mask();
        }
    }
}

/// Whether a command that was stopped by `signal` was suspended by the user of its terminal.
pub(crate) fn is_suspension(signal: Signal) -> bool {
    signal == Signal::SIGTSTP
}
