//! The claims that the plan asks for. Only a bounded number is under way at a time: the next plan may ask for others, and this worker
//! would have to pass on the claims begun by then.

use super::Worker;
use crate::fleet::seen::ListedRecord;
use crate::fleet::talk::Reason;
use crate::holder::lease_id::LeaseId;
use crate::values::key::Key;
use crate::values::time::Now;
use std::collections::{BTreeSet, VecDeque};

/// How many are under way at a time.
const MOST: usize = 128;

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
    under_way: BTreeSet<LeaseId>,
}

impl Claims {
    /// These are to be made from now on; of those before, only what was begun.
    pub(super) fn plan(&mut self, claims: VecDeque<Claim>) {
        self.waiting = claims;
    }

    pub(super) fn begun(&mut self, lease: LeaseId) {
        self.under_way.insert(lease);
    }

    pub(super) fn ended(&mut self, lease: LeaseId) {
        self.under_way.remove(&lease);
    }

    fn next(&mut self) -> Option<Claim> {
        if self.under_way.len() < MOST { self.waiting.pop_front() } else { None }
    }
}

impl Worker {
    pub(super) fn wake_claims(&mut self, now: Now) {
        while let Some(Claim { key, seen, target }) = self.claims.next() {
            if self.own.contains_key(&key) {
                continue;
            }
            self.try_unit(now, key.clone(), seen.map(ListedRecord::stored));
            let moved = target.as_ref().and_then(|session| self.peers.get(session));
            let goes = moved.map(|peer| Reason::Moved(peer.holder.clone()));
            if let Some(own) = self.own.get_mut(&key) {
                (own.given, own.goes, own.transferee) = (goes.is_some(), goes, target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: so many claims are begun as may be under way, and one more for each that has ended; a new plan replaces what waits.
    use super::*;

    fn claim(n: usize) -> Claim {
        Claim { key: Key::new(format!("u{n}")).unwrap(), seen: None, target: None }
    }

    #[test]
    fn so_many_are_under_way_and_no_more() {
        let mut claims = Claims::default();
        claims.plan((0..MOST + 2).map(claim).collect());
        for n in 0..MOST {
            assert_eq!(claims.next(), Some(claim(n)));
            claims.begun(LeaseId(n as u64));
        }
        assert_eq!(claims.next(), None);
        claims.ended(LeaseId(5));
        assert_eq!(claims.next(), Some(claim(MOST)));
        claims.begun(LeaseId(MOST as u64));
        claims.plan([claim(7)].into());
        claims.ended(LeaseId(6));
        assert_eq!(claims.next(), Some(claim(7)));
        assert_eq!(claims.next(), None, "what waited is not wanted any more");
    }
}
