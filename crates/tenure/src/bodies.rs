//! The bodies that run under what one driver leases. They are counted, so that a stop ends them before it gives anything up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_core::{LeaseId, Ttl};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// All that run under what one driver leases.
#[derive(Debug)]
pub(crate) struct Bodies {
    stopping: CancellationToken,
    /// Under which leases they run: how many under each, and its ttl.
    running: watch::Sender<BTreeMap<LeaseId, (usize, Ttl)>>,
}

impl Default for Bodies {
    fn default() -> Bodies {
        Bodies { stopping: CancellationToken::new(), running: watch::Sender::default() }
    }
}

impl Bodies {
    /// A body runs under these leases from now on, until what is returned is over or dropped; none after a stop.
    pub(crate) fn begin(
        self: &Arc<Self>,
        leases: impl IntoIterator<Item = (LeaseId, Ttl)>,
    ) -> Option<RunningBody> {
        let leases: Vec<(LeaseId, Ttl)> = leases.into_iter().collect();
        self.running.send_modify(|running| {
            for (lease, ttl) in &leases {
                running.entry(*lease).or_insert((0, *ttl)).0 += 1;
            }
        });
        let leases = leases.into_iter().map(|(lease, _)| lease).collect();
        let body = RunningBody { bodies: Arc::clone(self), leases, is_over: AtomicBool::new(false) };
        // Asked only now: a stop that did not see this body was there before it.
        (!self.is_stopping()).then_some(body)
    }

    /// Tells all to end, and whoever comes later that it is too late.
    pub(crate) fn stop(&self) {
        self.stopping.cancel();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Told when bodies have to end because all is stopped.
    pub(crate) fn stopping(&self) -> WaitForCancellationFuture<'_> {
        self.stopping.cancelled()
    }

    pub(crate) fn any_runs(&self) -> bool {
        !self.running.borrow().is_empty()
    }

    /// Waits until all that were told to end have ended; but not for those that nobody watches over any more, as their runtime ended before
    /// them. The leases of those are returned.
    pub(crate) async fn ended(&self) -> Vec<LeaseId> {
        let mut running = self.running.subscribe();
        // Whoever watches over a body gives it a grace period, which is shorter than the ttl, and then what is left of the lease.
        let most =
            running.borrow().values().map(|(_, ttl)| ttl.duration()).max().unwrap_or(Duration::ZERO) * 2;
        // An error would mean that there is nobody to count them, or that the time is over.
        let _ = tokio::time::timeout(most, running.wait_for(BTreeMap::is_empty)).await;
        drop(running);
        self.running.borrow().keys().copied().collect()
    }
}

/// A body that runs, as it is counted.
#[derive(Debug)]
pub(crate) struct RunningBody {
    bodies: Arc<Bodies>,
    leases: Vec<LeaseId>,
    is_over: AtomicBool,
}

impl RunningBody {
    /// It has ended, or its leases are left to expire.
    pub(crate) fn over(&self) {
        if self.is_over.swap(true, Ordering::SeqCst) {
            return;
        }
        self.bodies.running.send_modify(|running| {
            for lease in &self.leases {
                match running.get_mut(lease) {
                    Some((count, _)) if *count > 1 => *count -= 1,
                    _ => drop(running.remove(lease)),
                }
            }
        });
    }
}

impl Drop for RunningBody {
    fn drop(&mut self) {
        self.over();
    }
}
