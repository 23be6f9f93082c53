//! What an operator orders: whose a unit is to be, which worker is to leave, what is taken back at once.

use super::Fleet;
use crate::error::LeaseError;
use crate::mail;
use tenure_core::{Ask, Fence, HolderId, Letter, StoreError};

impl Fleet {
    /// Pins a unit to a worker, which is to have it as long as it lives and may, whatever evenness says; or takes the pin away.
    /// False: there is no such unit.
    ///
    /// # Errors
    /// As [`Fleet::update`].
    ///
    /// # Cancel safety
    /// As [`Fleet::update`].
    pub async fn pin(&self, unit: &str, worker: Option<&HolderId>) -> Result<bool, StoreError> {
        self.pin_if(unit, None, worker).await
    }

    /// As [`Fleet::pin`], but only while the unit's record shows this fence. False: there is no such unit, or it shows another by now.
    ///
    /// # Errors
    /// As [`Fleet::update`].
    ///
    /// # Cancel safety
    /// As [`Fleet::update`].
    pub async fn pin_of(
        &self,
        unit: &str,
        fence: Fence,
        worker: Option<&HolderId>,
    ) -> Result<bool, StoreError> {
        self.pin_if(unit, Some(fence), worker).await
    }

    async fn pin_if(
        &self,
        unit: &str,
        only: Option<Fence>,
        worker: Option<&HolderId>,
    ) -> Result<bool, StoreError> {
        let pinned = self.change(unit, only, |spec, _| spec.pin = worker.cloned()).await?;
        if pinned.is_some() {
            // Also if it is found pinned, as with deletion.
            self.tell().await?;
        }
        Ok(pinned.is_some())
    }

    /// Asks a worker to leave: it ends what it does, passes everything on and stops. It sees this at its next renewal.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`] when there is no such worker, or it has stopped; else as
    /// [`Leases::request`](crate::Leases::request).
    ///
    /// # Cancel safety
    /// When the future is dropped it may be asked or not. Asking twice does no harm.
    pub async fn drain(&self, worker: &HolderId) -> Result<(), LeaseError> {
        let session = self.name.worker(worker).map_err(StoreError::from)?;
        mail::leave(&*self.store, || self.nonce(), &Letter::new(session, Ask::HandOver)).await
    }

    /// Withdraws a unit from whoever holds it: it is told to end at once, and another can have it after one ttl at the latest.
    ///
    /// # Errors
    /// As [`Fleet::drain`].
    ///
    /// # Cancel safety
    /// As [`Fleet::drain`].
    pub async fn revoke(&self, unit: &str) -> Result<(), LeaseError> {
        let key = self.name.unit(unit).map_err(StoreError::from)?;
        mail::leave(&*self.store, || self.nonce(), &Letter::new(key, Ask::Revoke)).await
    }
}
