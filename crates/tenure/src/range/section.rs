//! One section: where ranges are leased.

use super::guard::RangeGuard;
use super::lease::RangeLease;
use super::presence::SectionPresence;
use super::shared::SharedSection;
use crate::error::{AcquireError, BodyError};
use crate::meters::WaitMeter;
use crate::patience::{LAST_CALL, unanswered};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::range::RangeSet;
use tenure_core::section::{Entry, Portion, SectionCommand, SectionNotice};
use tenure_core::time::millis;
use tenure_core::{Clock, HolderId, InvalidInput, Key, LeaseId, StoreError, Ttl};
use tenure_store::AnyStore;

/// A section: a part of a store in which ranges of keys are leased. Cheap to clone.
///
/// When the last clone and the last [`RangeGuard`] are dropped, what is still held is given up. The drop waits for that, half a second at the
/// most ([`SectionBuilder::linger`](super::SectionBuilder::linger), which says when it does not): ranges that are dropped as `main` ends are
/// free for others then. [`Section::stop`] waits for what was dropped before it, without blocking, for as long as that takes.
#[derive(Clone)]
pub struct Section {
    pub(super) inner: Arc<SharedSection>,
    presence: Arc<SectionPresence>,
}

impl Section {
    pub(super) fn of(inner: Arc<SharedSection>) -> Section {
        let presence = Arc::new(SectionPresence::new(Arc::clone(&inner)));
        Section { inner, presence }
    }

    /// Leases what nobody else holds of `desired` and runs `body` with it, once. When others hold all of it, the body does not run:
    /// [`RangeLock::with_lease_within`](super::RangeLock::with_lease_within) waits for them.
    ///
    /// The body is told to end, by [`RangeLease::cancelled`], early enough for its grace period to be over before the lease is;
    /// what has not ended by then is aborted. That is after about two thirds of `duration`, unless the [grace period is
    /// set](super::SectionBuilder::grace). The lease is given up after the body's end: after its return, a panic, and when
    /// this future is dropped. `duration` may be cut to [`SectionBuilder::longest`](super::SectionBuilder::longest), and is never prolonged. Of a section that is
    /// almost full, the body gets what fits, the lowest keys first.
    ///
    /// A store that does not answer the release keeps the body's result back for a second at the most; the release goes on.
    ///
    /// A body is aborted as a future is: what it has started elsewhere, such as a thread of `spawn_blocking` that it awaits, goes on without the ranges.
    /// Let such work ask [`RangeLease::is_held`] before it commits, or check the [fence](RangeLease::fence).
    ///
    /// # Errors
    /// [`BodyError::Acquire`] when others hold all of `desired` ([`AcquireError::Held`]), the store can't be reached, the section is full, or the input is bad:
    /// the body did not run.
    /// [`BodyError::Interrupted`] when the body had to be stopped. [`BodyError::Panicked`] when it panicked. What the body itself
    /// returns, an error or not, is returned as it is.
    ///
    /// # Cancel safety
    /// When the future is dropped the body is told to stop, aborted after its grace period, and the lease then given up, in the
    /// background. A runtime that ends before that drops the body, and the ranges are given up then; but a body in the middle of
    /// something long keeps them until it comes to an end, or `duration` is over. So whoever has a deadline asks for no more than is left of
    /// it (`duration.min(left)`; what is below the store's least ttl is `Invalid`, and stands for time that is over), or calls [`Section::stop`] before
    /// the runtime ends.
    pub async fn try_with_lease<T, F, Fut>(
        &self,
        desired: impl Into<RangeSet>,
        duration: Duration,
        body: F,
    ) -> Result<T, BodyError<T>>
    where
        F: FnOnce(RangeLease) -> Fut,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.lock(desired, duration).try_with_lease(body).await
    }

    /// Leases what nobody else holds of `desired`, and what fits of that, to be given up by the caller. `duration` may be cut to
    /// [`SectionBuilder::longest`](super::SectionBuilder::longest), and is never prolonged. It does not wait for others: [`Section::lock`] does, and can ask for all or
    /// nothing. A store that does not answer is waited for, for half of the duration and 10 s at the most.
    ///
    /// # Errors
    /// [`AcquireError::Held`] when others hold all of it, of whom no one is named. Otherwise when the store can't be reached, the section is full or stopped, or
    /// the input is bad.
    ///
    /// # Cancel safety
    /// When the future is dropped, what comes of it is given up in the background.
    pub async fn try_acquire(
        &self,
        desired: impl Into<RangeSet>,
        duration: Duration,
    ) -> Result<RangeGuard, AcquireError> {
        self.acquire_within(desired.into(), duration, Portion::Free, Duration::ZERO).await
    }

    /// As [`RangeLock::acquire_within`](super::RangeLock::acquire_within).
    pub(super) async fn acquire_within(
        &self,
        desired: RangeSet,
        duration: Duration,
        portion: Portion,
        wait: Duration,
    ) -> Result<RangeGuard, AcquireError> {
        const FIRST: Duration = Duration::from_millis(50);
        const LONGEST: Duration = Duration::from_secs(1);
        let duration = self.duration(duration)?;
        let (begun, mut pause) = (self.inner.clock.held(), FIRST);
        let waiting = WaitMeter::for_range(begun);
        let left = || wait.saturating_sub(self.inner.clock.held().since(begun));
        // The store's trouble, until it has answered.
        let (mut is_answered, mut trouble) = (false, None);
        loop {
            // The first may take its time where there is no wait: it is the only one.
            let most = if wait.is_zero() { Duration::MAX } else { left().saturating_add(LAST_CALL) };
            let attempt = self.obtain(desired.clone(), duration, portion);
            match tokio::time::timeout(most, attempt).await {
                Ok(Ok(Some(guard))) => {
                    waiting.over(self.inner.clock.held());
                    return Ok(guard);
                }
                Ok(Ok(None)) => (is_answered, trouble) = (true, None),
                // As long as there is time, it may pass.
                Ok(Err(AcquireError::Store(error))) if error.is_passing() => trouble = Some(error),
                Ok(Err(error)) => return Err(error),
                // That one was cut short says nothing of the store.
                Err(_) if trouble.is_none() && !is_answered => return Err(unanswered(wait)),
                Err(_) => {}
            }
            let left = left();
            if left.is_zero() {
                return Err(trouble.map_or(AcquireError::Held(None), AcquireError::Store));
            }
            tokio::select! {
                () = tokio::time::sleep(pause.min(left)) => {}
                // The next attempt says so.
                () = self.inner.bodies.stopping() => {}
            }
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Ends it for this process, all clones included: bodies are told to end, and their leases given up after that; what is under
    /// way, such as a claim that nobody waits for any more, is given back; nothing more can be leased. Waits until that is done or
    /// has become pointless. What a [`RangeGuard`] holds is left to expire.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the bodies' end, but the rest. Call it again.
    pub async fn stop(&self) {
        if !self.inner.process.is_this() {
            return;
        }
        self.inner.bodies.stop();
        // What a body has that nobody watches over any more is left to expire, as what a guard has is.
        self.inner.bodies.ended().await;
        let stopped = self.inner.users().ending.wait();
        if let Some(stopped) = stopped {
            self.inner.send(SectionCommand::Stop);
            // An error means that the driver is gone, which is as good.
            let _ = stopped.await;
        }
    }

    /// What is held in the section, by whomever; what is over but was not collected yet included.
    ///
    /// # Errors
    /// When the store can't be reached, or the record is not a section's; `Invalid` when it is stopped.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn list(&self) -> Result<Vec<Entry>, StoreError> {
        match self.ask(SectionCommand::List).await? {
            SectionNotice::Listed(_, entries) => Ok(entries),
            other => Err(self.failure(other).unwrap_or_else(stopped)),
        }
    }

    /// Collects what is over, and tells how many leases that were. This happens by itself when ranges are leased.
    ///
    /// Where the store tells no ages, a lease of a dead process is over once this `Section` has had it in view for its whole
    /// duration: keep it, and ask again.
    ///
    /// # Errors
    /// As [`Section::list`].
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn reclaim(&self) -> Result<usize, StoreError> {
        match self.ask(SectionCommand::Reclaim).await? {
            SectionNotice::Reclaimed(_, count) => Ok(count),
            other => Err(self.failure(other).unwrap_or_else(stopped)),
        }
    }

    /// The key of the section's record.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.inner.key
    }

    /// This process's name as others see it.
    #[must_use]
    pub fn holder(&self) -> &HolderId {
        &self.inner.holder
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &AnyStore {
        self.inner.direct.store()
    }

    /// The clock that this section goes by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    fn duration(&self, asked: Duration) -> Result<Ttl, InvalidInput> {
        let least = self.inner.least;
        if asked < least {
            return Err(InvalidInput::new(format!(
                "a duration of {asked:?} is below this store's minimum of {least:?}"
            )));
        }
        let cut = asked.min(self.inner.longest);
        Ttl::new(Duration::from_millis(millis(cut)))
    }

    /// None: others hold all of it, or any of it where all is wanted.
    async fn obtain(
        &self,
        desired: RangeSet,
        duration: Ttl,
        portion: Portion,
    ) -> Result<Option<RangeGuard>, AcquireError> {
        if desired.is_empty() {
            return Err(InvalidInput::new("no range is asked for, or an empty one; ask for some keys").into());
        }
        if self.inner.bodies.is_stopping() {
            return Err(AcquireError::Stopped);
        }
        let id = self.inner.next_id();
        // If the caller goes away, what comes of it is given up.
        let mut guard = RangeGuard::new(Arc::clone(&self.inner), Arc::clone(&self.presence), id, duration);
        match self.inner.ask(SectionCommand::Acquire(id, desired, duration, portion)).await {
            Ok(SectionNotice::Obtained { parts, fence: Some(fence), until, .. }) => {
                guard.begin(parts, fence, until);
                Ok(Some(guard))
            }
            Ok(SectionNotice::Obtained { .. }) => {
                guard.refused();
                Ok(None)
            }
            Ok(other) => {
                guard.refused();
                Err(self.failure(other).map_or(AcquireError::Stopped, AcquireError::Store))
            }
            Err(_) => Err(AcquireError::Stopped),
        }
    }

    /// What the store said; none if all is stopped.
    fn failure(&self, notice: SectionNotice) -> Option<StoreError> {
        match notice {
            SectionNotice::Failed(_, error) if !self.inner.bodies.is_stopping() => Some(error),
            _ => None,
        }
    }

    async fn ask(&self, command: fn(LeaseId) -> SectionCommand) -> Result<SectionNotice, StoreError> {
        self.inner.process.check()?;
        let id = self.inner.next_id();
        self.inner.ask(command(id)).await.map_err(|_| stopped())
    }
}

fn stopped() -> StoreError {
    StoreError::invalid("the section was stopped; start another")
}

impl std::fmt::Debug for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Section").field("key", &self.inner.key).field("holder", &self.inner.holder).finish()
    }
}
