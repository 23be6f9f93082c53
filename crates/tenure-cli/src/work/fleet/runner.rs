//! What is done here for one unit: its command, run again and again until the unit is to go.

use super::member::{Assignment, Unit};
use crate::config::fleet::Forever;
use crate::output;
use crate::supervise::health::LeaseHealth;
use crate::supervise::run::{CommandOutcome, Policy, run};
use crate::supervise::stopping::{Stopper, Why};
use crate::text::escaped;
use crate::work::pace::RestPace;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tokio::sync::mpsc;

/// How commands are run, for all runners of a process.
pub(crate) struct RunnerSetup {
    pub(crate) plan: Forever,
    pub(crate) policy: Policy,
    pub(crate) ended: mpsc::UnboundedSender<Over>,
}

/// A run is over.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) unit: String,
    /// None if its command can't be killed. When that is gone after all, this is told once more.
    pub(crate) outcome: Option<CommandOutcome>,
    pub(crate) taken: Duration,
}

/// What became of a runner whose command has ended.
#[derive(Debug)]
pub(crate) enum Next {
    /// The unit is let go of, and the runner is over.
    Free,
    /// The command is started again after this pause.
    Again(Duration),
    /// It was stopped by us, or by the watchdogs, though the unit may be ours still: started again as soon as it surely is.
    Resume,
}

/// A unit that this process owns, until its command has ended and it is let go of.
pub(crate) struct Runner {
    unit: Arc<dyn Unit>,
    /// None once a command that can't be killed has made us leave the unit to expire.
    assignment: Option<Box<dyn Assignment>>,
    /// What stops the command that runs, or is about to.
    run: Option<Arc<Stopper>>,
    /// When to start the command, while none runs.
    due: Duration,
    pace: RestPace,
    /// Of the unit, as its command has to know it.
    health: LeaseHealth,
    /// The unit is to go.
    goes: bool,
}

impl Runner {
    pub(super) fn new(assignment: Box<dyn Assignment>, backoff: Duration) -> Runner {
        Runner {
            unit: assignment.unit(),
            assignment: Some(assignment),
            run: None,
            due: Duration::ZERO,
            pace: RestPace::new(backoff),
            health: LeaseHealth::default(),
            goes: false,
        }
    }

    pub(super) fn unit(&self) -> &dyn Unit {
        &*self.unit
    }

    pub(crate) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Whether its command can't be killed, so that nobody should wait for it.
    pub(crate) fn is_stuck(&self) -> bool {
        self.assignment.is_none()
    }

    /// How long what runs for the unit may, if anything does that can be killed.
    pub(crate) fn needs(&self) -> Option<Duration> {
        (self.is_running() && !self.is_stuck()).then(|| self.unit.remaining())
    }

    /// A unit that ends before the session was withdrawn, be it while it was to go already. Its command is ended so early that the watchdogs, which
    /// know one deadline for all, spare the others.
    pub(crate) fn keep_clear(&self, session: Duration, setup: &RunnerSetup) {
        let lead = setup.policy.watchdogs.lead();
        if let (Some(stopper), Some(left)) = (&self.run, self.needs())
            && !left.is_zero()
            && left + lead.kill < session
        {
            let within = left.saturating_sub(lead.beside_others());
            stopper.stop(Why::Revoked, within.min(setup.plan.grace));
        }
    }

    /// Stops its command in time for the unit.
    pub(crate) fn judge(&mut self, setup: &RunnerSetup) {
        let Some(stopper) = self.run.as_ref().filter(|_| self.assignment.is_some()) else { return };
        let lead = setup.policy.watchdogs.lead();
        if let Some((why, within)) = self.health.judge(&*self.unit, lead, false, boottime()) {
            stopper.stop(why, within.min(setup.policy.grace));
        }
    }

    /// When its command is to be started.
    pub(crate) fn starts_at(&self) -> Option<Duration> {
        (self.run.is_none() && !self.goes).then_some(self.due)
    }

    /// The unit is to go: its command gets TERM, and KILL after `grace`. True if nothing runs, so that it can go now.
    pub(crate) fn let_go(&mut self, grace: Duration) -> bool {
        self.goes = true;
        if let Some(stopper) = &self.run {
            stopper.stop(Why::Asked, grace);
        }
        self.run.is_none()
    }

    /// Kills the command without waiting for anything.
    pub(crate) fn kill(&mut self) {
        self.let_go(Duration::ZERO);
        if let Some(stopper) = &self.run {
            stopper.kill();
        }
    }

    /// The command can't be killed, or is not waited for: the unit is left to expire.
    pub(crate) fn lapse(&mut self) {
        self.goes = true;
        if let Some(assignment) = self.assignment.take() {
            assignment.lapse();
        }
    }

    /// Starts the command, when that is due.
    pub(crate) fn look_after(&mut self, setup: &Arc<RunnerSetup>) {
        let is_due = self.starts_at().is_some_and(|at| boottime() >= at);
        if !is_due || self.unit.remaining() <= setup.policy.watchdogs.lead().total() {
            return;
        }
        if self.unit.is_draining() {
            // It is about to be told, and the watchdogs may know of a later deadline than that of a unit that was withdrawn.
            return;
        }
        let stopper = Arc::<Stopper>::default();
        self.run = Some(Arc::clone(&stopper));
        self.health = LeaseHealth::default();
        let (unit, setup) = (Arc::clone(&self.unit), Arc::clone(setup));
        tokio::spawn(async move {
            if setup.plan.verbose {
                output::note(format!("{}: starts", escaped(unit.name())));
            }
            let (began, command) = (boottime(), setup.plan.command.for_unit(unit.name()));
            let mut outcome = run(&*unit, command, &setup.policy, &stopper).await;
            let tell = |outcome| {
                let (unit, taken) = (unit.name().to_owned(), boottime().saturating_sub(began));
                let _nobody_waits = setup.ended.send(Over { unit, outcome, taken });
            };
            match &mut outcome {
                CommandOutcome::Stuck(remains) => {
                    tell(None);
                    remains.gone().await;
                }
                CommandOutcome::Ended { left: Some(text), .. } => {
                    output::note(format!(
                        "{}: CMD {text}, since the lease goes with CMD",
                        escaped(unit.name())
                    ));
                }
                _ => {}
            }
            tell(Some(outcome));
        });
    }

    /// The command is over, after this time.
    pub(crate) fn ended(&mut self, outcome: &CommandOutcome, taken: Duration) -> Next {
        self.run = None;
        let pause = match outcome {
            _ if self.goes => return Next::Free,
            CommandOutcome::TooLate | CommandOutcome::Ended { stopped: Some(_), .. } => None,
            _ => Some(self.pace.pause(taken)),
        };
        self.due = boottime() + pause.unwrap_or_default();
        pause.map_or(Next::Resume, Next::Again)
    }

    /// Lets go of the unit: it goes to where it belongs, if it was not lost.
    pub(crate) fn conclude(self) {
        if let Some(assignment) = self.assignment {
            assignment.drained();
        }
    }
}
