//! A store that fails on demand.

use crate::image::Image;
use crate::parts::Call;
use crate::store::Store;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_core::op::{Freshness, Listed, Outcome, Write};
use tenure_core::{Key, Record, StoreError, Stored, Version};
use tokio::sync::Notify;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: it goes through.
    None,
    /// It never reaches the store, and the caller knows: `Unavailable`.
    Refuse,
    /// The store forbids it, as with a password that is being changed: `Invalid`.
    Forbid,
    /// It takes effect, but the answer is lost: `Unknown` for what writes, `Unavailable` for what reads.
    LoseAnswer,
    /// It takes no effect, but the caller can't know: `Unknown` for what writes, `Unavailable` for what reads.
    LoseRequest,
    /// It never returns.
    Hang,
    /// It reaches the store once [`FaultyStore::go_on`] is called.
    Held,
}

/// A store that fails on demand. Clones share the faults to come.
#[derive(Debug, Clone)]
pub struct FaultyStore<S> {
    store: S,
    plan: Arc<Mutex<FaultPlan>>,
    gate: Arc<Notify>,
}

#[derive(Debug)]
struct FaultPlan {
    next: VecDeque<Fault>,
    always: Fault,
    damaged: BTreeSet<Key>,
}

impl<S> FaultyStore<S> {
    /// `store` without faults, for now.
    pub fn new(store: S) -> Self {
        let plan = FaultPlan { next: VecDeque::new(), always: Fault::None, damaged: BTreeSet::new() };
        FaultyStore { store, plan: Arc::new(Mutex::new(plan)), gate: Arc::default() }
    }

    /// The next calls meet these faults, one each.
    pub fn inject(&self, faults: impl IntoIterator<Item = Fault>) {
        self.plan().next.extend(faults);
    }

    /// From now on every call for which no fault was injected meets this one.
    pub fn always(&self, fault: Fault) {
        self.plan().always = fault;
    }

    /// Lets all calls go on that are held.
    pub fn go_on(&self) {
        self.gate.notify_waiters();
    }

    /// From now on the record of `key` can't be read, as one that is damaged: calls that read or write it answer `Foreign`. What
    /// repairs it does not: [`Store::image`] and [`Store::mend`] show and change the record that is there, which is sound.
    pub fn damage(&self, key: Key) {
        self.plan().damaged.insert(key);
    }

    fn plan(&self) -> MutexGuard<'_, FaultPlan> {
        // No code that can panic runs under the lock.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, key: &Key) -> Result<(), StoreError> {
        match self.plan().damaged.contains(key) {
            true => Err(StoreError::foreign("injected fault: damaged")),
            false => Ok(()),
        }
    }

    fn checked(&self, mut all: Vec<Listed>) -> Vec<Listed> {
        for listed in &mut all {
            if let Err(error) = self.check(&listed.key) {
                listed.stored = Err(error);
            }
        }
        all
    }

    fn draw(&self) -> Fault {
        let mut plan = self.plan();
        plan.next.pop_front().unwrap_or(plan.always)
    }

    async fn meet<T>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.draw() {
            Fault::None => answer.await,
            Fault::Refuse => Err(StoreError::unavailable("injected fault: refused")),
            Fault::Forbid => Err(StoreError::invalid("injected fault: forbidden")),
            Fault::LoseRequest => Err(call.unanswered("injected fault: request lost")),
            Fault::LoseAnswer => {
                answer.await?;
                Err(call.unanswered("injected fault: answer lost"))
            }
            Fault::Hang => std::future::pending().await,
            Fault::Held => {
                self.gate.notified().await;
                answer.await
            }
        }
    }
}

impl<S: Store> Store for FaultyStore<S> {
    crate::pass_on!(store: capabilities, id, changed);

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let stored = self.meet(Call::Read, self.store.read(key)).await?;
        self.check(key).map(|()| stored)
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        let all = self.meet(Call::Read, self.store.read_many(keys, freshness)).await?;
        Ok(self.checked(all))
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.check(&write.key)?;
        self.meet(Call::Write, self.store.write(write)).await
    }
    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        writes.iter().try_for_each(|write| self.check(&write.key))?;
        self.meet(Call::Write, self.store.write_many(writes)).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let page = self.meet(Call::Read, self.store.list(prefix, after, limit)).await?;
        Ok(self.checked(page))
    }
    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.check(key)?;
        self.meet(Call::Write, self.store.remove(key, version)).await
    }
    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.meet(Call::Read, self.store.image(key)).await
    }
    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        self.meet(Call::Write, self.store.mend(key, seen, instead)).await
    }
}
