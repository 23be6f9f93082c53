//! The last words of `work`.

use super::board::{Board, Local, UnitCounts};
use super::damaged::DamagedUnit;
use super::failed::Failed;
use crate::exit::Failure;
use crate::keys::JobName;
use crate::output;
use crate::output::problem::RecordProblem;
use crate::text::{brief, count, escaped};
use crate::work::units::text_of;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::{Key, Store, StoreError};

/// What this process has done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Units that it ran with success.
    pub(crate) done: usize,
    /// Units whose runs here have come to an end, good or bad, for `--halt`.
    pub(crate) succeeded: usize,
    pub(crate) failed: usize,
    /// Runs that failed.
    pub(crate) failures: usize,
    /// Units of processes that were dead that it took over.
    pub(crate) taken_over: usize,
    /// Units that it handed back, or lost, without a result.
    pub(crate) handed_back: usize,
}

/// Failed units that are told one by one.
const SHOWN: usize = 10;

/// What the store tells of units that are not done, by their keys.
#[derive(Default)]
pub(crate) struct UnitDetails {
    failed: BTreeMap<Key, Failed>,
    /// Of those whose records are not read as units'.
    damaged: BTreeMap<Key, RecordProblem>,
}

impl UnitDetails {
    /// Of all of them, or of those about which people are told more than their names. Nothing where the store does not answer, which keeps nobody
    /// from being told the rest.
    pub(crate) async fn read(store: &impl Store, board: &Board, of_all: bool) -> UnitDetails {
        let most = if of_all { usize::MAX } else { SHOWN };
        let failed: Vec<Key> = board.keys(Local::Failed).take(most).cloned().collect();
        // Of these, people are told the names alone.
        let damaged: Vec<Key> = board.unread().filter(|_| of_all).map(|(key, _)| key.clone()).collect();
        // Each has its own time: what is known of one is told without the other.
        let (failed, damaged) =
            tokio::join!(in_time(Failed::read(store, &failed)), in_time(DamagedUnit::read(store, &damaged)));
        UnitDetails { failed, damaged }
    }
}

/// What is read, if that does not take long.
async fn in_time<T: Default>(read: impl Future<Output = Result<T, StoreError>>) -> T {
    const LONGEST: Duration = Duration::from_secs(5);
    tokio::time::timeout(LONGEST, read).await.ok().and_then(Result::ok).unwrap_or_default()
}

/// How a job stands when this process ends.
pub(crate) struct JobSummary<'j> {
    name: &'j JobName,
    tally: &'j Tally,
    counts: UnitCounts,
    /// Those of the failed ones that an earlier run recorded.
    bygone: usize,
    failed: Vec<Failed>,
    damaged: Vec<DamagedUnit>,
    removed: Vec<String>,
    took: Duration,
}

impl<'j> JobSummary<'j> {
    /// `details`: what is known of units beside their names.
    pub(crate) fn of(
        name: &'j JobName,
        board: &Board,
        names: &BTreeMap<Key, Vec<u8>>,
        tally: &'j Tally,
        details: UnitDetails,
        took: Duration,
    ) -> JobSummary<'j> {
        let of_key =
            |key: &Key| JobName::of_key(key).map_or_else(Vec::new, |(_, unit)| unit.as_bytes().to_vec());
        let unit = |key: &Key| names.get(key).cloned().unwrap_or_else(|| of_key(key));
        let UnitDetails { mut failed, damaged: mut problems } = details;
        let known = |key: &Key| failed.remove(key).unwrap_or_else(|| Failed::named(unit(key)));
        let failed = board.keys(Local::Failed).map(known).collect();
        let damaged = |(key, is_newer): (&Key, bool)| {
            DamagedUnit::of(key.clone(), Some(unit(key)), problems.remove(key)).seen(is_newer)
        };
        let damaged = board.unread().map(damaged).collect();
        let removed = board.keys(Local::Gone).map(|key| text_of(&unit(key))).collect();
        let (counts, bygone) = (board.counts(), board.bygone());
        JobSummary { name, tally, counts, bygone, failed, damaged, removed, took }
    }

    pub(crate) fn print(&self, as_json: bool) -> Result<(), Failure> {
        // One line, so that it is told from what commands have written before it.
        let written = if as_json { output::print_line(&output::json::line(&self.json())) } else { Ok(()) };
        // What is said to people is said all the same.
        let all_is_well = self.failed.is_empty() && self.damaged.is_empty() && self.removed.is_empty();
        if all_is_well {
            output::tell(self.in_words());
        } else {
            output::note(self.in_words());
            self.note_units();
            self.note_remedies();
        }
        written
    }

    fn json(&self) -> Value {
        let JobSummary { name, tally, counts, bygone, failed, damaged, removed, took } = self;
        json!({
            "job": name.as_str(),
            "units": counts.total(),
            "done": counts.done,
            "failed": counts.failed,
            "damaged": counts.damaged,
            "open": counts.open + counts.ours,
            "removed": counts.gone,
            "failed_before": bygone,
            "failed_units": failed.iter().map(Failed::json).collect::<Vec<_>>(),
            "damaged_units": damaged.iter().map(DamagedUnit::json).collect::<Vec<_>>(),
            "removed_units": removed,
            "here": {
                "done": tally.done,
                "failures": tally.failures,
                "taken_over": tally.taken_over,
                "handed_back": tally.handed_back,
            },
            "seconds": took.as_secs_f64(),
        })
    }

    fn in_words(&self) -> String {
        let JobSummary { name, tally, counts, .. } = self;
        let units = count(counts.total(), "unit");
        let mut text = format!("job \"{}\": {} of {units} done", name.shown(), counts.done);
        let more = |text: &mut String, n: usize, what: &str| {
            if n > 0 {
                text.push_str(&format!(", {n} {what}"));
            }
        };
        more(&mut text, counts.failed, "failed");
        let newer = self.damaged.iter().filter(|unit| unit.is_newer()).count();
        more(&mut text, counts.damaged - newer, "with a damaged record");
        more(&mut text, newer, "that this version can't read");
        more(&mut text, counts.gone, "removed before they were done");
        more(&mut text, counts.open + counts.ours, "open");
        more(&mut text, self.bygone, "of these an earlier run's");
        text.push_str(&format!("; here {} done", tally.done));
        let attempts = if tally.failures == 1 { "failed attempt" } else { "failed attempts" };
        more(&mut text, tally.failures, attempts);
        more(&mut text, tally.taken_over, "taken over from dead processes");
        more(&mut text, tally.handed_back, "handed back");
        format!("{text}, in {}", brief(self.took))
    }

    /// The units that are not done, as many of each kind as people read.
    fn note_units(&self) {
        let failed = self.failed.iter().map(Failed::brief).collect::<Vec<String>>();
        let (newer, damaged): (Vec<_>, Vec<_>) = self.damaged.iter().partition(|unit| unit.is_newer());
        let shown =
            |units: Vec<&DamagedUnit>| units.into_iter().map(DamagedUnit::shown).collect::<Vec<String>>();
        let removed = self.removed.iter().map(|unit| escaped(unit)).collect();
        for (units, what) in [
            (failed, "failed"),
            (shown(damaged), "damaged"),
            (shown(newer), "not read by this version"),
            (removed, "removed"),
        ] {
            for unit in units.iter().take(SHOWN) {
                output::note(format!("  {what}: {unit}"));
            }
            if units.len() > SHOWN {
                let (more, name) = (units.len() - SHOWN, self.name.as_str());
                output::note(format!("  … and {more} more; see `tenure work status {name}`"));
            }
        }
    }

    fn note_remedies(&self) {
        if !self.failed.is_empty() {
            let name = self.name.as_str();
            let job = shlex::try_quote(name).unwrap_or_default();
            // What begins as an option does can't be typed as a word of its own.
            let retry = match name.starts_with('-') {
                true => String::new(),
                false => format!(", or by: tenure work retry {}", escaped(&job)),
            };
            output::note(format!(
                "what has failed is tried again by the same command with --retry-failed{retry}"
            ));
        }
        if !self.removed.is_empty() {
            output::note("a unit whose record was removed is run if it is given again");
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what a newer version may read is told apart from what is damaged, also where the store was not asked; what the store does not tell in
    //! time of some units costs nothing of what it tells of others; and of what people are not told nothing is read.
    use super::*;
    use crate::work::job::unit::Unit;
    use std::ffi::OsStr;
    use tenure::store::{Expect, Record, Write};
    use tenure::{AnyStore, Fence, Metadata, Value, Wall};
    use tenure_store::{Fault, FaultyStore};

    /// A store with a job of a unit that has failed, one whose record is no unit's, and one with a status that is not known here.
    async fn job() -> (FaultyStore<AnyStore>, Board) {
        let store = FaultyStore::new(tenure::memory());
        let paused = Metadata::from([("status".to_owned(), Value::from("paused"))]);
        let failed = Unit::give_up(Unit::fresh(), "why", "h", 7);
        for (unit, metadata) in [("a", failed), ("b", Metadata::new()), ("c", paused)] {
            let key = Key::new(format!("work/j/{unit}")).unwrap();
            let (fence, nonce) = (Fence::default(), Default::default());
            let record = Record { fence, nonce, stamp: Wall(0), tenure: None, metadata };
            store.write(Write { key, expect: Expect::Absent, record }).await.unwrap();
        }
        let mut board = Board::default();
        board.refresh(&store.list("work/j/", None, 9).await.unwrap());
        board.merge();
        (store, board)
    }

    #[tokio::test]
    async fn who_does_not_ask_the_store_tells_units_of_a_newer_version_from_damaged_ones() {
        let (store, board) = job().await;
        let (name, tally) = (JobName::new(OsStr::new("j")).unwrap(), Tally::default());
        let names = BTreeMap::new();
        for details in [UnitDetails::default(), UnitDetails::read(&store, &board, true).await] {
            let summary = JobSummary::of(&name, &board, &names, &tally, details, Duration::ZERO);
            let words = summary.in_words();
            let told =
                ": 0 of 3 units done, 1 failed, 1 with a damaged record, 1 that this version can't read;";
            assert!(words.contains(told), "{words}");
            let json = summary.json();
            let newer = [0_usize, 1].map(|n| json["damaged_units"][n]["newer"].as_bool());
            assert_eq!((newer, json["damaged"].as_u64()), ([Some(false), Some(true)], Some(2)), "{json}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_told_in_time_of_some_units_costs_nothing_of_the_others() {
        let (store, board) = job().await;
        let read = async |of_all, faults: &[Fault]| {
            store.inject(faults.iter().copied());
            let UnitDetails { failed, damaged } = UnitDetails::read(&store, &board, of_all).await;
            (failed.len(), damaged.len())
        };
        assert_eq!(read(true, &[Fault::None; 2]).await, (1, 2));
        assert_eq!(read(true, &[Fault::None, Fault::Hang]).await, (1, 0));
        assert_eq!(read(true, &[Fault::Hang, Fault::None]).await, (0, 2));
        // People are told no more than the names of those whose records are not read.
        store.always(Fault::Hang);
        assert_eq!(read(false, &[Fault::None]).await, (1, 0));
    }
}
