//! A store within a store: every key gets a prefix.

use crate::image::Image;
use crate::store::{Changes, Store};
use tenure_core::op::{Freshness, Hint, Listed, Outcome, Write};
use tenure_core::{InvalidInput, Key, Record, StoreError, Stored, Version};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;

/// The part of a store whose keys begin with a prefix, which its users don't see.
///
/// Keys inside *records* (the session that a claim is attached to, the subject of mail) are not touched: they are read by the same
/// prefixed users, who add the prefix again.
#[derive(Debug, Clone)]
pub struct PrefixedStore<S> {
    store: S,
    prefix: String,
}

impl<S: Store> PrefixedStore<S> {
    /// The part of `store` below `prefix`.
    ///
    /// # Errors
    /// When the prefix leaves no room for keys.
    pub fn new(store: S, prefix: impl Into<String>) -> Result<Self, InvalidInput> {
        let prefix = prefix.into();
        if prefix.len() > Key::MAX_BYTES / 2 {
            let (is, most) = (prefix.len(), Key::MAX_BYTES / 2);
            return Err(InvalidInput::new(format!("a key prefix of {is} bytes is over the limit of {most}")));
        }
        Ok(PrefixedStore { store, prefix })
    }

    fn outer(&self, key: &Key) -> Result<Key, StoreError> {
        Ok(Key::new(format!("{}{}", self.prefix, key.as_str()))?)
    }

    fn inner(&self, mut found: Vec<Listed>) -> Result<Vec<Listed>, StoreError> {
        for listed in &mut found {
            listed.key = Key::new(listed.key.as_str().get(self.prefix.len()..).unwrap_or_default())?;
        }
        Ok(found)
    }
}

impl<S: Store> Store for PrefixedStore<S> {
    crate::pass_on!(store: capabilities);

    fn id(&self) -> String {
        format!("{}#{}", self.store.id(), self.prefix)
    }
    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.store.read(&self.outer(key)?).await
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        let outer = keys.iter().map(|key| self.outer(key)).collect::<Result<Vec<_>, _>>()?;
        self.inner(self.store.read_many(&outer, freshness).await?)
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.store.write(Write { key: self.outer(&write.key)?, ..write }).await
    }
    async fn write_many(&self, mut writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        for write in &mut writes {
            write.key = self.outer(&write.key)?;
        }
        self.store.write_many(writes).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let after = match after {
            Some(key) => Some(self.outer(key)?),
            // A record whose key is the prefix itself is not in this part, and first in order.
            None if prefix.is_empty() => Key::new(self.prefix.as_str()).ok(),
            None => None,
        };
        self.inner(self.store.list(&format!("{}{prefix}", self.prefix), after.as_ref(), limit).await?)
    }
    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.store.remove(&self.outer(key)?, version).await
    }
    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.store.image(&self.outer(key)?).await
    }
    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        self.store.mend(&self.outer(key)?, seen, instead).await
    }
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        let outer = self.store.changed(&format!("{}{prefix}", self.prefix))?;
        let runtime = Handle::try_current().map_err(|_| {
            StoreError::unavailable("hints of changes below a prefix need a tokio runtime; poll instead")
        })?;
        Ok(pass_on(&runtime, outer, self.prefix.len()))
    }
}

/// Passes hints on in the background, their keys without the first `cut` bytes.
fn pass_on(runtime: &Handle, mut outer: Changes, cut: usize) -> Changes {
    let (sender, inner) = tokio::sync::mpsc::channel(64);
    runtime.spawn(async move {
        loop {
            let told = tokio::select! {
                told = outer.recv() => told,
                // Otherwise the store's own subscription lasts until its next hint.
                () = sender.closed() => return,
            };
            let Some(hint) = told else { return };
            let key = hint.key().and_then(|key| Key::new(key.as_str().get(cut..)?).ok());
            let hint = match (key, hint) {
                (None, _) => Hint::Any,
                (Some(key), Hint::Written(_, version)) => Hint::Written(key, version),
                (Some(key), _) => Hint::Key(key),
            };
            // One that finds the queue full is lost: whoever is so far behind looks at its keys anyway, by polls.
            if matches!(sender.try_send(hint), Err(TrySendError::Closed(_))) {
                return;
            }
        }
    });
    inner
}

#[cfg(test)]
mod tests {
    //! Plan: a record that is the prefix itself; hints without a runtime; hints that nobody wants any more.
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;
    use crate::memory::MemoryStore;
    use crate::store::StoreExt;
    use std::sync::Arc;
    use tenure_core::op::Expect;
    use tenure_core::{Clock, ErrorKind, Fence, Metadata, Nonce, Now, Wall};

    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Now {
            Now::default()
        }
    }

    fn memory() -> MemoryStore {
        MemoryStore::new("memory:test", Arc::new(Stopped))
    }

    #[tokio::test]
    async fn a_record_whose_key_is_the_prefix_is_not_in_the_part_and_shortens_no_page() {
        let outer = memory();
        for key in ["p/", "p/a", "p/b", "p"] {
            let (fence, nonce, stamp, metadata) = (Fence(1), Nonce(1), Wall(0), Metadata::new());
            let record = Record { fence, nonce, stamp, tenure: None, metadata };
            let write = Write { key: Key::new(key).unwrap(), expect: Expect::Absent, record };
            outer.write(write).await.unwrap();
        }
        let part = PrefixedStore::new(outer, "p/").unwrap();
        let names = |found: Vec<Listed>| found.into_iter().map(|one| one.key.to_string()).collect::<Vec<_>>();
        assert_eq!(names(part.list("", None, 1).await.unwrap()), ["a"]);
        assert_eq!(names(part.list_all("").await.unwrap()), ["a", "b"]);
        assert_eq!(names(part.list_all("b").await.unwrap()), ["b"]);
        let all = PrefixedStore::new(part, "").unwrap();
        assert_eq!(names(all.list_all("").await.unwrap()), ["a", "b"]);
    }

    #[test]
    fn without_a_runtime_there_are_no_hints() {
        let error = PrefixedStore::new(memory(), "p/").unwrap().changed("").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }

    #[tokio::test]
    async fn who_no_longer_wants_hints_is_unsubscribed_at_once() {
        let (sender, outer) = tokio::sync::mpsc::channel(1);
        let inner = pass_on(&Handle::current(), outer, 0);
        drop(inner);
        // No hint comes meanwhile.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(sender.is_closed());
    }
}
