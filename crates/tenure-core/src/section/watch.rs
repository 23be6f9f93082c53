//! Entries whose time is over. An entry is never renewed, so it is enough to know that it has stood for its whole duration.
//!
//! As for leases (see `failure_detector`), there are two answers. *Observed*: this process has itself had the very entry in view for its
//! full duration, counted from after the answer that first showed it. *First sight*: two witnesses agree that more than its
//! duration has passed. One is the store's clock (see `since`), the other the wall clocks (ours against the holder's stamp). With the
//! first answer alone, a dead process's entry would stay for ever where only processes that live shorter than its duration come and go.

use super::ledger::{Entry, SectionLedger};
use crate::bugs::Bug;
use crate::rules::Rules;
use crate::values::fence::Nonce;
use crate::values::time::jumps::ClockJumps;
use crate::values::time::{Now, Tick};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a look at the record tells about time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RecordLook {
    /// The store's clock, in microseconds, if it tells.
    pub(super) clock: Option<u64>,
    /// When, by the waiter's clock, that was learnt.
    pub(super) at: Tick,
}

impl RecordLook {
    /// How much time was measured since.
    pub(super) fn waited(&self, now: Now) -> Duration {
        now.waited.since(self.at)
    }

    /// The same, as if learnt now.
    pub(super) fn moved_to(self, now: Now) -> RecordLook {
        let waited = u64::try_from(self.waited(now).as_micros()).unwrap_or(u64::MAX);
        RecordLook { clock: self.clock.map(|clock| clock.saturating_add(waited)), at: now.waited }
    }

    /// For how long, at least, `entry` stands by now, if the store tells.
    pub(super) fn stood(&self, now: Now, entry: &Entry) -> Option<Duration> {
        entry.since.elapsed(self.moved_to(now).clock?)
    }
}

/// Since when each entry of a section has been in view.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct EntryWatch {
    since: BTreeMap<Nonce, Tick>,
    /// Since when two witnesses that are one clock may be believed.
    jumps: ClockJumps,
}

impl EntryWatch {
    /// Takes note of this process's clocks, whatever it does: one that is set ahead may be the store's, too.
    pub(super) fn see_clocks(&mut self, now: Now) {
        self.jumps.look(now);
    }

    /// Takes note of what the record shows. `now` was read after the answer arrived.
    pub(super) fn look(&mut self, now: Now, ledger: &SectionLedger) {
        let before = std::mem::take(&mut self.since);
        let since = |entry: &Entry| (entry.id, before.get(&entry.id).copied().unwrap_or(now.waited));
        self.since = ledger.entries.iter().map(since).collect();
    }

    /// Whether `entry`, which the record shows, is over.
    pub(super) fn is_over(&self, now: Now, look: &RecordLook, entry: &Entry, rules: &Rules) -> bool {
        let duration = entry.duration.duration();
        let wait_policy = if rules.bugs.has(Bug::EntryCollectedEarly) {
            duration.checked_div(2).unwrap_or(duration)
        } else {
            duration
        };
        let since = self.since.get(&entry.id).copied().unwrap_or(now.waited);
        let watched = if rules.bugs.has(Bug::WaiterCountsSuspend) { now.held } else { now.waited };
        if watched.since(since) >= wait_policy {
            return true;
        }
        let certain = |agreed| self.jumps.certain(now, agreed, rules.bugs);
        let by_wall = certain(now.wall.since(entry.stamp)) > wait_policy;
        let by_store = look.stood(now, entry).is_some_and(|stood| stood > wait_policy);
        if rules.bugs.has(Bug::WallDecides) {
            return by_wall;
        }
        if rules.bugs.has(Bug::OneWitness) {
            return by_store;
        }
        rules.first_sight && by_wall && by_store
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Since;
    use crate::values::fence::Fence;
    use crate::values::key::HolderId;
    use crate::values::time::{Ttl, Wall};

    const SECOND: u64 = 1_000_000_000;

    fn at(secs: u64) -> Now {
        Now { held: Tick(secs * SECOND), waited: Tick(secs * SECOND), wall: Wall(1_000_000 + secs * 1000) }
    }

    fn entry(id: u128, stamped: u64, since: u64) -> Entry {
        Entry {
            id: Nonce(id),
            holder: HolderId::new("other").unwrap(),
            fence: Fence(7),
            stamp: at(stamped).wall,
            duration: Ttl::clamped(10_000),
            since: Since::Clock { clock: 0, at: since * 1_000_000 },
            parts: Default::default(),
        }
    }

    fn ledger(entry: &Entry) -> SectionLedger {
        SectionLedger { entries: vec![entry.clone()] }
    }

    #[test]
    fn an_entry_is_over_when_it_was_in_view_for_its_whole_duration() {
        let (mut watch, rules) = (EntryWatch::default(), Rules::default());
        let (one, two) = (entry(1, 0, 0), entry(2, 0, 0));
        let look = RecordLook { clock: None, at: at(0).waited };
        watch.look(at(0), &ledger(&one));
        assert!(!watch.is_over(at(9), &look, &one, &rules) && watch.is_over(at(10), &look, &one, &rules));
        watch.look(at(5), &SectionLedger { entries: vec![one.clone(), two.clone()] });
        assert!(watch.is_over(at(10), &look, &one, &rules), "a later look does not start anew");
        assert!(!watch.is_over(at(14), &look, &two, &rules) && watch.is_over(at(15), &look, &two, &rules));
        watch.look(at(6), &SectionLedger::default());
        assert!(!watch.is_over(at(16), &look, &one, &rules), "what is gone is forgotten");
    }

    #[test]
    fn first_sight_needs_the_age_and_the_wall_clocks() {
        let rules = Rules::default();
        let sees = |stamped: u64, since: u64, clock: Option<u64>| {
            let entry = entry(1, stamped, since);
            let mut watch = EntryWatch::default();
            watch.look(at(100), &ledger(&entry));
            let look = RecordLook { clock: clock.map(|secs| secs * 1_000_000), at: at(100).waited };
            watch.is_over(at(100), &look, &entry, &rules)
        };
        assert!(sees(89, 50, Some(61)));
        assert!(
            !sees(89, 50, Some(60)) && !sees(89, 50, Some(40)),
            "the store's clock says not more than the duration"
        );
        assert!(!sees(90, 50, Some(61)), "the wall clocks say not more");
        assert!(!sees(0, 10, None), "a store that tells no times is no witness");
        let unseen = Entry { since: Since::Written(Duration::from_secs(90)), ..entry(1, 0, 0) };
        let look = RecordLook { clock: Some(u64::MAX), at: at(100).waited };
        assert!(
            !EntryWatch::default().is_over(at(100), &look, &unseen, &rules),
            "what was never seen with times is not known"
        );
        let off = Rules { first_sight: false, ..Rules::default() };
        let look = RecordLook { clock: Some(u64::MAX), at: at(100).waited };
        assert!(!EntryWatch::default().is_over(at(100), &look, &entry(1, 0, 0), &off), "switched off");
    }

    #[test]
    fn s7_a_clock_that_is_set_ahead_with_the_stores_is_no_second_witness() {
        let rules = Rules::default();
        let set_ahead = |secs: u64| Now { wall: Wall(at(secs).wall.0 + 60_000), ..at(secs) };
        let (mut watch, live) = (EntryWatch::default(), entry(1, 99, 99));
        watch.see_clocks(at(99));
        watch.see_clocks(set_ahead(100));
        let sees = |watch: &mut EntryWatch, secs: u64| {
            watch.look(set_ahead(secs), &SectionLedger::default());
            let look = RecordLook { clock: Some((secs + 60) * 1_000_000), at: at(secs).waited };
            watch.is_over(set_ahead(secs), &look, &live, &rules)
        };
        assert!(!sees(&mut watch, 101) && !sees(&mut watch, 109), "both say more than a minute");
        assert!(sees(&mut watch, 111), "so long ago that it is over whatever they say");
    }

    #[test]
    fn what_was_measured_since_the_look_counts_and_a_suspend_does_not() {
        let rules = Rules::default();
        let (mut watch, dead) = (EntryWatch::default(), entry(1, 0, 4));
        watch.look(at(20), &ledger(&dead));
        let look = RecordLook { clock: Some(11_000_000), at: at(20).waited };
        assert!(!watch.is_over(at(23), &look, &dead, &rules) && watch.is_over(at(24), &look, &dead, &rules));
        let woken = Now { held: at(3600).held, ..at(21) };
        assert!(!watch.is_over(woken, &look, &dead, &rules));
    }
}
