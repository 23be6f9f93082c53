//! What people do to single units by hand: their records are deleted or put back to an older state, and some are taken by force.

use super::{FleetDue, What, World};
use crate::kernel::trace::Story;
use std::collections::BTreeMap;
use tenure_core::fleet::{Status, UnitSpec};
use tenure_core::op::{Expect, Write};
use tenure_core::{Ask, Fence, Key, LeaseId, Record, Value};

impl World {
    fn any_unit(&mut self) -> Option<Key> {
        let at = self.rng.index(self.scene.units.len());
        self.scene.units.keys().nth(at).cloned()
    }

    /// From now on the store refuses one unit, or its writes only, or its record is damaged. Nobody can have it but who has it.
    pub(super) fn forbid_unit(&mut self) {
        const MOST: usize = 4;
        let refused = self.scene.units.keys().filter(|key| self.store.is_sealed(key)).count();
        // The first of those that are alike are the first that a plan moves.
        let some: Vec<Key> = (0..3).filter_map(|_| self.any_open()).collect();
        let Some(key) = some.into_iter().min().filter(|_| refused < MOST) else { return };
        self.tell(|_| Story::Store(format!("{key} is forbidden")));
        let is_first = self.scene.units.keys().all(|key| !self.store.is_forbidden(key));
        match self.rng.below(5) {
            0 if is_first => self.store.forbid(key),
            1 if is_first => self.store.spoil(key),
            _ => self.store.seal(key),
        }
    }

    /// Once in a long while somebody puts that right, and tells nobody.
    pub(super) fn permit_units(&mut self) {
        if !self.has_sealed() || self.rng.chance(0.97) {
            return;
        }
        self.store.permit();
        self.tell(|_| Story::Store("all is permitted and can be read".to_owned()));
        // Whoever was refused tries again once in 32 ttls; what its record shows where it is planned, and what is not worked on there, that
        // worker finds at its own audit.
        let audit = self.bound(13_000 * self.nodes.len() as u64);
        self.disturb(audit.max(self.bound(33_000)) + self.per_mille(3000));
    }

    /// The store has lost writes: units are again as they were before those, and some are gone.
    pub(super) fn unlearn(&mut self, lost: BTreeMap<Key, Option<Record>>) {
        for (key, record) in lost {
            if !self.scene.units.contains_key(&key) {
                continue;
            }
            if let Some(record) = record {
                self.behind(&key, record.fence);
            }
            if self.store.get(&key).is_some() {
                self.note_behind(&key);
                self.learn(&key);
            } else {
                self.closed(&key, Status::Deleted);
            }
        }
    }

    /// The tenure that a unit's record shows is about to go behind its holder's back.
    fn note_behind(&mut self, key: &Key) {
        if let Some(fence) = self.store.get(key).map(|record| record.fence) {
            self.behind(key, fence);
        }
    }

    /// The tenure under this fence is not shown any more, and its holder may go on.
    fn behind(&mut self, key: &Key, fence: Fence) {
        let t = self.t;
        if let Some(truth) = self.scene.units.get_mut(key) {
            if truth.behind.len() >= 16 {
                truth.behind.remove(0);
            }
            truth.behind.push((fence, t));
        }
    }

    /// Somebody deletes a unit's record.
    pub(super) fn delete_unit(&mut self) {
        let Some(key) = self.any_unit().filter(|key| self.store.get(key).is_some()) else { return };
        self.note_behind(&key);
        self.tell(|_| Story::Store(format!("somebody deletes {key}")));
        self.store.remove(self.t, &key);
        self.closed(&key, Status::Deleted);
        self.hint(&key);
    }

    /// Somebody puts a unit's record back to what it was some time ago.
    pub(super) fn restore_unit(&mut self) {
        let Some(key) = self.any_unit().filter(|key| self.store.get(key).is_some()) else { return };
        let back = self.rng.index(8);
        self.note_behind(&key);
        if !self.store.put_back(self.t, &key, back) {
            return;
        }
        self.tell(|_| Story::Store(format!("somebody restores an older copy of {key}")));
        self.note_behind(&key);
        self.learn(&key);
        self.hint(&key);
    }

    /// What was written since is as if it had never been.
    fn learn(&mut self, key: &Key) {
        let Some(record) = self.store.get(key) else { return };
        let Ok((spec, fields)) = UnitSpec::parse(record.metadata.clone()) else { return };
        let (fence, t) = (record.fence, self.t);
        let Some(truth) = self.scene.units.get_mut(key) else { return };
        truth.status = spec.status;
        truth.needs_label = !spec.needs.is_empty();
        if truth.assigned.0 != fence {
            truth.assigned = (fence, (usize::MAX, 0, LeaseId(0)));
        }
        truth.points.extend(fields.get(super::bodies::POINT).and_then(Value::as_i64));
        truth.idle = None;
        self.checks.tenures.put_back(key, fence);
        if spec.status == Status::Open {
            self.idles_for(key, t.max(1), false);
        } else {
            self.closed(key, spec.status);
        }
    }

    /// Somebody takes a unit from its holder: that one is told, and after a ttl the unit is given up.
    pub(super) fn take_by_force(&mut self) {
        let Some(key) = self.any_open() else { return };
        let Some(fence) = self.write_letter(&key, Ask::Revoke, false) else { return };
        let Some(index) = self.scene.units.get(&key).map(|truth| truth.index) else { return };
        self.at(self.t + self.per_mille(1000), What::Own(FleetDue::Seize(index as u32, fence.0)));
    }

    pub(super) fn vacate_by_force(&mut self, unit: usize, fence: Fence) {
        let Ok(key) = self.scene.fleet.unit(&format!("{unit:04}")) else { return };
        let Some(stored) = self.store.stored_at(&key, self.t) else { return };
        if stored.record.fence != fence || stored.record.tenure.is_none() {
            return;
        }
        let record =
            Record { nonce: self.admin.draw(), stamp: self.true_wall(), tenure: None, ..stored.record };
        if self.write(Write { key: key.clone(), expect: Expect::Unchanged(stored.version), record }) {
            self.disturb_by_plan();
            self.tell_workers();
        }
    }
}
