//! Making the claims that the plan asks for, for the units that this worker does not have yet.

use super::FleetWorker;
use super::claims::{Claim, RefusedClaim};
use crate::fleet::seen::ListedRecord;
use crate::holder::lease_id::LeaseId;
use crate::values::time::Now;
use std::collections::VecDeque;

impl FleetWorker {
    /// These are to be made from now on, but not what the store has just refused.
    pub(super) fn plan_claims(&mut self, now: Now, claims: VecDeque<Claim>) {
        let claims = self.without_refused(now, claims);
        self.claims.plan(claims);
    }

    pub(super) fn wake_claims(&mut self, now: Now) {
        while let Some(claim) = self.claims.next(now) {
            let Claim { key, seen, target } = claim.clone();
            if self.own.contains_key(&key) {
                continue;
            }
            self.try_unit(now, key.clone(), seen.map(ListedRecord::stored));
            let goes = target.as_ref().and_then(|session| self.roster.moved_to(session));
            if let Some(own) = self.own.get_mut(&key) {
                (own.given, own.goes, own.transferee) = (goes.is_some(), goes, target);
                self.claims.keep(own.lease, claim);
            }
        }
    }

    /// The store has too much to do for a claim. What is free is claimed again after the others, and what was passed on to this worker once a look has
    /// shown it again.
    pub(super) fn put_off(&mut self, now: Now, lease: LeaseId) {
        let takes_part = !self.life.leaving && !self.is_stopping() && self.session_fence().is_some();
        // By a newer plan it is another's, or nobody's.
        let goes = self.own_of(lease).is_some_and(|(_, own)| own.goes.is_some());
        let refused = self.claims.refused(now, &self.env, lease, takes_part && !goes);
        let Some(key) = self.forget(lease) else { return };
        if takes_part && refused == RefusedClaim::Unseen {
            self.awaited.insert(key);
            self.look.by(now.held.after(self.env.part(16)));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: so many claims are begun as may be under way, and one more for each that has ended; a new plan replaces what waits; what the store
    //! refuses for now is claimed again after the others and after a pause, unless it is another's by then.
    use super::*;
    use crate::fleet::talk::Reason;
    use crate::fleet::worker::alone::{at, holder, unit, up, vacant};
    use crate::fleet::worker::own::Own;
    use crate::values::error::StoreError;

    const MOST: usize = 128;

    fn claim(n: usize) -> Claim {
        Claim { key: unit(n), seen: Some((*vacant()).into()), target: None }
    }

    /// Plans these, and begins what it may; the leases that are under way.
    fn plans(worker: &mut FleetWorker, units: impl Iterator<Item = usize>) -> Vec<LeaseId> {
        worker.claims.plan(units.map(claim).collect());
        worker.wake_claims(at(10));
        worker.claims.under_way().copied().collect()
    }

    #[test]
    fn so_many_are_under_way_and_no_more() {
        let mut worker = up();
        let begun = plans(&mut worker, 0..MOST + 2);
        assert_eq!((begun.len(), worker.claims.wake_at()), (MOST, None));
        assert!(!worker.own.contains_key(&unit(MOST)));
        worker.claims.ended(begun[5]);
        worker.wake_claims(at(10));
        assert!(worker.own.contains_key(&unit(MOST)));
        worker.claims.ended(begun[6]);
        plans(&mut worker, 777..778);
        assert!(worker.own.contains_key(&unit(777)));
        assert!(!worker.own.contains_key(&unit(MOST + 1)), "what waited is not wanted any more");
        assert_eq!(worker.claims.next(at(900)), None);
    }

    #[test]
    fn l4_what_a_busy_store_refuses_is_claimed_again_after_the_others_and_after_a_pause() {
        let mut worker = up();
        let begun = plans(&mut worker, 0..MOST + 1);
        for lease in begun {
            worker.failed(at(10), lease, StoreError::unavailable("throttled"));
        }
        assert!(worker.own.is_empty() && worker.awaited.is_empty());
        worker.wake_claims(at(10));
        assert!(worker.own.is_empty());
        let resumes = worker.claims.wake_at().unwrap().since(at(10).held);
        assert!((worker.env.part(64)..worker.env.part(32)).contains(&resumes), "{resumes:?}");
        worker.wake_claims(at(12));
        assert_eq!((worker.own.len(), worker.claims.under_way().count()), (MOST / 2, MOST / 2));
        let begun: Vec<bool> = [MOST, 0, MOST / 2].map(|n| worker.own.contains_key(&unit(n))).into();
        assert_eq!(begun, [true, true, false]);
        let lease = *worker.claims.under_way().next().unwrap();
        worker.claims.answered(lease);
        worker.wake_claims(at(12));
        assert_eq!(worker.claims.under_way().count(), MOST / 2 + 1);
    }

    /// Claims a unit, whose claim is refused once this has been changed about it.
    fn refused(seen: bool, change: impl FnOnce(&mut FleetWorker)) -> FleetWorker {
        let mut worker = up();
        worker.claims.plan([Claim { seen: claim(0).seen.filter(|_| seen), ..claim(0) }].into());
        worker.wake_claims(at(10));
        let lease = worker.own[&unit(0)].lease;
        change(&mut worker);
        worker.failed(at(10), lease, StoreError::unavailable("throttled"));
        assert!(
            worker.own.is_empty()
                && worker.own.unit_of(lease).is_none()
                && worker.claims.under_way().next().is_none()
        );
        worker
    }

    fn own(worker: &mut FleetWorker) -> &mut Own {
        worker.own.get_mut(&unit(0)).unwrap()
    }

    #[test]
    fn what_was_passed_on_is_looked_at_again_and_what_is_free_is_claimed_again() {
        for seen in [true, false] {
            let worker = refused(seen, |_| ());
            assert_eq!((worker.claims.waiting(), worker.awaited.len()), if seen { (1, 0) } else { (0, 1) });
            assert_eq!(worker.look.next() <= at(13).held, !seen);
        }
        let told = |change: fn(&mut Own)| refused(true, |worker| change(own(worker)));
        for worker in [told(|own| own.hinted = true), told(|own| own.letter = true)] {
            assert!(worker.claims.waiting() == 0 && worker.awaited.contains(&unit(0)), "that is a miss");
        }
    }

    #[test]
    fn what_a_newer_plan_gives_to_others_is_not_claimed_again_nor_anything_by_who_leaves() {
        let moved = refused(true, |worker| own(worker).goes = Some(Reason::Moved(holder(1))));
        let leaves = refused(true, |worker| worker.life.leaving = true);
        let passed_on = refused(false, |worker| worker.life.leaving = true);
        for worker in [moved, leaves, passed_on] {
            assert!(worker.claims.waiting() == 0 && worker.awaited.is_empty());
        }
    }
}
