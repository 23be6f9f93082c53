//! Units with a status that this version does not know: what `fleet rm --unknown-status` does to them, where no newer version has written that.

use crate::exit::Failure;
use crate::output;
use crate::output::problem::RecordProblem;
use crate::stores::patiently;
use crate::text::escaped;
use tenure::fleet::{Fleet, Status, UnitSpec};
use tenure::store::{Expect, Outcome, Record, Stored, Write};
use tenure::{ErrorKind, HolderId, Key, Leases, Metadata, Store, StoreError};
use tenure_core::Nonces;

/// What came of the removal of such a unit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnknownRemoval {
    /// It is removed as any unit is: the record stays with its fence, until `gc` takes it.
    Removed,
    /// Somebody has it, and may know what its status says.
    Held(HolderId),
    /// It has changed meanwhile.
    Changed,
    /// Its record as a whole is a newer version's.
    Unread,
}

/// Tells which of these units have such a status.
pub(super) async fn tell(fleet: &Fleet, units: &[String]) -> Result<(), Failure> {
    for unit in units {
        let key = fleet.key(unit)?;
        // What can't be read at all is told as it is refused.
        if let Ok(Some(stored)) = patiently(async || fleet.store().read(&key).await).await
            && let Some(error) = unknown(&stored)
        {
            output::note(format!("{key}: {}", escaped(&RecordProblem::from(&error).to_string())));
        }
    }
    Ok(())
}

/// Why its status is not known here, if that is so.
fn unknown(stored: &Stored) -> Option<StoreError> {
    UnitSpec::parse(stored.record.metadata.clone()).err().filter(StoreError::is_newer)
}

/// Removes a unit that has such a status, as it was seen, if nobody has it. Where that fails, `may_be_done` tells whether it may be removed all the same.
pub(super) async fn remove(
    leases: &Leases,
    nonces: &mut Nonces,
    key: &Key,
    may_be_done: &mut bool,
) -> Result<UnknownRemoval, StoreError> {
    let seen = match patiently(async || leases.store().read(key).await).await {
        Ok(Some(seen)) => seen,
        Ok(None) => return Ok(UnknownRemoval::Changed),
        Err(error) if error.is_newer() => return Ok(UnknownRemoval::Unread),
        Err(error) => return Err(error),
    };
    if unknown(&seen).is_none() {
        return Ok(UnknownRemoval::Changed);
    }
    if let Some(tenure) = seen.record.tenure {
        return Ok(UnknownRemoval::Held(tenure.holder));
    }
    let metadata = UnitSpec::default().status(Status::Deleted).compose(Metadata::new())?;
    let (stamp, nonce) = (leases.clock().now().wall, nonces.draw());
    let record = Record { fence: seen.record.fence, nonce, stamp, tenure: None, metadata };
    let write = Write { key: key.clone(), expect: Expect::Unchanged(seen.version), record };
    let written = patiently(async || {
        let written = leases.store().write(write.clone()).await;
        *may_be_done |= written.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unknown);
        written
    });
    Ok(match written.await? {
        Outcome::Won { .. } => UnknownRemoval::Removed,
        // By an earlier try, whose answer was lost.
        Outcome::Lost(Some(standing)) if standing.record.nonce == nonce => UnknownRemoval::Removed,
        Outcome::Lost(_) => UnknownRemoval::Changed,
    })
}
