//! A claim whose answer somebody waits for.

use crate::leases::Leases;
use tenure_core::{Command, LeaseId};

/// Gives a claim up if it is dropped before it is done: nobody waits for the answer any more, which may have come all the same.
pub(crate) struct PendingClaim<'a> {
    leases: &'a Leases,
    id: LeaseId,
    is_done: bool,
}

impl PendingClaim<'_> {
    pub(crate) fn new(leases: &Leases, id: LeaseId) -> PendingClaim<'_> {
        PendingClaim { leases, id, is_done: false }
    }

    /// Whoever asked has the answer.
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for PendingClaim<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.leases.inner.send(Command::Release(self.id, None));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a claim that nobody waits for any more leaves nothing behind, of a lock and of permits.
    use super::*;
    use std::time::Duration;

    /// It is begun, and nobody waits for it.
    async fn drop_once_begun(claim: impl Future) {
        let mut claim = std::pin::pin!(claim);
        assert!(futures_util::poll!(&mut claim).is_pending());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test]
    async fn a_claim_that_nobody_waits_for_leaves_nothing_behind() {
        let leases = Leases::builder(crate::memory()).start().unwrap();
        let _lock = leases.acquire("k").await.unwrap();
        let _permits = leases.exclusive("k").acquire().await.unwrap();
        for _ in 0..10 {
            drop_once_begun(leases.acquire("k")).await;
            drop_once_begun(leases.exclusive("k").acquire()).await;
        }
        let all_gone = async {
            while !leases.inner.users().replies.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(20), all_gone).await.is_ok());
    }
}
