//! `fleet ls`, `fleet units` and `fleet workers`.

use super::gather::Fleets;
use super::snapshot::{Snapshot, UnitSnapshot, UnitStage, WorkerSnapshot, labels};
use crate::args::fleet as args;
use crate::config::fleet as config;
use crate::exit::{self, Failure};
use crate::output;
use crate::output::json_list::JsonList;
use crate::output::problem::RecordProblem;
use crate::stores::pages::{PAGE, Pages};
use crate::stores::{Missing, Url};
use crate::text::{TextTable, brief, count, date, escaped, table};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use tenure::store::reserved::FLEET;
use tenure::{Clock, Key};

pub(super) async fn ls(url: &Url, typed: &args::FleetLsArgs) -> Result<u8, Failure> {
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(Missing::Look, Arc::clone(&clock)).await?;
    let (mut pages, mut fleets) = (Pages::default(), Fleets::new());
    let mut all: Vec<FleetSummary> = Vec::new();
    while let Some(page) = pages.next(&store, FLEET).await? {
        let now = clock.now().wall;
        for listed in page {
            all.extend(fleets.add(listed, now).map(FleetSummary::of));
        }
    }
    all.extend(fleets.end().map(FleetSummary::of));
    if typed.json {
        let fleets: Vec<Json> = all.into_iter().map(|fleet| fleet.json).collect();
        output::json(&json!({"store": url.shown(), "fleets": fleets}))?;
        return Ok(exit::OK);
    }
    if all.is_empty() {
        output::note("there are no fleets");
        return Ok(exit::OK);
    }
    let heading = ["FLEET", "WORKERS", "UNITS", "HELD", "MOVING", "WAITING", "UNCOVERED", "DONE"];
    let rows: Vec<Vec<String>> = all.iter_mut().map(|fleet| std::mem::take(&mut fleet.row)).collect();
    output::print(&table(&heading, &rows))?;
    all.iter().for_each(|fleet| damage(&fleet.damaged));
    Ok(exit::OK)
}

/// What is shown of a fleet among others.
struct FleetSummary {
    row: Vec<String>,
    json: Json,
    damaged: Vec<(Key, RecordProblem)>,
}

impl FleetSummary {
    fn of(fleet: Snapshot) -> FleetSummary {
        FleetSummary { row: summary_row(&fleet), json: summary_json(&fleet), damaged: fleet.damaged }
    }
}

fn summary_row(fleet: &Snapshot) -> Vec<String> {
    let mut row = vec![fleet.name.to_string(), fleet.alive().to_string(), fleet.units.len().to_string()];
    let stages =
        [UnitStage::Held, UnitStage::Moving, UnitStage::Waiting, UnitStage::Uncovered, UnitStage::Done];
    row.extend(stages.map(|stage| fleet.count(stage).to_string()));
    row
}

fn summary_json(fleet: &Snapshot) -> Json {
    let counts = json!({
        "fleet": fleet.name.as_str(),
        "workers": fleet.alive(),
        "units": fleet.units.len(),
        "held": fleet.count(UnitStage::Held),
        "moving": fleet.count(UnitStage::Moving),
        "waiting": fleet.count(UnitStage::Waiting),
        "uncovered": fleet.count(UnitStage::Uncovered),
        "done": fleet.count(UnitStage::Done),
        "outside": fleet.count(UnitStage::Outside),
        "removed": fleet.removed,
        "damaged": fleet.damaged.len(),
        "newer": fleet.newer(),
        "moves": fleet.causes_json(),
    });
    let mut json = counts.as_object().cloned().unwrap_or_default();
    json.extend(fleet.planning_json());
    Json::Object(json)
}

/// What can't be read is said, and left alone.
fn damage(damaged: &[(Key, RecordProblem)]) {
    for (key, problem) in damaged {
        let told = escaped(&problem.to_string());
        let end = if problem.is_newer() { "; it is not damaged" } else { "" };
        output::note(format!("{key}: {told}{end}"));
    }
}

fn damaged_json((key, problem): &(Key, RecordProblem)) -> Json {
    json!({"key": key.as_str(), "problem": problem.to_string(), "newer": problem.is_newer()})
}

pub(super) async fn units(url: &Url, typed: &args::FleetUnitsArgs) -> Result<u8, Failure> {
    let fleet = super::open(url, &config::name(&typed.fleet)?, Missing::Look).await?;
    let snapshot = super::snapshot_of_some(&fleet).await?;
    let pieces = snapshot.units.chunks(PAGE);
    if typed.json {
        let mut list = JsonList::of("units");
        for piece in pieces {
            list.show(piece.iter().map(|unit| snapshot.unit_json(unit)))?;
        }
        let damaged: Vec<Json> = snapshot.damaged.iter().map(damaged_json).collect();
        list.end(&json!({"fleet": snapshot.name.as_str(), "damaged": damaged}))?;
        return Ok(exit::OK);
    }
    if snapshot.units.is_empty() {
        output::note(format!("fleet {} has no units", snapshot.name));
    }
    let mut table = TextTable::new(&UNIT_HEADING);
    for piece in pieces {
        let rows: Vec<Vec<String>> = piece.iter().map(|unit| unit_row(&snapshot, unit)).collect();
        output::print(&table.part(&rows))?;
    }
    damage(&snapshot.damaged);
    Ok(exit::OK)
}

pub(super) const UNIT_HEADING: [&str; 8] =
    ["UNIT", "STATE", "WORKER", "GOES TO", "FENCE", "SINCE", "WEIGHT", "NEEDS"];

pub(super) fn unit_row(snapshot: &Snapshot, unit: &UnitSnapshot) -> Vec<String> {
    let dash = || "-".to_owned();
    let stage = snapshot.stage(unit);
    let goes_to = match snapshot.target_of(unit) {
        Some(Err(reason)) => format!("({})", reason),
        Some(Ok(holder)) if stage != UnitStage::Held => match unit.why {
            Some(why) => format!("{holder} ({})", why.name()),
            None => holder.to_string(),
        },
        _ if unit.stated.spec.pin.is_some() => "(pinned)".to_owned(),
        _ => dash(),
    };
    let owner = snapshot.owner_of(unit).map_or_else(dash, ToString::to_string);
    let is_dead = snapshot.is_owner_dead(unit);
    vec![
        escaped(&unit.name),
        stage.name().to_owned(),
        if is_dead { format!("{owner} (dead)") } else { owner },
        goes_to,
        unit.fence.to_string(),
        unit.since.map_or_else(dash, date),
        unit.stated.spec.weight.to_string(),
        labels(&unit.stated.spec.needs),
    ]
}

pub(super) async fn workers(url: &Url, typed: &args::FleetWorkersArgs) -> Result<u8, Failure> {
    let fleet = super::open(url, &config::name(&typed.fleet)?, Missing::Look).await?;
    let snapshot = super::snapshot_of_some(&fleet).await?;
    if typed.json {
        let workers: Vec<Json> = snapshot.workers.iter().map(|worker| snapshot.worker_json(worker)).collect();
        let mut json = Map::from_iter([("fleet".to_owned(), snapshot.name.as_str().into())]);
        json.extend(snapshot.planning_json());
        json.insert("moves".into(), snapshot.moves_json());
        json.insert("workers".into(), workers.into());
        output::json(&Json::Object(json))?;
    } else if snapshot.workers.is_empty() {
        let units = count(snapshot.units.len(), "unit");
        output::note(format!("fleet {} has no workers, and {units}", snapshot.name));
    } else {
        let rows: Vec<Vec<String>> =
            snapshot.workers.iter().map(|worker| worker_row(&snapshot, worker)).collect();
        output::print(&table(&WORKER_HEADING, &rows))?;
        snapshot.planning_text().into_iter().chain(snapshot.moves_text()).for_each(output::note);
    }
    Ok(exit::OK)
}

pub(super) const WORKER_HEADING: [&str; 8] =
    ["WORKER", "STATE", "UNITS", "PLANNED", "MOST", "RENEWED", "TTL", "LABELS"];

pub(super) fn worker_row(snapshot: &Snapshot, worker: &WorkerSnapshot) -> Vec<String> {
    let role = match () {
        () if snapshot.is_planner(worker) => ", plans",
        () if snapshot.stands_by(worker) => ", stands by",
        () => "",
    };
    let most = match (worker.about.units, worker.about.weight) {
        (u64::MAX, u64::MAX) => "-".to_owned(),
        (units, u64::MAX) => units.to_string(),
        (_, weight) => format!("weight {weight}"),
    };
    vec![
        worker.holder.to_string(),
        format!("{}{role}", worker.state()),
        worker.held.to_string(),
        worker.planned.to_string(),
        most,
        format!("{} ago", brief(worker.age)),
        brief(worker.ttl),
        labels(&worker.about.labels),
    ]
}
