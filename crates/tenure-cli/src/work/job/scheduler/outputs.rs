//! What commands have written, on its way out. A run is recorded once its output is out, so that a unit that is done has been seen.

use crate::work::job::pieces::capture::Captured;
use crate::work::job::pieces::printer::{Piece, Printer};
use crate::work::job::slots::Ended;
use std::collections::BTreeMap;
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
    pub(super) ended: Ended,
    pub(super) tail: Option<String>,
}

/// The outputs of this process's runs.
pub(super) struct Outputs {
    /// None where outputs pass through as they come, and once all is out.
    printer: Option<Printer>,
    unwritten: BTreeMap<usize, Unwritten>,
    /// What is on its way out won't get there.
    is_unwritable: bool,
    /// There was no room for what a command wrote.
    is_full: bool,
}

impl Outputs {
    pub(super) fn new(printer: Option<Printer>) -> Outputs {
        Outputs { printer, unwritten: BTreeMap::new(), is_unwritable: false, is_full: false }
    }

    /// How many runs wait for theirs to be out.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Whether so much waits for whoever reads it that nothing more is to be started.
    pub(super) fn is_behind(&self, slots: usize) -> bool {
        let waiting = self.printer.as_ref().map_or(0, Printer::unwritten);
        waiting >= MOST_WAITING.saturating_add(slots)
    }

    /// Whether some of this may be missing. What ran while there was no room may have lost some of it, though there is room by now.
    pub(super) fn is_cut(&mut self, captured: &Captured) -> bool {
        self.is_full |= captured.is_cut();
        self.is_full
    }

    /// Has the piece written, for a unit in this place. The run is given back if nobody needs to wait for that.
    pub(super) fn write(
        &mut self,
        place: Option<usize>,
        run: usize,
        piece: Option<Piece>,
        of: Unwritten,
    ) -> Option<Unwritten> {
        if let (Some(printer), Some(piece)) = (&mut self.printer, piece)
            && printer.print(place, piece)
        {
            self.unwritten.insert(run, of);
            return None;
        }
        Some(of)
    }

    /// Where outputs are in the order of units: writes those whose turn it is.
    pub(super) fn go_on(&mut self, placed: usize, is_over: impl Fn(usize) -> bool) {
        if let Some(printer) = &mut self.printer {
            printer.go_on(placed, is_over);
        }
    }

    /// The run's output is out.
    pub(super) fn on_written(&mut self, run: usize) -> Option<Unwritten> {
        self.unwritten.remove(&run)
    }

    /// No output gets out any more.
    pub(super) fn stop(&mut self) {
        self.is_unwritable = true;
    }

    pub(super) fn is_unwritable(&self) -> bool {
        self.is_unwritable
    }

    /// The next of the runs that wait since then, or longer.
    pub(super) fn next_since(&mut self, since: Duration) -> Option<Unwritten> {
        // The first in number is the first in time.
        Some(self.unwritten.first_entry().filter(|first| first.get().since <= since)?.remove())
    }

    /// The printer, which is to be ended.
    pub(super) fn take_printer(&mut self) -> Option<Printer> {
        self.printer.take()
    }
}
