//! This side of the watchdogs: starts them, tells them what there is to watch, and replaces one that dies.
//!
//! There are two, so that no single SIGKILL or SIGSTOP leaves a command without anybody to stop it, even one that strikes tenure
//! itself at the same instant: the second does what the first can't.

mod owners;
mod pair;

use super::children::{AdoptedProcesses, Children};
use super::helper;
use super::kill::signal_group;
use super::mark::{MARK, marked, settled_marks_of};
use super::table::{self, ProcessEntry, ProcessTable};
use super::watchdog::LeadTime;
use super::will::Will;
use crate::exit::{Failure, INTERNAL};
use nix::sys::signal::Signal;
use owners::Owners;
use pair::When;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tenure::clock::boottime;

/// Tells the watchdogs, and knows which processes are whose.
#[derive(Debug)]
pub(crate) struct Watchdogs {
    mark: String,
    lead: LeadTime,
    children: Children,
    commands: AtomicU64,
    owners: Mutex<Owners>,
    state: Mutex<WatchdogsState>,
    /// What wakes the thread that sees to dead children; gone with this.
    on_child: Option<signal_hook::SigId>,
    seen: Mutex<Option<(Duration, Arc<ProcessTable>)>>,
}

#[derive(Debug)]
struct WatchdogsState {
    watchdogs: Vec<pair::WatchdogChild>,
    /// How many of them there are to be: both before any command is started, and one until then if that saves time.
    wanted: usize,
    /// Those that were dismissed, and may still be on the table of processes.
    dismissed: Vec<Child>,
    groups: BTreeSet<i32>,
    /// Those that lost their parent and came to us, by number and time of start.
    adopted: BTreeSet<(i32, u64)>,
    looked_at: Duration,
    will: Option<Will>,
    deadline: Duration,
    /// When it was last seen that the watchdog's time had come.
    overdue_at: Option<Duration>,
    is_dismissed: bool,
}

/// How many watchdogs there are.
const TWO: usize = 2;

impl WatchdogsState {
    /// To be called before another deadline is told.
    fn note_if_overdue(&mut self, lead: LeadTime) {
        let now = boottime();
        if !self.deadline.is_zero() && now >= self.deadline.saturating_sub(lead.total()) {
            self.overdue_at = Some(now);
        }
    }
}

/// A command as the table of processes knows it.
#[derive(Debug, Clone)]
pub(crate) struct SupervisedCommand {
    /// Its process group. The process of that number leads it, until it is reaped.
    pub(crate) group: i32,
    pub(crate) is_reaped: bool,
    /// When it was started, or a moment before, as the table of processes would tell it.
    pub(crate) start: u64,
    /// Its own mark.
    pub(crate) mark: String,
}

fn not_started(error: std::io::Error) -> Failure {
    Failure::new(INTERNAL, format!("the watchdog process can't be started: {error}"))
}

impl Watchdogs {
    /// Starts the first watchdog. [`Self::complete_pair`] has to follow before a command does. `mark` must be a text that no other process uses.
    pub(crate) fn start_first(mark: &str, lead: LeadTime) -> Result<Arc<Watchdogs>, Failure> {
        // Marks are put in a list.
        let mark = mark.replace(':', "_");
        let children = Children::gather();
        let (waker, woken) = UnixStream::pair().map_err(not_started)?;
        let on_child = signal_hook::low_level::pipe::register(Signal::SIGCHLD as i32, waker).ok();
        let state = WatchdogsState {
            watchdogs: Vec::new(),
            wanted: 1,
            dismissed: Vec::new(),
            groups: BTreeSet::new(),
            adopted: BTreeSet::new(),
            looked_at: Duration::ZERO,
            will: None,
            deadline: Duration::ZERO,
            overdue_at: None,
            is_dismissed: false,
        };
        let commands = AtomicU64::default();
        let watchdogs = Watchdogs {
            mark,
            lead,
            children,
            commands,
            owners: Mutex::default(),
            state: Mutex::new(state),
            on_child,
            seen: Mutex::default(),
        };
        let watchdogs = Arc::new(watchdogs);
        let of_thread = Arc::downgrade(&watchdogs);
        let thread = std::thread::Builder::new().name("children".to_owned()).stack_size(256 << 10);
        thread.spawn(move || see_to_children(woken, &of_thread)).map_err(Failure::no_thread)?;
        // The last: what is started takes the processor from whoever starts it.
        watchdogs.complete(&mut watchdogs.state(), When::First).map_err(not_started)?;
        Ok(watchdogs)
    }

    /// Starts the second watchdog, which is told all that the first one was.
    pub(crate) fn complete_pair(&self) -> Result<(), Failure> {
        let mut state = self.state();
        state.wanted = TWO;
        self.complete(&mut state, When::First).map_err(not_started)
    }

    pub(crate) fn lead(&self) -> LeadTime {
        self.lead
    }

    /// Starts a command: marked, in a process group of its own, and watched.
    pub(crate) fn start_command(&self, command: &mut Command) -> std::io::Result<(Child, SupervisedCommand)> {
        let n = self.commands.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{n}", self.mark);
        command.env(MARK, marked(&mark)).process_group(0);
        let start = table::ticks(boottime());
        self.owners().begin(&mark, start);
        let mut state = self.state();
        state.wanted = TWO;
        // Until it is known, it is found by its mark.
        self.tell(&mut state, "?\n");
        drop(state);
        let child = self.children.start(command);
        match &child {
            Ok(child) => self.owners().is_in(&mark, child.id().cast_signed()),
            Err(_) => self.owners().forget(&mark),
        }
        let mut state = self.state();
        match child {
            Ok(child) => {
                let group = child.id().cast_signed();
                state.groups.insert(group);
                self.tell(&mut state, &format!("+{group}\n!\n"));
                Ok((child, SupervisedCommand { group, is_reaped: false, start, mark }))
            }
            Err(error) => {
                self.tell(&mut state, "!\n");
                Err(error)
            }
        }
    }

    /// Starts something that helps with a command, and is none.
    pub(crate) fn start_beside(&self, helper: &mut Command) -> std::io::Result<Child> {
        helper.env(MARK, marked(&format!("{}.beside", self.mark)));
        self.children.start(helper)
    }

    /// All that is alive of a command: what is in its group, what it has started, what that has started, and what of all that has
    /// lost its parent.
    pub(crate) fn alive(&self, subject: &SupervisedCommand) -> Vec<ProcessEntry> {
        let adopted = self.children.adopted();
        let Some(table) = self.table(&adopted.pids) else {
            return ProcessEntry::of_group(subject.group).into_iter().collect();
        };
        let in_group = table.all().filter(|entry| entry.group == subject.group).map(|entry| entry.pid);
        let leader = (!subject.is_reaped).then_some(subject.group);
        self.note_marks(&adopted, &table);
        let adopted = self.owners().of(subject, &adopted, &table);
        let alive = table.below(in_group.chain(leader).chain(adopted));
        alive.into_iter().filter(|entry| !is_watchdog(entry) && !is_keyboard(entry)).collect()
    }

    /// Whether nothing can be left of a command whose group is empty.
    pub(crate) fn has_adopted_nobody(&self) -> bool {
        self.children.has_adopted_nobody()
    }

    /// Notes whose marks those bear of whom it is not known whose they are.
    fn note_marks(&self, adopted: &AdoptedProcesses, table: &ProcessTable) {
        /// In all, however many have an empty environment for good.
        const TRIES: u32 = 5;
        let unknown = self.owners().unknown(adopted, table);
        let tries = Cell::new(TRIES);
        // Nobody waits for these looks.
        let marks = unknown.into_iter().map(|process| (process, settled_marks_of(process.0, &tries)));
        let marks: Vec<_> = marks.collect();
        marks.into_iter().for_each(|(process, marks)| self.owners().note(process, marks, &self.mark));
    }

    /// A command has ended. What may also be another's that still runs is left to that one; the last one has it.
    pub(crate) fn has_ended(&self, subject: &SupervisedCommand) {
        self.owners().end(&subject.mark);
    }

    /// What it has left is ended as well.
    pub(crate) fn is_over(&self, subject: &SupervisedCommand) {
        self.owners().forget(&subject.mark);
    }

    /// Whether one of these may have been left by another command, which was over before.
    pub(crate) fn is_doubtful(&self, left: &[ProcessEntry]) -> bool {
        let owners = self.owners();
        left.iter().any(|entry| owners.is_doubtful(entry))
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of processes, as it was a moment ago, but not so long that these are not on it.
    fn table(&self, present: &[i32]) -> Option<Arc<ProcessTable>> {
        const FRESH: Duration = Duration::from_millis(5);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, table)) = &*seen
            && boottime().saturating_sub(*at) < FRESH
            && present.iter().all(|pid| table.has(*pid))
        {
            return Some(Arc::clone(table));
        }
        let table = Arc::new(ProcessTable::read()?);
        *seen = Some((boottime(), Arc::clone(&table)));
        Some(table)
    }

    /// A command was waited for.
    pub(crate) fn reaped(&self, pid: i32) {
        self.children.forget(pid);
    }

    fn state(&self) -> MutexGuard<'_, WatchdogsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Children::let_start`].
    pub(super) fn let_start(&self) {
        self.children.let_start();
    }

    /// Signals all commands, each by its group.
    pub(super) fn signal_all(&self, signal: Signal) {
        // Held while signalling: a group is forgotten before it is reaped.
        let state = self.state();
        state.groups.iter().for_each(|group| signal_group(*group, signal));
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

    /// What is watched must be dead `left` after `asked_at` unless this is called again. That is the time, since boot, *before* it was
    /// asked how long a lease is good: a pause in between would prolong the deadline.
    pub(crate) fn prolong(&self, asked_at: Duration, left: Duration) {
        self.prolong_if(asked_at, left, || true);
    }

    /// As [`Self::prolong`], if `may_be` says so, which is asked only where there is something to tell.
    pub(crate) fn prolong_if(&self, asked_at: Duration, left: Duration, may_be: impl FnOnce() -> bool) {
        let deadline = asked_at + left;
        self.look_for_adopted(asked_at);
        let mut state = self.state();
        // Little news is no news: the watchdog need not be woken for it.
        if deadline > state.deadline + self.lead.kill && may_be() {
            state.note_if_overdue(self.lead);
            state.deadline = deadline;
            self.tell(&mut state, &format!("deadline {}\n", deadline.as_nanos()));
        }
    }

    /// When this process is dead, and all that it has started, the watchdogs give this back.
    pub(crate) fn bequeath(&self, will: Option<Will>) {
        let mut state = self.state();
        state.will = will;
        if let Some(line) = state.will.as_ref().and_then(Will::line) {
            self.tell_at_length(&mut state, &line);
        }
    }

    /// Now and then: nobody is told when somebody comes.
    fn look_for_adopted(&self, now: Duration) {
        const PAUSE: Duration = Duration::from_millis(100);
        let mut state = self.state();
        if now.saturating_sub(state.looked_at) < PAUSE {
            return;
        }
        state.looked_at = now;
        drop(state);
        let adopted = self.children.adopted();
        self.tell_adopted(&mut self.state(), &adopted);
    }

    /// What has lost its parent can't be found by its descent once this process is dead.
    fn tell_adopted(&self, state: &mut WatchdogsState, adopted: &AdoptedProcesses) {
        if !adopted.is_certain {
            return;
        }
        let all = adopted.pids.iter().filter_map(|pid| Some((*pid, ProcessEntry::of(*pid)?.start)));
        let all: BTreeSet<(i32, u64)> = all.collect();
        self.owners().see(&all, &self.mark);
        let news: String =
            all.difference(&state.adopted).map(|(pid, start)| format!("={pid} {start}\n")).collect();
        state.adopted = all;
        if !news.is_empty() {
            self.tell(state, &news);
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
}

impl Drop for Watchdogs {
    fn drop(&mut self) {
        if let Some(id) = self.on_child {
            signal_hook::low_level::unregister(id);
        }
        let mut state = self.state();
        let undismissed = std::mem::take(&mut state.watchdogs);
        let dismissed = std::mem::take(&mut state.dismissed);
        drop(state);
        // Once nobody talks to them they end, sooner or later, and must not be left on the table of processes until then.
        let mut left: Vec<Child> =
            undismissed.into_iter().map(|watchdog| watchdog.child).chain(dismissed).collect();
        left.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if !left.is_empty() {
            let reap = move || left.iter_mut().for_each(|child| drop(child.wait()));
            let _left_to_our_end = std::thread::Builder::new().name("farewell".to_owned()).spawn(reap);
        }
    }
}

fn see_to_children(mut woken: UnixStream, watchdogs: &Weak<Watchdogs>) {
    /// What is done at the end of a short command goes first.
    const MOMENT: Duration = Duration::from_millis(5);
    /// Many children may end at about the same time.
    const PAUSE: Duration = Duration::from_millis(15);
    let mut buffer = [0; 256];
    while woken.read(&mut buffer).is_ok_and(|read| read > 0) {
        std::thread::sleep(MOMENT);
        let Some(watchdogs) = watchdogs.upgrade() else { return };
        watchdogs.see_to_children();
        drop(watchdogs);
        std::thread::sleep(PAUSE);
    }
}

/// A watchdog of a tenure that a command has started is not stopped with the command: it sees to it that what it watches ends,
/// and then ends itself.
fn is_watchdog(entry: &ProcessEntry) -> bool {
    entry.name == helper::WATCHDOG && entry.group == entry.pid
}

/// What hears of interrupts beside a command ends with it.
fn is_keyboard(entry: &ProcessEntry) -> bool {
    entry.name == helper::KEYBOARD
}
