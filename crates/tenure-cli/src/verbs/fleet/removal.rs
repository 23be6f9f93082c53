//! `fleet rm`.

use crate::args::fleet as args;
use crate::config::fleet as config;
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::patiently;
use crate::stores::{Missing, Url};
use crate::text::{count, escaped};
use tenure::fleet::Fleet;
use tenure::{ErrorKind, StoreError};

pub(super) async fn rm(url: &Url, typed: &args::FleetRmArgs) -> Result<u8, Failure> {
    let name = config::name(&typed.fleet)?;
    let units = typed.units.iter().map(|unit| config::unit(&name, unit)).collect::<Result<Vec<_>, _>>()?;
    let fleet = super::open(url, &name, Missing::Refuse).await?;
    let n = count(units.len(), "unit");
    output::confirm(
        typed.yes,
        &format!("Remove {n} from fleet {name}? Whoever owns one ends what it does for it."),
    )?;
    let removal = Removal::of(&fleet, &units).await;
    // Also of those that were gone: whoever removed them may not have been able to tell.
    let told = patiently(async || fleet.tell().await).await;
    output::note(format!("{} removed from fleet {name}", count(removal.removed, "unit")));
    let Removal { removed, missing, failed } = removal;
    if let Some(error) = failed {
        let left = units.len() - removed - missing.len();
        let left = match error.kind() {
            ErrorKind::Unknown => format!("1 may be removed or not, {} left as they are", left - 1),
            _ => format!("{} left as they are", count(left, "unit")),
        };
        output::note(left);
        return Err(error.into());
    }
    if let Err(error) = told {
        output::note("their workers could not be told: they find out by themselves, in time");
        return Err(error.into());
    }
    if missing.is_empty() {
        return Ok(exit::OK);
    }
    Err(Failure::new(exit::ABSENT, format!("fleet {name} has no unit {}", missing.join(", "))))
}

/// What became of units that were to go.
#[derive(Debug, Default)]
struct Removal {
    removed: usize,
    missing: Vec<String>,
    /// Why it ended before it was through.
    failed: Option<StoreError>,
}

impl Removal {
    async fn of(fleet: &Fleet, units: &[String]) -> Removal {
        let mut removal = Removal::default();
        for unit in units {
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
                Err(error) => {
                    removal.failed = Some(error);
                    break;
                }
            }
        }
        removal
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a unit whose removal was not answered counts as removed once it is gone; one that was never there does not, whatever failed before.
    use super::*;
    use tenure::fleet::NewUnit;
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
            let removal = Removal::of(&fleet, &[unit.to_owned()]).await;
            assert_eq!(
                (removal.removed, removal.missing.len()),
                (removed, 1 - removed),
                "{unit}: {removal:?}"
            );
        }
    }
}
