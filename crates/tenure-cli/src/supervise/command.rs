//! One command that has a lease for itself, and that the user has started: it has the terminal, and the user's signals stop it.
//! The lease goes with it.

use super::lease::{Lease, Tenancy};
use super::process::{not_started, shell_status};
use super::run::{Outcome, Policy, Started};
use super::signals::{self, Signals};
use super::stopping::{Stopper, Why};
use super::terminal::Terminal;
use crate::exit::{self, Asked, Failure};
use crate::output;
use crate::text::brief;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;

/// How a command came to its end that nobody has asked to stop.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself, with this status.
    Done(u8),
    /// It was stopped because the lease was lost, or about to be: in words.
    Lost(String),
    /// It was stopped because the lease was withdrawn: in words.
    Withdrawn(String),
}

impl Ended {
    /// How the verb ends then, when nothing more is to be tried.
    pub(crate) fn status(self) -> Result<u8, Failure> {
        match self {
            Ended::Done(status) => Ok(status),
            Ended::Lost(text) | Ended::Withdrawn(text) => Err(Failure::new(exit::LOST, text)),
        }
    }
}

/// Where the command's input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// From where ours does, which may be a terminal.
    Ours,
    Piped,
}

/// Runs `command` under a lease, sees to it that it is over before the lease is, and gives the lease up.
pub(crate) async fn attend<T: Tenancy>(
    mut tenancy: T,
    command: Command,
    input: Input,
    policy: &Policy,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let (program, key) = (command.get_program().to_owned(), tenancy.lease().key().to_owned());
    let (asked, status, stopped) = match see(tenancy.lease(), command, input, policy, signals).await {
        Ok((Outcome::Ended { status, stopped, left }, asked)) => {
            left.into_iter().for_each(output::note);
            (asked, Some(status), stopped)
        }
        Ok((Outcome::TooLate, asked)) => (asked, None, Some(Why::Losing)),
        Ok((Outcome::NotStarted(error), _)) => {
            policy.watchdogs.dismiss();
            tenancy.release().await;
            return Err(not_started(&program, &error));
        }
        // Nothing is known of the command, which may still be at work: the watchdogs stay, and the lease must expire.
        Ok((Outcome::Stuck(_), _)) => {
            let text = format!("{key}: the command can't be killed; {} left to expire", T::WHAT);
            tenancy.lapse().await;
            return Err(Failure::new(exit::LOST, text));
        }
        Err(by) => {
            tenancy.lapse().await;
            return Err(Failure { is_urgent: true, ..Failure::asked(by) });
        }
    };
    policy.watchdogs.dismiss();
    tenancy.ended(status, stopped.or(asked.map(|_| Why::Asked)));
    let (loss, trouble) = (tenancy.loss().await, tenancy.trouble());
    // Its outcome changes nothing any more: the command is over, and an expired lease is given up as well.
    // It may be kept for its least time; who asks to stop does not wait for that.
    let released = async { drop(tokio::time::timeout(policy.ttl, tenancy.release()).await) };
    signals.unless_hurried(released).await;
    let loss = loss.or_else(|| stopped.map(|_| T::TOO_LATE.to_owned()));
    // The loss may name its cause already.
    let because = |text: String| match trouble {
        Some(trouble) if !text.contains(&trouble) => format!("{text}: {trouble}"),
        _ => text,
    };
    let stopped_since = |why: &str| format!("{key}: {why}; the command was stopped");
    match (asked, stopped, loss, status) {
        (Some(by), ..) => Err(Failure::asked(by)),
        (_, Some(Why::Revoked), ..) => Ok(Ended::Withdrawn(stopped_since("the lease was withdrawn"))),
        (_, Some(Why::Overran), ..) => {
            let most = policy.at_most.map_or_else(String::new, |most| format!(" {}", brief(most)));
            Ok(Ended::Lost(stopped_since(&format!("it ran for longer than the{most} of --max"))))
        }
        (_, _, Some(loss), _) => Ok(Ended::Lost(stopped_since(&because(loss)))),
        (_, _, None, status) => Ok(Ended::Done(status.map_or(exit::INTERNAL, shell_status))),
    }
}

/// Sees it to its end, which the user may ask for. An error if the user does not want to wait for that: the command was sent KILL,
/// and nothing is known of it.
async fn see(
    lease: &impl Lease,
    command: Command,
    input: Input,
    policy: &Policy,
    signals: &mut Signals,
) -> Result<(Outcome, Option<Asked>), Asked> {
    let stopper = Arc::new(Stopper::default());
    let mut terminal = match Terminal::of(&stopper.process_group, &policy.watchdogs) {
        Ok(terminal) => terminal,
        Err(error) => return Ok((Outcome::NotStarted(error), None)),
    };
    let started = match Started::start(lease, command, policy, &stopper).await {
        Ok(started) => started,
        Err(outcome) => return Ok((outcome, None)),
    };
    match input {
        Input::Ours => terminal.lend(started.group),
        Input::Piped => stopper.process_group.resume(true),
    }
    let mut asked = None;
    let mut outcome = pin!(started.see(lease, policy, &stopper));
    let outcome = loop {
        let by = tokio::select! {
            biased;
            outcome = &mut outcome => break outcome,
            signal = signals.next() => Asked::Signal(signal),
            by = terminal.insists() => by,
        };
        if asked.replace(by).is_some() {
            // The watchdogs see to it that nothing is left.
            stopper.kill();
            return Err(by);
        }
        let name = signals::name(by.signal());
        output::note(format!("{name}: stopping the command; once more to stop at once"));
        stopper.stop(Why::Asked, policy.grace);
    };
    terminal.take_back();
    if let Outcome::Ended { status, stopped: None, .. } = &outcome
        && terminal.has_ended(status).await
    {
        asked = Some(Asked::Keyboard);
    }
    Ok((outcome, asked))
}
