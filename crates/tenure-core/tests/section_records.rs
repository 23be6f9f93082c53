//! What records of sections and of sweeps say. Plan: each is known from the other and from anything else; what is written is
//! read again, if it can be true; a section may be removed once all in it is over by both witnesses, to the millisecond, ages
//! added up.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;
use tenure_core::range::RangeSet;
use tenure_core::section::{Entry, FIELD, SectionLedger, Since, is_cover, is_over, is_section};
use tenure_core::{Fence, HolderId, Metadata, Nonce, Record, Stored, Tenure, Ttl, Value, Wall};

fn set(text: &str) -> RangeSet {
    text.split_whitespace().map(|range| range.parse().unwrap()).collect()
}

/// A lease of ten seconds, made at the wall's 0 s.
fn entry(stood: Duration) -> Entry {
    let (holder, duration) = (HolderId::new("a").unwrap(), Ttl::new(Duration::from_secs(10)).unwrap());
    let mut entry = Entry::new(Nonce(1), holder, Fence(5), Wall(0), duration, set("0_10 20_30"));
    entry.since = Since::Written(stood);
    entry
}

fn ledger() -> SectionLedger {
    SectionLedger::new(vec![entry(Duration::ZERO)])
}

fn record(metadata: Metadata) -> Record {
    Record { fence: Fence(5), nonce: Nonce(9), stamp: Wall(0), tenure: None, metadata }
}

fn held(record: Record) -> Record {
    let tenure = Tenure::new(Nonce(1), HolderId::new("a").unwrap(), Ttl::MIN, Wall(0));
    Record { tenure: Some(tenure), ..record }
}

#[test]
fn what_is_written_is_read_again() {
    let section = record(ledger().into_metadata());
    assert_eq!(SectionLedger::of(&section), Ok(ledger()));
    let (metadata, size) = ledger().into_cover();
    let bytes = metadata.values().next().and_then(|value| match value {
        Value::Bytes(bytes) => Some(bytes.len()),
        _ => None,
    });
    assert_eq!(bytes, Some(size));
    assert_eq!(SectionLedger::covered(&record(metadata)), Ok(set("0_10 20_30")));
}

#[test]
fn records_of_sections_and_of_sweeps_are_known_from_each_other_and_from_others() {
    let (section, cover) = (record(ledger().into_metadata()), record(ledger().into_cover().0));
    assert!(is_section(&section) && !is_section(&cover));
    assert!(is_cover(&cover) && !is_cover(&section));
    assert!(SectionLedger::of(&cover).is_err() && SectionLedger::covered(&section).is_err());
    let more = |record: &Record| {
        let mut more = record.clone();
        more.metadata.insert("other".into(), Value::Null);
        more
    };
    let text = record([(FIELD.to_owned(), Value::from("text"))].into());
    let nothing = record(Metadata::new());
    for other in [held(section.clone()), held(cover.clone()), more(&section), more(&cover), text, nothing] {
        assert!(!is_section(&other) && !is_cover(&other), "{other:?}");
        assert!(SectionLedger::of(&other).is_err() && SectionLedger::covered(&other).is_err(), "{other:?}");
    }
}

#[test]
fn a_lease_of_nothing_or_with_a_fence_that_none_can_follow_is_damage() {
    let read = |change: &dyn Fn(&mut Entry)| {
        let mut entry = entry(Duration::ZERO);
        change(&mut entry);
        SectionLedger::of(&record(SectionLedger::new(vec![entry]).into_metadata()))
    };
    assert!(read(&|entry| entry.fence = Fence::MAX).is_ok());
    assert!(read(&|entry| entry.fence = Fence(Fence::MAX.0 + 1)).is_err());
    assert!(read(&|entry| entry.parts = RangeSet::default()).is_err());
}

#[test]
fn a_section_is_over_once_more_than_the_duration_has_passed_by_both_witnesses() {
    let over = |stood: u64, age: u64, wall: u64| {
        let entries = vec![entry(Duration::from_millis(stood))];
        let record = record(SectionLedger::new(entries).into_metadata());
        is_over(&Stored::new(record).aged(Some(Duration::from_millis(age))), Wall(wall))
    };
    assert!(over(0, 10_001, 10_001));
    assert!(!over(0, 10_000, 10_001) && !over(0, 10_001, 10_000));
    assert!(over(4_001, 6_000, 10_001), "what had passed before the last write counts");
    assert!(!over(4_000, 6_000, 10_001));
}

#[test]
fn a_section_whose_fence_a_clock_is_not_past_is_kept() {
    let empty =
        |fence: u64| Record { fence: Fence(fence), ..record(SectionLedger::default().into_metadata()) };
    let over = |fence: u64| is_over(&Stored::new(empty(fence)), Wall(100));
    assert!(over(99));
    assert!(!over(100) && !over(101), "a record made anew would begin with the same fence, or a lower one");
}
