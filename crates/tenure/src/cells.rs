//! The leases that a process has: what the driver and their guards share, and since when.

use crate::belief::Cell;
use crate::meters;
use crate::prefixes::Prefixes;
use std::sync::Arc;
use tenure_core::{LeaseId, Table, Tick};

/// Leases that were had, and did not end yet. Each that begins or ends is measured.
pub(crate) struct Cells {
    all: Table<(Arc<Cell>, Tick)>,
    prefixes: Arc<Prefixes>,
}

impl Cells {
    pub(crate) fn new(prefixes: Arc<Prefixes>) -> Cells {
        Cells { all: Table::default(), prefixes }
    }

    /// A lease that is had from now on, believed in until then.
    pub(crate) fn begin(&mut self, lease: LeaseId, until: Tick, now: Tick) -> Arc<Cell> {
        let cell = Arc::<Cell>::default();
        cell.belief.set(until);
        meters::lease_begun(self.prefixes.label(lease));
        self.all.insert(lease, (Arc::clone(&cell), now));
        cell
    }

    pub(crate) fn get(&self, lease: LeaseId) -> Option<&Arc<Cell>> {
        self.all.get(&lease).map(|(cell, _)| cell)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Cell>> {
        self.all.values().map(|(cell, _)| cell)
    }

    /// A lease is not had any more: given up, lost, or passed on.
    pub(crate) fn end(&mut self, lease: LeaseId, now: Tick) -> Option<Arc<Cell>> {
        let (cell, since) = self.all.remove(&lease)?;
        meters::lease_ended(now.since(since), self.prefixes.label(lease));
        Some(cell)
    }

    /// None is had any more.
    pub(crate) fn end_all(&mut self, now: Tick) -> Vec<Arc<Cell>> {
        let ended = std::mem::take(&mut self.all);
        for (lease, (_, since)) in ended.iter() {
            meters::lease_ended(now.since(*since), self.prefixes.label(lease));
        }
        ended.values().map(|(cell, _)| Arc::clone(cell)).collect()
    }
}
