//! The prefixes of keys that leases are measured by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_core::{InvalidInput, Key, LeaseId};

/// What the label says of a key that none fits.
const OTHER: &str = "other";

/// The id of a lease carries the place of its key's prefix here in its upper bits: nothing has to be kept beside the lease, and what is
/// told of one that is forgotten already is measured as it was.
const PLACE: u32 = 58;

/// Series of metrics cost memory for good, here and where they are stored.
const MOST: usize = 32;

/// The user's rule. Without one, there are no labels.
pub(crate) struct Prefixes {
    /// What the label says; the first is what no prefix fits. Empty without a rule.
    labels: Vec<Arc<str>>,
    /// The last id in sequence at each place: tables of leases want them dense.
    last: Vec<AtomicU64>,
}

impl Prefixes {
    pub(crate) fn new(prefixes: &[String]) -> Result<Prefixes, InvalidInput> {
        if prefixes.len() > MOST {
            return Err(InvalidInput::new(format!(
                "metrics by {} prefixes would make too many series; name {MOST} at the most",
                prefixes.len()
            )));
        }
        let mut labels: Vec<Arc<str>> = Vec::new();
        for prefix in
            std::iter::once(OTHER).filter(|_| !prefixes.is_empty()).chain(prefixes.iter().map(|p| &**p))
        {
            Key::new(prefix).map_err(|error| {
                InvalidInput::new(format!("a prefix of metrics must be the start of a key: {error}"))
            })?;
            if labels.iter().any(|label| **label == *prefix) {
                return Err(InvalidInput::new(format!(
                    "metrics by the prefix {prefix:?} are there already: name each prefix once, and none {OTHER:?}, which is for the rest"
                )));
            }
            labels.push(prefix.into());
        }
        let last = std::iter::repeat_with(AtomicU64::default).take(labels.len().max(1)).collect();
        Ok(Prefixes { labels, last })
    }

    /// The label of what is measured of this lease.
    pub(crate) fn label(&self, lease: LeaseId) -> Option<&Arc<str>> {
        self.labels.get((lease.0 >> PLACE) as usize)
    }

    /// All labels, or one time none.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Option<&Arc<str>>> {
        let none = self.labels.is_empty().then_some(None);
        self.labels.iter().map(Some).chain(none)
    }

    /// An id for a lease on `key` that no other has.
    pub(crate) fn next_id(&self, key: &Key) -> LeaseId {
        let fitting =
            self.labels.iter().enumerate().skip(1).filter(|(_, label)| key.as_str().starts_with(&***label));
        let place = fitting.max_by_key(|(_, label)| label.len()).map_or(0, |(place, _)| place);
        let last = self.last.get(place).map_or(0, |last| last.fetch_add(1, Ordering::Relaxed));
        LeaseId((place as u64) << PLACE | (last + 1))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn ids_carry_the_longest_prefix_and_are_dense_at_each() {
        let prefixes = Prefixes::new(&["a/".into(), "a/b/".into(), "c".into()]).unwrap();
        let next = |key: &str| {
            let id = prefixes.next_id(&Key::new(key).unwrap());
            (prefixes.label(id).unwrap().to_string(), id.0 & ((1 << PLACE) - 1))
        };
        for (key, label, n) in [
            ("a/x", "a/", 1),
            ("a/b/x", "a/b/", 1),
            ("a/y", "a/", 2),
            ("c", "c", 1),
            ("a", "other", 1),
            ("x", "other", 2),
        ] {
            assert_eq!(next(key), (label.to_owned(), n), "{key}");
        }
    }

    #[test]
    fn without_a_rule_ids_are_numbers_without_a_label() {
        let prefixes = Prefixes::new(&[]).unwrap();
        let id = prefixes.next_id(&Key::new("a").unwrap());
        assert_eq!((id, prefixes.label(id), prefixes.labels().count()), (LeaseId(1), None, 1));
    }
}
