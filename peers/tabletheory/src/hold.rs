//! A lease that is refreshed in the background for as long as it is wanted.

use super::error::{LeaseError, LeaseKey};
use super::lease::{Belief, HeldLease};
use super::manager::Manager;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::{InvalidInput, Loss, StoreError};
use tenure_dynamodb::aws_sdk_dynamodb::types::TransactWriteItem;
use tenure_store::parts::nap;
use tenure_store::tell;
use tokio::sync::futures::Notified;
use tokio::sync::{Mutex as AsyncMutex, Notify};
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
    /// Whoever refreshes it, or releases it after that has ended. Nobody else: a caller's future that waits for it and stands still would be given it,
    /// and keep it from the next refresh.
    lease: AsyncMutex<HeldLease>,
    /// What can be known of it meanwhile.
    state: Mutex<HoldState>,
    /// Whoever waits for its end, or for a refresh, looks when one was answered.
    wake: Notify,
}

#[derive(Debug)]
struct HoldState {
    belief: Belief,
    /// As it was after the last refresh. Only its belief may be another by now.
    lease: HeldLease,
    is_refreshing: bool,
    /// Once it is lost, it is lost for good, whatever a late answer says.
    is_lost: bool,
    /// What the last refresh was told.
    trouble: Option<LeaseError>,
}

impl Manager {
    /// Keeps `lease` by refreshing it for `duration`, at about every third of that. Where that is too short to be held
    /// ([`Manager::acquire`] says so), it is not refreshed, and ends by itself.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn hold(&self, lease: HeldLease, duration: Duration) -> Hold {
        let key = lease.key().clone();
        let state = HoldState {
            belief: lease.belief(),
            lease: lease.clone(),
            is_refreshing: false,
            is_lost: false,
            trouble: None,
        };
        let (lease, state) = (AsyncMutex::new(lease), Mutex::new(state));
        let shared = Arc::new(SharedHold { lease, state, wake: Notify::new() });
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

    /// That it is held. Where work goes step by step, this before each step, and after the last, tells half a result from a whole one.
    ///
    /// # Errors
    /// Why it was lost.
    pub fn check(&self) -> Result<(), LeaseError> {
        if self.is_held() {
            return Ok(());
        }
        Err(self.trouble().unwrap_or_else(|| LeaseError::NotOwned { key: self.key.clone() }))
    }

    /// Waits until it is lost: no later than at its deadline, also where nothing refreshes it any more. Why, if a refresh was told that;
    /// else its time ran out. After a suspend over the deadline that is noticed soon, within 30 s at most.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) -> Option<LeaseError> {
        loop {
            let mut news = std::pin::pin!(self.shared.wake.notified());
            news.as_mut().enable();
            let left = self.remaining();
            if left.is_zero() {
                return self.trouble();
            }
            heard(news, left).await;
        }
    }

    /// The token, as of the last refresh. It stays the same until a refresh is lost on its way.
    #[must_use]
    pub fn token(&self) -> String {
        self.shared.state().lease.token().to_owned()
    }

    /// When it ends unless it is refreshed again, in Unix seconds, as far as that is known; zero once a refresh was told that it is lost.
    #[must_use]
    pub fn expires_at(&self) -> i64 {
        self.shared.state().lease.expires_at()
    }

    /// As [`Manager::guard`], of the lease as it is now: a refresh under way is waited for. Make it right before each transaction, as a
    /// later refresh may change the token. A transaction that is refused though the lease is held may be tried again with a new one.
    ///
    /// # Errors
    /// Why it was lost.
    ///
    /// # Cancel safety
    /// Nothing is changed. A future that stands still, as in a branch of a `select!`, keeps no refresh waiting.
    pub async fn guard(&self) -> Result<TransactWriteItem, LeaseError> {
        loop {
            let mut news = std::pin::pin!(self.shared.wake.notified());
            news.as_mut().enable();
            self.check()?;
            if let Some(lease) = self.shared.settled() {
                return self.manager.guard(&lease);
            }
            // No later than at its deadline, also where a refresh ends without a word.
            heard(news, self.remaining()).await;
        }
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// As [`Manager::release`]. That it was lost is no error: [`Self::check`] tells.
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

    /// The lease, unless a refresh is under way that may change its token.
    fn settled(&self) -> Option<HeldLease> {
        let state = self.state();
        (!state.is_refreshing).then(|| state.lease.clone())
    }
}

/// Waits for news of a lease, and not for much longer than its deadline. The runtime's timers stop while the machine is suspended.
async fn heard(news: Pin<&mut Notified<'_>>, left: Duration) {
    tokio::select! {
        () = news => {}
        () = tokio::time::sleep(nap(left, left / 8)) => {}
    }
}

async fn keep(manager: Manager, duration: Duration, shared: Arc<SharedHold>) {
    let key = shared.lease.lock().await.key().to_string();
    if let Err(error) = manager.options().check_held(duration) {
        return unfit(&key, error, &shared);
    }
    let mut failures = 0u32;
    loop {
        let left = shared.remaining(&manager);
        if left.is_zero() {
            let trouble = shared.state().trouble.clone();
            let loss = match &trouble {
                None => Loss::Expired.name(),
                Some(LeaseError::NotOwned { .. }) => Loss::Taken(None).name(),
                Some(_) => "unreachable",
            };
            let reason = trouble.map_or_else(|| Loss::Expired.to_string(), |error| error.to_string());
            tell!(warn, name: "lease.lost", target: "tenure::lease", key, reason, loss, "lease lost");
            return;
        }
        tokio::time::sleep(pause(left, failures)).await;
        let left = shared.remaining(&manager);
        {
            let prospect = manager.prospect(duration);
            let mut state = shared.state();
            // Until it is known, the item may say the one or the other.
            state.belief = state.belief.and(prospect);
            state.is_refreshing = true;
        }
        let mut lease = shared.lease.lock().await;
        let told = refresh_within(patience(left), &manager, &mut lease, duration).await.err();
        failures = if told.is_some() { failures.saturating_add(1) } else { 0 };
        if let Some(error) = told.as_ref().filter(|_| failures == 1) {
            tell!(warn, name: "lease.failing", target: "tenure::lease", key, reason = %error, "a refresh failed");
        }
        // An answer that comes when the time is over comes too late.
        let _noted = shared.remaining(&manager);
        {
            let mut state = shared.state();
            state.belief = lease.belief();
            state.lease.clone_from(&lease);
            state.is_refreshing = false;
            state.trouble = told;
        }
        shared.wake.notify_waiters();
    }
}

/// A refresh that is given up after so long. What it asked for is open then, as after a lost answer: the next one changes the token.
async fn refresh_within(
    patience: Duration,
    manager: &Manager,
    lease: &mut HeldLease,
    duration: Duration,
) -> Result<(), LeaseError> {
    let key = lease.key().clone();
    let refresh = manager.refresh(lease, duration);
    tokio::time::timeout(patience, refresh).await.unwrap_or_else(|_| {
        Err(LeaseError::Store(StoreError::unknown(format!(
            "{}: no answer to a refresh of the lease {key} within {patience:?}; it may or may not have taken effect",
            manager.calls().service
        ))))
    })
}

/// It can't be kept for that long, and why is to be told.
fn unfit(key: &str, error: InvalidInput, shared: &SharedHold) {
    tell!(warn, name: "lease.failing", target: "tenure::lease", key, reason = %error, "a refresh would end the lease");
    shared.state().trouble = Some(error.into());
}

/// How long to wait with the next refresh, of the time that is left. While they fail, that is less.
fn pause(left: Duration, failures: u32) -> Duration {
    if failures == 0 { left / 3 } else { (left / 8).max(Duration::from_millis(20)) }
}

/// How long to wait for the answer to a refresh, of the time that is left: after silence, others still have time.
fn patience(left: Duration) -> Duration {
    /// What a new connection and a request may take where nothing is wrong.
    const LEAST: Duration = Duration::from_millis(500);
    (left / 2).max(LEAST)
}

#[cfg(test)]
mod tests {
    //! Plan: where refreshes fail, or are not answered, there are several attempts while the lease is held, and not one after the other
    //! without a pause.
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

    #[test]
    fn silence_leaves_time_for_more_attempts() {
        for (ttl, most) in [(3, 3), (10, 4), (30, 6)] {
            let mut left = Duration::from_secs(ttl) - Duration::from_millis(500);
            let mut attempts = 0;
            while !left.is_zero() {
                left = left.saturating_sub(pause(left, attempts));
                left = left.saturating_sub(patience(left));
                attempts += 1;
            }
            assert!((2..20).contains(&attempts) && attempts >= most, "{ttl} s: {attempts}");
            // A service that is slow, and answers, is waited for.
            let left = Duration::from_secs(ttl) - Duration::from_millis(500);
            assert!(patience(left - pause(left, 0)) > Duration::from_secs(ttl) / 4, "{ttl} s");
        }
    }
}
