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
/// - Every `read` and `write` of one key takes effect at one instant between its call and its answer, and sees all that
///   took effect before, from whatever process.
/// - A `write` whose condition holds replaces the whole record; one whose condition does not hold changes nothing and
///   answers [`Outcome::Lost`] with the record that stands there. Losing is not an error.
/// - With [`Expect::Vacant`](tenure_core::op::Expect::Vacant) the stored fence is the higher of the record's own and one
///   more than that of the vacant record written over. In all other cases it is the record's own.
/// - A version names one write: no two writes of a key, also across deletion, have the same; not even one that a network
///   repeats, which is why the native layout's is [`Record::version`](tenure_core::Record::version) and not the nonce alone.
/// - [`ErrorKind::Unavailable`](tenure_core::ErrorKind::Unavailable) is answered only when it is certain that the call did
///   not and will not take effect. Whoever isn't certain answers `Unknown`.
/// - The [`Times`](tenure_core::Times) of a record are of its last write and of the answer, by a clock that all users of the store
///   share. `written` is never before the write took effect, and `now` never after the answer: so no span from any write
///   to any later answer is told too long. A store that has no such clock tells none.
/// - What the caller got wrong is `Invalid`, before anything is written: a record that [`codec::check`](crate::codec::check) refuses (too much
///   metadata, or too deep, too much mail, a fence beyond the highest), and a batch of more than `Capabilities::batch` writes. One such record in
///   a batch has nothing of the batch written.
/// - A vacant record with the highest fence can't be acquired: that is `Foreign`, and nothing is written.
/// - A fence that is lower than what stands there is written as it was given, or refused with `Invalid`; it is never made another one, but by
///   `Vacant`.
/// - Writes of one batch to the same key take effect in their order. An empty batch has no outcomes.
/// - `id` and `capabilities` are the same from every handle and process.
/// - A record that can't be understood is answered with `Foreign` and never written over or removed, but by `mend`.
/// - Dropping a call's future may leave it done, undone, or still to be done.
/// - A call does not block its thread, nor compute for long: the task that awaits it renews leases, too.
/// - No method has a default body. What a store can't do, it says in its capabilities and refuses with `Unsupported`.
pub trait Store: Send + Sync + 'static {
    /// What this store can do.
    fn capabilities(&self) -> Capabilities;

    /// Names this store's set of records, the same from every process: a lease's token is only good where it came from.
    fn id(&self) -> String;

    /// Reads one record.
    fn read(&self, key: &Key) -> impl Future<Output = Result<Option<Stored>, StoreError>> + Send;

    /// Reads several records in one request, each as by [`Self::read`] but without any common instant; with
    /// [`Freshness::Recent`], each may be as it was a moment before instead. Those that don't exist are left out; one that can't
    /// be read comes with the reason. Their order is free.
    fn read_many(
        &self,
        keys: &[Key],
        freshness: Freshness,
    ) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send;

    /// Writes one record on a condition.
    fn write(&self, write: Write) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// Writes many records, each on its own condition; outcomes are in the order of the writes. An error is about all of
    /// them: with `Unknown`, any of them may have taken effect.
    fn write_many(&self, writes: Vec<Write>)
    -> impl Future<Output = Result<Vec<Outcome>, StoreError>> + Send;

    /// Up to `limit` records whose keys begin with `prefix`, by key in byte order, those after `after` only. Fewer than
    /// `limit` mean the end.
    fn list(
        &self,
        prefix: &str,
        after: Option<&Key>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send;

    /// Removes one record if it is unchanged; false if it is not, or is gone. Only `gc` uses this, on vacant records.
    fn remove(&self, key: &Key, version: Version) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// What lies under a key, byte for byte, whether or not it can be understood. For repairs.
    fn image(&self, key: &Key) -> impl Future<Output = Result<Option<Image>, StoreError>> + Send;

    /// Removes what lies under a key, or writes `instead` over it, if it is byte for byte as it was `seen`; false if it is not,
    /// or is gone. It may be what can't be understood: only a person's word is reason enough for this.
    fn mend(
        &self,
        key: &Key,
        seen: &Image,
        instead: Option<Record>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Hints of changes to keys that begin with `prefix`, made by any process, from about now on. Above all, of keys that
    /// become vacant. A hint may be missing or late, and one that names no version may be wrong: nothing depends on it but
    /// speed. A version that it names was written before it was sent. A store that tells no ages should name versions where it
    /// can: then the death of a fleet's worker is noticed as quickly as with ages. It ends when dropped.
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
