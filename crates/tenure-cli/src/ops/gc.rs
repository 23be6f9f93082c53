//! `gc`: removes what nobody has held, or touched, for a long time.

use super::seize::nonces;
use crate::args;
use crate::exit::{self, Failure};
use crate::fleet::picture;
use crate::fleet::upkeep::{Upkeep, Verdict};
use crate::meant;
use crate::say;
use crate::stores::Url;
use crate::text::{brief, count};
use crate::view::is_session;
use crate::work::unit::{JobName, Status, Unit};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure::range as section;
use tenure::{Expect, Fence, Key, Leases, Listed, Outcome, Record, Store, StoreExt, Stored, Wall, Write};

/// What is to be done about records.
#[derive(Debug, Default)]
struct Plan {
    /// Of no use to anybody, and old by both clocks.
    remove: Vec<(Key, Stored)>,
    /// Sessions of processes that died long ago, vacated now and removed by a later run.
    bury: Vec<(Key, Stored)>,
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
    let listing = leases.store().list_all(&prefix).await?;
    // Whether a job is finished can't be told from a part of it.
    let jobs = leases.store().list_all(crate::work::unit::ROOT).await?;
    let fleets = Upkeep::of(&leases.store().list_all(picture::ROOT).await?);
    let plan = plan(listing, &unfinished(&jobs), &fleets, typed, leases.clock().now().wall);
    let (n, age) = (count(plan.remove.len(), "record"), brief(typed.older_than));
    if !typed.json {
        say::note(format!(
            "{n} vacant for more than {age}; {} of dead processes",
            count(plan.bury.len(), "session")
        ));
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
    let nothing = plan.remove.is_empty() && plan.bury.is_empty();
    let mut done = (0, 0);
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
            "removed": done.0,
            "sessions_ended": done.1,
            "kept_for_unfinished_jobs": plan.unfinished,
            "kept_sections": plan.sections,
            "kept_sweeps": plan.sweeps,
            "kept_for_fleets": plan.in_fleets,
            "damaged": plan.damaged,
        }))?;
    } else if !typed.dry_run {
        say::note(format!("{} removed", count(done.0, "record")));
    }
    Ok(exit::OK)
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

fn plan(
    listing: Vec<Listed>,
    unfinished: &BTreeSet<String>,
    fleets: &Upkeep,
    typed: &args::Gc,
    now: Wall,
) -> Plan {
    let older_than = typed.older_than;
    let mut plan = Plan::default();
    for Listed { key, stored } in listing {
        let Ok(stored) = stored else {
            plan.damaged += 1;
            continue;
        };
        // Both clocks must say so; without the store's, the wall clocks alone would decide.
        let by_wall = now.since(stored.record.stamp);
        let is_older = |than: Duration| by_wall >= than && stored.age.is_some_and(|age| age >= than);
        let is_vacant = stored.record.tenure.is_none();
        if let Some(tenure) = &stored.record.tenure
            && is_session(&key)
        {
            if tenure.ride.is_none() && is_older(older_than.max(tenure.ttl.duration() * 2)) {
                plan.bury.push((key, stored));
            }
            continue;
        }
        if !is_older(older_than) {
            continue;
        }
        match fleets.judge(&key, &stored) {
            Verdict::Remove => plan.remove.push((key, stored)),
            Verdict::Keep if is_vacant => plan.in_fleets += 1,
            Verdict::Damaged => plan.damaged += 1,
            Verdict::Elsewhere if !is_vacant => {}
            Verdict::Elsewhere if JobName::of_key(&key).is_some_and(|(job, _)| unfinished.contains(job)) => {
                plan.unfinished += 1
            }
            // Nothing in it is ever over, however long it was left alone: a sweep that has lost it would begin anew.
            Verdict::Elsewhere if section::is_cover(&stored.record) => {
                if typed.sweeps {
                    plan.remove.push((key, stored));
                } else {
                    plan.sweeps += 1;
                }
            }
            // A section has no tenure, but leases of ranges; and its fences must not begin lower when it is made anew.
            Verdict::Elsewhere
                if key.as_str().starts_with(section::PREFIX) && !section::is_over(&stored, now) =>
            {
                plan.sections += 1
            }
            Verdict::Elsewhere => plan.remove.push((key, stored)),
            Verdict::Keep => {}
        }
    }
    plan
}

/// Removes and buries, each on condition that the record is still as it was seen.
async fn carry_out(leases: &Leases, plan: &Plan) -> Result<(usize, usize), Failure> {
    let store = leases.store();
    let mut removed = 0;
    for (key, stored) in &plan.remove {
        removed += usize::from(store.remove(key, stored.version).await?);
    }
    let mut nonces = nonces(leases);
    let mut writes = Vec::new();
    for (key, stored) in &plan.bury {
        let stamp = leases.clock().now().wall;
        // With a higher fence, as a contender does it: the old process can never renew, and what rode on it is free.
        let Ok(fence) = stored.record.fence.next(Fence::floor(stamp)) else { continue };
        let record = Record {
            fence,
            nonce: nonces.draw(),
            stamp,
            tenure: None,
            metadata: stored.record.metadata.clone(),
        };
        writes.push(Write { key: key.clone(), expect: Expect::Unchanged(stored.version), record });
    }
    let outcomes = store.write_all(writes).await?;
    let buried = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).count();
    Ok((removed, buried))
}
