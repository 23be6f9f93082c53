//! One half-open range of keys, and its text and JSON forms.

use super::point::Point;
use crate::values::error::InvalidInput;
use num_bigint::BigUint;
use std::fmt;

/// The points from `low` up to, but without, `high`. Empty when they are the same.
///
/// ```
/// use tenure_core::range::KeyRange;
///
/// let range: KeyRange = "00F_0FF".parse().unwrap();
/// assert_eq!(range.to_string(), "f_ff");
/// assert!(range.contains(&0xfe_u64.into()) && !range.contains(&0xff_u64.into()));
/// ```
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    low: Point,
    high: Point,
}

impl KeyRange {
    /// The range from `low` up to, but without, `high`: points, or any integers.
    ///
    /// # Errors
    /// When `low` is above `high`, or one of them is negative: points begin at 0.
    pub fn new<L, H>(low: L, high: H) -> Result<KeyRange, InvalidInput>
    where
        L: TryInto<Point>,
        H: TryInto<Point>,
        InvalidInput: From<L::Error> + From<H::Error>,
    {
        let (low, high) = (low.try_into()?, high.try_into()?);
        if low > high {
            let (low, high) = (low.brief(), high.brief());
            return Err(InvalidInput::new(format!(
                "the range {low}_{high} ends before it begins; swap its ends"
            )));
        }
        Ok(KeyRange { low, high })
    }

    /// For ends that are known to be in order; the empty range at `low` if they are not.
    pub(super) fn ordered(low: Point, high: Point) -> KeyRange {
        let high = high.max(low.clone());
        KeyRange { low, high }
    }

    /// So many points from `low` on.
    pub(crate) fn with_width(low: Point, width: &Point) -> KeyRange {
        let high = low.plus(width);
        KeyRange { low, high }
    }

    /// All keys of so many bytes: 0 to 2^(8 · `bytes`). Those of 32 bits are of 4 bytes, and are `KeyRange::from(0..=u32::MAX)`, too.
    #[must_use]
    pub fn universe_of_bytes(bytes: u16) -> KeyRange {
        KeyRange { low: Point::default(), high: Point(BigUint::from(1u8) << (8 * u64::from(bytes))) }
    }

    /// The range that holds both `first` and `last` and all between them: points, or any integers.
    ///
    /// # Errors
    /// When `last` lies more than one place before `first`, or one of them is negative: points begin at 0.
    pub fn span_inclusive<F, L>(first: F, last: L) -> Result<KeyRange, InvalidInput>
    where
        F: TryInto<Point>,
        L: TryInto<Point>,
        InvalidInput: From<F::Error> + From<L::Error>,
    {
        let last: Point = last.try_into()?;
        KeyRange::new(first, last.next())
    }

    /// The first point.
    #[must_use]
    pub fn low(&self) -> &Point {
        &self.low
    }

    /// The end, which is not in the range.
    #[must_use]
    pub fn high(&self) -> &Point {
        &self.high
    }

    /// Whether there is no point in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.low == self.high
    }

    /// How many points are in it.
    #[must_use]
    pub fn width(&self) -> Point {
        Point(&self.high.0 - &self.low.0)
    }

    /// Whether `point` is in it.
    #[must_use]
    pub fn contains(&self, point: &Point) -> bool {
        self.low <= *point && *point < self.high
    }

    /// Whether some point is in both.
    #[must_use]
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        (&self.low).max(&other.low) < (&self.high).min(&other.high)
    }

    /// The points that are in both.
    #[must_use]
    pub fn intersection(&self, other: &KeyRange) -> KeyRange {
        let low = self.low.clone().max(other.low.clone());
        let high = self.high.clone().min(other.high.clone());
        KeyRange::ordered(low, high)
    }

    /// What is left of this range without any of `others`: sorted, disjoint, none of it empty. `others` may be in any order
    /// and overlap.
    ///
    /// As in LUCI, an empty range that lies within this one splits it in two that touch; a [`RangeSet`](super::RangeSet)
    /// has them joined again.
    pub fn exclude_all<'a>(&self, others: impl IntoIterator<Item = &'a KeyRange>) -> Vec<KeyRange> {
        let mut others: Vec<&KeyRange> = others.into_iter().collect();
        others.sort_unstable();
        self.exclude_sorted(others)
    }

    /// As [`KeyRange::exclude_all`], for ranges that come in order.
    pub(super) fn exclude_sorted<'a>(&self, others: impl IntoIterator<Item = &'a KeyRange>) -> Vec<KeyRange> {
        let mut left = Vec::new();
        let mut at = &self.low;
        for other in others {
            if other.low >= self.high || *at >= self.high {
                break;
            }
            if other.low > *at {
                left.push(KeyRange { low: at.clone(), high: other.low.clone() });
            }
            at = at.max(&other.high);
        }
        if *at < self.high {
            left.push(KeyRange { low: at.clone(), high: self.high.clone() });
        }
        left
    }

    /// The ends as texts for a query of keys that are stored as `2 · bytes` hexadecimal digits: from the first, inclusive, to
    /// the second, exclusive. An end beyond the key space is `g`, which sorts after every digit.
    ///
    /// # Errors
    /// When the range begins beyond the key space.
    pub fn query_bounds(&self, bytes: u16) -> Result<(String, String), InvalidInput> {
        let space = 8 * u64::from(bytes);
        if self.low.bits() > space {
            return Err(InvalidInput::new(format!(
                "the range {} begins beyond keys of {bytes} bytes; give the number of bytes that keys have",
                brief_range(self)
            )));
        }
        let digits = 2 * usize::from(bytes);
        let high = if self.high.bits() > space { "g".to_owned() } else { self.high.to_hex(digits) };
        Ok((self.low.to_hex(digits), high))
    }
}

fn brief_range(range: &KeyRange) -> String {
    format!("{}_{}", range.low.brief(), range.high.brief())
}

/// `low_high` in lower-case hexadecimal digits without padding.
impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.low, self.high)
    }
}

impl std::str::FromStr for KeyRange {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<KeyRange, InvalidInput> {
        let Some((low, high)) = text.split_once('_') else {
            let shown: String = text.chars().take(80).collect();
            return Err(InvalidInput::new(format!(
                "{shown:?} is not a range; write low_high in hexadecimal digits"
            )));
        };
        KeyRange::new(Point::from_hex(low)?, Point::from_hex(high)?)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for KeyRange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From text; `null` is the empty range at 0, as in LUCI.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for KeyRange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<KeyRange, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            Some(text) => text.parse().map_err(serde::de::Error::custom),
            None => Ok(KeyRange::default()),
        }
    }
}
