//! A bounded map. While it is small, it keeps every entry. Once it is large, it drops entries that were not looked at for three to
//! four spans of time.

use crate::values::time::Tick;
use std::collections::BTreeMap;
use std::time::Duration;

/// So many are kept whatever their age.
const FEW: usize = 4096;
/// More than this are never kept: those that are being looked at stay, as whoever drove them out would be driven out in
/// turn, and none would ever be there for as long as is needed.
const MOST: usize = 1 << 18;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Bounded<K, T> {
    entries: BTreeMap<K, ExpiringValue<T>>,
    /// With so many entries it is time to forget some.
    full_at: usize,
    /// Before this, nothing can be forgotten.
    not_before: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ExpiringValue<T> {
    value: T,
    forget_at: Tick,
}

impl<K, T> Default for Bounded<K, T> {
    fn default() -> Self {
        Bounded { entries: BTreeMap::new(), full_at: FEW, not_before: Tick(0) }
    }
}

impl<K: Ord + Clone, T> Bounded<K, T> {
    /// What is remembered of `key`, `fresh` if nothing was; none if there is no room. It stays for as long as it is looked at
    /// again and again: at least once in three times `span`.
    pub(super) fn look(
        &mut self,
        now: Tick,
        key: &K,
        span: Duration,
        fresh: impl FnOnce() -> T,
    ) -> Option<&mut T> {
        if !self.entries.contains_key(key) {
            if !self.has_room(now) {
                return None;
            }
            let entry = ExpiringValue { value: fresh(), forget_at: now.after(span.saturating_mul(4)) };
            self.entries.insert(key.clone(), entry);
        }
        let entry = self.entries.get_mut(key)?;
        // Not at each look, so that looks by themselves make no difference.
        if entry.forget_at <= now.after(span.saturating_mul(3)) {
            entry.forget_at = now.after(span.saturating_mul(4));
        }
        Some(&mut entry.value)
    }

    fn has_room(&mut self, now: Tick) -> bool {
        if self.entries.len() >= self.full_at && now >= self.not_before {
            self.entries.retain(|_, entry| entry.forget_at > now);
            let next = self.entries.values().map(|entry| entry.forget_at).min();
            self.not_before = next.unwrap_or(now);
            self.full_at = (self.entries.len() * 2).clamp(FEW, MOST);
        }
        self.entries.len() < MOST
    }

    /// What is remembered of `key`, left as it is.
    pub(super) fn get(&self, key: &K) -> Option<&T> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut T> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.entries.remove(key);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(test)]
    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what is looked at stays, the rest is forgotten, both to the nanosecond, and nothing while there is little; at
    //! the very end of the room those that are there stay.
    use super::*;
    use crate::values::key::Key;

    const SPAN: Duration = Duration::from_secs(10);

    fn key(n: usize) -> Key {
        Key::new(format!("k{n}")).unwrap()
    }

    fn at(secs: u64) -> Tick {
        Tick(secs * 1_000_000_000)
    }

    #[test]
    fn what_is_looked_at_stays_and_the_rest_is_forgotten() {
        let mut room = Bounded::default();
        for secs in (0..1000).step_by(25) {
            assert_eq!(room.look(at(secs), &key(0), SPAN, || secs), Some(&mut 0), "after {secs} s");
            for n in 0..400 {
                room.look(at(secs), &key(1 + secs as usize * 400 + n), SPAN, || secs);
            }
        }
        assert!(room.len() <= FEW, "{}", room.len());
    }

    #[test]
    fn few_stay_whatever_their_age_and_of_more_each_for_three_spans_at_least_and_less_than_four() {
        let span = SPAN.as_secs();
        let mut room = Bounded::default();
        room.look(at(0), &key(0), SPAN, || ());
        for n in 1..FEW {
            room.look(at(span), &key(n), SPAN, || ());
        }
        room.look(at(span), &key(0), SPAN, || ());
        assert!(room.look(at(span * 4), &key(FEW), SPAN, || ()).is_some());
        assert!(room.contains_key(&key(0)), "it was looked at three spans ago");
        let mut room = Bounded::default();
        for n in 0..FEW {
            room.look(at(0), &key(n), SPAN, || ());
        }
        assert!(room.look(at(span * 4), &key(FEW), SPAN, || ()).is_some());
        assert_eq!(room.len(), 1, "all others were looked at four spans ago");
        let mut few = Bounded::default();
        few.look(at(0), &key(0), SPAN, || ());
        few.look(at(span * 1000), &key(1), SPAN, || ());
        assert!(few.contains_key(&key(0)));
    }

    #[test]
    fn when_all_is_full_those_that_are_there_stay() {
        let mut room = Bounded::default();
        for n in 0..MOST {
            assert!(room.look(at(0), &key(n), SPAN, || ()).is_some());
        }
        let other = key(usize::MAX);
        assert_eq!(room.look(at(1), &other, SPAN, || ()), None);
        assert!(room.look(at(1), &key(7), SPAN, || ()).is_some());
        room.forget(&key(7));
        assert!(room.look(at(2), &other, SPAN, || ()).is_some());
    }
}
