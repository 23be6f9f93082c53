//! What records were like when they were last read, and what of that is new.

use crate::history::{Ownership, TenureHistory};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use tenure::permits::{self, is_semaphore};
use tenure::range::{self, is_section};
use tenure::store::{Listed, Stored};
use tenure::{Key, StoreError};

/// A digest of each record, and its tenures, which tell the history of those that end.
pub(super) struct Compared {
    history: Arc<TenureHistory>,
    seen: BTreeMap<Key, KeySnapshot>,
    /// Of the reading of everything.
    turn: u64,
    /// Everything was read once.
    is_whole: bool,
}

struct KeySnapshot {
    /// The turn in which it was last met.
    turn: u64,
    digest: u64,
    claims: Vec<Ownership>,
}

impl Compared {
    pub(super) fn new(history: Arc<TenureHistory>) -> Compared {
        Compared { history, seen: BTreeMap::new(), turn: 0, is_whole: false }
    }

    /// Whether everything was read once.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// A reading of everything begins.
    pub(super) fn begin(&mut self) {
        self.turn += 1;
    }

    /// Everything was met that is there: these keys are not any more.
    pub(super) fn end(&mut self) -> Vec<Key> {
        self.is_whole = true;
        let turn = self.turn;
        let gone: Vec<Key> =
            self.seen.iter().filter(|(_, seen)| seen.turn != turn).map(|(key, _)| key.clone()).collect();
        gone.iter().filter_map(|key| self.removed(key)).collect()
    }

    /// It has no record any more; nothing where that is no news.
    pub(super) fn removed(&mut self, key: &Key) -> Option<Key> {
        let seen = self.seen.remove(key)?;
        for claim in &seen.claims {
            self.history.ended(key, claim, "its record is gone");
        }
        Some(key.clone())
    }

    /// Those that are not as they were.
    pub(super) fn changed(&mut self, listed: Vec<Listed>) -> Vec<Listed> {
        listed.into_iter().filter(|listed| self.is_changed(listed)).collect()
    }

    fn is_changed(&mut self, Listed { key, stored }: &Listed) -> bool {
        let (turn, digest) = (self.turn, digest(stored));
        let before = self.seen.get_mut(key);
        if let Some(seen) = before
            && seen.digest == digest
        {
            seen.turn = turn;
            return false;
        }
        let before = self.seen.remove(key);
        // What everything was when it was first read has no history.
        let has_history = self.is_whole || before.is_some();
        let before = before.map(|seen| seen.claims).unwrap_or_default();
        // Whoever had what can't be read may be at work.
        let claims = claims(stored).unwrap_or_else(|| before.clone());
        if has_history {
            self.tell(key, &before, &claims);
        }
        self.seen.insert(key.clone(), KeySnapshot { turn, digest, claims });
        true
    }

    fn tell(&self, key: &Key, before: &[Ownership], now: &[Ownership]) {
        let has =
            |claims: &[Ownership], claim: &Ownership| claims.iter().any(|other| other.fence == claim.fence);
        let begun: Vec<&Ownership> = now.iter().filter(|claim| !has(before, claim)).collect();
        for claim in before.iter().filter(|claim| !has(now, claim)) {
            let reason = if begun.is_empty() { "it was given up" } else { "another has it" };
            self.history.ended(key, claim, reason);
        }
        for claim in begun {
            self.history.began(key, claim);
        }
    }
}

/// The same while nothing but renewals and letters are written.
fn digest(stored: &Result<Stored, StoreError>) -> u64 {
    let mut hasher = DefaultHasher::new();
    match stored {
        Ok(Stored { record, .. }) => {
            let tenure = record.tenure.as_ref();
            (record.fence, &record.metadata).hash(&mut hasher);
            tenure.map(|tenure| (tenure.id, &tenure.holder, &tenure.attachment)).hash(&mut hasher);
        }
        Err(error) => error.to_string().hash(&mut hasher),
    }
    hasher.finish()
}

/// Who has it; none if that can't be read.
fn claims(stored: &Result<Stored, StoreError>) -> Option<Vec<Ownership>> {
    let stored = stored.as_ref().ok()?;
    let record = &stored.record;
    if is_semaphore(record) {
        let ledger = permits::SemaphoreLedger::of(record).ok()?;
        let claim = |grant: &permits::Grant| Ownership {
            fence: grant.fence,
            holder: grant.ticket.holder.clone(),
            since: Some(record.stamp),
        };
        return Some(ledger.holders.iter().map(claim).collect());
    }
    if is_section(record) {
        let ledger = range::SectionLedger::seen_in(stored).ok()?;
        let claim = |entry: &range::Entry| Ownership {
            fence: entry.fence,
            holder: entry.holder.clone(),
            since: Some(entry.stamp),
        };
        return Some(ledger.entries.iter().map(claim).collect());
    }
    let tenure = record.tenure.iter();
    let claim = |tenure: &tenure::store::Tenure| Ownership {
        fence: record.fence,
        holder: tenure.holder.clone(),
        since: Some(tenure.since),
    };
    Some(tenure.map(claim).collect())
}
