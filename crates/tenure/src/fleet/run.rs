//! One task for each unit of a worker, ended before the unit goes.

use super::assignment::Assignment;
use super::unit::Unit;
use super::worker::{Event, Worker};
use crate::body::{self, BodyEnd, StopNotice, supervise};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{HolderId, Metadata};
use tenure_store::tell;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// What became of the work on a unit, when its task returned by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is done: nobody is to have it again.
    Done,
    /// It is done, and these fields are written in the same write, as by [`Assignment::finish`].
    DoneWith(Metadata),
    /// It has failed: let another worker have a go, and this one again after a while, as by [`Assignment::release`]. Failures in a row are
    /// counted, and the unit rests for longer and longer. A body that was told to end may return it, too, as nothing is made of that.
    Again,
    /// The same, for a reason that is logged.
    Failed(String),
    /// It is not: let this very worker have it, as by [`Assignment::hand_to`].
    HandTo(HolderId),
}

/// For people, as in logs.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Done | Verdict::DoneWith(_) => f.write_str("done"),
            Verdict::Again => f.write_str("failed"),
            Verdict::Failed(why) => write!(f, "failed: {why}"),
            Verdict::HandTo(worker) => write!(f, "handed to {worker}"),
        }
    }
}

/// An error is a failure with that reason. There is no verdict in `()`: a task that returns by accident would end its unit for ever.
impl<E: fmt::Display> From<Result<Verdict, E>> for Verdict {
    fn from(result: Result<Verdict, E>) -> Verdict {
        result.unwrap_or_else(|error| Verdict::Failed(error.to_string()))
    }
}

impl Worker {
    /// Starts one task for each unit that is assigned to this worker, until it stops. Returns once all tasks have ended and the worker has stopped:
    /// `main` may end then, though [`Worker::leave`] is still awaited elsewhere, as where a signal is waited for.
    ///
    /// When a unit is to go, its task is told so by [`Unit::cancelled`]; it may take the drain time to end, then it is
    /// aborted and waited for; only then the unit goes. On loss, and before the end of validity, it has an eighth of the
    /// ttl. One that can't be ended, since it blocks its thread, leaves the unit to expire.
    ///
    /// What a task returns by itself decides about its unit; what it returns after it was told to end does not: the unit goes to where it belongs,
    /// and nothing is counted as a failure, but for a panic of one whose unit was not told to go. A task that can fail returns `Result<Verdict, E>`: its error is logged, as a panic is, and
    /// another worker has a go.
    ///
    /// A task that returns says by that that its requests are over: where a unit is tried again by the same worker, its fence may be the same. One that is aborted or panics says nothing,
    /// and its unit has a higher fence next. A task that knows of a request without an answer can wait for longer than that may take, or panic.
    ///
    /// # Cancel safety
    /// When the future is dropped the tasks are told to end, and aborted after an eighth of the ttl, in the background; one that drains keeps
    /// its drain time. Their units go to where they belong: to others once this worker leaves, and to this one again for the next `run`
    /// if it stays.
    pub async fn run<F, Fut>(&self, body: F)
    where
        F: Fn(Unit) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Into<Verdict> + Send + 'static,
    {
        let body = Arc::new(body);
        // Dropped with this future; the tasks, which are not part of it, notice.
        let runner = CancellationToken::new();
        let _present = runner.clone().drop_guard();
        let mut tasks = JoinSet::new();
        while let Some(event) = self.next().await {
            if let Event::Assigned(assignment) = event {
                let task = attend(assignment, Arc::clone(&body), runner.clone());
                // Not in the set itself: that would abort them with this future.
                let task = tokio::spawn(task);
                tasks.spawn(async move { drop(task.await) });
            }
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }
}

async fn attend<F, Fut>(assignment: Assignment, body: Arc<F>, runner_gone: CancellationToken)
where
    F: Fn(Unit) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: Into<Verdict> + Send + 'static,
{
    let unit = assignment.unit().clone();
    // Also where the runtime of this one ends.
    assignment.goes_without_failure();
    // The task has it as well: where that runtime ends, the unit does not go before the task is no more.
    let assignment = Arc::new(assignment);
    let grace = unit.worker.ttl.part(8);
    let task = {
        let worker = &unit.worker;
        let (fleet, holder, fence) = (worker.fleet.name(), &worker.holder, unit.fence());
        let span = tracing::info_span!(
            target: "tenure::fleet", "unit", %fleet, %holder, key = %unit.key(), %fence
        );
        let (unit, stop) = (unit.clone(), unit.share.stop.clone());
        let body = || async move {
            let verdict: Verdict = body(unit).await.into();
            // Here, as it may be told to end before anybody else sees that it has returned.
            (verdict, !stop.is_cancelled())
        };
        span.in_scope(|| body::spawn(body, Arc::clone(&assignment)))
    };
    let told = async {
        let within = tokio::select! {
            until = unit.drained() => until.since(unit.worker.clock().held()),
            () = runner_gone.cancelled() => grace,
        };
        StopNotice { why: None, within: within.max(Duration::from_millis(1)) }
    };
    let done = match supervise(&unit, task, grace, unit.share.stop.clone(), told).await {
        BodyEnd::Done(done) | BodyEnd::Stopped { joined: Some(done), .. } => done,
        BodyEnd::Stopped { joined: None, .. } => {
            let (key, fence, holder) = unit.named();
            tell!(
                error, name: "fleet.stuck", target: "tenure::fleet", %key, %fence, %holder,
                "what is done for this unit can't be ended"
            );
            return assignment.leave_to_expire();
        }
    };
    log_failure(&unit, &done);
    // Of a task whose end was seen, nothing is left that has it.
    let Some(assignment) = Arc::into_inner(assignment) else { return };
    // It may have been lost meanwhile, which has been told.
    let followed = match done {
        Ok((Verdict::Done, true)) => assignment.finish(None).await,
        Ok((Verdict::DoneWith(fields), true)) => assignment.finish(Some(fields)).await,
        Ok((Verdict::Again | Verdict::Failed(_), true)) => Ok(assignment.release().await),
        Ok((Verdict::HandTo(worker), true)) => assignment.hand_to(&worker).await,
        // It was dropped in the midst of something.
        Err(error) if error.is_panic() && !unit.is_draining() => Ok(assignment.abandon().await),
        Ok((_, false)) | Err(_) => return drop(assignment),
    };
    if let Err(error) = followed {
        unit.tell_not_let_go(&error);
    }
}

/// Also of what decides nothing, because it came after the task was told to end.
fn log_failure(unit: &Unit, done: &Result<(Verdict, bool), JoinError>) {
    let (key, fence, holder) = unit.named();
    match done {
        Ok((Verdict::Failed(error), _)) => {
            tell!(
                warn, name: "fleet.failed", target: "tenure::fleet", %key, %fence, %holder, reason = %error,
                "what was done for this unit has failed"
            );
        }
        Err(error) if error.is_panic() => {
            tell!(
                error, name: "fleet.panicked", target: "tenure::fleet", %key, %fence, %holder, reason = %error,
                "what was done for this unit panicked"
            );
        }
        _ => {}
    }
}
