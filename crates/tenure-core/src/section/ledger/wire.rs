//! A ledger as bytes: compact, versioned, and bounded by the bytes that hold it.
//!
//! Version 2, where `n` is an unsigned LEB128 number and `b` is an `n` followed by so many bytes:
//!
//! ```text
//! 2  n:holders  b:holder …  n:entries  entry …
//! entry: id (16 bytes)  n:holder  n:fence  n:stamp_ms  n:duration_ms  since  n:parts  part …
//! since: 0  n:stood_us           had stood for so long when the record was written
//!        1  n:clock  n:at_us     stands since this reading of a store's clock
//! part:  b:low (the highest byte first, without leading zeros)  b:width (the same; never 0)
//! ```
//!
//! Version 1 is read, too. It has `n:stood_us` in the place of `since`, without the 0 before it.

use super::{Entry, SectionLedger};
use crate::range::{KeyRange, Point, RangeSet};
use crate::section::since::Since;
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::HolderId;
use crate::values::leb::{put, put_bytes, take, take_bytes};
use crate::values::time::{Ttl, Wall};
use std::time::Duration;

const VERSION: u8 = 2;
/// What `since` begins with.
const STOOD: u64 = 0;
const CLOCK: u64 = 1;

pub(super) fn encode(ledger: &SectionLedger) -> Vec<u8> {
    let mut holders: Vec<&HolderId> = ledger.entries.iter().map(|entry| &entry.holder).collect();
    holders.sort_unstable();
    holders.dedup();
    let mut out = vec![VERSION];
    put(&mut out, holders.len() as u64);
    for holder in &holders {
        put_bytes(&mut out, holder.as_str().as_bytes());
    }
    put(&mut out, ledger.entries.len() as u64);
    for entry in &ledger.entries {
        out.extend_from_slice(&entry.id.0.to_be_bytes());
        put(&mut out, holders.binary_search(&&entry.holder).unwrap_or(0) as u64);
        put(&mut out, entry.fence.0);
        put(&mut out, entry.stamp.0);
        put(&mut out, entry.duration.millis());
        put_since(&mut out, entry.since);
        put(&mut out, entry.parts.len() as u64);
        for part in entry.parts.ranges() {
            put_bytes(&mut out, &part.low().to_be_bytes());
            put_bytes(&mut out, &part.width().to_be_bytes());
        }
    }
    out
}

fn put_since(out: &mut Vec<u8>, since: Since) {
    match since {
        Since::Written(stood) => {
            put(out, STOOD);
            put(out, u64::try_from(stood.as_micros()).unwrap_or(u64::MAX));
        }
        Since::Clock { clock, at } => {
            put(out, CLOCK);
            put(out, clock);
            put(out, at);
        }
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<SectionLedger, StoreError> {
    match bytes {
        [version @ 1..=VERSION, rest @ ..] => {
            ledger(rest, *version).ok_or_else(|| StoreError::foreign("the section's record is damaged"))
        }
        [] | [0, ..] => Err(StoreError::foreign("the section's record is damaged")),
        [newer, ..] => Err(StoreError::newer(format!(
            "the section's record has version {newer}, this program knows up to {VERSION}; upgrade it"
        ))),
    }
}

fn ledger(bytes: &[u8], version: u8) -> Option<SectionLedger> {
    let mut rest = bytes;
    let count = take(&mut rest)?;
    let mut holders = Vec::new();
    for _ in 0..count {
        holders.push(HolderId::from_bytes(take_bytes(&mut rest)?).ok()?);
    }
    let count = take(&mut rest)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(entry(&mut rest, &holders, version)?);
    }
    (rest.is_empty() && are_disjoint(&entries)).then_some(SectionLedger { entries })
}

fn entry(rest: &mut &[u8], holders: &[HolderId], version: u8) -> Option<Entry> {
    let (id, after) = rest.split_first_chunk::<16>()?;
    *rest = after;
    let holder = holders.get(usize::try_from(take(rest)?).ok()?)?.clone();
    let fence = Fence(take(rest)?);
    let stamp = Wall(take(rest)?);
    let duration = Ttl::clamped(take(rest)?);
    let kind = if version == 1 { STOOD } else { take(rest)? };
    let since = match kind {
        STOOD => Since::Written(Duration::from_micros(take(rest)?)),
        CLOCK => Since::Clock { clock: take(rest)?, at: take(rest)? },
        _ => return None,
    };
    let count = take(rest)?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let low = Point::from_be_bytes(take_bytes(rest)?);
        let width = Point::from_be_bytes(take_bytes(rest)?);
        parts.push(KeyRange::with_width(low, &width));
    }
    let parts = RangeSet::from_sorted(parts)?;
    (fence <= Fence::MAX && !parts.is_empty()).then_some(Entry {
        id: Nonce(u128::from_be_bytes(*id)),
        holder,
        fence,
        stamp,
        duration,
        since,
        parts,
    })
}

/// Whatever a hostile record says, no two leases of a section overlap.
fn are_disjoint(entries: &[Entry]) -> bool {
    let mut parts: Vec<&KeyRange> = entries.iter().flat_map(|entry| entry.parts.ranges()).collect();
    parts.sort_unstable();
    parts.iter().zip(parts.iter().skip(1)).all(|(one, next)| one.high() <= next.low())
}

#[cfg(test)]
mod tests {
    //! Plan: any ledger survives a round trip; golden bytes stay readable for ever; damaged, hostile and newer bytes are
    //! refused and never panic.
    use super::*;
    use proptest::prelude::*;

    fn any_ledger() -> impl Strategy<Value = SectionLedger> {
        let part = (any::<u128>(), 1u8..=200, 0usize..24);
        let shape = (
            any::<u128>(),
            0u8..5,
            0..=Fence::MAX.0,
            any::<u64>(),
            10u64..86_400_000,
            (any::<bool>(), any::<u64>(), any::<u64>()),
            1usize..4,
        );
        (prop::collection::vec(shape, 0..6), prop::collection::vec(part, 30)).prop_map(|(shapes, parts)| {
            // Laid out one after the other, so that they are disjoint.
            let mut at = Point::default();
            let mut parts = parts.into_iter().map(move |(gap, width, shift)| {
                let low = Point::from_be_bytes(&[gap.to_be_bytes().as_slice(), &vec![0; shift]].concat())
                    .plus(&at)
                    .next();
                let range = KeyRange::with_width(low, &Point::from(u64::from(width)));
                at = range.high().clone();
                range
            });
            let entries =
                shapes.into_iter().map(|(id, who, fence, stamp, duration, (is_clock, clock, at), count)| {
                    Entry {
                        id: Nonce(id),
                        holder: HolderId::new(format!("holder {who}")).unwrap(),
                        fence: Fence(fence),
                        stamp: Wall(stamp),
                        duration: Ttl::clamped(duration),
                        since: if is_clock {
                            Since::Clock { clock, at }
                        } else {
                            Since::Written(Duration::from_micros(at))
                        },
                        parts: parts.by_ref().take(count).collect(),
                    }
                });
            SectionLedger { entries: entries.collect() }
        })
    }

    #[test]
    fn ledgers_survive_a_round_trip() {
        proptest!(|(ledger in any_ledger())| {
            prop_assert_eq!(decode(&encode(&ledger)), Ok(ledger));
        });
    }

    #[test]
    fn hostile_bytes_are_refused_or_read_but_never_panic() {
        proptest!(|(ledger in any_ledger(), cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), by: u8)| {
            let bytes = encode(&ledger);
            prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
            prop_assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
            let mut other = bytes.clone();
            other[flip.index(bytes.len())] ^= by;
            if let Ok(read) = decode(&other) {
                prop_assert!(are_disjoint(&read.entries));
            }
        });
        proptest!(|(bytes in prop::collection::vec(any::<u8>(), 0..200))| {
            let _whatever = decode(&bytes);
        });
    }

    fn golden(since: Since, bytes_of_since: &[u8], version: u8) -> (SectionLedger, Vec<u8>) {
        let entry = Entry {
            id: Nonce(0x0102),
            holder: HolderId::new("ab").unwrap(),
            fence: Fence(300),
            stamp: Wall(5),
            duration: Ttl::clamped(1000),
            since,
            parts: vec!["0_10".parse().unwrap(), "100_200".parse().unwrap()].into(),
        };
        let mut bytes = vec![version, 1, 2, b'a', b'b', 1];
        bytes.extend([0; 14]);
        bytes.extend([1, 2, 0, 0xac, 2, 5, 0xe8, 7]);
        bytes.extend(bytes_of_since);
        bytes.extend([2, 0, 1, 0x10, 2, 1, 0, 2, 1, 0]);
        (SectionLedger { entries: vec![entry] }, bytes)
    }

    const STOOD_7: Since = Since::Written(Duration::from_micros(7));

    #[test]
    fn golden_bytes_are_read_and_written() {
        let by_clock = Since::Clock { clock: 300, at: 1_763_798_400_000_000 };
        let bytes_of_clock = [1, 0xac, 2, 0x80, 0xc0, 0xd9, 0x88, 0xa5, 0x85, 0x91, 3];
        for (ledger, bytes) in [golden(STOOD_7, &[0, 7], 2), golden(by_clock, &bytes_of_clock, 2)] {
            assert_eq!(encode(&ledger), bytes);
            assert_eq!(decode(&bytes), Ok(ledger));
        }
    }

    #[test]
    fn golden_bytes_of_the_first_version_are_read() {
        let (ledger, bytes) = golden(STOOD_7, &[7], 1);
        assert_eq!(decode(&bytes), Ok(ledger));
    }

    #[test]
    fn an_entry_that_stands_since_something_unknown_is_damage() {
        let (_, bytes) = golden(STOOD_7, &[2, 7], 2);
        assert!(decode(&bytes).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn overlapping_touching_empty_and_newer_ledgers_are_refused_by_name() {
        let (ledger, bytes) = golden(STOOD_7, &[0, 7], 2);
        let twice = SectionLedger { entries: [ledger.entries.clone(), ledger.entries].concat() };
        assert!(decode(&encode(&twice)).unwrap_err().to_string().contains("damaged"));
        let touching = [&bytes[..bytes.len() - 6], &[1, 0x10, 2, 1, 0]].concat();
        assert!(decode(&touching).is_err(), "not as it would be written");
        let mut newer = bytes;
        newer[0] = 3;
        let error = decode(&newer).unwrap_err();
        assert!(error.is_newer() && error.to_string().contains("upgrade"), "{error}");
        for damaged in [&[][..], &[0], &[0, 1]] {
            assert!(decode(damaged).unwrap_err().to_string().contains("damaged"), "{damaged:?}");
        }
        assert_eq!(decode(&encode(&SectionLedger::default())), Ok(SectionLedger::default()));
    }

    #[test]
    fn numbers_of_64_bits_are_read_and_longer_ones_are_not() {
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(take(&mut &most[..]), Some(u64::MAX));
        for (last, read) in [(1, Some(1 << 63)), (2, None), (3, None), (0x81, None)] {
            let number = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, last];
            assert_eq!(take(&mut &number[..]), read, "{last}");
        }
    }

    #[test]
    fn a_thousand_leases_of_256_bits_fit() {
        let whole = KeyRange::universe_of_bytes(32);
        let entries: Vec<Entry> = whole
            .split(1000)
            .enumerate()
            .map(|(n, part)| Entry {
                id: Nonce(n as u128),
                holder: HolderId::new(format!("some-host-name-{n}-4f9c5f0ad1f54d5ab6c2d7a7e1a9a0b1"))
                    .unwrap(),
                fence: Fence(1_700_000_000_000 + n as u64),
                stamp: Wall(1_700_000_000_000),
                duration: Ttl::MAX,
                since: Since::Clock { clock: 0, at: 1_763_798_400_000_000 },
                parts: part.into(),
            })
            .collect();
        let size = encode(&SectionLedger { entries }).len();
        assert!(size < SectionLedger::MAX_BYTES, "{size}");
    }
}
