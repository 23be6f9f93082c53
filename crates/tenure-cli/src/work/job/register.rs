//! Registering units: each is a record of its own, made once, whoever gives it and how often.

use super::anew;
use super::board::{Board, Local};
use super::unit::{Status, Unit, digest};
use crate::config;
use crate::exit::Failure;
use crate::keys::JobName;
use crate::output;
use crate::stores::patiently;
use crate::text::count;
use crate::work::units::Named;
use std::collections::{BTreeMap, BTreeSet};
use tenure::{Expect, Fence, Key, Leases, Listed, Metadata, Outcome, Record, StoreExt, Stored, Wall, Write};
use tenure_core::Nonces;

/// The job as it was found, and what was added.
pub(crate) struct Registered {
    pub(crate) board: Board,
    pub(crate) created: usize,
    /// When the last of the units that this process was given was done, if all of them were.
    all_done: Option<Wall>,
    /// When the last of all units was done.
    last_done: Option<Wall>,
}

impl Registered {
    /// When the last of the given units was done, if all of them were, as far as they are known. Where more of them are to come
    /// that may be any of the job.
    pub(crate) fn done_before(&self, are_more_to_come: bool) -> Option<Wall> {
        self.all_done.and(if are_more_to_come { self.last_done } else { self.all_done })
    }
}

/// Makes the records that are missing. Without `keys`, all that are registered count as given.
pub(crate) async fn register(
    leases: &Leases,
    plan: &config::Work,
    name: &JobName,
    units: &[Named],
) -> Result<Registered, Failure> {
    let store = leases.store();
    let prefix = name.prefix();
    let given: BTreeSet<Key> = units.iter().map(|unit| unit.key.clone()).collect();
    let is_given = |key: &Key| given.is_empty() || given.contains(key);
    if plan.fresh {
        anew::check_alone(leases, name).await?;
    }
    let mut listing = patiently(async || store.list_all(&prefix).await).await?;
    let mut nonces = Nonces::new(instance(leases));
    if plan.fresh {
        let settled = listing.iter().filter(|listed| is_given(&listed.key));
        let n = anew::reset(leases, &mut nonces, settled).await?;
        output::tell(format!("{} to be run anew", count(n, "unit")));
        listing = patiently(async || store.list_all(&prefix).await).await?;
    }
    if plan.retry_failed {
        let resets: Vec<Write> =
            listing.iter().filter_map(|listed| reset(leases, &mut nonces, listed)).collect();
        if !resets.is_empty() {
            let n = won(&patiently(async || store.write_all(resets.clone()).await).await?);
            output::tell(format!("{} to be tried again", count(n, "failed unit")));
            listing = patiently(async || store.list_all(&prefix).await).await?;
        }
    }
    let known: BTreeSet<&Key> = listing.iter().map(|listed| &listed.key).collect();
    let missing: Vec<&Named> = units.iter().filter(|unit| !known.contains(&unit.key)).collect();
    let writes: Vec<Write> = missing.iter().map(|unit| made(leases, &mut nonces, unit)).collect();
    // Repeating a batch is harmless: what it has made already is not absent any more.
    let outcomes = patiently(async || store.write_all(writes.clone()).await).await?;
    let missing: Vec<Key> = missing.into_iter().map(|unit| unit.key.clone()).collect();
    let mut board = Board::new(&listing, &missing);
    for (key, outcome) in missing.iter().zip(&outcomes) {
        if let Outcome::Lost(Some(stored)) = outcome
            && Unit::of(&stored.record.metadata).is_none()
        {
            board.set(key, Local::Damaged);
        }
    }
    for listed in listing.iter().filter(|listed| listed.stored.is_err()) {
        if let Err(error) = &listed.stored {
            output::note(format!("{}: {error}; it is left as it is, and not run", listed.key));
        }
    }
    let new = missing.iter().zip(&writes).zip(&outcomes).filter_map(registered);
    try_in_order(&mut board, units, &listing, new);
    board.forgive(is_given);
    let all_done =
        missing.is_empty().then(|| last_done(listing.iter().filter(|listed| is_given(&listed.key))));
    let last_done = listing.iter().filter_map(when_done).max();
    Ok(Registered { board, created: won(&outcomes), all_done: all_done.flatten(), last_done })
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

/// Who comes to a job on which nobody is at work takes its units in the order in which they were given. Of several who do so, the
/// later ones go through pages instead, as soon as they meet.
fn try_in_order(
    board: &mut Board,
    order: &[Named],
    listing: &[Listed],
    made: impl Iterator<Item = (Key, Stored)>,
) {
    /// Each takes up room until it is run.
    const MOST: usize = 16_384;
    let listed = || listing.iter().filter_map(|listed| Some((&listed.key, listed.stored.as_ref().ok()?)));
    if listed().any(|(_, stored)| stored.record.tenure.is_some()) {
        return;
    }
    let is_new = |stored: &Stored| {
        Unit::of(&stored.record.metadata)
            .is_some_and(|unit| unit.status == Status::Pending && unit.attempts == 0)
    };
    let mut made: BTreeMap<Key, Stored> = made.filter(|(_, stored)| is_new(stored)).collect();
    let mut known: BTreeMap<&Key, &Stored> = listed().filter(|(_, stored)| is_new(stored)).collect();
    let free = order.iter().filter_map(|unit| {
        let known = || known.remove(&unit.key).map(|stored| (unit.key.clone(), stored.clone()));
        made.remove_entry(&unit.key).or_else(known)
    });
    board.try_first(free.take(MOST));
}

/// When the last of these was done, if all are.
fn last_done<'a>(mut units: impl Iterator<Item = &'a Listed>) -> Option<Wall> {
    units.try_fold(None, |last, listed| Some(last.max(Some(when_done(listed)?))))?
}

fn when_done(listed: &Listed) -> Option<Wall> {
    let metadata = &listed.stored.as_ref().ok()?.record.metadata;
    let is_done = Unit::of(metadata)?.status == Status::Done;
    is_done.then(|| Wall(Unit::finished(metadata)))
}

fn won(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).count()
}

/// A number for this process's own writes, from the random part of its name.
pub(crate) fn instance(leases: &Leases) -> u64 {
    digest("tenure-cli", leases.holder())
}

pub(crate) fn vacant(leases: &Leases, nonces: &mut Nonces, fence: Fence, metadata: Metadata) -> Record {
    Record { fence, nonce: nonces.draw(), stamp: leases.clock().now().wall, tenure: None, metadata }
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
