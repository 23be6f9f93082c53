//! What is done here for one unit: its command, run again and again until the unit is to go.

use super::config::Forever;
use super::member::{Assignment, Unit};
use super::pace::Pace;
use crate::output;
use crate::supervise::client::Watchdogs;
use crate::supervise::health::{LeaseHealth, UnknownSince, unit_health};
use crate::supervise::process::{ProcessGroup, Running, left_behind};
use crate::supervise::stopping::Stopping;
use crate::supervise::watchdog::Lead;
use crate::text::escaped;
use nix::sys::signal::Signal;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure::Clock;
use tenure::clock::boottime;
use tokio::sync::mpsc;

/// How commands are run, for all runners of a process.
pub(crate) struct Setup {
    pub(crate) plan: Forever,
    pub(crate) watchdogs: Arc<Watchdogs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ended: mpsc::UnboundedSender<Over>,
}

/// A run is over.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) unit: String,
    pub(crate) outcome: Outcome,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Exited(ExitStatus),
    /// What it left running can't be killed, and may still act.
    Stuck,
    /// It could not be started.
    NotStarted(std::io::Error),
    /// It was not started: there was no time left for it, or it was to be stopped already.
    TooLate,
}

/// What became of a runner whose command has ended.
#[derive(Debug)]
pub(crate) enum Next {
    /// The unit is let go of, and the runner is over.
    Free,
    /// The command is started again after this pause; it had run for this long.
    Again { pause: Duration, taken: Duration },
    /// It was stopped by us, or by the watchdog, though the unit may be ours still: started again as soon as it surely is.
    Resume,
}

/// A unit that this process owns, until its command has ended and it is let go of.
pub(crate) struct Runner {
    unit: Arc<dyn Unit>,
    /// None once a command that can't be killed has made us leave the unit to expire.
    assignment: Option<Box<dyn Assignment>>,
    run: Option<Run>,
    /// When to start the command, while none runs.
    due: Duration,
    pace: Pace,
    unknown_since: UnknownSince,
    /// The unit is to go.
    goes: bool,
}

/// A command that runs, or is about to.
struct Run {
    process_group: Arc<ProcessGroup>,
    /// It is to end: for the thread that starts it.
    doomed: Arc<AtomicBool>,
    began: Duration,
    stopping: Option<Stopping>,
}

impl Runner {
    pub(super) fn new(assignment: Box<dyn Assignment>, backoff: Duration) -> Runner {
        Runner {
            unit: assignment.unit(),
            assignment: Some(assignment),
            run: None,
            due: Duration::ZERO,
            pace: Pace::new(backoff),
            unknown_since: UnknownSince::default(),
            goes: false,
        }
    }

    pub(super) fn unit(&self) -> &dyn Unit {
        &*self.unit
    }

    pub(crate) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Whether something has to be done about it within milliseconds.
    pub(crate) fn is_pressing(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.stopping.is_some())
    }

    /// When its command is to be started.
    pub(crate) fn starts_at(&self) -> Option<Duration> {
        (self.run.is_none() && !self.goes).then_some(self.due)
    }

    /// The unit is to go: its command gets TERM, and KILL after `grace`. True if nothing runs, so that it can go now.
    pub(crate) fn let_go(&mut self, grace: Duration) -> bool {
        self.goes = true;
        self.stop(grace);
        self.run.is_none()
    }

    fn stop(&mut self, grace: Duration) {
        if let Some(run) = &mut self.run {
            run.doomed.store(true, Ordering::SeqCst);
            Stopping::begin(&mut run.stopping, grace, &run.process_group);
            run.is_overdue();
        }
    }

    /// Sees to the running command, or starts it when that is due. True if the command can't be killed, which is told once: the
    /// unit is left to expire then.
    pub(crate) fn look_after(&mut self, setup: &Arc<Setup>) -> bool {
        let lead = setup.watchdogs.lead();
        if self.run.is_none() {
            let is_good = !self.goes && boottime() >= self.due && self.unit.remaining() > lead.total();
            if is_good {
                self.start(setup);
            }
            return false;
        }
        match unit_health(
            self.unit.remaining(),
            self.unit.is_revoked(),
            || self.unit.is_lost(),
            lead,
            &self.unknown_since,
        ) {
            LeaseHealth::Good => {}
            LeaseHealth::Revoked(within) => self.stop(within.min(setup.plan.grace)),
            LeaseHealth::Losing(within) => self.stop(within),
            LeaseHealth::Lost => self.stop(Duration::ZERO),
        }
        let is_overdue = self.run.as_mut().is_some_and(Run::is_overdue);
        match self.assignment.take_if(|_| is_overdue) {
            Some(assignment) => {
                assignment.lapse();
                self.goes = true;
                true
            }
            None => false,
        }
    }

    /// Whether its command can't be killed, so that nobody should wait for it.
    pub(crate) fn is_stuck(&self) -> bool {
        self.assignment.is_none()
    }

    fn start(&mut self, setup: &Arc<Setup>) {
        let run =
            Run { process_group: Arc::default(), doomed: Arc::default(), began: boottime(), stopping: None };
        let (process_group, doomed) = (Arc::clone(&run.process_group), Arc::clone(&run.doomed));
        let (unit, of_thread) = (Arc::clone(&self.unit), Arc::clone(setup));
        let thread = std::thread::Builder::new().name("command".to_owned()).stack_size(256 << 10);
        let thread = thread.spawn(move || {
            let outcome = perform(&*unit, &of_thread, process_group, &doomed);
            let _nobody_waits = of_thread.ended.send(Over { unit: unit.name().to_owned(), outcome });
        });
        self.run = Some(run);
        if let Err(error) = thread {
            let outcome = Outcome::NotStarted(error);
            let _told = setup.ended.send(Over { unit: self.unit.name().to_owned(), outcome });
        }
    }

    /// The command is over. If the unit is to go, it goes.
    pub(crate) fn ended(&mut self, outcome: &Outcome, watchdogs: &Watchdogs) -> Next {
        let Some(run) = self.run.take() else { return Next::Free };
        let now = boottime();
        if matches!(outcome, Outcome::Stuck)
            && let Some(assignment) = self.assignment.take()
        {
            assignment.lapse();
            return Next::Free;
        }
        if self.goes {
            return Next::Free;
        }
        // The watchdog sends TERM on its own: perhaps a moment before it is sent here, or while this process stood still.
        let was_stopped = run.stopping.is_some()
            || self.unit.remaining() <= watchdogs.lead().total()
            || watchdogs.may_have_stopped(run.began);
        if was_stopped || matches!(outcome, Outcome::TooLate) {
            self.due = now;
            return Next::Resume;
        }
        let taken = now.saturating_sub(run.began);
        let pause = self.pace.pause(taken);
        self.due = now + pause;
        Next::Again { pause, taken }
    }

    /// Lets go of the unit: it goes to where it belongs, if it was not lost.
    pub(crate) fn conclude(self) {
        if let Some(assignment) = self.assignment {
            assignment.drained();
        }
    }

    /// Kills the command without waiting for anything.
    pub(crate) fn kill(&mut self) {
        self.let_go(Duration::ZERO);
    }
}

impl Run {
    /// Goes on stopping it, if it is to stop; whether it should have been dead for long.
    fn is_overdue(&mut self) -> bool {
        self.stopping.as_mut().is_some_and(|stopping| stopping.go_on(&self.process_group))
    }
}

fn perform(unit: &dyn Unit, setup: &Setup, process_group: Arc<ProcessGroup>, doomed: &AtomicBool) -> Outcome {
    let Setup { plan, watchdogs, clock, .. } = setup;
    let lead: Lead = watchdogs.lead();
    let left = unit.remaining();
    if left <= lead.total() || doomed.load(Ordering::SeqCst) {
        return Outcome::TooLate;
    }
    let command = prepare(unit, setup, clock.now().wall.0, left);
    let running = match Running::start(command, Arc::clone(watchdogs), Arc::clone(&process_group)) {
        Ok(running) => running,
        Err(error) => return Outcome::NotStarted(error),
    };
    if doomed.load(Ordering::SeqCst) {
        // Told to stop before there was anything to signal.
        process_group.signal(Signal::SIGTERM);
    }
    if !unit.is_held() {
        // The process was stopped between the look and the start.
        process_group.signal(Signal::SIGKILL);
    }
    match running.attend(plan.grace.min(lead.term)) {
        Ok(ended) if ended.is_stuck => Outcome::Stuck,
        Ok(ended) => {
            if let Some(text) = left_behind(&ended.left) {
                output::note(format!("{}: {text}", escaped(unit.name())));
            }
            Outcome::Exited(ended.status)
        }
        Err(error) => Outcome::NotStarted(error),
    }
}

fn prepare(unit: &dyn Unit, setup: &Setup, now: u64, left: Duration) -> Command {
    let template = &setup.plan.command;
    let deadline = now.saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    let mut command = template.for_unit(unit.name());
    command
        .env("TENURE_KEY", unit.key())
        .env("TENURE_FENCE", unit.fence().to_string())
        .env("TENURE_DEADLINE", deadline.to_string());
    command
}
