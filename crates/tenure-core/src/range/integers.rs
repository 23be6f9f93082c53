//! Ranges of Rust's integers as ranges of keys, and back.

use super::key_range::KeyRange;
use super::point::Point;
use super::set::RangeSet;
use crate::values::error::InvalidInput;
use std::ops::{Range, RangeInclusive};

macro_rules! ranges_of {
    ($($integer:ty),*) => {$(
        /// The same points; none where it ends before it begins, as for any range of numbers.
        impl From<Range<$integer>> for KeyRange {
            fn from(range: Range<$integer>) -> KeyRange {
                KeyRange::ordered(range.start.into(), range.end.into())
            }
        }

        /// The same points; none where it ends before it begins, as for any range of numbers.
        impl From<RangeInclusive<$integer>> for KeyRange {
            fn from(range: RangeInclusive<$integer>) -> KeyRange {
                let (first, last) = range.into_inner();
                KeyRange::ordered(first.into(), Point::from(last).next())
            }
        }

        impl From<Range<$integer>> for RangeSet {
            fn from(range: Range<$integer>) -> RangeSet {
                KeyRange::from(range).into()
            }
        }

        impl From<RangeInclusive<$integer>> for RangeSet {
            fn from(range: RangeInclusive<$integer>) -> RangeSet {
                KeyRange::from(range).into()
            }
        }
    )*};
}

macro_rules! ranges_to {
    ($($integer:ty),*) => {$(
        /// The same points, if both ends fit; a range up to the highest number is a [`RangeInclusive`] only.
        impl TryFrom<&KeyRange> for Range<$integer> {
            type Error = InvalidInput;

            fn try_from(range: &KeyRange) -> Result<Range<$integer>, InvalidInput> {
                Ok(range.low().try_into()?..range.high().try_into()?)
            }
        }

        /// The same points, if they fit and there are any.
        impl TryFrom<&KeyRange> for RangeInclusive<$integer> {
            type Error = InvalidInput;

            fn try_from(range: &KeyRange) -> Result<RangeInclusive<$integer>, InvalidInput> {
                let last = range.high().previous().filter(|_| !range.is_empty()).ok_or_else(|| {
                    InvalidInput::new("an empty range has no first and no last number; ask whether it is_empty")
                })?;
                Ok(range.low().try_into()?..=(&last).try_into()?)
            }
        }
    )*};
}

macro_rules! signed_ranges_of {
    ($($integer:ty),*) => {$(
        /// The same points, unless an end is negative; none where it ends before it begins.
        impl TryFrom<Range<$integer>> for KeyRange {
            type Error = InvalidInput;

            fn try_from(range: Range<$integer>) -> Result<KeyRange, InvalidInput> {
                Ok(KeyRange::ordered(range.start.try_into()?, range.end.try_into()?))
            }
        }

        /// The same points, unless an end is negative; none where it ends before it begins.
        impl TryFrom<RangeInclusive<$integer>> for KeyRange {
            type Error = InvalidInput;

            fn try_from(range: RangeInclusive<$integer>) -> Result<KeyRange, InvalidInput> {
                let (first, last) = range.into_inner();
                Ok(KeyRange::ordered(first.try_into()?, Point::try_from(last)?.next()))
            }
        }

        impl TryFrom<Range<$integer>> for RangeSet {
            type Error = InvalidInput;

            fn try_from(range: Range<$integer>) -> Result<RangeSet, InvalidInput> {
                KeyRange::try_from(range).map(RangeSet::from)
            }
        }

        impl TryFrom<RangeInclusive<$integer>> for RangeSet {
            type Error = InvalidInput;

            fn try_from(range: RangeInclusive<$integer>) -> Result<RangeSet, InvalidInput> {
                KeyRange::try_from(range).map(RangeSet::from)
            }
        }
    )*};
}

ranges_of!(u8, u16, u32, u64, u128, usize);
signed_ranges_of!(i32, i64);
ranges_to!(u8, u16, u32, u64, u128, usize, i32, i64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_of_integers_are_ranges_of_keys_and_back() {
        proptest!(|(a: u64, b: u64)| {
            let keys = KeyRange::from(a..b);
            prop_assert_eq!(keys.is_empty(), a >= b);
            if a < b {
                prop_assert_eq!(Range::<u64>::try_from(&keys), Ok(a..b));
                prop_assert_eq!(RangeInclusive::<u64>::try_from(&keys), Ok(a..=b - 1));
                prop_assert_eq!(KeyRange::from(a..=b - 1), keys);
            }
        });
        let all = KeyRange::from(0..=u64::MAX);
        assert_eq!(all, KeyRange::universe_of_bytes(8));
        assert_eq!(RangeInclusive::<u64>::try_from(&all), Ok(0..=u64::MAX));
        let error = Range::<u64>::try_from(&all).unwrap_err().to_string();
        assert!(error.contains("beyond the highest u64"), "{error}");
        assert_eq!(Range::<u128>::try_from(&all), Ok(0..1 << 64));
        assert!(RangeInclusive::<u64>::try_from(&KeyRange::from(5u64..5)).is_err());
        assert_eq!(RangeSet::from(1u32..4).to_string(), "1_4");
    }

    #[test]
    fn ranges_of_signed_integers_are_ranges_of_keys_unless_they_are_negative() {
        proptest!(|(a: i64, b: i64)| {
            let keys = KeyRange::try_from(a..b);
            prop_assert_eq!(keys.is_err(), a < 0 || b < 0);
            if let Ok(keys) = keys {
                prop_assert_eq!(&keys, &KeyRange::from(a as u64..b as u64));
                if a < b {
                    prop_assert_eq!(Range::<i64>::try_from(&keys), Ok(a..b));
                    prop_assert_eq!(KeyRange::try_from(a..=b - 1), Ok(keys));
                }
            }
        });
        // What has no suffix is an i32.
        assert_eq!(RangeSet::try_from(1..4), Ok(RangeSet::from(1u32..4)));
        assert_eq!(KeyRange::try_from(0..=i64::MAX), Ok(KeyRange::from(0..=i64::MAX as u64)));
        let error = KeyRange::try_from(-1i64..4).unwrap_err().to_string();
        assert!(error.contains("-1 is negative"), "{error}");
        let error = Range::<i64>::try_from(&KeyRange::from(0..u64::MAX)).unwrap_err().to_string();
        assert!(error.contains("beyond the highest i64"), "{error}");
    }
}
