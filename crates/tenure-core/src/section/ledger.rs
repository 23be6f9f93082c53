//! The content of a section's record: the holders of its ranges.

mod wire;

use super::since::Since;
use crate::bugs::Bug;
use crate::range::RangeSet;
use crate::rules::Rules;
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
use crate::values::metadata::{Metadata, Value};
use crate::values::record::{Record, Stored, Times};
use crate::values::reserved;
use crate::values::time::{Ttl, Wall};
use std::time::Duration;

/// What keys of sections begin with; the section's name follows.
pub const PREFIX: &str = reserved::SECTION;
/// The field of a record's metadata that has the section's entries.
pub const FIELD: &str = "section";
/// The field of a record's metadata that says what a sweep has covered: in the layout of a section, but nobody leases it, and its
/// time is never over.
pub const COVERED: &str = "covered";

/// One lease within a section. It is never renewed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Entry {
    /// The lease itself, never used again.
    pub id: Nonce,
    /// Who holds it.
    pub holder: HolderId,
    /// Its fence: greater than that of every earlier lease of the section.
    pub fence: Fence,
    /// The holder's wall clock just before it was written.
    pub stamp: Wall,
    /// How long it lasts.
    pub duration: Ttl,
    /// Since when it stands, by the store's own clock.
    pub since: Since,
    /// What is held.
    pub parts: RangeSet,
}

impl Entry {
    /// A lease of `parts` that is about to be written.
    #[must_use]
    pub fn new(
        id: Nonce,
        holder: HolderId,
        fence: Fence,
        stamp: Wall,
        duration: Ttl,
        parts: RangeSet,
    ) -> Entry {
        Entry { id, holder, fence, stamp, duration, since: Since::NEW, parts }
    }

    /// For how long, at least, it stands, if it was seen in a record with these times.
    #[must_use]
    pub fn stood(&self, times: Times) -> Option<Duration> {
        self.since.elapsed(times.now)
    }
}

/// All leases of a section.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SectionLedger {
    /// In the order in which they were made.
    pub entries: Vec<Entry>,
}

impl SectionLedger {
    /// The most bytes that a ledger is written with, on a store that takes as much.
    pub const MAX_BYTES: usize = 192 * 1024;

    /// These leases, in the order in which they were made.
    #[must_use]
    pub fn new(entries: Vec<Entry>) -> SectionLedger {
        SectionLedger { entries }
    }

    /// What a section's record says.
    ///
    /// # Errors
    /// `Foreign` when it is not a section's, is damaged, or was written by a newer version.
    pub fn of(record: &Record) -> Result<SectionLedger, StoreError> {
        if record.tenure.is_some() {
            return Err(StoreError::foreign(
                "a lock is held on the section's key; give the lock, or the section, another name",
            ));
        }
        match payload(record, FIELD) {
            Some(bytes) => wire::decode(bytes),
            None => Err(StoreError::foreign("the record is not a section's; give the section another name")),
        }
    }

    /// What a section's record says, as it stands in the store: with the time since which each lease stands, if the store tells.
    ///
    /// # Errors
    /// As [`SectionLedger::of`].
    pub fn seen_in(stored: &Stored) -> Result<SectionLedger, StoreError> {
        let mut ledger = SectionLedger::of(&stored.record)?;
        if let Some(times) = stored.times {
            ledger.seen(times, &Rules::default());
        }
        Ok(ledger)
    }

    /// The same as a record shows it that has these times: each entry with the time since which it stands, by that clock.
    ///
    /// True if entries stand since a time that the clock, having been set back, won't reach for long: they stand since the next
    /// write then, so that there should be one.
    pub(super) fn seen(&mut self, times: Times, rules: &Rules) -> bool {
        let mut is_set_back = false;
        for entry in &mut self.entries {
            entry.since = match entry.since.seen(times) {
                _ if rules.bugs.has(Bug::EntryBornAnew) => {
                    Since::Clock { clock: times.clock, at: times.written }
                }
                since if since.is_ahead(times.now, reach(entry)) => {
                    is_set_back = true;
                    Since::NEW
                }
                since => since,
            };
        }
        is_set_back
    }

    /// What a record says that a sweep has covered.
    ///
    /// # Errors
    /// `Foreign` when that is not what it says, or it is damaged, or was written by a newer version.
    pub fn covered(record: &Record) -> Result<RangeSet, StoreError> {
        let bytes = payload(record, COVERED).filter(|_| is_cover(record));
        let Some(bytes) = bytes else {
            return Err(StoreError::foreign("the record is not a sweep's; give the sweep another name"));
        };
        Ok(wire::decode(bytes)?.entries.into_iter().flat_map(|entry| entry.parts.into_ranges()).collect())
    }

    /// As the metadata of a record that says what a sweep has covered, and how many bytes that takes.
    #[must_use]
    pub fn into_cover(self) -> (Metadata, usize) {
        self.as_field(COVERED)
    }

    /// How many ranges are held in all.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.entries.iter().map(|entry| entry.parts.len()).sum()
    }

    /// As the metadata of a record.
    #[must_use]
    pub fn into_metadata(self) -> Metadata {
        self.to_metadata().0
    }

    pub(crate) fn to_metadata(&self) -> (Metadata, usize) {
        self.as_field(FIELD)
    }

    fn as_field(&self, field: &str) -> (Metadata, usize) {
        let bytes = wire::encode(self);
        let size = bytes.len();
        ([(field.to_owned(), Value::Bytes(bytes))].into(), size)
    }

    pub(crate) fn has(&self, id: Nonce) -> bool {
        self.entries.iter().any(|entry| entry.id == id)
    }
}

/// The key of the section of this name.
///
/// # Errors
/// When the name is empty or too long.
pub fn key(name: &str) -> Result<Key, crate::InvalidInput> {
    if name.is_empty() {
        return Err(crate::InvalidInput::new("the name of a section can't be empty"));
    }
    Key::new(format!("{PREFIX}{name}"))
}

/// Whether `record` is one of a section: its metadata may be larger than that of other records.
#[must_use]
pub fn is_section(record: &Record) -> bool {
    record.tenure.is_none() && payload(record, FIELD).is_some()
}

/// Whether `record` says what a sweep has covered: its metadata may be as large as a section's.
#[must_use]
pub fn is_cover(record: &Record) -> bool {
    record.tenure.is_none() && payload(record, COVERED).is_some()
}

fn payload<'a>(record: &'a Record, field: &str) -> Option<&'a [u8]> {
    match record.metadata.get(field) {
        Some(Value::Bytes(bytes)) if record.metadata.len() == 1 => Some(bytes),
        _ => None,
    }
}

/// Whether nothing in a section's record is held any more, by both witnesses, and whether its fence is behind `wall`, so that a
/// record made anew begins with a higher one: only then may it be removed.
#[must_use]
pub fn is_over(stored: &Stored, wall: Wall) -> bool {
    let Ok(ledger) = SectionLedger::seen_in(stored) else { return false };
    let over = |entry: &Entry| {
        let stood = stored.times.and_then(|times| entry.stood(times));
        stood.is_some_and(|stood| stood.min(wall.since(entry.stamp)) > entry.duration.duration())
    };
    ledger.entries.iter().all(over) && Fence::floor(wall) > stored.record.fence
}

/// A clock that is behind by more than this was set back. Less is a matter of how a store rounds, or soon over.
fn reach(entry: &Entry) -> Duration {
    const ROUNDING: Duration = Duration::from_secs(60);
    entry.duration.duration().max(ROUNDING)
}

#[cfg(test)]
mod tests {
    //! Plan: by a clock that was set back, an entry counts from the next write.
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn ledger(since: Since) -> SectionLedger {
        let entry = Entry {
            id: Nonce(1),
            holder: HolderId::new("dead").unwrap(),
            fence: Fence(7),
            stamp: Wall(0),
            duration: Ttl::clamped(3_000),
            since,
            parts: Default::default(),
        };
        SectionLedger { entries: vec![entry] }
    }

    fn times(written: u64, now: u64) -> Times {
        Times { clock: 0, written: written * SECOND, now: now * SECOND }
    }

    fn clock(at: u64) -> Since {
        Since::Clock { clock: 0, at: at * SECOND }
    }

    #[test]
    fn by_a_clock_that_was_set_back_it_counts_from_the_next_write() {
        let rules = Rules::default();
        let (mut long_ahead, mut ahead) = (ledger(clock(5_000)), ledger(clock(5_000)));
        assert!(long_ahead.seen(times(5_001, 4_000), &rules), "a write helps");
        assert_eq!(long_ahead.entries[0].since, Since::NEW);
        assert!(!ahead.seen(times(4_001, 4_000), &rules), "there was one");
        assert_eq!(ahead.entries[0].since, clock(4_001));
        assert!(
            !ledger(clock(5_000)).seen(times(5_000, 4_998), &rules),
            "a store that rounds was not set back"
        );
    }
}
