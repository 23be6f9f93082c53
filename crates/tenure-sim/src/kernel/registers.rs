//! The store of a world: registers that keep exactly the contract of `tenure_store::Store`, and, where a scenario asks for
//! it, a failover that breaks it by losing the last writes.

mod spec;

pub(crate) use spec::StorePast;
pub use spec::{Ages, StoreSpec};

use super::clock::{MILLI, SECOND, True};
use spec::MOST_SHORT_MS;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use tenure_core::op::{Answer, Expect, Freshness, Listed, Op, Outcome, Write};
use tenure_core::{Key, Metadata, Nonce, Record, StoreError, Stored, Times, Value};

#[derive(Debug, Clone)]
struct RegisterEntry {
    record: Record,
    /// By the store's clock.
    written: u64,
    /// What the writer's client took that for at the most, in milliseconds.
    dated: Option<u64>,
}

/// A write that a failover may undo.
#[derive(Debug)]
struct Undo {
    at: True,
    key: Key,
    before: Option<RegisterEntry>,
}

#[derive(Debug)]
pub(crate) struct Registers {
    spec: StoreSpec,
    entries: BTreeMap<Key, RegisterEntry>,
    /// The most bytes of names and texts in the metadata of records whose keys begin so.
    most: (String, usize),
    /// Records that can't be read for now.
    damaged: BTreeSet<Key>,
    /// Records in which metadata stand for now that mean nothing, as they were before.
    garbled: BTreeMap<Key, Record>,
    /// One about which nothing may be asked.
    forbidden: Option<(Key, StoreError)>,
    /// Those that may be read, and not written.
    sealed: BTreeSet<Key>,
    // The next three are what was. Each is for another end, and is kept only in worlds that need it.
    /// For reads that lag: what stood in a record's place before its last write, and until when.
    shadows: BTreeMap<Key, (True, Option<RegisterEntry>)>,
    /// For failovers: the writes of the last moments in their order, which are undone from the latest on.
    journal: Option<VecDeque<Undo>>,
    /// For those who put older copies back by hand: what each record was by its last writes, the latest last, however long ago that was.
    copies: Option<BTreeMap<Key, VecDeque<RegisterEntry>>>,
    /// How far the store's clock is ahead of where it began, by jumps.
    clock_offset: i64,
    /// What the next write is dated by its client.
    dated: Option<u64>,
}

/// A write that took effect.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) before: Option<Record>,
    pub(crate) after: Record,
}

/// So many older copies of a record are kept.
const COPIES: usize = 16;

/// A failover loses at most the writes of this long.
const LAG: True = 400 * MILLI;

impl Registers {
    pub(crate) fn new(spec: StoreSpec, past: StorePast) -> Self {
        Registers {
            spec,
            entries: BTreeMap::new(),
            most: (String::new(), usize::MAX),
            damaged: BTreeSet::new(),
            garbled: BTreeMap::new(),
            forbidden: None,
            sealed: BTreeSet::new(),
            shadows: BTreeMap::new(),
            clock_offset: 1 << 50,
            journal: past.may_fail_over.then(VecDeque::new),
            dated: None,
            copies: past.may_be_restored.then(BTreeMap::new),
        }
    }

    /// Refuses metadata with more bytes than this from now on, for keys that begin so.
    pub(crate) fn limit(&mut self, prefix: String, most: usize) {
        self.most = (prefix, most);
    }

    fn is_too_large(&self, write: &Write) -> bool {
        let (prefix, most) = &self.most;
        *most < usize::MAX && write.key.as_str().starts_with(prefix) && weight(&write.record.metadata) > *most
    }

    fn clock(&self, t: True) -> u64 {
        (t as i64 + self.clock_offset).max(0) as u64
    }

    /// The date of an answer, in whole seconds.
    pub(crate) fn date(&self, t: True) -> u64 {
        self.clock(t) / SECOND
    }

    pub(crate) fn jump_clock(&mut self, by: i64) {
        self.clock_offset += by;
    }

    fn stored(&self, entry: &RegisterEntry, t: True) -> Stored {
        let (written, now) = (entry.written / 1000, self.clock(t) / 1000);
        let times = match self.spec.ages {
            Ages::Untold => None,
            // As good as random, and the same in each run.
            Ages::Coarse => {
                let short_ms = (entry.record.nonce.0 as u64 ^ (t / MILLI)) % MOST_SHORT_MS;
                Some(Times { clock: 0, written, now: now.saturating_sub(short_ms * 1000) })
            }
            Ages::Fine => Some(Times { clock: 0, written, now }),
            Ages::Dated => entry.dated.map(|dated_ms| Times {
                clock: 0,
                written: dated_ms * 1000,
                now: self.date(t) * 1_000_000,
            }),
        };
        Stored::new(entry.record.clone()).timed(times)
    }

    fn listed(&self, key: &Key, entry: &RegisterEntry, t: True) -> Result<Stored, StoreError> {
        if let Some(error) = self.refusal(key) {
            return Err(error);
        }
        if self.damaged.contains(key) { Err(unreadable()) } else { Ok(self.stored(entry, t)) }
    }

    /// Makes a record unreadable.
    pub(crate) fn damage(&mut self, key: Key) {
        if self.entries.contains_key(&key) {
            self.damaged.insert(key);
        }
    }

    /// Writes metadata that mean nothing into a record, which can be read.
    pub(crate) fn garble(&mut self, t: True, key: &Key, nonce: Nonce) {
        let written = self.clock(t);
        let Some(entry) = self.entries.get_mut(key) else { return };
        self.garbled.entry(key.clone()).or_insert_with(|| entry.record.clone());
        for value in entry.record.metadata.values_mut() {
            if let Value::Bytes(bytes) = value {
                bytes.truncate(bytes.len() / 2);
                bytes.push(u8::MAX);
            }
        }
        (entry.record.nonce, entry.written, entry.dated) = (nonce, written, None);
    }

    /// Puts back what was there before.
    fn ungarble(&mut self, key: &Key) {
        if let (Some(record), Some(entry)) = (self.garbled.remove(key), self.entries.get_mut(key)) {
            entry.record = record;
        }
    }

    /// Refuses everything that is asked about one key, from now on.
    pub(crate) fn forbid(&mut self, key: Key) {
        self.forbidden = Some((key, denied()));
    }

    /// Makes one record unreadable for good.
    pub(crate) fn spoil(&mut self, key: Key) {
        self.forbidden = Some((key, unreadable()));
    }

    /// Refuses nothing any more.
    pub(crate) fn permit(&mut self) {
        self.forbidden = None;
        self.sealed.clear();
    }

    fn refusal(&self, key: &Key) -> Option<StoreError> {
        self.forbidden.as_ref().filter(|(forbidden, _)| forbidden == key).map(|(_, error)| error.clone())
    }

    /// Refuses every write of one key, from now on.
    pub(crate) fn seal(&mut self, key: Key) {
        self.sealed.insert(key);
    }

    /// Whether nobody can write it.
    pub(crate) fn is_sealed(&self, key: &Key) -> bool {
        self.sealed.contains(key) || self.is_forbidden(key)
    }

    pub(crate) fn is_forbidden(&self, key: &Key) -> bool {
        self.refusal(key).is_some()
    }

    /// Whether nobody can look at what stands there.
    pub(crate) fn is_unreadable(&self, key: &Key) -> bool {
        self.is_forbidden(key) || self.damaged.contains(key)
    }

    /// Whether all records can be read.
    pub(crate) fn is_sound(&self) -> bool {
        self.damaged.is_empty()
    }

    /// Makes all records readable again, as they were before, and says which.
    pub(crate) fn mend(&mut self) -> BTreeSet<Key> {
        let mut mended = std::mem::take(&mut self.damaged);
        while let Some(key) = self.garbled.keys().next().cloned() {
            self.ungarble(&key);
            mended.insert(key);
        }
        mended
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Record> {
        self.entries.get(key).map(|entry| &entry.record)
    }

    pub(crate) fn stored_at(&self, key: &Key, t: True) -> Option<Stored> {
        self.entries.get(key).map(|entry| self.stored(entry, t))
    }

    /// What a read shows that lags by `lag`: the latest, or what stood there before if that was so a moment ago.
    fn recent(&self, key: &Key, t: True, lag: True) -> Option<&RegisterEntry> {
        match self.shadows.get(key) {
            Some((until, before)) if until + lag > t => before.as_ref(),
            _ => self.entries.get(key),
        }
    }

    /// Performs one operation at this instant. `dated`: what the store's clock shows at the most, in milliseconds, as its client takes
    /// it to be. `lag`: how far reads of a recent state lag behind.
    pub(crate) fn perform(
        &mut self,
        t: True,
        op: &Op,
        dated: Option<u64>,
        lag: True,
    ) -> (Result<Answer, StoreError>, Option<(Key, Landed)>) {
        let listed = match op {
            Op::Read(key) if self.is_forbidden(key) => {
                return (Err(self.refusal(key).unwrap_or_else(denied)), None);
            }
            Op::Write(write) if self.is_sealed(&write.key) => {
                return (Err(self.refusal(&write.key).unwrap_or_else(denied)), None);
            }
            Op::Read(key) if self.damaged.contains(key) => return (Err(unreadable()), None),
            Op::Write(write) if self.damaged.contains(&write.key) => return (Err(unreadable()), None),
            Op::Write(write) if self.is_too_large(write) => return (Err(too_large()), None),
            Op::Write(write) => {
                self.dated = dated;
                let done = self.write(t, write);
                self.dated = None;
                return done;
            }
            Op::Read(key) => {
                let current = self.entries.get(key).map(|entry| self.stored(entry, t));
                return (Ok(Answer::Read(current)), None);
            }
            Op::ReadMany(keys, freshness) => {
                let lag = if *freshness == Freshness::Recent { lag } else { 0 };
                let found = keys.iter().filter_map(|key| {
                    let stored = self.listed(key, self.recent(key, t, lag)?, t);
                    Some(Listed { key: key.clone(), stored })
                });
                found.collect()
            }
            Op::List { prefix, after, limit } => {
                let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                let following = self.entries.range::<Key, _>((from, Bound::Unbounded));
                let page = following
                    .skip_while(|(key, _)| *key.as_str() < **prefix)
                    .take_while(|(key, _)| key.as_str().starts_with(&**prefix))
                    .take(*limit)
                    .map(|(key, entry)| Listed { key: key.clone(), stored: self.listed(key, entry, t) });
                page.collect()
            }
        };
        (Ok(Answer::Listed(listed)), None)
    }

    fn write(&mut self, t: True, write: &Write) -> (Result<Answer, StoreError>, Option<(Key, Landed)>) {
        let Write { key, expect, record } = write;
        let (key, expect) = (key.clone(), *expect);
        let standing = self.entries.get(&key);
        let holds = match (expect, standing) {
            (Expect::Absent, standing) => standing.is_none(),
            (Expect::Vacant, standing) => standing.is_none_or(|entry| entry.record.tenure.is_none()),
            (Expect::Unchanged(version), standing) => {
                standing.is_some_and(|entry| entry.record.version() == version)
            }
        };
        if !holds {
            let current = standing.map(|entry| self.stored(entry, t));
            return (Ok(Answer::Write(Outcome::Lost(current))), None);
        }
        let mut record = record.clone();
        if let (Expect::Vacant, Some(entry)) = (expect, standing) {
            match entry.record.fence.next(record.fence) {
                Ok(fence) => record.fence = fence,
                Err(error) => return (Err(error), None),
            }
        }
        let outcome = Outcome::Won { version: record.version(), fence: record.fence };
        let after = record.clone();
        let before = self.put(t, key.clone(), Some(record));
        (Ok(Answer::Write(outcome)), Some((key, Landed { before, after })))
    }

    fn put(&mut self, t: True, key: Key, record: Option<Record>) -> Option<Record> {
        self.ungarble(&key);
        let written = self.clock(t);
        let before = match record {
            Some(record) => {
                // Time may be hidden from whoever leaves a letter: it dates nothing.
                let dated = self.dated.take().filter(|_| !record.is_written_by_others());
                self.entries.insert(key.clone(), RegisterEntry { record, written, dated })
            }
            None => self.entries.remove(&key),
        };
        if self.spec.lags {
            self.shadows.insert(key.clone(), (t, before.clone()));
        }
        if let (Some(copies), Some(before)) = (&mut self.copies, &before) {
            let copies = copies.entry(key.clone()).or_default();
            if copies.len() >= COPIES {
                copies.pop_front();
            }
            copies.push_back(before.clone());
        }
        if let Some(journal) = &mut self.journal {
            while journal.front().is_some_and(|undo| undo.at + LAG < t) {
                journal.pop_front();
            }
            journal.push_back(Undo { at: t, key, before: before.clone() });
        }
        before.map(|entry| entry.record)
    }

    /// Puts a record back to what it was so many writes before the last. False if that isn't known.
    pub(crate) fn put_back(&mut self, t: True, key: &Key, writes: usize) -> bool {
        let copies = self.copies.as_ref().and_then(|copies| copies.get(key));
        let copy = copies.and_then(|copies| copies.iter().rev().nth(writes).cloned());
        let Some(copy) = copy else { return false };
        self.put(t, key.clone(), Some(copy.record));
        true
    }

    /// Removes a record, as `gc` does.
    pub(crate) fn remove(&mut self, t: True, key: &Key) {
        self.damaged.remove(key);
        self.put(t, key.clone(), None);
    }

    /// A replica that lags by `lag` takes over: what was acknowledged since then is gone. Answers the records that are other than before,
    /// as they were, and how many writes are lost.
    pub(crate) fn fail_over(&mut self, t: True, lag: True) -> (BTreeMap<Key, Option<Record>>, u64) {
        let (mut lost, mut count) = (BTreeMap::new(), 0);
        let Some(journal) = &mut self.journal else { return (lost, count) };
        while journal.back().is_some_and(|undo| undo.at + lag.min(LAG) >= t) {
            let Some(undo) = journal.pop_back() else { break };
            let after = match undo.before {
                Some(entry) => self.entries.insert(undo.key.clone(), entry),
                None => self.entries.remove(&undo.key),
            };
            lost.entry(undo.key).or_insert(after.map(|entry| entry.record));
            count += 1;
        }
        (lost, count)
    }

    /// All records, as a listing shows them.
    pub(crate) fn list(&self, t: True) -> Vec<Listed> {
        let listed = |(key, entry): (&Key, &RegisterEntry)| Listed {
            key: key.clone(),
            stored: self.listed(key, entry, t),
        };
        self.entries.iter().map(listed).collect()
    }

    /// The keys that have a record.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&Key, &Record)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.record))
    }
}

/// How many bytes names and texts have together.
fn weight(metadata: &Metadata) -> usize {
    let of = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::TextSet(set) => set.iter().map(String::len).sum(),
        Value::Map(fields) => weight(fields),
        _ => 1,
    };
    metadata.iter().map(|(name, value)| name.len() + of(value)).sum()
}

fn too_large() -> StoreError {
    StoreError::invalid("metadata over the limit")
}

fn denied() -> StoreError {
    StoreError::unsupported("access denied")
}

fn unreadable() -> StoreError {
    StoreError::foreign("the record can't be read; mend or delete it")
}
