//! A map that is filled in the order of its keys, as listings are: a sorted list, which takes half the memory of a tree.

use crate::values::key::Key;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sorted<V>(Vec<(Key, V)>);

impl<V> Default for Sorted<V> {
    fn default() -> Sorted<V> {
        Sorted(Vec::new())
    }
}

impl<V> Sorted<V> {
    fn find(&self, key: &Key) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(key))
    }

    pub(super) fn get(&self, key: &Key) -> Option<&V> {
        self.find(key).ok().and_then(|at| self.0.get(at)).map(|(_, value)| value)
    }

    #[cfg(test)]
    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        self.find(key).ok().and_then(|at| self.0.get_mut(at)).map(|(_, value)| value)
    }

    /// The one in that place, from 0.
    pub(super) fn at(&self, place: u32) -> Option<&(Key, V)> {
        self.0.get(place as usize)
    }

    /// In no time if it comes after all others.
    pub(super) fn insert(&mut self, key: Key, value: V) {
        if self.0.last().is_none_or(|(last, _)| *last < key) {
            return self.0.push((key, value));
        }
        match self.find(&key) {
            Ok(at) => {
                if let Some((_, standing)) = self.0.get_mut(at) {
                    *standing = value;
                }
            }
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

impl<V> FromIterator<(Key, V)> for Sorted<V> {
    fn from_iter<I: IntoIterator<Item = (Key, V)>>(entries: I) -> Sorted<V> {
        let entries = entries.into_iter();
        let mut sorted = Sorted(Vec::with_capacity(entries.size_hint().0));
        entries.for_each(|(key, value)| sorted.insert(key, value));
        sorted
    }
}

impl<V> IntoIterator for Sorted<V> {
    type Item = (Key, V);
    type IntoIter = std::vec::IntoIter<(Key, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what is put in is found, in the order of keys, whatever order it came in; the last of one key counts.
    use super::*;
    use crate::fleet::worker::alone::unit;

    #[test]
    fn what_is_put_in_is_found_in_the_order_of_keys() {
        let mut sorted: Sorted<char> = [(unit(1), 'b'), (unit(3), 'd'), (unit(0), 'a')].into_iter().collect();
        sorted.insert(unit(2), 'x');
        sorted.insert(unit(2), 'c');
        assert_eq!(sorted.values().collect::<String>(), "abcd");
        assert_eq!(
            (0..5).map(|n| sorted.get(&unit(n)).copied()).collect::<Vec<_>>(),
            [Some('a'), Some('b'), Some('c'), Some('d'), None]
        );
        *sorted.get_mut(&unit(3)).unwrap() = 'e';
        sorted.values_mut().for_each(|value| *value = value.to_ascii_uppercase());
        assert_eq!(sorted.at(3), Some(&(unit(3), 'E')));
        assert_eq!(sorted.iter().last(), Some((&unit(3), &'E')));
        assert_eq!(sorted.into_iter().next(), Some((unit(0), 'A')));
    }
}
