//! Fencing tokens, nonces and versions: the numbers that tell one tenure, or one write, from another.

use crate::values::error::{InvalidInput, StoreError};
use crate::values::time::Wall;
use std::fmt;
use std::time::Duration;

/// 32 hexadecimal digits, in text and in what serde writes: many formats have no integer of 128 bits.
macro_rules! hexadecimal {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl std::str::FromStr for $type {
            type Err = InvalidInput;

            fn from_str(text: &str) -> Result<Self, InvalidInput> {
                let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
                number.map($type).ok_or_else(|| {
                    let shown: String = text.chars().take(40).collect();
                    InvalidInput::new(format!("{shown:?} stands where 32 hexadecimal digits belong"))
                })
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// A fencing token: strictly greater for each new tenure of a key, across release and deletion.
///
/// Send it along with every effect on a shared resource, and let the resource refuse anything lower than the highest
/// it has seen. That, and not the lease alone, is what keeps a deposed holder from doing harm.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Fence(pub u64);

impl Fence {
    /// The highest fence: what a signed 64-bit column holds. A record that shows more is damaged or hostile.
    pub const MAX: Fence = Fence(i64::MAX as u64);

    /// The highest floor that a wall clock can ask for, so that an insane clock leaves room to count on (2^52). From there, JavaScript and all else that takes a
    /// number for a double tell 2^52 more tenures apart.
    const MAX_FLOOR: u64 = 1 << 52;

    /// What a wall clock asks for as the least fence of a new tenure.
    #[must_use]
    pub fn floor(wall: Wall) -> Fence {
        Fence(wall.0.min(Self::MAX_FLOOR))
    }

    /// The fence of the tenure that follows `self`: one more, or `floor` if that is higher.
    ///
    /// # Errors
    /// `Foreign` when the fences are used up, which only a hostile record can bring about.
    pub fn next(self, floor: Fence) -> Result<Fence, StoreError> {
        if self >= Fence::MAX {
            return Err(StoreError::foreign(format!("the record's fence {self} leaves no higher one")));
        }
        Ok(Fence(self.0 + 1).max(floor))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<u64> for Fence {
    fn from(number: u64) -> Fence {
        Fence(number)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> u64 {
        fence.0
    }
}

/// From a signed column, as most databases have them.
impl TryFrom<i64> for Fence {
    type Error = InvalidInput;

    fn try_from(number: i64) -> Result<Fence, InvalidInput> {
        let fence = u64::try_from(number).map(Fence);
        fence.map_err(|_| InvalidInput::new(format!("{number} is no fence: a fence is never negative")))
    }
}

/// For a signed column. Each fence that a store gives fits: see [`Fence::MAX`].
impl TryFrom<Fence> for i64 {
    type Error = InvalidInput;

    fn try_from(fence: Fence) -> Result<i64, InvalidInput> {
        i64::try_from(fence.0).map_err(|_| {
            InvalidInput::new(format!("the fence {fence} is beyond the highest, {}", Fence::MAX))
        })
    }
}

/// From decimal digits, as [`Display`](fmt::Display) writes them.
impl std::str::FromStr for Fence {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Fence, InvalidInput> {
        let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        number.map(Fence).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            InvalidInput::new(format!("{shown:?} is no fence; write its decimal digits"))
        })
    }
}

/// Marks one write of one process, never used again: it tells whether a write whose answer was lost took effect.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u128);

hexadecimal!(Nonce);

/// Makes nonces: 64 random bits for the process instance, then a counter.
///
/// Two process starts share a prefix with probability 2^-64, so no randomness is needed after the start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Nonces {
    instance: u64,
    count: u64,
}

impl Nonces {
    /// A source for the process instance that drew `instance` at its start.
    #[must_use]
    pub fn new(instance: u64) -> Self {
        Nonces { instance, count: 0 }
    }

    /// A nonce that was never returned before.
    pub fn draw(&mut self) -> Nonce {
        self.count += 1;
        Nonce((u128::from(self.instance) << 64) | u128::from(self.count))
    }

    /// Whether `nonce` was drawn here.
    #[must_use]
    pub fn made(&self, nonce: Nonce) -> bool {
        (nonce.0 >> 64) as u64 == self.instance
    }

    /// A number from 0 to 255 that differs between processes and over time, for spreading out polls and retries.
    #[must_use]
    pub fn jitter(&self) -> u8 {
        // SplitMix64 (Steele, Lea, Flood 2014), which is a good mixer of counters.
        let mut z = self.instance.wrapping_add(self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 56) as u8
    }

    /// Between ¾ `span` and `span`.
    pub(crate) fn jittered(&self, span: Duration) -> Duration {
        span.saturating_mul(768 + u32::from(self.jitter())) / 1024
    }
}

/// What a store compares to tell whether a record has changed. Opaque: only equality means anything.
///
/// The native layout uses [`crate::Record::version`]: unlike a counter, it can't repeat after a deletion or in a restored copy.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u128);

hexadecimal!(Version);

impl Version {
    /// The version that the write with this nonce made, if it was written with this fence.
    ///
    /// A network may repeat a claim, and the repetition land after the end of the first: then the nonce is the same, but
    /// the store has raised the fence, so this is another version.
    #[must_use]
    pub fn of(nonce: Nonce, fence: Fence) -> Version {
        // The high half of a nonce is random, so no other process's nonce becomes the same by this.
        Version(nonce.0 ^ (u128::from(fence.0) << 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fence_survives_text_and_signed_columns() {
        for number in [0, 7, 1_700_000_000_000, i64::MAX as u64] {
            let fence = Fence::from(number);
            assert_eq!(fence.to_string().parse::<Fence>(), Ok(fence));
            assert_eq!(Fence::try_from(i64::try_from(fence).unwrap()), Ok(fence));
            assert_eq!(u64::from(fence), number);
        }
        assert!(i64::try_from(Fence(u64::MAX)).is_err() && Fence::try_from(-1i64).is_err());
        for bad in ["", "+7", "-1", " 7", "7 ", "0x7", "18446744073709551616"] {
            assert!(bad.parse::<Fence>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn s2_a_next_fence_is_always_greater() {
        proptest!(|(fence in 0..i64::MAX as u64, wall: u64)| {
            let next = Fence(fence).next(Fence::floor(Wall(wall))).unwrap();
            prop_assert!(next > Fence(fence) && next <= Fence::MAX);
        });
    }

    #[test]
    fn s2_a_deleted_record_does_not_reset_the_fence_of_a_sane_clock() {
        let before = Fence(0).next(Fence::floor(Wall(1_700_000_000_000))).unwrap();
        let after = Fence(0).next(Fence::floor(Wall(1_700_000_000_001))).unwrap();
        assert!(after > before);
    }

    #[test]
    fn s2_fences_after_an_insane_clock_are_told_apart_by_what_takes_numbers_for_doubles() {
        const EXACT: u64 = 1 << 53;
        let first = Fence(0).next(Fence::floor(Wall(u64::MAX))).unwrap();
        assert!(EXACT - first.0 >= 1 << 52, "{first}");
        // Far above any sane clock's, so that none of those is lowered.
        assert_eq!(Fence::floor(Wall(4_000_000_000_000_000)), Fence(4_000_000_000_000_000));
    }

    #[test]
    fn exhausted_fences_are_an_error_not_a_wrap() {
        assert!(Fence::MAX.next(Fence(0)).is_err());
        assert!(Fence(u64::MAX).next(Fence(0)).is_err());
    }

    #[test]
    fn nonces_never_repeat_and_differ_between_instances() {
        let (mut a, mut b) = (Nonces::new(1), Nonces::new(2));
        let mut all: Vec<_> = (0..1000).flat_map(|_| [a.draw(), b.draw()]).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2000);
    }

    #[test]
    fn a_process_knows_its_own_nonces() {
        let (mut a, mut b) = (Nonces::new(1), Nonces::new(2));
        let nonce = a.draw();
        assert!(a.made(nonce) && !b.made(nonce));
        assert!(!a.made(b.draw()));
    }

    #[test]
    fn s3_a_version_tells_writes_and_their_repetitions_apart() {
        let of = |nonce: u128, fence: u64| Version::of(Nonce(nonce), Fence(fence)).0;
        assert_eq!(of(5 << 64 | 9, 0), 5 << 64 | 9);
        assert_eq!(of(5 << 64 | 9, 6), 3 << 64 | 9);
        assert_ne!(of(5 << 64 | 9, 6), of(5 << 64 | 9, 7));
    }

    #[test]
    fn jitter_spreads() {
        let mut nonces = Nonces::new(7);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            nonces.draw();
            seen.insert(nonces.jitter());
        }
        assert!(seen.len() > 200);
    }
}
