//! What `doctor` has to say about a fleet.

use super::snapshot::{Snapshot, UnitStage};
use crate::output::problem::RecordProblem;
use crate::text::count;
use tenure::Key;

/// How a fleet does.
#[derive(Debug)]
pub(crate) struct Health {
    /// In numbers.
    pub(crate) counts: String,
    /// What does not go as it should, and does not mend itself.
    pub(crate) problems: Vec<String>,
    /// Units whose records are whole, but say nothing that makes sense of a unit.
    pub(crate) unreadable: Vec<(Key, RecordProblem)>,
}

pub(crate) fn health(snapshot: &Snapshot) -> Health {
    let name = &snapshot.name;
    let (workers, units) = (count(snapshot.alive(), "worker"), count(snapshot.units.len(), "unit"));
    let counts = format!("{name}: {workers}, {units}, {} held", snapshot.count(UnitStage::Held));
    let mut problems = Vec::new();
    for worker in snapshot.workers.iter().filter(|worker| worker.is_alive() && !worker.is_of_this_layout) {
        let holder = &worker.holder;
        problems.push(format!(
            "{holder} is of another version of tenure, which divides units in another way: stop it, and start it with one version"
        ));
    }
    match snapshot.count(UnitStage::Uncovered) {
        0 => {}
        n if snapshot.alive() == 0 => {
            problems.push(format!(
                "{} and no worker: start one with `tenure work --forever`, or forget the fleet (`tenure fleet rm --all`)",
                count(n, "open unit")
            ));
        }
        n => {
            let units = count(n, "unit");
            problems.push(format!("{units} that no worker can have: see `tenure fleet units {name}`"));
        }
    }
    match snapshot.count(UnitStage::Outside) {
        0 => {}
        n => problems.push(format!("{} held from outside the fleet", count(n, "unit"))),
    }
    Health { counts, problems, unreadable: snapshot.unreadable.clone() }
}
