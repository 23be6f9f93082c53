//! Fencing tokens, nonces and versions: the numbers that tell one tenure, or one write, from another.

use crate::values::error::StoreError;
use crate::values::time::Wall;
use std::fmt;

/// A fencing token: strictly greater for each new tenure of a key, across release and deletion.
///
/// Send it along with every effect on a shared resource, and let the resource refuse anything lower than the highest
/// it has seen. That, and not the lease alone, is what keeps a deposed holder from doing harm.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl Fence {
    /// The highest fence: what a signed 64-bit column holds. A record that shows more is damaged or hostile.
    pub const MAX: Fence = Fence(i64::MAX as u64);

    /// The highest floor that a wall clock can ask for, so that an insane clock leaves room to count on (2^53).
    const MAX_FLOOR: u64 = 1 << 53;

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

/// Marks one write of one process, never used again: it tells whether a write whose answer was lost took effect.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u128);

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
}

/// What a store compares to tell whether a record has changed. Opaque: only equality means anything.
///
/// The native layout uses [`crate::Record::version`]: unlike a counter, it can't repeat after a deletion or in a restored copy.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u128);

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
