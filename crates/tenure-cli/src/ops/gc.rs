//! `gc`: removes what nobody has held, or touched, for a long time.

use super::seize::nonces;
use crate::args;
use crate::exit::{self, Failure};
use crate::fleet::upkeep::{Upkeep, Verdict};
use crate::meant;
use crate::say;
use crate::stores::Url;
use crate::text::{brief, count};
use crate::view::is_session;
use crate::work::unit::{JobName, Status, Unit};
use serde_json::json;
use std::collections::BTreeSet;
use tenure::range as section;
use tenure::{Expect, Fence, Key, Leases, Listed, Outcome, Record, Store, StoreExt, Stored, Wall, Write};
use tenure_core::Bugs;
use tenure_core::gc::Collector;

/// What is to be done about records.
#[derive(Debug, Default)]
struct Plan {
    /// Of no use to anybody, and old by both clocks.
    remove: Vec<(Key, Stored)>,
    /// Sessions of processes that died long ago, vacated now and removed by a later run.
    bury: Vec<(Key, Stored)>,
    /// Leases on sessions that have ended, or are ended by this run: vacated now and removed by a later run.
    vacate: Vec<(Key, Stored)>,
    /// Old, but their fences lie beyond one of the clocks: they would begin lower.
    ahead: usize,
    /// Vacant and old, but units of a job that isn't finished.
    unfinished: usize,
    /// Sections in which ranges are held, or may be.
    sections: usize,
    /// What sweeps have covered.
    sweeps: usize,
    /// Vacant and old, but open units of a fleet, or what a fleet needs.
    in_fleets: usize,
    damaged: usize,
}

pub(crate) async fn gc(url: &Url, typed: &args::Gc) -> Result<u8, Failure> {
    let prefix = meant::prefix(&typed.prefix)?;
    let leases = super::open(url).await?;
    // Whether a job is finished, and whether anything rides on a session, can't be told from a part.
    let all = leases.store().list_all("").await?;
    let plan = plan(all, &prefix, typed, leases.clock().now().wall);
    let (n, age) = (count(plan.remove.len(), "record"), brief(typed.older_than));
    if !typed.json {
        say::note(format!(
            "{n} vacant for more than {age}; {} of dead processes",
            count(plan.bury.len(), "session")
        ));
        if !plan.vacate.is_empty() {
            let n = count(plan.vacate.len(), "lease");
            say::note(format!("{n} of dead processes: anyone may have them"));
        }
        if plan.ahead > 0 {
            let n = count(plan.ahead, "record");
            say::note(format!("{n} kept: their fences are ahead of a clock, and would begin lower"));
        }
        if plan.unfinished > 0 {
            say::note(format!("{} kept: their jobs are not finished", count(plan.unfinished, "unit")));
        }
        if plan.sections > 0 {
            say::note(format!("{} kept: ranges in them may be held", count(plan.sections, "section")));
        }
        if plan.sweeps > 0 {
            let n = count(plan.sweeps, "record");
            say::note(format!("{n} kept: they say what sweeps have covered; --sweeps removes them, too"));
        }
        if plan.in_fleets > 0 {
            say::note(format!("{} kept: fleets need them", count(plan.in_fleets, "record")));
        }
        if plan.damaged > 0 {
            say::note(format!(
                "{} left as they are; see `tenure ls` and `tenure rm --damaged`",
                count(plan.damaged, "damaged record")
            ));
        }
    }
    let nothing = plan.remove.is_empty() && plan.bury.is_empty() && plan.vacate.is_empty();
    let mut done = Done::default();
    if typed.dry_run {
        for (key, _) in plan.remove.iter().filter(|_| !typed.json) {
            say::print(&format!("{key}\n"))?;
        }
    } else if !nothing {
        say::confirm(typed.yes, &format!("Remove {n} for good?"))?;
        done = carry_out(&leases, &plan).await?;
    }
    if typed.json {
        let keys: Vec<&str> = plan.remove.iter().map(|(key, _)| key.as_str()).collect();
        say::json(&json!({
            "dry_run": typed.dry_run,
            "removable": keys,
            "removed": done.removed,
            "sessions_ended": done.buried,
            "leases_vacated": done.vacated,
            "kept_for_fences": plan.ahead,
            "kept_for_unfinished_jobs": plan.unfinished,
            "kept_sections": plan.sections,
            "kept_sweeps": plan.sweeps,
            "kept_for_fleets": plan.in_fleets,
            "damaged": plan.damaged,
        }))?;
    } else if !typed.dry_run {
        say::note(format!("{} removed", count(done.removed, "record")));
    }
    Ok(exit::OK)
}

/// What was done.
#[derive(Debug, Default)]
struct Done {
    removed: usize,
    buried: usize,
    vacated: usize,
}

/// Jobs that have a unit which is to be run, or which someone holds.
fn unfinished(listing: &[Listed]) -> BTreeSet<String> {
    let mut jobs = BTreeSet::new();
    for listed in listing {
        let Some((job, _)) = JobName::of_key(&listed.key) else { continue };
        let is_settled = listed.stored.as_ref().is_ok_and(|stored| {
            let unit = Unit::of(&stored.record.metadata);
            stored.record.tenure.is_none() && unit.is_none_or(|unit| unit.status != Status::Pending)
        });
        if !is_settled {
            jobs.insert(job.to_owned());
        }
    }
    jobs
}

fn plan(all: Vec<Listed>, prefix: &str, typed: &args::Gc, now: Wall) -> Plan {
    let collector = Collector::new(now, typed.older_than, &all, Bugs::NONE);
    let (unfinished, fleets) = (unfinished(&all), Upkeep::of(&all));
    let mut plan = Plan::default();
    let dies = |listed: &Listed| {
        let stored = listed.stored.as_ref().ok()?;
        let tenure = stored.record.tenure.as_ref().filter(|tenure| tenure.ride.is_none())?;
        let long = typed.older_than.max(tenure.ttl.duration() * 2);
        let is_dead = is_session(&listed.key)
            && listed.key.as_str().starts_with(prefix)
            && collector.is_older(stored, long);
        is_dead.then(|| (listed.key.clone(), stored.clone()))
    };
    plan.bury = all.iter().filter_map(dies).collect();
    let dying: BTreeSet<Key> = plan.bury.iter().map(|(key, _)| key.clone()).collect();
    for Listed { key, stored } in all {
        if !key.as_str().starts_with(prefix) {
            continue;
        }
        let Ok(stored) = stored else {
            plan.damaged += 1;
            continue;
        };
        let is_vacant = stored.record.tenure.is_none();
        if !is_vacant && is_session(&key) || !collector.is_old(&stored) {
            continue;
        }
        let is_dying = session_of(&stored).is_some_and(|session| dying.contains(session));
        let is_orphan = is_dying || collector.ended_ride(&stored).is_some();
        match fleets.judge(&key, &stored) {
            Verdict::Remove if !collector.may_forget(&stored) => plan.ahead += 1,
            // Whoever finds a claim on a session that is gone can't tell since when.
            Verdict::Remove if collector.is_ridden(&key) => {}
            Verdict::Remove => plan.remove.push((key, stored)),
            Verdict::Keep | Verdict::Elsewhere if is_orphan => plan.vacate.push((key, stored)),
            Verdict::Keep if is_vacant => plan.in_fleets += 1,
            Verdict::Damaged => plan.damaged += 1,
            Verdict::Elsewhere if !is_vacant => {}
            Verdict::Elsewhere if JobName::of_key(&key).is_some_and(|(job, _)| unfinished.contains(job)) => {
                plan.unfinished += 1
            }
            // Nothing in it is ever over, however long it was left alone: a sweep that has lost it would begin anew.
            Verdict::Elsewhere if section::is_cover(&stored.record) && !typed.sweeps => plan.sweeps += 1,
            // A section has no tenure, but leases of ranges; and its fences must not begin lower when it is made anew.
            Verdict::Elsewhere
                if key.as_str().starts_with(section::PREFIX)
                    && !section::is_cover(&stored.record)
                    && !section::is_over(&stored, now) =>
            {
                plan.sections += 1
            }
            Verdict::Elsewhere if !collector.may_forget(&stored) => plan.ahead += 1,
            Verdict::Elsewhere if collector.is_ridden(&key) => {}
            Verdict::Elsewhere => plan.remove.push((key, stored)),
            Verdict::Keep => {}
        }
    }
    plan
}

/// Ends sessions, vacates what rode on them and removes, each on condition that the record is still as it was seen.
async fn carry_out(leases: &Leases, plan: &Plan) -> Result<Done, Failure> {
    let store = leases.store();
    let mut nonces = nonces(leases);
    let mut vacant = |seen: &Stored, fence: Fence| {
        let (nonce, stamp) = (nonces.draw(), leases.clock().now().wall);
        Record { fence, nonce, stamp, tenure: None, metadata: seen.record.metadata.clone() }
    };
    let mut ends = Vec::new();
    for (key, seen) in &plan.bury {
        // With a higher fence, as a contender does it: the old process can never renew, and what rode on it is free.
        let floor = Fence::floor(leases.clock().now().wall);
        let Ok(fence) = seen.record.fence.next(floor) else { continue };
        let expect = Expect::Unchanged(seen.version);
        ends.push(Write { key: key.clone(), expect, record: vacant(seen, fence) });
    }
    let ended: Vec<Key> = ends.iter().map(|write| write.key.clone()).collect();
    let outcomes = store.write_all(ends).await?;
    // A session that some other process has ended or renewed meanwhile is a later run's.
    let alive: BTreeSet<Key> = ended
        .into_iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| !is_won(outcome))
        .map(|(key, _)| key)
        .collect();
    let rides_on_live = |seen: &Stored| session_of(seen).is_some_and(|session| alive.contains(session));
    let vacate = plan.vacate.iter().filter(|(_, seen)| !rides_on_live(seen)).map(|(key, seen)| {
        let (expect, record) = (Expect::Unchanged(seen.version), vacant(seen, seen.record.fence));
        Write { key: key.clone(), expect, record }
    });
    let vacated = won(&store.write_all(vacate.collect()).await?);
    let mut removed = 0;
    for (key, stored) in &plan.remove {
        removed += usize::from(store.remove(key, stored.version).await?);
    }
    Ok(Done { removed, buried: won(&outcomes), vacated })
}

fn session_of(stored: &Stored) -> Option<&Key> {
    Some(&stored.record.tenure.as_ref()?.ride.as_ref()?.session)
}

fn is_won(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Won { .. })
}

fn won(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| is_won(outcome)).count()
}
