//! A store that is asked without a driver, as one read tells who holds a key.

use crate::home::{Home, Thread};
use crate::meters;
use crate::process::Process;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tenure_core::{Clock, Key, Record, StoreError, Stored, Version};
use tenure_store::{AnyStore, Capabilities, Changes, Freshness, Image, Listed, Outcome, Store, Write};
use tokio::runtime::Handle;

/// How long an answer is waited for: as long as any of our stores may be told to wait, and a moment.
const PATIENCE: Duration = Duration::from_secs(65);

/// A store whose answers are waited for only so long, and measured. A driver does both for its machine's calls by itself.
pub(crate) struct DirectStore {
    store: AnyStore,
    process: Process,
    /// How long calls take is measured by it.
    clock: Arc<dyn Clock>,
    home: Home,
    /// It has timers, which the caller's runtime may be without. None where it can't be started.
    thread: OnceLock<Option<Arc<Thread>>>,
}

impl DirectStore {
    pub(crate) fn new(store: AnyStore, clock: Arc<dyn Clock>, home: Home) -> DirectStore {
        DirectStore { store, process: Process::this(), clock, home, thread: OnceLock::new() }
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

    /// Measured like a driver's calls.
    async fn measured<T>(
        &self,
        operation: &'static str,
        late: fn(String) -> StoreError,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.process.check()?;
        let began = self.clock.held();
        let answer = self.timed(late, call).await;
        meters::store_called(operation, answer.as_ref().err(), self.clock.held().since(began));
        answer
    }

    async fn timed<T>(
        &self,
        late: fn(String) -> StoreError,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
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

    async fn reads<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.measured("read", StoreError::unavailable, call).await
    }

    /// What is given up may have been done, or be done yet.
    async fn writes<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.measured("write", StoreError::unknown, call).await
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
        self.reads(self.store.read(key)).await
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.reads(self.store.read_many(keys, freshness)).await
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.writes(self.store.write(write)).await
    }
    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.writes(self.store.write_many(writes)).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.measured("list", StoreError::unavailable, self.store.list(prefix, after, limit)).await
    }
    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.writes(self.store.remove(key, version)).await
    }
    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.reads(self.store.image(key)).await
    }
    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        self.writes(self.store.mend(key, seen, instead)).await
    }
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        self.process.check()?;
        self.store.changed(prefix)
    }
}
