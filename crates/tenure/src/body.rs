//! Running a body under a lease, so that the body ends before the lease does.
//!
//! When the lease is lost, withdrawn, or about to run out, the body's token is cancelled; it has its grace period to end;
//! then it is aborted and waited for; and only then is the lease released. A body that can't be ended (it blocks its
//! thread) leaves the lease to expire. What a body returned is not kept back for longer than a second by a store that does not
//! answer the release, which goes on in the background.
//!
//! A body counts as ended when its future is. What it has started elsewhere, on another task or by `spawn_blocking`, is not
//! ended with it: a future that awaits `spawn_blocking` is aborted at once, and its thread goes on without the lease. Work that
//! blocks belongs into [`Lock::with_lease_blocking`](crate::Lock::with_lease_blocking), which joins the thread.
//!
//! After the machine was suspended, a body whose lease's time has passed meanwhile is ended within a twentieth of the ttl, 30 s
//! at most, and without a grace period, of which nothing is left.

mod guarded;
mod source;

use crate::belief::LeaseCell;
use crate::cancelled::Cancelled;
use crate::error::BodyError;
use crate::guard::Guard;
use crate::leases::Leases;
pub(crate) use guarded::{BodyLimits, Guarded, Left, WithoutCaller, run_as};
pub(crate) use source::{LeaseSource, run_blocking_under, run_under};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Fence, Key, Loss};
use tenure_store::parts::nap;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

/// What a body knows about the lease that it runs under, or the [several](Leases::lock_all).
#[derive(Debug, Clone)]
pub struct Held {
    stop: CancellationToken,
    leases: Leases,
    first: HeldLease,
    /// The others, of a body that runs under several.
    others: Arc<[HeldLease]>,
}

/// One of the leases that a body runs under.
#[derive(Debug, Clone)]
struct HeldLease {
    key: Key,
    fence: Fence,
    cell: Arc<LeaseCell>,
    is_attached: bool,
}

impl HeldLease {
    fn of(guard: &Guard) -> HeldLease {
        let (key, cell) = (guard.key().clone(), Arc::clone(guard.cell()));
        HeldLease { key, fence: guard.fence(), cell, is_attached: guard.is_attached() }
    }

    fn remaining(&self, leases: &Leases) -> Duration {
        let inner = &leases.inner;
        inner.until(&self.cell.belief, self.is_attached).since(inner.clock.held())
    }
}

impl Held {
    /// What a body that runs under `guard` knows, and these others if there are any; `stop` tells it to end.
    pub(crate) fn under(guard: &Guard, others: &[Guard], stop: CancellationToken) -> Held {
        let others = others.iter().map(HeldLease::of).collect();
        Held { stop, leases: guard.leases().clone(), first: HeldLease::of(guard), others }
    }

    /// The key: of several, the first by name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.first.key
    }

    /// The fencing token of that key.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.first.fence
    }

    /// The fencing token of each key, in the order of their names: one, unless the body runs under [several](Leases::lock_all).
    pub fn fences(&self) -> impl Iterator<Item = (&Key, Fence)> {
        self.all().map(|lease| (&lease.key, lease.fence))
    }

    /// Whether the lease is held at this instant: of several, all of them.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long the lease is held if no renewal succeeds from now on: of several, all of them.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.all().map(|lease| lease.remaining(&self.leases)).min().unwrap_or_default()
    }

    fn all(&self) -> impl Iterator<Item = &HeldLease> {
        std::iter::once(&self.first).chain(&*self.others)
    }

    /// Told when the body has to end: it has the grace period from then on. Clones that outlive the body are told of its end, however that came.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::by(&self.stop, &self.leases.inner.process)
    }
}

/// A task for a body, in the present span, which keeps what it runs under until the body is no more. A panic of what makes its future is one of the body's.
///
/// Of each type of future, the compiler makes tasks anew, which takes it a while: each body has its own type, and the boxes of all that have
/// one output are of one.
pub(crate) fn spawn<T, Fut, G>(body: impl FnOnce() -> Fut, under: Arc<G>) -> JoinHandle<T>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
    G: Send + Sync + 'static,
{
    let body: Pin<Box<dyn Future<Output = T> + Send>> = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(body) => Box::pin(body),
        Err(panic) => Box::pin(async move { resume_unwind(panic) }),
    };
    let body = async move {
        let _under = under;
        body.await
    };
    tokio::spawn(body.in_current_span())
}

/// Awaits a watch over a body, which is told when the caller goes away: then this future is dropped, and the watch goes on in a task of its own.
pub(crate) async fn watched<T, W>(watch: impl FnOnce(CancellationToken) -> W) -> Result<T, BodyError<T>>
where
    T: Send + 'static,
    W: Future<Output = Result<T, BodyError<T>>> + Send + 'static,
{
    let caller = CancellationToken::new();
    let watch = tokio::spawn(watch(caller.clone()));
    let _present = caller.drop_guard();
    match watch.await {
        Ok(result) => result,
        Err(error) => Err(cut_off(&error)),
    }
}

/// What is told of a body that did not come to its end: it panicked, or the runtime has ended that it, or the watch over it, ran on.
pub(crate) fn cut_off<T>(error: &JoinError) -> BodyError<T> {
    if error.is_panic() {
        BodyError::Panicked(error.to_string())
    } else {
        BodyError::Interrupted { why: Loss::Stopped, value: None }
    }
}

/// How a body came to its end.
pub(crate) enum BodyEnd<T> {
    /// By itself.
    Done(Result<T, JoinError>),
    /// It was told to stop, because of the lease if there is a reason.
    Stopped {
        why: Option<Loss>,
        /// What it ended with; none if it could not be ended.
        joined: Option<Result<T, JoinError>>,
    },
}

/// What a body runs under.
pub(crate) trait BodyLease: Sync {
    /// How long it lasts if no renewal succeeds from now on, also while belief in it is suspended.
    fn until_deadline(&self) -> Duration;
    /// Cancelled when it is lost or withdrawn.
    fn gone(&self) -> CancellationToken;
    /// Why it has to end.
    fn why(&self) -> Loss;
    /// What must be left besides the grace period.
    fn reserve(&self) -> Duration;
}

/// Why a body is told to end though its lease lasts, and how long it has for that.
pub(crate) struct StopNotice {
    pub(crate) why: Option<Loss>,
    pub(crate) within: Duration,
}

/// Lets a body run while it may: until its lease is about to end, or it is `told` to.
pub(crate) async fn supervise<T: Send + 'static>(
    holding: &impl BodyLease,
    mut task: JoinHandle<T>,
    grace: Duration,
    stop: CancellationToken,
    told: impl Future<Output = StopNotice>,
) -> BodyEnd<T> {
    let (why, within) = tokio::select! {
        biased;
        done = &mut task => return BodyEnd::Done(done),
        why = must_stop(holding, grace) => (Some(why), grace),
        told = told => (told.why, told.within),
    };
    stop.cancel();
    // However long it was given, the lease must not end before it. When nothing of that is left, as after a suspend, a body
    // that has not ended yet runs no further.
    let left = || grace.min(holding.until_deadline());
    let mut joined = if within > grace {
        tokio::select! {
            biased;
            done = &mut task => Some(done),
            () = tokio::time::sleep(within) => None,
            _ = must_stop(holding, grace) => end_within(left(), &mut task).await,
        }
    } else {
        end_within(within.min(left()), &mut task).await
    };
    if joined.is_none() {
        task.abort();
        // What can't be joined is left to expire, which the leases are to hear before this one is lost with its session.
        joined = tokio::time::timeout((holding.until_deadline() / 2).max(MOMENT), &mut task).await.ok();
    }
    BodyEnd::Stopped { why, joined }
}

/// The same, and whoever the body has handed its token to is told of its end, before anything is given up.
pub(crate) async fn supervise_and_tell<T: Send + 'static>(
    holding: &impl BodyLease,
    task: JoinHandle<T>,
    grace: Duration,
    stop: CancellationToken,
    told: impl Future<Output = StopNotice>,
) -> BodyEnd<T> {
    // Also where this future is dropped with its runtime.
    let _tell = stop.clone().drop_guard();
    supervise(holding, task, grace, stop, told).await
}

/// An aborted task needs a moment to be joined, also when nothing of the lease is left.
const MOMENT: Duration = Duration::from_millis(50);

/// What a task ended with, if it does within so long.
async fn end_within<T>(span: Duration, task: &mut JoinHandle<T>) -> Option<Result<T, JoinError>> {
    // A timer, however short, would let the task run.
    if span.is_zero() && !task.is_finished() {
        return None;
    }
    tokio::time::timeout(span, task).await.ok()
}

/// Waits for a lease to be given up, a second at the most: when the store can't be reached that goes on in the background, and
/// whoever waits for what a body returned need not wait for the lease's end.
pub(crate) async fn give_up(release: impl Future<Output = bool>) {
    const PATIENCE: Duration = Duration::from_secs(1);
    // Dropping a release does not stop it.
    let _known = tokio::time::timeout(PATIENCE, release).await;
}

/// Whether a body that begins now is not told to end at once.
pub(crate) fn may_begin(holding: &impl BodyLease, grace: Duration) -> bool {
    holding.until_deadline() > reserve(holding, grace)
}

/// What must be left of a lease while a body runs under it.
fn reserve(holding: &impl BodyLease, grace: Duration) -> Duration {
    grace.saturating_add(holding.reserve())
}

/// Resolves when the body has to end: on loss, on withdrawal, or when no more is left than the grace period and a little.
async fn must_stop(holding: &impl BodyLease, grace: Duration) -> Loss {
    const LEAST: Duration = Duration::from_millis(1);
    let gone = holding.gone();
    let reserve = reserve(holding, grace);
    loop {
        let left = holding.until_deadline();
        if left <= reserve {
            return holding.why();
        }
        tokio::select! {
            () = gone.cancelled() => return holding.why(),
            () = tokio::time::sleep(nap(left.saturating_sub(reserve), left / 16).max(LEAST)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a body that panicked is told from one whose runtime has ended.
    use super::*;

    #[tokio::test]
    async fn a_body_whose_runtime_has_ended_did_not_panic() {
        let cancelled = tokio::spawn(std::future::pending::<()>());
        cancelled.abort();
        let stopped: BodyError<()> = cut_off(&cancelled.await.unwrap_err());
        assert!(matches!(stopped, BodyError::Interrupted { why: Loss::Stopped, value: None }), "{stopped:?}");
        let panicked = tokio::spawn(async { panic!("out of range") });
        let told: BodyError<()> = cut_off(&panicked.await.unwrap_err());
        assert!(matches!(&told, BodyError::Panicked(text) if text.contains("out of range")), "{told:?}");
    }
}
