//! The leases of this process: where they are asked for.

use crate::driver::Trouble;
use crate::home::Home;
use crate::liveness::SessionLives;
use crate::shared::SharedLeases;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, Command, Drift, Fence, HolderId, Key, Sighting, StoreError, Stored, Ttl};
use tenure_store::tell;
use tenure_store::{AnyStore, Listed, Store, StoreExt};
use tracing::field::display;

/// The leases of one process on one store. Cheap to clone; clones share the session.
///
/// Leases are renewed on a thread of tenure's own, also while the runtime is busy or blocked
/// ([`LeasesBuilder::runtime`](crate::LeasesBuilder::runtime) names another place, and says what becomes of the store's connections).
///
/// Whoever waits for a lease waits on the caller's runtime, which needs timers: that of `#[tokio::main]` has them, another is built with
/// `enable_time` or `enable_all`. Without a runtime, or on one without timers, what waits panics.
///
/// When the last clone and the last [`Guard`](crate::Guard) are dropped, what is still held is handed back. The drop waits for that, half a second at
/// the most ([`LeasesBuilder::linger`](crate::LeasesBuilder::linger)): a guard that is dropped as `main` ends is released. That
/// does not always hold on a runtime of one thread: `linger` says when.
/// [`Leases::stop`] does the same without blocking, and takes as long as it takes.
///
/// A child made by fork(3) has none of its parent's leases: nothing is held there from the first instant on, what it asks of them is refused as
/// after a stop, and dropping them gives nothing back. All else of this crate that was made before the fork is of the parent, too: workers, units,
/// ranges, candidates. A store that was opened before it is of no use in the child, whose calls may fail late: open it again there, and start new
/// leases on it. (A child that is made past the C library, by a clone(2) of one's own, is refused what it asks, but may believe what it has.)
/// What another thread was in the midst of at the fork, in this crate or another one, stays locked in the child, which may wait for that for ever.
/// So fork a child that is to have leases of its own before other threads use any, or have it execute a program.
#[derive(Clone)]
pub struct Leases {
    pub(crate) inner: Arc<SharedLeases>,
    _presence: Arc<LeasesPresence>,
}

/// The leases are wanted as long as somebody has this.
struct LeasesPresence {
    inner: Arc<SharedLeases>,
}

impl Leases {
    pub(crate) fn of(inner: Arc<SharedLeases>) -> Leases {
        let _presence = Arc::new(LeasesPresence { inner: Arc::clone(&inner) });
        Leases { inner, _presence }
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
        self.inner.until(&self.inner.session, false).since(self.inner.clock.held())
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
        if inner.process.is_forked() {
            return Vec::new();
        }
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
    /// A holder that has died is shown until another has taken over. So is one whose session can't be read: it may live. A semaphore and a section have no holder of their own: of their names and
    /// keys nothing is shown here.
    ///
    /// To wait until it is free, or to follow who has it, without taking it: [`observe`](crate::CandidateBuilder::observe) its key, as an election's.
    ///
    /// # Errors
    /// `Invalid` when the key can't be one; otherwise the store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn peek(&self, key: impl AsRef<str>) -> Result<Option<Sighting>, StoreError> {
        let key = Key::new(key)?;
        let store = &self.inner.direct;
        let Some(stored) = store.read(&key).await? else { return Ok(None) };
        let liveness = SessionLives::default().judge(store, &key, &stored, unmeasured).await?;
        Ok(Sighting::of(&stored.record).filter(|_| liveness.may_be_held()))
    }

    /// All that is held of the keys that begin with `prefix`, by key in byte order, each as by [`Leases::peek`] when its page was read. Left out are records that can't be read, and tenure's own, such as sessions, units of fleets, and semaphores. It reads every record below `prefix`, vacant ones too, so a
    /// store is best listed by people, and now and then.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let leases = tenure::Leases::new(tenure::memory())?;
    /// let _nightly = leases.acquire("reports/nightly").await?;
    /// for (key, seen) in leases.list("reports/").await? {
    ///     println!("{key} is held by {} with fence {}", seen.occupant.holder, seen.occupant.fence);
    /// }
    /// # leases.stop().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The store's.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn list(&self, prefix: impl AsRef<str>) -> Result<Vec<(Key, Sighting)>, StoreError> {
        let (inner, store) = (&self.inner, &self.inner.direct);
        let mut all = store.list_all(prefix.as_ref()).await?;
        all.retain(|Listed { key, stored }| {
            let is_held = stored.as_ref().is_ok_and(|stored| stored.record.tenure.is_some());
            is_held && inner.check_free(key).is_ok()
        });
        let (mut lives, mut seen) = (SessionLives::default(), Vec::new());
        lives.follow(store, &all, unmeasured).await?;
        for Listed { key, stored } in all {
            let Ok(stored) = stored else { continue };
            let liveness = lives.judge(store, &key, &stored, unmeasured).await?;
            let sighting = Sighting::of(&stored.record).filter(|_| liveness.may_be_held());
            seen.extend(sighting.map(|sighting| (key, sighting)));
        }
        Ok(seen)
    }

    /// Begins the session now, so that the first lease that is attached to it takes one round trip only.
    pub fn begin_session(&self) {
        self.inner.send(Command::Start);
    }

    /// Gives everything back, the session last, and waits until that is done or has become pointless because it has all
    /// expired. Nothing more can be acquired from now on.
    ///
    /// Bodies come first: they are told to end, have their grace period, and are aborted then. Guards that are still around are lost once all
    /// have ended. What a body has that can't be ended is left to expire; a body that waits for this itself is aborted.
    ///
    /// Only the [least time](crate::Lock::at_least_for) of a lease outlasts it, and that of
    /// [permits](crate::permits::Permits::at_least_for) as long as the session's ttl does.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the stopping.
    pub async fn stop(&self) {
        if !self.inner.process.is_this() {
            return;
        }
        let stopped = self.inner.users().ending.wait();
        let Some(stopped) = stopped else { return };
        self.inner.stop();
        // An error means that the driver is gone, which is as good.
        let _ = stopped.await;
    }
}

/// Whoever has not been heard of for long is shown, too.
fn unmeasured(_: &Key, _: &Stored, _: Ttl) {}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases")
            .field("holder", &self.inner.holder)
            .field("store", &self.inner.store)
            .finish()
    }
}

impl Drop for LeasesPresence {
    fn drop(&mut self) {
        let inner = &self.inner;
        let Some(driving) = inner.driving.get().filter(|driving| driving.is_ours()) else { return };
        inner.keep();
        inner.send(Command::Stop);
        if matches!(inner.home, Home::Own)
            && !driving.outlast(inner.linger, inner.is_elsewhere)
            && inner.prefixes.was_any()
            && !inner.users().ending.is_over()
        {
            let holder = display(&inner.holder);
            tell!(
                warn, name: "leases.left", target: "tenure::lease", holder,
                "not all leases are given back yet; if the process ends now, others wait for them until their ttl is over"
            );
        }
    }
}
