//! Whether anything of what tenure has started may be alive after tenure's own death. Only if surely nothing is, what tenure held is
//! given back.
//!
//! What was registered, or carries the mark, or is below such a process, is known. A *runaway* has cast off its mark and lost its
//! parent: it was tenure's child, and passed to the system when tenure died. It stands on the list of its new parent's children behind
//! the watchdogs, which passed there before it. Whoever was on that list before tenure's death stands in front of them.

use super::table::{ProcessEntry, ProcessTable};
use super::{helper, mark};

/// A process of ours that has seen tenure die.
#[derive(Debug, Clone, Copy)]
pub(super) struct Witness<'w> {
    /// What tenure marks with.
    pub(super) mark: &'w str,
    /// When tenure was started.
    pub(super) since: u64,
    /// Whether this was started before any command was, by the thread to which those come that lose their parent.
    pub(super) is_early: bool,
}

impl Witness<'_> {
    /// Whether there may be a runaway. Where the system does not tell, there may. Whoever starts another and ends while one looks is one,
    /// too: so is what is on the list and dead. What was dead when `table` was read is none: whatever it had started had been passed on
    /// before, and is on the list by itself. Some containers' first process never takes the dead off.
    pub(super) fn may_be_one(&self, table: &ProcessTable) -> bool {
        // Where only one's own processes are shown, the first one is not among them.
        if !table.has(1) {
            return true;
        }
        let (own, parent) = (nix::unistd::getpid().as_raw(), nix::unistd::getppid().as_raw());
        let (own_place, list) = (place(own), children(parent));
        let (behind, is_newer) = match &list {
            Some(list) if self.is_early => {
                let Some(at) = list.iter().position(|pid| *pid == own) else { return true };
                (list.get(at..).unwrap_or_default(), true)
            }
            // Of one table, a part may be older than that which shows a process dead.
            _ => (table.children(parent), false),
        };
        let is_runaway = |pid: &i32| {
            let Some(entry) = ProcessEntry::of(*pid) else { return true };
            let was_dead = |before: &ProcessEntry| before.start == entry.start && !before.is_alive();
            if is_newer && table.get(*pid).is_some_and(was_dead) {
                return false;
            }
            let is_helper = [helper::WATCHDOG, helper::KEYBOARD].contains(&entry.name.as_str());
            entry.parent == parent
                && entry.start >= self.since
                && !is_helper
                && (place(*pid) == own_place || !is_service(*pid))
                && !is_anothers(*pid, self.mark)
        };
        behind.iter().any(is_runaway)
    }
}

/// Whether it was started by the command of another tenure, and not below one of ours. What is about to become a command of ours still
/// shows our program, and the environment that tenure had.
fn is_anothers(pid: i32, whose: &str) -> bool {
    let program = |of: &str| std::fs::read_link(format!("/proc/{of}/exe")).ok();
    let marks = mark::marks_of(pid);
    !marks.is_empty()
        && !marks.iter().any(|one| mark::is_of(one, whose))
        && program(&pid.to_string()).is_some_and(|it| program("self") != Some(it))
}

/// Whether the system has started it as a service, other than one that this is part of (systemd.exec(5)).
fn is_service(pid: i32) -> bool {
    const NAME: &[u8] = b"INVOCATION_ID=";
    let invocation = |of: &str| {
        let environment = std::fs::read(format!("/proc/{of}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(NAME).map(<[u8]>::to_vec))
    };
    invocation(&pid.to_string()).is_some_and(|it| Some(it) != invocation("self"))
}

/// The control groups of a process. What it starts is in the same, unless that changes it.
fn place(pid: i32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/cgroup")).ok()
}

/// Those of a process's children that came to its first thread, in the order in which they came.
fn children(of: i32) -> Option<Vec<i32>> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).ok()?;
    Some(list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}
