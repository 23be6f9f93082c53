//! Claims that nobody waits for, though they may have landed: the answer was lost, or the future was dropped.

use super::error::LeaseKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More than can matter: each is over when its lease would have been.
const MOST: usize = 1024;

/// Claims of this process that nobody waits for, by key and token, with their expiry. Whoever finds one of them in the way
/// takes it up: nobody believes in it.
#[derive(Debug, Default)]
pub(crate) struct OrphanedClaims(Mutex<BTreeMap<(LeaseKey, String), i64>>);

impl OrphanedClaims {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(LeaseKey, String), i64>> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was one of them. It is none any more.
    pub(crate) fn take(&self, key: &LeaseKey, token: &str) -> bool {
        self.all().remove(&(key.clone(), token.to_owned())).is_some()
    }

    /// A claim that becomes one of them unless it is closed.
    pub(crate) fn claim(self: &Arc<Self>, key: &LeaseKey, token: &str, expires_at: i64) -> UnansweredClaim {
        let what = Some(((key.clone(), token.to_owned()), expires_at));
        UnansweredClaim { orphans: Arc::clone(self), what }
    }
}

/// A claim whose outcome isn't known yet.
#[derive(Debug)]
pub(crate) struct UnansweredClaim {
    orphans: Arc<OrphanedClaims>,
    what: Option<((LeaseKey, String), i64)>,
}

impl UnansweredClaim {
    pub(crate) fn is_by(&self, token: &str) -> bool {
        self.what.as_ref().is_some_and(|((_, by), _)| by == token)
    }

    /// It is known what became of it.
    pub(crate) fn close(mut self) {
        self.what = None;
    }
}

impl Drop for UnansweredClaim {
    fn drop(&mut self) {
        let Some((claim, expires_at)) = self.what.take() else { return };
        let mut all = self.orphans.all();
        all.insert(claim, expires_at);
        if all.len() > MOST {
            let first = all.iter().min_by_key(|(_, expires_at)| **expires_at).map(|(claim, _)| claim.clone());
            first.map(|first| all.remove(&first));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a claim that isn't closed is found once, by its key and token; there are never too many.
    use super::*;

    fn key(pk: &str) -> LeaseKey {
        LeaseKey { pk: pk.into(), sk: "LOCK".into() }
    }

    #[test]
    fn what_is_left_open_is_found_once() {
        let orphans = Arc::new(OrphanedClaims::default());
        drop(orphans.claim(&key("a"), "t", 5));
        orphans.claim(&key("b"), "u", 5).close();
        assert!(
            !orphans.take(&key("b"), "u") && !orphans.take(&key("a"), "u") && !orphans.take(&key("b"), "t")
        );
        assert!(orphans.take(&key("a"), "t"));
        assert!(!orphans.take(&key("a"), "t"));
    }

    #[test]
    fn the_oldest_go_first() {
        let orphans = Arc::new(OrphanedClaims::default());
        for n in 0..=MOST {
            drop(orphans.claim(&key(&n.to_string()), "t", 10_000 - i64::try_from(n).unwrap()));
        }
        assert_eq!(orphans.all().len(), MOST);
        assert!(orphans.take(&key("0"), "t") && !orphans.take(&key(&MOST.to_string()), "t"));
    }
}
