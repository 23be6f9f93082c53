//! What a holder believes, in a form that can be asked in a few nanoseconds and without I/O.

use crate::request::Request;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tenure_core::time::millis;
use tenure_core::{Fence, HolderId, Key, Loss, Tick, Ttl};
use tenure_store::tell;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::field::display;

/// Until when something is believed. The top bit says that belief is suspended for now.
#[derive(Debug, Default)]
pub(crate) struct AtomicBelief(AtomicU64);

const SUSPENDED: u64 = 1 << 63;
/// Over, for good. No other belief has this form: the first nanosecond of a clock is the end of none.
const ENDED: u64 = SUSPENDED | 1;

impl AtomicBelief {
    /// Takes what a machine says: a tick, or 0 for "not now". What has ended stays so: an answer that was on its way may still come.
    pub(crate) fn set(&self, until: Tick) {
        let next = |raw| match until {
            _ if raw == ENDED => None,
            Tick(0) => Some(raw | SUSPENDED),
            until => Some((until.0 & !SUSPENDED).max(2)),
        };
        // An error says that it has ended.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }

    /// Until then at the most; what is suspended stays so.
    pub(crate) fn cap(&self, until: Tick) {
        let next = |raw: u64| {
            let earlier = (raw & !SUSPENDED).min((until.0 & !SUSPENDED).max(2));
            (raw != ENDED).then_some(earlier | (raw & SUSPENDED))
        };
        // An error says that it has ended.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }

    /// Over, for good.
    pub(crate) fn end(&self) {
        self.0.store(ENDED, Ordering::SeqCst);
    }

    /// Until when to act on it.
    pub(crate) fn until(&self) -> Tick {
        let raw = self.0.load(Ordering::SeqCst);
        if raw & SUSPENDED == 0 { Tick(raw) } else { Tick(0) }
    }

    /// When it is over if nothing happens, suspended or not.
    pub(crate) fn deadline(&self) -> Tick {
        let raw = self.0.load(Ordering::SeqCst);
        if raw == ENDED { Tick(0) } else { Tick(raw & !SUSPENDED) }
    }
}

/// What the driver and the guard of one lease share.
#[derive(Debug, Default)]
pub(crate) struct LeaseCell {
    pub(crate) belief: AtomicBelief,
    /// None until whoever asked for the lease has heard of it.
    name: OnceLock<Name>,
    news: Mutex<Option<Box<LeaseNews>>>,
}

/// Which lease it is.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) key: Key,
    pub(crate) fence: Fence,
    /// By which it renews itself. Without one, it is attached, and believed in no longer than the process's session.
    pub(crate) own_ttl: Option<Ttl>,
}

impl Name {
    pub(crate) fn is_attached(&self) -> bool {
        self.own_ttl.is_none()
    }
}

/// What rarely happens to a lease.
#[derive(Debug, Default)]
struct LeaseNews {
    loss: Option<Loss>,
    requests: VecDeque<Request>,
    revoked: bool,
    cancel: Option<CancellationToken>,
    wake: Arc<Notify>,
}

/// More unread requests than this are not kept; they all say the same.
const UNREAD: usize = 16;

impl LeaseCell {
    pub(crate) fn name(&self) -> Option<&Name> {
        self.name.get()
    }

    pub(crate) fn set_name(&self, name: Name) {
        // A lease keeps the name that it has.
        let _ = self.name.set(name);
    }

    fn news(&self) -> MutexGuard<'_, Option<Box<LeaseNews>>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lost(&self, loss: Loss) {
        self.belief.end();
        let mut news = self.news();
        let news = news.get_or_insert_default();
        news.loss.get_or_insert(loss);
        if let Some(cancel) = &news.cancel {
            cancel.cancel();
        }
        news.wake.notify_waiters();
    }

    /// Given up, or out of our hands: nobody here acts on it any more.
    pub(crate) fn end(&self) {
        self.belief.end();
        if let Some(cancel) = self.news().as_ref().and_then(|news| news.cancel.as_ref()) {
            cancel.cancel();
        }
    }

    /// Says that it is held for as long as it may be.
    pub(crate) fn tell_overrun(&self, holder: &HolderId, most: Duration) {
        let (key, fence) = self.name().map(|name| (display(&name.key), display(name.fence))).unzip();
        let most_ms = millis(most);
        tell!(
            warn, name: "lease.overran", target: "tenure::lease", key, fence, %holder, most_ms,
            "lease held for as long as it may be"
        );
    }

    pub(crate) fn asked(&self, request: Request) {
        let mut news = self.news();
        let news = news.get_or_insert_default();
        if news.requests.len() < UNREAD {
            news.requests.push_back(request);
        }
        news.revoked |= request == Request::Revoke;
        if let Some(cancel) = news.cancel.as_ref().filter(|_| news.revoked) {
            cancel.cancel();
        }
        news.wake.notify_waiters();
    }

    /// Notified of each piece of news. Made when someone listens: there may be a million leases that nobody asks about.
    pub(crate) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.news().get_or_insert_default().wake)
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.news().as_ref().and_then(|news| news.loss.clone())
    }

    pub(crate) fn next_request(&self) -> Option<Request> {
        self.news().as_mut().and_then(|news| news.requests.pop_front())
    }

    pub(crate) fn revoked(&self) -> bool {
        self.news().as_ref().is_some_and(|news| news.revoked)
    }

    pub(crate) fn token(&self) -> CancellationToken {
        let mut news = self.news();
        let news = news.get_or_insert_default();
        let token = news.cancel.get_or_insert_default().clone();
        if news.loss.is_some() || news.revoked {
            token.cancel();
        }
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_shortens_belief_and_restores_none() {
        let belief = AtomicBelief::default();
        belief.set(Tick::NEVER);
        belief.cap(Tick(50));
        assert_eq!((belief.until(), belief.deadline()), (Tick(50), Tick(50)));
        belief.cap(Tick(70));
        assert_eq!(belief.until(), Tick(50));
        belief.set(Tick(0));
        belief.cap(Tick(40));
        assert_eq!((belief.until(), belief.deadline()), (Tick(0), Tick(40)), "suspended as before");
        belief.end();
        belief.cap(Tick(40));
        assert_eq!((belief.until(), belief.deadline()), (Tick(0), Tick(0)));
    }

    #[test]
    fn suspended_belief_keeps_its_deadline() {
        let belief = AtomicBelief::default();
        belief.set(Tick(50));
        assert_eq!((belief.until(), belief.deadline()), (Tick(50), Tick(50)));
        belief.set(Tick(0));
        assert_eq!((belief.until(), belief.deadline()), (Tick(0), Tick(50)));
        belief.set(Tick(70));
        assert_eq!((belief.until(), belief.deadline()), (Tick(70), Tick(70)));
        belief.set(Tick::NEVER);
        assert!(belief.until() > Tick(1 << 62));
        belief.end();
        assert_eq!((belief.until(), belief.deadline()), (Tick(0), Tick(0)));
    }

    #[test]
    fn s1_belief_that_has_ended_does_not_come_back() {
        let belief = AtomicBelief::default();
        for late in [Tick(50), Tick(0), Tick::NEVER, Tick(1)] {
            belief.set(Tick(50));
            belief.end();
            belief.set(late);
            assert_eq!((belief.until(), belief.deadline()), (Tick(0), Tick(0)), "{late:?}");
        }
        let first = AtomicBelief::default();
        first.set(Tick(1));
        first.set(Tick(0));
        first.set(Tick(50));
        assert_eq!(first.until(), Tick(50), "the first nanosecond is no end");
    }

    #[test]
    fn a_token_made_after_the_loss_is_cancelled_already() {
        let cell = LeaseCell::default();
        let early = cell.token();
        assert!(!early.is_cancelled());
        cell.lost(Loss::Deleted);
        cell.lost(Loss::Expired);
        assert_eq!(cell.loss(), Some(Loss::Deleted), "the first reason counts");
        assert!(early.is_cancelled() && cell.token().is_cancelled());
    }

    #[test]
    fn what_is_given_up_tells_whoever_has_its_token_and_is_not_lost() {
        let cell = LeaseCell::default();
        let token = cell.token();
        cell.end();
        assert!(token.is_cancelled() && cell.loss().is_none());
        let unasked = LeaseCell::default();
        unasked.end();
        assert!(unasked.news().is_none(), "nothing is made where nobody asked");
    }
}
