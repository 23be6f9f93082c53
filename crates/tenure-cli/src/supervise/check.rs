//! The check of a command: another command, run beside it again and again under the same lease, which tells whether it is well.

use super::hooks;
use super::lease::Lease;
use super::run::{CommandOutcome, Policy, Remains, run};
use super::stopping::{Stopper, Why};
use crate::config::HealthCheck;
use crate::output;
use crate::text::brief;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Looks after the command of `stopper` until it is `over`, and stops it when its check has failed too often. What can't be killed of a check is
/// returned: it may still act.
pub(super) async fn watch(
    check: &HealthCheck,
    lease: &impl Lease,
    policy: &Policy,
    stopper: &Stopper,
    over: &Notify,
) -> Option<Remains> {
    let beside = policy.beside(check.every);
    let mut failed = 0;
    loop {
        tokio::select! {
            biased;
            () = over.notified() => return None,
            () = tokio::time::sleep(check.every) => {}
        }
        if stopper.why().is_some() {
            over.notified().await;
            return None;
        }
        let own = Arc::new(Stopper::default());
        own.process_group.resume(true);
        let mut outcome = Box::pin(run(lease, hooks::shell(&check.command), &beside, &own));
        let (outcome, is_over) = tokio::select! {
            biased;
            outcome = &mut outcome => (outcome, false),
            () = over.notified() => {
                own.stop(Why::Asked, Duration::ZERO);
                (outcome.await, true)
            }
        };
        let failure = match outcome {
            CommandOutcome::Stuck(remains) => {
                stopper.stop(Why::Unwell, policy.grace);
                if !is_over {
                    over.notified().await;
                }
                return Some(remains);
            }
            _ if is_over => return None,
            // The command itself is stopped for that.
            CommandOutcome::TooLate => continue,
            CommandOutcome::NotStarted(error) => Some(format!("it could not be started: {error}")),
            CommandOutcome::Ended { status, stopped, .. } => verdict(status, stopped, check.every),
        };
        failed = if failure.is_some() { failed + 1 } else { 0 };
        let Some(why) = failure else { continue };
        let of = check.failures;
        output::note(format!("{}: --check failed, {failed} of {of} in a row: {why}", lease.key()));
        if failed >= of {
            stopper.stop(Why::Unwell, policy.grace);
        }
    }
}

/// Why a check that has ended says that its command is not well, if it does.
fn verdict(status: ExitStatus, stopped: Option<Why>, every: Duration) -> Option<String> {
    match stopped {
        None if status.success() => None,
        None => Some(format!("status {}", super::process::shell_status(status))),
        Some(Why::Overran) => Some(format!("it took longer than {}", brief(every))),
        // With the lease, or by the user: that is no word of the command.
        Some(_) => None,
    }
}
