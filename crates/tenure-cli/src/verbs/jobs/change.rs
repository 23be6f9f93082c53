//! `work retry` and `work rm`.

use super::survey::{JobWorker, of_job, records, worker};
use crate::args::jobs::{WorkRetryArgs, WorkRmArgs};
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::output;
use crate::stores::side_by_side::count_side_by_side;
use crate::stores::{Url, patiently, remove_patiently};
use crate::text::{count, escaped};
use crate::verbs::open;
use crate::work::job::presence::{LivingProcess, job_of, living};
use crate::work::job::unit::Unit;
use crate::work::job::writes::{instance, reset};
use crate::work::units::{named, text_of};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tenure::store::{Listed, Outcome, StoreExt, Write};
use tenure::{Key, Leases};
use tenure_core::Nonces;

pub(super) async fn retry(url: &Url, typed: &WorkRetryArgs) -> Result<u8, Failure> {
    let name = JobName::new(&typed.job)?;
    let prefix = name.prefix();
    let unit = |unit: &OsString| Ok((named(&prefix, unit.as_bytes())?.key, text_of(unit.as_bytes())));
    let mut wanted = typed.units.iter().map(unit).collect::<Result<BTreeMap<Key, String>, Failure>>()?;
    let leases = open(url).await?;
    let all = records(leases.store(), &name).await?;
    if all.is_empty() {
        return Err(super::absent(&name));
    }
    let there: BTreeSet<&Key> = all.iter().map(|listed| &listed.key).collect();
    let missing: Vec<Key> = wanted.keys().filter(|key| !there.contains(key)).cloned().collect();
    for key in missing {
        let Some(unit) = wanted.remove(&key) else { continue };
        // It may be typed as it was shown.
        let Some(meant) = shown_so(&all, &unit) else {
            return Err(Failure::new(
                exit::ABSENT,
                format!("the job \"{}\" has no unit \"{}\"", name.shown(), escaped(&unit)),
            ));
        };
        wanted.insert(meant, unit);
    }
    let mut nonces = Nonces::new(instance(&leases));
    let chosen = all.iter().filter(|listed| wanted.is_empty() || wanted.contains_key(&listed.key));
    let writes: Vec<Write> = chosen.filter_map(|listed| reset(&leases, &mut nonces, listed)).collect();
    if writes.is_empty() {
        let which = if wanted.is_empty() { "no unit" } else { "none of these units" };
        return Err(Failure::new(
            exit::ABSENT,
            format!("{which} of the job \"{}\" has failed", name.shown()),
        ));
    }
    let outcomes = patiently(async || leases.store().write_all(writes.clone()).await).await?;
    let n = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).count();
    if typed.json {
        output::json(&json!({"job": name.as_str(), "retried": n}))?;
    } else {
        output::note(format!("{} to be tried again", count(n, "unit")));
    }
    Ok(exit::OK)
}

/// The one unit that is shown as this text, if it is one.
fn shown_so(all: &[Listed], text: &str) -> Option<Key> {
    let is_meant = |listed: &&Listed| {
        let unit = listed.stored.as_ref().ok().map(|stored| Unit::name(&listed.key, &stored.record.metadata));
        unit.flatten().is_some_and(|unit| escaped(&text_of(&unit)) == text)
    };
    let mut meant = all.iter().filter(is_meant);
    let first = meant.next()?;
    meant.next().is_none().then(|| first.key.clone())
}

pub(super) async fn rm(url: &Url, typed: &WorkRmArgs) -> Result<u8, Failure> {
    let name = JobName::new(&typed.job)?;
    let leases = open(url).await?;
    let job = of_job(&leases, &name).await?.ok_or_else(|| super::absent(&name))?;
    let (units, open, shown) = (job.units(), job.open(), name.shown());
    let holder = || job.running.first().map(|running| escaped(&running.holder));
    if let Some(who) = job.workers.first().map(named_worker).or_else(holder) {
        return Err(worked_on(&name, &who));
    }
    let unrun = if open > 0 { format!(", {open} of them not done") } else { String::new() };
    output::confirm(
        typed.yes,
        &format!(
            "Remove the job \"{shown}\" with {}{unrun}? Given again, all are run again.",
            count(units, "unit")
        ),
    )?;
    let all = records(leases.store(), &name).await?;
    await_fences(&leases, &all).await?;
    // All that may have taken long. Whoever has come meanwhile was given units of which none may vanish; what a later one makes is not
    // among these.
    if let Some(process) = living(&leases, |session| job_of(session) == Some(name.as_str())).await? {
        return Err(worked_on(&name, &named_process(&process)));
    }
    let there = all.len();
    let removed = count_side_by_side(all, |listed| remove(leases.clone(), listed)).await?;
    let left = there - removed;
    if typed.json {
        output::json(&json!({"job": name.as_str(), "removed": removed, "left": left}))?;
    } else {
        output::note(format!("job \"{shown}\": {} removed", count(removed, "unit")));
    }
    if left > 0 {
        return Err(Failure::new(
            exit::HELD,
            format!(
                "{} left: taken by somebody meanwhile, or damaged (see `tenure rm --damaged`)",
                count(left, "unit")
            ),
        ));
    }
    Ok(exit::OK)
}

/// Removes a unit. One that somebody has taken meanwhile stays, and so does one that can't be read.
async fn remove(leases: Leases, listed: Listed) -> Result<bool, Failure> {
    match &listed.stored {
        Ok(stored) if stored.record.tenure.is_none() || is_dead(&leases, &listed).await? => {
            Ok(remove_patiently(leases.store(), &listed.key, stored.version).await?)
        }
        _ => Ok(false),
    }
}

fn worked_on(name: &JobName, who: &str) -> Failure {
    let name = name.shown();
    Failure::new(
        exit::HELD,
        format!("the job \"{name}\" is being worked on, by {who}: stop that first, or wait for its end"),
    )
}

fn named_worker(worker: &JobWorker) -> String {
    format!("pid {} on {}", worker.pid, escaped(&worker.host))
}

fn named_process(process: &LivingProcess) -> String {
    worker(&process.session).map_or_else(|| process.session.key.to_string(), |worker| named_worker(&worker))
}

/// Whether its holder is dead. By wall clocks that alone would not be known, but none of the job's processes was found to live; and a record
/// that somebody has taken since is another version.
async fn is_dead(leases: &Leases, listed: &Listed) -> Result<bool, Failure> {
    let view = crate::verbs::look::view(leases, &listed.key).await?;
    Ok(view.state == crate::output::view::State::Expired)
}

/// A key whose record goes begins at the wall clock again, which must be beyond the fence that it had.
async fn await_fences(leases: &Leases, all: &[Listed]) -> Result<(), Failure> {
    const LONGEST: Duration = Duration::from_secs(5);
    let highest = all.iter().filter_map(|listed| Some(listed.stored.as_ref().ok()?.record.fence)).max();
    let ahead = || {
        let now = leases.clock().now().wall.0;
        highest.map_or(Duration::ZERO, |fence| Duration::from_millis((fence.0 + 1).saturating_sub(now)))
    };
    if ahead() > LONGEST {
        return Err(Failure::new(
            exit::HELD,
            "a unit's fence is ahead of this host's clock, so its record can't go yet: check the hosts' clocks, or try again later",
        ));
    }
    tokio::time::sleep(ahead()).await;
    Ok(())
}
