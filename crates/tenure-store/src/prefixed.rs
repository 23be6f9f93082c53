//! A store within a store: every key gets a prefix.

use crate::capability::Capabilities;
use crate::image::Image;
use crate::store::{Changes, Store};
use tenure_core::op::{Freshness, Hint, Listed, Outcome, Write};
use tenure_core::{InvalidInput, Key, Record, StoreError, Stored, Version};
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
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
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
        let after = after.map(|key| self.outer(key)).transpose()?;
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
        let mut outer = self.store.changed(&format!("{}{prefix}", self.prefix))?;
        let (sender, inner) = tokio::sync::mpsc::channel(64);
        let cut = self.prefix.len();
        tokio::spawn(async move {
            while let Some(hint) = outer.recv().await {
                let key = hint.key().and_then(|key| Key::new(key.as_str().get(cut..)?).ok());
                let hint = match (key, hint) {
                    (None, _) => Hint::Any,
                    (Some(key), Hint::Written(_, version)) => Hint::Written(key, version),
                    (Some(key), _) => Hint::Key(key),
                };
                // One that finds the queue full is lost: whoever is so far behind looks at its keys anyway, by polls.
                if matches!(sender.try_send(hint), Err(TrySendError::Closed(_))) {
                    break;
                }
            }
        });
        Ok(inner)
    }
}
