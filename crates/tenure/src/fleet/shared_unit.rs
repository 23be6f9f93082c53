//! What the driver and the users of one unit have in common.

use super::meters::FleetMeters;
use crate::belief::LeaseCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tenure_core::fleet::{Reason, UnitSpec};
use tenure_core::{Fence, Key, LeaseId, Loss, Metadata, StoreError, Tick};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What the driver and the users of one unit have in common.
pub(super) struct SharedUnit {
    pub(super) lease: LeaseId,
    pub(super) key: Key,
    pub(super) name: String,
    pub(super) fence: Fence,
    spec: UnitSpec,
    fields: Mutex<Metadata>,
    pub(super) cell: LeaseCell,
    pub(super) drain: watch::Sender<Option<(Reason, Tick)>>,
    /// Told to end, for whatever reason.
    pub(super) stop: CancellationToken,
    /// Since when it is held.
    pub(super) since: Tick,
    /// When it was told to go.
    drained_at: OnceLock<Tick>,
    /// It is left to expire.
    lapses: AtomicBool,
}

impl SharedUnit {
    pub(super) fn new(
        lease: LeaseId,
        (key, name): (Key, String),
        fence: Fence,
        (spec, fields): (UnitSpec, Metadata),
        since: Tick,
    ) -> SharedUnit {
        let cell = LeaseCell::default();
        cell.belief.set(Tick::NEVER);
        let (drain, stop) = (watch::Sender::new(None), CancellationToken::new());
        let drained_at = OnceLock::new();
        let (fields, lapses) = (Mutex::new(fields), AtomicBool::new(false));
        SharedUnit { lease, key, name, fence, spec, fields, cell, drain, stop, since, drained_at, lapses }
    }

    pub(super) fn lost(&self, loss: Loss) {
        self.cell.lost(loss);
        self.stop.cancel();
    }

    pub(super) fn told_to_drain(&self, reason: Reason, until: Tick, now: Tick) {
        // The first time counts.
        let _ = self.drained_at.set(now);
        self.drain.send_replace(Some((reason, until)));
        self.stop.cancel();
    }

    /// Measures how long it was held, and how long it took to go if it was told to and goes now.
    pub(super) fn measure_end(&self, meters: &FleetMeters, goes: bool, now: Tick) {
        meters.hold.record(now.since(self.since).as_secs_f64());
        if let Some(told) = self.drained_at.get().filter(|_| goes) {
            meters.drain.record(now.since(*told).as_secs_f64());
        }
    }

    /// It is left to expire from now on.
    pub(super) fn lapse(&self) {
        self.lapses.store(true, Ordering::Relaxed);
    }

    /// Whether nothing but a loss can keep it from being given up: nobody has asked for it, and it is not left to expire.
    pub(super) fn is_lost_if_kept(&self) -> bool {
        self.drained_at.get().is_none() && !self.lapses.load(Ordering::Relaxed)
    }

    /// Nobody here acts on it any more.
    pub(super) fn end(&self) {
        self.cell.belief.end();
        self.stop.cancel();
    }

    pub(super) fn is_over(&self) -> bool {
        self.cell.belief.deadline() == Tick(0)
    }

    pub(super) fn knows(&self, fields: Metadata) {
        *self.fields() = fields;
    }

    pub(super) fn fields(&self) -> MutexGuard<'_, Metadata> {
        // No code that can panic runs under the lock.
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses fields that the unit's record can't carry.
    pub(super) fn check(&self, fields: &Metadata) -> Result<(), StoreError> {
        // Records have room besides for how it has failed.
        let mut spec = self.spec.clone();
        spec.retry = None;
        tenure_store::codec::check_metadata(&spec.compose(fields.clone())?)?;
        Ok(())
    }
}
