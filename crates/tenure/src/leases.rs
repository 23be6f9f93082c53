//! The leases of this process: where they are asked for.

use crate::belief::{AtomicBelief, LeaseCell};
use crate::builder::LeasesBuilder;
use crate::driver::{Trouble, Troubles, sleep_until};
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::home::{Driving, Home};
use crate::lock::Lock;
use crate::meters;
use crate::prefixes::Prefixes;
use crate::users::{CommandReply, HeardNotice, LeaseUsers, PendingCommand};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tenure_core::{
    Clock, Command, Drift, Fence, HolderId, InvalidInput, Key, LeaseId, Loss, Metadata, Nonce, Nonces,
    Notice, Sighting, StoreError, Tick, Ttl, reserved,
};
use tenure_store::{AnyStore, Store};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::field::display;

/// The leases of one process on one store. Cheap to clone; clones share the session.
///
/// Leases are renewed on a thread of tenure's own, also while the runtime is busy or blocked
/// ([`LeasesBuilder::runtime`](crate::LeasesBuilder::runtime) names another place, and says what becomes of the store's connections).
///
/// When the last clone and the last [`Guard`] are dropped, what is still held is handed back. The drop waits for that, half a second at
/// the most ([`LeasesBuilder::linger`](crate::LeasesBuilder::linger)): a guard that is dropped as `main` ends is released.
/// [`Leases::stop`] does the same without blocking, and takes as long as it takes.
///
/// A forked child has none of its parent's leases: what it asks of them is refused as after a stop, and dropping them gives nothing back.
#[derive(Clone)]
pub struct Leases {
    pub(crate) inner: Arc<SharedLeases>,
    _presence: Arc<LeasesPresence>,
}

/// The leases are wanted as long as somebody has this.
struct LeasesPresence {
    inner: Arc<SharedLeases>,
}

pub(crate) struct SharedLeases {
    pub(crate) store: AnyStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) session_ttl: Ttl,
    /// How often the session is renewed, at the least.
    pub(crate) renew_every: Duration,
    /// How far the clocks' rates may be off.
    pub(crate) drift: Drift,
    pub(crate) session: AtomicBelief,
    pub(crate) listen: watch::Sender<bool>,
    pub(crate) holder: HolderId,
    pub(crate) session_key: Key,
    /// What the keys of sessions begin with.
    pub(crate) session_prefix: String,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) prefixes: Arc<Prefixes>,
    /// Marks writes that no machine makes.
    pub(crate) nonces: Mutex<Nonces>,
    pub(crate) users: Mutex<LeaseUsers>,
    /// Where what works in the background of these leases runs.
    pub(crate) home: Home,
    pub(crate) driving: OnceLock<Driving>,
    /// How long the last handle's end may block.
    pub(crate) linger: Duration,
    /// The store answers though the thread that waits for it does nothing else.
    pub(crate) is_elsewhere: bool,
    pub(crate) troubles: Arc<Troubles>,
    pub(crate) store_patience: Option<Duration>,
    /// Leases that outlast a stop until then, because others count on that.
    pub(crate) kept: Mutex<BTreeMap<LeaseId, Tick>>,
}

impl Leases {
    pub(crate) fn of(inner: Arc<SharedLeases>) -> Leases {
        let _presence = Arc::new(LeasesPresence { inner: Arc::clone(&inner) });
        Leases { inner, _presence }
    }

    /// Leases on `store`, of whatever kind, with settings.
    #[must_use]
    pub fn builder(store: impl Store) -> LeasesBuilder {
        LeasesBuilder::new(AnyStore::new(store))
    }

    /// Leases on `store`, of whatever kind, as they are by default. [`open`](crate::open) has one from a URL.
    ///
    /// # Errors
    /// As [`LeasesBuilder::start`].
    pub fn new(store: impl Store) -> Result<Leases, InvalidInput> {
        Leases::builder(store).start()
    }

    /// A request for the lease on `key`: say how, then acquire it.
    ///
    /// Locks are not reentrant: who asks for a key that this very process holds waits for it as for anybody else's
    /// ([`Leases::held`] lists those).
    ///
    /// The key is checked when it is acquired: those that begin with `session/`, `section/`, `semaphore/`, `fleet/` and `work/` are kept for
    /// tenure's own records.
    pub fn lock(&self, key: impl AsRef<str>) -> Lock {
        Lock::new(self.clone(), key.as_ref())
    }

    /// The lease on `key`, if nobody has it. Short for `lock(key).try_acquire()`.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    pub async fn try_acquire(&self, key: impl AsRef<str>) -> Result<Guard, AcquireError> {
        self.lock(key).try_acquire().await
    }

    /// The lease on `key`, waiting for it. Short for `lock(key).acquire()`.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire(&self, key: impl AsRef<str>) -> Result<Guard, AcquireError> {
        self.lock(key).acquire().await
    }

    /// The lease on `key`, waiting for it no longer than `patience`. Short for `lock(key).acquire_within(patience)`.
    ///
    /// # Errors
    /// As [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire_within`].
    pub async fn acquire_within(
        &self,
        key: impl AsRef<str>,
        patience: Duration,
    ) -> Result<Guard, AcquireError> {
        self.lock(key).acquire_within(patience).await
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &AnyStore {
        &self.inner.store
    }

    /// The clock that these leases go by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// How far the clocks' rates may be off, as these leases reckon.
    #[must_use]
    pub fn drift(&self) -> Drift {
        self.inner.drift
    }

    /// This process's name as others see it.
    #[must_use]
    pub fn holder(&self) -> &HolderId {
        &self.inner.holder
    }

    /// The key of this process's session.
    #[must_use]
    pub fn session_key(&self) -> &Key {
        &self.inner.session_key
    }

    /// How long the session, and what is attached to it, is valid if nothing is renewed from now on; zero without a session.
    #[must_use]
    pub fn session_remaining(&self) -> Duration {
        self.inner.session.until().since(self.inner.clock.held())
    }

    /// What goes wrong with the store, if calls fail now and none about the same key has been answered since; of several keys,
    /// what lasts longest. So whoever waits can tell a key that nobody leads from a store that can't be asked.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        self.inner.troubles.worst(None)
    }

    /// The leases that this process holds at this instant, by key, with their fences: those of guards, bodies and leaders. No I/O.
    ///
    /// For people and gauges. Whether to *act* on a lease is asked of its guard.
    #[must_use]
    pub fn held(&self) -> Vec<(Key, Fence)> {
        let (inner, now) = (&self.inner, self.inner.clock.held());
        let users = inner.users();
        let named = users.cells.iter().filter_map(|cell| Some((cell, cell.name()?)));
        let held = named.filter(|(cell, name)| now < inner.until(&cell.belief, name.is_attached()));
        let mut held: Vec<_> = held.map(|(_, name)| (name.key.clone(), name.fence)).collect();
        held.sort_unstable();
        held
    }

    /// Who holds `key`, as the store has it now; none if nobody does. Nothing is asked for and nobody is disturbed: one read, or two
    /// where the lease is attached to a session.
    ///
    /// A holder that has died is shown until another has taken over.
    ///
    /// # Errors
    /// `Invalid` when the key can't be one; otherwise the store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn peek(&self, key: impl AsRef<str>) -> Result<Option<Sighting>, StoreError> {
        let key = Key::new(key)?;
        let Some(stored) = self.inner.store.read(&key).await? else { return Ok(None) };
        let attachment = stored.record.tenure.as_ref().and_then(|tenure| tenure.attachment.as_ref());
        if let Some(attachment) = attachment {
            let session = self.inner.store.read(&attachment.session).await?;
            let is_over = session.is_some_and(|session| {
                session.record.tenure.is_none() || session.record.fence != attachment.fence
            });
            if is_over {
                return Ok(None);
            }
        }
        Ok(Sighting::of(&stored.record))
    }

    /// Begins the session now, so that the first lease that is attached to it takes one round trip only.
    pub fn begin_session(&self) {
        self.inner.send(Command::Start);
    }

    /// Gives everything back, the session last, and waits until that is done or has become pointless because it has all
    /// expired. Guards that are still around are lost. Only the [least time](Lock::at_least_for) of a lease outlasts it, and that of
    /// [permits](crate::permits::Permits::at_least_for) as long as the session's ttl does.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the stopping.
    pub async fn stop(&self) {
        let (sender, stopped) = oneshot::channel();
        {
            let mut users = self.inner.users();
            if users.over || !self.inner.is_of_this_process() {
                return;
            }
            users.stopped.push(sender);
            for cell in users.cells.iter() {
                cell.lost(Loss::Released);
            }
        }
        self.inner.keep();
        self.inner.send(Command::Stop);
        // An error means that the driver is gone, which is as good.
        let _ = stopped.await;
    }
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases")
            .field("holder", &self.inner.holder)
            .field("store", &self.inner.store)
            .finish()
    }
}

impl SharedLeases {
    /// Until when a lease is believed in: one that is attached, no longer than the session.
    pub(crate) fn until(&self, own: &AtomicBelief, is_attached: bool) -> Tick {
        if is_attached { own.until().min(self.session.until()) } else { own.until() }
    }

    pub(crate) fn users(&self) -> MutexGuard<'_, LeaseUsers> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `key` is free for a lease: none of tenure's own records, which a claim would write over.
    pub(crate) fn check_free(&self, key: &Key) -> Result<(), InvalidInput> {
        let is_ours = self.session_prefix.is_empty() && *key == self.session_key;
        let prefix = if is_ours { self.session_key.as_str() } else { &self.session_prefix };
        reserved::check_with_sessions(key, prefix)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Tick>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `lease` up once it is that late; what is stopped before leaves it to expire. Told with what comes of it.
    pub(crate) fn release_at(
        self: &Arc<Self>,
        lease: LeaseId,
        metadata: Option<Metadata>,
        at: Tick,
    ) -> oneshot::Receiver<bool> {
        let (sender, released) = oneshot::channel();
        let (inner, clock) = (Arc::downgrade(self), Arc::clone(&self.clock));
        self.beside(async move {
            sleep_until(&*clock, Some(at)).await;
            let Some(inner) = inner.upgrade() else { return };
            inner.keep_no_longer(lease);
            let reply = inner.ask(lease, Command::Release(lease, metadata));
            drop(inner);
            // Mostly nobody waits.
            let _ = sender.send(matches!(reply.await, Ok(CommandReply::Released(true))));
        });
        released
    }

    /// Ends `lease` once it is that late, if it is held then: its holder is told, and its record is left to expire, as its holder may act still.
    pub(crate) fn end_at(self: &Arc<Self>, lease: LeaseId, cell: &Arc<LeaseCell>, at: Tick, most: Duration) {
        let (inner, cell, clock) = (Arc::downgrade(self), Arc::downgrade(cell), Arc::clone(&self.clock));
        self.beside(async move {
            sleep_until(&*clock, Some(at)).await;
            let (Some(inner), Some(cell)) = (inner.upgrade(), cell.upgrade()) else { return };
            let now = clock.held();
            if inner.users().cells.end(lease, now).is_some() {
                meters::lease_lost(&Loss::Overran, inner.prefixes.of(lease));
                cell.tell_overrun(&inner.holder, most);
                // First, or a guard that is dropped on the news, in another thread, would give the key up at once.
                inner.send(Command::Lapse(lease));
                cell.lost(Loss::Overran);
            }
        });
    }

    pub(crate) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(driving) = self.driving.get() {
            driving.spawn(work);
        }
    }

    /// From now until then, or until it is released, `lease` outlasts a stop. It renews itself, or leaves its session to expire.
    pub(crate) fn keep_until(&self, lease: LeaseId, at: Tick) {
        self.kept().insert(lease, at);
    }

    pub(crate) fn keep_no_longer(&self, lease: LeaseId) {
        self.kept().remove(&lease);
    }

    /// Leaves to expire what must not be free yet.
    fn keep(&self) {
        let now = self.clock.held();
        for (lease, at) in std::mem::take(&mut *self.kept()) {
            if at > now {
                self.send(Command::Lapse(lease));
            }
        }
    }

    pub(crate) fn nonce(&self) -> Nonce {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }

    pub(crate) fn send(&self, command: Command) {
        // The driver outlives every sender but after a stop, and then there is nothing left to do.
        let _ = self.commands.send(command);
    }

    /// Sends a command about `id` whose answer will come through the returned channel.
    pub(crate) fn ask(&self, id: LeaseId, command: Command) -> oneshot::Receiver<CommandReply> {
        let (sender, reply) = oneshot::channel();
        {
            let mut users = self.users();
            // After a stop nobody would answer: the sender is dropped, and with it the wait ends.
            if !users.over && self.is_of_this_process() {
                users.replies.insert(id, (PendingCommand::of(&command), sender));
            }
        }
        self.send(command);
        reply
    }

    /// From now on, all that is told of `lease` goes to `listener`, and all that is told of the session, beginning with how it
    /// is now.
    /// Whether its driver, if there is one, is of this process: a forked child has none of its parent's threads.
    fn is_of_this_process(&self) -> bool {
        self.driving.get().is_none_or(Driving::is_ours)
    }

    pub(crate) fn listen_to(&self, lease: LeaseId, listener: mpsc::UnboundedSender<HeardNotice>) {
        let mut users = self.users();
        // After a stop, and in a forked child, nothing is told any more: the sender is dropped, and with it the wait ends.
        if !users.over && self.is_of_this_process() {
            // Under the same lock as what is told, so that nothing comes in between.
            let notice = Notice::SessionValid(self.session.until());
            let _ = listener.send(HeardNotice { notice, cell: None });
            users.listeners.insert(lease, listener);
        }
    }

    pub(crate) fn stop_listening(&self, lease: Option<LeaseId>) {
        if let Some(lease) = lease {
            self.users().listeners.remove(&lease);
        }
    }

    pub(crate) fn forget(&self, id: LeaseId) {
        let now = self.clock.held();
        self.users().cells.end(id, now);
    }
}

impl Drop for LeasesPresence {
    fn drop(&mut self) {
        let inner = &self.inner;
        let Some(driving) = inner.driving.get().filter(|driving| driving.is_ours()) else { return };
        inner.keep();
        inner.send(Command::Stop);
        if matches!(inner.home, Home::Own) && !driving.outlast(inner.linger, inner.is_elsewhere) {
            let holder = display(&inner.holder);
            tracing::warn!(
                name: "leases.left", target: "tenure::lease", holder,
                "not all leases are given back yet; if the process ends now, others wait for them until their ttl is over"
            );
        }
    }
}

/// The end of time as a tick, or that of `patience` from now.
pub(crate) fn end_of(clock: &dyn Clock, patience: Duration) -> Tick {
    clock.held().after(patience)
}
