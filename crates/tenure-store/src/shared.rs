//! A store that is shared by an `Arc`.

use crate::capability::Capabilities;
use crate::image::Image;
use crate::store::{Changes, Store};
use std::future::Future;
use std::sync::Arc;
use tenure_core::op::{Freshness, Listed, Outcome, Write};
use tenure_core::{Key, Record, StoreError, Stored, Version};

/// The store within, for whoever shares one that is no clone of itself.
impl<S: Store> Store for Arc<S> {
    fn capabilities(&self) -> Capabilities {
        S::capabilities(self)
    }
    fn id(&self) -> String {
        S::id(self)
    }
    fn read(&self, key: &Key) -> impl Future<Output = Result<Option<Stored>, StoreError>> + Send {
        S::read(self, key)
    }
    fn read_many(
        &self,
        keys: &[Key],
        freshness: Freshness,
    ) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send {
        S::read_many(self, keys, freshness)
    }
    fn write(&self, write: Write) -> impl Future<Output = Result<Outcome, StoreError>> + Send {
        S::write(self, write)
    }
    fn write_many(
        &self,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<Vec<Outcome>, StoreError>> + Send {
        S::write_many(self, writes)
    }
    fn list(
        &self,
        prefix: &str,
        after: Option<&Key>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send {
        S::list(self, prefix, after, limit)
    }
    fn remove(&self, key: &Key, version: Version) -> impl Future<Output = Result<bool, StoreError>> + Send {
        S::remove(self, key, version)
    }
    fn image(&self, key: &Key) -> impl Future<Output = Result<Option<Image>, StoreError>> + Send {
        S::image(self, key)
    }
    fn mend(
        &self,
        key: &Key,
        seen: &Image,
        instead: Option<Record>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        S::mend(self, key, seen, instead)
    }
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        S::changed(self, prefix)
    }
}
