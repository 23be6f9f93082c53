//! A worker's units as a few bytes in its session's record, which is renewed anyway. The planner compares this digest with the units'
//! records. So it finds a worker whose units differ from their records, and nothing extra is read while all agree.

use crate::values::fence::{Fence, Nonce};
use crate::values::key::Key;
use crate::values::metadata::{Metadata, RESERVED, Value};
use fnv::FnvHasher;
use std::hash::Hasher as _;

const HAS: &str = "has";

/// Units and the ids and fences of their tenures, in any order.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Digest {
    pub(super) units: u64,
    sum: u64,
}

impl Digest {
    /// What a unit with this tenure adds.
    pub(super) fn share(unit: &Key, (id, fence): (Nonce, Fence)) -> u64 {
        mix(unit, id.0 ^ u128::from(fence.0).rotate_left(64))
    }

    pub(super) fn with(self, share: u64) -> Digest {
        Digest { units: self.units.wrapping_add(1), sum: self.sum.wrapping_add(share) }
    }

    pub(super) fn without(self, share: u64) -> Digest {
        self.less(Digest { units: 1, sum: share })
    }

    /// What this has more than another, and less where that has more: both wrap.
    pub(super) fn less(self, other: Digest) -> Digest {
        Digest { units: self.units.wrapping_sub(other.units), sum: self.sum.wrapping_sub(other.sum) }
    }

    /// Of what this has more or less than another: how many units those are, at least.
    pub(super) fn size(self) -> u64 {
        self.units.cast_signed().unsigned_abs()
    }

    /// A number that tells it from others.
    pub(super) fn token(self) -> u64 {
        self.sum ^ self.units
    }

    /// Says so in a session's metadata.
    pub(super) fn compose(self, metadata: &mut Metadata) {
        if let Some(Value::Map(own)) = metadata.get_mut(RESERVED) {
            own.insert(HAS.to_owned(), format!("{} {:016x}", self.units, self.sum).as_str().into());
        }
    }

    /// What a session's metadata say.
    pub(super) fn parse(metadata: &Metadata) -> Option<Digest> {
        let Some(Value::Map(own)) = metadata.get(RESERVED) else { return None };
        let (units, sum) = own.get(HAS)?.as_text()?.split_once(' ')?;
        Some(Digest { units: units.parse().ok()?, sum: u64::from_str_radix(sum, 16).ok()? })
    }
}

/// A number that spreads names evenly.
pub(super) fn spread(key: &Key) -> u64 {
    mix(key, 0)
}

/// Numbers that are spread evenly for each name, one for each seed: FNV-1a (Fowler, Noll, Vo 1991) with a final mix.
pub(super) fn mix(key: &Key, seed: u128) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(key.as_str().as_bytes());
    hasher.write(&seed.to_be_bytes());
    let hash = hasher.finish();
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    //! Plan: the order in which units are counted does not matter, their tenures do; what was written is read, by other versions, too.
    use super::*;
    use crate::fleet::About;
    use crate::fleet::worker::alone::unit;

    fn digest(units: &[(usize, u64)]) -> Digest {
        let share = |(n, fence): &(usize, u64)| Digest::share(&unit(*n), (Nonce(1), Fence(*fence)));
        units.iter().map(share).fold(Digest::default(), Digest::with)
    }

    #[test]
    fn a_digest_tells_tenures_apart_and_no_order() {
        assert_eq!(digest(&[(1, 7), (2, 8)]), digest(&[(2, 8), (1, 7)]));
        for other in [&[(1, 7), (2, 9)][..], &[(1, 8), (2, 7)], &[(1, 7)], &[(1, 7), (3, 8)], &[]] {
            assert_ne!(digest(&[(1, 7), (2, 8)]), digest(other));
        }
        let other = digest(&[(1, 7)]).with(Digest::share(&unit(2), (Nonce(2), Fence(8))));
        assert_ne!(digest(&[(1, 7), (2, 8)]), other, "another tenure of the same fence");
    }

    #[test]
    fn what_other_versions_have_written_means_the_same() {
        let share = Digest::share(&unit(1), (Nonce(1), Fence(7)));
        assert_eq!((spread(&unit(1)), share), (0x9469_73b1_c0a1_b245, 0xa783_7bb2_8899_487a));
    }

    #[test]
    fn what_was_written_is_read() {
        let mut metadata = About::default().compose(Metadata::new());
        assert_eq!(Digest::parse(&metadata), None);
        digest(&[(1, 7), (2, 8)]).compose(&mut metadata);
        assert_eq!(Digest::parse(&metadata), Some(digest(&[(1, 7), (2, 8)])));
        assert_eq!(About::parse(&metadata), Some(About::default()));
    }
}
