//! Commands: each in a process group of its own, so that all of it can be stopped, and kept from being reaped while its
//! number is still in use.

use crate::exit::{self, Failure};
use crate::supervise::client::Keeper;
use crate::text::escaped;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;

/// Signals a whole group. That it is gone already is no failure.
pub(crate) fn signal_group(group: i32, signal: Signal) {
    // 0 and 1 would be our own group and everything.
    if group > 1 {
        let _gone = killpg(Pid::from_raw(group), signal);
    }
}

/// Whether anything runs in a group. What is dead and waits for a parent to notice, which some containers' first process
/// never does, does not count.
pub(crate) fn is_group_alive(group: i32) -> bool {
    if group <= 1 || killpg(Pid::from_raw(group), None).is_err() {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let mut known = false;
    for process in processes
        .flatten()
        .filter(|process| process.file_name().as_bytes().first().is_some_and(u8::is_ascii_digit))
    {
        // After the name, which may hold anything: state, parent, group (proc(5)).
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, of) = (fields.next(), fields.nth(1).and_then(|of| of.parse::<i32>().ok()));
        known |= of.is_some();
        if of == Some(group) && !matches!(state, Some("Z" | "X")) {
            return true;
        }
    }
    // Without a /proc that tells, the group must be taken for alive.
    !known
}

/// The means to stop a command from another thread. It holds nothing while the group's number may belong to another.
#[derive(Debug, Default)]
pub(crate) struct Leash(Mutex<Option<i32>>);

impl Leash {
    /// Signals the group if it exists.
    pub(crate) fn signal(&self, signal: Signal) {
        // Held while signalling, so that the group can't be reaped in between.
        let group = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = *group {
            signal_group(group, signal);
        }
    }

    fn set(&self, group: Option<i32>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = group;
    }
}

/// A running command.
pub(crate) struct Running {
    child: Child,
    group: i32,
    keeper: Arc<Keeper>,
    leash: Arc<Leash>,
}

impl Running {
    /// Starts `command` in a group of its own, on the leash and watched.
    pub(crate) fn start(
        mut command: Command,
        keeper: Arc<Keeper>,
        leash: Arc<Leash>,
    ) -> std::io::Result<Running> {
        keeper.starting();
        let child = command.process_group(0).spawn();
        if let Ok(child) = &child {
            let group = i32::try_from(child.id()).unwrap_or(0);
            leash.set(Some(group));
            keeper.watch(group);
        }
        keeper.started();
        let child = child?;
        let group = i32::try_from(child.id()).unwrap_or(0);
        Ok(Running { child, group, keeper, leash })
    }

    /// The command's standard input, if it is a pipe.
    pub(crate) fn input(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    pub(crate) fn group(&self) -> i32 {
        self.group
    }

    /// Waits until the command has ended, and then stops what it has left running in its group. `stopped` is told when the
    /// command has been stopped by a signal, as a terminal does.
    pub(crate) fn attend(mut self, grace: Duration, stopped: impl Fn(Signal)) -> std::io::Result<ExitStatus> {
        let id = || Id::Pid(Pid::from_raw(self.group));
        loop {
            match waitid(id(), WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT) {
                Ok(WaitStatus::Stopped(_, signal)) => {
                    // Take the news off the queue, or it is told again at once.
                    let _seen = waitid(id(), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG);
                    stopped(signal);
                }
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Not reaped yet, so the number is still its own: now let go of it, then reap.
        self.leash.set(None);
        self.keeper.forget(self.group);
        let status = self.child.wait()?;
        self.stop_leftovers(grace);
        Ok(status)
    }

    fn stop_leftovers(&self, grace: Duration) {
        const STEP: Duration = Duration::from_millis(5);
        let remains = || is_group_alive(self.group);
        // As long as the group has a member, its number can't be given to another.
        if !remains() {
            return;
        }
        self.leash.set(Some(self.group));
        self.keeper.watch(self.group);
        for (signal, patience) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, Duration::from_secs(2))] {
            signal_group(self.group, signal);
            let end = boottime() + patience;
            while remains() && boottime() < end {
                std::thread::sleep(STEP);
            }
        }
        self.leash.set(None);
        self.keeper.forget(self.group);
    }
}

/// A command's status as the shell tells it: its own, or 128 and the number of the signal that ended it.
pub(crate) fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Whether there is such a program at all, told before anything else is done.
pub(crate) fn find(program: &OsStr) -> Result<(), Failure> {
    let missing = || not_started(program, &std::io::ErrorKind::NotFound.into());
    if program.as_bytes().contains(&b'/') {
        return if Path::new(program).exists() { Ok(()) } else { Err(missing()) };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).exists());
    if found { Ok(()) } else { Err(missing()) }
}

/// A command that could not be started, in the shell's terms.
pub(crate) fn not_started(program: &OsStr, error: &std::io::Error) -> Failure {
    let program = escaped(&program.to_string_lossy());
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(exit::NOT_FOUND, format!("{program}: command not found"))
        }
        _ => Failure::new(exit::CANNOT_EXECUTE, format!("{program}: can't be executed: {error}")),
    }
}
