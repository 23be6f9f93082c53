//! A process of ours: a worker, its clock, and the leases that it believes in.

use super::super::time::Micros;
use crate::held::Held;
use crate::settling::Settling;
use crate::worker::{ChangePurpose, WorkerMachine};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_core::{Clock, Now, Tick, Wall};

/// A process's clock, which is as fast as it is.
pub(super) struct ProcessClock {
    pub(super) now: AtomicU64,
    /// In percent of the world's.
    pub(super) rate: u64,
}

impl ProcessClock {
    pub(super) fn new(now: Micros, rate: u64) -> ProcessClock {
        ProcessClock { now: AtomicU64::new(now), rate }
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Now {
        let micros = self.now.load(Ordering::SeqCst);
        let tick = Tick(1_000_000_000 + micros * 10 * self.rate);
        Now { held: tick, waited: tick, wall: Wall(1_700_000_000_000 + micros / 1000) }
    }
}

/// Between two requests for one change.
pub(super) const PAUSE: Micros = 25_000;

/// A process of ours.
pub(super) struct OurProcess {
    pub(super) machine: WorkerMachine,
    pub(super) clock: Arc<ProcessClock>,
    /// How many leases it may take.
    pub(super) most: usize,
    pub(super) stalled_until: Micros,
    pub(super) under_way: BTreeMap<u64, (Settling, ChangePurpose, Tick)>,
    pub(super) believes: Vec<Held>,
    /// What was left to expire, and until when.
    pub(super) lapsed: BTreeMap<String, Tick>,
}

impl OurProcess {
    pub(super) fn believes_in(&self, key: &str) -> bool {
        self.believes.iter().any(|held| held.key() == key && held.is_held())
    }

    /// Whether there is time for another request.
    pub(super) fn may_repeat(&self, settling: &Settling) -> bool {
        self.clock.held().after(Duration::from_micros(PAUSE)) < settling.deadline
    }
}
