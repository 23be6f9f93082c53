//! How a command has ended that had a lease for itself, and in which words that is told.

use super::{CommandEnd, RunPart};
use crate::exit::{self, Asked, Failure};
use crate::output::{self, Lost};
use crate::supervise::lease::ReleaseEnd;
use crate::supervise::process::shell_status;
use crate::supervise::run::{CommandOutcome, Policy};
use crate::supervise::stopping::Why;
use crate::text::brief;
use std::io;
use std::process::ExitStatus;

/// A command that is over, or for which there was no time.
pub(super) struct EndedCommand {
    pub(super) asked: Option<Asked>,
    /// None if it did not run.
    pub(super) status: Option<ExitStatus>,
    /// Why it was stopped, if it was.
    pub(super) stopped: Option<Why>,
    /// What was seen last of its lease.
    part: RunPart,
}

/// Why there is no such end.
pub(super) enum NotEnded {
    NotStarted(io::Error),
    /// It can't be killed.
    Stuck,
    /// The user does not wait for it.
    Hurried(Asked),
}

/// What has become of the lease by then.
pub(super) struct LeaseEnd {
    pub(super) loss: Option<Lost>,
    /// What went wrong with the store of late.
    pub(super) trouble: Option<String>,
    pub(super) release: ReleaseEnd,
}

impl EndedCommand {
    pub(super) fn of(
        part: RunPart,
        seen: Result<(CommandOutcome, Option<Asked>), Asked>,
    ) -> Result<EndedCommand, NotEnded> {
        let (outcome, asked) = seen.map_err(NotEnded::Hurried)?;
        match outcome {
            CommandOutcome::Ended { status, stopped, left, .. } => {
                let told = |left| output::note(format!("CMD {left}, since the lease goes with CMD"));
                left.into_iter().for_each(told);
                Ok(EndedCommand { asked, status: Some(status), stopped, part })
            }
            CommandOutcome::TooLate => {
                Ok(EndedCommand { asked, status: None, stopped: Some(Why::Losing), part })
            }
            CommandOutcome::NotStarted(error) => Err(NotEnded::NotStarted(error)),
            CommandOutcome::Stuck(_) => Err(NotEnded::Stuck),
        }
    }

    /// What comes of its lease on that key then.
    pub(super) fn end(self, key: &str, lease: LeaseEnd, policy: &Policy) -> Result<CommandEnd, Failure> {
        let EndedCommand { asked, status, stopped, part } = self;
        let LeaseEnd { loss, trouble, release } = lease;
        if let Some(by) = asked {
            return Err(Failure::asked(by));
        }
        let stopped_since = |why: &str| format!("{key}: {why}; {}", part.end());
        // Whatever became of the lease, these were first.
        match stopped {
            Some(Why::Revoked) => return Ok(CommandEnd::Withdrawn(stopped_since("the lease was withdrawn"))),
            Some(Why::Overran) => return Ok(CommandEnd::Failed(stopped_since(&overran(part, policy)))),
            Some(Why::Unwell) => return Ok(CommandEnd::Failed(stopped_since(&unwell(policy)))),
            Some(Why::Asked | Why::Losing) | None => {}
        }
        let Some(loss) = loss else {
            let status = status.map_or(exit::INTERNAL, shell_status);
            return Ok(match release {
                ReleaseEnd::Given => CommandEnd::Done(status),
                ReleaseEnd::FoundLost => CommandEnd::FoundLost(found_lost(key, status)),
            });
        };
        let why = stopped_since(&match trouble {
            // The loss may name its cause already.
            Some(trouble) if !loss.why.contains(&trouble) => format!("{}: {trouble}", loss.why),
            _ => loss.why,
        });
        Ok(match loss.remedy {
            // Somebody wanted it.
            None => CommandEnd::Released(why),
            Some(remedy) => CommandEnd::Lost(format!("{why} ({remedy})")),
        })
    }
}

fn overran(part: RunPart, policy: &Policy) -> String {
    let most = policy.at_most.map_or_else(String::new, |most| format!(" {}", brief(most)));
    format!("{} ran for longer than the{most} of --max", part.name())
}

fn unwell(policy: &Policy) -> String {
    let times = policy.check.as_ref().map_or(1, |check| check.failures);
    let times = if times == 1 { String::new() } else { format!(" {times} times in a row") };
    format!("--check failed{times}")
}

/// What is said where a command has ended with that status, and its lease was gone before.
fn found_lost(key: &str, status: u8) -> String {
    let ended = if status == exit::OK { String::new() } else { format!("; CMD ended with {status}") };
    format!("{key}: the lease was lost while the command ran, as was found when it was to be given up{ended}")
}
