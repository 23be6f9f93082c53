//! Units that are planned for this worker, and that it could not get: another worker has them, or the store refuses them. It leaves each alone for
//! a while.

use super::FleetWorker;
use super::claims::Claim;
use crate::backoff::refusal::Refusals;
use crate::bugs::Bug;
use crate::holder::lease_id::LeaseId;
use crate::values::key::Key;
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, VecDeque};

/// In how many spans, each twice as long as the one before, all are asked to look again after a unit that can't be had.
const ROUNDS: u32 = 3;
/// A unit that is planned for this worker, and was not to be had.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Miss {
    rounds: u32,
    /// Until then, another miss is the same one. If it is still missed by then, all have to look again.
    until: Tick,
    /// That was said.
    told: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Doubts {
    missed: BTreeMap<Key, Miss>,
    /// Units that were missed here and are planned for others now, who may not have made that plan: when to tell them.
    owed: BTreeMap<Key, Tick>,
    /// Units whose records the store does not let this worker write.
    refused: Refusals<Key>,
    /// When to list again, of one's own accord.
    pub(super) list_at: Option<Tick>,
}

impl Doubts {
    pub(super) fn wake_at(&self) -> Option<Tick> {
        self.tells_at()
    }

    /// When to have all look again after what is missed, if it is missed for as long as that.
    fn tells_at(&self) -> Option<Tick> {
        let untold = self.missed.values().filter(|miss| miss.is_untold()).map(|miss| miss.until);
        untold.chain(self.owed.values().copied()).min()
    }

    /// Notes that it is being said, for what is due.
    fn tell_due(&mut self, now: Now) -> bool {
        let due = self.tells_at().is_some_and(|at| now.held >= at);
        for miss in self.missed.values_mut().filter(|miss| now.held >= miss.until) {
            miss.told = true;
        }
        self.owed.retain(|_, at| now.held < *at);
        due
    }

    /// It was got, or is nobody's concern any more.
    pub(super) fn settle(&mut self, unit: &Key) {
        self.missed.remove(unit);
        self.owed.remove(unit);
        self.refused.remove(unit);
    }

    /// Of the units that the store refuses, these are not had by others meanwhile.
    pub(super) fn keep_refused(&mut self, may_want: impl Fn(&Key) -> bool) {
        self.refused.retain(may_want);
    }

    /// Only these are planned for this worker; of the others, those that are at rest are where they belong.
    pub(super) fn keep(&mut self, planned: impl Fn(&Key) -> bool, at_rest: impl Fn(&Key) -> bool) {
        let gone = self.missed.iter().filter(|(unit, miss)| miss.is_untold() && !planned(unit));
        self.owed.extend(gone.map(|(unit, miss)| (unit.clone(), miss.until)));
        self.owed.retain(|unit, _| !planned(unit) && !at_rest(unit));
        self.missed.retain(|unit, _| planned(unit));
    }
}

impl Miss {
    fn is_untold(&self) -> bool {
        self.rounds <= ROUNDS && !self.told
    }
}

impl FleetWorker {
    /// Somebody else has it. Whether that is right, time will tell.
    pub(super) fn missed(&mut self, now: Now, lease: LeaseId) {
        let was_hinted = self.own_of(lease).is_some_and(|(_, own)| own.hinted);
        let Some(key) = self.forget(lease) else { return };
        if was_hinted {
            // Its owner may just have written a checkpoint. If it should be free, the next look shows that.
            self.awaited.insert(key);
            return;
        }
        let interval = self.env.interval();
        let miss =
            self.doubts.missed.entry(key.clone()).or_insert(Miss { rounds: 0, until: Tick(0), told: true });
        let is_new = now.held >= miss.until;
        if is_new {
            miss.rounds += 1;
            miss.until = now.held.after(interval * (1 << miss.rounds.min(ROUNDS)));
            miss.told = false;
        }
        let rounds = miss.rounds;
        if rounds > ROUNDS {
            // Whatever is wrong there, asking more often does not mend it: it is tried again when all is listed again.
            return;
        }
        self.awaited.insert(key);
        self.look.by(now.held.after(self.env.part(16)));
        if is_new {
            self.awaited.begin(now);
            // Whoever made another plan has done some of it by now: seen again, the rest may be free.
            self.list_again(now.held.after(self.env.part(16)));
        }
    }

    /// Where the newest plan does not name a unit any more, a claim that a hint brought about is like any other. Otherwise, it would be waited for for
    /// ever, and each checkpoint of its owner would cost a claim.
    pub(super) fn doubt_hinted(&mut self, planned: impl Fn(&Key) -> bool) {
        let stale = self.own.iter().filter(|(unit, own)| own.hinted && !planned(unit));
        for unit in stale.map(|(unit, _)| unit.clone()).collect::<Vec<Key>>() {
            if let Some(own) = self.own.get_mut(&unit) {
                own.hinted = false;
            }
        }
    }

    /// The store does not let this worker claim it, maybe for good. Nobody else can mend that, so nobody is told: all is listed again,
    /// and it is tried again, after as long as it has been refused by now. So that becomes rare, and does not end.
    pub(super) fn refused(&mut self, now: Now, lease: LeaseId) {
        let Some(key) = self.forget(lease) else { return };
        let (ttl, soonest) = (self.env.part(1), now.held.after(self.env.part(16)));
        let refusal = self.doubts.refused.add(now, key, ttl, false, soonest);
        self.list_again(refusal.again_at);
    }

    /// Leaves out what the store has refused, until that is to be tried again: all is listed for other reasons, too.
    pub(super) fn without_refused(&mut self, now: Now, mut claims: VecDeque<Claim>) -> VecDeque<Claim> {
        if self.env.has_bug(Bug::RefusalForgotten) {
            return claims;
        }
        let mut again_at = None;
        claims.retain(|claim| {
            let later = self.doubts.refused.until(now, &claim.key);
            again_at = again_at.into_iter().chain(later).min();
            later.is_none()
        });
        if let Some(again_at) = again_at {
            self.list_again(again_at);
        }
        claims
    }

    pub(super) fn wake_doubts(&mut self, now: Now) {
        // If it is still somebody else's by now, plans differ, and all have to look again.
        if self.doubts.tell_due(now) {
            self.want_advance(now.held);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a unit that can't be had is asked after again and again, more and more seldom, and then left alone, until it was
    //! got or is planned for others; one that the store refuses is tried ever more seldom, and always; all are told ever more seldom of
    //! what stays where it is not planned.
    use super::*;
    use crate::fleet::worker::alone::*;
    use crate::values::error::StoreError;

    /// Claims a unit that somebody else has. Whether it waits for that, when it lists again, and when all do.
    fn misses(worker: &mut FleetWorker, secs: u64) -> (bool, Option<u64>, Option<u64>) {
        worker.advance.end();
        worker.doubts.list_at = None;
        worker.try_unit(at(secs), unit(0), None);
        let lease = worker.own[&unit(0)].lease;
        let before = worker.doubts.tells_at();
        worker.missed(at(secs), lease);
        let waits = worker.awaited.remove(&unit(0));
        let since = |tick: Option<Tick>| tick.map(|tick| tick.since(at(secs).held).as_secs());
        assert!(worker.advance.is_idle(), "what is had by then is told to nobody");
        let tells = worker.doubts.tells_at().filter(|at| Some(*at) != before);
        (waits, since(worker.doubts.list_at), since(tells))
    }

    #[test]
    fn what_cant_be_had_is_asked_after_more_and_more_seldom_and_then_left_alone() {
        let mut worker = worker(0);
        let mut secs = 100;
        for span in [32, 64, 128] {
            assert_eq!(misses(&mut worker, secs), (true, Some(3), Some(span)));
            assert_eq!(misses(&mut worker, secs + span - 1), (true, None, None), "that is the same miss");
            secs += span;
        }
        for secs in [secs, secs + 1000] {
            assert_eq!(misses(&mut worker, secs), (false, None, None));
        }
        worker.doubts.keep(|planned| *planned == unit(0), |_| false);
        assert_eq!(misses(&mut worker, secs + 2000), (false, None, None));
        for was_got in [true, false] {
            if was_got {
                worker.doubts.settle(&unit(0));
            } else {
                worker.doubts.keep(|_| false, |_| true);
            }
            assert_eq!(misses(&mut worker, secs + 3000), (true, Some(3), Some(32)));
        }
    }

    #[test]
    fn c1_all_are_told_of_what_is_missed_once_and_only_if_it_is_missed_for_as_long_as_that() {
        let mut worker = worker(0);
        misses(&mut worker, 100);
        worker.wake_doubts(at(131));
        assert!(worker.advance.is_idle());
        worker.wake_doubts(at(132));
        assert_eq!((worker.advance.wanted_at(), worker.doubts.wake_at()), (Some(at(132).held), None));
        let others = |worker: &mut FleetWorker, at_rest| worker.doubts.keep(|_| false, |_| at_rest);
        for was_got in [true, false] {
            others(&mut worker, true);
            misses(&mut worker, 1000);
            if was_got {
                worker.doubts.settle(&unit(0));
            } else {
                others(&mut worker, true);
            }
            worker.wake_doubts(at(2000));
            assert!(worker.advance.is_idle());
        }
        misses(&mut worker, 3000);
        others(&mut worker, false);
        worker.wake_doubts(at(3031));
        assert!(worker.advance.is_idle(), "whoever is to have it now may know");
        worker.wake_doubts(at(3032));
        assert_eq!((worker.advance.wanted_at(), worker.doubts.wake_at()), (Some(at(3032).held), None));
    }

    /// Claims a unit, which the store refuses. When it lists again, in seconds.
    fn is_refused(worker: &mut FleetWorker, secs: u64) -> u64 {
        worker.doubts.list_at = None;
        worker.try_unit(at(secs), unit(0), None);
        let lease = worker.own[&unit(0)].lease;
        worker.failed(at(secs), lease, StoreError::unsupported("denied"));
        assert!(worker.awaited.is_empty() && worker.own.is_empty());
        assert_eq!(worker.doubts.wake_at(), None, "nobody is told");
        worker.doubts.list_at.unwrap().since(at(secs).held).as_secs()
    }

    #[test]
    fn c1_what_the_store_refuses_is_tried_ever_more_seldom_and_never_let_go() {
        let mut worker = worker(0);
        let mut secs = 100;
        let gaps: Vec<u64> = (0..13)
            .map(|_| {
                let gap = is_refused(&mut worker, secs);
                secs += gap;
                gap
            })
            .collect();
        assert_eq!(gaps, [3, 3, 6, 12, 24, 48, 96, 192, 384, 768, 1536, 1536, 1536]);
        worker.doubts.keep_refused(|refused| *refused == unit(0));
        assert_eq!(is_refused(&mut worker, secs), 1536);
        worker.doubts.settle(&unit(0));
        assert_eq!(is_refused(&mut worker, secs), 3, "it was got meanwhile");
        assert_eq!(is_refused(&mut worker, secs + 30), 30, "all may have been listed for another reason");
        worker.doubts.keep_refused(|refused| *refused != unit(0));
        assert_eq!(is_refused(&mut worker, secs + 40), 3, "somebody else had it meanwhile");
    }

    #[test]
    fn c1_what_the_store_has_just_refused_is_not_claimed_whenever_all_is_listed() {
        let mut worker = up();
        let gaps = [100, 103, 106].map(|secs| is_refused(&mut worker, secs));
        assert_eq!(gaps, [3, 3, 6]);
        worker.doubts.list_at = None;
        for (secs, is_claimed) in [(111, false), (112, true)] {
            let claim = |n| Claim { key: unit(n), seen: Some((*vacant()).into()), target: None };
            worker.plan_claims(at(secs), [claim(0), claim(1)].into());
            worker.wake_claims(at(secs));
            assert!(worker.own.contains_key(&unit(1)), "others are");
            assert_eq!(worker.own.contains_key(&unit(0)), is_claimed, "{secs}");
            assert_eq!(worker.doubts.list_at, Some(at(112).held), "all is listed when it is due");
        }
    }

    #[test]
    fn trouble_that_passes_is_a_miss_and_no_refusal() {
        let mut worker = worker(0);
        worker.try_unit(at(100), unit(0), None);
        let lease = worker.own[&unit(0)].lease;
        worker.failed(at(100), lease, StoreError::unknown("away"));
        assert!(worker.awaited.contains(&unit(0)) && worker.doubts.refused.is_empty());
    }
}
