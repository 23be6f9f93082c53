//! Who plans a fleet, and what moves by the plan: from whom, to whom, and why.

use super::{Snapshot, WorkerSnapshot};
use crate::text::{brief, count, date};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::fleet::{Cause, Planning};
use tenure::{HolderId, Wall};
use tenure_core::time::millis;

/// What the board says.
#[derive(Debug)]
pub(crate) struct BoardView {
    /// The index of the planner; none if there is none, or it is dead.
    pub(in crate::verbs::fleet) planner: Option<usize>,
    pub(in crate::verbs::fleet) planning: Planning,
    /// When something changed that wants a plan, or the plan was told, whichever was last.
    pub(in crate::verbs::fleet) changed: Wall,
}

/// From whom, to whom and why, and how many units.
type Moves<'a> = BTreeMap<(Option<&'a HolderId>, &'a HolderId, Cause), usize>;

impl Snapshot {
    /// The worker that plans.
    pub(crate) fn planner(&self) -> Option<&WorkerSnapshot> {
        self.workers.get(self.board.as_ref()?.planner?)
    }

    pub(crate) fn is_planner(&self, worker: &WorkerSnapshot) -> bool {
        self.planner().is_some_and(|planner| planner.holder == worker.holder)
    }

    /// Whether it is to take the planner's place.
    pub(crate) fn stands_by(&self, worker: &WorkerSnapshot) -> bool {
        let is_named = |board: &BoardView| board.planning.standbys.contains(&worker.holder);
        worker.is_alive() && !self.is_planner(worker) && self.board.as_ref().is_some_and(is_named)
    }

    fn standbys(&self) -> Vec<&HolderId> {
        let standbys = self.workers.iter().filter(|worker| self.stands_by(worker));
        standbys.map(|worker| &worker.holder).collect()
    }

    /// The number of the plan that the living planner told last.
    fn plan_number(&self) -> Option<u64> {
        self.board.as_ref().and_then(|board| board.planning.plan)
    }

    /// How long ago that was.
    fn plan_age(&self) -> Option<Duration> {
        let told = self.board.as_ref()?.planning.told?;
        Some(self.now.since(told))
    }

    /// What is not where the plan has it.
    fn moves(&self) -> Moves<'_> {
        let mut moves = Moves::new();
        for unit in &self.units {
            if let (Some(why), Some(Ok(to))) = (unit.why, self.target_of(unit)) {
                *moves.entry((self.owner_of(unit), to, why)).or_default() += 1;
            }
        }
        moves
    }

    /// The same by cause alone.
    fn causes(&self) -> BTreeMap<Cause, usize> {
        tenure_core::fleet::plan::count(self.units.iter().filter_map(|unit| unit.why))
    }

    /// How many move for each cause, for people; none if nothing moves.
    pub(crate) fn causes_text(&self) -> Option<String> {
        let texts = self.causes().into_iter().map(|(why, units)| format!("{units} {}", why.name()));
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// Who plans, who stands by, and how old what the planner knows is, for people.
    pub(crate) fn planning_text(&self) -> Option<String> {
        let board = self.board.as_ref()?;
        let planner = match self.planner() {
            Some(planner) => format!("{} plans", planner.holder),
            None => "nobody plans".to_owned(),
        };
        let age = self.plan_age().map_or_else(String::new, |age| format!(" {} ago", brief(age)));
        let plan = self.plan_number().map_or_else(String::new, |plan| format!(", plan {plan} was told{age}"));
        let standbys = match self.standbys()[..] {
            [] => String::new(),
            [one] => format!(", {one} stands by"),
            ref several => {
                let names: Vec<String> = several.iter().map(ToString::to_string).collect();
                format!(", {} stand by", names.join(" and "))
            }
        };
        let changed = brief(self.now.since(board.changed));
        Some(format!("{planner}{plan}{standbys}, last change {changed} ago"))
    }

    /// What moves from whom to whom, the most first, for people.
    pub(crate) fn moves_text(&self) -> Vec<String> {
        /// No more are named at a time.
        const NAMED: usize = 10;
        let mut moves: Vec<_> = self.moves().into_iter().collect();
        moves.sort_by_key(|(_, units)| std::cmp::Reverse(*units));
        let rest = moves.split_off(moves.len().min(NAMED));
        let text = |((from, to, why), units): &((Option<&HolderId>, &HolderId, Cause), usize)| {
            let from = from.map_or_else(|| "nobody".to_owned(), ToString::to_string);
            format!("{} from {from} to {to}: {why}", count(*units, "unit"))
        };
        let mut lines: Vec<String> = moves.iter().map(text).collect();
        let more: usize = rest.iter().map(|(_, units)| units).sum();
        if more > 0 {
            lines.push(format!("{} more: see `tenure fleet units {}`", count(more, "unit"), self.name));
        }
        lines
    }

    /// As each verb's JSON tells it.
    pub(crate) fn planning_json(&self) -> Map<String, Json> {
        let board = self.board.as_ref();
        let told = board.and_then(|board| board.planning.told);
        let told = told.map(date);
        let mut json = Map::new();
        json.insert("planner".into(), json!(self.planner().map(|planner| planner.holder.as_str())));
        json.insert("standbys".into(), self.standbys().into_iter().map(HolderId::as_str).collect());
        json.insert("plan".into(), json!(self.plan_number()));
        json.insert("plan_told".into(), json!(told));
        json.insert("plan_age_ms".into(), json!(self.plan_age().map(millis)));
        json.insert("changed".into(), json!(board.map(|board| date(board.changed))));
        json
    }

    pub(crate) fn causes_json(&self) -> Json {
        let causes = self.causes().into_iter().map(|(why, units)| (why.name().to_owned(), json!(units)));
        Json::Object(causes.collect())
    }

    pub(crate) fn moves_json(&self) -> Json {
        let json = |((from, to, why), units): ((Option<&HolderId>, &HolderId, Cause), usize)| json!({"from": from.map(HolderId::as_str), "to": to.as_str(), "why": why.name(), "units": units});
        self.moves().into_iter().map(json).collect()
    }
}

#[cfg(test)]
mod tests;
