//! The bodies that run under what one driver leases. They are counted, so that a stop ends them before it gives anything up.

use crate::error::AcquireError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_core::{LeaseId, Ttl};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// All that run under what one driver leases.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    stopping: CancellationToken,
    running: watch::Sender<RunningBodies>,
}

#[derive(Debug, Default)]
struct RunningBodies {
    /// Under which leases they run: how many under each, and its ttl.
    under: BTreeMap<LeaseId, (usize, Ttl)>,
    /// Under which they may run for ever.
    stuck: BTreeSet<LeaseId>,
}

impl Bodies {
    /// A body runs under these leases from now on, until what is returned is over or dropped. After a stop, none may begin.
    pub(crate) fn begin(
        self: &Arc<Self>,
        leases: impl IntoIterator<Item = (LeaseId, Ttl)>,
    ) -> Result<RunningBody, AcquireError> {
        let leases: Vec<(LeaseId, Ttl)> = leases.into_iter().collect();
        self.running.send_modify(|running| {
            for (lease, ttl) in &leases {
                running.under.entry(*lease).or_insert((0, *ttl)).0 += 1;
            }
        });
        let leases = leases.into_iter().map(|(lease, _)| lease).collect();
        let body = RunningBody { bodies: Arc::clone(self), leases, is_over: AtomicBool::new(false) };
        // Asked only now: a stop that did not see this body was there before it.
        if self.is_stopping() { Err(AcquireError::Stopped) } else { Ok(body) }
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
        !self.running.borrow().under.is_empty()
    }

    /// The leases under which bodies may run for ever.
    pub(crate) fn stuck(&self) -> Vec<LeaseId> {
        self.running.borrow().stuck.iter().copied().collect()
    }

    /// Waits until all that were told to end have ended; but not for those that nobody watches over any more, as their runtime ended before
    /// them. Their leases are returned, and those that are stuck.
    pub(crate) async fn ended(&self) -> Vec<LeaseId> {
        let mut running = self.running.subscribe();
        let longest = running.borrow().under.values().map(|(_, ttl)| ttl.duration()).max();
        // Whoever watches over a body gives it a grace period, which is shorter than the ttl, and then what is left of the lease.
        let most = longest.unwrap_or(Duration::ZERO) * 2;
        let have_ended = running.wait_for(|running| running.under.is_empty());
        let is_late = tokio::time::timeout(most, have_ended).await.is_err();
        let mut left = self.stuck();
        if is_late {
            left.extend(self.running.borrow().under.keys());
        }
        left
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
        self.end(false);
    }

    /// It can't be ended, and its leases are yet to be left to expire.
    pub(crate) fn stuck(&self) {
        self.end(true);
    }

    fn end(&self, is_stuck: bool) {
        if self.is_over.swap(true, Ordering::SeqCst) {
            return;
        }
        self.bodies.running.send_modify(|running| {
            for lease in &self.leases {
                match running.under.get_mut(lease) {
                    Some((count, _)) if *count > 1 => *count -= 1,
                    _ => drop(running.under.remove(lease)),
                }
                if is_stuck {
                    running.stuck.insert(*lease);
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
