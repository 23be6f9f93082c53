//! Taking a lease from its holder by force.

use crate::clock;
use crate::driver::{Driver, Sink};
use crate::error::LeaseError;
use crate::leases::Leases;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Fence, HolderId, Key, Rules, Seized, Seizure, StoreError};
use tokio::sync::{mpsc, watch};

/// What [`Leases::release_by_force`] came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Forced {
    /// The fence of the tenure that is over: the next one's is higher.
    pub fence: Fence,
    /// The record was vacated by this call. Else the holder gave the key up by itself, or another has it by now.
    pub vacated: bool,
}

/// For people: which tenure is over, and by whom.
impl fmt::Display for Forced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.vacated { "by force" } else { "by itself" };
        write!(f, "the tenure with fence {} is over {by}", self.fence)
    }
}

impl Leases {
    /// Takes the lease on `key` from its holder, and waits until that can't believe in it any more: for one ttl at the most, and less
    /// when it gives the key up by itself. It is told to stop as by [`Request::Revoke`](crate::Request::Revoke), and may have died. `told` hears
    /// who was told, and how long it may take; it is not called if there is nothing to wait for.
    ///
    /// Of a lease that is plain data ([`LeaseToken`](crate::LeaseToken)) whoever refreshes it is not told: the key is vacated a ttl
    /// after its last refresh.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`] when nobody holds it; `Unavailable` when the store can't be reached for four ttls, the holder's mailbox
    /// stays full, or plain data is refreshed again and again.
    ///
    /// # Cancel safety
    /// When the future is dropped the holder may be told or not. If it is, it gives the key up within a ttl. Doing it again does no harm.
    pub async fn release_by_force(
        &self,
        key: impl AsRef<str>,
        told: impl FnMut(HolderId, Duration) + Send,
    ) -> Result<Forced, LeaseError> {
        let key = Key::new(key.as_ref()).map_err(StoreError::from)?;
        self.take(Seizure::new(key, false, self.rules(), clock::instance()), told).await
    }

    /// As [`Leases::release_by_force`], but of the tenure under this fence alone: whoever has the key under another one keeps it, also if that tenure
    /// begins meanwhile.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`] when nobody holds the key under that fence; otherwise as [`Leases::release_by_force`].
    ///
    /// # Cancel safety
    /// As [`Leases::release_by_force`].
    pub async fn release_by_force_of(
        &self,
        key: impl AsRef<str>,
        fence: Fence,
        told: impl FnMut(HolderId, Duration) + Send,
    ) -> Result<Forced, LeaseError> {
        let key = Key::new(key.as_ref()).map_err(StoreError::from)?;
        self.take(Seizure::new(key, false, self.rules(), clock::instance()).of_tenure(fence), told).await
    }

    /// Takes the tenure of `key` under this fence from its holder at once. **Unsafe while that lives**: it is not told, and goes on until its next
    /// renewal. A lease that is attached to a session goes on until its holder next looks at this record: ⌈n / 8⌉ + 1 thirds of a ttl for
    /// n leases. Until then two may hold the key, and only fences tell them apart. Whoever has the key under another fence keeps it, so that
    /// nobody is harmed but whom the caller has seen: [`Leases::peek`] shows the fence.
    ///
    /// # Errors
    /// As [`Leases::release_by_force_of`].
    ///
    /// # Cancel safety
    /// When the future is dropped the key may be vacated or not.
    pub async fn release_by_force_now(
        &self,
        key: impl AsRef<str>,
        fence: Fence,
    ) -> Result<Forced, LeaseError> {
        let key = Key::new(key.as_ref()).map_err(StoreError::from)?;
        let machine = Seizure::new(key, true, self.rules(), clock::instance()).of_tenure(fence);
        self.take(machine, |_, _| {}).await
    }

    /// Gives back at once what a dead process held on `key`. All that acted for that process has to be dead, too. Who else holds the key
    /// by now keeps it, and [`LeaseError::NotHeld`] says so. On the key of that process's session ([`Leases::session_key`]), it ends all
    /// that was attached to it.
    ///
    /// **Unsafe while that process lives**, as [`Leases::release_by_force_now`] is. `holder` must be a name that one process alone has
    /// ever had, as [`Leases::holder`] is unless it was chosen.
    ///
    /// # Errors
    /// As [`Leases::release_by_force`].
    ///
    /// # Cancel safety
    /// When the future is dropped the key may be vacated or not.
    pub async fn release_for_dead(
        &self,
        key: impl AsRef<str>,
        holder: &HolderId,
    ) -> Result<Forced, LeaseError> {
        let key = Key::new(key.as_ref()).map_err(StoreError::from)?;
        let machine = Seizure::of_dead(key, holder.clone(), self.rules(), clock::instance());
        self.take(machine, |_, _| {}).await
    }

    /// How these leases were told to reckon, for what else judges others' silence.
    pub(crate) fn rules(&self) -> Rules {
        let (drift, first_sight) = (self.inner.drift, self.inner.first_sight);
        Rules { drift, first_sight, ..Rules::default() }
    }

    async fn take(
        &self,
        machine: Seizure,
        told: impl FnMut(HolderId, Duration) + Send,
    ) -> Result<Forced, LeaseError> {
        self.inner.process.check()?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let (_never_listens, listen) = watch::channel(false);
        let mut end = None;
        let driver = Driver {
            machine,
            store: self.inner.store.clone(),
            clock: Arc::clone(&self.inner.clock),
            commands: receiver,
            listen,
            watches: String::new(),
            troubles: Arc::clone(&self.inner.troubles),
            sink: SeizureSink { told, end: &mut end },
        };
        // It begins with its first event. The driver outlives no sender, so this one has to be kept.
        let _begun = commands.send(());
        driver.run(|| ()).await;
        drop(commands);
        match end {
            Some(Seized::Free { fence, vacated }) => Ok(Forced { fence, vacated }),
            Some(Seized::Failed(error)) => Err(error.into()),
            Some(Seized::NotHeld | Seized::Told { .. }) | None => Err(LeaseError::NotHeld),
        }
    }
}

struct SeizureSink<'a, F> {
    told: F,
    end: &'a mut Option<Seized>,
}

impl<F: FnMut(HolderId, Duration)> Sink<Seizure> for SeizureSink<'_, F> {
    fn tell(&mut self, notice: Seized, _commands: &mut Vec<()>) -> ControlFlow<()> {
        if let Seized::Told { holder, within } = notice {
            (self.told)(holder, within);
            return ControlFlow::Continue(());
        }
        *self.end = Some(notice);
        ControlFlow::Break(())
    }
}
