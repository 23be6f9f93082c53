//! The slots: threads that each run one unit's command at a time, so that starting the next one waits for nothing.

use crate::config::Template;
use crate::output;
use crate::supervise::client::{Watchdogs, asked_now};
use crate::supervise::health::{LeaseHealth, UnknownSince, lease_health};
use crate::supervise::process::{ProcessGroup, Running, left_behind};
use crate::supervise::stopping::Stopping;
use crate::supervise::watchdog::Lead;
use crate::text::escaped;
use std::collections::VecDeque;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{Clock, Guard, Key};

/// A unit that this process holds, to be run.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) key: Key,
    /// The unit's text: the end of its key.
    pub(crate) unit: String,
    pub(crate) guard: Guard,
}

/// What became of a task.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The command ended with this status by itself.
    Ran { status: ExitStatus, started: u64, finished: u64, took: Duration },
    /// It was stopped by us.
    Stopped(Why),
    /// Its lease was lost before it was started.
    TooLate,
    /// It can't be killed, or what it left running can't, and may still act.
    Stuck,
    /// It could not be started.
    NotStarted(std::io::Error),
}

/// Why a command was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The user wants to stop.
    Asked,
    /// The lease was about to be lost.
    Losing,
    /// The lease was withdrawn.
    Revoked,
}

/// A command that is running, as others see it.
#[derive(Debug)]
pub(crate) struct Active {
    key: Key,
    process_group: Arc<ProcessGroup>,
    unknown_since: UnknownSince,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Whoever takes it decides what becomes of the unit: the slot, once the command has ended, or whoever gives the command up.
    guard: Option<Guard>,
    why: Option<Why>,
    stopping: Option<Stopping>,
}

impl Active {
    /// Sends TERM, and KILL after `grace`. A second reason only makes it faster.
    pub(crate) fn stop(&self, why: Why, grace: Duration) {
        let mut state = locked(&self.state);
        state.why.get_or_insert(why);
        Stopping::begin(&mut state.stopping, grace, &self.process_group);
    }

    /// Sends KILL if its time has come. To be called every few milliseconds. True if even that has not helped for long.
    pub(crate) fn go_on_stopping(&self) -> bool {
        locked(&self.state).stopping.as_mut().is_some_and(|stopping| stopping.go_on(&self.process_group))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        locked(&self.state).stopping.is_some()
    }

    /// How it looks for its lease.
    pub(crate) fn health(&self, lead: Lead) -> LeaseHealth {
        let state = locked(&self.state);
        state.guard.as_ref().map_or(LeaseHealth::Good, |guard| lease_health(guard, lead, &self.unknown_since))
    }
}

/// What all slots share.
pub(crate) struct Slots {
    queue: Mutex<Queue>,
    filled: Condvar,
    active: Mutex<Vec<Option<Arc<Active>>>>,
    setup: Setup,
    ended: Box<dyn Fn(Key, Guard, Ended) + Send + Sync>,
}

/// How commands are run.
pub(crate) struct Setup {
    pub(crate) command: Template,
    pub(crate) watchdogs: Arc<Watchdogs>,
    pub(crate) clock: Arc<dyn Clock>,
    /// For what a command leaves running in its group.
    pub(crate) grace: Duration,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    closed: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slots {
    /// Starts `n` threads, which tell `ended` about every task.
    pub(crate) fn start(
        n: usize,
        setup: Setup,
        ended: impl Fn(Key, Guard, Ended) + Send + Sync + 'static,
    ) -> std::io::Result<Arc<Slots>> {
        let active = Mutex::new((0..n).map(|_| None).collect());
        let (queue, filled) = (Mutex::default(), Condvar::new());
        let slots = Arc::new(Slots { queue, filled, active, setup, ended: Box::new(ended) });
        for slot in 0..n {
            slots.begin(slot)?;
        }
        Ok(slots)
    }

    /// Starts the thread of a slot.
    fn begin(self: &Arc<Slots>, slot: usize) -> std::io::Result<()> {
        let slots = Arc::clone(self);
        let thread = std::thread::Builder::new().name(format!("slot-{slot}")).stack_size(256 << 10);
        thread.spawn(move || {
            while let Some(Task { key, unit, guard }) = slots.next() {
                let (guard, ended) = slots.run(slot, &key, &unit, guard);
                // Another thread has the slot if the command was given up.
                let Some(guard) = guard else { return };
                (slots.ended)(key, guard, ended);
            }
        })?;
        Ok(())
    }

    /// Waits no longer for a command that can't be killed. Its slot goes on without it; its unit is the caller's, if it has not
    /// just ended.
    pub(crate) fn give_up(self: &Arc<Slots>, active: &Arc<Active>) -> Option<(Key, Guard)> {
        let guard = locked(&active.state).guard.take()?;
        let slot = {
            let mut all = locked(&self.active);
            let is_it =
                |place: &Option<Arc<Active>>| place.as_ref().is_some_and(|it| Arc::ptr_eq(it, active));
            let slot = all.iter().position(is_it);
            if let Some(place) = slot.and_then(|slot| all.get_mut(slot)) {
                *place = None;
            }
            slot
        };
        // Without another thread the others go on.
        let _begun = slot.map(|slot| self.begin(slot));
        Some((active.key.clone(), guard))
    }

    pub(crate) fn push(&self, task: Task) {
        locked(&self.queue).tasks.push_back(task);
        self.filled.notify_one();
    }

    /// No more tasks: the slots end after what they run. Returns those that were not begun.
    pub(crate) fn close(&self) -> Vec<Task> {
        let mut queue = locked(&self.queue);
        queue.closed = true;
        self.filled.notify_all();
        queue.tasks.drain(..).collect()
    }

    fn next(&self) -> Option<Task> {
        let mut queue = locked(&self.queue);
        loop {
            if let Some(task) = queue.tasks.pop_front() {
                return Some(task);
            }
            if queue.closed {
                return None;
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The commands that are running now.
    pub(crate) fn active(&self) -> Vec<Arc<Active>> {
        locked(&self.active).iter().flatten().cloned().collect()
    }

    fn place(&self, slot: usize, active: Option<Arc<Active>>) {
        if let Some(place) = locked(&self.active).get_mut(slot) {
            *place = active;
        }
    }

    /// Runs a unit's command. Without the guard if the command was given up meanwhile.
    fn run(&self, slot: usize, key: &Key, unit: &str, guard: Guard) -> (Option<Guard>, Ended) {
        let Setup { command, watchdogs, clock, grace } = &self.setup;
        let asked_at = asked_now();
        let left = guard.remaining();
        if left <= watchdogs.lead().total() {
            return (Some(guard), Ended::TooLate);
        }
        watchdogs.prolong(asked_at, left);
        let (started, began) = (clock.now().wall.0, boottime());
        let command = self.prepare(command, unit, &guard, started, left);
        let state = Mutex::new(State { guard: Some(guard), why: None, stopping: None });
        let (process_group, unknown_since) = (Arc::default(), UnknownSince::default());
        let active = Arc::new(Active { key: key.clone(), process_group, unknown_since, state });
        let taken = |ended| (locked(&active.state).guard.take(), ended);
        let running = match Running::start(command, Arc::clone(watchdogs), Arc::clone(&active.process_group))
        {
            Ok(running) => running,
            Err(error) => return taken(Ended::NotStarted(error)),
        };
        self.place(slot, Some(Arc::clone(&active)));
        let is_held = locked(&active.state).guard.as_ref().is_some_and(Guard::is_held);
        if !is_held {
            // The process was stopped between the look and the start.
            active.stop(Why::Losing, Duration::ZERO);
            active.go_on_stopping();
        }
        let ended = running.attend(*grace);
        let (guard, why) = {
            let mut state = locked(&active.state);
            (state.guard.take(), state.why)
        };
        if guard.is_none() {
            return (None, Ended::Stuck);
        }
        self.place(slot, None);
        // The watchdog may have been quicker, or have stopped it while we could not.
        let by_watchdog = || watchdogs.may_have_stopped(began).then_some(Why::Losing);
        let why = why.or_else(by_watchdog);
        let status = match ended {
            Err(error) => return (guard, Ended::NotStarted(error)),
            Ok(ended) if ended.is_stuck => return (guard, Ended::Stuck),
            Ok(ended) => {
                if let Some(text) = left_behind(&ended.left) {
                    output::note(format!("{}: {text}", escaped(unit)));
                }
                ended.status
            }
        };
        let ended = match why {
            // It ended well in the time that it was given: that counts.
            Some(why) if !status.success() => Ended::Stopped(why),
            _ => {
                let took = boottime().saturating_sub(asked_at);
                Ended::Ran { status, started, finished: clock.now().wall.0, took }
            }
        };
        (guard, ended)
    }

    fn prepare(&self, template: &Template, unit: &str, guard: &Guard, now: u64, left: Duration) -> Command {
        let mut command = template.for_unit(unit);
        let deadline = now.saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        command
            .env("TENURE_KEY", guard.key().as_str())
            .env("TENURE_FENCE", guard.fence().to_string())
            .env("TENURE_DEADLINE", deadline.to_string());
        command
    }
}
