//! Sets of keys, as sorted ranges.

use super::key_range::KeyRange;
use super::point::Point;
use std::fmt;

/// A set of points, kept as sorted ranges that neither overlap nor touch and of which none is empty.
///
/// ```
/// use tenure_core::range::{KeyRange, RangeSet};
///
/// let ranges: Vec<KeyRange> = ["8_a", "0_4", "4_6"].iter().map(|text| text.parse().unwrap()).collect();
/// let set: RangeSet = ranges.into_iter().collect();
/// assert_eq!(set.to_string(), "0_6 8_a");
/// ```
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeSet(Vec<KeyRange>);

impl RangeSet {
    /// The set without any point.
    #[must_use]
    pub fn new() -> RangeSet {
        RangeSet::default()
    }

    /// The set of ranges that are as a set keeps them already; nothing if they aren't.
    pub(crate) fn from_sorted(ranges: Vec<KeyRange>) -> Option<RangeSet> {
        let apart = ranges.iter().zip(ranges.iter().skip(1)).all(|(one, next)| one.high() < next.low());
        (apart && !ranges.iter().any(KeyRange::is_empty)).then_some(RangeSet(ranges))
    }

    /// Its ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[KeyRange] {
        &self.0
    }

    /// Its ranges, in order.
    #[must_use]
    pub fn into_ranges(self) -> Vec<KeyRange> {
        self.0
    }

    /// How many ranges it takes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no point in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The range that `point` is in.
    #[must_use]
    pub fn find(&self, point: &Point) -> Option<&KeyRange> {
        let after = self.0.partition_point(|range| range.low() <= point);
        self.0.get(after.checked_sub(1)?).filter(|range| range.contains(point))
    }

    /// Whether `point` is in it.
    #[must_use]
    pub fn contains(&self, point: &Point) -> bool {
        self.find(point).is_some()
    }

    /// The points that are in this set and not in `other`.
    #[must_use]
    pub fn minus(&self, other: &RangeSet) -> RangeSet {
        let rest = |range: &KeyRange| range.exclude_sorted(other.from(range.low()));
        // Pieces of ranges that don't touch don't touch either.
        RangeSet(self.0.iter().flat_map(rest).collect())
    }

    /// The points that are in both.
    #[must_use]
    pub fn intersection(&self, other: &RangeSet) -> RangeSet {
        let common = |range: &KeyRange| -> Vec<KeyRange> {
            let near = other.from(range.low()).take_while(|near| near.low() < range.high());
            near.map(|near| near.intersection(range)).collect()
        };
        RangeSet(self.0.iter().flat_map(common).collect())
    }

    /// The points that are in one of them, or in both.
    #[must_use]
    pub fn union(&self, other: &RangeSet) -> RangeSet {
        self.0.iter().chain(&other.0).cloned().collect()
    }

    /// Those of `items` whose key is in this set, as they come.
    pub fn only_in<T>(&self, items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> Point) -> Vec<T> {
        items.into_iter().filter(|item| self.contains(&key(item))).collect()
    }

    /// Its ranges that end after `point`.
    fn from(&self, point: &Point) -> impl Iterator<Item = &KeyRange> {
        let first = self.0.partition_point(|range| range.high() <= point);
        self.0.iter().skip(first)
    }
}

impl FromIterator<KeyRange> for RangeSet {
    fn from_iter<I: IntoIterator<Item = KeyRange>>(ranges: I) -> RangeSet {
        let mut ranges: Vec<KeyRange> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        ranges.sort_unstable();
        let mut joined: Vec<KeyRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.low() <= last.high() => {
                    let high = last.high().max(range.high()).clone();
                    *last = KeyRange::ordered(last.low().clone(), high);
                }
                _ => joined.push(range),
            }
        }
        RangeSet(joined)
    }
}

impl From<KeyRange> for RangeSet {
    fn from(range: KeyRange) -> RangeSet {
        RangeSet::from_iter([range])
    }
}

impl From<Vec<KeyRange>> for RangeSet {
    fn from(ranges: Vec<KeyRange>) -> RangeSet {
        ranges.into_iter().collect()
    }
}

/// The ranges' texts with a space between.
impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(" ")?;
            }
            fmt::Display::fmt(range, f)?;
        }
        Ok(())
    }
}

/// As the list of its ranges.
#[cfg(feature = "serde")]
impl serde::Serialize for RangeSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

/// From ranges in any order, which may overlap.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for RangeSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RangeSet, D::Error> {
        Vec::deserialize(deserializer).map(|ranges: Vec<KeyRange>| ranges.into())
    }
}

#[cfg(test)]
mod tests {
    //! Plan: over a key space of 40 points, everything that sets and ranges do is compared with a naive set of numbers.
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const SPACE: u64 = 40;

    fn range() -> impl Strategy<Value = KeyRange> {
        (0..SPACE, 0..SPACE).prop_map(|(a, b)| KeyRange::new(a.min(b), a.max(b)).unwrap())
    }

    fn ranges() -> impl Strategy<Value = Vec<KeyRange>> {
        prop::collection::vec(range(), 0..8)
    }

    fn points<'a>(ranges: impl IntoIterator<Item = &'a KeyRange>) -> BTreeSet<u64> {
        ranges.into_iter().flat_map(|range| (0..SPACE).filter(|n| range.contains(&(*n).into()))).collect()
    }

    fn is_normal(set: &RangeSet) -> bool {
        set.ranges().iter().all(|range| !range.is_empty())
            && set.ranges().windows(2).all(|w| w[0].high() < w[1].low())
    }

    #[test]
    fn sets_do_what_sets_of_numbers_do() {
        proptest!(|(a in ranges(), b in ranges())| {
            let (x, y) = (points(&a), points(&b));
            let (a, b): (RangeSet, RangeSet) = (a.into(), b.into());
            for (set, numbers) in [
                (a.clone(), x.clone()),
                (a.minus(&b), &x - &y),
                (a.intersection(&b), &x & &y),
                (a.union(&b), &x | &y),
            ] {
                prop_assert_eq!(points(set.ranges()), numbers, "{}", set);
                prop_assert!(is_normal(&set), "{}", set);
            }
            for n in 0..SPACE {
                prop_assert_eq!(a.contains(&n.into()), x.contains(&n));
            }
            prop_assert_eq!(a.only_in(0..SPACE, |n| (*n).into()), x.into_iter().collect::<Vec<_>>());
        });
    }

    #[test]
    fn ranges_do_what_sets_of_numbers_do() {
        proptest!(|(a in range(), b in range(), others in ranges())| {
            let (x, y) = (points([&a]), points([&b]));
            prop_assert_eq!(a.overlaps(&b), x.intersection(&y).next().is_some());
            prop_assert_eq!(points([&a.intersection(&b)]), &x & &y);
            prop_assert_eq!(a.is_empty(), x.is_empty());
            prop_assert_eq!(a.width(), Point::from(x.len() as u64));
            let left = a.exclude_all(&others);
            prop_assert_eq!(points(&left), &x - &points(&others));
            prop_assert!(left.iter().all(|range| !range.is_empty()) && left.windows(2).all(|w| w[0].high() <= w[1].low()));
        });
    }
}
