//! Bodies that run while a candidate leads.

use crate::bodies::RunningBody;
use crate::body::{self, BodyEnd, Held, StopNotice, cut_off, supervise_and_tell};
use crate::error::BodyError;
use crate::guard::Guard;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_core::Loss;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What a candidate's users want of its task.
pub(super) enum CandidateRequest {
    Resign(oneshot::Sender<bool>),
    Stop,
    /// To run a body under the present leadership; none if there is none.
    Body(oneshot::Sender<Option<Permit>>),
    BodyEnded {
        joined: bool,
    },
}

/// A leadership as bodies see it.
pub(super) struct LeadershipScope {
    /// It gives nothing up when it is dropped: that is the candidate's to do.
    pub(super) guard: Guard,
    /// Cancelled when bodies must end, because the candidate steps down.
    pub(super) stop: CancellationToken,
    /// Cancelled by that, too, and when the leadership has ended.
    pub(super) over: CancellationToken,
}

/// The right to run a body. The candidate does not give the key up before it is back.
pub(super) struct Permit {
    pub(super) scope: Arc<LeadershipScope>,
    /// None once its end is told: a body that can't be ended keeps no candidate alive.
    wishes: Mutex<Option<mpsc::UnboundedSender<CandidateRequest>>>,
}

impl Permit {
    pub(super) fn new(
        scope: Arc<LeadershipScope>,
        wishes: mpsc::UnboundedSender<CandidateRequest>,
    ) -> Permit {
        Permit { scope, wishes: Mutex::new(Some(wishes)) }
    }

    /// Its body has ended, or can't be ended: then the key is left to expire, whenever the body ends.
    fn over(&self, joined: bool) {
        let wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(wishes) = wishes {
            // The candidate's task outlives every permit but after a stop of the runtime.
            let _ = wishes.send(CandidateRequest::BodyEnded { joined });
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.over(true);
    }
}

pub(super) async fn run<T, F, Fut>(permit: Permit, grace: Duration, body: F) -> Result<T, BodyError<T>>
where
    F: FnOnce(Held) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let guard = &permit.scope.guard;
    let running = guard.leases().inner.bodies.begin([(guard.id(), guard.ttl())])?;
    let stop = CancellationToken::new();
    let held = Held::under(guard, &[], stop.clone());
    let under = Arc::new((permit, running));
    let task = body::spawn(|| body(held), Arc::clone(&under));
    body::watched(|caller_gone| watch(under, task, grace, stop, caller_gone)).await
}

async fn watch<T: Send + 'static>(
    under: Arc<(Permit, RunningBody)>,
    task: JoinHandle<T>,
    grace: Duration,
    stop: CancellationToken,
    caller_gone: CancellationToken,
) -> Result<T, BodyError<T>> {
    let (permit, running) = &*under;
    let scope = &permit.scope;
    let told = async {
        let why = tokio::select! {
            () = scope.stop.cancelled() => Some(Loss::Stopped),
            () = scope.guard.leases().inner.bodies.stopping() => Some(Loss::Stopped),
            () = caller_gone.cancelled() => None,
        };
        StopNotice { why, within: grace }
    };
    match supervise_and_tell(&scope.guard, task, grace, stop, told).await {
        BodyEnd::Done(Ok(value)) if scope.guard.is_held() => Ok(value),
        BodyEnd::Done(Ok(value)) => {
            Err(BodyError::Interrupted { why: scope.guard.why_over(), value: Some(value) })
        }
        BodyEnd::Done(Err(error)) => Err(cut_off(&error)),
        BodyEnd::Stopped { why, joined } => {
            if joined.is_none() {
                running.stuck();
                permit.over(false);
            }
            let value = joined.and_then(Result::ok);
            Err(BodyError::Interrupted { why: why.unwrap_or(Loss::Stopped), value })
        }
    }
}
