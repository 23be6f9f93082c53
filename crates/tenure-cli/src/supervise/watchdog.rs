//! The watchdog: a process that outlives tenure for as long as it takes to stop what tenure started.
//!
//! A lease's holder may be killed with SIGKILL or stopped with SIGSTOP, and then can't stop its commands itself. Each `run`,
//! `elect`, `cron`, `range` and `work` therefore has two processes beside it, which hear by a pipe which process groups there are and
//! until when the lease is good. If the pipe closes without a farewell, or the deadline comes near and is not prolonged, the first
//! sends TERM, waits the grace period, and sends KILL, early enough for all of them to be dead before the deadline. The second
//! does the same if the first is dead or stopped. What they are told is in `lines.rs`, and what is to be stopped in `targets.rs`.
//!
//! What has left its group, and groups that were not registered yet when tenure was killed or stopped, are found by a mark in
//! their environment, and by their descent.

mod lines;
mod targets;

use super::helper;
use super::mark;
use super::survivors::Witness;
use super::table::{ProcessEntry, ProcessTable};
use super::will::Will;
use lines::{LineReader, WatchdogLine};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use targets::{Doomed, Targets, is_there};
use tenure::clock::boottime;

/// The hidden verb.
pub(crate) const VERB: &str = "__watchdog";

/// How long before the deadline everything must be dead, and how long before that TERM is sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeadTime {
    /// KILL is sent this long before the deadline.
    pub(crate) kill: Duration,
    /// TERM is sent this long before KILL.
    pub(crate) term: Duration,
}

impl LeadTime {
    /// KILL a 32nd of the ttl before the deadline, and TERM an eighth of it, or the grace period if that is shorter, before KILL.
    pub(crate) fn new(ttl: Duration, grace: Duration) -> LeadTime {
        let kill = (ttl / 32).clamp(Duration::from_millis(5), Duration::from_millis(300));
        LeadTime { kill, term: grace.min(ttl / 8) }
    }

    /// Both together: when this much is left, stopping must begin.
    pub(crate) fn total(self) -> Duration {
        self.kill + self.term
    }

    /// How long before its own deadline a command must be dead for the watchdogs to spare those beside it. They know one deadline for all, the
    /// first, and begin that much earlier: by the lead time, and by what is too little to be told them. The rest is for its death to be seen.
    pub(crate) fn beside_others(self) -> Duration {
        self.total() + self.kill * 2
    }
}

/// The arguments that [`main`] takes.
pub(crate) fn arguments(lead: LeadTime, mark: &str) -> [String; 4] {
    [VERB.to_owned(), lead.term.as_millis().to_string(), lead.kill.as_millis().to_string(), mark.to_owned()]
}

/// Runs the watchdog until the farewell, or until all is stopped after its parent's death.
pub(crate) fn main(arguments: &[String]) -> Option<()> {
    let [term, kill, mark] = arguments else { return None };
    let millis = |text: &String| text.parse().ok().map(Duration::from_millis);
    let lead = LeadTime { kill: millis(kill)?, term: millis(term)? };
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // Whoever ends a whole control group or session means the commands too, and they are stopped in order by us.
        let _kept = signal_hook::flag::register(signal as i32, Arc::new(AtomicBool::new(false)));
    }
    helper::call_oneself(helper::WATCHDOG);
    // Where tenure was started is kept from nobody. Told before the start, it would cost a fork(2) with some libraries.
    let _stays_there = std::env::set_current_dir("/");
    let mut watchdog = WatchdogProcess {
        lead,
        mark: mark.clone(),
        since: ProcessEntry::of(nix::unistd::getppid().as_raw()).map_or(0, |tenure| tenure.start),
        ..WatchdogProcess::default()
    };
    watchdog.watch();
    Some(())
}

#[derive(Default)]
struct WatchdogProcess {
    lead: LeadTime,
    mark: String,
    /// When tenure was started, or what has adopted this process since: nothing older carries the mark.
    since: u64,
    groups: BTreeSet<i32>,
    /// Those that lost their parent and came to tenure.
    adopted: BTreeSet<(i32, u64)>,
    /// All that was to be watched and is not known to be gone, also what was stopped already.
    charges: Targets,
    /// How many commands are being started, whose groups are not known yet.
    starting: u32,
    /// On CLOCK_BOOTTIME.
    deadline: Option<Duration>,
    doomed: Option<Doomed>,
    /// The watchdog that acts instead of this one, as long as it can.
    first: Option<i32>,
    is_late: bool,
    will: Option<Will>,
    /// Tenure has said goodbye.
    is_dismissed: bool,
}

/// How often the second looks whether the first still does its work.
const STEP: Duration = Duration::from_millis(10);

impl WatchdogProcess {
    fn watch(&mut self) {
        // Not through `Stdin`, whose buffer would hide from `poll` that there is something to read.
        match std::io::stdin().as_fd().try_clone_to_owned() {
            Ok(input) => self.listen(File::from(input)),
            Err(_) => self.orphaned(),
        }
    }

    fn listen(&mut self, input: File) {
        let (mut lines, mut goes_first) = (LineReader::new(input), false);
        loop {
            let now = boottime();
            if self.deadline.is_some() && !std::mem::replace(&mut goes_first, true) {
                go_first();
            }
            let is_kill_due = self.doomed.as_ref().is_some_and(|doomed| now >= doomed.kill_at);
            // What was told and not read yet may put it off, or say that a group's number is another's now.
            let is_told_more = (is_kill_due || self.is_due(now)) && lines.is_readable(Some(Duration::ZERO));
            if is_kill_due && !is_told_more {
                self.kill();
            }
            let mut next = self.next();
            if self.is_due(now) && !is_told_more {
                if self.first_is_at_work() {
                    // It has done it by the deadline, if it lives until then.
                    let is_past = self.deadline.is_some_and(|deadline| now > deadline);
                    next = Some(now + if is_past { STEP * 25 } else { STEP });
                } else {
                    self.doom(now);
                    next = self.next();
                }
            }
            if !lines.is_readable(next.map(|at| at.saturating_sub(now))) {
                continue;
            }
            let Some(heard) = lines.read() else { return self.orphaned() };
            for line in heard {
                self.take_in(line);
                if self.is_dismissed {
                    return;
                }
            }
            // If not, the rest of a line is on its way.
            if lines.is_at_end_of_line() {
                self.rest(&lines);
            }
        }
    }

    /// Lets news gather for a moment: commands that are very short would wake both watchdogs three times each. Nothing is late by
    /// it: what is due is done in time, by all that was told until then, and the end of tenure is noticed at once.
    fn rest(&self, lines: &LineReader) {
        const LONGEST: Duration = Duration::from_millis(20);
        let rest = LONGEST.min(self.lead.kill / 4);
        let next = self.next().map(|at| at.saturating_sub(boottime()));
        lines.wait_for_end(next.map_or(rest, |next| next.min(rest)));
    }

    fn has_charges(&self) -> bool {
        !self.groups.is_empty() || self.starting > 0
    }

    fn is_due(&self, now: Duration) -> bool {
        self.has_charges()
            && self.deadline.is_some_and(|deadline| now >= deadline.saturating_sub(self.lead.total()))
    }

    /// Whether this is the second one, and the first can do what is to be done.
    fn first_is_at_work(&self) -> bool {
        let first = self.first.and_then(ProcessEntry::of);
        first.is_some_and(|first| first.name == helper::WATCHDOG && first.is_alive() && !first.is_stopped())
    }

    fn next(&self) -> Option<Duration> {
        let kill = self.doomed.as_ref().map(|doomed| doomed.kill_at);
        let term =
            self.deadline.filter(|_| self.has_charges()).map(|at| at.saturating_sub(self.lead.total()));
        kill.into_iter().chain(term).min()
    }

    fn take_in(&mut self, line: WatchdogLine) {
        match line {
            WatchdogLine::Starts => self.starting += 1,
            WatchdogLine::HasStarted => self.starting = self.starting.saturating_sub(1),
            WatchdogLine::Group(group) => {
                self.groups.insert(group);
                self.charges.groups.insert(group);
            }
            WatchdogLine::GroupGone(group) => {
                self.groups.remove(&group);
                self.charges.groups.remove(&group);
                if let Some(doomed) = &mut self.doomed {
                    doomed.targets.groups.remove(&group);
                }
            }
            WatchdogLine::Adopted(process) => {
                self.adopted.retain(is_there);
                self.adopted.extend(process);
            }
            WatchdogLine::Deadline(deadline) => self.deadline = Some(deadline),
            WatchdogLine::First => self.first = None,
            WatchdogLine::After(first) => self.first = Some(first),
            WatchdogLine::Late => self.is_late = true,
            WatchdogLine::Will(will) => self.will = will,
            WatchdogLine::Bye => self.is_dismissed = true,
        }
    }

    /// Sends TERM to all of it, and means to send KILL.
    ///
    /// What has left its group is found by descent before anybody is told, since whoever dies of TERM takes that knowledge along. It
    /// takes its time where there are many processes or the machine is slow, and the deadline does not wait for it.
    fn doom(&mut self, now: Duration) {
        let mut targets = Targets { groups: std::mem::take(&mut self.groups), processes: BTreeSet::new() };
        // Counted once: whoever goes on and tells of a group after this is dealt with then.
        self.starting = 0;
        if let Some(Doomed { targets: earlier, .. }) = self.doomed.take() {
            targets.groups.extend(earlier.groups);
            targets.processes.extend(earlier.processes);
        }
        let latest = self.deadline.map_or(now, |deadline| deadline.saturating_sub(self.lead.kill));
        let kill_at = latest.min(now + self.lead.term);
        let halfway = now + kill_at.saturating_sub(now) / 2;
        let found = self.below(&targets.groups, || boottime() < halfway);
        targets.processes.extend(found.iter().flatten().chain(&self.adopted));
        // What stands still must not go on once another may have the lease, not even to end.
        let is_over = || self.deadline.is_some_and(|deadline| boottime() >= deadline);
        let end = |targets: &Targets| {
            if is_over() { targets.signal(Signal::SIGKILL) } else { targets.signal_to_end() }
        };
        end(&targets);
        if found.is_none() {
            let found = self.below(&targets.groups, || boottime() < kill_at).unwrap_or_else(|| {
                targets.signal(Signal::SIGKILL);
                self.below(&targets.groups, || true).unwrap_or_default()
            });
            let found = Targets { processes: found, groups: BTreeSet::new() };
            end(&found);
            targets.processes.extend(found.processes);
        }
        self.charges.processes.retain(is_there);
        self.charges.processes.extend(&targets.processes);
        self.doomed = Some(Doomed { targets, kill_at });
    }

    fn kill(&mut self) {
        if let Some(Doomed { targets, .. }) = self.doomed.take() {
            targets.signal(Signal::SIGKILL);
        }
    }

    /// The pipe has closed without a farewell: tenure is dead, and nobody else will stop its commands, nor give back what it held.
    fn orphaned(&mut self) {
        /// Tried for so long also where the deadline is over: others wait until a little after it.
        const MOMENT: Duration = Duration::from_secs(5);
        /// Where it is not known: a claim that was on its way may last.
        const LONG: Duration = Duration::from_secs(60);
        go_first();
        let is_over = self.end_all();
        let Some(will) = self.will.take_if(|_| is_over) else { return };
        let now = boottime();
        let end = self.deadline.map_or(now + LONG, |deadline| deadline.max(now + MOMENT));
        while !will.is_due() {
            if boottime() >= end {
                return;
            }
            std::thread::sleep(STEP);
        }
        will.execute(end);
    }

    /// Ends what tenure has started. True if surely nothing of it is alive.
    fn end_all(&mut self) -> bool {
        /// What can't be killed within this time hangs in the kernel.
        const LONG: Duration = Duration::from_secs(5);
        while self.first_is_at_work() {
            std::thread::sleep(STEP);
        }
        let all = std::mem::take(&mut self.groups);
        self.groups.clone_from(&all);
        let now = boottime();
        self.doom(now);
        let kill_at = self.doomed.as_ref().map_or(now, |doomed| doomed.kill_at);
        let is_alive = |doomed: &Doomed| doomed.targets.is_alive();
        while boottime() < kill_at && self.doomed.as_ref().is_some_and(is_alive) {
            std::thread::sleep(kill_at.saturating_sub(boottime()).min(STEP));
        }
        self.kill();
        // What was being started just then, and what was started by those who were being killed. While the table is read, one may start
        // another and end, and neither be on it.
        let mut clean = 0;
        loop {
            let left = self.below(&all, || true).unwrap_or_default();
            let left = Targets { processes: left, groups: BTreeSet::new() };
            self.charges.processes.extend(&left.processes);
            if boottime() > kill_at + LONG {
                return false;
            }
            if left.processes.is_empty() && self.is_over() {
                clean += 1;
                if clean == 2 {
                    return true;
                }
                continue;
            }
            clean = 0;
            left.signal(Signal::SIGKILL);
            std::thread::sleep(STEP);
        }
    }

    /// Whether surely nothing is alive of all that was ever to be watched, nor of what has run away from that.
    fn is_over(&self) -> bool {
        let Some(table) = ProcessTable::read() else { return false };
        let witness = Witness { mark: &self.mark, since: self.since, is_early: !self.is_late };
        !self.charges.is_alive() && !witness.may_be_one(&table)
    }

    /// What is in these groups or carries our mark, and all that it has started, from the table of processes. None if that is not
    /// known yet when there is no more time.
    fn below(&self, groups: &BTreeSet<i32>, is_time: impl Fn() -> bool) -> Option<BTreeSet<(i32, u64)>> {
        let Some(table) = ProcessTable::read_while(&is_time) else { return is_time().then(BTreeSet::new) };
        let own = nix::unistd::getpgrp().as_raw();
        let is_marked = |entry: &ProcessEntry| {
            entry.start >= self.since
                && mark::marks_of(entry.pid).iter().any(|mark| mark::is_of(mark, &self.mark))
        };
        let roots = table.all().take_while(|_| is_time());
        let is_adopted = |entry: &ProcessEntry| self.adopted.contains(&(entry.pid, entry.start));
        let roots =
            roots.filter(|entry| groups.contains(&entry.group) || is_adopted(entry) || is_marked(entry));
        let roots: Vec<i32> = roots.map(|entry| entry.pid).collect();
        let all = table.below(roots);
        let all = all.iter().filter(|entry| entry.group != own && entry.name != helper::WATCHDOG);
        is_time().then(|| all.map(|entry| (entry.pid, entry.start)).collect())
    }
}

/// On a busy machine its turn would come too late. Whoever may not ask for this goes on as it is. Not before there is something to do in time:
/// while it starts, and when it ends, tenure itself has more to do.
fn go_first() {
    let _first_served = rustix::process::setpriority_process(None, -20);
}

#[cfg(test)]
mod tests;
