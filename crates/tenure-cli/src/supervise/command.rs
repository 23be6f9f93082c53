//! One command that has a lease for itself, and that the user has started: it has the terminal, and the user's signals stop it.
//! The lease goes with it.

mod ended;

use super::check;
use super::hooks;
use super::lease::{ExclusiveLease, Lease, ReleaseEnd};
use super::process::{not_started, shell_status};
use super::run::{CommandOutcome, Policy, Started};
use super::signals::{self, Signals};
use super::stopping::{Stopper, Why};
use super::terminal::Terminal;
use crate::exit::{self, Asked, Failure};
use crate::output::{self, Lost};
use crate::telemetry::leaderships;
use ended::{EndedCommand, LeaseEnd, NotEnded};
use std::ffi::OsStr;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a release is waited for once the user has asked to stop, or where there was no command: time for an answer, and not for what is left of a least time.
const MOMENT: Duration = Duration::from_secs(1);

/// How a command came to its end that nobody has asked to stop.
#[derive(Debug)]
pub(crate) enum CommandEnd {
    /// By itself, with this status.
    Done(u8),
    /// It was stopped because the lease was lost, or about to be: in words.
    Lost(String),
    /// It was stopped because somebody has released the lease: in words.
    Released(String),
    /// It was stopped because the lease was withdrawn: in words.
    Withdrawn(String),
    /// It was stopped because it ran for too long, or was not well: in words.
    Failed(String),
    /// It ended by itself, and the lease had been lost before: in words.
    FoundLost(String),
}

impl CommandEnd {
    /// How the verb ends then, when nothing more is to be tried.
    pub(crate) fn status(self) -> Result<u8, Failure> {
        match self {
            CommandEnd::Done(status) => Ok(status),
            CommandEnd::Lost(text)
            | CommandEnd::Released(text)
            | CommandEnd::Withdrawn(text)
            | CommandEnd::Failed(text)
            | CommandEnd::FoundLost(text) => Err(Failure::new(exit::LOST, text)),
        }
    }
}

/// Where the command's input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandInput {
    /// From where ours does, which may be a terminal.
    Ours,
    Piped,
}

/// Runs `command` under a lease, sees to it that it is over before the lease is, and gives the lease up. Its policy's hooks run before it, and
/// after a loss.
pub(crate) async fn attend<T: ExclusiveLease>(
    held: T,
    command: Command,
    input: CommandInput,
    policy: &Policy,
    signals: &mut Signals,
) -> Result<CommandEnd, Failure> {
    let Some(on_lost) = &policy.hooks.on_lost else {
        return attend_alone(held, command, input, policy, signals).await;
    };
    let mut hook = hooks::shell(on_lost);
    hook.env("TENURE_KEY", held.lease().key());
    hook.env("TENURE_FENCE", held.lease().fence().map_or_else(String::new, |fence| fence.to_string()));
    match held.lease().fences() {
        Some(fences) => hook.env("TENURE_FENCES", fences),
        None => hook.env_remove("TENURE_FENCES"),
    };
    let ended = attend_alone(held, command, input, policy, signals).await;
    let reason = match &ended {
        Ok(
            CommandEnd::Lost(text)
            | CommandEnd::Released(text)
            | CommandEnd::Withdrawn(text)
            | CommandEnd::Failed(text)
            | CommandEnd::FoundLost(text),
        ) => text,
        Err(failure) if failure.code == exit::LOST => &failure.text,
        _ => return ended,
    };
    hook.env("TENURE_REASON", reason);
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let run = tokio::task::spawn_blocking(move || hooks::run(&mut hook, &over));
    // Whoever asks to stop does not wait for it.
    signals
        .unless_hurried(async {
            match run.await {
                Ok(Ok(Some(status))) if !status.success() => {
                    output::note(format!("--on-lost {}", signals::ending(status)));
                }
                Ok(Err(error)) => output::note(format!("--on-lost: {error}")),
                _ => {}
            }
        })
        .await;
    is_over.store(true, Ordering::SeqCst);
    ended
}

async fn attend_alone<T: ExclusiveLease>(
    mut held: T,
    command: Command,
    input: CommandInput,
    policy: &Policy,
    signals: &mut Signals,
) -> Result<CommandEnd, Failure> {
    let (program, key) = (command.get_program().to_owned(), held.lease().key().to_owned());
    let (part, seen) = see_all(held.lease(), command, input, policy, signals).await;
    let ended = match EndedCommand::of(part, seen) {
        Ok(ended) => ended,
        Err(not_ended) => {
            let program = match part {
                RunPart::OnAcquire => OsStr::new("sh"),
                RunPart::Command => program.as_os_str(),
            };
            return Err(given_up(held, not_ended, program, policy, signals).await);
        }
    };
    held.ended(ended.status, ended.stopped.or(ended.asked.map(|_| Why::Asked)));
    let (loss, trouble) = (held.loss().await, held.trouble());
    // Now: the release may take as long as the outage, and may land after all. A loss that is known is counted already.
    if ended.stopped == Some(Why::Losing) {
        if loss.is_none() {
            held.tell_losing();
        }
        if loss.as_ref().is_none_or(|loss| !loss.is_wanted()) {
            leaderships::ended("lost");
        }
    }
    let late = || Lost { why: T::TOO_LATE.to_owned(), remedy: Some(T::REMEDY) };
    let loss = loss.or_else(|| ended.stopped.map(|_| late()));
    // It may be kept for its least time; who asks to stop does not wait for that.
    let patience = if ended.asked.is_some() { policy.ttl.min(MOMENT) } else { policy.ttl };
    let release = released(held, patience, policy, signals).await;
    ended.end(&key, LeaseEnd { loss, trouble, release }, policy)
}

/// Gives up a lease whose command is over. It may have expired: the release may tell that it was lost.
async fn released<T: ExclusiveLease>(
    held: T,
    patience: Duration,
    policy: &Policy,
    signals: &mut Signals,
) -> ReleaseEnd {
    let released = tokio::time::timeout(patience, held.release());
    // The watchdogs end while the store is at work on the release. Before, they would take the processors from it.
    let dismissed = async {
        tokio::task::yield_now().await;
        policy.watchdogs.dismiss();
    };
    let mut release_end = ReleaseEnd::Given;
    signals
        .unless_hurried(async {
            let (released, ()) = tokio::join!(biased; released, dismissed);
            release_end = released.unwrap_or(ReleaseEnd::Given);
        })
        .await;
    // Also where nobody waits for that.
    policy.watchdogs.dismiss();
    release_end
}

/// Gives up a lease whose command has not ended: it was never started, or may still be at work.
async fn given_up<T: ExclusiveLease>(
    mut held: T,
    not_ended: NotEnded,
    program: &OsStr,
    policy: &Policy,
    signals: &mut Signals,
) -> Failure {
    let key = held.lease().key().to_owned();
    match not_ended {
        NotEnded::NotStarted(error) => {
            policy.watchdogs.dismiss();
            let failure = not_started(program, &error);
            held.not_started(&failure.text);
            // Nobody waits for a least time, nor for a store that is away, before the user is told.
            let released = tokio::time::timeout(policy.ttl.min(MOMENT), held.release());
            let told = async {
                if released.await.is_err() {
                    output::note(format!("{key}: the lease is not given up yet, and may have to expire"));
                }
            };
            signals.unless_hurried(told).await;
            failure
        }
        // Nothing is known of the command, which may still be at work: the watchdogs stay, and the lease must expire.
        NotEnded::Stuck => {
            held.lapse().await;
            let text = format!("{key}: the command can't be killed; {} left to expire", T::WHAT);
            Failure::new(exit::LOST, text)
        }
        NotEnded::Hurried(by) => {
            held.lapse().await;
            Failure { is_urgent: true, ..Failure::asked(by) }
        }
    }
}

/// What of a held was seen to its end.
#[derive(Debug, Clone, Copy)]
enum RunPart {
    /// The hook that comes before the command. If it fails, the command does not run.
    OnAcquire,
    Command,
}

impl RunPart {
    fn name(self) -> &'static str {
        match self {
            RunPart::OnAcquire => "--on-acquire",
            RunPart::Command => "it",
        }
    }

    /// What has become of the command, where this step was stopped.
    fn end(self) -> &'static str {
        match self {
            RunPart::OnAcquire => "the command was not run",
            RunPart::Command => "the command was stopped",
        }
    }
}

/// As [`see`], after the hook that comes first. If that fails, it is what was seen.
async fn see_all(
    lease: &impl Lease,
    command: Command,
    input: CommandInput,
    policy: &Policy,
    signals: &mut Signals,
) -> (RunPart, Result<(CommandOutcome, Option<Asked>), Asked>) {
    if let Some(hook) = &policy.hooks.on_acquire {
        let seen = see(lease, hooks::shell(hook), CommandInput::Piped, policy, signals).await;
        match &seen {
            Ok((CommandOutcome::Ended { status, stopped: None, left, .. }, None)) if status.success() => {
                let remedy = "what is to run beside CMD, have CMD itself start";
                let told = |left| output::note(format!("--on-acquire {left} before CMD starts; {remedy}"));
                left.as_ref().into_iter().for_each(told);
            }
            Ok((CommandOutcome::Ended { status, stopped: None, .. }, None)) => {
                let status = shell_status(*status);
                output::note(format!("--on-acquire ended with {status}, so the command was not run"));
                return (RunPart::OnAcquire, seen);
            }
            _ => return (RunPart::OnAcquire, seen),
        }
    }
    (RunPart::Command, see(lease, command, input, policy, signals).await)
}

/// Sees it to its end, which the user may ask for. An error if the user does not want to wait for that: the command was sent KILL,
/// and nothing is known of it.
async fn see(
    lease: &impl Lease,
    command: Command,
    input: CommandInput,
    policy: &Policy,
    signals: &mut Signals,
) -> Result<(CommandOutcome, Option<Asked>), Asked> {
    let stopper = Arc::new(Stopper::default());
    let may_read = input == CommandInput::Ours;
    let mut terminal = match Terminal::of(&stopper.process_group, &policy.watchdogs, may_read) {
        Ok(terminal) => terminal,
        Err(error) => return Ok((CommandOutcome::NotStarted(error), None)),
    };
    let mut started = match Started::start(lease, command, policy, &stopper) {
        Ok(started) => started,
        Err(outcome) => return Ok((outcome, None)),
    };
    match (input, started.group().await) {
        (CommandInput::Ours, Some(group)) => terminal.begin(group),
        (CommandInput::Piped, Some(group)) => {
            stopper.process_group.resume(true);
            terminal.begin(group);
        }
        // Why it was not started is told as its end.
        (_, None) => {}
    }
    signals.pass_on_to(Some(Arc::clone(&stopper.process_group)));
    let mut asked = None;
    let over = Notify::new();
    let seen = async {
        let seen = started.see(lease, policy, &stopper);
        // A hook that comes before the command has no check.
        let Some(check) = policy.check.as_ref().filter(|_| may_read) else { return seen.await };
        let seen = async {
            let outcome = seen.await;
            over.notify_one();
            outcome
        };
        match tokio::join!(seen, check::watch(check, lease, policy, &stopper, &over)) {
            (outcome, None) => outcome,
            (_, Some(remains)) => CommandOutcome::Stuck(remains),
        }
    };
    let mut outcome = pin!(seen);
    let outcome = loop {
        let by = tokio::select! {
            biased;
            outcome = &mut outcome => break outcome,
            signal = signals.next() => match terminal.is_for_command(signal).then(|| terminal.interrupt()) {
                None => Asked::Signal(signal),
                Some(None) => continue,
                Some(Some(by)) => by,
            },
            by = terminal.insists() => by,
        };
        if asked.replace(by).is_some() {
            // The watchdogs see to it that nothing is left.
            stopper.kill();
            signals.pass_on_to(None);
            return Err(by);
        }
        let name = signals::name(by.signal());
        output::note(format!("{name}: stopping the command; once more to stop at once"));
        stopper.stop(Why::Asked, policy.grace);
    };
    signals.pass_on_to(None);
    terminal.take_back();
    if let CommandOutcome::Ended { status, stopped: None, .. } = &outcome
        && terminal.has_ended(status).await
    {
        asked = Some(Asked::Keyboard);
    }
    Ok((outcome, asked))
}
