//! The records in a store: how many of each kind, which of them are damaged, and whose clock is ahead.

use super::findings::{Findings, Grade};
use super::partition::NamespaceLoad;
use crate::exit::Failure;
use crate::output::view::{Sessions, State, View};
use crate::stores::Url;
use crate::text::{brief, count};
use crate::verbs::fleet::{self, Fleets, Health};
use std::time::Duration;
use tenure::store::{Listed, StoreExt};
use tenure::{ErrorKind, Leases, Wall};

/// Goes through all of them. A user who may not list them is told so.
pub(super) async fn check(url: &Url, leases: &Leases, findings: &mut Findings) -> Result<(), Failure> {
    /// More than any clock that is kept by NTP is off.
    const AHEAD: Duration = Duration::from_secs(60);
    let store = leases.store();
    let listing = match store.list_all("").await {
        Ok(listing) => listing,
        Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => {
            findings.add(Grade::Warn, "records", format!("this user may not list them: {error}"));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let now = leases.clock().now().wall;
    let newest = listing
        .iter()
        .filter_map(|listed| listed.stored.as_ref().ok())
        .map(|stored| stored.record.stamp)
        .max();
    if let Some(stamp) = newest.filter(|stamp| Wall(stamp.0).since(now) > AHEAD) {
        let by = brief(stamp.since(now));
        findings.add(
            Grade::Warn,
            "clocks",
            format!("a record was written by a clock that is {by} ahead of this one"),
        );
    }
    check_fleets(&listing, now, findings);
    let mut sessions = Sessions::of(&listing, now);
    let (mut states, mut sections, mut ranges, mut damaged) = ([0; 5], 0, 0, Vec::new());
    let mut load = url.shards().map(NamespaceLoad::new);
    for listed in listing {
        let view = View::of(store, &mut sessions, listed, now).await;
        if let Some(n) = states.get_mut(view.state as usize) {
            *n += 1;
        }
        if let (Some(load), Ok(stored)) = (&mut load, &view.stored) {
            load.see(&view.key, stored, view.state == State::Held);
        }
        if let Some(held) = view.ranges() {
            sections += 1;
            ranges += held;
        }
        if let (State::Damaged, Err(problem)) = (view.state, &view.stored) {
            damaged.push(format!("{}: {problem}", view.key));
        }
    }
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

fn check_fleets(listing: &[Listed], now: Wall, findings: &mut Findings) {
    let mut fleets = Fleets::new();
    let mut all: Vec<Health> = Vec::new();
    for listed in listing {
        all.extend(fleets.add(listed.clone(), now).as_ref().map(fleet::health));
    }
    all.extend(fleets.end().as_ref().map(fleet::health));
    for health in all {
        let grade = if health.problems.is_empty() { Grade::Ok } else { Grade::Warn };
        findings.add(grade, "fleet", [vec![health.counts], health.problems].concat().join("; "));
        for (key, problem) in health.unreadable {
            findings.add(Grade::Fail, "damaged", format!("{key}: {problem}"));
        }
    }
}
