//! `rm --damaged`: the way out for a key whose record can't be read.

use crate::args;
use crate::config;
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::nonces::nonces;
use crate::output;
use crate::output::problem::RecordProblem;
use crate::output::section::SectionLeases;
use crate::stores::Url;
use crate::text::escaped;
use crate::work::job::unit::Unit;
use serde_json::json;
use tenure::permits;
use tenure::range::{PREFIX, SectionLedger, is_cover};
use tenure::store::{Image, Record, Stored};
use tenure::{Fence, Key, Leases, Metadata, Store, Wall};
use tenure_core::fleet::{FleetKey, Status, UnitSpec};

pub(crate) async fn rm(url: &Url, typed: &args::RmArgs) -> Result<u8, Failure> {
    let key = config::key(&typed.key)?;
    let leases = super::open(url).await?;
    let Some(seen) = leases.store().image(&key).await? else {
        return Err(Failure::new(exit::ABSENT, format!("there is no record of {key}")));
    };
    let now = leases.clock().now().wall;
    let problem = damage(&key, &seen, now)?;
    if !typed.yes {
        output::note(format!("{key}: {problem}"));
        output::note(
            "if its last holder lives, it may believe for as long as its ttl after the damage was done",
        );
    }
    output::confirm(typed.yes, &format!("Remove the damaged record of {key}?"))?;
    let instead = keeps_fence(&leases, &key, &seen, now)?;
    let kept = instead.as_ref().map(|record| record.fence.0);
    let document = json!({
        "key": key.as_str(), "removed": true, "problem": problem, "fence": seen.fence.map(|fence| fence.0), "kept_fence": kept,
        "copy": seen.copy,
    });
    // A copy that could not be written would be no copy: it comes first. If the record is left as it is, the status tells.
    let copied =
        if typed.json { output::json(&document) } else { output::print(&format!("{}\n", seen.copy)) };
    copied.map_err(|failure| match failure.code {
        exit::OK => {
            Failure::new(exit::INTERNAL, format!("nobody reads the copy, so {key} was left as it is"))
        }
        _ => failure,
    })?;
    if !leases.store().mend(&key, &seen, instead).await? {
        return Err(Failure::new(
            exit::HELD,
            format!("{key} has changed meanwhile, and was left as it is; look again"),
        ));
    }
    let fence = match (kept, seen.fence) {
        (Some(kept), _) => format!("an empty record keeps its fence, {kept}, which is ahead of the clock"),
        (None, Some(fence)) => format!("its fence was {fence}, the next one is higher"),
        (None, None) => "its fence is not known: the next one begins with the clock".to_owned(),
    };
    output::note(format!("{key} is removed; {fence}"));
    Ok(exit::OK)
}

/// What is wrong with it; fails if nothing is.
fn damage(key: &Key, seen: &Image, now: Wall) -> Result<String, Failure> {
    let problem = match &seen.record {
        Err(error) if seen.is_newer => Some(RecordProblem::newer(RecordProblem::of(key, error).to_string())),
        Err(error) => Some(RecordProblem::of(key, error)),
        // What is held is not damaged, whatever it says: its holder understands it.
        Ok(record) => {
            misread(key, record, now).filter(|problem| problem.is_newer() || record.tenure.is_none())
        }
    };
    let told = problem.as_ref().map(|problem| escaped(&problem.to_string()));
    match (told, problem) {
        (Some(told), Some(problem)) if problem.is_newer() => Err(Failure::new(
            exit::DAMAGED,
            format!("{key}: {told}; it is not damaged, and was left as it is"),
        )),
        (Some(told), _) => Ok(told),
        (None, _) => Err(Failure::usage(format!(
            "the record of {key} is not damaged: see `tenure show`; `tenure release` takes a lease from its holder"
        ))),
    }
}

/// Why a record that can be read is none of what its key says, if it isn't, as far as this version knows.
pub(super) fn misread(key: &Key, record: &Record, now: Wall) -> Option<RecordProblem> {
    if let Some((_, FleetKey::Unit(_))) = FleetKey::of(key) {
        return UnitSpec::parse(record.metadata.clone()).err().map(|error| (&error).into());
    }
    if JobName::of_key(key).is_some() {
        return Unit::problem(key, &record.metadata);
    }
    if key.as_str().starts_with(PREFIX) {
        let stored = Stored::new(record.clone());
        let error = match SectionLeases::of(&stored, now) {
            Some(leased) => leased.err()?,
            None if is_cover(record) => SectionLedger::covered(record).err()?,
            None => return Some(RecordProblem::damage("the record is not a section's")),
        };
        return Some((&error).into());
    }
    if key.as_str().starts_with(permits::PREFIX) {
        // One that says nothing is a semaphore's that nobody uses.
        let error = permits::SemaphoreLedger::of(record).err().filter(|_| !record.metadata.is_empty());
        return error.map(|error| (&error).into());
    }
    None
}

/// What is left in its place if the clock, with which the next fence would begin, is not beyond the last one.
fn keeps_fence(leases: &Leases, key: &Key, seen: &Image, now: Wall) -> Result<Option<Record>, Failure> {
    let Some(fence) = seen.fence.filter(|fence| *fence >= Fence::floor(now)) else { return Ok(None) };
    let metadata = match FleetKey::of(key) {
        Some((_, FleetKey::Unit(_))) => {
            UnitSpec::default().status(Status::Deleted).compose(Metadata::new())?
        }
        _ if JobName::of_key(key).is_some() => Unit::fresh(),
        _ if key.as_str().starts_with(PREFIX) => SectionLedger::default().into_metadata(),
        _ => Metadata::new(),
    };
    // One more than it: a process that was attached to a session with that fence must not find it again.
    let fence = fence.next(Fence::floor(now)).unwrap_or(fence);
    Ok(Some(Record { fence, nonce: nonces(leases).draw(), stamp: now, tenure: None, metadata }))
}
