//! `fleet rm --all`: forgets a fleet that is over, with all that its workers have left.
//!
//! The sessions of the dead are ended before any unit goes, as by whoever takes over from them: a renewal of theirs that lands late has
//! nobody believe in a unit that is gone. The board and the sessions go last, and stay where a unit stays.

#[cfg(test)]
mod tests;

use crate::args::fleet as args;
use crate::exit::{self, Failure};
use crate::nonces::nonces;
use crate::output;
use crate::output::problem::RecordProblem;
use crate::stores::pages::Pages;
use crate::stores::side_by_side::count_side_by_side;
use crate::stores::{Url, patiently, remove_patiently};
use crate::text::{count, escaped};
use crate::verbs::jobs::await_fences;
use crate::verbs::{open, open_to_look};
use crate::work::job::presence::living_below;
use serde_json::json;
use std::collections::BTreeMap;
use tenure::fleet::{Fleet, FleetKey, FleetName, Status, UnitSpec};
use tenure::store::{Attachment, Expect, Listed, Outcome, Record, Stored, Version, Write};
use tenure::{Fence, Key, Leases, Store, StoreError};

pub(super) async fn rm_all(url: &Url, name: &FleetName, typed: &args::FleetRmArgs) -> Result<u8, Failure> {
    let leases = if typed.dry_run { open_to_look(url).await? } else { open(url).await? };
    // Not every store can have fleets.
    Fleet::new(leases.store().clone(), name.as_str())?;
    let mut found = FleetRecords::of(&leases, name).await?;
    found.check_over(&leases, name).await?;
    if typed.dry_run {
        found.show(name, typed)?;
        return Ok(exit::OK);
    }
    output::confirm(typed.yes, &found.question(name))?;
    // All that may have taken long. Whoever has come meanwhile is found, or has changed what was seen by now.
    found = FleetRecords::of(&leases, name).await?;
    await_fences(&leases, found.highest()).await?;
    found.check_over(&leases, name).await?;
    let removable = if typed.json { found.names() } else { Vec::new() };
    let (all, damaged, newer) = (found.all, found.damaged, found.newer);
    let Removed { removed, stay } = found.remove(&leases, name).await?;
    if typed.json {
        output::json(&json!({
            "fleet": name.as_str(),
            "dry_run": false,
            "removable": removable,
            "removed": removed,
            "left": all - removed,
            "damaged": damaged,
            "newer": newer,
        }))?;
    } else {
        output::note(format!("fleet {name}: {} removed", count(removed, "record")));
    }
    match left_behind(&stay, damaged, newer) {
        None => Ok(exit::OK),
        Some(text) => {
            let code = if stay.is_any_taken() { exit::HELD } else { exit::DAMAGED };
            Err(Failure::new(code, format!("not removed: {text}")))
        }
    }
}

/// What has to be known of a record to remove it as it was seen. No more is kept of each, as there may be a million.
#[derive(Debug)]
struct FleetRecordVersion {
    key: Key,
    version: Version,
    fence: Fence,
}

/// The records of a fleet, by what becomes of them.
#[derive(Debug, Default)]
struct FleetRecords {
    /// How many there are.
    all: usize,
    /// Units that nobody has who lives, as none of the fleet's workers does.
    units: Vec<FleetRecordVersion>,
    /// Units that somebody has, and by which session.
    held: Vec<(FleetRecordVersion, Option<Attachment>)>,
    /// How many units there are, without those that were removed.
    told: usize,
    /// How many of them are not done.
    open: usize,
    /// How many of them have a status that is not known here, or say nothing that makes sense of a unit.
    unknown: usize,
    /// The board, and parts of plans.
    rest: Vec<FleetRecordVersion>,
    sessions: Vec<(Key, Stored)>,
    /// Sessions that can't be read: their workers may live.
    unread: Vec<(Key, RecordProblem)>,
    /// Units that can't be read, and what only a newer version knows.
    kept: usize,
    /// Of all that can't be read: what is damaged, or a newer version's.
    damaged: usize,
    newer: usize,
}

/// What stays for another reason than that it can't be read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stay {
    /// Units that somebody holds from outside.
    outside: usize,
    /// Records that somebody has changed meanwhile.
    changed: usize,
    /// The board, and what workers have left.
    rest: usize,
}

impl Stay {
    fn is_any_taken(&self) -> bool {
        self.outside + self.changed > 0
    }
}

/// What was done.
#[derive(Debug, PartialEq, Eq)]
struct Removed {
    removed: usize,
    stay: Stay,
}

impl FleetRecords {
    async fn of(leases: &Leases, name: &FleetName) -> Result<FleetRecords, Failure> {
        let (store, prefix) = (leases.store(), name.prefix());
        let (mut pages, mut found) = (Pages::default(), FleetRecords::default());
        while let Some(page) = patiently(async || pages.next(store, &prefix).await).await? {
            for Listed { key, stored } in page {
                found.all += 1;
                match stored {
                    Ok(stored) => found.add(key, stored),
                    Err(error) => found.add_unread(key, &error),
                }
            }
        }
        found.judge_held();
        Ok(found)
    }

    fn add(&mut self, key: Key, stored: Stored) {
        let seen = |key| FleetRecordVersion { key, version: stored.version, fence: stored.record.fence };
        match FleetKey::of(&key).map(|(_, part)| part) {
            Some(FleetKey::Worker(_)) => self.sessions.push((key, stored)),
            Some(FleetKey::Board | FleetKey::Plan(_)) => self.rest.push(seen(key)),
            Some(FleetKey::Unit(_)) => {
                let seen = seen(key);
                let Record { tenure, metadata, .. } = stored.record;
                let status = UnitSpec::parse(metadata).map(|(spec, _)| spec.status);
                self.told += usize::from(!matches!(status, Ok(Status::Deleted)));
                self.open += usize::from(matches!(status, Ok(Status::Open)));
                self.unknown += usize::from(status.is_err());
                match tenure {
                    None => self.units.push(seen),
                    Some(tenure) => self.held.push((seen, tenure.attachment)),
                }
            }
            _ => {
                self.kept += 1;
                self.newer += 1;
            }
        }
    }

    fn add_unread(&mut self, key: Key, error: &StoreError) {
        let count = if error.is_newer() { &mut self.newer } else { &mut self.damaged };
        *count += 1;
        match FleetKey::of(&key).map(|(_, part)| part) {
            Some(FleetKey::Worker(_)) => {
                let problem = RecordProblem::of(&key, error);
                self.unread.push((key, problem));
            }
            Some(FleetKey::Board | FleetKey::Plan(_)) => {}
            _ => self.kept += 1,
        }
    }

    /// What a worker of the fleet has goes with its session, as none of them lives. Of all others it is not known here.
    fn judge_held(&mut self) {
        let sessions: BTreeMap<&Key, Fence> =
            self.sessions.iter().map(|(key, stored)| (key, stored.record.fence)).collect();
        let is_dead = |on: &Attachment| sessions.get(&on.session).is_some_and(|fence| *fence >= on.fence);
        let (dead, held): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(_, attachment)| attachment.as_ref().is_some_and(is_dead));
        self.units.extend(dead.into_iter().map(|(seen, _)| seen));
        self.held = held;
    }

    /// Fails if there is no such fleet, or a worker of it lives, or may live.
    async fn check_over(&self, leases: &Leases, name: &FleetName) -> Result<(), Failure> {
        if self.all == 0 {
            return Err(Failure::new(exit::ABSENT, format!("there is no fleet {name}")));
        }
        if let Some((key, problem)) = self.unread.first() {
            let told = escaped(&problem.to_string());
            let remedy = match problem.is_newer() {
                true => "use the newer tenure that has written it".to_owned(),
                false => format!("once its worker has ended: `tenure rm --damaged {key}`"),
            };
            let text = format!(
                "whether a worker of fleet {name} lives is not known, since {key} can't be read: {told}; {remedy}"
            );
            return Err(Failure::new(exit::DAMAGED, text));
        }
        match living_below(leases, &name.worker_prefix(), |_| true).await? {
            Some(process) => Err(at_work(name, &process.session.key)),
            None => Ok(()),
        }
    }

    /// Whether no unit stays, so that nothing else is needed any more.
    fn is_whole(&self) -> bool {
        self.held.is_empty() && self.kept == 0
    }

    /// The highest fence of what goes.
    fn highest(&self) -> Option<Fence> {
        self.units.iter().chain(&self.rest).map(|seen| seen.fence).max()
    }

    /// The keys of what goes, or would.
    fn names(&self) -> Vec<String> {
        let rest = self.rest.iter().map(|seen| &seen.key).chain(self.sessions.iter().map(|(key, _)| key));
        let rest = rest.filter(|_| self.is_whole());
        self.units.iter().map(|seen| &seen.key).chain(rest).map(|key| key.as_str().to_owned()).collect()
    }

    /// What stays, if nobody changes anything.
    fn stay(&self) -> Stay {
        let rest = if self.is_whole() { 0 } else { self.rest.len() + self.sessions.len() };
        Stay { outside: self.held.len(), changed: 0, rest }
    }

    /// Tells what would be removed.
    fn show(&self, name: &FleetName, typed: &args::FleetRmArgs) -> Result<(), Failure> {
        let names = self.names();
        if typed.json {
            return output::json(&json!({
                "fleet": name.as_str(),
                "dry_run": true,
                "removable": names,
                "removed": 0,
                "left": self.all - names.len(),
                "damaged": self.damaged,
                "newer": self.newer,
            }));
        }
        for key in &names {
            output::print(&format!("{}\n", escaped(key)))?;
        }
        output::note(format!("fleet {name}: {} would be removed", count(names.len(), "record")));
        if let Some(text) = left_behind(&self.stay(), self.damaged, self.newer) {
            output::note(format!("would stay: {text}"));
        }
        Ok(())
    }

    /// What is asked before the fleet goes.
    fn question(&self, name: &FleetName) -> String {
        let parts: Vec<String> =
            [(self.open, "of them not done"), (self.unknown, "that this version can't read")]
                .into_iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, what)| format!("{n} {what}"))
                .collect();
        let parts = if parts.is_empty() { String::new() } else { format!(", {}", parts.join(" and ")) };
        let units = count(self.told, "unit");
        format!(
            "Remove fleet {name} with {units}{parts}? Given again, all are new, and what they carry is gone."
        )
    }

    /// Ends the sessions of the dead with a higher fence, as a contender does it: none of them can renew after that.
    async fn end_sessions(&mut self, leases: &Leases, name: &FleetName) -> Result<(), Failure> {
        let (store, mut nonces) = (leases.store(), nonces(leases));
        for (key, seen) in self.sessions.iter_mut().filter(|(_, seen)| seen.record.tenure.is_some()) {
            let (stamp, nonce) = (leases.clock().now().wall, nonces.draw());
            let fence = seen.record.fence.next(Fence::floor(stamp))?;
            let record = Record { fence, nonce, stamp, tenure: None, metadata: seen.record.metadata.clone() };
            let write = Write { key: key.clone(), expect: Expect::Unchanged(seen.version), record };
            match patiently(async || store.write(write.clone()).await).await? {
                Outcome::Won { version, .. } => seen.version = version,
                Outcome::Lost(Some(standing)) if standing.record.tenure.is_some() => {
                    return Err(at_work(name, key));
                }
                // By somebody else, or by an earlier try whose answer was lost.
                Outcome::Lost(Some(standing)) => seen.version = standing.version,
                Outcome::Lost(None) => {}
            }
        }
        Ok(())
    }

    /// Removes what goes, each as it was seen.
    async fn remove(mut self, leases: &Leases, name: &FleetName) -> Result<Removed, Failure> {
        self.end_sessions(leases, name).await?;
        let (mut stay, is_whole) = (self.stay(), self.is_whole());
        let sessions = self.sessions.into_iter().map(|(key, stored)| (key, stored.version));
        let rest: Vec<(Key, Version)> =
            self.rest.into_iter().map(|seen| (seen.key, seen.version)).chain(sessions).collect();
        let units = self.units.into_iter().map(|seen| (seen.key, seen.version));
        let wanted = units.len();
        let mut removed = remove_each(leases, units).await?;
        stay.changed = wanted - removed;
        // A unit that stays needs them.
        if is_whole && stay.changed == 0 {
            let wanted = rest.len();
            let gone = remove_each(leases, rest).await?;
            stay.changed = wanted - gone;
            removed += gone;
        } else {
            stay.rest = rest.len();
        }
        Ok(Removed { removed, stay })
    }
}

/// How many of them were removed: not those that somebody has changed meanwhile.
async fn remove_each(
    leases: &Leases,
    all: impl IntoIterator<Item = (Key, Version)>,
) -> Result<usize, StoreError> {
    count_side_by_side(all, |(key, version)| {
        let leases = leases.clone();
        async move { remove_patiently(leases.store(), &key, version).await }
    })
    .await
}

fn at_work(name: &FleetName, session: &Key) -> Failure {
    let worker = session.as_str().strip_prefix(&name.worker_prefix()).unwrap_or(session.as_str());
    let worker = escaped(worker);
    let text = format!(
        "fleet {name} has a worker that lives, {worker}: stop it (`tenure fleet drain`); if it has died, wait for its ttl"
    );
    Failure::new(exit::HELD, text)
}

/// Which records stay, if any do, and what helps.
fn left_behind(stay: &Stay, damaged: usize, newer: usize) -> Option<String> {
    let parts = [
        (stay.outside, "unit", "held from outside the fleet (`tenure fleet units`, `tenure release KEY`)"),
        (stay.changed, "record", "changed by somebody meanwhile"),
        (damaged, "damaged record", "(see `tenure fleet units`, `tenure rm --damaged KEY`)"),
        (newer, "record", "that this version can't read (use the newer tenure that has written it)"),
        (stay.rest, "record", "of the board and of workers, which stay with units"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, what, why)| format!("{} {why}", count(n, what)))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
