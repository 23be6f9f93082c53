//! A held lease that is attached to the session, in as few bytes as will do: there may be a million of these.

use crate::holder::acquisition::Won;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::time::{Tick, Wall};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AttachedLease {
    pub(super) key: Key,
    /// In halves: a whole u128 would have each lease aligned to 16 bytes.
    id: [u64; 2],
    pub(super) fence: Fence,
    pub(super) since: Wall,
    rare: Option<Box<Rare>>,
}

/// What differs from a plain claim's, if anything does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rare {
    version: Version,
    metadata: Metadata,
    cap: Option<Tick>,
}

impl AttachedLease {
    pub(crate) fn new(key: Key, won: Won) -> AttachedLease {
        let id = [(won.id.0 >> 64) as u64, won.id.0 as u64];
        let mut attached = AttachedLease { key, id, fence: won.fence, since: won.since, rare: None };
        attached.change(won.version, won.metadata);
        attached
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }

    pub(crate) fn since(&self) -> Wall {
        self.since
    }

    pub(crate) fn id(&self) -> Nonce {
        let [high, low] = self.id;
        Nonce(u128::from(high) << 64 | u128::from(low))
    }

    pub(super) fn version(&self) -> Version {
        self.rare.as_ref().map_or_else(|| Version::of(self.id(), self.fence), |rare| rare.version)
    }

    pub(super) fn metadata(&self) -> Metadata {
        self.rare.as_ref().map(|rare| rare.metadata.clone()).unwrap_or_default()
    }

    /// The record shows this now.
    pub(super) fn change(&mut self, version: Version, metadata: Metadata) {
        if version != self.version() || metadata != self.metadata() {
            let rare = self.rare();
            (rare.version, rare.metadata) = (version, metadata);
        }
    }

    /// Withdrawn: vacated then at the latest.
    pub(crate) fn cap(&self) -> Option<Tick> {
        self.rare.as_ref()?.cap
    }

    /// Whether it ends at a set time, however long the session lasts: it was withdrawn, or is left to expire.
    pub(crate) fn is_capped(&self) -> bool {
        self.cap().is_some()
    }

    pub(super) fn set_cap(&mut self, cap: Tick) {
        self.rare().cap = Some(cap);
    }

    /// Withdrawn, perhaps not for the first time.
    pub(super) fn cap_at_most(&mut self, cap: Tick) {
        self.set_cap(self.cap().map_or(cap, |before| before.min(cap)));
    }

    fn rare(&mut self) -> &mut Rare {
        let version = self.version();
        let plain = || Box::new(Rare { version, metadata: Metadata::new(), cap: None });
        self.rare.get_or_insert_with(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holder::lease::LeaseState;

    fn won(version: Option<u128>, metadata: Metadata) -> Won {
        let (id, fence) = (Nonce(7 << 64 | 9), Fence(5));
        let version = version.map_or_else(|| Version::of(id, fence), Version);
        Won { id, fence, version, sent: Tick(1), wall: Wall(3), since: Wall(3), metadata }
    }

    #[test]
    fn an_attached_lease_says_what_it_was_told_at_last() {
        let fields: Metadata = [("a".to_owned(), crate::values::metadata::Value::Null)].into();
        for (version, metadata) in
            [(None, Metadata::new()), (Some(1), Metadata::new()), (None, fields.clone()), (Some(1), fields)]
        {
            let won = won(version, metadata.clone());
            let mut attached = AttachedLease::new(Key::new("k").unwrap(), won.clone());
            let said = (attached.id(), attached.version(), attached.metadata(), attached.cap());
            assert_eq!(said, (won.id, won.version, metadata.clone(), None));
            attached.set_cap(Tick(4));
            assert_eq!(
                (attached.version(), attached.metadata(), attached.cap()),
                (won.version, metadata, Some(Tick(4)))
            );
            attached.change(Version(2), Metadata::new());
            let said = (attached.id(), attached.version(), attached.metadata(), attached.cap());
            assert_eq!(said, (won.id, Version(2), Metadata::new(), Some(Tick(4))));
        }
    }

    #[test]
    fn a_plain_attached_lease_is_small() {
        assert!(AttachedLease::new(Key::new("k").unwrap(), won(None, Metadata::new())).rare.is_none());
        assert_eq!(size_of::<Option<LeaseState>>(), 64);
    }
}
