//! The records in a store: how many of each kind, which of them are damaged, and whose clock is ahead.

use super::findings::{Findings, Grade};
use super::partition::NamespaceLoad;
use crate::exit::Failure;
use crate::output::view::{Sessions, State, View};
use crate::stores::Url;
use crate::stores::pages::Pages;
use crate::text::{brief, count};
use crate::verbs::fleet::{self, Fleets, Health};
use crate::verbs::rm::misread;
use std::time::Duration;
use tenure::fleet::FleetKey;
use tenure::store::Stored;
use tenure::{ErrorKind, Key, Leases, Wall};

/// Goes through all of them, page by page. A user who may not list them is told so.
pub(super) async fn check(url: &Url, leases: &Leases, findings: &mut Findings) -> Result<(), Failure> {
    /// More than any clock that is kept by NTP is off.
    const AHEAD: Duration = Duration::from_secs(60);
    let store = leases.store();
    let (mut pages, mut sessions) = (Pages::default(), Sessions::default());
    let (mut newest, mut fleets, mut health) = (None, Fleets::new(), Vec::new());
    let (mut states, mut sections, mut ranges, mut damaged) = ([0; 5], 0, 0, Vec::new());
    let mut load = url.shards().map(NamespaceLoad::new);
    loop {
        let page = match pages.next(store, "").await {
            Ok(Some(page)) => page,
            Ok(None) => break,
            Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => {
                findings.add(Grade::Warn, "records", format!("this user may not list them: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let now = leases.clock().now().wall;
        sessions.follow(store, &page, now).await?;
        for listed in page {
            if let Ok(stored) = &listed.stored {
                newest = newest.max(Some(stored.record.stamp));
            }
            health.extend(fleets.add(listed.clone(), now).as_ref().map(fleet::health));
            let view = View::of(store, &mut sessions, listed, now).await;
            if let (Some(load), Ok(stored)) = (&mut load, &view.stored) {
                load.see(&view.key, stored, view.state == State::Held);
            }
            if let Some(held) = view.ranges() {
                sections += 1;
                ranges += held;
            }
            let problem = match &view.stored {
                Err(problem) => Some(problem.clone()),
                // What can be read may still be none of what its key says. Nobody is at work with it who would find that.
                Ok(Stored { record, .. }) if record.tenure.is_none() && !is_told(&view.key) => {
                    misread(&view.key, record, now)
                }
                Ok(_) => None,
            };
            let state = if problem.is_some() { State::Damaged } else { view.state };
            if let Some(n) = states.get_mut(state as usize) {
                *n += 1;
            }
            damaged.extend(problem.map(|problem| format!("{}: {problem}", view.key)));
        }
    }
    health.extend(fleets.end().as_ref().map(fleet::health));
    let now = leases.clock().now().wall;
    if let Some(stamp) = newest.filter(|stamp: &Wall| stamp.since(now) > AHEAD) {
        let by = brief(stamp.since(now));
        findings.add(
            Grade::Warn,
            "clocks",
            format!("a record was written by a clock that is {by} ahead of this one"),
        );
    }
    add_fleets(health, findings);
    let [held, vacant, expired, bad, unknown] = states;
    let unknown = if unknown > 0 { format!(", {unknown} unknown") } else { String::new() };
    findings.add(
        Grade::Ok,
        "records",
        format!("{held} held, {vacant} vacant, {expired} expired, {bad} damaged{unknown}"),
    );
    if sections > 0 {
        let text = format!("{} held in {}", count(ranges, "range"), count(sections, "section"));
        findings.add(Grade::Ok, "ranges", text);
    }
    if let Some(load) = load {
        load.tell(findings);
    }
    findings.damaged(&damaged);
    Ok(())
}

/// Whether what is wrong with it is told with its fleet.
fn is_told(key: &Key) -> bool {
    matches!(FleetKey::of(key), Some((_, FleetKey::Unit(_))))
}

fn add_fleets(all: Vec<Health>, findings: &mut Findings) {
    for health in all {
        let grade = if health.problems.is_empty() { Grade::Ok } else { Grade::Warn };
        findings.add(grade, "fleet", [vec![health.counts], health.problems].concat().join("; "));
        for (key, problem) in health.unreadable {
            findings.add(Grade::Fail, "damaged", format!("{key}: {problem}"));
        }
    }
}
