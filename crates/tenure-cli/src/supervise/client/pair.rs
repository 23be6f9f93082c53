//! The pair of watchdogs: each is started, is told what there is to watch, and has another one in its place once it is of no use.

use super::super::children::Children;
use super::super::helper;
use super::super::mark::MARK;
use super::super::watchdog::{self, LeadTime};
use super::super::will::Will;
use super::{Watchdogs, WatchdogsState};
use crate::pipe::write_within;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a watchdog that has just been started may take to take in all that there is to watch: more, perhaps, than a pipe holds.
const PATIENCE: Duration = Duration::from_secs(1);

/// When a watchdog is started: with us, or when commands may have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    First,
    Late,
}

#[derive(Debug)]
pub(super) struct WatchdogChild {
    pub(super) child: Child,
    pipe: File,
}

impl Watchdogs {
    pub(super) fn tell(&self, state: &mut WatchdogsState, line: &str) {
        self.tell_within(state, line, Duration::ZERO);
    }

    /// What may be more than a pipe holds is taken in meanwhile.
    pub(super) fn tell_at_length(&self, state: &mut WatchdogsState, line: &str) {
        self.tell_within(state, line, PATIENCE);
    }

    fn tell_within(&self, state: &mut WatchdogsState, line: &str, patience: Duration) {
        let unheard =
            |watchdog: &mut WatchdogChild| write_within(&watchdog.pipe, line.as_bytes(), patience).is_err();
        let mut deaf = Vec::new();
        for (n, watchdog) in state.watchdogs.iter_mut().enumerate() {
            if unheard(watchdog) {
                // Dead or stuck. Without it a command could outlive the lease, so it is replaced at once.
                let _gone = watchdog.child.kill();
                deaf.push(n);
            }
        }
        self.replace(state, &deaf);
    }

    /// Replaces those of the watchdogs that are of no use any more.
    fn replace(&self, state: &mut WatchdogsState, useless: &[usize]) {
        self.remove(state, useless);
        if state.watchdogs.len() < state.wanted && !state.is_dismissed {
            // If that can't be done now, it is tried again with the next news.
            let _incomplete = self.complete(state, When::Late);
        }
    }

    /// Starts those of the watchdogs that are missing, and tells them all.
    pub(super) fn complete(&self, state: &mut WatchdogsState, when: When) -> std::io::Result<()> {
        let is_news = state.watchdogs.len() < state.wanted;
        while state.watchdogs.len() < state.wanted {
            state.watchdogs.push(spawn(&self.children, &self.mark, self.lead)?);
        }
        if is_news {
            let mut all = String::new();
            if !state.deadline.is_zero() {
                all.push_str(&format!("deadline {}\n", state.deadline.as_nanos()));
            }
            for group in &state.groups {
                all.push_str(&format!("+{group}\n"));
            }
            for (pid, start) in &state.adopted {
                all.push_str(&format!("={pid} {start}\n"));
            }
            if when == When::Late || !is_first_thread() {
                all.push_str("late\n");
            }
            all.extend(state.will.as_ref().and_then(Will::line));
            let (mut first, mut deaf) = (None, Vec::new());
            for (n, watchdog) in state.watchdogs.iter_mut().enumerate() {
                // The second waits for what the first does.
                let role = first.map_or("first\n".to_owned(), |first| format!("after {first}\n"));
                if write_within(&watchdog.pipe, format!("{role}{all}").as_bytes(), PATIENCE).is_err() {
                    // It may know a half of it, and a half of a number at the end: it must not act by that.
                    let _gone = watchdog.child.kill();
                    deaf.push(n);
                    continue;
                }
                first = first.or(Some(watchdog.child.id()));
            }
            if !deaf.is_empty() {
                self.remove(state, &deaf);
                return Err(std::io::Error::other("it does not take in what it is told"));
            }
        }
        Ok(())
    }

    fn remove(&self, state: &mut WatchdogsState, useless: &[usize]) {
        for n in useless.iter().rev() {
            let mut watchdog = state.watchdogs.remove(*n);
            let _reaped = watchdog.child.wait();
            self.children.forget(watchdog.child.id().cast_signed());
        }
    }

    /// Something that we are the parent of has changed.
    pub(super) fn see_to_children(&self) {
        // Those who have died are reaped by this.
        let adopted = self.children.adopted();
        let mut state = self.state();
        self.tell_adopted(&mut state, &adopted);
        let is_dead = |watchdog: &mut WatchdogChild| !matches!(watchdog.child.try_wait(), Ok(None));
        let dead: Vec<usize> = state
            .watchdogs
            .iter_mut()
            .enumerate()
            .filter_map(|(n, watchdog)| is_dead(watchdog).then_some(n))
            .collect();
        self.replace(&mut state, &dead);
        state.dismissed.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    /// Nothing runs any more, and nothing will.
    pub(crate) fn dismiss(&self) {
        let mut state = self.state();
        state.is_dismissed = true;
        // With its pipe closed a watchdog does not wait for more news: it has ended by the time that the lease is given up.
        for WatchdogChild { child, mut pipe } in std::mem::take(&mut state.watchdogs) {
            let _gone_anyway = pipe.write_all(b"bye\n");
            state.dismissed.push(child);
        }
    }
}

/// Whether this thread is the one to which processes come that lose their parent.
#[cfg(target_os = "linux")]
fn is_first_thread() -> bool {
    nix::unistd::gettid() == nix::unistd::getpid()
}

#[cfg(not(target_os = "linux"))]
fn is_first_thread() -> bool {
    false
}

fn spawn(children: &Children, mark: &str, lead: LeadTime) -> std::io::Result<WatchdogChild> {
    let mut watchdog = Command::new(helper::own_program()?);
    watchdog
        .args(watchdog::arguments(lead, mark))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // Out of reach of the terminal's signals.
        .process_group(0);
    // An environment that is as ours need not be copied.
    if std::env::var_os(MARK).is_some() {
        // Those who stop a command that we run in must not stop who stops ours.
        watchdog.env_remove(MARK);
    }
    let mut child = children.start(&mut watchdog)?;
    let pipe = child.stdin.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
    let pipe = File::from(OwnedFd::from(pipe));
    // A watchdog that doesn't read must not hold up what tells it.
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(WatchdogChild { child, pipe })
}
