//! A store with a flaw.

use crate::flaw::Flaw;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_core::op::{Expect, Outcome, Write};
use tenure_core::{ErrorKind, Fence, Key, Record, StoreError, Stored, Times, Version};
use tenure_store::{
    Capabilities, Changes, Expiry, Freshness, Hint, Image, Listed, MemoryStore, Store, StoreExt,
};
use tenure_testkit::ManualClock;

/// What stands before what is left of a damaged record.
const DAMAGED: &str = "damaged ";

/// A memory store with a flaw. A clone is another handle.
pub(crate) struct Broken {
    flaw: Flaw,
    store: MemoryStore,
    handle: u64,
    handles: Arc<AtomicU64>,
    cache: Mutex<std::collections::BTreeMap<Key, Stored>>,
    firsts: Arc<Mutex<std::collections::BTreeMap<Key, Stored>>>,
    first_runtime: std::sync::OnceLock<tokio::runtime::Handle>,
    /// Nobody can understand their records any more.
    damaged: Arc<Mutex<BTreeSet<Key>>>,
}

impl Clone for Broken {
    fn clone(&self) -> Self {
        let handle = self.handles.fetch_add(1, Ordering::SeqCst);
        let (handles, firsts, damaged) = (self.handles.clone(), self.firsts.clone(), self.damaged.clone());
        Broken {
            flaw: self.flaw,
            store: self.store.clone(),
            handle,
            handles,
            cache: Mutex::default(),
            firsts,
            first_runtime: self.first_runtime.clone(),
            damaged,
        }
    }
}

impl Broken {
    pub(crate) fn new(flaw: Flaw, clock: Arc<ManualClock>) -> Self {
        let store = MemoryStore::new("broken", clock);
        Broken {
            flaw,
            store,
            handle: 0,
            handles: Arc::default(),
            cache: Mutex::default(),
            firsts: Arc::default(),
            first_runtime: std::sync::OnceLock::new(),
            damaged: Arc::default(),
        }
    }

    /// From now on its record can't be understood. False if there is none.
    pub(crate) async fn damage(&self, key: &Key) -> bool {
        let stands = self.store.read(key).await.unwrap().is_some();
        stands && self.damaged.lock().unwrap().insert(key.clone())
    }

    fn is_damaged(&self, key: &Key) -> bool {
        self.damaged.lock().unwrap().contains(key)
    }

    /// What is said of a key whose record can't be understood.
    fn understood(&self, key: &Key) -> Result<(), StoreError> {
        if self.is_damaged(key) { Err(StoreError::foreign("damaged")) } else { Ok(()) }
    }

    /// The same for a write, if the flaw is not that it wins.
    fn writable(&self, key: &Key) -> Result<(), StoreError> {
        if self.flaw == Flaw::WritesOverTheDamaged {
            self.damaged.lock().unwrap().remove(key);
        }
        self.understood(key)
    }

    /// Writes whatever stands there.
    async fn force(&self, key: &Key, record: &Record) -> Result<Outcome, StoreError> {
        loop {
            let expect = match self.store.read(key).await? {
                None => Expect::Absent,
                Some(stored) => Expect::Unchanged(stored.version),
            };
            let outcome =
                self.store.write(Write { key: key.clone(), expect, record: record.clone() }).await?;
            if matches!(outcome, Outcome::Won { .. }) {
                return Ok(outcome);
            }
        }
    }

    /// A write of which the condition is judged wrongly, if this store's flaw makes it so.
    async fn misjudge(
        &self,
        write: &Write,
        standing: Option<&Stored>,
    ) -> Option<Result<Outcome, StoreError>> {
        let Write { key, expect, record } = write;
        let vacant = standing.filter(|stored| stored.record.tenure.is_none());
        let wins = match (self.flaw, *expect) {
            (Flaw::IgnoresConditions, _) => true,
            (Flaw::IgnoresVersions | Flaw::RepeatsVersions, Expect::Unchanged(_)) => standing.is_some(),
            (Flaw::ComparesHalfOfVersions, Expect::Unchanged(version)) => {
                standing.is_some_and(|stored| stored.version.0 as u64 == version.0 as u64)
            }
            (Flaw::NoticesAnyChangeButDeletion, Expect::Unchanged(_)) => standing.is_none(),
            (Flaw::TakesVacantForAbsent, Expect::Absent) => vacant.is_some(),
            (Flaw::TakesHeldForVacant, Expect::Vacant) => {
                standing.is_some_and(|stored| stored.record.tenure.is_some())
            }
            (Flaw::ResetsFences, Expect::Vacant) => vacant.is_some(),
            (Flaw::ComparesThenWrites, expect) => {
                let holds = match expect {
                    Expect::Absent => standing.is_none(),
                    Expect::Vacant => standing.is_none() || vacant.is_some(),
                    Expect::Unchanged(version) => standing.is_some_and(|stored| stored.version == version),
                };
                tokio::task::yield_now().await;
                holds
            }
            _ => false,
        };
        if wins {
            return Some(self.force(key, record).await);
        }
        let fence = match (self.flaw, *expect, vacant) {
            (Flaw::IgnoresFloors, Expect::Vacant, Some(stored)) => {
                Fence(stored.record.fence.0.saturating_add(1))
            }
            (Flaw::WrapsFencesAround, Expect::Vacant, Some(stored)) if stored.record.fence == Fence::MAX => {
                Fence(0)
            }
            (Flaw::RaisesFencesAlways, Expect::Unchanged(version), _) => match standing {
                Some(stored) if stored.version == version => {
                    record.fence.max(Fence(stored.record.fence.0 + 1))
                }
                _ => return None,
            },
            _ => return None,
        };
        Some(self.force(key, &Record { fence, ..record.clone() }).await)
    }

    fn age(&self, key: &Key, stored: Stored, is_read: bool) -> Stored {
        let later = |by: Duration| {
            stored.times.map(|times| Times { now: times.now + by.as_micros() as u64, ..times })
        };
        let times = match self.flaw {
            Flaw::TellsAgesTooHigh => later(Duration::from_secs(1)),
            Flaw::TellsNoAges => None,
            Flaw::TellsTimesSinceEachWrite => stored.times.map(|times| Times {
                written: 0,
                now: times.now.saturating_sub(times.written),
                ..times
            }),
            Flaw::TellsAgesInReadsOnly if !is_read => None,
            Flaw::TellsAgesOfKeys => {
                let firsts = self.firsts.lock().unwrap();
                firsts.get(key).map_or(stored.times, |_| later(Duration::from_millis(250)))
            }
            _ => stored.times,
        };
        stored.timed(times)
    }
}

impl Store for Broken {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.store.capabilities();
        match self.flaw {
            Flaw::WatchesButDeniesIt => capabilities.watch = false,
            Flaw::ListsButDeniesIt => capabilities.list = false,
            Flaw::TakesNoBatches => capabilities.batch = 0,
            Flaw::DeniesListsInLaterHandles if self.handle > 0 => capabilities.list = false,
            Flaw::TellsAgesThatItDenies => capabilities.expiry = Expiry::ObservedSilence,
            _ => {}
        }
        capabilities
    }

    fn id(&self) -> String {
        if self.flaw == Flaw::HasAnIdForEachHandle { self.handle.to_string() } else { self.store.id() }
    }

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let key = self.flaw.key(key);
        self.understood(&key)?;
        if self.flaw == Flaw::ReadsAnotherKeys && self.store.read(&key).await?.is_none() {
            let other = self.store.list("", None, 1).await?;
            return other.into_iter().next().map(|other| other.stored).transpose();
        }
        if self.flaw == Flaw::ReadsFromACache
            && let Some(cached) = self.cache.lock().unwrap().get(&key)
        {
            return Ok(Some(cached.clone()));
        }
        let stored = self.store.read(&key).await?.map(|stored| self.age(&key, stored, true));
        if let Some(stored) = &stored {
            self.cache.lock().unwrap().insert(key, stored.clone());
        }
        Ok(stored)
    }

    async fn write(&self, mut write: Write) -> Result<Outcome, StoreError> {
        write.key = self.flaw.key(&write.key);
        self.writable(&write.key)?;
        self.flaw.accept(&mut write.record);
        let standing = self.store.read(&write.key).await?;
        tenure_store::codec::check(&write.record)?;
        if let (Some(standing), Expect::Unchanged(_)) = (&standing, write.expect) {
            self.firsts.lock().unwrap().entry(write.key.clone()).or_insert(standing.clone());
        }
        let outcome = match self.misjudge(&write, standing.as_ref()).await {
            Some(outcome) => outcome?,
            None => self.store.write(write.clone()).await?,
        };
        let last = standing.map_or(Fence(0), |standing| standing.record.fence);
        let is_lower = matches!(write.expect, Expect::Unchanged(_)) && write.record.fence < last;
        match (self.flaw, outcome) {
            (Flaw::RefusesALowerFenceTooLate, Outcome::Won { .. }) if is_lower => {
                Err(StoreError::invalid("the fence is lower than the last one"))
            }
            (Flaw::WritesAfterLosing, Outcome::Lost(standing)) => {
                self.force(&write.key, &write.record).await?;
                Ok(Outcome::Lost(standing))
            }
            (Flaw::LosesWithoutRecord, Outcome::Lost(_)) => Ok(Outcome::Lost(None)),
            (Flaw::LosesWithStaleRecord, Outcome::Lost(standing)) => {
                let firsts = self.firsts.lock().unwrap();
                Ok(Outcome::Lost(firsts.get(&write.key).cloned().or(standing)))
            }
            (Flaw::RepeatsVersions, Outcome::Won { fence, .. }) => {
                Ok(Outcome::Won { version: Version(7), fence })
            }
            (Flaw::AnswersWithTheFloor, Outcome::Won { version, .. }) => {
                Ok(Outcome::Won { version, fence: write.record.fence })
            }
            (_, Outcome::Lost(standing)) => {
                Ok(Outcome::Lost(standing.map(|stored| self.age(&write.key, stored, false))))
            }
            (_, outcome) => Ok(outcome),
        }
    }

    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        let mut outcomes = Vec::new();
        writes.iter().try_for_each(|write| self.writable(&write.key))?;
        let most = self.store.capabilities().batch;
        match self.flaw {
            Flaw::RefusesEmptyBatches if writes.is_empty() => {
                return Err(StoreError::new(ErrorKind::Invalid, "nothing is asked"));
            }
            Flaw::RefusesLargeBatches if writes.len() > 100 => {
                return Err(StoreError::new(ErrorKind::Invalid, "too many"));
            }
            Flaw::TakesAnyBatch => {
                for chunk in writes.chunks(most) {
                    outcomes.extend(self.store.write_many(chunk.to_vec()).await?);
                }
            }
            Flaw::StopsBatchesAtLosses => {
                for write in writes {
                    outcomes.push(self.store.write(write).await?);
                    if matches!(outcomes.last(), Some(Outcome::Lost(_))) {
                        break;
                    }
                }
            }
            Flaw::JudgesBatchesFirst => {
                let mut before = Vec::new();
                for write in &writes {
                    before.push(self.store.read(&write.key).await?);
                }
                for (write, before) in writes.into_iter().zip(before) {
                    let expect = match &before {
                        None => Expect::Absent,
                        Some(stored) => Expect::Unchanged(stored.version),
                    };
                    outcomes.push(self.store.write(Write { expect, ..write }).await?);
                }
            }
            _ => outcomes = self.store.write_many(writes).await?,
        }
        if self.flaw == Flaw::ReversesOutcomes {
            outcomes.reverse();
        }
        Ok(outcomes)
    }

    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        let mut found = self.store.read_many(keys, freshness).await?;
        if self.flaw == Flaw::ReadsTheFirstOfMany {
            found.truncate(1);
        }
        if self.flaw == Flaw::LagsForEver && freshness == Freshness::Recent {
            found.clear();
        }
        Ok(found)
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        if self.flaw == Flaw::ListsTheFirstPageOnly && after.is_some() {
            return Ok(Vec::new());
        }
        if self.flaw == Flaw::ListsTheLastKeyTwice {
            let mut page = self.store.list_all(prefix).await?;
            page.retain(|listed| after.is_none_or(|after| listed.key >= *after));
            page.truncate(limit);
            return Ok(page);
        }
        if self.flaw == Flaw::ListsWithPatterns && prefix.contains(['%', '_']) {
            let mut page = self.store.list("", after, usize::MAX).await?;
            page.truncate(limit);
            return Ok(page);
        }
        let limit = if self.flaw == Flaw::ShortensPages { limit.min(10) } else { limit };
        let mut page = self.store.list(prefix, after, limit).await?;
        if self.flaw == Flaw::ListsBackwards {
            page.reverse();
        }
        if self.flaw == Flaw::ListsWithoutVacant {
            page.retain(|listed| listed.stored.as_ref().is_ok_and(|stored| stored.record.tenure.is_some()));
        }
        for listed in &mut page {
            listed.stored = match self.understood(&listed.key) {
                Ok(()) => listed.stored.clone().map(|stored| self.age(&listed.key, stored, false)),
                Err(error) => Err(error),
            };
        }
        if self.flaw == Flaw::ListsWithoutTheDamaged {
            page.retain(|listed| listed.stored.is_ok());
        }
        Ok(page)
    }

    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        let key = self.flaw.key(key);
        self.writable(&key)?;
        match self.flaw {
            Flaw::RemovesNothing => {
                Ok(self.store.read(&key).await?.is_some_and(|stored| stored.version == version))
            }
            Flaw::RemovesOnlyTheVacant => match self.store.read(&key).await? {
                Some(stored) if stored.record.tenure.is_some() => Ok(false),
                _ => self.store.remove(&key, version).await,
            },
            Flaw::RemovesUnconditionally | Flaw::RepeatsVersions => match self.store.read(&key).await? {
                None => Ok(false),
                Some(stored) => self.store.remove(&key, stored.version).await,
            },
            _ => self.store.remove(&key, version).await,
        }
    }

    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        let mut image = self.store.image(key).await?;
        if let (Some(image), Err(error)) = (&mut image, self.understood(key)) {
            image.copy.insert_str(0, DAMAGED);
            image.record = Err(error);
        }
        Ok(image)
    }
    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        let Some(mut now) = self.store.image(key).await? else { return Ok(false) };
        let is_same = self.image(key).await?.is_some_and(|image| image.copy == seen.copy);
        if self.flaw != Flaw::MendsWhateverIsThere {
            if !is_same {
                return Ok(false);
            }
            now.copy = seen.copy.strip_prefix(DAMAGED).unwrap_or(&seen.copy).to_owned();
        }
        let is_mended = self.store.mend(key, &now, instead).await?;
        if is_mended {
            self.damaged.lock().unwrap().remove(key);
        }
        Ok(is_mended)
    }
    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        match self.flaw {
            Flaw::PromisesToWatch => Err(StoreError::unsupported("no")),
            Flaw::HintsAtWhatWasNotWritten => {
                let mut inner = self.store.changed(prefix)?;
                let (sender, changes) = tokio::sync::mpsc::channel(64);
                tokio::spawn(async move {
                    while let Some(hint) = inner.recv().await {
                        let hint = hint.key().map(|key| Hint::Written(key.clone(), Version(7)));
                        let _ = sender.send(hint.unwrap_or(Hint::Any)).await;
                    }
                });
                Ok(changes)
            }
            Flaw::HintsOnItsFirstRuntime => {
                let mut inner = self.store.changed(prefix)?;
                let (sender, changes) = tokio::sync::mpsc::channel(64);
                self.first_runtime.get_or_init(tokio::runtime::Handle::current).spawn(async move {
                    while let Some(hint) = inner.recv().await {
                        let _ = sender.send(hint).await;
                    }
                });
                Ok(changes)
            }
            Flaw::HintsNothing | Flaw::HintsOnce => {
                let mut inner = self.store.changed(prefix)?;
                let (sender, changes) = tokio::sync::mpsc::channel(1);
                let most = if self.flaw == Flaw::HintsOnce { 2 } else { 0 };
                tokio::spawn(async move {
                    for _ in 0..most {
                        if let Some(hint) = inner.recv().await {
                            let _ = sender.send(hint).await;
                        }
                    }
                    // Still open, but silent.
                    sender.closed().await;
                });
                Ok(changes)
            }
            _ => self.store.changed(prefix),
        }
    }
}
