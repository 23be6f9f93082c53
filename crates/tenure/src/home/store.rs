//! A store whose connections are on tenure's own thread, whoever asks it.

use super::Thread;
use std::sync::Arc;
use tenure_core::{Key, Record, StoreError, Stored, Version};
use tenure_store::{
    AnyStore, Capabilities, Changes, Freshness, Image, Listed, MemoryStore, Outcome, Store, Write,
};
use tokio::task::JoinHandle;

/// A store that was opened on tenure's own thread. What is asked of it anywhere else is done there: a connection that is made anew
/// belongs to the runtime that makes it.
pub(crate) struct Homed {
    // Goes first: its connections end on the thread.
    store: AnyStore,
    thread: Arc<Thread>,
}

impl Homed {
    /// Opens a store there.
    #[cfg(any(test, feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
    pub(crate) async fn open<F>(open: F) -> Result<AnyStore, StoreError>
    where
        F: Future<Output = Result<AnyStore, StoreError>> + Send + 'static,
    {
        let thread = Thread::shared()
            .map_err(|error| StoreError::unavailable(format!("can't start a thread ({error})")))?;
        let store = AbortOnDrop(thread.runtime.spawn(open)).ended().await?;
        Ok(AnyStore::new(Homed { store, thread }))
    }

    async fn at_home<T, F>(&self, call: impl FnOnce(AnyStore) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let call = call(self.store.clone());
        if self.thread.is_current() {
            return call.await;
        }
        self.thread.process.check()?;
        AbortOnDrop(self.thread.runtime.spawn(call)).ended().await
    }
}

/// Ends when it is dropped, as a future would.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> AbortOnDrop<Result<T, StoreError>> {
    async fn ended(mut self) -> Result<T, StoreError> {
        // A store that panics has told nothing about what it did.
        let failed = |error| StoreError::unknown(format!("the store's code failed: {error}"));
        (&mut self.0).await.map_err(failed)?
    }
}

impl Store for Homed {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    fn id(&self) -> String {
        self.store.id()
    }
    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        if self.thread.is_current() {
            return self.store.read(key).await;
        }
        let key = key.clone();
        self.at_home(|store| async move { store.read(&key).await }).await
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        let keys = keys.to_vec();
        self.at_home(|store| async move { store.read_many(&keys, freshness).await }).await
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        if self.thread.is_current() {
            return self.store.write(write).await;
        }
        self.at_home(|store| async move { store.write(write).await }).await
    }
    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.at_home(|store| async move { store.write_many(writes).await }).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        self.at_home(|store| async move { store.list(&prefix, after.as_ref(), limit).await }).await
    }
    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        let key = key.clone();
        self.at_home(|store| async move { store.remove(&key, version).await }).await
    }
    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        let key = key.clone();
        self.at_home(|store| async move { store.image(&key).await }).await
    }
    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        let (key, seen) = (key.clone(), seen.clone());
        self.at_home(|store| async move { store.mend(&key, &seen, instead).await }).await
    }
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        self.thread.process.check()?;
        let _there = self.thread.runtime.enter();
        self.store.changed(prefix)
    }
}

/// Whether a store is known to need no runtime of the user's to answer.
pub(crate) fn lives_elsewhere(store: &AnyStore) -> bool {
    #[cfg(feature = "sqlite")]
    if store.is::<tenure_sqlite::SqliteStore>() {
        return true;
    }
    store.is::<Homed>() || store.is::<MemoryStore>()
}

#[cfg(test)]
mod tests {
    //! Plan: opened and asked on tenure's thread, whoever asks; what it is asked for there goes the short way; a panic, and one who has gone
    //! away, do no harm; a forked child is refused with the reason.
    use super::*;
    use crate::home::Home;
    use std::sync::Mutex;
    use tenure_core::ErrorKind;
    use tokio::sync::oneshot;

    /// Notes where it is asked.
    struct Placed {
        memory: MemoryStore,
        calls: Arc<Mutex<Vec<String>>>,
    }

    impl Placed {
        fn note(&self) {
            let thread = std::thread::current();
            let task = tokio::task::try_id().is_some();
            self.calls.lock().unwrap().push(format!("{} {task}", thread.name().unwrap_or_default()));
        }
    }

    impl Store for Placed {
        fn capabilities(&self) -> Capabilities {
            self.memory.capabilities()
        }
        fn id(&self) -> String {
            self.memory.id()
        }
        async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
            self.note();
            assert!(key.as_str() != "panic", "no such key");
            self.memory.read(key).await
        }
        async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
            self.note();
            self.memory.read_many(keys, freshness).await
        }
        async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
            self.note();
            self.memory.write(write).await
        }
        async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
            self.note();
            self.memory.write_many(writes).await
        }
        async fn list(
            &self,
            prefix: &str,
            after: Option<&Key>,
            limit: usize,
        ) -> Result<Vec<Listed>, StoreError> {
            self.note();
            self.memory.list(prefix, after, limit).await
        }
        async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
            self.note();
            self.memory.remove(key, version).await
        }
        async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
            self.note();
            self.memory.image(key).await
        }
        async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
            self.note();
            self.memory.mend(key, seen, instead).await
        }
        fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
            // As a store does that passes hints on.
            tokio::spawn(async {});
            self.memory.changed(prefix)
        }
    }

    #[tokio::test]
    async fn a_forked_child_is_refused_with_the_reason() {
        let mut thread = Thread::start().unwrap();
        thread.process = crate::process::Process::parent();
        let homed = Homed { store: crate::memory(), thread: Arc::new(thread) };
        let key = Key::new("k").unwrap();
        let refused = |error: StoreError| {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("forked off"), "{error}");
        };
        refused(homed.read(&key).await.unwrap_err());
        refused(homed.list("", None, 1).await.unwrap_err());
        refused(homed.changed("").unwrap_err());
    }

    #[test]
    fn all_that_is_asked_is_done_on_tenures_thread() {
        let calls = Arc::<Mutex<Vec<String>>>::default();
        let (notes, memory) = (Arc::clone(&calls), crate::clock::system());
        let placed = Placed { memory: MemoryStore::new("placed", memory), calls: notes };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let key = Key::new("k").unwrap();
        let store = runtime.block_on(Homed::open(async move {
            placed.note();
            Ok(AnyStore::new(placed))
        }));
        let store = store.unwrap();
        runtime.block_on(async {
            store.read(&key).await.unwrap();
            store.read_many(std::slice::from_ref(&key), Freshness::Latest).await.unwrap();
            store.write_many(Vec::new()).await.unwrap();
            store.list("", None, 1).await.unwrap();
            store.remove(&key, Version(0)).await.unwrap();
            assert!(store.image(&key).await.unwrap().is_none());
            let panic = store.read(&Key::new("panic").unwrap()).await.unwrap_err();
            assert_eq!(panic.kind(), ErrorKind::Unknown);
            drop(store.read(&key));
        });
        // Outside any runtime.
        store.changed("").unwrap();
        assert!(lives_elsewhere(&store));
        let (sender, done) = oneshot::channel();
        let there = store.clone();
        let driving = Home::Own.run(async move {
            there.read(&key).await.unwrap();
            sender.send(()).unwrap();
        });
        runtime.block_on(done).unwrap();
        drop(driving);
        assert_eq!(*calls.lock().unwrap(), ["tenure true"; 9]);
    }
}
