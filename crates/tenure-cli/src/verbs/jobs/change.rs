//! `work retry` and `work rm`.

use super::survey::{JobSurvey, JobWorker, of_job, worker};
use crate::args::jobs::{WorkRetryArgs, WorkRmArgs};
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::output;
use crate::stores::pages::Pages;
use crate::stores::side_by_side::count_side_by_side;
use crate::stores::{RecordRemoval, Url, patiently, remove_patiently};
use crate::text::{count, escaped};
use crate::verbs::open;
use crate::work::job::presence::{LivingProcess, ProcessWatch, job_of};
use crate::work::job::unit::Unit;
use crate::work::job::writes::{instance, reset};
use crate::work::units::{named, text_of};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tenure::store::reserved::SESSION;
use tenure::store::{Listed, Outcome, StoreExt, Version, Write};
use tenure::{AnyStore, Fence, Key, Leases, StoreError};
use tenure_core::Nonces;

pub(super) async fn retry(url: &Url, typed: &WorkRetryArgs) -> Result<u8, Failure> {
    let name = JobName::new(&typed.job)?;
    let prefix = name.prefix();
    let unit = |unit: &OsString| Ok((named(&prefix, unit.as_bytes())?.key, text_of(unit.as_bytes())));
    let mut wanted = typed.units.iter().map(unit).collect::<Result<BTreeMap<Key, String>, Failure>>()?;
    let leases = open(url).await?;
    let store = leases.store();
    meant(store, &name, &mut wanted).await?;
    let (failed, n) = reopen(&leases, &prefix, &wanted).await?;
    if failed == 0 {
        let which = if wanted.is_empty() { "no unit" } else { "none of these units" };
        return Err(Failure::new(
            exit::ABSENT,
            format!("{which} of the job \"{}\" has failed", name.shown()),
        ));
    }
    if typed.json {
        output::json(&json!({"job": name.as_str(), "retried": n}))?;
    } else {
        output::note(format!("{} to be tried again", count(n, "unit")));
    }
    Ok(exit::OK)
}

/// Opens again what has failed of these units, or of all if there are none: how many had failed, and how many are open again. What was done
/// before something fails is told with that.
async fn reopen(
    leases: &Leases,
    prefix: &str,
    wanted: &BTreeMap<Key, String>,
) -> Result<(usize, usize), Failure> {
    let (store, mut nonces, mut pages) = (leases.store(), Nonces::new(instance(leases)), Pages::default());
    let (mut failed, mut n) = (0, 0);
    let all = async {
        while let Some(page) = patiently(async || pages.next(store, prefix).await).await? {
            let chosen = page.iter().filter(|listed| wanted.is_empty() || wanted.contains_key(&listed.key));
            let writes: Vec<Write> = chosen.filter_map(|listed| reset(leases, &mut nonces, listed)).collect();
            let outcomes = patiently(async || store.write_all(writes.clone()).await).await?;
            failed += writes.len();
            n += outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).count();
        }
        Ok::<(), StoreError>(())
    };
    match all.await.map_err(Failure::from) {
        Ok(()) => Ok((failed, n)),
        Err(failure) if n == 0 => Err(failure),
        Err(failure) => {
            let text = format!("{}; before that: {} to be tried again", failure.text, count(n, "unit"));
            Err(Failure { text, ..failure })
        }
    }
}

/// Finds the units of these names. One may be typed as it was shown, if no other is shown so. Fails where a job or a unit is not there.
async fn meant(store: &AnyStore, name: &JobName, wanted: &mut BTreeMap<Key, String>) -> Result<(), Failure> {
    let typed: BTreeSet<String> = wanted.values().cloned().collect();
    // By what they are shown as; none where several are shown so.
    let (mut shown, mut there) = (BTreeMap::<String, Option<Key>>::new(), BTreeSet::new());
    let (mut pages, mut is_there) = (Pages::default(), false);
    while let Some(page) = pages.next(store, &name.prefix()).await? {
        is_there |= !page.is_empty();
        if wanted.is_empty() {
            break;
        }
        for listed in page {
            if let Some(text) = shown_as(&listed).filter(|text| typed.contains(text)) {
                let key = listed.key.clone();
                shown.entry(text).and_modify(|other| *other = None).or_insert(Some(key));
            }
            if wanted.contains_key(&listed.key) {
                there.insert(listed.key);
            }
        }
    }
    if !is_there {
        return Err(super::absent(name));
    }
    let missing: Vec<Key> = wanted.keys().filter(|key| !there.contains(*key)).cloned().collect();
    for key in missing {
        let Some(unit) = wanted.remove(&key) else { continue };
        let Some(meant) = shown.get(&unit).cloned().flatten() else {
            return Err(Failure::new(
                exit::ABSENT,
                format!("the job \"{}\" has no unit \"{}\"", name.shown(), escaped(&unit)),
            ));
        };
        wanted.insert(meant, unit);
    }
    Ok(())
}

/// What a unit is shown as, if its record can be read.
fn shown_as(listed: &Listed) -> Option<String> {
    let metadata = &listed.stored.as_ref().ok()?.record.metadata;
    Unit::name(&listed.key, metadata).map(|unit| escaped(&text_of(&unit)))
}

pub(super) async fn rm(url: &Url, typed: &WorkRmArgs) -> Result<u8, Failure> {
    let name = JobName::new(&typed.job)?;
    let leases = open(url).await?;
    let job = of_job(&leases, &name).await?.ok_or_else(|| super::absent(&name))?;
    let (shown, question) = (name.shown(), question(&name, &job));
    let is_at_it = |session: &Listed| job_of(session) == Some(name.as_str());
    let mut watch = ProcessWatch::default();
    if !typed.yes {
        watch.ask_later(question.clone());
    }
    if let Some(process) = watch.living(&leases, SESSION, is_at_it).await? {
        return Err(worked_on(&name, &named_process(&process)));
    }
    if let Some(running) = job.running.iter().find(|running| !watch.is_dead(&running.holder)) {
        return Err(worked_on(&name, &escaped(&running.holder)));
    }
    output::confirm(typed.yes, &question)?;
    let JobRecords { units: all, damaged, newer } = versions(&leases, &name).await?;
    let highest = all.iter().map(|unit| unit.fence).max();
    await_fences(&leases, highest).await?;
    // All that may have taken long. Whoever has come meanwhile was given units of which none may vanish; what a later one makes is not
    // among these.
    if let Some(process) = watch.living(&leases, SESSION, is_at_it).await? {
        return Err(worked_on(&name, &named_process(&process)));
    }
    // A renewal of theirs that lands late has nobody believe in a unit that is gone.
    if let Some(session) = watch.end_dead(&leases).await? {
        return Err(worked_on(&name, session.as_str()));
    }
    let there = all.len();
    let removed = count_side_by_side(all, |unit| remove(leases.clone(), unit)).await?;
    let taken = there - removed;
    if typed.json {
        let (unread, left) = (damaged + newer, taken + damaged + newer);
        let job = name.as_str();
        output::json(
            &json!({"job": job, "removed": removed, "left": left, "damaged": unread, "newer": newer}),
        )?;
    } else {
        output::note(format!("job \"{shown}\": {} removed", count(removed, "unit")));
    }
    left_behind(taken, damaged, newer).map_or(Ok(exit::OK), Err)
}

/// Which units stay, if any do, and what helps. Only who is at work may be gone later.
fn left_behind(taken: usize, damaged: usize, newer: usize) -> Option<Failure> {
    let parts: Vec<String> = [
        (taken, "taken by somebody meanwhile"),
        (damaged, "with a damaged record (see `tenure work status`, `tenure rm --damaged KEY`)"),
        (newer, "that this version can't read (use the newer tenure that has written it)"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{} {what}", count(n, "unit")))
    .collect();
    let code = if taken > 0 { exit::HELD } else { exit::DAMAGED };
    (!parts.is_empty()).then(|| Failure::new(code, format!("not removed: {}", parts.join(", "))))
}

/// What is asked before the job goes.
fn question(name: &JobName, job: &JobSurvey) -> String {
    // A newer version may be about to run these.
    let newer = job.damaged.iter().filter(|unit| unit.is_newer()).count();
    let undone = match (job.open(), newer) {
        (0, 0) => String::new(),
        (open, 0) => format!(", {open} of them not done"),
        (0, newer) => format!(", {newer} of which this version can't read"),
        (open, newer) => format!(", {open} of them not done and {newer} that this version can't read"),
    };
    let (shown, units) = (name.shown(), count(job.units(), "unit"));
    format!("Remove the job \"{shown}\" with {units}{undone}? Given again, all are run again.")
}

/// What has to be known of a unit's record to remove it as it was seen. No more is kept of each, as there may be a million.
struct UnitVersion {
    key: Key,
    version: Version,
    fence: Fence,
    is_held: bool,
}

/// The records of a job.
#[derive(Default)]
struct JobRecords {
    /// Those that can be read.
    units: Vec<UnitVersion>,
    /// How many can't.
    damaged: usize,
    /// How many only a newer version can read.
    newer: usize,
}

/// What there is of a job now.
async fn versions(leases: &Leases, name: &JobName) -> Result<JobRecords, Failure> {
    let (mut pages, mut all) = (Pages::default(), JobRecords::default());
    while let Some(page) = pages.next(leases.store(), &name.prefix()).await? {
        for Listed { key, stored } in page {
            match stored {
                Ok(stored) => all.units.push(UnitVersion {
                    key,
                    version: stored.version,
                    fence: stored.record.fence,
                    is_held: stored.record.tenure.is_some(),
                }),
                Err(error) if error.is_newer() => all.newer += 1,
                Err(_) => all.damaged += 1,
            }
        }
    }
    Ok(all)
}

/// Removes a unit. One that somebody has taken meanwhile stays.
async fn remove(leases: Leases, unit: UnitVersion) -> Result<bool, Failure> {
    if unit.is_held && !is_dead(&leases, &unit.key).await? {
        return Ok(false);
    }
    // Whoever else has removed it: it is gone.
    Ok(remove_patiently(leases.store(), &unit.key, unit.version).await? != RecordRemoval::Changed)
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
async fn is_dead(leases: &Leases, key: &Key) -> Result<bool, Failure> {
    let view = crate::verbs::look::view(leases, key).await?;
    Ok(view.state == crate::output::view::State::Expired)
}

/// A key whose record goes begins at the wall clock again, which must be beyond the fence that it had.
pub(crate) async fn await_fences(leases: &Leases, highest: Option<Fence>) -> Result<(), Failure> {
    const LONGEST: Duration = Duration::from_secs(5);
    let ahead = || {
        let now = leases.clock().now().wall.0;
        highest.map_or(Duration::ZERO, |fence| Duration::from_millis((fence.0 + 1).saturating_sub(now)))
    };
    if ahead() > LONGEST {
        return Err(Failure::new(
            exit::HELD,
            "a record's fence is ahead of this host's clock, so it can't go yet: check the hosts' clocks, or try again later",
        ));
    }
    tokio::time::sleep(ahead()).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Plan: where a store fails half-way, it is told how many units were opened again before that; where nothing was, only the failure. Who is asked
    //! whether a job is to go knows what is not done, and what may not be. Of what stays it is told why, and only who is at work is a reason to come back.
    use super::*;
    use crate::output::problem::RecordProblem;
    use crate::stores::pages::PAGE;
    use crate::work::job::damaged::DamagedUnit;
    use crate::work::job::writes::vacant;
    use std::ffi::OsStr;
    use tenure::store::Expect;
    use tenure_store::{Fault, FaultyStore};

    #[tokio::test(start_paused = true)]
    async fn a_retry_that_fails_half_way_tells_what_it_has_done() {
        let store = FaultyStore::new(tenure::memory());
        let leases = Leases::new(store.clone()).unwrap();
        let mut nonces = Nonces::new(instance(&leases));
        let failed = Unit::give_up(Unit::fresh(), "why", "h", 7);
        let write = |n: usize| {
            let record = vacant(&leases, &mut nonces, Fence::default(), failed.clone());
            let key = Key::new(format!("work/j/{n:04}")).unwrap();
            Write { key, expect: Expect::Absent, record }
        };
        let writes: Vec<Write> = (0..=PAGE).map(write).collect();
        leases.store().write_all(writes).await.unwrap();
        let retry = async |answered: usize| {
            store.inject([vec![Fault::None; answered], vec![Fault::Refuse; 6]].concat());
            reopen(&leases, "work/j/", &BTreeMap::new()).await
        };
        let failure = retry(0).await.unwrap_err();
        assert!(!failure.text.contains("before that"), "{failure}");
        // A page is read, and written.
        let failure = retry(2).await.unwrap_err();
        assert_eq!(failure.code, exit::UNAVAILABLE);
        assert!(failure.text.ends_with("; before that: 1000 units to be tried again"), "{failure}");
        assert_eq!(reopen(&leases, "work/j/", &BTreeMap::new()).await.unwrap(), (1, 1));
    }

    #[test]
    fn what_stays_is_told_by_what_helps_and_only_who_is_at_work_is_a_reason_to_come_back() {
        let left = |taken, damaged, newer| {
            let failure = left_behind(taken, damaged, newer).unwrap();
            let told = ["taken by somebody", "rm --damaged KEY", "newer tenure"];
            (failure.code, told.map(|what| failure.text.contains(what)))
        };
        assert_eq!(left(2, 0, 0), (exit::HELD, [true, false, false]));
        assert_eq!(left(0, 1, 0), (exit::DAMAGED, [false, true, false]));
        assert_eq!(left(0, 0, 1), (exit::DAMAGED, [false, false, true]));
        assert_eq!(left(1, 1, 1), (exit::HELD, [true; 3]));
        assert!(left_behind(0, 0, 0).is_none());
    }

    #[test]
    fn who_is_asked_is_told_of_units_that_a_newer_version_may_run() {
        let name = JobName::new(OsStr::new("j")).unwrap();
        let mut job = JobSurvey::default();
        let asked = |job: &JobSurvey| question(&name, job);
        let damaged = |problem| DamagedUnit::of(Key::new("work/j/u").unwrap(), None, Some(problem));
        job.damaged.push(damaged(RecordProblem::damage("x")));
        assert_eq!(asked(&job), "Remove the job \"j\" with 1 unit? Given again, all are run again.");
        job.damaged.push(damaged(RecordProblem::newer("x")));
        let newer = " with 2 units, 1 of which this version can't read? ";
        assert!(asked(&job).contains(newer), "{}", asked(&job));
        job.waiting += 3;
        let both = " with 5 units, 3 of them not done and 1 that this version can't read? ";
        assert!(asked(&job).contains(both), "{}", asked(&job));
    }
}
