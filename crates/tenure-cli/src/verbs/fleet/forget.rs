//! `fleet rm --all`: forgets a fleet that is over, with all that its workers have left.
//!
//! The sessions of the dead are ended before any unit goes, as by whoever takes over from them: a renewal of theirs that lands late has
//! nobody believe in a unit that is gone. The board and the sessions go last, and stay where a unit stays, or a worker has come.

mod records;
#[cfg(test)]
mod tests;

use crate::args::fleet as args;
use crate::exit::{self, Failure};
use crate::nonces::nonces;
use crate::output;
use crate::stores::pages::Pages;
use crate::stores::side_by_side::count_side_by_side;
use crate::stores::{RecordRemoval, Url, patiently, remove_patiently};
use crate::text::{count, escaped};
use crate::verbs::jobs::await_fences;
use crate::verbs::{open, open_to_look};
use crate::work::job::presence::{ProcessWatch, end_session};
use records::{FleetRecords, Stay, at_work, worker_of};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure::fleet::{Fleet, FleetName};
use tenure::store::Version;
use tenure::{ErrorKind, Key, Leases, StoreError};

pub(super) async fn rm_all(url: &Url, name: &FleetName, typed: &args::FleetRmArgs) -> Result<u8, Failure> {
    let leases = if typed.dry_run { open_to_look(url).await? } else { open(url).await? };
    // Not every store can have fleets.
    Fleet::new(leases.store().clone(), name.as_str())?;
    let is_asked_later = !typed.yes && !typed.dry_run;
    let mut watch = FleetWatch { is_asked_later, ..FleetWatch::default() };
    if typed.dry_run {
        show(&FleetRecords::of_the_dead(&leases, name, &mut watch).await?, name, typed)?;
        return Ok(exit::OK);
    }
    if is_asked_later {
        let found = FleetRecords::of_the_dead(&leases, name, &mut watch).await?;
        output::confirm(false, &found.question(name))?;
    }
    // All that may have taken long. Whoever has come meanwhile is found, or has changed what was seen by now.
    let found = FleetRecords::of_the_dead(&leases, name, &mut watch).await?;
    await_fences(&leases, found.highest()).await?;
    found.check_over(&leases, name, &mut watch).await?;
    let removable = if typed.json { found.names() } else { Vec::new() };
    let (all, unknown, damaged, newer) = (found.all, found.unknown, found.damaged, found.newer);
    if !typed.json {
        tell_unknown(name, unknown);
    }
    let done = found.remove(&leases, name).await?;
    if typed.json {
        output::json(&json!({
            "fleet": name.as_str(),
            "dry_run": false,
            "removable": removable,
            "removed": done.removed,
            "left": all - done.removed - done.gone,
            "unknown": unknown,
            "damaged": damaged,
            "newer": newer,
        }))?;
    } else {
        output::note(format!("fleet {name}: {} removed", count(done.removed, "record")));
    }
    outcome(name, &done, damaged, newer).map_or(Ok(exit::OK), Err)
}

/// What was seen of a fleet's workers, so that none is watched twice.
#[derive(Debug, Default)]
struct FleetWatch {
    workers: ProcessWatch,
    /// Units that were held by a worker without a session for as long as it could believe in them.
    lost: BTreeSet<(Key, Version)>,
    /// Somebody is asked after that.
    is_asked_later: bool,
}

/// What was done.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Removed {
    removed: usize,
    /// Records that somebody else has removed.
    gone: usize,
    stay: Stay,
    /// The session of a worker that has come meanwhile.
    newcomer: Option<Key>,
}

impl Removed {
    fn add(&mut self, became: RecordRemoval) {
        *match became {
            RecordRemoval::Removed => &mut self.removed,
            RecordRemoval::Gone => &mut self.gone,
            RecordRemoval::Changed => &mut self.stay.changed,
        } += 1;
    }

    fn add_refused(&mut self, error: &StoreError) {
        self.stay.refused += 1;
        self.stay.refusal = error.text().to_owned();
    }
}

fn locked(done: &Mutex<Removed>) -> MutexGuard<'_, Removed> {
    done.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FleetRecords {
    /// Ends the sessions of the dead: none of them can renew after that.
    async fn end_sessions(&mut self, leases: &Leases, name: &FleetName) -> Result<(), Failure> {
        let mut nonces = nonces(leases);
        for (key, seen) in self.sessions.iter_mut().filter(|(_, seen)| seen.record.tenure.is_some()) {
            if !end_session(leases, &mut nonces, key, seen).await? {
                return Err(at_work(name, key));
            }
        }
        Ok(())
    }

    /// Removes what goes, each as it was seen. What is gone before something fails is told with that.
    async fn remove(self, leases: &Leases, name: &FleetName) -> Result<Removed, Failure> {
        let done = Arc::new(Mutex::new(Removed { stay: self.stay(), ..Removed::default() }));
        let ended = self.remove_counted(leases, name, &done).await;
        let done = locked(&done).clone();
        match ended {
            Ok(()) => Ok(done),
            Err(failure) if done.removed == 0 => Err(failure),
            Err(failure) => {
                let removed = count(done.removed, "record");
                let text = format!("{}; before that: {removed} removed", failure.text);
                Err(Failure { text, ..failure })
            }
        }
    }

    async fn remove_counted(
        mut self,
        leases: &Leases,
        name: &FleetName,
        done: &Arc<Mutex<Removed>>,
    ) -> Result<(), Failure> {
        self.end_sessions(leases, name).await?;
        let is_whole = self.is_whole();
        let sessions = self.sessions.into_iter().map(|(key, stored)| (key, stored.version));
        let rest: Vec<(Key, Version)> =
            self.rest.into_iter().map(|seen| (seen.key, seen.version)).chain(sessions).collect();
        let units = self.units.into_iter().map(|seen| (seen.key, seen.version));
        remove_each(leases, units, done, false).await?;
        let newcomer = newcomer_of(leases, name).await?;
        let (removed, changed) = {
            let done = locked(done);
            (done.removed, done.stay.changed)
        };
        // A unit that stays needs them, and so does a worker that has come.
        if !is_whole || changed > 0 || newcomer.is_some() {
            let mut done = locked(done);
            done.stay.rest = rest.len();
            done.newcomer = newcomer;
            return Ok(());
        }
        // Whoever has no right to remove anything has failed at a unit by now.
        remove_each(leases, rest, done, removed > 0).await?;
        // Some tell of their units before their sessions are there.
        let newcomer = newcomer_of(leases, name).await?;
        locked(done).newcomer = newcomer;
        Ok(())
    }
}

/// Removes them, but for those that somebody has changed meanwhile, and counts what becomes of them. What the store refuses stays, too, if that
/// `is_spared`.
async fn remove_each(
    leases: &Leases,
    all: impl IntoIterator<Item = (Key, Version)>,
    done: &Arc<Mutex<Removed>>,
    is_spared: bool,
) -> Result<(), StoreError> {
    let each = |(key, version): (Key, Version)| {
        let (store, done) = (leases.store().clone(), Arc::clone(done));
        async move {
            match remove_patiently(&store, &key, version).await {
                Ok(became) => locked(&done).add(became),
                Err(error) if is_spared && error.kind() == ErrorKind::Invalid => {
                    locked(&done).add_refused(&error);
                }
                Err(error) => return Err(error),
            }
            Ok(true)
        }
    };
    count_side_by_side(all, each).await.map(|_| ())
}

/// A worker that has come since all were known to be dead, if there is one: the sessions that were there then are ended.
async fn newcomer_of(leases: &Leases, name: &FleetName) -> Result<Option<Key>, Failure> {
    let (store, prefix, mut pages) = (leases.store(), name.worker_prefix(), Pages::default());
    while let Some(page) = patiently(async || pages.next(store, &prefix).await).await? {
        // One that can't be read is a newer version's, perhaps.
        let may_live = page.into_iter().find(|listed| match &listed.stored {
            Ok(stored) => stored.record.tenure.is_some(),
            Err(_) => true,
        });
        if let Some(session) = may_live {
            return Ok(Some(session.key));
        }
    }
    Ok(None)
}

/// Tells what would be removed.
fn show(found: &FleetRecords, name: &FleetName, typed: &args::FleetRmArgs) -> Result<(), Failure> {
    let names = found.names();
    if typed.json {
        return output::json(&json!({
            "fleet": name.as_str(),
            "dry_run": true,
            "removable": names,
            "removed": 0,
            "left": found.all - names.len(),
            "unknown": found.unknown,
            "damaged": found.damaged,
            "newer": found.newer,
        }));
    }
    for key in &names {
        output::print(&format!("{}\n", escaped(key)))?;
    }
    output::note(format!("fleet {name}: {} would be removed", count(names.len(), "record")));
    tell_unknown(name, found.unknown);
    if let Some(text) = left_behind(&found.stay(), found.damaged, found.newer) {
        output::note(format!("would stay: {text}"));
    }
    Ok(())
}

/// Units of a status that is not known here go, too: whoever has said nothing of that is to know.
fn tell_unknown(name: &FleetName, unknown: usize) {
    if unknown > 0 {
        let units = count(unknown, "unit");
        output::note(format!(
            "fleet {name}: {units} of a status that this version does not know, which a newer tenure may have written"
        ));
    }
}

/// Why it is not done, if something stays or somebody has come.
fn outcome(name: &FleetName, done: &Removed, damaged: usize, newer: usize) -> Option<Failure> {
    let newcomer = done.newcomer.as_ref().map(|session| {
        format!(
            "fleet {name} has a worker that has come meanwhile, {}: units that it has named may be gone; start it again",
            worker_of(name, session)
        )
    });
    let is_taken = newcomer.is_some() || done.stay.is_any_taken();
    let stays = left_behind(&done.stay, damaged, newer).map(|text| format!("not removed: {text}"));
    let parts: Vec<String> = newcomer.into_iter().chain(stays).collect();
    let code = if is_taken { exit::HELD } else { exit::DAMAGED };
    (!parts.is_empty()).then(|| Failure::new(code, parts.join("; ")))
}

/// Which records stay, if any do, and what helps.
fn left_behind(stay: &Stay, damaged: usize, newer: usize) -> Option<String> {
    let refused = format!("that the store does not remove yet ({})", stay.refusal);
    let parts = [
        (stay.outside, "unit", "held from outside the fleet (`tenure fleet units`, `tenure release KEY`)"),
        (stay.lost, "unit", "held by a worker whose session is gone"),
        (stay.changed, "record", "changed by somebody meanwhile"),
        (stay.refused, "record", refused.as_str()),
        (damaged, "damaged record", "(see `tenure fleet units`, `tenure rm --damaged KEY`)"),
        (newer, "record", "that this version can't read (use the newer tenure that has written it)"),
        (stay.rest, "record", "of the board and of workers, which stay with units and workers"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, what, why)| format!("{} {why}", count(n, what)))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
