//! The records in a store: how many of each kind, which of them are damaged, and whose clock is ahead.

use super::findings::{Findings, Grade};
use super::partition::NamespaceLoad;
use crate::exit::Failure;
use crate::output::problem::RecordProblem;
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
    let (mut states, mut sections, mut ranges, mut unread) = ([0; 5], 0, 0, UnreadRecords::default());
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
            let state = match (&problem, &view.stored) {
                (Some(problem), _) if !problem.is_newer() => State::Damaged,
                // It may be anything for the version that knows it.
                (Some(_), Err(_)) => State::Unknown,
                _ => view.state,
            };
            if let Some(n) = states.get_mut(state as usize) {
                *n += 1;
            }
            if let Some(problem) = &problem {
                unread.add(&view.key, problem);
            }
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
    for (key, problem) in health.iter().flat_map(|health| &health.unreadable) {
        unread.add(key, problem);
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
    findings.newer(&unread.newer);
    findings.damaged(&unread.damaged);
    Ok(())
}

/// What this version does not read, each with its key and why.
#[derive(Default)]
struct UnreadRecords {
    /// By a newer version, as it seems.
    newer: Vec<String>,
    damaged: Vec<String>,
}

impl UnreadRecords {
    fn add(&mut self, key: &Key, problem: &RecordProblem) {
        let unread = if problem.is_newer() { &mut self.newer } else { &mut self.damaged };
        unread.push(format!("{key}: {problem}"));
    }
}

/// Whether what is wrong with it is known by its fleet.
fn is_told(key: &Key) -> bool {
    matches!(FleetKey::of(key), Some((_, FleetKey::Unit(_))))
}

fn add_fleets(all: Vec<Health>, findings: &mut Findings) {
    for health in all {
        let grade = if health.problems.is_empty() { Grade::Ok } else { Grade::Warn };
        findings.add(grade, "fleet", [vec![health.counts], health.problems].concat().join("; "));
    }
}
