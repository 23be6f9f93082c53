//! A store whose type is not known until the program runs.

use crate::capability::Capabilities;
use crate::image::Image;
use crate::store::{Changes, Store};
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tenure_core::op::{Freshness, Listed, Outcome, Write};
use tenure_core::{Key, Record, StoreError, Stored, Version};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Any [`Store`], shared and cheap to clone.
#[derive(Clone)]
pub struct AnyStore(Arc<dyn Erased>);

impl AnyStore {
    /// Forgets what kind of store it is. One that is an `AnyStore` already is taken as it is.
    pub fn new(store: impl Store) -> Self {
        match (&store as &dyn Any).downcast_ref::<AnyStore>() {
            Some(any) => any.clone(),
            None => AnyStore(Arc::new(store)),
        }
    }

    /// Whether this is a store of that very kind, and no wrapper around one.
    #[must_use]
    pub fn is<S: Store>(&self) -> bool {
        self.0.as_any().is::<S>()
    }
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyStore").field(&self.0.id()).finish()
    }
}

/// The twin of [`Store`] that can be a trait object.
trait Erased: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn capabilities(&self) -> Capabilities;
    fn id(&self) -> String;
    fn read<'a>(&'a self, key: &'a Key) -> Boxed<'a, Option<Stored>>;
    fn read_many<'a>(&'a self, keys: &'a [Key], freshness: Freshness) -> Boxed<'a, Vec<Listed>>;
    fn write(&self, write: Write) -> Boxed<'_, Outcome>;
    fn write_many(&self, writes: Vec<Write>) -> Boxed<'_, Vec<Outcome>>;
    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a Key>, limit: usize) -> Boxed<'a, Vec<Listed>>;
    fn remove<'a>(&'a self, key: &'a Key, version: Version) -> Boxed<'a, bool>;
    fn image<'a>(&'a self, key: &'a Key) -> Boxed<'a, Option<Image>>;
    fn mend<'a>(&'a self, key: &'a Key, seen: &'a Image, instead: Option<Record>) -> Boxed<'a, bool>;
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError>;
}

impl<S: Store> Erased for S {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn capabilities(&self) -> Capabilities {
        Store::capabilities(self)
    }
    fn id(&self) -> String {
        Store::id(self)
    }
    fn read<'a>(&'a self, key: &'a Key) -> Boxed<'a, Option<Stored>> {
        Box::pin(Store::read(self, key))
    }
    fn read_many<'a>(&'a self, keys: &'a [Key], freshness: Freshness) -> Boxed<'a, Vec<Listed>> {
        Box::pin(Store::read_many(self, keys, freshness))
    }
    fn write(&self, write: Write) -> Boxed<'_, Outcome> {
        Box::pin(Store::write(self, write))
    }
    fn write_many(&self, writes: Vec<Write>) -> Boxed<'_, Vec<Outcome>> {
        Box::pin(Store::write_many(self, writes))
    }
    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a Key>, limit: usize) -> Boxed<'a, Vec<Listed>> {
        Box::pin(Store::list(self, prefix, after, limit))
    }
    fn remove<'a>(&'a self, key: &'a Key, version: Version) -> Boxed<'a, bool> {
        Box::pin(Store::remove(self, key, version))
    }
    fn image<'a>(&'a self, key: &'a Key) -> Boxed<'a, Option<Image>> {
        Box::pin(Store::image(self, key))
    }
    fn mend<'a>(&'a self, key: &'a Key, seen: &'a Image, instead: Option<Record>) -> Boxed<'a, bool> {
        Box::pin(Store::mend(self, key, seen, instead))
    }
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        Store::changed(self, prefix)
    }
}

impl Store for AnyStore {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn id(&self) -> String {
        self.0.id()
    }
    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.0.read(key).await
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.0.read_many(keys, freshness).await
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.0.write(write).await
    }
    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.0.write_many(writes).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.0.list(prefix, after, limit).await
    }
    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.0.remove(key, version).await
    }
    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.0.image(key).await
    }
    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        self.0.mend(key, seen, instead).await
    }
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        self.0.changed(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;
    use crate::prefixed::PrefixedStore;
    use tenure_core::{Clock, Now};

    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Now {
            Now::default()
        }
    }

    #[test]
    fn a_store_of_any_kind_is_not_wrapped_again() {
        let any = AnyStore::new(MemoryStore::new("memory:test", Arc::new(Stopped)));
        let again = AnyStore::new(any.clone());
        assert!(Arc::ptr_eq(&any.0, &again.0), "each layer would cost every call an allocation");
        assert!(any.is::<MemoryStore>() && !any.is::<AnyStore>());
        let wrapped = PrefixedStore::new(any, "p/").unwrap();
        assert!(!AnyStore::new(wrapped).is::<MemoryStore>());
    }
}
