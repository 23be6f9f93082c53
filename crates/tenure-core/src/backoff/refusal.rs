//! What the store refuses, and may refuse for good: it is tried again after as long as it has been refused by now, up to 32 ttls. So that becomes
//! rare, and does not end.

use super::MOMENT;
use crate::values::time::{Now, Tick};
use std::collections::BTreeMap;
use std::time::Duration;

/// After so many ttls it is tried again at the latest.
const LONGEST: u32 = 32;

/// One thing that the store refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LastingRefusal {
    since: Tick,
    /// What was for a moment begins nothing that lasts.
    passes: bool,
    /// When it is tried again.
    pub(crate) again_at: Tick,
}

impl LastingRefusal {
    /// It was refused, after it had been before, or for the first time. `passes`: that is over soon, and the next attempt comes after 5 s at the latest.
    pub(crate) fn next(
        before: Option<LastingRefusal>,
        now: Now,
        ttl: Duration,
        passes: bool,
    ) -> LastingRefusal {
        let same = before.filter(|refusal| refusal.passes == passes);
        let since = same.map_or(now.held, |refusal| refusal.since);
        let most = if passes { (ttl / 4).min(MOMENT) } else { ttl * LONGEST };
        LastingRefusal { since, passes, again_at: now.held.after(now.held.since(since).min(most)) }
    }

    /// The same, with some time before the next attempt, however short it was refused.
    pub(crate) fn at_the_soonest(self, again_at: Tick) -> LastingRefusal {
        LastingRefusal { again_at: self.again_at.max(again_at), ..self }
    }

    /// For how long it has been refused by now.
    pub(crate) fn stood(&self, now: Now) -> Duration {
        now.held.since(self.since)
    }

    /// Whether it is not to be tried yet.
    pub(crate) fn waits(&self, now: Now) -> bool {
        now.held < self.again_at
    }
}

/// Things of one kind that the store refuses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Refusals<K>(BTreeMap<K, LastingRefusal>);

impl<K> Default for Refusals<K> {
    fn default() -> Refusals<K> {
        Refusals(BTreeMap::new())
    }
}

impl<K: Ord> Refusals<K> {
    /// This one was refused, maybe once more; the next attempt comes no sooner than that.
    pub(crate) fn add(
        &mut self,
        now: Now,
        what: K,
        ttl: Duration,
        passes: bool,
        soonest: Tick,
    ) -> LastingRefusal {
        let before = self.0.get(&what).copied();
        let refusal = LastingRefusal::next(before, now, ttl, passes).at_the_soonest(soonest);
        self.0.insert(what, refusal);
        refusal
    }

    /// Until when this one is left alone, if it is not to be tried yet.
    pub(crate) fn until(&self, now: Now, what: &K) -> Option<Tick> {
        self.0.get(what).filter(|refusal| refusal.waits(now)).map(|refusal| refusal.again_at)
    }

    /// This one was not refused, or is nobody's concern any more.
    pub(crate) fn remove(&mut self, what: &K) {
        self.0.remove(what);
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&K) -> bool) {
        self.0.retain(|what, _| is_kept(what));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: pauses grow with the time that something is refused for, up to a bound, which is small for what passes and begins nothing that lasts; of
    //! several things each has its own.
    use super::*;
    use crate::values::time::Wall;

    const TTL: Duration = Duration::from_secs(48);

    fn at(secs: u64) -> Now {
        let tick = Tick(secs * 1_000_000_000);
        Now { held: tick, waited: tick, wall: Wall(secs * 1000) }
    }

    /// The pauses, in seconds, if it is tried whenever that is due, and once more after a second at first.
    fn pauses(passes: bool) -> Vec<u64> {
        let mut now = at(100);
        let mut refusal = LastingRefusal::next(None, now, TTL, passes);
        assert!(!refusal.waits(now), "at first at once");
        now = at(101);
        let mut pauses = Vec::new();
        for _ in 0..13 {
            refusal = LastingRefusal::next(Some(refusal), now, TTL, passes);
            pauses.push(refusal.again_at.since(now.held).as_secs());
            now.held = refusal.again_at;
        }
        pauses
    }

    #[test]
    fn what_is_refused_for_long_is_tried_ever_more_seldom_and_what_passes_soon() {
        assert_eq!(pauses(false), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 1536]);
        assert_eq!(pauses(true), [1, 2, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]);
    }

    #[test]
    fn what_was_for_a_moment_begins_nothing_that_lasts() {
        let refused = |before, secs, passes| LastingRefusal::next(before, at(secs), TTL, passes);
        let passing = refused(Some(refused(None, 100, true)), 2000, true);
        let lasting = refused(Some(passing), 2001, false);
        assert!(!lasting.waits(at(2001)) && lasting.stood(at(2002)).as_secs() == 1);
    }

    #[test]
    fn of_several_each_is_refused_for_itself_until_it_is_not() {
        let mut refusals = Refusals::default();
        let add = |refusals: &mut Refusals<u8>, secs, what| {
            let soonest = at(secs + 3).held;
            refusals.add(at(secs), what, TTL, false, soonest).again_at.since(at(secs).held).as_secs()
        };
        assert_eq!(
            [(100, 1), (110, 1), (110, 2)].map(|(secs, what)| add(&mut refusals, secs, what)),
            [3, 10, 3]
        );
        let until = |refusals: &Refusals<u8>, secs| [1, 2, 3].map(|what| refusals.until(at(secs), &what));
        assert_eq!(until(&refusals, 112), [Some(at(120).held), Some(at(113).held), None]);
        assert_eq!(until(&refusals, 113), [Some(at(120).held), None, None]);
        refusals.retain(|what| *what != 2);
        assert_eq!(add(&mut refusals, 130, 2), 3, "it was forgotten");
        refusals.remove(&1);
        assert_eq!(add(&mut refusals, 130, 1), 3, "it was forgotten");
        refusals.clear();
        assert!(refusals.is_empty());
    }

    #[test]
    fn an_attempt_can_be_put_off_further_and_is_not_brought_forward() {
        let refusal = LastingRefusal::next(None, at(100), TTL, false);
        assert!(refusal.at_the_soonest(at(103).held).waits(at(102)));
        assert_eq!(refusal.at_the_soonest(at(99).held), refusal);
    }
}
