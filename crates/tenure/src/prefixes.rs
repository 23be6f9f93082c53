//! The labels that leases are measured by: what they are to their users, and prefixes of their keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_core::{InvalidInput, Key, LeaseId};

/// What the label says of a key that none fits.
const OTHER: &str = "other";

/// The id of a lease carries the place of its labels here in its upper bits: nothing has to be kept beside the lease, and what is
/// told of one that is forgotten already is measured as it was.
const PLACE: u32 = 56;

/// Series of metrics cost memory for good, here and where they are stored.
const MOST: usize = 32;

/// What a lease is to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseKind {
    Lock,
    Permit,
    Leadership,
}

impl LeaseKind {
    const ALL: [LeaseKind; 3] = [LeaseKind::Lock, LeaseKind::Permit, LeaseKind::Leadership];

    /// As the label says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LeaseKind::Lock => "lock",
            LeaseKind::Permit => "permit",
            LeaseKind::Leadership => "leadership",
        }
    }
}

/// The labels of what is measured of a lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labels<'a> {
    pub(crate) kind: LeaseKind,
    /// None without a rule.
    pub(crate) prefix: Option<&'a Arc<str>>,
}

/// The user's rule. Without one, there are no labels of prefixes.
pub(crate) struct Prefixes {
    /// What the label says; the first is what no prefix fits. Empty without a rule.
    labels: Vec<Arc<str>>,
    /// The last id in sequence at each place, kind by kind: tables of leases want them dense.
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
        let places = labels.len().max(1) * LeaseKind::ALL.len();
        let last = std::iter::repeat_with(AtomicU64::default).take(places).collect();
        Ok(Prefixes { labels, last })
    }

    /// How many places each kind has.
    fn each(&self) -> usize {
        self.labels.len().max(1)
    }

    fn at(&self, place: usize) -> Labels<'_> {
        let kind = LeaseKind::ALL.get(place / self.each()).copied().unwrap_or(LeaseKind::Lock);
        Labels { kind, prefix: self.labels.get(place % self.each()) }
    }

    /// The labels of what is measured of this lease.
    pub(crate) fn of(&self, lease: LeaseId) -> Labels<'_> {
        self.at((lease.0 >> PLACE) as usize)
    }

    /// The labels of whoever waits for such a lease on `key`.
    pub(crate) fn of_key(&self, key: &Key, kind: LeaseKind) -> Labels<'_> {
        self.at(self.place(key, kind))
    }

    /// All labels that there can be.
    pub(crate) fn all(&self) -> impl Iterator<Item = Labels<'_>> {
        (0..self.last.len()).map(|place| self.at(place))
    }

    fn place(&self, key: &Key, kind: LeaseKind) -> usize {
        let fitting =
            self.labels.iter().enumerate().skip(1).filter(|(_, label)| key.as_str().starts_with(&***label));
        let prefix = fitting.max_by_key(|(_, label)| label.len()).map_or(0, |(place, _)| place);
        let before = LeaseKind::ALL.iter().position(|known| *known == kind).unwrap_or(0);
        before * self.each() + prefix
    }

    /// An id for a lease on `key` that no other has.
    pub(crate) fn next_id(&self, key: &Key, kind: LeaseKind) -> LeaseId {
        let place = self.place(key, kind);
        let last = self.last.get(place).map_or(0, |last| last.fetch_add(1, Ordering::Relaxed));
        LeaseId((place as u64) << PLACE | (last + 1))
    }

    /// Whether anything was ever wanted.
    pub(crate) fn was_any(&self) -> bool {
        self.last.iter().any(|last| last.load(Ordering::Relaxed) > 0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn ids_carry_the_kind_and_the_longest_prefix_and_are_dense_at_each() {
        let prefixes = Prefixes::new(&["a/".into(), "a/b/".into(), "c".into()]).unwrap();
        let next = |key: &str, kind| {
            let id = prefixes.next_id(&Key::new(key).unwrap(), kind);
            let labels = prefixes.of(id);
            assert_eq!(labels.kind, kind, "{key}");
            (labels.prefix.unwrap().to_string(), id.0 & ((1 << PLACE) - 1))
        };
        for kind in LeaseKind::ALL {
            for (key, label, n) in [
                ("a/x", "a/", 1),
                ("a/b/x", "a/b/", 1),
                ("a/y", "a/", 2),
                ("c", "c", 1),
                ("a", "other", 1),
                ("x", "other", 2),
            ] {
                assert_eq!(next(key, kind), (label.to_owned(), n), "{key}");
            }
        }
        assert_eq!(prefixes.all().count(), 12);
    }

    #[test]
    fn the_most_prefixes_leave_room_for_all_kinds() {
        let names: Vec<String> = (0..MOST).map(|n| format!("p{n:02}/")).collect();
        let prefixes = Prefixes::new(&names).unwrap();
        let last = prefixes.next_id(&Key::new("p31/x").unwrap(), LeaseKind::Leadership);
        let labels = prefixes.of(last);
        assert_eq!((labels.kind, &**labels.prefix.unwrap()), (LeaseKind::Leadership, "p31/"));
    }

    #[test]
    fn without_a_rule_ids_are_numbers_and_only_the_kind_is_a_label() {
        let prefixes = Prefixes::new(&[]).unwrap();
        let id = prefixes.next_id(&Key::new("a").unwrap(), LeaseKind::Lock);
        assert_eq!(
            (id, prefixes.of(id).prefix, prefixes.all().map(|labels| labels.kind).collect()),
            (LeaseId(1), None, LeaseKind::ALL.to_vec())
        );
    }
}
