//! A unit that this worker has, claims, or is giving up.

use super::asked::Asked;
use crate::fleet::digest::Digest;
use crate::fleet::talk::{Reason, Taken};
use crate::fleet::unit::UnitSpec;
use crate::holder::lease_id::LeaseId;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::Key;
use crate::values::time::Tick;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

/// What a unit is to this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Acquiring,
    Held,
    /// The user was asked to end what is done for it.
    Draining,
    /// It is being given up.
    Going,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Own {
    pub(super) lease: LeaseId,
    pub(super) stage: Stage,
    pub(super) fence: Fence,
    /// Names the tenure that it is held by, once it is.
    pub(super) tenure: Option<Nonce>,
    pub(super) spec: UnitSpec,
    /// The changes that are under way or wait for that, and who waits for its end.
    pub(super) asked: Asked,
    /// The session of the worker that it is planned for.
    pub(super) transferee: Option<Key>,
    /// Users have chosen that worker: nobody there expects it.
    pub(super) chosen: bool,
    /// It was passed on to this worker, though the plan would have it elsewhere.
    pub(super) given: bool,
    /// Why it has to go, if it has to.
    pub(super) goes: Option<Reason>,
    /// How this worker came to it.
    pub(super) how: Taken,
    /// Whether it is claimed since the store hinted at a change of it, whatever that was.
    pub(super) hinted: bool,
    /// Whether a letter told this worker of it.
    pub(super) letter: bool,
    /// Whether users know of it.
    pub(super) told: bool,
    /// Since when they work on it, or it rests.
    pub(super) since: Tick,
}

impl Own {
    /// What it adds to the digest of what is held.
    fn share(&self, unit: &Key) -> Option<u64> {
        match (self.stage, self.tenure) {
            (Stage::Held | Stage::Draining, Some(id)) => Some(Digest::share(unit, (id, self.fence))),
            _ => None,
        }
    }
}

/// All of them by key and by lease, and the digest of those that are held. It is asked for at each step, so only what has changed is counted anew.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OwnUnits {
    all: BTreeMap<Key, Own>,
    /// The units by their leases, but for one that rests here while its users are answered: to them, it was given up.
    keys: BTreeMap<LeaseId, Key>,
    last_lease: u64,
    /// When the reading or the listing began that the present plan was made from.
    planned_from: Tick,
    /// Leases of whose end users were told, and whose records still show them.
    lapsing: BTreeSet<LeaseId>,
    /// The digest of all but those that are touched; none if any may have changed.
    counted: Option<Digest>,
    /// Those that may have changed since they were counted.
    touched: BTreeSet<Key>,
}

impl Default for OwnUnits {
    fn default() -> OwnUnits {
        OwnUnits {
            all: BTreeMap::new(),
            keys: BTreeMap::new(),
            last_lease: 0,
            planned_from: Tick(0),
            lapsing: BTreeSet::new(),
            counted: Some(Digest::default()),
            touched: BTreeSet::new(),
        }
    }
}

impl Deref for OwnUnits {
    type Target = BTreeMap<Key, Own>;

    fn deref(&self) -> &BTreeMap<Key, Own> {
        &self.all
    }
}

impl OwnUnits {
    /// A lease for a unit that is to be claimed.
    pub(super) fn new_lease(&mut self) -> LeaseId {
        self.last_lease += 1;
        LeaseId(self.last_lease)
    }

    pub(super) fn insert(&mut self, unit: Key, own: Own) {
        self.touch(&unit);
        self.keys.insert(own.lease, unit.clone());
        self.all.insert(unit, own);
    }

    fn remove(&mut self, unit: &Key) {
        self.touch(unit);
        self.all.remove(unit);
    }

    /// The unit of this lease is no unit of this worker any more.
    pub(super) fn forget(&mut self, lease: LeaseId) -> Option<Key> {
        let unit = self.keys.remove(&lease)?;
        self.remove(&unit);
        Some(unit)
    }

    pub(super) fn unit_of(&self, lease: LeaseId) -> Option<&Key> {
        self.keys.get(&lease)
    }

    pub(super) fn by_lease(&self, lease: LeaseId) -> Option<&Own> {
        self.all.get(self.keys.get(&lease)?)
    }

    pub(super) fn by_lease_mut(&mut self, lease: LeaseId) -> Option<(Key, &mut Own)> {
        let unit = self.keys.get(&lease)?.clone();
        let own = self.get_mut(&unit)?;
        Some((unit, own))
    }

    /// Nobody finds the unit by its lease until it is shown again.
    pub(super) fn hide(&mut self, lease: LeaseId) -> Option<(LeaseId, Key)> {
        self.keys.remove_entry(&lease)
    }

    pub(super) fn show(&mut self, hidden: Option<(LeaseId, Key)>) {
        self.keys.extend(hidden);
    }

    /// A plan is to be followed that shows units as they were then, or later. What was done since may not show in it.
    pub(super) fn plan_from(&mut self, began: Tick) {
        self.planned_from = began;
    }

    pub(super) fn planned_from(&self) -> Tick {
        self.planned_from
    }

    /// A lease is over for its users, and its record may still show it.
    pub(super) fn lapses(&mut self, lease: LeaseId) {
        self.lapsing.insert(lease);
    }

    /// Whether the record of such a lease shows it no more, since it was asked last.
    pub(super) fn have_lapsed(&mut self, is_shown: impl Fn(LeaseId) -> bool) -> bool {
        let before = self.lapsing.len();
        self.lapsing.retain(|lease| is_shown(*lease));
        self.lapsing.len() < before
    }

    pub(super) fn get_mut(&mut self, unit: &Key) -> Option<&mut Own> {
        self.touch(unit);
        self.all.get_mut(unit)
    }

    /// All of them, which are all counted anew after this.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &mut Own)> {
        self.counted = None;
        self.all.iter_mut()
    }

    fn touch(&mut self, unit: &Key) {
        let Some(counted) = &mut self.counted else { return };
        if self.touched.contains(unit) {
            return;
        }
        if let Some(share) = self.all.get(unit).and_then(|own| own.share(unit)) {
            *counted = counted.without(share);
        }
        self.touched.insert(unit.clone());
    }

    /// What is held, in short.
    pub(super) fn digest(&mut self) -> Digest {
        let touched = std::mem::take(&mut self.touched);
        let digest = match self.counted {
            Some(counted) => {
                touched.iter().filter_map(|unit| self.all.get(unit)?.share(unit)).fold(counted, Digest::with)
            }
            None => self
                .all
                .iter()
                .filter_map(|(unit, own)| own.share(unit))
                .fold(Digest::default(), Digest::with),
        };
        self.counted = Some(digest);
        digest
    }
}

#[cfg(test)]
mod tests {
    //! Plan: whatever is done to units, in whatever order, the digest is that of those that are held then.
    use super::*;
    use crate::fleet::worker::alone::{has, unit, worker};
    use proptest::prelude::*;

    fn counted_anew(units: &OwnUnits) -> Digest {
        units.iter().filter_map(|(unit, own)| own.share(unit)).fold(Digest::default(), Digest::with)
    }

    fn stages() -> impl Strategy<Value = Stage> {
        prop::sample::select(vec![Stage::Acquiring, Stage::Held, Stage::Draining, Stage::Going])
    }

    proptest! {
        #[test]
        fn the_digest_is_that_of_what_is_held(
            changes in prop::collection::vec((0..6, 0..4_usize, stages(), 0..3_u64, any::<bool>()), 0..60)
        ) {
            let mut worker = worker(1);
            for (what, n, stage, fence, has_tenure) in changes {
                match what {
                    0 | 1 => drop(has(&mut worker, n, stage, None)),
                    2 => worker.own.remove(&unit(n)),
                    3 => worker.own.iter_mut().for_each(|(_, own)| own.stage = stage),
                    4 => prop_assert_eq!(worker.own.digest(), counted_anew(&worker.own)),
                    _ => {
                        if let Some(own) = worker.own.get_mut(&unit(n)) {
                            (own.stage, own.fence) = (stage, Fence(fence));
                            own.tenure = has_tenure.then_some(Nonce(1));
                        }
                    }
                }
            }
            prop_assert_eq!(worker.own.digest(), counted_anew(&worker.own));
        }
    }
}
