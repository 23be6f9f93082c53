//! What this user may do with a record of doctor's own, how long that takes, and whether waiters would hear of it.

use super::findings::{Findings, Grade};
use super::probe::Probe;
use super::races;
use crate::stores::Url;
use crate::verbs::spans::{Spans, millis};
use std::time::Duration;
use tenure::clock::boottime;
use tenure::store::{Changes, Version};
use tenure::{ErrorKind, Leases, Store, StoreError};

/// Reads only: of a record that isn't there.
pub(super) async fn look(leases: &Leases, findings: &mut Findings) {
    let Ok(probe) = Probe::new(leases) else { return };
    match probe.time_reads(|read| read.is_none()).await {
        Ok(reads) => add_spans(&reads, &Spans::default(), findings),
        Err(error) => refused(&error, "read", findings),
    }
}

/// Writes, reads, races and removes; what this user may not do is said, and the rest is done.
pub(super) async fn write(url: &Url, leases: &Leases, findings: &mut Findings) {
    let mut probe = match Probe::new(leases) {
        Ok(probe) => probe,
        Err(error) => return findings.add(Grade::Fail, "write", error.to_string()),
    };
    let mut changes = leases.store().changed(probe.key.as_str()).ok();
    let began = boottime();
    let (version, record) = match probe.begin().await {
        Ok(begun) => begun,
        Err(error) => {
            refused(&error, "write", findings);
            if !is_refusal(&error) {
                // It may have landed.
                end(&probe, false, findings).await;
            }
            return look(leases, findings).await;
        }
    };
    // The record's age can't be higher than the time since it was written.
    let reads = probe.time_reads(|read| {
        let age = read.and_then(tenure::store::Stored::age).unwrap_or_default();
        read.is_some_and(|read| read.record == record) && age <= boottime().saturating_sub(began)
    });
    let is_well = match reads.await {
        Ok(reads) => try_writes(url, &mut probe, version, &reads, changes.as_mut(), findings).await,
        Err(error) => {
            refused(&error, "read", findings);
            false
        }
    };
    end(&probe, is_well, findings).await;
}

/// Whether all went well. The record may be anything afterwards.
async fn try_writes(
    url: &Url,
    probe: &mut Probe<'_>,
    version: Version,
    reads: &Spans,
    changes: Option<&mut Changes>,
    findings: &mut Findings,
) -> bool {
    let mut version = match probe.time_writes(version).await {
        Ok((writes, now)) => {
            add_spans(reads, &writes, findings);
            now
        }
        Err(error) => {
            refused(&error, "write", findings);
            return false;
        }
    };
    if let Some(changes) = changes {
        match probe.await_hint(version, changes).await {
            Ok((now, heard)) => {
                version = now;
                add_hint(heard, findings);
            }
            Err(error) => {
                findings.add(Grade::Fail, "write", error.to_string());
                return false;
            }
        }
    }
    match races::run(url, probe, version).await {
        Ok(text) => findings.add(Grade::Ok, "races", text),
        Err(text) => {
            findings.add(Grade::Fail, "races", text);
            return false;
        }
    }
    true
}

/// Removes the record, as it is by now. Where that is not allowed it does no harm: its lease is for 10 ms at the most.
async fn end(probe: &Probe<'_>, is_well: bool, findings: &mut Findings) {
    let store = probe.leases.store();
    let removed = async {
        let Some(seen) = store.read(&probe.key).await? else { return Ok(!is_well) };
        store.remove(&probe.key, seen.version).await
    };
    match removed.await {
        // What failed is said already.
        Ok(true) if !is_well => {}
        Err(_) if !is_well => {
            let text = format!("{} may be left; `tenure gc` takes it in a day", probe.key);
            findings.add(Grade::Note, "write", text);
        }
        Ok(true) => findings.add(Grade::Ok, "write", "written, read back and removed"),
        Ok(false) => {
            findings.add(Grade::Fail, "write", format!("{} has changed under our hands", probe.key));
        }
        Err(error) if is_refusal(&error) => findings.add(
            Grade::Ok,
            "write",
            format!(
                "written and read back; this user may not remove records, which leases never need: `tenure gc` takes {} in a day",
                probe.key
            ),
        ),
        Err(error) => findings.add(
            Grade::Fail,
            "write",
            format!("{} can't be removed, and `tenure gc` takes it in a day: {error}", probe.key),
        ),
    }
}

/// Whether a call was refused for good, as to a user without the right.
fn is_refusal(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported)
}

/// A call that was not done: one that this user may not do is no fault of the store's.
fn refused(error: &StoreError, what: &'static str, findings: &mut Findings) {
    if is_refusal(error) {
        let text = format!("this user may not {what}, so it can hold no lease here: {error}");
        findings.add(Grade::Warn, what, text);
    } else {
        findings.add(Grade::Fail, what, error.to_string());
    }
}

fn add_spans(reads: &Spans, writes: &Spans, findings: &mut Findings) {
    /// A renewal that takes so long leaves a short ttl no room.
    const SLOW: Duration = Duration::from_millis(250);
    let told = |what: &str, spans: &Spans| {
        format!(
            "a {what} takes {} (worst of {}: {})",
            millis(spans.percentile(50)),
            spans.count(),
            millis(spans.worst())
        )
    };
    let is_slow = reads.percentile(50) > SLOW || writes.percentile(50) > SLOW;
    let grade = if is_slow { Grade::Note } else { Grade::Ok };
    let mut text = told("read", reads);
    if writes.count() > 0 {
        text = format!("{text}, {}", told("write", writes));
    }
    findings.add(grade, "round trip", text);
}

fn add_hint(heard: Option<Duration>, findings: &mut Findings) {
    match heard {
        Some(after) => {
            findings.add(Grade::Ok, "push", format!("a change is told of {} after it was sent", millis(after)));
        }
        None => findings.add(
            Grade::Warn,
            "push",
            "no change was told of: waiters look once in a while, as with push=off; a pooler between, or a missing right?",
        ),
    }
}
