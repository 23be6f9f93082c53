//! S3 for handovers: only the worker that holds a unit passes it on, and only with a higher fence.
//!
//! Source: the promise S3.

use tenure_core::{HolderId, Key, Record};

/// A write of `by` took effect.
pub(crate) fn passed(
    key: &Key,
    before: Option<&Record>,
    after: &Record,
    by: &HolderId,
) -> Result<(), String> {
    let Some(tenure) =
        after.tenure.as_ref().filter(|tenure| tenure.id == after.nonce && tenure.holder != *by)
    else {
        return Ok(());
    };
    let Some(standing) = before.and_then(|record| record.tenure.as_ref()) else {
        return Err(format!("{by} passes {key} to {}, and nobody held it", tenure.holder));
    };
    if standing.holder != *by {
        return Err(format!("{by} passes {key} to {}, and {} held it", tenure.holder, standing.holder));
    }
    if before.is_some_and(|record| record.fence >= after.fence) {
        return Err(format!("{by} passes {key} to {} without a higher fence", tenure.holder));
    }
    Ok(())
}
