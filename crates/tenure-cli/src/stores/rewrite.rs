//! Writes of records that others may write at the same time.

use crate::exit::Failure;
use crate::nonces::nonces;
use tenure::range::{Entry, SectionLedger};
use tenure::store::{Expect, Outcome, Record, Stored, Write};
use tenure::{Key, Leases, Metadata, Store, StoreError};

/// Takes the leases out that are to go, on condition that nothing else was written.
pub(crate) async fn take_out(
    leases: &Leases,
    key: &Key,
    seen: Stored,
    is_to_go: impl Fn(&Entry) -> bool,
) -> Result<(), Failure> {
    rewrite(leases, key, seen, |standing| {
        let mut left = SectionLedger::seen_in(standing)?;
        let before = left.entries.len();
        left.entries.retain(|entry| !is_to_go(entry));
        Ok((left.entries.len() < before).then(|| left.into_metadata()))
    })
    .await
}

/// Writes what `change` makes of a record's metadata, on condition that nothing else was written; and again on what was. None: it is
/// to stay as it is.
pub(crate) async fn rewrite(
    leases: &Leases,
    key: &Key,
    seen: Stored,
    change: impl Fn(&Stored) -> Result<Option<Metadata>, StoreError>,
) -> Result<(), Failure> {
    let (mut nonces, mut standing) = (nonces(leases), seen);
    loop {
        let Some(metadata) = change(&standing)? else { return Ok(()) };
        let stamp = leases.clock().now().wall;
        let record = Record { nonce: nonces.draw(), stamp, metadata, ..standing.record };
        let write = Write { key: key.clone(), expect: Expect::Unchanged(standing.version), record };
        match leases.store().write(write).await? {
            Outcome::Won { .. } | Outcome::Lost(None) => return Ok(()),
            Outcome::Lost(Some(now)) => standing = now,
        }
    }
}
