//! `fleet rm`.

use super::forget::rm_all;
use super::unknown::{self, UnknownRemoval};
use crate::args::fleet as args;
use crate::config::fleet as config;
use crate::exit::{self, Failure};
use crate::nonces::nonces;
use crate::output;
use crate::stores::Url;
use crate::stores::patiently;
use crate::text::{count, escaped};
use std::time::Duration;
use tenure::clock::boottime;
use tenure::fleet::Fleet;
use tenure::{ErrorKind, Leases, StoreError};

pub(super) async fn rm(url: &Url, typed: &args::FleetRmArgs) -> Result<u8, Failure> {
    let name = config::name(&typed.fleet)?;
    if typed.all {
        return rm_all(url, &name, typed).await;
    }
    let units = typed.units.iter().map(|unit| config::unit(&name, unit)).collect::<Result<Vec<_>, _>>()?;
    let leases = crate::verbs::open(url).await?;
    let fleet = Fleet::new(leases.store().clone(), name.as_str())?;
    let n = count(units.len(), "unit");
    let mut unread = "";
    if typed.unknown_status {
        unknown::tell(&fleet, &units).await?;
        unread = " One whose status this version does not know goes, too: only if no newer tenure has written that.";
    }
    output::confirm(
        typed.yes,
        &format!("Remove {n} from fleet {name}? Whoever owns one ends what it does for it.{unread}"),
    )?;
    let mut removal = Removal::of(&fleet, &units).await;
    if typed.unknown_status && removal.failed.is_none() {
        removal.remove_unknown(&leases, &fleet).await?;
    }
    // Also of those that were gone: whoever removed them may not have been able to tell.
    let told = patiently(async || fleet.tell().await).await;
    output::note(format!("{} removed from fleet {name}", count(removal.removed, "unit")));
    for note in removal.notes() {
        output::note(note);
    }
    let Removal { removed, missing, damaged, taken, failed } = removal;
    if let Some((error, may_be_done)) = failed {
        let left = units.len() - removed - missing.len() - damaged.len();
        output::note(match may_be_done {
            true => format!("1 may be removed or not, {} left as they are", left - 1),
            false => format!("{} left as they are", count(left, "unit")),
        });
        return Err(error.into());
    }
    if let Err(error) = told {
        if removed > 0 {
            output::note("their workers could not be told: they find out by themselves, in time");
        }
        return Err(error.into());
    }
    let stays = [
        (exit::HELD, (!taken.is_empty()).then(|| taken.join("; "))),
        (exit::DAMAGED, (!damaged.is_empty()).then(|| left_alone(&fleet, &damaged)).transpose()?),
        (
            exit::ABSENT,
            (!missing.is_empty()).then(|| format!("fleet {name} has no unit {}", missing.join(", "))),
        ),
    ];
    let mut stays = stays.into_iter().filter_map(|(code, text)| Some(Failure::new(code, text?)));
    let Some(failure) = stays.next() else { return Ok(exit::OK) };
    stays.for_each(|other| output::note(other.text));
    Err(failure)
}

/// That those units which can't be read stay, and how each goes.
fn left_alone(fleet: &Fleet, damaged: &[(&String, StoreError)]) -> Result<String, Failure> {
    // What a newer version has written goes by that version.
    let damaged_here = damaged.iter().filter(|(_, error)| !error.is_newer());
    let keys = damaged_here.map(|(unit, _)| fleet.key(unit)).collect::<Result<Vec<_>, _>>()?;
    let commands = keys.iter().map(|key| format!("`tenure rm --damaged {}`", escaped(key.as_str())));
    let (n, commands) = (count(damaged.len(), "unit"), commands.collect::<Vec<_>>().join(", "));
    let remedy =
        if keys.is_empty() { String::new() } else { format!("; what is damaged is removed by {commands}") };
    Ok(format!("{n} left as found{remedy}"))
}

/// What became of units that were to go.
#[derive(Debug, Default)]
struct Removal<'u> {
    removed: usize,
    missing: Vec<String>,
    /// Those that can't be read as units, and why.
    damaged: Vec<(&'u String, StoreError)>,
    /// That somebody has those whose status is not known here, or has changed them meanwhile.
    taken: Vec<String>,
    /// Why it ended before it was through, and whether the last one may be removed all the same.
    failed: Option<(StoreError, bool)>,
}

impl<'u> Removal<'u> {
    async fn of(fleet: &Fleet, units: &'u [String]) -> Removal<'u> {
        /// Workers hear of what is removed within this time, whatever ends this command.
        const TOLD_EVERY: Duration = Duration::from_millis(500);
        let (mut removal, mut told) = (Removal::default(), None);
        for unit in units {
            if removal.removed > 0 && told.is_none_or(|told| boottime() >= told + TOLD_EVERY) {
                // What fails here is told in the end.
                let _ = fleet.tell().await;
                told = Some(boottime());
            }
            let mut may_be_done = false;
            let removed = patiently(async || {
                let removed = fleet.delete_untold(unit).await;
                may_be_done |= removed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unknown);
                removed
            });
            match removed.await {
                Ok(false) if !may_be_done => removal.missing.push(escaped(unit)),
                // If it is gone now, an earlier try has done it, whose answer was lost.
                Ok(_) => removal.removed += 1,
                // It says nothing of the others.
                Err(error) if error.kind() == ErrorKind::Foreign => removal.damaged.push((unit, error)),
                Err(error) => {
                    removal.failed = Some((error, may_be_done));
                    break;
                }
            }
        }
        removal
    }

    /// Removes those, too, of which only the status can't be read.
    async fn remove_unknown(&mut self, leases: &Leases, fleet: &Fleet) -> Result<(), Failure> {
        let mut nonces = nonces(leases);
        for (unit, error) in std::mem::take(&mut self.damaged) {
            if !error.is_newer() {
                self.damaged.push((unit, error));
                continue;
            }
            let (key, mut may_be_done) = (fleet.key(unit)?, false);
            match unknown::remove(leases, &mut nonces, &key, &mut may_be_done).await {
                Ok(UnknownRemoval::Removed) => self.removed += 1,
                Ok(UnknownRemoval::Held(holder)) => self.taken.push(format!(
                    "{key} is held by {holder}, which may know its status: `tenure release {key}` takes it"
                )),
                Ok(UnknownRemoval::Changed) => {
                    self.taken.push(format!("{key} has changed meanwhile; look again"));
                }
                Ok(UnknownRemoval::Unread) => self.damaged.push((unit, error)),
                Err(error) => {
                    self.failed = Some((error, may_be_done));
                    break;
                }
            }
        }
        Ok(())
    }

    /// What is told of single units in any case. What somebody has is told in the end, if it ends well.
    fn notes(&self) -> Vec<String> {
        let damaged = self.damaged.iter();
        let damaged =
            damaged.map(|(unit, error)| format!("{}: {}", escaped(unit), escaped(&error.to_string())));
        let taken = self.taken.iter().filter(|_| self.failed.is_some()).cloned();
        damaged.chain(taken).collect()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a unit whose removal was not answered counts as removed once it is gone, and may be removed where nothing more is heard; one that was
    //! never there does not, whatever failed before. So it is with one of an unknown status, and what somebody has is told then, too.
    use super::*;
    use tenure::fleet::NewUnit;
    use tenure::store::{Expect, Nonce, Outcome, Record, Tenure, Write};
    use tenure::{Fence, HolderId, Metadata, Store, Ttl, Value, Wall};
    use tenure_store::{Fault, FaultyStore};

    #[tokio::test]
    async fn a_removal_whose_answer_is_lost_is_counted() {
        let store = FaultyStore::new(tenure::memory());
        let fleet = Fleet::new(store.clone(), "f").unwrap();
        fleet.create_all(["a", "b"].map(NewUnit::named)).await.unwrap();
        // Each removal is a read, and then a write.
        for (unit, faults, removed) in [
            ("a", vec![Fault::None, Fault::LoseAnswer], 1),
            ("b", vec![Fault::None, Fault::LoseRequest], 1),
            ("a", vec![Fault::LoseAnswer], 0),
            ("c", vec![], 0),
        ] {
            store.inject(faults);
            let units = [unit.to_owned()];
            let removal = Removal::of(&fleet, &units).await;
            assert_eq!(
                (removal.removed, removal.missing.len()),
                (removed, 1 - removed),
                "{unit}: {removal:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_removal_of_which_nothing_more_is_heard_may_be_done() {
        for (fault, may_be) in [(Fault::LoseAnswer, true), (Fault::LoseRequest, true), (Fault::Refuse, false)]
        {
            let store = FaultyStore::new(tenure::memory());
            let fleet = Fleet::new(store.clone(), "f").unwrap();
            fleet.create_all(["a", "b"].map(NewUnit::named)).await.unwrap();
            store.inject([vec![Fault::None, fault], vec![Fault::Refuse; 20]].concat());
            let units = ["a", "b"].map(str::to_owned);
            let removal = Removal::of(&fleet, &units).await;
            let (error, may_be_done) = removal.failed.unwrap();
            assert_eq!((removal.removed, error.kind()), (0, ErrorKind::Unavailable));
            assert_eq!(may_be_done, may_be, "{fault:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_an_unknown_status_one_of_which_nothing_more_is_heard_may_be_removed_too() {
        let own = Metadata::from([("status".to_owned(), Value::from("asleep"))]);
        let asleep = Metadata::from([("tenure".to_owned(), Value::Map(own))]);
        let who = Tenure::new(Nonce(7), HolderId::new("who").unwrap(), Ttl::clamped(1000), Wall(0));
        for (fault, may_be) in [(Fault::LoseAnswer, true), (Fault::LoseRequest, true), (Fault::Refuse, false)]
        {
            let store = FaultyStore::new(tenure::memory());
            let leases = Leases::new(store.clone()).unwrap();
            let fleet = Fleet::new(store.clone(), "f").unwrap();
            for (unit, tenure) in [("held", Some(who.clone())), ("free", None)] {
                let (nonce, metadata) = (Nonce(7), asleep.clone());
                let record = Record { fence: Fence(5), nonce, stamp: Wall(0), tenure, metadata };
                let write = Write { key: fleet.key(unit).unwrap(), expect: Expect::Absent, record };
                assert!(matches!(store.write(write).await.unwrap(), Outcome::Won { .. }));
            }
            let units = ["held", "free"].map(str::to_owned);
            let mut removal = Removal::of(&fleet, &units).await;
            assert_eq!(removal.damaged.len(), 2, "{removal:?}");
            // Each is read, and one of them is written.
            store.inject([vec![Fault::None, Fault::None, fault], vec![Fault::Refuse; 20]].concat());
            removal.remove_unknown(&leases, &fleet).await.unwrap();
            let (error, may_be_done) = removal.failed.as_ref().unwrap();
            assert_eq!((error.kind(), *may_be_done), (ErrorKind::Unavailable, may_be), "{fault:?}");
            let notes = removal.notes();
            assert!(notes.len() == 1 && notes[0].contains("is held by who"), "{notes:?}");
        }
    }
}
