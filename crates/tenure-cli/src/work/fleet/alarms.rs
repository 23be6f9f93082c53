//! What does not go as it should in the fleet of a worker, said once each.

use crate::output;
use crate::text::escaped;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure::clock::boottime;
use tenure::fleet::{Summary, Uncovered, Worker};
use tenure::{Key, Latest, StoreError};

/// Listens to what a worker finds, and says what is new of it.
pub(super) struct Alarms {
    fleet: String,
    summaries: Latest<Summary>,
    trouble: Latest<Option<StoreError>>,
    said: Said,
    is_leaving: bool,
}

/// What was said, and is still so.
#[derive(Debug, Default)]
struct Said {
    /// In the order of their keys.
    uncovered: Vec<(Key, Uncovered)>,
    damaged: BTreeSet<Key>,
    /// By text: when it happened last.
    troubles: BTreeMap<String, Duration>,
    /// What has not happened for so long may be said again.
    memory: Duration,
}

/// No more are named at a time.
const NAMED: usize = 5;

impl Alarms {
    pub(super) fn of(worker: &Worker, ttl: Duration) -> Alarms {
        let memory = (ttl * 10).max(Duration::from_secs(60));
        Alarms {
            fleet: worker.fleet().name().to_string(),
            summaries: worker.summaries(),
            trouble: worker.troubles(),
            said: Said { memory, ..Said::default() },
            is_leaving: false,
        }
    }

    /// From now on the worker leaves. Whoever leaves alone leaves all units to nobody, on purpose.
    pub(super) fn leaving(&mut self) {
        self.is_leaving = true;
    }

    /// Says what is new.
    pub(super) fn sound(&mut self) {
        let mut lines = Vec::new();
        if self.summaries.has_changed().unwrap_or(false) {
            let mut summary = self.summaries.get_and_update();
            if self.is_leaving {
                summary.uncovered.clear();
            }
            lines = self.said.planned(&self.fleet, &summary);
        }
        if self.trouble.has_changed().unwrap_or(false) {
            let error = self.trouble.get_and_update();
            lines.extend(error.as_ref().and_then(|error| self.said.troubled(error, boottime())));
        }
        for line in lines {
            output::note(line);
        }
    }
}

impl Said {
    fn planned(&mut self, fleet: &str, summary: &Summary) -> Vec<String> {
        // There may be a million of them.
        let mut now = summary.uncovered.clone();
        now.sort_unstable();
        let new = now.iter().filter(|unit| self.uncovered.binary_search(unit).is_err());
        let new = new
            .map(|(key, reason)| move || format!("{}: no worker can have this unit: {}", shown(key), reason));
        let mut lines = some(fleet, new);
        self.uncovered = now;
        let new = summary.damaged.iter().filter(|(key, _)| !self.damaged.contains(key));
        let new = new.map(|(key, error)| move || format!("{}: {}", shown(key), escaped(&error.to_string())));
        lines.extend(some(fleet, new));
        self.damaged = summary.damaged.iter().map(|(key, _)| key.clone()).collect();
        lines
    }

    fn troubled(&mut self, error: &StoreError, now: Duration) -> Option<String> {
        self.troubles.retain(|_, last| now.saturating_sub(*last) < self.memory);
        let text = escaped(&error.to_string());
        let is_new = self.troubles.insert(text.clone(), now).is_none();
        is_new.then(|| format!("the fleet can't be looked at: {text}"))
    }
}

fn shown(key: &Key) -> String {
    escaped(key.as_str())
}

/// The first lines, and how many more there would be.
fn some(fleet: &str, mut all: impl Iterator<Item = impl FnOnce() -> String>) -> Vec<String> {
    let mut lines: Vec<String> = all.by_ref().take(NAMED).map(|line| line()).collect();
    let more = all.count();
    if more > 0 {
        lines.push(format!("so it is with {more} more: see `tenure fleet units {}`", escaped(fleet)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Key {
        Key::new(format!("fleet/f/unit/u{n}")).unwrap()
    }

    #[test]
    fn each_is_said_once_until_it_was_well_again() {
        let mut said = Said::default();
        let uncovered = (0..7).map(|n| (key(n), Uncovered::NoRoom)).collect();
        let damaged = vec![(key(9), StoreError::foreign("cut\noff"))];
        let mut summary = Summary::default();
        (summary.uncovered, summary.damaged) = (uncovered, damaged);
        let lines = said.planned("f", &summary);
        assert_eq!(lines.len(), 7, "{lines:?}");
        assert_eq!(lines[0], "fleet/f/unit/u0: no worker can have this unit: all workers are full");
        assert_eq!(lines[5], "so it is with 2 more: see `tenure fleet units f`");
        assert!(lines[6].starts_with("fleet/f/unit/u9: ") && !lines[6].contains('\n'), "{lines:?}");
        assert_eq!(said.planned("f", &summary), Vec::<String>::new());
        summary.uncovered[0].1 = Uncovered::NoLabels;
        assert_eq!(
            said.planned("f", &summary),
            ["fleet/f/unit/u0: no worker can have this unit: no worker has its labels"]
        );
        assert_eq!(said.planned("f", &Summary::default()), Vec::<String>::new());
        assert_eq!(said.planned("f", &summary).len(), 7);
    }

    #[test]
    fn trouble_that_goes_on_is_said_once() {
        let mut said = Said { memory: Duration::from_secs(60), ..Said::default() };
        let mut says = |what: &str, at: u64| {
            said.troubled(&StoreError::unavailable(what), Duration::from_secs(at)).is_some()
        };
        assert!(says("away", 0) && !says("away", 50) && !says("away", 100) && says("full", 101));
        assert!(says("away", 161), "it was well again");
    }
}
