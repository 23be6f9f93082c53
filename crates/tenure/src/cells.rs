//! The leases that a process has: what the driver and their guards share, and since when.

use crate::belief::LeaseCell;
use crate::meters;
use crate::prefixes::Prefixes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{LeaseId, LeaseMap, Tick};

/// Leases that were had, and did not end yet.
///
/// Each that begins or ends is to be measured, by who sees that, once nothing is locked: a recorder of metrics may ask what is held.
#[derive(Default)]
pub(crate) struct LeaseCells {
    all: LeaseMap<(Arc<LeaseCell>, Tick)>,
    /// How many permits those have that are of semaphores: few, beside all leases.
    permits: BTreeMap<LeaseId, u32>,
}

/// A lease that is not had any more, and is yet to be measured.
#[must_use]
pub(crate) struct EndedLease {
    pub(crate) cell: Arc<LeaseCell>,
    lease: LeaseId,
    span: Duration,
    permits: Option<u32>,
}

impl EndedLease {
    pub(crate) fn measure(&self, prefixes: &Prefixes) {
        let of = prefixes.of(self.lease);
        meters::lease_ended(self.span, of);
        if let Some(permits) = self.permits {
            meters::permits_ended(permits, of);
        }
    }
}

impl LeaseCells {
    /// A lease that is had from now on, believed in until then.
    pub(crate) fn begin(&mut self, lease: LeaseId, until: Tick, now: Tick) -> Arc<LeaseCell> {
        let cell = Arc::<LeaseCell>::default();
        cell.belief.set(until);
        self.all.insert(lease, (Arc::clone(&cell), now));
        cell
    }

    /// A lease is one of so many permits. False: it is over already, or that is known.
    pub(crate) fn weigh(&mut self, lease: LeaseId, permits: u32) -> bool {
        self.all.get(&lease).is_some() && self.permits.insert(lease, permits).is_none()
    }

    pub(crate) fn get(&self, lease: LeaseId) -> Option<&Arc<LeaseCell>> {
        self.all.get(&lease).map(|(cell, _)| cell)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<LeaseCell>> {
        self.all.values().map(|(cell, _)| cell)
    }

    /// A lease is not had any more: given up, lost, or passed on.
    pub(crate) fn end(&mut self, lease: LeaseId, now: Tick) -> Option<EndedLease> {
        let (cell, since) = self.all.remove(&lease)?;
        Some(EndedLease { cell, lease, span: now.since(since), permits: self.permits.remove(&lease) })
    }

    /// None is had any more.
    pub(crate) fn end_all(&mut self, now: Tick) -> Vec<EndedLease> {
        let all: Vec<LeaseId> = self.all.iter().map(|(lease, _)| lease).collect();
        all.into_iter().filter_map(|lease| self.end(lease, now)).collect()
    }
}
