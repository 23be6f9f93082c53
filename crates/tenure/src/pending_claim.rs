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
