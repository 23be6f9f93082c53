//! Tenures that this agent has seen, the newest so many: the store keeps no history.

use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure::{Clock, Fence, HolderId, Key, Wall};
use utoipa::ToSchema;

/// A tenure that was seen.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct PastTenure {
    pub(crate) key: String,
    pub(crate) fence: u64,
    pub(crate) holder: String,
    /// When it began, by its holder's wall clock, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    /// When this agent saw its end, by its own wall clock; absent while none was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    /// How it ended, as far as that can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Whose a key is, under which fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ownership {
    pub(crate) fence: Fence,
    pub(crate) holder: HolderId,
    pub(crate) since: Option<Wall>,
}

/// Those of this agent's clients, and while somebody listens to the store's news, those of all others.
pub(crate) struct TenureHistory {
    clock: Arc<dyn Clock>,
    past: Mutex<Past>,
}

#[derive(Default)]
struct Past {
    /// The oldest first.
    seen: VecDeque<ObservedTenure>,
    /// The number of the oldest.
    first: u64,
    /// Their numbers.
    places: BTreeMap<(Key, Fence), u64>,
}

struct ObservedTenure {
    key: Key,
    claim: Ownership,
    end: Option<(Wall, String)>,
}

impl TenureHistory {
    /// More are forgotten, the oldest first.
    pub(crate) const MOST: usize = 1000;

    pub(crate) fn new(clock: Arc<dyn Clock>) -> TenureHistory {
        TenureHistory { clock, past: Mutex::default() }
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It begins, unless it was seen before.
    pub(crate) fn began(&self, key: &Key, claim: &Ownership) {
        self.past().place(key, claim);
    }

    /// It is over, unless that was seen before.
    pub(crate) fn ended(&self, key: &Key, claim: &Ownership, reason: &str) {
        let now = self.clock.now().wall;
        if let Some(seen) = self.past().place(key, claim)
            && seen.end.is_none()
        {
            seen.end = Some((now, reason.to_owned()));
        }
    }

    /// The newest first; of one key, if one is named.
    pub(crate) fn newest(&self, key: Option<&Key>, limit: usize) -> Vec<PastTenure> {
        let past = self.past();
        let wanted = past.seen.iter().rev().filter(|seen| key.is_none_or(|key| seen.key == *key));
        wanted.take(limit).map(ObservedTenure::told).collect()
    }
}

impl Past {
    fn place(&mut self, key: &Key, claim: &Ownership) -> Option<&mut ObservedTenure> {
        let name = (key.clone(), claim.fence);
        if let Some(number) = self.places.get(&name) {
            return self.seen.get_mut(usize::try_from(number - self.first).ok()?);
        }
        if self.seen.len() == TenureHistory::MOST
            && let Some(oldest) = self.seen.pop_front()
        {
            self.first += 1;
            self.places.remove(&(oldest.key, oldest.claim.fence));
        }
        self.places.insert(name, self.first + self.seen.len() as u64);
        self.seen.push_back(ObservedTenure { key: key.clone(), claim: claim.clone(), end: None });
        self.seen.back_mut()
    }
}

impl ObservedTenure {
    fn told(&self) -> PastTenure {
        let Ownership { fence, holder, since } = &self.claim;
        PastTenure {
            key: self.key.as_str().to_owned(),
            fence: fence.0,
            holder: holder.as_str().to_owned(),
            since: since.map(|at| format!("{at:.3}")),
            until: self.end.as_ref().map(|(at, _)| format!("{at:.3}")),
            reason: self.end.as_ref().map(|(_, reason)| reason.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a tenure is there once, whoever tells of it how often; its first end counts; the oldest are forgotten, and one of those that ends is there again.
    use super::*;

    fn claim(fence: u64) -> Ownership {
        Ownership { fence: Fence(fence), holder: HolderId::new("h").unwrap(), since: Some(Wall(1_500)) }
    }

    #[test]
    fn a_tenure_is_there_once_and_its_first_end_counts() {
        let history = TenureHistory::new(tenure::clock::system());
        let (a, b) = (Key::new("a").unwrap(), Key::new("b").unwrap());
        for _ in 0..2 {
            history.began(&a, &claim(1));
        }
        history.ended(&a, &claim(1), "first");
        history.ended(&a, &claim(1), "second");
        history.began(&a, &claim(1));
        history.began(&b, &claim(1));
        history.began(&a, &claim(2));
        let all = history.newest(None, 10);
        let seen: Vec<_> =
            all.iter().map(|seen| (seen.key.as_str(), seen.fence, seen.reason.as_deref())).collect();
        assert_eq!(seen, [("a", 2, None), ("b", 1, None), ("a", 1, Some("first"))]);
        assert_eq!(all[2].since.as_deref(), Some("1970-01-01T00:00:01.500Z"));
        assert!(all[2].until.is_some() && all[0].until.is_none());
        assert_eq!(history.newest(Some(&a), 10).len(), 2);
        assert_eq!(history.newest(Some(&a), 1)[0].fence, 2);
    }

    #[test]
    fn the_oldest_are_forgotten_and_one_that_ends_later_is_there_again() {
        let history = TenureHistory::new(tenure::clock::system());
        let key = Key::new("k").unwrap();
        let many = TenureHistory::MOST as u64 + 5;
        (0..many).for_each(|fence| history.began(&key, &claim(fence)));
        let all = history.newest(None, usize::MAX);
        assert_eq!(
            (all.len(), all[0].fence, all[TenureHistory::MOST - 1].fence),
            (TenureHistory::MOST, many - 1, 5)
        );
        history.ended(&key, &claim(700), "late");
        history.ended(&key, &claim(3), "forgotten");
        let all = history.newest(None, usize::MAX);
        assert_eq!(
            (all.len(), all[0].fence, all[0].reason.as_deref()),
            (TenureHistory::MOST, 3, Some("forgotten"))
        );
        let late = all.iter().find(|seen| seen.fence == 700).unwrap();
        assert_eq!(late.reason.as_deref(), Some("late"));
    }
}
