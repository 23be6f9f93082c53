//! A map from ids that are mostly dense to values that are many.
//!
//! A process may hold a million leases. Their ids are handed out in sequence, so that runs of them sit side by side here;
//! in a plain B-tree, which splits its nodes in halves as ids come in order, the same would take twice the memory.

use crate::holder::lease_id::LeaseId;
use std::collections::BTreeMap;

const RUN: u64 = 16;

type Run<V> = Box<[Option<V>; RUN as usize]>;

/// Values by id, in the order of the ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseMap<V> {
    runs: BTreeMap<u64, Run<V>>,
    len: usize,
}

impl<V> Default for LeaseMap<V> {
    fn default() -> Self {
        LeaseMap { runs: BTreeMap::new(), len: 0 }
    }
}

impl<V> LeaseMap<V> {
    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of `id`.
    #[must_use]
    pub fn get(&self, id: &LeaseId) -> Option<&V> {
        self.runs.get(&(id.0 / RUN))?.get(place(*id))?.as_ref()
    }

    /// The value of `id`, to be changed.
    pub fn get_mut(&mut self, id: &LeaseId) -> Option<&mut V> {
        self.runs.get_mut(&(id.0 / RUN))?.get_mut(place(*id))?.as_mut()
    }

    /// Sets the value of `id`, and returns the one that it had.
    pub fn insert(&mut self, id: LeaseId, value: V) -> Option<V> {
        let run = self.runs.entry(id.0 / RUN).or_insert_with(|| Box::new([const { None }; RUN as usize]));
        let old = run.get_mut(place(id)).and_then(|slot| slot.replace(value));
        self.len += usize::from(old.is_none());
        old
    }

    /// Takes the value of `id` out.
    pub fn remove(&mut self, id: &LeaseId) -> Option<V> {
        let run = self.runs.get_mut(&(id.0 / RUN))?;
        let value = run.get_mut(place(*id))?.take()?;
        if run.iter().all(Option::is_none) {
            self.runs.remove(&(id.0 / RUN));
        }
        self.len -= 1;
        Some(value)
    }

    /// All ids with their values.
    pub fn iter(&self) -> impl Iterator<Item = (LeaseId, &V)> {
        self.runs.iter().flat_map(|(run, values)| {
            let id = move |place| LeaseId(run * RUN + place as u64);
            values.iter().enumerate().filter_map(move |(place, value)| Some((id(place), value.as_ref()?)))
        })
    }

    /// Up to `most` ids from `first` on that have a value, with their values, and where to go on; none at the end.
    pub fn page(&self, first: LeaseId, most: usize) -> (Vec<(LeaseId, &V)>, Option<LeaseId>) {
        let runs = self.runs.range(first.0 / RUN..);
        let all = runs.flat_map(|(run, values)| {
            let id = move |place| LeaseId(run * RUN + place as u64);
            values.iter().enumerate().filter_map(move |(place, value)| Some((id(place), value.as_ref()?)))
        });
        let mut page: Vec<_> = all.filter(|(id, _)| *id >= first).take(most.saturating_add(1)).collect();
        let next = if page.len() > most { page.pop().map(|(id, _)| id) } else { None };
        (page, next)
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

fn place(id: LeaseId) -> usize {
    (id.0 % RUN) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_does_what_a_plain_map_does() {
        proptest!(|(changes in prop::collection::vec((0u64..100, prop::option::of(any::<u8>())), 0..300))| {
            let (mut table, mut plain) = (LeaseMap::default(), BTreeMap::new());
            for (id, value) in changes {
                let id = LeaseId(id);
                match value {
                    Some(value) => prop_assert_eq!(table.insert(id, value), plain.insert(id, value)),
                    None => prop_assert_eq!(table.remove(&id), plain.remove(&id)),
                }
                prop_assert_eq!(table.get(&id), plain.get(&id));
                prop_assert_eq!((table.len(), table.is_empty()), (plain.len(), plain.is_empty()));
            }
            prop_assert_eq!(table.iter().map(|(id, v)| (id, *v)).collect::<Vec<_>>(), plain.into_iter().collect::<Vec<_>>());
        });
    }

    #[test]
    fn pages_put_together_are_all_values_in_order() {
        proptest!(|(ids in prop::collection::btree_set(0u64..200, 0..80), most in 1usize..20)| {
            let mut table = LeaseMap::default();
            for id in &ids {
                table.insert(LeaseId(*id), *id);
            }
            let (mut seen, mut next) = (Vec::new(), Some(LeaseId(0)));
            while let Some(first) = next {
                let (page, then) = table.page(first, most);
                prop_assert!(page.len() <= most && (then.is_none() || page.len() == most));
                seen.extend(page.into_iter().map(|(_, id)| *id));
                next = then;
            }
            prop_assert_eq!(seen, ids.into_iter().collect::<Vec<_>>());
        });
    }

    #[test]
    fn empty_runs_are_given_back() {
        let mut table = LeaseMap::default();
        for id in 0..1000 {
            table.insert(LeaseId(id), ());
        }
        for id in 0..1000 {
            table.remove(&LeaseId(id));
        }
        assert_eq!(table, LeaseMap::default());
    }
}
