//! The store itself.

use crate::client::EtcdClient;
use crate::config::EtcdConfig;
use crate::connect::MemberChannels;
use crate::error::Call;
use crate::guard::EtcdGuard;
use crate::memo::Memo;
use crate::wire::{RangeRequest, RangeResponse, path};
use crate::{inspect, listen, mend, pair, read, write};
use std::fmt;
use std::sync::Arc;
use tenure_core::op::{Freshness, Listed, Outcome, Write};
use tenure_core::{Fence, Key, Record, StoreError, Stored, Version};
use tenure_store::parts::{Admission, Right, aside, end_of_prefix};
use tenure_store::{Capabilities, Changes, Image, Inspection, Store};

/// Records below one prefix of an etcd cluster. Clones share their connections.
#[derive(Clone)]
pub struct EtcdStore {
    inner: Arc<EtcdClient>,
}

impl EtcdStore {
    /// Opens the store: looks below its prefix once, and changes nothing.
    ///
    /// # Errors
    /// Each names the members, the prefix and the remedy, and none a password. `Invalid`: the configuration, the user, or a missing
    /// right. `Unavailable`: no member can be reached, or they have no majority.
    ///
    /// # Cancel safety
    /// Nothing is changed, so nothing is left behind.
    pub async fn open(config: EtcdConfig) -> Result<Self, StoreError> {
        config.check()?;
        let (limit, settings) = (config.timeout, config.clone());
        let reading = move || MemberChannels::new(&settings);
        let channels = aside("reading the files of ca=, cert= and key=", limit, reading).await?;
        let key = pair::below(&config.prefix, "");
        let range_end = end_of_prefix(&key).unwrap_or_default();
        let question = RangeRequest { key, range_end, limit: 1, keys_only: true, ..RangeRequest::default() };
        let found: RangeResponse = channels.ask(Call::Read, path::RANGE, question).await?;
        let cluster = found.header.map_or(0, |header| header.cluster_id);
        let id = format!("etcd:{cluster:016x}:{}", config.prefix);
        let capabilities = config.capabilities();
        let (prefix, memo, admission) = (config.prefix, Memo::default(), Admission::default());
        admission.granted(Right::Login);
        let inner = EtcdClient { channels, prefix, memo, id, capabilities, admission };
        Ok(EtcdStore { inner: Arc::new(inner) })
    }

    /// What the cluster says of itself: its members, its alarms, how full it is, whether its history is ever compacted. It tells no
    /// clock. What the user may not see is noted.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn inspect(&self) -> Inspection {
        inspect::inspect(&self.inner.channels, &self.inner.prefix).await
    }

    /// A condition for transactions of the caller's own in the same cluster: true only while the record of `key` shows a tenure with
    /// the fence `fence`. If that tenure is attached to a session, the session's record must show a tenure, too, and the fence that it was attached to.
    /// None if it does not stand now. It is good for as long as the lease: renewals leave it as it is.
    ///
    /// A write with this condition can't land after the loss of the lease, however late it is, and whatever the clocks did.
    ///
    /// `key` is the key as it is in this store. A lease that was acquired through a `PrefixedStore` has its prefix there before the
    /// key. If it is attached to a session, it has no condition, because the session's key in the record lacks the prefix: give such a lease
    /// a ttl of its own.
    ///
    /// # Errors
    /// As [`Store::read`].
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn guard(&self, key: &Key, fence: Fence) -> Result<Option<EtcdGuard>, StoreError> {
        EtcdGuard::of(&self.inner, key, fence).await
    }

    /// Puts a value of the caller's own into etcd, if the lease of `guard` stands; false if it is lost. The name is any but those of
    /// this store.
    ///
    /// # Errors
    /// As [`Store::write`]; `Invalid` for a name below tenure's prefix.
    ///
    /// # Cancel safety
    /// It may be done or not.
    pub async fn put_guarded(
        &self,
        guard: &EtcdGuard,
        name: &[u8],
        value: &[u8],
    ) -> Result<bool, StoreError> {
        if name.is_empty() || name.starts_with(&pair::below(&self.inner.prefix, "")) {
            return Err(StoreError::invalid(format!(
                "{:?} is not for values of your own; choose a name that is not below the prefix {:?}",
                String::from_utf8_lossy(name),
                self.inner.prefix
            )));
        }
        guard.put(&self.inner, name, value).await
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore")
            .field("place", &self.inner.channels.place)
            .field("id", &self.inner.id)
            .finish_non_exhaustive()
    }
}

impl Store for EtcdStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities
    }

    fn id(&self) -> String {
        self.inner.id.clone()
    }

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.inner.judged(read::one(&self.inner, key).await)
    }

    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.inner.judged(read::many(&self.inner, keys, freshness).await)
    }

    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.inner.judged(write::one(&self.inner, &write).await)
    }

    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.inner.capabilities.check_batch(writes.len())?;
        self.inner.judged(write::many(&self.inner, &writes).await)
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.inner.judged(read::list(&self.inner, prefix, after, limit).await)
    }

    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.inner.judged(write::remove(&self.inner, key, version).await)
    }

    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.inner.judged(mend::image(&self.inner, key).await)
    }

    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        self.inner.judged(mend::mend(&self.inner, key, seen, instead).await)
    }

    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        if !self.inner.capabilities.watch {
            return Err(StoreError::unsupported(
                "push is off for this etcd store; poll, or take push=off out of its URL",
            ));
        }
        listen::start(Arc::clone(&self.inner), prefix)
    }
}
