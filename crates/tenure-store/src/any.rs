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
    crate::pass_on!(0: capabilities, id, read, read_many, write, write_many, list, remove, image, mend, changed);
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
