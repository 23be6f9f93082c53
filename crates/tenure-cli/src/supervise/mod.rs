//! Supervision: commands that run under a lease, and that are over before it is.

mod check;
mod children;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod health;
pub(crate) mod held;
mod helper;
pub(crate) mod hooks;
mod ignored;
pub(crate) mod keyboard;
mod kill;
pub(crate) mod lease;
pub(crate) mod mark;
pub(crate) mod opened;
pub(crate) mod outage;
pub(crate) mod process;
pub(crate) mod run;
pub(crate) mod signals;
pub(crate) mod stopping;
mod survivors;
pub(crate) mod suspend;
mod table;
mod terminal;
mod termination;
mod threads;
mod told_to_end;
pub(crate) mod watchdog;
pub(crate) mod will;

/// How far what commands have started can be followed on this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Wherever it goes.
    Descendants,
    /// As long as it stays in its command's process group.
    Groups,
}

/// As it is found here and now.
pub(crate) fn reach() -> Reach {
    let can_follow = children::become_subreaper(true) && table::ProcessTable::read().is_some();
    // Only whoever has commands is one.
    let _back = children::become_subreaper(false);
    if can_follow { Reach::Descendants } else { Reach::Groups }
}
