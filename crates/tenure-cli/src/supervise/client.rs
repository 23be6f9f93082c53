//! This side of the watchdog: starts it, tells it what there is to watch, and starts another if it dies.

use crate::exit::{Failure, INTERNAL};
use crate::supervise::watchdog::{self, Lead, MARK};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;

/// Tells the watchdog.
#[derive(Debug)]
pub(crate) struct Keeper {
    mark: String,
    lead: Lead,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    dog: Child,
    pipe: File,
    groups: BTreeSet<i32>,
    deadline: Duration,
    /// When it was last seen that the watchdog's time had come.
    overdue_at: Option<Duration>,
}

impl State {
    /// To be called before another deadline is told.
    fn note_if_overdue(&mut self, lead: Lead) {
        let now = boottime();
        if !self.deadline.is_zero() && now >= self.deadline.saturating_sub(lead.total()) {
            self.overdue_at = Some(now);
        }
    }
}

impl Keeper {
    /// Starts the watchdog. `mark` must be a text that no other process uses.
    pub(crate) fn start(mark: String, lead: Lead) -> Result<Keeper, Failure> {
        let (dog, pipe) = spawn(&mark, lead).map_err(|error| {
            Failure::new(INTERNAL, format!("the watchdog process can't be started: {error}"))
        })?;
        let state = State { dog, pipe, groups: BTreeSet::new(), deadline: Duration::ZERO, overdue_at: None };
        Ok(Keeper { mark, lead, state: Mutex::new(state) })
    }

    pub(crate) fn lead(&self) -> Lead {
        self.lead
    }

    /// Marks a command's environment, so that the watchdog finds it even if it was never told of it.
    pub(crate) fn mark(&self, command: &mut Command) {
        command.env(MARK, &self.mark);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command is about to be started: until [`Keeper::started`], it is found by its mark.
    pub(crate) fn starting(&self) {
        self.tell(&mut self.state(), "?\n");
    }

    /// It was started, and is watched, or could not be.
    pub(crate) fn started(&self) {
        self.tell(&mut self.state(), "!\n");
    }

    pub(crate) fn watch(&self, group: i32) {
        let mut state = self.state();
        state.groups.insert(group);
        self.tell(&mut state, &format!("+{group}\n"));
    }

    pub(crate) fn forget(&self, group: i32) {
        let mut state = self.state();
        state.groups.remove(&group);
        self.tell(&mut state, &format!("-{group}\n"));
    }

    /// What is watched must be dead in `left` unless this is called again. `left` must be told, and this called, at once: the
    /// clock is read here, so a pause between the two would prolong the deadline. `asked_at` is when it was measured.
    pub(crate) fn prolong(&self, asked_at: Duration, left: Duration) {
        let deadline = asked_at + left;
        let mut state = self.state();
        // Little news is no news: the watchdog need not be woken for it.
        if deadline > state.deadline + self.lead.kill {
            state.note_if_overdue(self.lead);
            state.deadline = deadline;
            self.tell(&mut state, &format!("deadline {}\n", deadline.as_nanos()));
        }
    }

    /// Something more is watched, which must be dead in `left`: what was told last may be too late for that.
    pub(crate) fn not_beyond(&self, asked_at: Duration, left: Duration) {
        let deadline = asked_at + left;
        let mut state = self.state();
        if deadline < state.deadline {
            state.deadline = deadline;
            self.tell(&mut state, &format!("deadline {}\n", deadline.as_nanos()));
        }
    }

    /// Whether the watchdog may have stopped what was started at `began`: its time has come since then. It is as quick as we are,
    /// and quicker when we stand still for a while, so what it has stopped may look as if it had ended by itself.
    pub(crate) fn may_have_stopped(&self, began: Duration) -> bool {
        let mut state = self.state();
        state.note_if_overdue(self.lead);
        state.overdue_at.is_some_and(|at| at >= began)
    }

    fn tell(&self, state: &mut State, line: &str) {
        if state.pipe.write_all(line.as_bytes()).is_err() {
            // Dead or stuck. Without it a command could outlive the lease, so it is replaced at once.
            let _gone = state.dog.kill();
            let _reaped = state.dog.wait();
            if let Ok((dog, pipe)) = spawn(&self.mark, self.lead) {
                (state.dog, state.pipe) = (dog, pipe);
                let mut all = format!("deadline {}\n", state.deadline.as_nanos());
                for group in &state.groups {
                    all.push_str(&format!("+{group}\n"));
                }
                let _retold_next_time = state.pipe.write_all(all.as_bytes());
            }
        }
    }

    /// Nothing runs any more, and nothing will.
    pub(crate) fn dismiss(&self) {
        let _gone_anyway = self.state().pipe.write_all(b"bye\n");
    }
}

fn spawn(mark: &str, lead: Lead) -> std::io::Result<(Child, File)> {
    // By this path it is the same program even if the file was replaced meanwhile.
    let same = std::path::Path::new("/proc/self/exe");
    let program = if same.exists() { same.to_owned() } else { std::env::current_exe()? };
    let mut dog = Command::new(program)
        .args(watchdog::arguments(lead, mark))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .current_dir("/")
        // Out of reach of the terminal's signals.
        .process_group(0)
        .spawn()?;
    let pipe = dog.stdin.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
    let pipe = File::from(OwnedFd::from(pipe));
    // A watchdog that doesn't read must not hold up its keeper.
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((dog, pipe))
}

/// The time, as [`Keeper::prolong`] wants it: to be read *before* asking how long a lease is good.
pub(crate) fn asked_now() -> Duration {
    boottime()
}
