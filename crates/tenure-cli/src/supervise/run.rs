//! One command under a lease: started, stopped in time, and seen to its end. What becomes of the lease then is for the caller to
//! decide, but only a command that is known to be over lets it be given up.

use super::client::Watchdogs;
use super::health::LeaseHealth;
use super::held;
use super::lease::Lease;
use super::process::{self, RunningCommand};
use super::stopping::{Stopper, Why};
use super::suspend;
use super::threads::Threads;
use super::watchdog::LeadTime;
use crate::config::{HealthCheck, LeaseHooks};
use crate::exit::Failure;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;
use tenure::Clock;
use tenure::clock::boottime;
use tokio::sync::oneshot;

/// How commands are run.
pub(crate) struct Policy {
    pub(crate) watchdogs: Arc<Watchdogs>,
    threads: Arc<Threads>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ttl: Duration,
    /// Between TERM and KILL, if there is time for it.
    pub(crate) grace: Duration,
    /// The longest that a command may run, if there is a limit.
    pub(crate) at_most: Option<Duration>,
    /// The watchdogs go by the lease of the one command that there is. Otherwise the caller tells them of the first that ends.
    pub(crate) is_alone: bool,
    /// The caller sees to it that each command is stopped in time for its lease, in one loop for all.
    is_judged: bool,
    pub(crate) hooks: LeaseHooks,
    /// What is run beside the command, and ends it if it fails.
    pub(crate) check: Option<HealthCheck>,
}

impl Policy {
    /// For one command at a time. Starts the watchdogs; `name` must be a text that no other process uses.
    pub(crate) fn new(name: &str, ttl: Duration, grace: Duration) -> Result<Policy, Failure> {
        let policy = Policy::with_one_watchdog(name, ttl, grace)?;
        policy.watchdogs.complete_pair()?;
        Ok(policy)
    }

    /// As [`Self::new`], with one watchdog: the other must be there before a command is.
    pub(crate) fn with_one_watchdog(name: &str, ttl: Duration, grace: Duration) -> Result<Policy, Failure> {
        let watchdogs = Watchdogs::start_first(name, LeadTime::new(ttl, grace))?;
        suspend::together_with(&watchdogs);
        let (threads, clock) = (Arc::default(), tenure::clock::system());
        Ok(Policy {
            watchdogs,
            threads,
            clock,
            ttl,
            grace,
            at_most: None,
            is_alone: true,
            is_judged: false,
            hooks: LeaseHooks::default(),
            check: None,
        })
    }

    /// A command that runs for longer is stopped.
    pub(crate) fn at_most(mut self, longest: Option<Duration>) -> Policy {
        self.at_most = longest;
        self
    }

    /// With what is run beside it.
    pub(crate) fn hooks(mut self, hooks: LeaseHooks) -> Policy {
        self.hooks = hooks;
        self
    }

    /// With what tells whether the command is well.
    pub(crate) fn checked_by(mut self, check: Option<HealthCheck>) -> Policy {
        self.check = check;
        self
    }

    /// For what runs beside the command for so long at the most, and is killed then.
    pub(super) fn beside(&self, longest: Duration) -> Policy {
        Policy {
            watchdogs: Arc::clone(&self.watchdogs),
            threads: Arc::clone(&self.threads),
            clock: Arc::clone(&self.clock),
            ttl: self.ttl,
            grace: Duration::ZERO,
            at_most: Some(longest),
            is_alone: self.is_alone,
            is_judged: false,
            hooks: LeaseHooks::default(),
            check: None,
        }
    }

    /// For any number of commands at a time.
    pub(crate) fn for_many(name: &str, ttl: Duration, grace: Duration) -> Result<Policy, Failure> {
        Ok(Policy { is_alone: false, ..Policy::new(name, ttl, grace)? })
    }

    /// The same, where the caller judges the health of all leases. Who has a thousand of them wakes up for them once and not a thousand times.
    pub(crate) fn for_many_judged(name: &str, ttl: Duration, grace: Duration) -> Result<Policy, Failure> {
        Ok(Policy { is_judged: true, ..Policy::for_many(name, ttl, grace)? })
    }
}

/// What came of a command.
#[derive(Debug)]
pub(crate) enum CommandOutcome {
    /// All that is known to be of it is over.
    Ended {
        status: ExitStatus,
        /// Why it was stopped by us, or may have been by the watchdogs.
        stopped: Option<Why>,
        /// What there is to say of it, where it left processes running, which were ended: `left sleep (7) running; it was ended`.
        left: Option<String>,
        /// Whether nothing is alive that may be of it, or of another command beside it.
        is_all_over: bool,
    },
    /// It was not started: there was no time for it any more, or it was to stop already.
    TooLate,
    NotStarted(io::Error),
    /// It can't be killed (it hangs in the kernel), so nothing is known of what it does.
    Stuck(Remains),
}

/// What can't be killed.
#[derive(Debug)]
pub(crate) struct Remains(Option<oneshot::Receiver<Run>>);

impl Remains {
    /// Waits until the command is over after all. At once where nobody could tell.
    pub(crate) async fn gone(&mut self) {
        if let Some(ended) = self.0.take() {
            let _over = ended.await;
        }
    }
}

/// Runs `command`, and sees to it that it is over before `lease` is, also if this process is killed or stopped meanwhile.
pub(crate) async fn run(
    lease: &(impl Lease + ?Sized),
    command: Command,
    policy: &Policy,
    stopper: &Arc<Stopper>,
) -> CommandOutcome {
    match Started::start(lease, command, policy, stopper) {
        Ok(started) => started.see(lease, policy, stopper).await,
        Err(outcome) => outcome,
    }
}

/// What comes of a command that is to be started.
type Run = Result<io::Result<process::CommandExit>, CommandOutcome>;

/// A command that was started, or is about to be.
pub(super) struct Started {
    began: Duration,
    ended: oneshot::Receiver<Run>,
    group: oneshot::Receiver<i32>,
}

impl Started {
    /// Has it started, by a thread that waits for its end.
    pub(super) fn start(
        lease: &(impl Lease + ?Sized),
        mut command: Command,
        policy: &Policy,
        stopper: &Arc<Stopper>,
    ) -> Result<Started, CommandOutcome> {
        let watchdogs = &policy.watchdogs;
        let began = boottime();
        let (left, promised, lead) = (lease.remaining(), lease.promised(), watchdogs.lead());
        if left <= lead.total() {
            return Err(CommandOutcome::TooLate);
        }
        if policy.is_alone {
            watchdogs.prolong(began, left);
        }
        command.env("TENURE_KEY", lease.key());
        match lease.fence() {
            Some(fence) => command.env("TENURE_FENCE", fence.to_string()),
            // That of a command around this one would be of another lease.
            None => command.env_remove("TENURE_FENCE"),
        };
        match lease.fences() {
            Some(fences) => command.env("TENURE_FENCES", fences),
            None => command.env_remove("TENURE_FENCES"),
        };
        if let Some(held) = held::with(lease) {
            command.env(held::HELD, held);
        }
        let deadline = u128::from(policy.clock.now().wall.0) + promised.as_millis();
        command.env("TENURE_DEADLINE", deadline.to_string());
        let (tell_group, group) = oneshot::channel();
        let (tell_end, ended) = oneshot::channel();
        let work = {
            let (watchdogs, stopper) = (Arc::clone(watchdogs), Arc::clone(stopper));
            let (grace, briefly) = (policy.grace, policy.grace.min(lead.term));
            // Nobody listens any more when this process is about to end: then the watchdogs see to it.
            move || {
                let start = || RunningCommand::start(command, watchdogs, Arc::clone(&stopper.process_group));
                let run = match stopper.unless_stopped(start) {
                    Some(Ok(running)) => {
                        if boottime() >= began + left {
                            // The process was stopped between the look and the start.
                            stopper.stop(Why::Losing, Duration::ZERO);
                            stopper.go_on();
                        }
                        let _unheard = tell_group.send(running.group());
                        // What is stopped has its grace period with all that it has started; if the lease is being lost meanwhile, that is cut short for all.
                        let of_leftovers = || if stopper.why().is_some() { grace } else { briefly };
                        Ok(running.attend(of_leftovers))
                    }
                    Some(Err(error)) => Err(CommandOutcome::NotStarted(error)),
                    None => Err(CommandOutcome::TooLate),
                };
                let _unheard = tell_end.send(run);
            }
        };
        policy.threads.run(work).map_err(CommandOutcome::NotStarted)?;
        Ok(Started { began, ended, group })
    }

    /// The command's process group, once it has one; none if it was not started.
    pub(super) async fn group(&mut self) -> Option<i32> {
        (&mut self.group).await.ok()
    }

    /// Sees it to its end.
    pub(super) async fn see(
        mut self,
        lease: &(impl Lease + ?Sized),
        policy: &Policy,
        stopper: &Stopper,
    ) -> CommandOutcome {
        const QUICK: Duration = Duration::from_millis(5);
        const SLOW: Duration = Duration::from_millis(250);
        let Policy { watchdogs, ttl, grace, at_most, is_alone, is_judged, .. } = policy;
        let slow = if *is_judged { Duration::MAX } else { (*ttl / 40).clamp(QUICK, SLOW) };
        let mut health = LeaseHealth::default();
        let ended = loop {
            let left = at_most.map(|most| most.saturating_sub(boottime().saturating_sub(self.began)));
            let pause = if stopper.why().is_some() {
                QUICK
            } else {
                left.map_or(slow, |left| left.clamp(QUICK, slow))
            };
            tokio::select! {
                biased;
                ended = &mut self.ended => break ended,
                () = stopper.news.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            if *is_alone {
                let asked_at = boottime();
                watchdogs.prolong(asked_at, lease.remaining());
            }
            if !is_judged
                && let Some((why, within)) = health.judge(lease, watchdogs.lead(), *is_alone, boottime())
            {
                stopper.stop(why, within.min(*grace));
            }
            if left.is_some_and(|left| left.is_zero()) && stopper.why().is_none() {
                stopper.stop(Why::Overran, *grace);
            }
            if stopper.go_on() {
                return CommandOutcome::Stuck(Remains(Some(self.ended)));
            }
        };
        match ended {
            Ok(Err(outcome)) => outcome,
            Ok(Ok(Ok(process::CommandExit { status, left, is_doubtful, is_stuck: false, is_all_over }))) => {
                let by_watchdog = || watchdogs.may_have_stopped(self.began).then_some(Why::Losing);
                let stopped = stopper.why().or_else(by_watchdog);
                let left = process::left_behind(&left, is_doubtful);
                CommandOutcome::Ended { status, stopped, left, is_all_over }
            }
            // It may still act; or nobody knows of it.
            _ => CommandOutcome::Stuck(Remains(None)),
        }
    }
}
