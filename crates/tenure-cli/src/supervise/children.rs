//! Whose parent this process is: of what it has started, and of what its commands have left behind.
//!
//! On Linux it is a *child subreaper* (prctl(2)): whoever loses its parent somewhere below it becomes its child, and not that of
//! the system's first process. So nothing that a command has started gets out of sight while tenure lives: no process group or
//! session of its own helps, and no empty environment.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError, RwLock, TryLockError};
use std::time::Duration;

use super::kill::kill;
use super::table::{ProcessEntry, ProcessTable};
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
    /// The main thread's, which is where those come whose parents have died; none where there is no such list.
    list: Option<File>,
}

/// What lost its parent and came to us.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AdoptedProcesses {
    pub(crate) pids: Vec<i32>,
    /// Whether nothing else can be among them. Where the system does not list the main thread's own children, what other threads
    /// have started is among them.
    pub(crate) is_certain: bool,
}

impl Children {
    /// From now on this process takes in whoever loses its parent below it.
    pub(crate) fn gather() -> Children {
        let _its_group_only = become_subreaper(true);
        let list = File::open(format!("/proc/self/task/{}/children", std::process::id())).ok();
        let known = list.as_ref().and_then(listed).unwrap_or_default().into_iter().collect();
        Children { starting: RwLock::default(), known: Mutex::new(known), list }
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
            let children = ProcessTable::read().map(|table| table.children(own).to_vec()).unwrap_or_default();
            let is_stuck =
                |pid: &i32| is_still_us(*pid) && ProcessEntry::of(*pid).is_some_and(|it| it.is_stopped());
            children.into_iter().filter(is_stuck).for_each(|pid| kill(pid, Signal::SIGCONT));
            std::thread::sleep(MOMENT);
        }
    }

    /// A process that was started here was waited for: its number may soon be another's.
    pub(crate) fn forget(&self, pid: i32) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    /// Whether nobody is taken in at present.
    pub(crate) fn has_adopted_nobody(&self) -> bool {
        // Twice: see `foundlings`. Nobody is kept from starting something for this, and who is just being started may look unknown.
        let are_all_known =
            || self.of_main_thread().is_some_and(|all| !all.iter().any(|pid| self.is_unknown(pid)));
        (are_all_known() && are_all_known()) || self.adopted().pids.is_empty()
    }

    /// Who was taken in and is alive. Those who have died are reaped.
    pub(crate) fn adopted(&self) -> AdoptedProcesses {
        let _nobody_starts = self.starting.write().unwrap_or_else(PoisonError::into_inner);
        let is_unknown = |pid: &i32| self.is_unknown(pid);
        let Some(all) = self.foundlings(&is_unknown) else {
            let own = std::process::id().cast_signed();
            let pids = ProcessTable::read().map(|table| table.children(own).to_vec()).unwrap_or_default();
            let is_alive = |pid: &i32| ProcessEntry::of(*pid).is_some_and(|entry| entry.is_alive());
            let pids = pids.into_iter().filter(is_unknown).filter(is_alive).collect();
            return AdoptedProcesses { pids, is_certain: false };
        };
        AdoptedProcesses { pids: all, is_certain: true }
    }

    /// Those on the list of the main thread's children that are alive. None if there is no such list.
    fn foundlings(&self, is_unknown: &impl Fn(&i32) -> bool) -> Option<Vec<i32>> {
        /// More than ever die one after the other while a list is read.
        const MOST: usize = 1000;
        let mut alive = Vec::new();
        for _ in 0..MOST {
            let mut all = self.of_main_thread()?;
            if !all.iter().any(is_unknown) {
                // The list may lack somebody if another one died while it was read.
                all.extend(self.of_main_thread()?);
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

    fn is_unknown(&self, pid: &i32) -> bool {
        !self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(pid)
    }

    fn of_main_thread(&self) -> Option<Vec<i32>> {
        listed(self.list.as_ref()?)
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

/// The numbers in a list, which is read anew from its beginning each time. None if that fails.
fn listed(list: &File) -> Option<Vec<i32>> {
    let (mut text, mut part) = (Vec::new(), [0; 512]);
    loop {
        let read = list.read_at(&mut part, u64::try_from(text.len()).ok()?).ok()?;
        if read == 0 {
            break;
        }
        text.extend_from_slice(part.get(..read)?);
    }
    let text = std::str::from_utf8(&text).ok()?;
    Some(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_list_is_read_to_its_end_and_anew_each_time() {
        let mut file = nameless("anew");
        assert_eq!(listed(&file), Some(Vec::new()));
        let pids: Vec<i32> = (9_000..11_000).collect();
        for pid in &pids {
            write!(file, "{pid} ").unwrap();
        }
        assert_eq!(listed(&file).unwrap(), pids);
        write!(file, "7 ").unwrap();
        assert_eq!(listed(&file).unwrap().last(), Some(&7));
    }

    #[test]
    fn whoever_came_to_us_is_told_from_those_that_were_started_here() {
        let mut list = nameless("told");
        let mut stranger = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = stranger.id().cast_signed();
        write!(list, "{pid} ").unwrap();
        let (starting, known) = (RwLock::default(), Mutex::new(BTreeSet::from([pid])));
        let children = Children { starting, known, list: Some(list) };
        {
            let _being_started = children.starting.read().unwrap();
            assert!(children.has_adopted_nobody(), "nobody is waited for where all are known");
        }
        children.forget(pid);
        assert!(!children.has_adopted_nobody());
        stranger.kill().unwrap();
        let dead = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(Pid::from_raw(pid)), dead).unwrap();
        assert!(children.has_adopted_nobody());
        assert!(stranger.wait().is_err(), "it was reaped");
    }

    /// A file that nobody else has.
    fn nameless(what: &str) -> File {
        let path = std::env::temp_dir().join(format!("tenure-children-{what}-{}", std::process::id()));
        let file = File::options().create_new(true).read(true).append(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }
}
