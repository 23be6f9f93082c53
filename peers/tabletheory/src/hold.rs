//! A lease that is refreshed in the background for as long as it is wanted.

use super::error::{LeaseError, LeaseKey};
use super::lease::{Belief, HeldLease};
use super::manager::Manager;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;

/// A lease that is refreshed in the background. Dropped, it is not refreshed any more, and ends by itself.
#[derive(Debug)]
pub struct Hold {
    manager: Manager,
    key: LeaseKey,
    shared: Arc<SharedHold>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct SharedHold {
    /// Whoever refreshes or releases it.
    lease: AsyncMutex<HeldLease>,
    /// What can be known of it meanwhile.
    state: Mutex<HoldState>,
}

#[derive(Debug)]
struct HoldState {
    belief: Belief,
    /// Once it is lost, it is lost for good, whatever a late answer says.
    is_lost: bool,
    /// What the last refresh was told.
    trouble: Option<LeaseError>,
}

impl Manager {
    /// Keeps `lease` by refreshing it for `duration`, at about every third of that.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn hold(&self, lease: HeldLease, duration: Duration) -> Hold {
        let state = HoldState { belief: lease.belief(), is_lost: false, trouble: None };
        let key = lease.key().clone();
        let shared = Arc::new(SharedHold { lease: AsyncMutex::new(lease), state: Mutex::new(state) });
        let task = tokio::spawn(keep(self.clone(), duration, Arc::clone(&shared)));
        Hold { manager: self.clone(), key, shared, task }
    }
}

impl Hold {
    /// The item's keys.
    #[must_use]
    pub fn key(&self) -> &LeaseKey {
        &self.key
    }

    /// Whether it is held. No request is made. Once it is not, it never is again.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long it is still held, should no refresh succeed any more.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.shared.remaining(&self.manager)
    }

    /// What the last refresh was told, if it failed: why it was lost, if it was.
    #[must_use]
    pub fn trouble(&self) -> Option<LeaseError> {
        self.shared.state().trouble.clone()
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// As [`Manager::release`].
    ///
    /// # Cancel safety
    /// When the future is dropped, the lease may have been given back; otherwise it ends by itself.
    pub async fn release(self) -> Result<(), LeaseError> {
        self.shared.state().is_lost = true;
        // The lease itself knows of a refresh that is cut off by this.
        self.task.abort();
        self.manager.release(&mut *self.shared.lease.lock().await).await
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SharedHold {
    fn state(&self) -> MutexGuard<'_, HoldState> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remaining(&self, manager: &Manager) -> Duration {
        let mut state = self.state();
        let left = state.belief.remaining(manager.clock().now());
        state.is_lost |= left.is_zero();
        if state.is_lost { Duration::ZERO } else { left }
    }
}

async fn keep(manager: Manager, duration: Duration, shared: Arc<SharedHold>) {
    let mut failures = 0u32;
    loop {
        let left = shared.remaining(&manager);
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(pause(left, failures)).await;
        {
            let prospect = manager.prospect(duration);
            let mut state = shared.state();
            // Until it is known, the item may say the one or the other.
            state.belief = state.belief.and(prospect);
        }
        let mut lease = shared.lease.lock().await;
        let told = manager.refresh(&mut lease, duration).await.err();
        // An answer that comes when the time is over comes too late.
        let _noted = shared.remaining(&manager);
        let mut state = shared.state();
        state.belief = lease.belief();
        failures = if told.is_some() { failures.saturating_add(1) } else { 0 };
        state.trouble = told;
    }
}

/// How long to wait with the next refresh, of the time that is left. While they fail, that is less.
fn pause(left: Duration, failures: u32) -> Duration {
    if failures == 0 { left / 3 } else { (left / 8).max(Duration::from_millis(20)) }
}

#[cfg(test)]
mod tests {
    //! Plan: where refreshes fail, there are several attempts while the lease is held, and not one after the other without a pause.
    use super::*;

    #[test]
    fn while_refreshes_fail_they_are_tried_sooner() {
        let left = Duration::from_secs(24);
        assert_eq!(pause(left, 0), Duration::from_secs(8));
        for failures in [1, 2, u32::MAX] {
            assert_eq!(pause(left, failures), Duration::from_secs(3));
            assert_eq!(pause(Duration::from_millis(159), failures), Duration::from_millis(20));
        }
    }
}
