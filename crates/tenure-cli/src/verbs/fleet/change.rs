//! `fleet add`, `fleet move` and `fleet drain`.

use super::snapshot::{Snapshot, WorkerSnapshot, labels};
use crate::args::fleet as args;
use crate::config::fleet as config;
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::patiently;
use crate::stores::{Missing, Url};
use crate::text::{brief, count, escaped};
use tenure::fleet::{NewUnit, UnitSpec};
use tenure::{LeaseError, Metadata};

pub(super) async fn add(url: &Url, typed: &args::FleetAddArgs) -> Result<u8, Failure> {
    let name = config::name(&typed.fleet)?;
    let mut units = Vec::new();
    // All is checked before the store is touched.
    UnitSpec::default().weight(typed.weight).compose(Metadata::new())?;
    for unit in &typed.units {
        let unit = NewUnit::named(config::unit(&name, unit)?).weight(typed.weight);
        units.push(typed.needs.iter().fold(unit, |unit, label| unit.needs(label)));
    }
    let fleet = super::open(url, &name, Missing::Create).await?;
    let given = units.len();
    let mut tries = 0;
    let created = patiently(async || {
        tries += 1;
        fleet.create_all(units.clone()).await
    });
    let created = created.await.inspect_err(|_| {
        if given > 1 {
            output::note(format!("some may be added to fleet {name}; the same command adds the rest"));
        }
    })?;
    let rest = match given - created {
        0 => String::new(),
        // A try that failed may have added some of them.
        n if tries > 1 => format!("; {n} are there"),
        n => {
            format!("; {n} there already, left as they are (one that is done: `fleet rm`, then `fleet add`)")
        }
    };
    output::note(format!("{} added to fleet {name}{rest}", count(created, "unit")));
    Ok(exit::OK)
}

pub(super) async fn pin(url: &Url, typed: &args::FleetMoveArgs) -> Result<u8, Failure> {
    let name = config::name(&typed.fleet)?;
    let unit = config::unit(&name, &typed.unit)?;
    let worker = typed.worker.as_deref().map(config::worker).transpose()?;
    let fleet = super::open(url, &name, Missing::Refuse).await?;
    let mut snapshot = super::snapshot_of_some(&fleet).await?;
    let absent = || Failure::new(exit::ABSENT, format!("fleet {name} has no unit {}", escaped(&unit)));
    if let Some(error) = snapshot.damage_of(&unit) {
        return Err(Failure::new(exit::DAMAGED, format!("{}: {error}", escaped(&unit))));
    }
    let spec = &snapshot.units.iter().find(|known| *known.name == *unit).ok_or_else(absent)?.stated.spec;
    let worker = worker.map(|worker| find(&snapshot, worker)).transpose()?;
    if let Some(worker) = worker {
        check(worker, spec)?;
    }
    let holder = worker.map(|worker| worker.holder.clone());
    let gets_it = holder.as_ref().is_none_or(|holder| snapshot.would_get(holder, &unit));
    if !patiently(async || fleet.pin(&unit, holder.as_ref()).await).await? {
        return Err(absent());
    }
    let unit = escaped(&unit);
    output::note(match holder {
        Some(holder) if !gets_it => {
            format!(
                "{unit} is pinned to {holder}, which is full of what is pinned to it: it goes there once there is room"
            )
        }
        Some(holder) => format!("{unit} is pinned to {holder}"),
        None => format!("{unit} is pinned to nobody: it goes where the plan has it"),
    });
    Ok(exit::OK)
}

/// Refuses a pin that would be without effect.
fn check(worker: &WorkerSnapshot, spec: &UnitSpec) -> Result<(), Failure> {
    if !worker.is_alive() {
        let text = format!("{} is dead, and can't be given anything; choose another worker", worker.holder);
        return Err(Failure::new(exit::ABSENT, text));
    }
    if !worker.is_of_this_layout {
        let text = format!("{} is of another version of tenure; choose another worker", worker.holder);
        return Err(Failure::usage(text));
    }
    let lacks = &spec.needs - &worker.about.labels;
    if !lacks.is_empty() {
        let text = format!("{} lacks what the unit needs: {}", worker.holder, labels(&lacks));
        return Err(Failure::usage(text));
    }
    if worker.about.leaving {
        return Err(Failure::usage(format!("{} is leaving; choose another worker", worker.holder)));
    }
    Ok(())
}

/// The worker that is called so, or whose name alone begins so.
fn find<'a>(snapshot: &'a Snapshot, called: &str) -> Result<&'a WorkerSnapshot, Failure> {
    if let Some(worker) = snapshot.workers.iter().find(|worker| worker.holder.as_str() == called) {
        return Ok(worker);
    }
    let begins = |worker: &&WorkerSnapshot| worker.holder.as_str().starts_with(called);
    let found: Vec<&WorkerSnapshot> = snapshot.workers.iter().filter(begins).collect();
    let called = escaped(called);
    match found[..] {
        [worker] => Ok(worker),
        [] => {
            let text = format!("fleet {} has no worker {called}; see `tenure fleet workers`", snapshot.name);
            Err(Failure::new(exit::ABSENT, text))
        }
        _ => {
            let names: Vec<String> = found.iter().map(|worker| worker.holder.to_string()).collect();
            Err(Failure::usage(format!(
                "{called} may be any of {}; write more of its name",
                names.join(", ")
            )))
        }
    }
}

pub(super) async fn drain(url: &Url, typed: &args::FleetDrainArgs) -> Result<u8, Failure> {
    let name = config::name(&typed.fleet)?;
    let called = config::worker(&typed.worker)?;
    let fleet = super::open(url, &name, Missing::Refuse).await?;
    let snapshot = super::snapshot_of_some(&fleet).await?;
    let worker = find(&snapshot, called)?;
    let holder = &worker.holder;
    if !worker.is_alive() {
        return Err(Failure::new(exit::ABSENT, format!("{holder} is dead: there is nobody to ask")));
    }
    let held = count(worker.held, "unit");
    output::confirm(typed.yes, &format!("Ask {holder} to pass on {held}, and to stop?"))?;
    match fleet.drain(holder).await {
        Err(LeaseError::NotHeld) => {
            return Err(Failure::new(exit::ABSENT, format!("{holder} has left meanwhile")));
        }
        result => result?,
    }
    let within = brief(worker.ttl / 3);
    output::note(format!("{holder} is told within {within}, passes on {held}, and stops"));
    Ok(exit::OK)
}
