//! Asking something of whoever holds a key.

use crate::error::LeaseError;
use crate::leases::Leases;
use crate::request::Request;
use tenure_core::{Fence, Key, Letter, MAILBOX, Nonce, Record, StoreError, Stored};
use tenure_store::{Expect, Outcome, Store, Write};

impl Leases {
    /// Leaves a request with the holder of `key`, who sees it at its next renewal: within a third of its ttl.
    ///
    /// With [`Request::Revoke`] the holder is told to stop at once, and the key is free after one ttl at the latest. A holder that makes its lease
    /// plain data in that third of a ttl may have done so before it looked, and whoever has the token then is not told: ask again if it
    /// is held after that, or use [`Leases::release_by_force`].
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`] when nobody holds it, or its holder has given up its session, or was fenced off; one that has died is not told apart, and its
    /// letter is read by nobody. `Unavailable` when its mailbox is full, or it changes too fast: try again after its next renewal.
    ///
    /// # Cancel safety
    /// When the future is dropped the request may be left or not. Leaving it twice does no harm.
    pub async fn request(&self, key: impl AsRef<str>, request: Request) -> Result<(), LeaseError> {
        let key = Key::new(key).map_err(StoreError::from)?;
        leave(&self.inner.direct, || self.inner.nonce(), &Letter::new(key, request.into())).await
    }

    /// As [`Leases::request`], but of the tenure of `key` under this fence alone: whoever has the key under another one is asked nothing, also if that tenure
    /// begins while the request is under way.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`] when nobody holds the key under that fence; otherwise as [`Leases::request`].
    ///
    /// # Cancel safety
    /// As [`Leases::request`].
    pub async fn request_of(
        &self,
        key: impl AsRef<str>,
        fence: Fence,
        request: Request,
    ) -> Result<(), LeaseError> {
        let key = Key::new(key).map_err(StoreError::from)?;
        leave(&self.inner.direct, || self.inner.nonce(), &Letter::new(key, request.into()).of(fence)).await
    }
}

/// Leaves a letter for the holder of its key, as [`Leases::request`] and [`Leases::request_of`] say.
pub(crate) async fn leave(
    store: &impl Store,
    nonce: impl Fn() -> Nonce,
    letter: &Letter,
) -> Result<(), LeaseError> {
    /// A record that changes more often than this under our hands is not merely being renewed.
    const ATTEMPTS: usize = 8;
    let key = &letter.key;
    for _ in 0..ATTEMPTS {
        let (mailbox, stored) = mailbox(store, letter).await?;
        let Some(record) = with_letter(&stored, letter, nonce())? else { return Ok(()) };
        let write = Write { key: mailbox.clone(), expect: Expect::Unchanged(stored.version), record };
        if let Outcome::Won { .. } = store.write(write).await?
            && (mailbox == *key || is_attached_to(store, letter, &mailbox).await?)
        {
            return Ok(());
        }
    }
    Err(StoreError::unavailable(format!("the record of {key} changes too fast; try again")).into())
}

/// Whether what the letter is about is still attached to this session, or is not held any more. Once it has become plain data, nobody looks for its
/// mail there.
async fn is_attached_to(store: &impl Store, letter: &Letter, session: &Key) -> Result<bool, LeaseError> {
    let stored = store.read(&letter.key).await?.filter(|stored| letter.concerns(stored.record.fence));
    let tenure = stored.and_then(|stored| stored.record.tenure);
    Ok(tenure.is_none_or(|tenure| tenure.attachment.is_some_and(|attachment| attachment.session == *session)))
}

/// The record that whoever the letter is to renews, and where it is. If it is the key's own, the fence stays as it was seen here until somebody writes.
async fn mailbox(store: &impl Store, letter: &Letter) -> Result<(Key, Stored), LeaseError> {
    let key = &letter.key;
    let stored = store.read(key).await?.filter(|stored| letter.concerns(stored.record.fence));
    let stored = stored.ok_or(LeaseError::NotHeld)?;
    let tenure = stored.record.tenure.as_ref().ok_or(LeaseError::NotHeld)?;
    let Some(attachment) = &tenure.attachment else { return Ok((key.clone(), stored)) };
    let session = store.read(&attachment.session).await?.ok_or(LeaseError::NotHeld)?;
    if session.record.fence != attachment.fence || session.record.tenure.is_none() {
        return Err(LeaseError::NotHeld);
    }
    Ok((attachment.session.clone(), session))
}

/// The record with one letter more; none if it is there already.
fn with_letter(stored: &Stored, letter: &Letter, nonce: Nonce) -> Result<Option<Record>, LeaseError> {
    let mut record = stored.record.clone();
    let tenure = record.tenure.as_mut().ok_or(LeaseError::NotHeld)?;
    let is_there = |old: &Letter| {
        (&old.key, old.ask) == (&letter.key, letter.ask) && (old.fence.is_none() || old.fence == letter.fence)
    };
    if tenure.mail.iter().any(is_there) {
        return Ok(None);
    }
    if !tenure.post(letter.clone()) {
        return Err(StoreError::unavailable(format!(
            "the holder of {} has {MAILBOX} unread requests; try again after its next renewal",
            letter.key
        ))
        .into());
    }
    record.nonce = nonce;
    Ok(Some(record))
}
