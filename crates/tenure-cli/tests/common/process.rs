//! Processes: what they say, how they end, what they have started, and what is done to them.

use super::waiting::{wait_for, wait_until};
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

/// A process that is killed at the end of its test if it is still there.
pub struct Process(Child);

impl From<Child> for Process {
    fn from(child: Child) -> Process {
        Process(child)
    }
}

impl Process {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// Dies with all that it has started, its watchdogs among it, as when the host loses its power: nobody is left who could give
    /// anything back.
    pub fn die_with_its_host(&self) {
        self.signal(Signal::SIGSTOP);
        // It starts nothing any more.
        wait_until("it to stand still", || are_all_stopped(self.id()));
        let signal = |pid: i32, signal| nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
        // None of them may see another one's death, and act on it.
        let (mut todo, mut all) = (vec![self.id().cast_signed()], Vec::new());
        while let Some(pid) = todo.pop() {
            let _gone = signal(pid, Signal::SIGSTOP);
            todo.extend(children_of(pid));
            all.push(pid);
        }
        // Parents are the last: the system continues what is stopped in a group of which the last parent dies.
        for pid in all.into_iter().rev() {
            let _gone = signal(pid, Signal::SIGKILL);
        }
    }

    /// Once more, as a person does: what comes within 50 ms of the first is taken for the same.
    pub fn signal_again(&self, signal: Signal) {
        std::thread::sleep(Duration::from_millis(60));
        self.signal(signal);
    }

    /// Waits until it handles INT, and so all that it listens to: what comes before ends it like any program.
    #[track_caller]
    pub fn await_signals(&self) {
        wait_until("it to handle signals", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0)
        });
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Its status, when it ends, as a shell tells it: its exit code, or 128 and the signal that ended it.
    #[track_caller]
    pub fn wait(&mut self) -> i32 {
        shell_status(self.wait_status())
    }

    /// How it ended.
    #[track_caller]
    pub fn wait_status(&mut self) -> ExitStatus {
        wait_for("the process to end", || self.0.try_wait().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _over = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        Ran {
            code: shell_status(output.status),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The first line that a command writes to standard error, after which it is killed.
pub fn first_words(command: &mut Command) -> String {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    line
}

/// A status as a shell tells it.
pub fn shell_status(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Whether a process is there and not merely waiting to be reaped.
pub fn is_alive(pid: i32) -> bool {
    let stat =
        std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

/// Those of all its threads.
pub fn children_of(pid: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_one = |entry: std::fs::DirEntry| {
        let child: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent: i32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        (parent == pid).then_some(child)
    };
    processes.filter_map(is_one).collect()
}

/// Or dead.
pub(super) fn are_all_stopped(process: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        state.is_none_or(|state| matches!(state, 'T' | 'Z' | 'X'))
    })
}

/// A pipe that takes no more, for as long as its reader is kept and does not read.
pub fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    for size in [4096, 1] {
        while std::io::Write::write(&mut writer, &vec![b'.'; size]).is_ok() {}
    }
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}
