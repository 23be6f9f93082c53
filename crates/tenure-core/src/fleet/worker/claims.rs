//! The claims that the plan asks for. Only a bounded number is under way at a time: the next plan may ask for others, and this worker
//! would have to pass on the claims begun by then. Where the store refuses one because it has too much to do, it is made again after the others.

use super::congestion::CongestionWindow;
use super::env::FleetEnv;
use crate::fleet::seen::ListedRecord;
use crate::holder::lease_id::LeaseId;
use crate::values::key::Key;
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, VecDeque};

/// A unit that is to be claimed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    pub(super) key: Key,
    /// Its record, unless that has to be read first.
    pub(super) seen: Option<ListedRecord>,
    /// The session of the worker that is to have it in the end.
    pub(super) target: Option<Key>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Claims {
    waiting: VecDeque<Claim>,
    /// Claims without an answer. Each is kept if it can be made again.
    under_way: BTreeMap<LeaseId, Option<Claim>>,
    window: CongestionWindow,
}

/// What becomes of a claim that the store has too much to do for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusedClaim {
    /// It is made again after the others.
    PutOff,
    /// It was to be made again, and is not wanted any more.
    Dropped,
    /// It can't be made again by what was known: its unit's record is to be seen first.
    Unseen,
}

impl Claims {
    /// These are to be made from now on; of those before, only what was begun.
    pub(super) fn plan(&mut self, claims: VecDeque<Claim>) {
        self.waiting = claims;
    }

    /// Those that have no answer yet.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &LeaseId> {
        self.under_way.keys()
    }

    pub(super) fn begun(&mut self, lease: LeaseId) {
        self.under_way.entry(lease).or_insert(None);
    }

    /// This is the claim that was begun under a lease.
    pub(super) fn keep(&mut self, lease: LeaseId, claim: Claim) {
        self.under_way.insert(lease, Some(claim).filter(|claim| claim.seen.is_some()));
    }

    /// Nobody waits for an answer any more.
    pub(super) fn ended(&mut self, lease: LeaseId) {
        self.under_way.remove(&lease);
    }

    /// The store has done it, or has shown who has the unit.
    pub(super) fn answered(&mut self, lease: LeaseId) {
        self.window.answered();
        self.ended(lease);
    }

    /// The next one to begin.
    pub(super) fn next(&mut self, now: Now) -> Option<Claim> {
        if self.window.is_open(now, self.under_way.len()) { self.waiting.pop_front() } else { None }
    }

    /// The store has too much to do for it.
    pub(super) fn refused(
        &mut self,
        now: Now,
        env: &FleetEnv,
        lease: LeaseId,
        is_wanted: bool,
    ) -> RefusedClaim {
        self.window.refused(now, env.refusal_pause());
        match self.under_way.remove(&lease).flatten() {
            Some(claim) if is_wanted => {
                self.waiting.push_back(claim);
                RefusedClaim::PutOff
            }
            Some(_) => RefusedClaim::Dropped,
            None => RefusedClaim::Unseen,
        }
    }

    /// When the next one begins, unless one has to end before.
    pub(super) fn wake_at(&self) -> Option<Tick> {
        self.window.wake_at(self.under_way.len()).filter(|_| !self.waiting.is_empty())
    }
}

#[cfg(test)]
impl Claims {
    /// How many wait for others to end.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
