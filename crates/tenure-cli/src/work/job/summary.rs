//! The last words of `work`.

use super::board::{Board, Local};
use super::failed::Failed;
use crate::exit::Failure;
use crate::keys::JobName;
use crate::output;
use crate::text::{brief, count, escaped};
use crate::work::units::text_of;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::{Key, Store};

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

/// What the store tells of units that have failed: of all of them, or of those that people are told. Nothing where it does not answer,
/// which keeps nobody from being told the rest.
pub(crate) async fn failed(store: &impl Store, board: &Board, of_all: bool) -> BTreeMap<Key, Failed> {
    const LONGEST: Duration = Duration::from_secs(5);
    let keys = board.keys(Local::Failed).take(if of_all { usize::MAX } else { SHOWN });
    let keys: Vec<Key> = keys.cloned().collect();
    let read = tokio::time::timeout(LONGEST, Failed::read(store, &keys)).await;
    read.unwrap_or_else(|_| Ok(BTreeMap::new())).unwrap_or_default()
}

/// `failed`: what is known of the failed units beside their names.
pub(crate) fn print(
    name: &JobName,
    board: &Board,
    names: &BTreeMap<Key, Vec<u8>>,
    tally: &Tally,
    failed: &mut BTreeMap<Key, Failed>,
    took: Duration,
    as_json: bool,
) -> Result<(), Failure> {
    let counts = board.counts();
    let of_key = |key: &Key| JobName::of_key(key).map_or_else(Vec::new, |(_, unit)| unit.as_bytes().to_vec());
    let unit = |key: &Key| names.get(key).cloned().unwrap_or_else(|| of_key(key));
    let known = |key: &Key| failed.remove(key).unwrap_or_else(|| Failed::named(unit(key)));
    let bad: Vec<Failed> = board.keys(Local::Failed).map(known).collect();
    let text = |key: &Key| text_of(&unit(key));
    let damaged: Vec<String> = board.keys(Local::Damaged).map(text).collect();
    let removed: Vec<String> = board.keys(Local::Gone).map(text).collect();
    let mut written = Ok(());
    if as_json {
        let document = json!({
            "job": name.as_str(),
            "units": counts.total(),
            "done": counts.done,
            "failed": counts.failed,
            "damaged": counts.damaged,
            "open": counts.open + counts.ours,
            "removed": counts.gone,
            "failed_before": board.bygone(),
            "failed_units": bad.iter().map(Failed::json).collect::<Vec<_>>(),
            "damaged_units": damaged,
            "removed_units": removed,
            "here": {
                "done": tally.done,
                "failures": tally.failures,
                "taken_over": tally.taken_over,
                "handed_back": tally.handed_back,
            },
            "seconds": took.as_secs_f64(),
        });
        // What is said to people is said all the same.
        // One line, so that it is told from what commands have written before it.
        written = output::print_line(&output::json::line(&document));
    }
    let mut text =
        format!("job \"{}\": {} of {} done", name.shown(), counts.done, count(counts.total(), "unit"));
    for (n, what) in [
        (counts.failed, "failed"),
        (counts.damaged, "with a damaged record"),
        (counts.gone, "removed before they were done"),
        (counts.open + counts.ours, "open"),
        (board.bygone(), "of these an earlier run's"),
    ] {
        if n > 0 {
            text.push_str(&format!(", {n} {what}"));
        }
    }
    text.push_str(&format!("; here {} done", tally.done));
    for (n, what) in [
        (tally.failures, "failed attempts"),
        (tally.taken_over, "taken over from dead processes"),
        (tally.handed_back, "handed back"),
    ] {
        if n > 0 {
            text.push_str(&format!(", {n} {what}"));
        }
    }
    let text = format!("{text}, in {}", brief(took));
    if bad.is_empty() && damaged.is_empty() && removed.is_empty() {
        output::tell(text)
    } else {
        output::note(text)
    }
    let bad: Vec<String> = bad.iter().map(Failed::brief).collect();
    let [damaged, removed] =
        [damaged, removed].map(|units| units.iter().map(|unit| escaped(unit)).collect::<Vec<String>>());
    for (units, what) in [(&bad, "failed"), (&damaged, "damaged"), (&removed, "removed")] {
        for unit in units.iter().take(SHOWN) {
            output::note(format!("  {what}: {unit}"));
        }
        if units.len() > SHOWN {
            output::note(format!(
                "  … and {} more; see `tenure work status {}`",
                units.len() - SHOWN,
                name.as_str()
            ));
        }
    }
    if !bad.is_empty() {
        let job = shlex::try_quote(name.as_str()).unwrap_or_default();
        // What begins as an option does can't be typed as a word of its own.
        let retry = match name.as_str().starts_with('-') {
            true => String::new(),
            false => format!(", or by: tenure work retry {}", escaped(&job)),
        };
        output::note(format!(
            "what has failed is tried again by the same command with --retry-failed{retry}"
        ));
    }
    if !removed.is_empty() {
        output::note("a unit whose record was removed is run if it is given again");
    }
    written
}
