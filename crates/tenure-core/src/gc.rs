//! What may be removed: the rules that keep fences growing (S2) and keys to be had (L1) across a removal.
//!
//! A removed record forgets its fence, and the next one begins at its acquirer's wall clock. So a record goes only once its
//! fence lies below that clock by the whole retention. What time it is, is asked of several clocks, and the lowest counts:
//! `gc`'s own; that of the record's last writer, which is its stamp and what the store says has passed since; and those of
//! all who live. One clock that is ahead is never enough. Where all of these are ahead alike, as where one host alone uses
//! the store, nothing tells.
//!
//! A session goes only once no claim names it: whoever finds a claim on a session that is missing can't tell whether that
//! ended long ago, and has to wait for a ttl.

use crate::bugs::{Bug, Bugs};
use crate::once;
use crate::op::Listed;
use crate::semaphore;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Wall, millis};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a collector has to know of a whole store before it removes anything from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    wall: Wall,
    /// What those say who live: the lowest of their clocks.
    living: Wall,
    older_than: Duration,
    /// Sessions that claims name, with their fence, and whether that tenure of them goes on.
    ridden: BTreeMap<Key, (Fence, bool)>,
    bugs: Bugs,
}

/// What is learned of a whole store page by page. It grows with the sessions that claims name, not with the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    living: Wall,
    named: BTreeSet<Key>,
}

impl Default for Survey {
    fn default() -> Self {
        Survey { living: Wall(u64::MAX), named: BTreeSet::new() }
    }
}

impl Survey {
    /// Takes in one more page. All pages are to be taken in, as a claim may be attached to a session wherever its own key is.
    pub fn see(&mut self, page: &[Listed]) {
        for stored in page.iter().filter_map(|listed| listed.stored.as_ref().ok()) {
            if let Some(attachment) = attachment_of(stored) {
                if !self.named.contains(&attachment.session) {
                    self.named.insert(attachment.session.clone());
                }
            } else if let Ok(ledger) = semaphore::SemaphoreLedger::of(&stored.record) {
                self.named.extend(ledger.tickets().map(|ticket| ticket.attachment.session.clone()));
            } else if lives(stored) {
                self.living = told_by(stored).map_or(self.living, |told| told.min(self.living));
            }
        }
    }

    /// The sessions that claims name. They are to be read once all pages are taken in.
    pub fn named(&self) -> impl Iterator<Item = &Key> {
        self.named.iter()
    }

    /// A collector by a clock that shows `wall`, of what was left alone for `older_than`. `sessions`: those that claims name, as
    /// they were read after that; of others nothing is learned.
    #[must_use]
    pub fn collector(self, wall: Wall, older_than: Duration, sessions: &[Listed], bugs: Bugs) -> Collector {
        let fence_of = |stored: &Stored| (stored.record.fence, stored.record.tenure.is_some());
        let readable = sessions.iter().filter_map(|listed| Some((&listed.key, listed.stored.as_ref().ok()?)));
        let ridden = readable.filter(|(key, _)| self.named.contains(key));
        let ridden = ridden.map(|(key, stored)| (key.clone(), fence_of(stored))).collect();
        Collector { wall, living: self.living, older_than, ridden, bugs }
    }
}

/// Whether its holder renews itself and has done so of late.
fn lives(stored: &Stored) -> bool {
    let tenure = stored.record.tenure.as_ref().filter(|tenure| tenure.attachment.is_none());
    tenure.zip(stored.age()).is_some_and(|(tenure, age)| age <= tenure.ttl.duration())
}

/// Whether nobody has written a record for so long, by the store's clock and by the wall clocks, of which `wall` is one. Without a
/// store's, the wall clocks alone would decide, so nothing is.
#[must_use]
pub fn is_older(wall: Wall, stored: &Stored, than: Duration) -> bool {
    wall.since(stored.record.stamp) >= than && stored.age().is_some_and(|age| age >= than)
}

impl Collector {
    /// A collector of a store that is listed at once: [`Survey::collector`] of all that there is.
    #[must_use]
    pub fn new(wall: Wall, older_than: Duration, all: &[Listed], bugs: Bugs) -> Collector {
        let mut survey = Survey::default();
        survey.see(all);
        survey.collector(wall, older_than, all, bugs)
    }

    /// Whether it was left alone for as long as was asked for.
    #[must_use]
    pub fn is_old(&self, stored: &Stored) -> bool {
        is_older(self.wall, stored, self.older_than)
    }

    /// Whether every later fence is higher than this record's though the record is gone: none of the clocks is ahead.
    #[must_use]
    pub fn may_forget(&self, stored: &Stored) -> bool {
        if self.bugs.has(Bug::GcForgetsFloor) {
            return true;
        }
        let Some(time) = self.time(stored) else { return false };
        let retention = millis(self.older_than);
        stored.record.fence < Fence::floor(Wall(time.0.saturating_sub(retention)))
    }

    /// What time it is by the lowest of the clocks; none where the store doesn't say when `stored` was written.
    fn time(&self, stored: &Stored) -> Option<Wall> {
        let told = told_by(stored)?.min(self.living);
        Some(if self.bugs.has(Bug::GcTrustsItsClock) { self.wall } else { told.min(self.wall) })
    }

    /// Whether it says what ran at a tick that some host may still come with ([`crate::once`]).
    #[must_use]
    pub fn tells_of_ticks(&self, stored: &Stored) -> bool {
        let Some(until) = once::kept_until(&stored.record.metadata) else { return false };
        self.time(stored).is_none_or(|time| time < until) && !self.bugs.has(Bug::TickCollected)
    }

    /// Whether a claim names this session, of whatever tenure of it.
    #[must_use]
    pub fn is_ridden(&self, session: &Key) -> bool {
        self.ridden.contains_key(session) && !self.bugs.has(Bug::GcDropsRiddenSession)
    }

    /// Whether the tenure of a session that a claim names has ended. One with a higher fence than the session had has begun since then.
    fn has_ended(&self, attachment: &Attachment) -> bool {
        let session = self.ridden.get(&attachment.session);
        session.is_some_and(|(fence, goes_on)| {
            *fence > attachment.fence || *fence == attachment.fence && !goes_on
        })
    }

    /// A semaphore's metadata and fence without the claims of sessions that have ended, what is free granted on; none if there are no such
    /// claims.
    #[must_use]
    pub fn without_ended(&self, stored: &Stored) -> Option<(Metadata, Fence)> {
        let mut ledger = semaphore::SemaphoreLedger::of(&stored.record).ok()?;
        if !ledger.remove(|ticket| self.has_ended(&ticket.attachment)) {
            return None;
        }
        let mut fence = stored.record.fence;
        ledger.grant_on(&mut fence, Fence::floor(self.wall), self.bugs);
        Some((ledger.to_metadata().0, fence))
    }

    /// What `stored` is attached to, if that has ended: then its holder does not believe any more, and it can be vacated.
    #[must_use]
    pub fn ended_attachment<'a>(&self, stored: &'a Stored) -> Option<&'a Attachment> {
        attachment_of(stored).filter(|attachment| self.has_ended(attachment))
    }
}

fn attachment_of(stored: &Stored) -> Option<&Attachment> {
    stored.record.tenure.as_ref()?.attachment.as_ref()
}

/// What the clock of a record's last writer shows now.
fn told_by(stored: &Stored) -> Option<Wall> {
    let age = millis(stored.age()?);
    Some(Wall(stored.record.stamp.0.saturating_add(age)))
}

#[cfg(test)]
mod tests {
    //! Plan: a fence has to lie below each of the clocks by the retention, to the millisecond; without an age nothing goes;
    //! the clocks of the dead and of attached leases don't count; a session is named by whatever tenure names it, and what is attached to
    //! an ended one is told apart from what is attached to a live, a missing and an unreadable one.
    use super::*;
    use crate::values::error::StoreError;
    use crate::values::fence::Nonce;
    use crate::values::key::HolderId;
    use crate::values::metadata::Value;
    use crate::values::record::{Record, Tenure};
    use crate::values::time::Ttl;

    const DAY: u64 = 86_400_000;
    const NOW: u64 = 1000 * DAY;
    const RETENTION: Duration = Duration::from_millis(DAY);

    fn stored(fence: u64, stamp: u64, age: Option<u64>) -> Stored {
        let (fence, nonce) = (Fence(fence), Nonce(1));
        let record = Record { fence, nonce, stamp: Wall(stamp), tenure: None, metadata: Metadata::new() };
        Stored::new(record).aged(age.map(Duration::from_millis))
    }

    fn held(mut stored: Stored, attachment: Option<(&str, u64)>) -> Stored {
        let attachment =
            attachment.map(|(session, fence)| Attachment { session: key(session), fence: Fence(fence) });
        stored.record.tenure = Some(Tenure {
            attachment,
            ..Tenure::new(
                Nonce(1),
                HolderId::new("a").unwrap(),
                Ttl::new(Duration::from_secs(10)).unwrap(),
                Wall(0),
            )
        });
        stored
    }

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    fn collector(wall: u64, all: &[(&str, Stored)]) -> Collector {
        let listed = |(name, stored): &(&str, Stored)| Listed { key: key(name), stored: Ok(stored.clone()) };
        let all: Vec<Listed> = all.iter().map(listed).collect();
        Collector::new(Wall(wall), RETENTION, &all, Bugs::default())
    }

    #[test]
    fn s2_a_fence_is_forgotten_only_below_each_of_the_clocks() {
        let may = |wall, fence, stamp, age, all: &[(&str, Stored)]| {
            collector(wall, all).may_forget(&stored(fence, stamp, age))
        };
        // It was vacated two days ago.
        let (stamp, age) = (NOW - 2 * DAY, Some(2 * DAY));
        assert!(may(NOW, NOW - DAY - 1, stamp, age, &[]));
        assert!(!may(NOW, NOW - DAY, stamp, age, &[]), "not by the whole retention");
        assert!(!may(NOW, NOW + 365 * DAY, stamp, age, &[]), "its acquirer's clock was a year ahead");
        assert!(!may(NOW + 400 * DAY, NOW + 365 * DAY, stamp, age, &[]), "and so is gc's own");
        assert!(!may(NOW, NOW + 365 * DAY, stamp + 366 * DAY, age, &[]), "and so was who vacated it");
        assert!(!may(NOW, NOW - DAY - 1, stamp, None, &[]), "the store tells no age");
        assert!(!may(NOW, Fence::MAX.0, stamp, age, &[]));
        // Both are ahead, and only those who live know better.
        let all_ahead =
            |all: &[(&str, Stored)]| may(NOW + 400 * DAY, NOW + 365 * DAY, stamp + 400 * DAY, age, all);
        let lives = |ago| stored(1, NOW - ago, Some(ago));
        assert!(all_ahead(&[]));
        assert!(!all_ahead(&[("a", held(lives(10_000), None))]));
        assert!(all_ahead(&[("a", held(lives(10_001), None))]), "it may be dead, and its clock was long ago");
        assert!(
            all_ahead(&[("a", held(lives(0), Some(("s", 1))))]),
            "an attached lease's record has no beats"
        );
        assert!(all_ahead(&[("a", lives(0))]), "nobody holds it");
    }

    #[test]
    fn what_ran_is_kept_by_the_lowest_of_the_clocks() {
        let tells = |wall, stamp, age, keep: i64| {
            let mut stored = stored(1, stamp, age);
            let field = Metadata::from([("keep".to_owned(), Value::from(keep))]);
            stored.record.metadata = Metadata::from([("once".to_owned(), Value::Map(field))]);
            collector(wall, &[]).tells_of_ticks(&stored)
        };
        let (stamp, age, now) = (NOW - 2 * DAY, Some(2 * DAY), NOW as i64);
        assert!(!tells(NOW, stamp, age, now) && tells(NOW, stamp, age, now + 1));
        assert!(tells(NOW + DAY, stamp, age, now + 1), "gc's own clock is ahead");
        assert!(tells(NOW, stamp, None, now), "the store tells no age");
        assert!(!collector(NOW, &[]).tells_of_ticks(&stored(1, stamp, age)));
    }

    #[test]
    fn what_is_old_is_old_by_both_clocks() {
        let collector = collector(NOW, &[]);
        let is_old = |stamp_ago, age| collector.is_old(&stored(1, NOW - stamp_ago, age));
        assert!(is_old(DAY, Some(DAY)));
        assert!(!is_old(DAY - 1, Some(DAY)) && !is_old(DAY, Some(DAY - 1)) && !is_old(DAY, None));
    }

    #[test]
    fn l1_a_semaphores_claims_name_their_sessions_and_those_of_ended_ones_are_taken_out() {
        use crate::semaphore::{Grant, Mode, SemaphoreLedger, Ticket};
        let ticket = |id, session| Ticket {
            id: Nonce(id),
            holder: HolderId::new("a").unwrap(),
            attachment: Attachment { session: key(session), fence: Fence(7) },
            ttl: Ttl::MIN,
            mode: Mode::Exclusive,
            permits: 1,
            barges: false,
            since: Wall(0),
        };
        let ledger =
            SemaphoreLedger::new(1, vec![Grant::new(ticket(1, "ended"), Fence(5))], vec![ticket(2, "live")]);
        let mut semaphore = stored(5, 0, None);
        semaphore.record.metadata = ledger.to_metadata().0;
        let all = [("live", held(stored(7, 0, None), None)), ("ended", stored(8, 0, None)), ("s", semaphore)];
        let collector = collector(NOW, &all);
        assert!(collector.is_ridden(&key("live")) && collector.is_ridden(&key("ended")));
        let (metadata, fence) = collector.without_ended(&all[2].1).unwrap();
        let mut record = all[2].1.record.clone();
        (record.metadata, record.fence) = (metadata, fence);
        let left = SemaphoreLedger::of(&record).unwrap();
        assert_eq!((left.holders.len(), left.queue.len(), left.holders[0].ticket.id), (1, 0, Nonce(2)));
        assert_eq!(left.holders[0].fence, fence);
        assert!(fence > Fence(5) && collector.without_ended(&Stored::new(record)).is_none());
    }

    #[test]
    fn l1_a_session_that_a_claim_names_is_named_and_what_is_attached_to_an_ended_one_is_known() {
        let on = |session, fence| held(stored(1, 0, None), Some((session, fence)));
        let live = |fence| held(stored(fence, 0, None), None);
        let all = [("live", live(7)), ("ended", stored(8, 0, None)), ("other", stored(1, 0, None))];
        let attached =
            [("a", on("live", 7)), ("b", on("ended", 7)), ("c", on("missing", 7)), ("d", on("bad", 7))];
        let mut listed: Vec<Listed> = all
            .iter()
            .chain(&attached)
            .map(|(name, stored)| Listed { key: key(name), stored: Ok(stored.clone()) })
            .collect();
        listed.push(Listed { key: key("bad"), stored: Err(StoreError::foreign("damaged")) });
        let collector = Collector::new(Wall(NOW), RETENTION, &listed, Bugs::default());
        let ridden = ["live", "ended", "other"].map(|name| collector.is_ridden(&key(name)));
        assert_eq!(ridden, [true, true, false]);
        let ended = |stored: Stored| collector.ended_attachment(&stored).is_some();
        assert!(
            ended(on("ended", 7)) && ended(on("ended", 8)) && ended(on("live", 6)),
            "tenures that are over"
        );
        assert!(!ended(on("live", 7)) && !ended(on("missing", 7)) && !ended(on("bad", 7)));
        assert!(!ended(live(7)) && !ended(stored(1, 0, None)));
        // Their sessions have begun anew since they were looked at.
        assert!(!ended(on("live", 8)) && !ended(on("ended", 9)));
    }
}
