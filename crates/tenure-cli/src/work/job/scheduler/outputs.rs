//! What commands have written, on its way out. A run is recorded once its output is out, so that a unit that is done has been seen. Where
//! outputs are saved (`--results`), it is recorded once that is done, and whoever reads them is not waited for.

use super::pending::UnitResult;
use crate::work::job::pieces::capture::Captured;
use crate::work::job::pieces::printer::{Piece, Printer, Way};
use crate::work::job::pieces::saver::Saver;
use crate::work::job::slots::EndedUnit;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tenure::{Guard, Key};

/// Pieces that may wait to be written, beside one for each slot, before nothing more is started. Each keeps two files open and lies in
/// `TMPDIR`, of which there is only so much. All slots may end at once; and a printer that keeps up writes a few dozen pieces in the time
/// of the shortest run, so that no slot waits for it.
const MOST_WAITING: usize = 32;

/// A run that is over, whose output is on its way out.
pub(super) struct Unwritten {
    pub(super) since: Duration,
    pub(super) key: Key,
    pub(super) guard: Guard,
    pub(super) ended: EndedUnit,
    pub(super) tail: Option<String>,
    /// Who saves its piece sees by this that it is waited for.
    pub(super) _waits: Arc<()>,
}

/// A run whose output waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    run: usize,
    /// The unit's.
    place: usize,
}

/// What follows from a run that is over.
pub(super) enum Next {
    /// It is to be gone on with once its output is out.
    Later,
    /// Nothing waits for its output, unless it is kept and its unit has a result.
    Now(Unwritten, Option<Kept>),
}

/// The outputs of this process's runs.
pub(super) struct Outputs {
    /// None where outputs pass through as they come, and once all is out.
    printer: Option<Printer>,
    /// Where outputs are saved before they are written.
    saver: Option<Saver>,
    /// Runs whose outputs are being saved, with the places of their units.
    unsaved: BTreeMap<usize, (Option<usize>, Unwritten)>,
    unwritten: BTreeMap<usize, Unwritten>,
    /// Results of units whose outputs wait for their turn (`--keep-order`).
    kept: BTreeMap<usize, (Kept, UnitResult)>,
    /// Those whose turn has come, in that order, and since when.
    due: VecDeque<(Duration, usize, UnitResult)>,
    /// Since when nothing more comes, and no turn is waited for.
    ending_since: Option<Duration>,
    /// The next look for leases that were lost.
    next_look: Duration,
    /// What is on its way out won't get there.
    is_unwritable: bool,
    /// There was no room for what a command wrote.
    is_full: bool,
}

impl Outputs {
    pub(super) fn new(printer: Option<Printer>, saver: Option<Saver>) -> Outputs {
        Outputs {
            printer,
            saver,
            unsaved: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            kept: BTreeMap::new(),
            due: VecDeque::new(),
            ending_since: None,
            next_look: Duration::ZERO,
            is_unwritable: false,
            is_full: false,
        }
    }

    /// How many runs wait for theirs to be saved, or out.
    pub(super) fn unwritten(&self) -> usize {
        self.unsaved.len() + self.unwritten.len() + self.kept.len() + self.due.len()
    }

    /// How many runs wait for theirs to be saved.
    pub(super) fn unsaved(&self) -> usize {
        self.unsaved.len()
    }

    /// How many pieces may be on their way out.
    fn most(slots: usize) -> usize {
        MOST_WAITING.saturating_add(slots)
    }

    /// Whether so much waits for the disk, or for whoever reads it, that nothing more is to be started. What waits for its turn does not count:
    /// the unit whose turn it is may have to be started.
    pub(super) fn is_behind(&self, slots: usize) -> bool {
        let waiting = self.printer.as_ref().map_or(0, Printer::unwritten);
        self.unsaved.len() + waiting >= Outputs::most(slots)
    }

    /// Whether some of this may be missing. What ran while there was no room may have lost some of it, though there is room by now.
    pub(super) fn is_cut(&mut self, captured: &Captured) -> bool {
        self.is_full |= captured.is_cut();
        self.is_full
    }

    /// Has the piece saved where that is wanted, or else written, for a unit in this place.
    pub(super) fn write(
        &mut self,
        place: Option<usize>,
        run: usize,
        piece: Option<Piece>,
        of: Unwritten,
    ) -> Next {
        let (Some(printer), Some(piece)) = (&mut self.printer, piece) else { return Next::Now(of, None) };
        if let Some(saver) = &self.saver {
            saver.save(piece);
            self.unsaved.insert(run, (place, of));
            return Next::Later;
        }
        match printer.print(place, piece) {
            Way::Out => {
                self.unwritten.insert(run, of);
                Next::Later
            }
            Way::Kept => Next::Now(of, place.map(|place| Kept { run, place })),
            Way::Nowhere => Next::Now(of, None),
        }
    }

    /// The piece is saved, and is written in its turn. One whose run was given up meanwhile is written by whoever runs the unit again.
    pub(super) fn on_saved(&mut self, piece: Piece) -> Option<Unwritten> {
        let (place, run) = self.unsaved.remove(&piece.run)?;
        if let Some(printer) = &mut self.printer {
            // Nothing waits for that.
            let _way = printer.print(place, piece);
        }
        Some(run)
    }

    /// A unit has this result, which is to be recorded once the output is out.
    pub(super) fn keep(&mut self, kept: Kept, result: UnitResult) {
        if let Some(printer) = &mut self.printer {
            printer.end_of(kept.place);
        }
        self.kept.insert(kept.run, (kept, result));
    }

    /// Where outputs are in the order of units: writes those whose turn it is, and no more at a time than are written elsewhere.
    pub(super) fn go_on(
        &mut self,
        placed: usize,
        slots: usize,
        now: Duration,
        is_over: impl Fn(usize) -> bool,
    ) {
        let Some(printer) = &mut self.printer else { return };
        let most = Outputs::most(slots).saturating_sub(printer.unwritten());
        let is_ending = self.ending_since.is_some();
        for run in printer.go_on(placed, most, |place| is_ending || is_over(place)) {
            if let Some((_, result)) = self.kept.remove(&run) {
                self.due.push_back((now, run, result));
            }
        }
    }

    /// Nothing more comes: no turn is waited for from now on.
    pub(super) fn begin_ending(&mut self, now: Duration) {
        self.ending_since.get_or_insert(now);
    }

    pub(super) fn ending_since(&self) -> Option<Duration> {
        self.ending_since
    }

    /// The place of the unit that outputs wait for.
    pub(super) fn awaited(&self) -> Option<usize> {
        self.printer.as_ref().and_then(Printer::awaited)
    }

    /// The run's output is out.
    pub(super) fn on_written(&mut self, run: usize) -> Option<Unwritten> {
        self.unwritten.remove(&run)
    }

    /// The same, of a run whose output has waited for its turn.
    pub(super) fn on_kept_written(&mut self, run: usize) -> Option<UnitResult> {
        // They are written in this order. One that is not there any more was not waited for.
        self.pop_due(|(_, first, _)| *first == run)
    }

    /// No output gets out any more. What is saved needs no reader.
    pub(super) fn stop_writing(&mut self) {
        self.is_unwritable |= self.saver.is_none();
    }

    /// None is saved any more.
    pub(super) fn stop_saving(&mut self) {
        self.is_unwritable = true;
    }

    pub(super) fn is_unwritable(&self) -> bool {
        self.is_unwritable
    }

    /// The next of the runs that wait since then, or longer, until their outputs are out.
    pub(super) fn next_since(&mut self, since: Duration) -> Option<Unwritten> {
        // The first in number is the first in time.
        Some(self.unwritten.first_entry().filter(|first| first.get().since <= since)?.remove())
    }

    /// The runs that wait since then, or longer, until their outputs are saved. They wait no longer.
    pub(super) fn give_up_saving(&mut self, since: Duration) -> Vec<Unwritten> {
        let mut late = Vec::new();
        while let Some(first) = self.unsaved.first_entry().filter(|first| first.get().1.since <= since) {
            late.push(first.remove().1);
        }
        late
    }

    /// All runs that wait until their outputs are saved or out. They wait no longer.
    pub(super) fn give_up(&mut self) -> Vec<Unwritten> {
        let unsaved = self.give_up_saving(Duration::MAX);
        unsaved.into_iter().chain(std::mem::take(&mut self.unwritten).into_values()).collect()
    }

    /// The first of those whose turn has come, if it is meant.
    fn pop_due(&mut self, is_meant: impl Fn(&(Duration, usize, UnitResult)) -> bool) -> Option<UnitResult> {
        if !self.due.front().is_some_and(is_meant) {
            return None;
        }
        self.due.pop_front().map(|(.., result)| result)
    }

    /// The next of those whose turn has come since then, or earlier.
    pub(super) fn next_due(&mut self, since: Duration) -> Option<UnitResult> {
        self.pop_due(|(first, ..)| *first <= since)
    }

    /// What has waited for its turn, or is on its way out after that, and is to be run again.
    pub(super) fn give_back(&mut self) -> Vec<UnitResult> {
        let kept = std::mem::take(&mut self.kept);
        if let Some(printer) = &mut self.printer {
            kept.values().for_each(|(kept, _)| printer.forget(kept.place));
        }
        let kept = kept.into_values().map(|(_, result)| result);
        kept.chain(std::mem::take(&mut self.due).into_iter().map(|(.., result)| result)).collect()
    }

    /// What has lost its lease while it waited for its turn. Looks now and then: each lease has until its end.
    pub(super) fn lost(&mut self, now: Duration, often: Duration) -> Vec<UnitResult> {
        if now < self.next_look {
            return Vec::new();
        }
        self.next_look = now + often;
        let is_lost = |(_, result): &(Kept, UnitResult)| result.guard.cancelled().is_cancelled();
        let runs = self.kept.iter().filter(|(_, kept)| is_lost(kept)).map(|(run, _)| *run);
        let runs: Vec<usize> = runs.collect();
        let lost: Vec<(Kept, UnitResult)> = runs.iter().filter_map(|run| self.kept.remove(run)).collect();
        if let Some(printer) = &mut self.printer {
            lost.iter().for_each(|(kept, _)| printer.forget(kept.place));
        }
        lost.into_iter().map(|(_, result)| result).collect()
    }

    /// The printer, which is to be ended.
    pub(super) fn take_printer(&mut self) -> Option<Printer> {
        self.printer.take()
    }
}
