//! A body under a guard, or several: from the leases that were had until they are given up.

use super::{
    BodyEnd, BodyLease, Held, MOMENT, StopNotice, cut_off, give_up, spawn, supervise_and_tell, watched,
};
use crate::bodies::RunningBody;
use crate::driver::sleep_until;
use crate::error::BodyError;
use crate::guard::Guard;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Loss, Metadata, Tick};
use tenure_store::codec::check_metadata;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::Span;

/// What a body runs under: a guard, or several that are held together.
pub(crate) trait Guarded: BodyLease + Send + 'static {
    /// One at the least, in the order of their names.
    fn guards(&self) -> &[Guard];
    fn guards_mut(&mut self) -> &mut [Guard];
    /// Gives them up, with this metadata in the same write if there is some. Whether all were held until then.
    fn give_up(&self, metadata: Option<Metadata>) -> impl Future<Output = bool> + Send;
    /// Stops believing but leaves the records to expire.
    fn leave_to_expire(&self) -> impl Future<Output = ()> + Send;

    fn first(&self) -> &Guard {
        &self.guards()[0]
    }

    /// Whether all are held at this instant.
    fn is_held(&self) -> bool {
        self.guards().iter().all(Guard::is_held)
    }
}

impl BodyLease for Guard {
    fn until_deadline(&self) -> Duration {
        self.deadline().since(self.leases().clock().held())
    }
    fn gone(&self) -> CancellationToken {
        self.cell().token()
    }
    fn why(&self) -> Loss {
        self.why_over()
    }
    fn reserve(&self) -> Duration {
        self.ttl().part(50)
    }
}

impl Guarded for Guard {
    fn guards(&self) -> &[Guard] {
        std::slice::from_ref(self)
    }
    fn guards_mut(&mut self) -> &mut [Guard] {
        std::slice::from_mut(self)
    }
    fn give_up(&self, metadata: Option<Metadata>) -> impl Future<Output = bool> + Send {
        Guard::give_up(self, metadata)
    }
    fn leave_to_expire(&self) -> impl Future<Output = ()> + Send {
        Guard::leave_to_expire(self)
    }
}

/// How long a body may run, and take to end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BodyLimits {
    /// An eighth of the ttl, if nothing is said.
    pub(crate) grace: Option<Duration>,
    pub(crate) at_most: Option<Duration>,
}

/// Runs `body` under `leases` and gives them up after it.
pub(crate) async fn run<G, T, F, Fut>(leases: G, limits: BodyLimits, body: F) -> Result<T, BodyError<T>>
where
    G: Guarded,
    F: FnOnce(Held) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    run_as(leases, limits, WithoutCaller::Aborted, |held, under| spawn(|| body(held), under), |_| None).await
}

/// Runs `body` under `leases` on a thread of its own, and gives them up after it.
pub(crate) async fn run_blocking<G, T, F>(leases: G, limits: BodyLimits, body: F) -> Result<T, BodyError<T>>
where
    G: Guarded,
    F: FnOnce(Held) -> T + Send + 'static,
    T: Send + 'static,
{
    let span = Span::current();
    let start = |held, under: Arc<Under<G>>| {
        tokio::task::spawn_blocking(move || {
            let _under = under;
            span.in_scope(move || body(held))
        })
    };
    run_as(leases, limits, WithoutCaller::GoesOn, start, |_| None).await
}

/// What a body runs under. The body has it, and whoever watches over the body: where the runtime of the latter ends, the leases are not given up
/// before the body is no more.
pub(crate) type Under<G> = (G, RunningBody);

/// How a body came to its end, for what is written into the record with the release.
pub(crate) enum Left<'t, T> {
    /// By itself.
    Returned(&'t T),
    Panicked,
    /// It was told to end.
    Interrupted,
}

/// What is written into the record with the release, if anything is.
type Leave<T> = Box<dyn FnOnce(Left<'_, T>) -> Option<Metadata> + Send>;

/// What becomes of a body whose caller goes away, once it was told to end and has had its grace period.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutCaller {
    Aborted,
    /// It can't be aborted, and nothing presses: its leases are kept for it.
    GoesOn,
}

/// Runs what `start` starts, under `leases`, and gives them up after it, with the metadata that `leave` says, if it does.
pub(crate) async fn run_as<G: Guarded, T: Send + 'static>(
    mut leases: G,
    limits: BodyLimits,
    alone: WithoutCaller,
    start: impl FnOnce(Held, Arc<Under<G>>) -> JoinHandle<T>,
    leave: impl FnOnce(Left<'_, T>) -> Option<Metadata> + Send + 'static,
) -> Result<T, BodyError<T>> {
    let grace = limits.grace.unwrap_or_else(|| leases.first().ttl().part(8));
    let over = over(leases.first(), limits.at_most);
    end_if_unheeded(leases.guards_mut(), grace, over);
    let bodies = &leases.first().leases().inner.bodies;
    let running = bodies.begin(leases.guards().iter().map(|guard| (guard.id(), guard.ttl())))?;
    let stop = CancellationToken::new();
    let held = Held::under(leases.first(), &leases.guards()[1..], stop.clone());
    let under = Arc::new((leases, running));
    let task = start(held, Arc::clone(&under));
    let leave: Leave<T> = Box::new(leave);
    watched(|caller_gone| watch(under, task, (grace, over), stop, (caller_gone, alone), leave)).await
}

async fn watch<G: Guarded, T: Send + 'static>(
    under: Arc<Under<G>>,
    task: JoinHandle<T>,
    (grace, over): (Duration, Over),
    stop: CancellationToken,
    caller: (CancellationToken, WithoutCaller),
    leave: Leave<T>,
) -> Result<T, BodyError<T>> {
    let (leases, running) = &*under;
    let gone = {
        let ((caller_gone, alone), stop) = (caller, stop.clone());
        async move {
            caller_gone.cancelled().await;
            if alone == WithoutCaller::GoesOn {
                stop.cancel();
                std::future::pending().await
            }
        }
    };
    let told = told(leases, gone, grace, over);
    match supervise_and_tell(leases, task, grace, stop, told).await {
        BodyEnd::Done(done) => finish(leases, done, leave).await,
        BodyEnd::Stopped { why, joined: Some(done) } => {
            let_go(leases, leave(Left::Interrupted)).await;
            Err(BodyError::Interrupted { why: why.unwrap_or(Loss::Stopped), value: done.ok() })
        }
        BodyEnd::Stopped { why, joined: None } => {
            leases.leave_to_expire().await;
            running.over();
            Err(BodyError::Interrupted { why: why.unwrap_or(Loss::Expired), value: None })
        }
    }
}

/// When a body that runs for so long at most has run for that long, and how long that is.
type Over = Option<(Tick, Duration)>;

/// From now on.
fn over(guard: &Guard, most: Option<Duration>) -> Over {
    most.map(|most| (guard.leases().clock().held().after(most), most))
}

/// Whoever watches over a body ends its leases in time, on the runtime of the body. Where that is blocked, as by the body, its leases end all the same: a
/// little later than the watch would have left them to expire.
fn end_if_unheeded(guards: &mut [Guard], grace: Duration, over: Over) {
    let Some((at, most)) = over else { return };
    for guard in guards {
        guard.end_at(at.after(grace).after(guard.ttl().part(2)).after(MOMENT), most);
    }
}

/// Waits until the caller has gone, all is stopped, or the body has run for too long, which its leases are told.
async fn told(
    leases: &impl Guarded,
    caller_gone: impl Future<Output = ()>,
    grace: Duration,
    over: Over,
) -> StopNotice {
    let of = leases.first().leases();
    let clock = Arc::clone(of.clock());
    tokio::select! {
        () = caller_gone => StopNotice { why: None, within: grace },
        () = of.inner.bodies.stopping() => StopNotice { why: Some(Loss::Stopped), within: grace },
        () = sleep_until(&*clock, over.map(|(at, _)| at)) => {
            let most = over.map_or(Duration::ZERO, |(_, most)| most);
            leases.guards().iter().for_each(|guard| guard.tell_overrun(most));
            StopNotice { why: Some(Loss::Overran), within: grace }
        }
    }
}

/// Gives leases up after their body. Where one's least time is not over, all go by themselves: what the body returned is not kept back for that.
async fn let_go(leases: &impl Guarded, metadata: Option<Metadata>) {
    // What is too large is not written.
    let metadata = metadata.filter(|metadata| check_metadata(metadata).is_ok());
    if metadata.is_some() || !leases.guards().iter().any(Guard::is_kept) {
        give_up(leases.give_up(metadata)).await;
    }
}

async fn finish<T>(
    leases: &impl Guarded,
    done: Result<T, JoinError>,
    leave: impl FnOnce(Left<'_, T>) -> Option<Metadata>,
) -> Result<T, BodyError<T>> {
    let lost = (!leases.is_held()).then(|| leases.why());
    let left = match &done {
        Ok(value) => Left::Returned(value),
        Err(error) if error.is_panic() => Left::Panicked,
        // Its runtime has ended.
        Err(_) => Left::Interrupted,
    };
    let_go(leases, leave(left)).await;
    match (done, lost) {
        (Ok(value), None) => Ok(value),
        (Ok(value), Some(why)) => Err(BodyError::Interrupted { why, value: Some(value) }),
        (Err(error), _) => Err(cut_off(&error)),
    }
}
