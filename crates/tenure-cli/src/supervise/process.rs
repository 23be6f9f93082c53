//! Commands: each in a process group of its own, and kept from being reaped while the number of that is still in use. A command
//! is over when all that it has started is over, in whatever group or session that is.

use super::client::{SupervisedCommand, Watchdogs};
use super::kill::{is_group_gone, kill, signal_group};
use super::suspend;
use super::table::ProcessEntry;
use super::termination::Termination;
use crate::config::{FoundProgram, Template};
use crate::exit::{self, Failure};
use crate::text::escaped;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{AccessFlags, Pid, access};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;

/// The means to stop a command from another thread. It holds nothing while the group's number may belong to another.
#[derive(Debug, Default)]
pub(crate) struct ProcessGroup {
    held: Mutex<Option<GuardedCommand>>,
    was_signalled: AtomicBool,
    is_resumed: AtomicBool,
}

#[derive(Debug)]
struct GuardedCommand {
    subject: SupervisedCommand,
    watchdogs: Arc<Watchdogs>,
}

impl ProcessGroup {
    /// Signals all of the command, if it exists: its group, and what has left that.
    pub(crate) fn signal(&self, signal: Signal) {
        // Held while signalling, so that the group can't be reaped in between.
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(GuardedCommand { subject, watchdogs }) = &*held {
            self.was_signalled.fetch_or(signal != Signal::SIGCONT, Ordering::SeqCst);
            let strays: Vec<i32> = watchdogs
                .alive(subject)
                .into_iter()
                .filter(|entry| entry.group != subject.group)
                .map(|entry| entry.pid)
                .collect();
            // What is stopped can't do what it is told.
            let follow = (signal == Signal::SIGTERM).then_some(Signal::SIGCONT);
            for signal in std::iter::once(signal).chain(follow) {
                signal_group(subject.group, signal);
                strays.iter().for_each(|pid| kill(*pid, signal));
            }
        }
    }

    /// Passes a signal on to CMD itself, as long as it runs.
    pub(crate) fn pass_on(&self, signal: Signal) {
        self.while_it_runs(|group| kill(group, signal));
    }

    /// What the keyboard does: an interrupt for its group, as long as CMD runs.
    pub(super) fn interrupt(&self) {
        self.while_it_runs(|group| signal_group(group, Signal::SIGINT));
    }

    fn while_it_runs(&self, signal: impl FnOnce(i32)) {
        // Held while signalling, so that it can't be reaped in between.
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(GuardedCommand { subject, .. }) = &*held
            && !subject.is_reaped
        {
            signal(subject.group);
        }
    }

    /// Whether the command is continued when the terminal suspends it where nobody could continue us.
    pub(super) fn resume(&self, is_resumed: bool) {
        self.is_resumed.store(is_resumed, Ordering::SeqCst);
    }

    fn set(&self, held: Option<GuardedCommand>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }
}

/// A running command.
pub(crate) struct RunningCommand {
    child: Child,
    subject: SupervisedCommand,
    watchdogs: Arc<Watchdogs>,
    process_group: Arc<ProcessGroup>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct CommandExit {
    pub(crate) status: ExitStatus,
    /// What it left running, and was ended then.
    pub(crate) left: Vec<ProcessEntry>,
    /// Whether another command may have left that, which was over before.
    pub(crate) is_doubtful: bool,
    /// Whether something of that can't be killed, and may still act.
    pub(crate) is_stuck: bool,
    /// Whether nothing is alive that it may have started.
    pub(crate) is_all_over: bool,
}

impl RunningCommand {
    /// Starts `command` in a group of its own, which can be signalled, and watched.
    pub(crate) fn start(
        mut command: Command,
        watchdogs: Arc<Watchdogs>,
        process_group: Arc<ProcessGroup>,
    ) -> std::io::Result<RunningCommand> {
        let (child, subject) = watchdogs.start_command(&mut command)?;
        process_group
            .set(Some(GuardedCommand { subject: subject.clone(), watchdogs: Arc::clone(&watchdogs) }));
        Ok(RunningCommand { child, subject, watchdogs, process_group })
    }

    pub(crate) fn group(&self) -> i32 {
        self.subject.group
    }

    /// Waits until the command has ended, and then ends what it has left running, wherever that is.
    /// What is left has as long between TERM and KILL as `grace` says then.
    pub(crate) fn attend(mut self, grace: impl FnOnce() -> Duration) -> std::io::Result<CommandExit> {
        let group = self.subject.group;
        let id = || Id::Pid(Pid::from_raw(group));
        loop {
            match waitid(id(), WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT) {
                Ok(WaitStatus::Stopped(..)) => self.see_to_stop(),
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Not reaped yet, so the number is still its own: now let go of it, then reap.
        self.process_group.set(None);
        self.watchdogs.forget(group);
        let status = self.child.wait()?;
        self.watchdogs.reaped(group);
        self.subject.is_reaped = true;
        self.watchdogs.has_ended(&self.subject);
        Ok(self.end_leftovers(status, grace()))
    }

    /// CMD stands still: returns when it goes on, or all of us have stood still, or it stays as it is, which is not told again.
    fn see_to_stop(&self) {
        const MOMENT: Duration = Duration::from_millis(5);
        /// So often one asks for the terminal: more than its borrower needs to hear of it, and it may be gone.
        const TRIES: u32 = 2000;
        let id = || Id::Pid(Pid::from_raw(self.subject.group));
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        let stopped_by = || match waitid(id(), flags) {
            Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
            _ => None,
        };
        let mut tries = TRIES;
        // Looked at each time: who was continued after Ctrl-Z may already stand still again, for want of the terminal.
        while let Some(signal) = stopped_by() {
            let wants_terminal = [Signal::SIGTTIN, Signal::SIGTTOU].contains(&signal);
            let by_terminal = wants_terminal || signal == Signal::SIGTSTP;
            let is_still_so = || stopped_by() == Some(signal);
            if wants_terminal && tries > 0 && suspend::ask_for_terminal(self.subject.group) {
                tries -= 1;
            } else if !(by_terminal && suspend::follow_command(signal, is_still_so)) {
                // Take the news off the queue, or it is told again at once.
                let _seen = waitid(id(), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG);
                if signal == Signal::SIGTSTP && self.process_group.is_resumed.load(Ordering::SeqCst) {
                    self.process_group.signal(Signal::SIGCONT);
                }
                return;
            }
            std::thread::sleep(MOMENT);
        }
    }

    /// What the command has left running gets TERM, and KILL after `grace`. Says what it was, unless the command was being
    /// stopped already, and whether something is alive even then.
    fn end_leftovers(&self, status: ExitStatus, grace: Duration) -> CommandExit {
        const STEP: Duration = Duration::from_millis(5);
        /// What ends with the command needs a moment for it.
        const MOMENT: Duration = Duration::from_millis(25);
        let SupervisedCommand { group, .. } = self.subject;
        // As long as the group has a member, its number can't be given to another.
        let is_all_over = || is_group_gone(group) && self.watchdogs.has_adopted_nobody();
        if is_all_over() {
            let left = Vec::new();
            return CommandExit { status, left, is_doubtful: false, is_stuck: false, is_all_over: true };
        }
        let was_signalled = self.process_group.was_signalled.load(Ordering::SeqCst);
        self.process_group.set(Some(GuardedCommand {
            subject: self.subject.clone(),
            watchdogs: Arc::clone(&self.watchdogs),
        }));
        self.watchdogs.watch(group);
        let after_a_pause = || {
            std::thread::sleep(STEP);
            self.watchdogs.alive(&self.subject)
        };
        let mut left = self.watchdogs.alive(&self.subject);
        let moment = boottime() + MOMENT.min(grace);
        while !left.is_empty() && !was_signalled && boottime() < moment {
            left = after_a_pause();
        }
        let (is_doubtful, mut is_stuck) = (self.watchdogs.is_doubtful(&left), false);
        if !left.is_empty() {
            self.process_group.signal(Signal::SIGTERM);
            let mut ending = Termination::new(grace);
            while !is_stuck && !after_a_pause().is_empty() {
                let (is_due, is_overdue) = ending.judge(boottime());
                if is_due {
                    self.process_group.signal(Signal::SIGKILL);
                }
                is_stuck = is_overdue;
            }
        }
        self.process_group.set(None);
        self.watchdogs.forget(group);
        let left = if was_signalled { Vec::new() } else { left };
        CommandExit { status, left, is_doubtful, is_stuck, is_all_over: is_all_over() }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.watchdogs.is_over(&self.subject);
    }
}

/// What is said of a command that has left processes running, or of the last one that may have.
pub(crate) fn left_behind(left: &[ProcessEntry], is_doubtful: bool) -> Option<String> {
    const SHOWN: usize = 3;
    let shown: Vec<String> =
        left.iter().take(SHOWN).map(|entry| format!("{} ({})", escaped(&entry.name), entry.pid)).collect();
    let more = match left.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let it = if left.len() == 1 { "it was" } else { "they were" };
    let or_another = if is_doubtful { ", or another that ended before did" } else { "" };
    (!left.is_empty()).then(|| format!("left {}{more} running{or_another}; {it} ended", shown.join(", ")))
}

/// A command's status as the shell tells it: its own, or 128 and the number of the signal that ended it.
pub(crate) fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The command, whose program is there: that there is none is told before anything else is done.
pub(crate) fn found(command: Template) -> Result<Template, Failure> {
    let program = find(&command.program)?;
    Ok(command.looked_for(program))
}

/// Where a program is, as execvp(3) would find it. That there is none is told before anything else is done.
pub(crate) fn find(program: &OsStr) -> Result<FoundProgram, Failure> {
    let path = path_of(program)?;
    Ok(FoundProgram { is_bare_script: is_bare_script(&path), path })
}

/// Whether a file may be executed, is text, as shells judge it by its first line, and does not say whose.
fn is_bare_script(path: &Path) -> bool {
    const LOOKED_AT: u64 = 256;
    if access(path, AccessFlags::X_OK).is_err() {
        return false;
    }
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut beginning));
    let first = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_text = |byte: &u8| !byte.is_ascii_control() || b"\t\r".contains(byte);
    // Others' formats, which the system may know how to run, begin with something else.
    read.is_ok()
        && !first.starts_with(b"#!")
        && first.iter().all(is_text)
        && std::str::from_utf8(first).is_ok()
}

fn path_of(program: &OsStr) -> Result<PathBuf, Failure> {
    let missing = || not_started(program, &std::io::ErrorKind::NotFound.into());
    if program.as_bytes().contains(&b'/') {
        return if Path::new(program).exists() { Ok(program.into()) } else { Err(missing()) };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    // An empty entry is the working directory.
    let places = std::env::split_paths(&path).map(|directory| Path::new(".").join(directory).join(program));
    let places: Vec<PathBuf> = places.filter(|path| path.exists()).collect();
    let is_program = |path: &&PathBuf| path.is_file() && access(*path, AccessFlags::X_OK).is_ok();
    places.iter().find(is_program).or(places.first()).cloned().ok_or_else(missing)
}

/// What only a shell takes for a command.
#[derive(Debug, PartialEq, Eq)]
enum Habit {
    /// What stands for a unit in arguments.
    Token,
    /// As flock -c, xargs -I and GNU parallel have it.
    Line,
    Builtin,
    Assignment,
}

fn habit(program: &OsStr) -> Option<Habit> {
    const BUILTINS: [&str; 12] =
        [".", "alias", "cd", "eval", "exec", "exit", "export", "set", "source", "trap", "ulimit", "umask"];
    let is_line = program.as_bytes().iter().any(|byte| b" \t;|&<>".contains(byte));
    let name = program.to_str()?;
    let is_assignment = name.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    match (is_line, is_assignment) {
        _ if name == "{}" => Some(Habit::Token),
        _ if BUILTINS.contains(&name) => Some(Habit::Builtin),
        (_, true) => Some(Habit::Assignment),
        (true, _) => Some(Habit::Line),
        _ => None,
    }
}

/// Whether another program runs it.
fn is_script(program: &OsStr) -> bool {
    let mut start = [0; 2];
    let read =
        std::fs::File::open(program).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && start == *b"#!"
}

/// A command that could not be started, in the shell's terms.
pub(crate) fn not_started(program: &OsStr, error: &std::io::Error) -> Failure {
    let shown = escaped(&program.to_string_lossy());
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            let hint = match habit(program) {
                Some(Habit::Token) => {
                    "; it stands for a unit in CMD's arguments; for units that are commands, write: -- sh -c {}"
                }
                Some(Habit::Line) => "; commands are not given to a shell, write: -- sh -c 'LINE'",
                Some(Habit::Builtin) => "; it is a word of the shell's, write: -- sh -c 'LINE'",
                Some(Habit::Assignment) => "; a variable is set by: -- env NAME=VALUE CMD",
                // The file is there: it is what runs it that is not.
                None if program.as_bytes().contains(&b'/') && Path::new(program).exists() => {
                    let what = if is_script(program) {
                        "interpreter (in its first line, behind #!)"
                    } else {
                        "loader, or the library of its kind of program,"
                    };
                    let text = format!("{shown}: can't be executed: its {what} is missing");
                    return Failure::new(exit::CANNOT_EXECUTE, text);
                }
                None => "",
            };
            Failure::new(exit::NOT_FOUND, format!("{shown}: command not found{hint}"))
        }
        _ => Failure::new(exit::CANNOT_EXECUTE, format!("{shown}: can't be executed: {error}")),
    }
}
