//! A body that runs under leased ranges, and what it knows of them.

use super::guard::RangeGuard;
use super::shared::SharedSection;
use crate::belief::AtomicBelief;
use crate::bodies::RunningBody;
use crate::body::{self, BodyEnd, BodyLease, StopNotice, cut_off, give_up, supervise};
use crate::cancelled::Cancelled;
use crate::error::BodyError;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::range::{KeyRange, RangeSet};
use tenure_core::{Fence, Loss};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What a body knows about the ranges that it has obtained. Clones that outlive the body are told of its end.
#[derive(Clone)]
pub struct RangeLease {
    parts: Arc<RangeSet>,
    fence: Fence,
    belief: Arc<AtomicBelief>,
    /// How long before the end of belief the body is told to stop.
    reserve: Duration,
    section: Arc<SharedSection>,
    stop: CancellationToken,
}

impl RangeLease {
    /// What was obtained, sorted and disjoint: what nobody else holds of the ranges that were asked for. Never nothing.
    ///
    /// Integers are had by `Range::<u64>::try_from(part)`. A [`RangeSet`] is shown in hexadecimal digits: 0 to 500 is `0_1f4`.
    #[must_use]
    pub fn parts(&self) -> &[KeyRange] {
        self.parts.ranges()
    }

    /// The same as a set.
    #[must_use]
    pub fn set(&self) -> &RangeSet {
        &self.parts
    }

    /// The fencing token: greater than that of every earlier lease of the section.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How long until the body is told to stop; then it has its grace period. Zero after the body's end.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.left().saturating_sub(self.reserve)
    }

    /// How long the lease itself is held: the grace period and a little more than [`RangeLease::remaining`]. Zero after the
    /// body's end.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.left()
    }

    /// Whether the lease is held at this instant. Takes a few nanoseconds and no I/O. Never after the
    /// body's end.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.held_for().is_zero()
    }

    /// Told when the body has to end, which then has the grace period; and after the body's end.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::by(&self.stop, &self.section.process)
    }

    fn left(&self) -> Duration {
        self.section.until(&self.belief).since(self.section.clock.held())
    }
}

impl std::fmt::Debug for RangeLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangeLease")
            .field("parts", &self.parts.to_string())
            .field("fence", &self.fence)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// Runs `body` under `guard` and gives that up after it.
pub(super) async fn run<T, F, Fut>(guard: RangeGuard, body: F) -> Result<T, BodyError<T>>
where
    F: FnOnce(RangeLease) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let section = &guard.section;
    let half = guard.duration.part(2);
    let grace = section.grace.unwrap_or_else(|| guard.duration.part(8)).min(half);
    let lease = RangeLease {
        parts: Arc::clone(&guard.parts),
        fence: guard.fence,
        belief: Arc::clone(&guard.belief),
        reserve: grace + guard.reserve(),
        section: Arc::clone(section),
        stop: guard.stop.clone(),
    };
    // Counted from here on, so that a section which stops waits for it.
    let running = section.bodies.begin([(guard.id(), guard.duration)])?;
    let under = Arc::new((guard, running));
    let task = body::spawn(|| body(lease), Arc::clone(&under));
    body::watched(|caller_gone| watch(under, task, grace, caller_gone)).await
}

async fn watch<T: Send + 'static>(
    under: Arc<(RangeGuard, RunningBody)>,
    task: JoinHandle<T>,
    grace: Duration,
    caller_gone: CancellationToken,
) -> Result<T, BodyError<T>> {
    let (guard, running) = &*under;
    let told = async {
        tokio::select! {
            () = caller_gone.cancelled() => {}
            () = guard.section.bodies.stopping() => {}
        }
        StopNotice { why: None, within: grace }
    };
    let ending = supervise(guard, task, grace, guard.stop.clone(), told).await;
    let result = finish(guard, ending).await;
    running.over();
    result
}

async fn finish<T>(guard: &RangeGuard, ending: BodyEnd<T>) -> Result<T, BodyError<T>> {
    match ending {
        BodyEnd::Done(done) => {
            let is_late = guard.until_deadline().is_zero();
            give_up(guard.give_up()).await;
            match done {
                Ok(value) if !is_late => Ok(value),
                Ok(value) => Err(BodyError::Interrupted { why: Loss::Overran, value: Some(value) }),
                Err(error) => Err(cut_off(&error)),
            }
        }
        BodyEnd::Stopped { why, joined: Some(done) } => {
            give_up(guard.give_up()).await;
            Err(BodyError::Interrupted { why: why.unwrap_or(Loss::Stopped), value: done.ok() })
        }
        BodyEnd::Stopped { why, joined: None } => {
            guard.leave_to_expire().await;
            Err(BodyError::Interrupted { why: why.unwrap_or(Loss::Stopped), value: None })
        }
    }
}
