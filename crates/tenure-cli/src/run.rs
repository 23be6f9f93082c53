//! `tenure run`: one command under one lease.

use crate::belief::{Dark, Outlook, outlook};
use crate::exit::{self, Failure};
use crate::keeper::{Keeper, asked_now};
use crate::meant::{self, Patience};
use crate::process::{self, Leash, Running, boottime, shell_status};
use crate::say;
use crate::signals::{self, Signals};
use crate::stores::{Missing, Url};
use crate::terminal::{self, Terminal};
use crate::text::date;
use crate::watchdog::Lead;
use nix::sys::signal::Signal;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;
use tenure::{AcquireError, Clock, Guard, Leases};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Why a command was stopped.
#[derive(Debug)]
pub(crate) enum Why {
    Signal(i32),
    Revoked,
    Losing,
}

pub(crate) async fn run(url: &Url, plan: meant::Run) -> Result<u8, Failure> {
    process::find(&plan.command.program)?;
    let mut signals = Signals::listen().map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(Missing::Create, Arc::clone(&clock)).await?;
    let leases = Leases::builder(store).clock(clock).start()?;
    let lead = Lead::new(plan.ttl, plan.grace);
    let keeper = Arc::new(Keeper::start(leases.holder().as_str().to_owned(), lead)?);
    let result = under_lease(&leases, &plan, &keeper, &mut signals).await;
    // Whatever is still on its way, such as a claim that nobody waits for any more, is given back.
    let farewell = async {
        tokio::select! {
            () = leases.stop() => {}
            () = tokio::time::sleep(plan.ttl) => {}
            _ = signals.next() => {}
        }
    };
    match &result {
        Ok(Ending { at_once: true, .. }) => {}
        _ => farewell.await,
    }
    result.map(|ending| ending.status)
}

struct Ending {
    status: u8,
    /// The user does not want to wait for anything.
    at_once: bool,
}

async fn under_lease(
    leases: &Leases,
    plan: &meant::Run,
    keeper: &Arc<Keeper>,
    signals: &mut Signals,
) -> Result<Ending, Failure> {
    let lock = leases.lock(plan.key.as_str()).ttl(plan.ttl);
    let acquired = async {
        match plan.patience {
            Patience::Try => lock.try_acquire().await,
            Patience::Within(wait) => lock.acquire_within(wait).await,
            Patience::Forever => lock.acquire().await,
        }
    };
    let acquired = tokio::select! {
        acquired = acquired => acquired,
        signal = signals.next() => {
            keeper.dismiss();
            return Err(Failure::by_signal(signal));
        }
    };
    let guard = match acquired {
        Ok(guard) => guard,
        Err(error) => {
            keeper.dismiss();
            return Err(refusal(plan, error));
        }
    };
    match attend(leases, guard, plan, keeper, signals).await? {
        Ended::Done(status) => Ok(Ending { status, at_once: false }),
        Ended::AtOnce(signal) => Ok(Ending { status: Failure::by_signal(signal).code, at_once: true }),
        Ended::Signalled(signal) => Err(Failure::by_signal(signal)),
        ended => Err(Failure::new(exit::LOST, ended.lost(&plan.key))),
    }
}

/// How a command under a lease came to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself, with this status.
    Done(u8),
    /// The user has stopped it.
    Signalled(i32),
    /// The user has stopped it and does not want to wait for anything.
    AtOnce(i32),
    /// It was stopped because the lease was lost, or about to be.
    Lost(String),
    /// It was stopped because the lease was withdrawn.
    Withdrawn,
    /// It can't be stopped: the lease was left to expire.
    Stuck,
}

impl Ended {
    /// Why it was stopped, in words.
    pub(crate) fn lost(&self, key: &tenure::Key) -> String {
        let stopped = |why: &str| format!("{key}: {why}; the command was stopped");
        match self {
            Ended::Lost(why) => stopped(why),
            Ended::Withdrawn => stopped("the lease was withdrawn"),
            Ended::Stuck => format!("{key}: the command can't be killed; its lease is left to expire"),
            Ended::Done(_) | Ended::Signalled(_) | Ended::AtOnce(_) => String::new(),
        }
    }
}

fn refusal(plan: &meant::Run, error: AcquireError) -> Failure {
    match error {
        AcquireError::Held(by) => {
            let by = by.map_or_else(String::new, |by| {
                format!(" by {} since {} (fence {})", by.holder, date(by.since), by.fence)
            });
            Failure::new(exit::HELD, format!("{} is held{by}", plan.key))
        }
        AcquireError::Store(error) => {
            let failure = Failure::from(error);
            Failure::new(failure.code, format!("{}: {}", plan.key, failure.text))
        }
        error => error.into(),
    }
}

/// Runs the command under `guard`, sees to it that it is over before the lease is, and gives the lease up.
pub(crate) async fn attend(
    leases: &Leases,
    guard: Guard,
    plan: &meant::Run,
    keeper: &Arc<Keeper>,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let lead = keeper.lead();
    let leash = Arc::new(Leash::default());
    let mut ended = match start(leases, &guard, plan, keeper, &leash) {
        Ok(ended) => ended,
        Err(failure) => {
            keeper.dismiss();
            guard.release().await;
            return Err(failure);
        }
    };
    let (dark, mut stop) = (Dark::default(), None::<Stopping>);
    // After `fg` in a shell, the command wants the terminal that it could not have before.
    let mut resumed = signal(SignalKind::from_raw(Signal::SIGCONT as i32))
        .map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
    let slow = (plan.ttl / 40).clamp(Duration::from_millis(5), Duration::from_millis(250));
    let status = loop {
        let pause = if stop.is_some() { Duration::from_millis(5) } else { slow };
        tokio::select! {
            biased;
            status = &mut ended.status => break status,
            signal = signals.next() => match &stop {
                Some(Stopping { why: Why::Signal(_), .. }) => {
                    // The watchdog sees to it that nothing is left, and the lease expires by itself.
                    leash.signal(Signal::SIGKILL);
                    return Ok(Ended::AtOnce(signal));
                }
                _ => {
                    say::note(format!("{}: stopping the command; once more to stop at once", signals::name(signal)));
                    Stopping::begin(&mut stop, Why::Signal(signal), plan.grace, &leash);
                }
            },
            Some(()) = resumed.recv(), if !ended.terminal.is_lent() => ended.terminal.lend(),
            () = tokio::time::sleep(pause) => {}
        }
        let asked_at = asked_now();
        keeper.prolong(asked_at, guard.remaining());
        match outlook(&guard, lead, &dark) {
            Outlook::Good => {}
            Outlook::Revoked(within) => {
                Stopping::begin(&mut stop, Why::Revoked, within.min(plan.grace), &leash)
            }
            Outlook::Losing(within) => Stopping::begin(&mut stop, Why::Losing, within, &leash),
            Outlook::Lost => Stopping::begin(&mut stop, Why::Losing, Duration::ZERO, &leash),
        }
        if let Some(stop) = &mut stop
            && stop.is_overdue(&leash)
        {
            // It can't be killed (it hangs in the kernel), so nothing is known of what it does: the lease must expire.
            guard.lapse().await;
            return Ok(Ended::Stuck);
        }
    };
    ended.terminal.take_back();
    let status = status.map_err(|_| Failure::new(exit::INTERNAL, "the command's thread has ended"))?;
    keeper.dismiss();
    conclude(guard, plan, status, stop).await
}

struct Started {
    status: oneshot::Receiver<std::io::Result<ExitStatus>>,
    terminal: Arc<Terminal>,
}

fn start(
    leases: &Leases,
    guard: &Guard,
    plan: &meant::Run,
    keeper: &Arc<Keeper>,
    leash: &Arc<Leash>,
) -> Result<Started, Failure> {
    let asked_at = asked_now();
    let left = guard.remaining();
    keeper.prolong(asked_at, left);
    let mut command = Command::new(&plan.command.program);
    command.args(&plan.command.arguments);
    command.env("TENURE_KEY", guard.key().as_str());
    command.env("TENURE_FENCE", guard.fence().to_string());
    let deadline = u128::from(leases.clock().now().wall.0) + left.as_millis();
    command.env("TENURE_DEADLINE", deadline.to_string());
    keeper.mark(&mut command);
    let running = Running::start(command, Arc::clone(keeper), Arc::clone(leash))
        .map_err(|error| process::not_started(&plan.command.program, &error))?;
    if !guard.is_held() {
        leash.signal(Signal::SIGKILL);
    }
    let terminal = Arc::new(Terminal::of(running.group()));
    terminal.lend();
    let (sender, status) = oneshot::channel();
    let (grace, leash, lender) =
        (plan.grace.min(keeper.lead().term), Arc::clone(leash), Arc::clone(&terminal));
    let attend = move || {
        let status = running.attend(grace, |signal| {
            if lender.is_lent() && terminal::is_suspension(signal) {
                // A lease can't wait for someone to come back from lunch.
                leash.signal(Signal::SIGCONT);
            }
        });
        // Nobody listens any more after a stop at once.
        let _unheard = sender.send(status);
    };
    let thread = std::thread::Builder::new().name("command".to_owned()).spawn(attend);
    thread.map_err(|error| Failure::new(exit::INTERNAL, format!("no thread for the command: {error}")))?;
    Ok(Started { status, terminal })
}

/// A command that was told to stop.
pub(crate) struct Stopping {
    why: Why,
    kill_at: Duration,
    killed_at: Option<Duration>,
    /// The lease's time is over, whatever else.
    for_time: bool,
}

impl Stopping {
    /// Sends TERM, with KILL to follow. If it was stopping already, that may come sooner.
    pub(crate) fn begin(stop: &mut Option<Stopping>, why: Why, within: Duration, leash: &Leash) {
        let kill_at = boottime() + within;
        match stop {
            None => {
                leash.signal(Signal::SIGTERM);
                *stop = Some(Stopping { why, kill_at, killed_at: None, for_time: false });
            }
            Some(stop) => {
                if matches!(why, Why::Signal(_)) {
                    stop.why = why;
                }
                stop.kill_at = stop.kill_at.min(kill_at);
            }
        }
    }

    /// As [`Stopping::begin`], because time is over: whatever it was stopped for before.
    pub(crate) fn begin_for_time(stop: &mut Option<Stopping>, within: Duration, leash: &Leash) {
        Stopping::begin(stop, Why::Losing, within, leash);
        if let Some(stop) = stop {
            stop.for_time = true;
        }
    }

    pub(crate) fn is_for_time(&self) -> bool {
        self.for_time
    }

    pub(crate) fn is_by_signal(&self) -> bool {
        matches!(self.why, Why::Signal(_))
    }

    /// How the verb ends: as the user wanted, or as `lost` says.
    pub(crate) fn failure(&self, lost: impl FnOnce() -> Failure) -> Failure {
        match self.why {
            Why::Signal(signal) => Failure::by_signal(signal),
            _ => lost(),
        }
    }

    /// Sends KILL when its time has come; true if even that has not helped for long.
    pub(crate) fn is_overdue(&mut self, leash: &Leash) -> bool {
        const LONG: Duration = Duration::from_secs(5);
        let now = boottime();
        match self.killed_at {
            None if now >= self.kill_at => {
                leash.signal(Signal::SIGKILL);
                self.killed_at = Some(now);
                false
            }
            None => false,
            Some(killed_at) => now.saturating_sub(killed_at) > LONG,
        }
    }
}

async fn conclude(
    guard: Guard,
    plan: &meant::Run,
    status: std::io::Result<ExitStatus>,
    stop: Option<Stopping>,
) -> Result<Ended, Failure> {
    let held = guard.is_held();
    let loss = if held || guard.is_revoked() { None } else { Some(guard.lost().await) };
    // Its outcome changes nothing any more: the command is over, and an expired lease is given up as well.
    let _known = tokio::time::timeout(plan.ttl, guard.release()).await;
    match (stop.map(|stop| stop.why), loss) {
        (Some(Why::Signal(signal)), _) => Ok(Ended::Signalled(signal)),
        (Some(Why::Revoked), _) => Ok(Ended::Withdrawn),
        (_, Some(loss)) => Ok(Ended::Lost(say::loss(&loss))),
        (Some(Why::Losing), None) => Ok(Ended::Lost("the lease could not be renewed in time".to_owned())),
        (None, None) => {
            let status = status.map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
            Ok(Ended::Done(shell_status(status)))
        }
    }
}
