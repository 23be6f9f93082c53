//! A store that is asked without a driver, as one read tells who holds a key.

use crate::home::{Home, Thread};
use crate::process::Process;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tenure_core::{Key, Record, StoreError, Stored, Version};
use tenure_store::{AnyStore, Capabilities, Changes, Freshness, Image, Listed, Outcome, Store, Write};
use tokio::runtime::Handle;

/// How long an answer is waited for: as long as any of our stores may be told to wait, and a moment.
const PATIENCE: Duration = Duration::from_secs(65);

/// A store whose answers are waited for only so long. A driver gives its machine's calls up by itself.
pub(crate) struct DirectStore {
    store: AnyStore,
    process: Process,
    home: Home,
    /// It has timers, which the caller's runtime may be without. None where it can't be started.
    thread: OnceLock<Option<Arc<Thread>>>,
}

impl DirectStore {
    pub(crate) fn new(store: AnyStore, home: Home) -> DirectStore {
        DirectStore { store, process: Process::this(), home, thread: OnceLock::new() }
    }

    /// As it is underneath.
    pub(crate) fn store(&self) -> &AnyStore {
        &self.store
    }

    /// Where timers are: those of simulated time are the caller's.
    fn timers(&self) -> Option<Handle> {
        if let Home::Here = self.home {
            return Handle::try_current().ok();
        }
        let thread = self.thread.get_or_init(|| Thread::shared().ok());
        thread.as_ref().map(|thread| thread.runtime().clone())
    }

    async fn timed<T>(
        &self,
        late: fn(String) -> StoreError,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.process.check()?;
        let Some(timers) = self.timers() else { return call.await };
        let over = {
            let _there = timers.enter();
            tokio::time::sleep(PATIENCE)
        };
        tokio::select! {
            biased;
            answer = call => answer,
            () = over => Err(late(format!("no answer within {PATIENCE:?}"))),
        }
    }

    async fn read_within<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.timed(StoreError::unavailable, call).await
    }

    /// What is given up may have been done, or be done yet.
    async fn write_within<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.timed(StoreError::unknown, call).await
    }
}

impl Store for DirectStore {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    fn id(&self) -> String {
        self.store.id()
    }
    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.read_within(self.store.read(key)).await
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.read_within(self.store.read_many(keys, freshness)).await
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.write_within(self.store.write(write)).await
    }
    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.write_within(self.store.write_many(writes)).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.read_within(self.store.list(prefix, after, limit)).await
    }
    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.write_within(self.store.remove(key, version)).await
    }
    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.read_within(self.store.image(key)).await
    }
    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        self.write_within(self.store.mend(key, seen, instead)).await
    }
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        self.process.check()?;
        self.store.changed(prefix)
    }
}
