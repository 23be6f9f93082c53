//! The watchdog: a process that outlives tenure for as long as it takes to stop what tenure started.
//!
//! A lease's holder may be killed with SIGKILL or stopped with SIGSTOP, and then can't stop its commands itself. Each `run`
//! and `work` therefore has a second process beside it, which hears by a pipe which process groups there are and until when
//! the lease is good. If the pipe closes without a farewell, or the deadline comes near and is not prolonged, it sends TERM,
//! waits the grace period, and sends KILL, early enough for all of them to be dead before the deadline.
//!
//! Lines: `?` and `!` (a command is about to be started; it was, or was not), `+PGID` and `-PGID` (watch this group; it is
//! gone), `deadline NANOS` (of CLOCK_BOOTTIME), `bye`.
//!
//! Groups that were not registered yet when tenure was killed or stopped are found by a mark in their environment.

use crate::supervise::process::{is_group_alive, signal_group};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid, getsid};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tenure::clock::boottime;

/// The hidden verb.
pub(crate) const VERB: &str = "__watchdog";
/// The environment variable that marks what tenure has started, with a value that no other tenure process has.
pub(crate) const MARK: &str = "TENURE_MARK";

/// How long before the deadline everything must be dead, and how long before that TERM is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lead {
    /// KILL is sent this long before the deadline.
    pub(crate) kill: Duration,
    /// TERM is sent this long before KILL.
    pub(crate) term: Duration,
}

impl Lead {
    /// KILL a 32nd of the ttl before the deadline, and TERM an eighth of it, or the grace period if that is shorter, before KILL.
    pub(crate) fn new(ttl: Duration, grace: Duration) -> Lead {
        let kill = (ttl / 32).clamp(Duration::from_millis(5), Duration::from_millis(300));
        Lead { kill, term: grace.min(ttl / 8) }
    }

    /// Both together: when this much is left, stopping must begin.
    pub(crate) fn total(self) -> Duration {
        self.kill + self.term
    }
}

/// The arguments that [`main`] takes.
pub(crate) fn arguments(lead: Lead, mark: &str) -> [String; 4] {
    [VERB.to_owned(), lead.term.as_millis().to_string(), lead.kill.as_millis().to_string(), mark.to_owned()]
}

/// Runs the watchdog until the farewell, or until all is stopped after its parent's death.
pub(crate) fn main(arguments: &[String]) -> Option<()> {
    let [term, kill, mark] = arguments else { return None };
    let millis = |text: &String| text.parse().ok().map(Duration::from_millis);
    let lead = Lead { kill: millis(kill)?, term: millis(term)? };
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // Whoever ends a whole control group or session means the commands too, and they are stopped in order by us.
        let _kept = signal_hook::flag::register(signal as i32, Arc::new(AtomicBool::new(false)));
    }
    let session = getsid(None).ok();
    let mut dog = Dog {
        lead,
        mark: mark.clone(),
        session,
        groups: BTreeSet::new(),
        starting: 0,
        deadline: None,
        doomed: None,
    };
    dog.watch();
    Some(())
}

struct Doomed {
    groups: BTreeSet<i32>,
    kill_at: Duration,
}

struct Dog {
    lead: Lead,
    mark: String,
    session: Option<Pid>,
    groups: BTreeSet<i32>,
    /// How many commands are being started, whose groups are not known yet.
    starting: u32,
    /// On CLOCK_BOOTTIME.
    deadline: Option<Duration>,
    doomed: Option<Doomed>,
}

enum Heard {
    Lines,
    Bye,
    Closed,
}

impl Dog {
    fn watch(&mut self) {
        // Not through `Stdin`, whose buffer would hide from `poll` that there is something to read.
        let Ok(mut input) = std::io::stdin().as_fd().try_clone_to_owned().map(File::from) else {
            return self.orphaned();
        };
        let mut text = Vec::new();
        loop {
            let now = boottime();
            if self.doomed.as_ref().is_some_and(|doomed| now >= doomed.kill_at) {
                self.kill();
            }
            if self.has_charges()
                && self.deadline.is_some_and(|deadline| now >= deadline.saturating_sub(self.lead.total()))
            {
                self.doom(now, false);
            }
            if !readable(&input, self.next().map(|at| at.saturating_sub(now))) {
                continue;
            }
            match self.hear(&mut input, &mut text) {
                Heard::Lines => {}
                Heard::Bye => return,
                Heard::Closed => return self.orphaned(),
            }
        }
    }

    fn has_charges(&self) -> bool {
        !self.groups.is_empty() || self.starting > 0
    }

    fn next(&self) -> Option<Duration> {
        let kill = self.doomed.as_ref().map(|doomed| doomed.kill_at);
        let term =
            self.deadline.filter(|_| self.has_charges()).map(|at| at.saturating_sub(self.lead.total()));
        kill.into_iter().chain(term).min()
    }

    fn hear(&mut self, input: &mut impl Read, text: &mut Vec<u8>) -> Heard {
        let mut buffer = [0; 4096];
        match input.read(&mut buffer) {
            Ok(0) => return Heard::Closed,
            Ok(n) => text.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Heard::Lines,
            Err(_) => return Heard::Closed,
        }
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines: Vec<u8> = text.drain(..end).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            if line == "bye" {
                return Heard::Bye;
            } else if line == "?" {
                self.starting += 1;
            } else if line == "!" {
                self.starting = self.starting.saturating_sub(1);
            } else if let Some(group) = line.strip_prefix('+').and_then(|group| group.parse().ok()) {
                self.groups.insert(group);
            } else if let Some(group) = line.strip_prefix('-').and_then(|group| group.parse::<i32>().ok()) {
                self.groups.remove(&group);
                if let Some(doomed) = &mut self.doomed {
                    doomed.groups.remove(&group);
                }
            } else if let Some(nanos) = line.strip_prefix("deadline ").and_then(|nanos| nanos.parse().ok()) {
                self.deadline = Some(Duration::from_nanos(nanos));
            }
        }
        Heard::Lines
    }

    /// Sends TERM to all groups, and means to send KILL.
    fn doom(&mut self, now: Duration, orphaned: bool) {
        let mut groups = std::mem::take(&mut self.groups);
        // Counted once: whoever goes on and tells of a group after this is dealt with then.
        let starting = std::mem::take(&mut self.starting) > 0;
        if orphaned || starting || self.parent_is_stopped() {
            groups.extend(self.marked());
        }
        for group in &groups {
            signal_group(*group, Signal::SIGTERM);
        }
        let latest = self.deadline.map_or(now, |deadline| deadline.saturating_sub(self.lead.kill));
        let kill_at = latest.min(now + self.lead.term);
        if let Some(earlier) = self.doomed.take() {
            groups.extend(earlier.groups);
        }
        self.doomed = Some(Doomed { groups, kill_at });
    }

    fn kill(&mut self) {
        for group in self.doomed.take().map(|doomed| doomed.groups).unwrap_or_default() {
            signal_group(group, Signal::SIGKILL);
        }
    }

    /// The pipe has closed without a farewell: tenure is dead, and nobody else will stop its commands.
    fn orphaned(&mut self) {
        let now = boottime();
        self.doom(now, true);
        let kill_at = self.doomed.as_ref().map_or(now, |doomed| doomed.kill_at);
        loop {
            let left = kill_at.saturating_sub(boottime());
            let alive = self
                .doomed
                .as_ref()
                .is_some_and(|doomed| doomed.groups.iter().any(|group| is_group_alive(*group)));
            if left.is_zero() || !alive {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
        self.kill();
        // What was being started just then, or has left its group.
        for group in self.marked() {
            signal_group(group, Signal::SIGKILL);
        }
    }

    fn parent_is_stopped(&self) -> bool {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", nix::unistd::getppid())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 't']))
    }

    /// Groups in our session whose members carry our mark, from /proc; none on systems without it. A process that has begun a
    /// session of its own was meant to live on.
    fn marked(&self) -> BTreeSet<i32> {
        let mark = format!("{MARK}={}", self.mark);
        let own = nix::unistd::getpgrp();
        let mut groups = BTreeSet::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
                let pid = Pid::from_raw(pid);
                match getpgid(Some(pid)) {
                    Ok(group) if group != own && getsid(Some(pid)).ok() == self.session => {
                        groups.insert(group.as_raw());
                    }
                    _ => {}
                }
            }
        }
        groups
    }
}

/// Waits until there is something to read; false when `within` is over.
fn readable(input: &impl AsFd, within: Option<Duration>) -> bool {
    let timeout = match within {
        // Rounded up, so that a wait is never over a little before its time.
        Some(within) => PollTimeout::try_from(within.as_millis() + 1).unwrap_or(PollTimeout::MAX),
        None => PollTimeout::NONE,
    };
    let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopping_begins_well_before_a_renewal_that_fails_once() {
        for millis in [50, 1000, 10_000, 86_400_000] {
            let ttl = Duration::from_millis(millis);
            // Belief lasts 0.82 ttl, and the first renewal is due after a third of it.
            assert!(Lead::new(ttl, Duration::MAX).total() < ttl / 3, "{ttl:?}");
        }
        assert_eq!(
            Lead::new(Duration::from_secs(8), Duration::from_millis(100)).term,
            Duration::from_millis(100)
        );
    }
}
