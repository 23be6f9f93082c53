//! A worker's pace: it follows the shortest ttl in its fleet. So a death is noticed within a bound by the dead worker's own ttl, and not by
//! that of the worker that happens to watch it. Where ttls differ by more than eight, a 24th of the watcher's own ttl is added
//! (docs/promises.md, *Cases that take longer*).

use crate::values::time::Ttl;
use std::time::Duration;

/// However short others' ttls are, a worker reacts at the most so many times as quickly as its own ttl asks for.
const MOST: u32 = 8;

/// The ttls that a worker goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Pace {
    own: Ttl,
    /// By which this worker reacts.
    quick: Duration,
    /// By which all others react, the slowest of them.
    heard: Duration,
}

impl Pace {
    pub(super) fn new(own: Ttl) -> Pace {
        Pace { own, quick: own.duration(), heard: own.duration() }
    }

    /// The ttl that this worker reacts by.
    pub(super) fn quick(&self) -> Duration {
        self.quick
    }

    /// The ttl that all others react by.
    pub(super) fn heard(&self) -> Duration {
        self.heard
    }

    /// Goes by these ttls from now on, and its own.
    pub(super) fn meet(&mut self, others: impl Iterator<Item = Ttl>) {
        let (mut least, mut most) = (self.own, self.own);
        for ttl in others {
            (least, most) = (least.min(ttl), most.max(ttl));
        }
        self.quick = least.duration().max(self.own.part(MOST));
        self.heard = least.duration().max(most.part(MOST));
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the shortest ttl counts, within bounds, whoever has it; once it is gone it counts no more; a moment's trouble is short, whatever the ttl is,
    //! and so is the time until the next change is told and planned.
    use super::*;
    use crate::fleet::worker::alone::{at, led};
    use crate::fleet::worker::listing::Listing;
    use crate::op::{Answer, Outcome};
    use crate::values::error::StoreError;
    use crate::values::fence::{Fence, Version};
    use std::collections::BTreeMap;

    fn ttl(secs: u64) -> Ttl {
        Ttl::new(Duration::from_secs(secs)).unwrap()
    }

    #[test]
    fn the_shortest_ttl_counts_within_bounds() {
        let paced = |own: u64, others: &[u64]| {
            let mut pace = Pace::new(ttl(own));
            pace.meet(others.iter().map(|secs| ttl(*secs)));
            (pace.quick.as_secs(), pace.heard.as_secs())
        };
        assert_eq!(paced(8, &[]), (8, 8));
        assert_eq!(paced(8, &[16, 4, 8]), (4, 4));
        assert_eq!(paced(2, &[8]), (2, 2));
        assert_eq!(paced(80, &[4]), (10, 10));
        assert_eq!(paced(4, &[80]), (4, 10));
    }

    #[test]
    fn who_has_gone_counts_no_more() {
        let mut pace = Pace::new(ttl(8));
        pace.meet([ttl(2)].into_iter());
        assert_eq!(pace.quick, Duration::from_secs(2));
        pace.meet([ttl(9)].into_iter());
        assert_eq!(pace, Pace::new(ttl(8)));
    }

    #[test]
    fn l4_a_moments_trouble_puts_nothing_off_for_minutes_however_long_the_ttl_is() {
        let (away, denied) = (|| Err(StoreError::unavailable("away")), StoreError::unsupported("denied"));
        for secs in [48, 3600, 86_400] {
            let mut worker = led(1, true);
            worker.env.pace = Pace::new(ttl(secs));
            worker.want_advance(at(100).held);
            worker.wake_advance(at(100));
            worker.advanced(at(101), away());
            assert!(worker.advance.wake_at() <= Some(at(106).held), "{secs}");
            worker.looked(at(101), away());
            assert!(worker.look.next() <= at(106).held, "{secs}");
            assert_eq!(worker.env.pause(16, &denied), worker.env.part(16), "what may last is no more often");
        }
    }

    #[test]
    fn l2_what_changes_after_a_listing_waits_no_minutes_for_the_next_however_long_the_ttl_is() {
        for (secs, least) in [(48, 1500), (3600, 5000), (86_400, 5000)] {
            let mut worker = led(1, true);
            worker.env.pace = Pace::new(ttl(secs));
            worker.listed_all(at(0), Listing::of_peers(BTreeMap::clone(&worker.roster)));
            let pause = worker.lister.rests_until().0.since(at(0).held);
            assert_eq!(pause.as_millis(), least, "{secs}");
            worker.want_advance(at(100).held);
            worker.wake_advance(at(100));
            worker.want_advance(at(100).held);
            let won = Answer::Write(Outcome::Won { version: Version(2), fence: Fence(8) });
            worker.advanced(at(100), Ok(won));
            let raises = worker.advance.wake_at().unwrap().since(at(100).held);
            assert_eq!(raises.as_millis(), least, "{secs}");
        }
    }
}
