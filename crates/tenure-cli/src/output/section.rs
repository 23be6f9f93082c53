//! What a section's record says, as people and programs are shown it.

use crate::output::holders::holders_shown;
use crate::output::silence::TimeLeft;
use crate::text::{brief, date};
use serde_json::json;
use std::time::Duration;
use tenure::range::{Entry, KeyRange, SectionLedger, is_section};
use tenure::store::Stored;
use tenure::{StoreError, Wall};
use tenure_core::time::millis;

/// The leases of a section.
#[derive(Debug)]
pub(crate) struct SectionLeases {
    /// Each with how much of its time is left, by the store's clock if it tells, else by the wall clocks.
    entries: Vec<(Entry, Duration)>,
    /// By two wall clocks all are over.
    is_doubtful: bool,
}

impl SectionLeases {
    /// None if the record is not a section's.
    pub(crate) fn of(stored: &Stored, now: Wall) -> Option<Result<SectionLeases, StoreError>> {
        Self::judged(stored, now, |_, by_wall| TimeLeft::told(by_wall))
    }

    /// As [`Self::of`]. Where the store does not tell, `untold` says what is left, of which it is told what wall clocks say.
    pub(crate) fn judged(
        stored: &Stored,
        now: Wall,
        mut untold: impl FnMut(&Entry, Duration) -> TimeLeft,
    ) -> Option<Result<SectionLeases, StoreError>> {
        is_section(&stored.record).then(|| {
            let (mut is_held, mut is_certain) = (false, false);
            let mut left = |entry: &Entry| {
                let left_after = |stood| entry.duration.duration().saturating_sub(stood);
                let left = match stored.times.and_then(|times| entry.stood(times)) {
                    Some(stood) => TimeLeft::told(left_after(stood)),
                    None => untold(entry, left_after(now.since(entry.stamp))),
                };
                is_held |= !left.left.is_zero();
                is_certain |= !left.left.is_zero() && !left.is_doubtful;
                left.left
            };
            let ledger = SectionLedger::seen_in(stored)?;
            let entries = ledger.entries.into_iter().map(|entry| (left(&entry), entry));
            let entries = entries.map(|(left, entry)| (entry, left)).collect();
            Ok(SectionLeases { entries, is_doubtful: is_held && !is_certain })
        })
    }

    /// Whether all of those that seem to be held may be over.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// How many ranges are held, as far as can be told from outside.
    pub(crate) fn ranges(&self) -> usize {
        self.held().map(|(entry, _)| entry.parts.len()).sum()
    }

    /// Whether there is nothing, not even what is over.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The longest time that is left.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.held().map(|(_, left)| *left).max()
    }

    /// Since when the oldest is held.
    pub(crate) fn since(&self) -> Option<Wall> {
        self.held().map(|(entry, _)| entry.stamp).min()
    }

    /// The holder, or how many there are: for people.
    pub(crate) fn holders_shown(&self) -> Option<String> {
        holders_shown(self.held().map(|(entry, _)| entry.holder.as_str()))
    }

    /// Those that are not over, each with how much of its time is left.
    pub(crate) fn held(&self) -> impl Iterator<Item = &(Entry, Duration)> {
        self.entries.iter().filter(|(_, left)| !left.is_zero())
    }

    /// One line for each lease.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(|(entry, left)| {
            let Entry { parts, holder, fence, stamp, .. } = entry;
            let left =
                if left.is_zero() { "over".to_owned() } else { format!("about {} left", brief(*left)) };
            format!("{parts}  {holder}  fence {fence}, since {}, {left}", date(*stamp))
        })
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let lease = |(entry, left): &(Entry, Duration)| {
            json!({
                "ranges": entry.parts.ranges().iter().map(KeyRange::to_string).collect::<Vec<_>>(),
                "holder": entry.holder.as_str(),
                "fence": entry.fence.0,
                "since": date(entry.stamp),
                "duration_ms": entry.duration.millis(),
                "left_ms": millis(*left),
                "state": if left.is_zero() { "expired" } else { "held" },
            })
        };
        self.entries.iter().map(lease).collect()
    }
}
