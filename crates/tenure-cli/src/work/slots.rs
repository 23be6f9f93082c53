//! The slots: threads that each run one unit's command at a time, so that starting the next one waits for nothing.

use crate::meant::Template;
use crate::say;
use crate::supervise::client::{Keeper, asked_now};
use crate::supervise::health::Dark;
use crate::supervise::process::{Leash, Running, left_behind};
use crate::text::escaped;
use nix::sys::signal::Signal;
use std::collections::VecDeque;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
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
    pub(crate) guard: Arc<Guard>,
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
    /// What it left running can't be killed, and may still act.
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
    pub(crate) guard: Arc<Guard>,
    pub(crate) leash: Arc<Leash>,
    pub(crate) dark: Dark,
    why: Mutex<Option<Why>>,
    killed: AtomicBool,
    kill_at: Mutex<Option<Duration>>,
}

impl Active {
    /// Sends TERM, and KILL after `grace`. A second reason only makes it faster.
    pub(crate) fn stop(&self, why: Why, grace: Duration) {
        let kill_at = boottime() + grace;
        let mut planned = locked(&self.kill_at);
        locked(&self.why).get_or_insert(why);
        if planned.is_none() {
            self.leash.signal(Signal::SIGTERM);
        }
        *planned = Some(planned.map_or(kill_at, |earlier| earlier.min(kill_at)));
    }

    /// Sends KILL if its time has come, or if `now` is given. To be called every few milliseconds.
    pub(crate) fn go_on_stopping(&self, at_once: bool) {
        let due = locked(&self.kill_at).is_some_and(|at| at_once || boottime() >= at);
        if due && !self.killed.swap(true, Ordering::SeqCst) {
            self.leash.signal(Signal::SIGKILL);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        locked(&self.kill_at).is_some()
    }
}

/// What all slots share.
pub(crate) struct Slots {
    queue: Mutex<Queue>,
    filled: Condvar,
    active: Mutex<Vec<Option<Arc<Active>>>>,
    setup: Setup,
}

/// How commands are run.
pub(crate) struct Setup {
    pub(crate) command: Template,
    pub(crate) keeper: Arc<Keeper>,
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
        ended: impl Fn(Key, Option<Guard>, Ended) + Clone + Send + 'static,
    ) -> std::io::Result<Arc<Slots>> {
        let active = Mutex::new((0..n).map(|_| None).collect());
        let slots = Arc::new(Slots { queue: Mutex::default(), filled: Condvar::new(), active, setup });
        for n in 0..n {
            let (slots, ended) = (Arc::clone(&slots), ended.clone());
            std::thread::Builder::new().name(format!("slot-{n}")).stack_size(256 << 10).spawn(move || {
                while let Some(Task { key, unit, guard }) = slots.next() {
                    let outcome = slots.run(n, &unit, &guard);
                    ended(key, only(guard), outcome);
                }
            })?;
        }
        Ok(slots)
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

    fn run(&self, slot: usize, unit: &str, guard: &Arc<Guard>) -> Ended {
        let Setup { command, keeper, clock, grace } = &self.setup;
        let asked_at = asked_now();
        let left = guard.remaining();
        if left <= keeper.lead().total() {
            return Ended::TooLate;
        }
        keeper.prolong(asked_at, left);
        let leash = Arc::new(Leash::default());
        let active = Arc::new(Active {
            guard: Arc::clone(guard),
            leash: Arc::clone(&leash),
            dark: Dark::default(),
            why: Mutex::new(None),
            killed: AtomicBool::new(false),
            kill_at: Mutex::new(None),
        });
        let (started, began) = (clock.now().wall.0, boottime());
        let running = match Running::start(
            self.prepare(command, unit, guard, started, left),
            Arc::clone(keeper),
            leash,
        ) {
            Ok(running) => running,
            Err(error) => return Ended::NotStarted(error),
        };
        self.place(slot, Some(Arc::clone(&active)));
        if !guard.is_held() {
            // The process was stopped between the look and the start.
            active.stop(Why::Losing, Duration::ZERO);
            active.go_on_stopping(true);
        }
        let ended = running.attend(*grace, |_| {});
        self.place(slot, None);
        // The watchdog may have been quicker, or have stopped it while we could not.
        let by_watchdog = || keeper.may_have_stopped(began).then_some(Why::Losing);
        let why = (*locked(&active.why)).or_else(by_watchdog);
        let status = match ended {
            Err(error) => return Ended::NotStarted(error),
            Ok(ended) if ended.is_stuck => return Ended::Stuck,
            Ok(ended) => {
                if let Some(text) = left_behind(&ended.left) {
                    say::note(format!("{}: {text}", escaped(unit)));
                }
                ended.status
            }
        };
        match why {
            // It ended well in the time that it was given: that counts.
            Some(why) if !status.success() => Ended::Stopped(why),
            _ => {
                let took = boottime().saturating_sub(asked_at);
                Ended::Ran { status, started, finished: clock.now().wall.0, took }
            }
        }
    }

    fn prepare(&self, template: &Template, unit: &str, guard: &Guard, now: u64, left: Duration) -> Command {
        let mut command = Command::new(&template.program);
        let deadline = now.saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        command
            .args(template.fill(unit))
            .stdin(Stdio::null())
            .env("TENURE_UNIT", unit)
            .env("TENURE_KEY", guard.key().as_str())
            .env("TENURE_FENCE", guard.fence().to_string())
            .env("TENURE_DEADLINE", deadline.to_string());
        command
    }
}

/// The guard, once nobody else looks at it. Whoever does, does so for an instant only.
fn only(mut guard: Arc<Guard>) -> Option<Guard> {
    for _ in 0..1000 {
        match Arc::try_unwrap(guard) {
            Ok(guard) => return Some(guard),
            Err(shared) => guard = shared,
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    // Dropped by whoever looks, which gives the lease up without a word about the unit.
    None
}
