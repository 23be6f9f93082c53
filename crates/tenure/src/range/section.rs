//! One section: where ranges are leased.

use super::builder::SectionBuilder;
use super::lease::{self, RangeLease, Term};
use super::users::Replies;
use crate::error::{AcquireError, BodyError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_core::range::RangeSet;
use tenure_core::section::{Entry, SectionCommand, SectionNotice};
use tenure_core::{Clock, HolderId, InvalidInput, Key, LeaseId, Ttl};
use tenure_store::AnyStore;
use tokio::sync::{mpsc, oneshot};

/// A section: a part of a store in which ranges of keys are leased. Cheap to clone.
#[derive(Clone)]
pub struct Section {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) store: AnyStore,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) key: Key,
    pub(super) holder: HolderId,
    pub(super) commands: mpsc::UnboundedSender<SectionCommand>,
    pub(super) last_id: AtomicU64,
    pub(super) replies: Mutex<Replies>,
    pub(super) least: Duration,
    pub(super) longest: Duration,
    pub(super) grace: Option<Duration>,
}

impl Section {
    /// A section of `store`, with settings.
    pub fn builder(store: AnyStore, name: impl AsRef<str>) -> SectionBuilder {
        SectionBuilder::new(store, name.as_ref())
    }

    /// A section of `store` as it is by default.
    ///
    /// # Errors
    /// As [`SectionBuilder::start`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(store: AnyStore, name: impl AsRef<str>) -> Result<Section, InvalidInput> {
        Section::builder(store, name).start()
    }

    /// Leases what nobody else holds of `desired` and runs `body` with it, once: also when that is nothing.
    ///
    /// The body is told to end, by [`RangeLease::cancelled`], early enough for its grace period to be over before the lease is;
    /// what has not ended by then is aborted. The lease is given up after the body's end: after its return, a panic, and when
    /// this future is dropped. `duration` may be cut to [`SectionBuilder::longest`], and is never prolonged.
    ///
    /// # Errors
    /// [`BodyError::Acquire`] when the store can't be reached, the section is full, or the input is bad: the body did not run.
    /// [`BodyError::Interrupted`] when the body had to be stopped. [`BodyError::Panicked`] when it panicked. What the body itself
    /// returns, an error or not, is returned as it is.
    ///
    /// # Cancel safety
    /// When the future is dropped the body is told to stop, aborted after its grace period, and the lease then given up, in the
    /// background.
    pub async fn with_lease<T, F, Fut>(
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
        let duration = self.duration(duration).map_err(AcquireError::from)?;
        let term = self.obtain(desired.into(), duration).await?;
        lease::run(term, body).await
    }

    /// What is held in the section, by whomever; what is over but was not collected yet included.
    ///
    /// # Errors
    /// When the store can't be reached, or the record is not a section's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn list(&self) -> Result<Vec<Entry>, AcquireError> {
        match self.ask(SectionCommand::List).await? {
            SectionNotice::Listed(_, entries) => Ok(entries),
            other => Err(refused(other)),
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
    pub async fn reclaim(&self) -> Result<usize, AcquireError> {
        match self.ask(SectionCommand::Reclaim).await? {
            SectionNotice::Reclaimed(_, count) => Ok(count),
            other => Err(refused(other)),
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
        &self.inner.store
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
        Ttl::new(Duration::from_millis(u64::try_from(cut.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Gets what is free of `desired`; to be given up by the term's end.
    async fn obtain(&self, desired: RangeSet, duration: Ttl) -> Result<Term, AcquireError> {
        if desired.is_empty() {
            return Err(InvalidInput::new("no range is asked for, or an empty one; ask for some keys").into());
        }
        let id = self.inner.next_id();
        // If the caller goes away, what comes of it is given up.
        let mut term = Term::new(self.clone(), id, duration);
        match self.inner.ask(SectionCommand::Acquire(id, desired, duration)).await {
            Ok(SectionNotice::Obtained { parts, fence, until, .. }) => {
                term.begin(parts, fence, until);
                Ok(term)
            }
            Ok(other) => {
                term.is_over();
                Err(refused(other))
            }
            Err(_) => Err(AcquireError::Stopped),
        }
    }

    async fn ask(&self, command: fn(LeaseId) -> SectionCommand) -> Result<SectionNotice, AcquireError> {
        let id = self.inner.next_id();
        self.inner.ask(command(id)).await.map_err(|_| AcquireError::Stopped)
    }
}

fn refused(notice: SectionNotice) -> AcquireError {
    match notice {
        SectionNotice::Failed(_, error) => AcquireError::Store(error),
        _ => AcquireError::Stopped,
    }
}

impl std::fmt::Debug for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Section").field("key", &self.inner.key).field("holder", &self.inner.holder).finish()
    }
}

impl Inner {
    fn next_id(&self) -> LeaseId {
        LeaseId(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(super) fn replies(&self) -> std::sync::MutexGuard<'_, Replies> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn send(&self, command: SectionCommand) {
        // The driver outlives every sender.
        let _ = self.commands.send(command);
    }

    /// Sends a command whose answer will come through the returned channel.
    pub(super) fn ask(&self, command: SectionCommand) -> oneshot::Receiver<SectionNotice> {
        let (sender, reply) = oneshot::channel();
        if let Some(lease) = command.lease() {
            self.replies().insert(lease, sender);
        }
        self.send(command);
        reply
    }
}
