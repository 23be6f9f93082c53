//! The trait that a store implements.

use crate::capability::Capabilities;
use crate::image::Image;
use std::future::Future;
use tenure_core::op::{Freshness, Hint, Listed, Outcome, Write};
use tenure_core::{Key, Record, StoreError, Stored, Version};

/// Hints of changes.
pub type Changes = tokio::sync::mpsc::Receiver<Hint>;

/// A linearizable set of registers with compare-and-set.
///
/// # Contract
/// - Each `read` and `write` of one key takes effect at one instant between its call and its answer. It sees all earlier
///   effects, of any process.
/// - A `write` whose condition holds replaces the whole record. Otherwise it changes nothing and
///   answers [`Outcome::Lost`] with the standing record. Losing is not an error.
/// - With [`Expect::Vacant`](tenure_core::op::Expect::Vacant) the stored fence is the higher of the record's own and one
///   more than that of the overwritten vacant record. In all other cases it is the record's own.
/// - A version names one write. No two writes of a key have the same version, even across deletion, and even if a network repeats
///   a write. So the native layout uses [`Record::version`](tenure_core::Record::version) and not the nonce alone.
/// - [`ErrorKind::Unavailable`](tenure_core::ErrorKind::Unavailable) means that the call certainly did not and will not take
///   effect. A store that isn't certain answers `Unknown`.
/// - The [`Times`](tenure_core::Times) of a record are those of its last write and of the answer, by a clock that all users of the store
///   share. `written` is never before the write was asked for, and `now` is never after the answer. So no age is longer than
///   the time since its writer asked, from when a holder counts. A store without such a clock tells no times.
/// - A caller's mistake is `Invalid`, before anything is written. A record that [`codec::check`](crate::codec::check) refuses is one: too much
///   metadata, or too deep, too much mail, a fence beyond the highest. So is a batch of more than `Capabilities::batch` writes. If a
///   batch has one such record, nothing of it is written.
/// - A login or a right that is refused from the beginning is `Invalid`. One that was there before, and holds for all keys alike, had better be
///   `Unavailable`: an operator changes it, and whoever waits is to wait on ([`parts::Admission`](crate::parts::Admission)).
/// - A vacant record with the highest fence can't be acquired: the answer is `Foreign`, and nothing is written.
/// - A fence lower than the standing one is written as given, or refused with `Invalid`. Only `Vacant` changes a given fence.
/// - Writes of one batch to the same key take effect in their order. An empty batch has no outcomes.
/// - `id` and `capabilities` are the same from every handle and process.
/// - An unreadable record is answered with `Foreign`. Only `mend` overwrites or removes it.
/// - Dropping a call's future may leave it done, undone, or still to be done.
/// - A call does not block its thread, nor compute for long: the task that awaits it also renews leases.
/// - No method has a default body. A store names missing capabilities in `capabilities`, and refuses them with `Unsupported`.
pub trait Store: Send + Sync + 'static {
    /// The capabilities of this store.
    fn capabilities(&self) -> Capabilities;

    /// The name of this store's set of records, the same from every process. A lease's token is valid only on that set.
    fn id(&self) -> String;

    /// Reads one record.
    fn read(&self, key: &Key) -> impl Future<Output = Result<Option<Stored>, StoreError>> + Send;

    /// Reads several records in one request, each as by [`Self::read`], but not at one common instant. With
    /// [`Freshness::Recent`], each may be as it was a moment before. Missing records are left out; an unreadable one
    /// comes with the reason. Their order is free.
    fn read_many(
        &self,
        keys: &[Key],
        freshness: Freshness,
    ) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send;

    /// Writes one record on a condition.
    fn write(&self, write: Write) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// Writes many records, each on its own condition. Outcomes are in the order of the writes. An error concerns all of
    /// them: with `Unknown`, any of them may have taken effect.
    fn write_many(&self, writes: Vec<Write>)
    -> impl Future<Output = Result<Vec<Outcome>, StoreError>> + Send;

    /// Up to `limit` records after `after` whose keys begin with `prefix`, by key in byte order. Fewer than
    /// `limit` mean the end.
    fn list(
        &self,
        prefix: &str,
        after: Option<&Key>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send;

    /// Removes one record if it is unchanged, vacant or held. False if it has changed or is gone. No protocol uses this: a key that is removed loses its
    /// fence. `gc` and verbs that forget a job or a fleet do, once nobody can believe in a tenure of it.
    fn remove(&self, key: &Key, version: Version) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The bytes under a key, readable as a record or not. For repairs.
    fn image(&self, key: &Key) -> impl Future<Output = Result<Option<Image>, StoreError>> + Send;

    /// Removes the bytes under a key, or writes `instead` over them, if they are still as `seen`. False if they have changed
    /// or are gone. They may be no readable record, so call this only for a person who asked for it.
    fn mend(
        &self,
        key: &Key,
        seen: &Image,
        instead: Option<Record>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Hints of changes to keys that begin with `prefix`, made by any process, from about now on. Above all, of keys that
    /// become vacant. A hint may be missing or late, and a hint without a version may be wrong: only speed depends on it.
    /// A version in a hint was written before the hint was sent. A store that tells no ages should name versions where it
    /// can. Then a fleet notices a worker's death as quickly as with ages. The hints end when dropped.
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError>;
}

/// Conveniences over any store.
pub trait StoreExt: Store {
    /// All records whose keys begin with `prefix`, by key in byte order.
    ///
    /// # Errors
    /// As [`Store::list`].
    fn list_all(&self, prefix: &str) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send {
        const PAGE: usize = 1000;
        async move {
            let mut all = Vec::new();
            loop {
                let after = all.last().map(|listed: &Listed| listed.key.clone());
                let page = self.list(prefix, after.as_ref(), PAGE).await?;
                let is_last = page.len() < PAGE;
                all.extend(page);
                if is_last {
                    return Ok(all);
                }
            }
        }
    }

    /// As [`Store::write_many`], in batches of a size that the store takes.
    ///
    /// # Errors
    /// As [`Store::write_many`]; batches before the one that failed have taken effect.
    fn write_all(&self, writes: Vec<Write>) -> impl Future<Output = Result<Vec<Outcome>, StoreError>> + Send {
        async move {
            let mut outcomes = Vec::with_capacity(writes.len());
            let mut writes = writes.into_iter();
            loop {
                let batch: Vec<Write> = writes.by_ref().take(self.capabilities().batch.max(1)).collect();
                if batch.is_empty() {
                    return Ok(outcomes);
                }
                outcomes.extend(self.write_many(batch).await?);
            }
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
