//! A lease of ranges, from when it is obtained until it is given up, and the body that runs in between.

use super::section::Section;
use crate::body::{Ending, Holding, Told, supervise};
use crate::error::BodyError;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::range::{KeyRange, RangeSet};
use tenure_core::section::SectionCommand;
use tenure_core::{Clock, Fence, LeaseId, Loss, Tick, Ttl};
use tokio_util::sync::CancellationToken;

/// What a body knows about the ranges that it has obtained.
#[derive(Clone)]
pub struct RangeLease {
    parts: Arc<RangeSet>,
    fence: Option<Fence>,
    /// When the body is told to stop.
    deadline: Tick,
    until: Tick,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
}

impl RangeLease {
    /// What was obtained, sorted and disjoint: what nobody else holds of the ranges that were asked for. Perhaps nothing.
    #[must_use]
    pub fn parts(&self) -> &[KeyRange] {
        self.parts.ranges()
    }

    /// The same as a set.
    #[must_use]
    pub fn set(&self) -> &RangeSet {
        &self.parts
    }

    /// The fencing token: greater than that of every earlier lease of the section. None if nothing was obtained.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// How long until the body is told to stop; then it has its grace period.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.since(self.clock.held())
    }

    /// How long the lease itself is held: the grace period and a little more than [`RangeLease::remaining`]. Zero if nothing was
    /// obtained.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        if self.fence.is_some() { self.until.since(self.clock.held()) } else { Duration::ZERO }
    }

    /// Whether the lease is held at this instant. Takes a few nanoseconds and no I/O. Never if nothing was obtained.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.held_for().is_zero()
    }

    /// Cancelled when the body has to end: it has the grace period from then on.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.stop
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

/// A lease that is wanted, or held. Dropping it gives it up in the background.
pub(super) struct Term {
    section: Section,
    id: LeaseId,
    duration: Ttl,
    parts: RangeSet,
    fence: Option<Fence>,
    until: Tick,
    /// Nothing is to be given up.
    spent: bool,
}

impl Term {
    pub(super) fn new(section: Section, id: LeaseId, duration: Ttl) -> Term {
        Term { section, id, duration, parts: RangeSet::new(), fence: None, until: Tick(0), spent: false }
    }

    pub(super) fn begin(&mut self, parts: RangeSet, fence: Option<Fence>, until: Tick) {
        self.spent = fence.is_none();
        (self.parts, self.fence, self.until) = (parts, fence, until);
    }

    pub(super) fn is_over(&mut self) {
        self.spent = true;
    }

    async fn end(mut self, command: fn(LeaseId) -> SectionCommand) {
        if !self.spent {
            self.spent = true;
            // An error means that the driver is gone: the lease expires by itself.
            let _ = self.section.inner.ask(command(self.id)).await;
        }
    }
}

impl Holding for Term {
    fn remaining(&self) -> Duration {
        self.until.since(self.section.inner.clock.held())
    }
    fn is_suspended(&self) -> bool {
        false
    }
    fn gone(&self) -> CancellationToken {
        // It ends by its time only.
        CancellationToken::new()
    }
    fn why(&self) -> Loss {
        Loss::Expired
    }
    fn reserve(&self) -> Duration {
        self.duration.part(50)
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        if !self.spent {
            self.section.inner.replies().remove(&self.id);
            self.section.inner.send(SectionCommand::Release(self.id));
        }
    }
}

/// Runs `body` under `term` and gives that up after it.
pub(super) async fn run<T, F, Fut>(term: Term, body: F) -> Result<T, BodyError<T>>
where
    F: FnOnce(RangeLease) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let half = term.duration.part(2);
    let grace = term.section.inner.grace.unwrap_or_else(|| term.duration.part(8)).min(half);
    let reserve = grace + term.reserve();
    let stop = CancellationToken::new();
    let clock = Arc::clone(&term.section.inner.clock);
    let lease = RangeLease {
        parts: Arc::new(term.parts.clone()),
        fence: term.fence,
        deadline: clock.held().after(term.remaining().saturating_sub(reserve)),
        until: term.until,
        clock,
        stop: stop.clone(),
    };
    let task = tokio::spawn(body(lease));
    // If the caller goes away, this guard's drop stops the body; the watch over it goes on in a task of its own.
    let caller = CancellationToken::new();
    let gone = caller.clone();
    let watch = tokio::spawn(async move {
        let told = async {
            gone.cancelled().await;
            Told { why: None, within: grace }
        };
        let ending = supervise(&term, task, grace, stop, told).await;
        finish(term, ending).await
    });
    let _present = caller.drop_guard();
    match watch.await {
        Ok(result) => result,
        Err(error) => Err(BodyError::Panicked(error.to_string())),
    }
}

async fn finish<T>(term: Term, ending: Ending<T>) -> Result<T, BodyError<T>> {
    match ending {
        Ending::Done(done) => {
            let is_late = term.remaining().is_zero();
            term.end(SectionCommand::Release).await;
            match done {
                Ok(value) if !is_late => Ok(value),
                Ok(value) => Err(BodyError::Interrupted { why: Loss::Expired, value: Some(value) }),
                Err(error) => Err(BodyError::Panicked(error.to_string())),
            }
        }
        Ending::Stopped { why, joined: Some(done) } => {
            term.end(SectionCommand::Release).await;
            Err(BodyError::Interrupted { why: why.unwrap_or(Loss::Released), value: done.ok() })
        }
        Ending::Stopped { why, joined: None } => {
            term.end(SectionCommand::Lapse).await;
            Err(BodyError::Interrupted { why: why.unwrap_or(Loss::Expired), value: None })
        }
    }
}
