//! The leases that a process has: what the driver and their guards share, and since when.

use crate::belief::LeaseCell;
use crate::meters;
use crate::prefixes::Prefixes;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_core::{LeaseId, LeaseMap, Tick};

/// Leases that were had, and did not end yet. Each that begins or ends is measured.
pub(crate) struct LeaseCells {
    all: LeaseMap<(Arc<LeaseCell>, Tick)>,
    /// How many permits those have that are of semaphores: few, beside all leases.
    permits: BTreeMap<LeaseId, u32>,
    prefixes: Arc<Prefixes>,
}

impl LeaseCells {
    pub(crate) fn new(prefixes: Arc<Prefixes>) -> LeaseCells {
        LeaseCells { all: LeaseMap::default(), permits: BTreeMap::new(), prefixes }
    }

    /// A lease that is had from now on, believed in until then.
    pub(crate) fn begin(&mut self, lease: LeaseId, until: Tick, now: Tick) -> Arc<LeaseCell> {
        let cell = Arc::<LeaseCell>::default();
        cell.belief.set(until);
        meters::lease_begun(self.prefixes.of(lease));
        self.all.insert(lease, (Arc::clone(&cell), now));
        cell
    }

    /// A lease is one of so many permits.
    pub(crate) fn weigh(&mut self, lease: LeaseId, permits: u32) {
        // It may be over already.
        if self.all.get(&lease).is_some() && self.permits.insert(lease, permits).is_none() {
            meters::permits_begun(permits, self.prefixes.of(lease));
        }
    }

    pub(crate) fn get(&self, lease: LeaseId) -> Option<&Arc<LeaseCell>> {
        self.all.get(&lease).map(|(cell, _)| cell)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<LeaseCell>> {
        self.all.values().map(|(cell, _)| cell)
    }

    /// A lease is not had any more: given up, lost, or passed on.
    pub(crate) fn end(&mut self, lease: LeaseId, now: Tick) -> Option<Arc<LeaseCell>> {
        let (cell, since) = self.all.remove(&lease)?;
        let of = self.prefixes.of(lease);
        meters::lease_ended(now.since(since), of);
        if let Some(permits) = self.permits.remove(&lease) {
            meters::permits_ended(permits, of);
        }
        Some(cell)
    }

    /// None is had any more.
    pub(crate) fn end_all(&mut self, now: Tick) -> Vec<Arc<LeaseCell>> {
        let all: Vec<LeaseId> = self.all.iter().map(|(lease, _)| lease).collect();
        all.into_iter().filter_map(|lease| self.end(lease, now)).collect()
    }
}
