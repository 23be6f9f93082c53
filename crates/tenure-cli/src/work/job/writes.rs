//! Writes of units' records that nobody holds, and what comes of them.

use super::unit::{Status, Unit};
use crate::nonces::digest;
use crate::work::units::Named;
use tenure::store::{Expect, Listed, Outcome, Record, Stored, Write};
use tenure::{Fence, Key, Leases, Metadata};
use tenure_core::Nonces;

/// A number for this process's own writes, from the random part of its name.
pub(crate) fn instance(leases: &Leases) -> u64 {
    digest("tenure-cli", leases.holder())
}

pub(crate) fn vacant(leases: &Leases, nonces: &mut Nonces, fence: Fence, metadata: Metadata) -> Record {
    Record { fence, nonce: nonces.draw(), stamp: leases.clock().now().wall, tenure: None, metadata }
}

/// The write that makes a unit's record, if there is none.
pub(super) fn made(leases: &Leases, nonces: &mut Nonces, unit: &Named) -> Write {
    let record = vacant(leases, nonces, Fence::default(), Unit::called(unit.name.as_deref()));
    Write { key: unit.key.clone(), expect: Expect::Absent, record }
}

/// A record that was made here, as it stands.
pub(super) fn registered(((key, write), outcome): ((&Key, &Write), &Outcome)) -> Option<(Key, Stored)> {
    let Outcome::Won { version, fence } = outcome else { return None };
    let mut stored = Stored::new(Record { fence: *fence, ..write.record.clone() });
    stored.version = *version;
    Some((key.clone(), stored))
}

pub(crate) fn reset(leases: &Leases, nonces: &mut Nonces, listed: &Listed) -> Option<Write> {
    let stored = listed.stored.as_ref().ok()?;
    let is_failed = Unit::of(&stored.record.metadata)?.status == Status::Failed;
    if !is_failed || stored.record.tenure.is_some() {
        return None;
    }
    let metadata = Unit::reset(stored.record.metadata.clone());
    let record = vacant(leases, nonces, stored.record.fence, metadata);
    Some(Write { key: listed.key.clone(), expect: Expect::Unchanged(stored.version), record })
}

pub(super) fn won(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).count()
}
