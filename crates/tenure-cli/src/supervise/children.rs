//! Whose parent this process is: of what it has started, and of what its commands have left behind.
//!
//! On Linux it is a *child subreaper* (prctl(2)): whoever loses its parent somewhere below it becomes its child, and not that of
//! the system's first process. So nothing that a command has started gets out of sight while tenure lives: no process group or
//! session of its own helps, and no empty environment.

use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError, RwLock, TryLockError};
use std::time::Duration;

use super::process::kill;
use super::table::{Entry, Table};
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// The children of this process.
#[derive(Debug)]
pub(crate) struct Children {
    /// Held by whoever starts one, so that it is known before anybody takes it for a foundling.
    starting: RwLock<()>,
    /// Those that were started here, and those that were there before.
    known: Mutex<BTreeSet<i32>>,
}

/// What lost its parent and came to us.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Adopted {
    pub(crate) pids: Vec<i32>,
    /// Whether nothing else can be among them. Where the system does not list the main thread's own children, what other threads
    /// have started is among them.
    pub(crate) is_certain: bool,
}

impl Children {
    /// From now on this process takes in whoever loses its parent below it.
    pub(crate) fn gather() -> Children {
        let _its_group_only = become_subreaper(true);
        let known = of_main_thread().unwrap_or_default().into_iter().collect();
        Children { starting: RwLock::default(), known: Mutex::new(known) }
    }

    /// Starts a process, which is then known.
    pub(crate) fn start(&self, command: &mut Command) -> std::io::Result<Child> {
        let _starting = self.starting.read().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(child.id().cast_signed());
        Ok(child)
    }

    /// Waits until nobody is in the middle of a start. A signal to our group may have stopped a process that is not a program of its own
    /// yet, and whoever starts it waits for that (vfork(2)) and can't be stopped: it goes on first.
    pub(super) fn let_start(&self) {
        const MOMENT: Duration = Duration::from_millis(1);
        while let Err(TryLockError::WouldBlock) = self.starting.try_write() {
            let own = std::process::id().cast_signed();
            let children = Table::read().map(|table| table.children(own).to_vec()).unwrap_or_default();
            let is_stuck = |pid: &i32| is_still_us(*pid) && Entry::of(*pid).is_some_and(|it| it.is_stopped());
            children.into_iter().filter(is_stuck).for_each(|pid| kill(pid, Signal::SIGCONT));
            std::thread::sleep(MOMENT);
        }
    }

    /// A process that was started here was waited for: its number may soon be another's.
    pub(crate) fn forget(&self, pid: i32) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    /// Who was taken in and is alive. Those who have died are reaped.
    pub(crate) fn adopted(&self) -> Adopted {
        let _nobody_starts = self.starting.write().unwrap_or_else(PoisonError::into_inner);
        let is_unknown = |pid: &i32| !self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(pid);
        let Some(all) = self.foundlings(&is_unknown) else {
            let own = std::process::id().cast_signed();
            let pids = Table::read().map(|table| table.children(own).to_vec()).unwrap_or_default();
            let is_alive = |pid: &i32| Entry::of(*pid).is_some_and(|entry| entry.is_alive());
            let pids = pids.into_iter().filter(is_unknown).filter(is_alive).collect();
            return Adopted { pids, is_certain: false };
        };
        Adopted { pids: all, is_certain: true }
    }

    /// Those on the list of the main thread's children that are alive. None if there is no such list.
    fn foundlings(&self, is_unknown: &impl Fn(&i32) -> bool) -> Option<Vec<i32>> {
        /// More than ever die one after the other while a list is read.
        const MOST: usize = 1000;
        let mut alive = Vec::new();
        for _ in 0..MOST {
            let mut all = of_main_thread()?;
            if !all.iter().any(is_unknown) {
                // The list may lack somebody if another one died while it was read.
                all.extend(of_main_thread()?);
            }
            let (dead, left) = all.into_iter().filter(is_unknown).partition::<Vec<i32>, _>(|pid| reap(*pid));
            alive = left;
            // Who has died since the list was read may have left children to us that are not on it.
            if dead.is_empty() {
                break;
            }
        }
        Some(alive)
    }
}

/// Whether a process runs this very program.
fn is_still_us(pid: i32) -> bool {
    let program = |of: &str| std::fs::read_link(format!("/proc/{of}/exe")).ok();
    program(&pid.to_string()).is_some_and(|path| Some(path) == program("self"))
}

/// Takes a dead child off the table of processes; false if it is alive.
fn reap(pid: i32) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    !matches!(waitid(Id::Pid(Pid::from_raw(pid)), flags), Ok(WaitStatus::StillAlive))
}

/// The children of the main thread, which is where those come whose parents have died.
fn of_main_thread() -> Option<Vec<i32>> {
    let list = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id())).ok()?;
    Some(list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// Whether this system has such a thing as a subreaper, and we are one now.
#[cfg(target_os = "linux")]
pub(crate) fn become_subreaper(is_one: bool) -> bool {
    nix::sys::prctl::set_child_subreaper(is_one).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn become_subreaper(_: bool) -> bool {
    false
}
