//! Cutting a range into pieces: evenly, or by what was learnt from a part of it.

use super::key_range::KeyRange;
use super::point::Point;
use crate::values::error::InvalidInput;
use num_bigint::BigUint;

impl KeyRange {
    /// At most `pieces` ranges of one width, the last one cut off at the end, that are this range together. Fewer come out
    /// where the width is rounded up; none of an empty range, or if none are asked for.
    pub fn split(&self, pieces: u64) -> impl Iterator<Item = KeyRange> + use<> {
        let (mut at, high) = (self.low().clone(), self.high().clone());
        let step = ceil_div(&self.width().0, &pieces.into());
        std::iter::from_fn(move || {
            if step.bits() == 0 || at >= high {
                return None;
            }
            let end = Point(&at.0 + &step).min(high.clone());
            let low = std::mem::replace(&mut at, end.clone());
            Some(KeyRange::ordered(low, end))
        })
    }

    /// Cuts what comes after `last` into pieces that have some `target` items each, going by the `before` items that there
    /// were up to and with `last`. At most `most` pieces; none if nothing comes after `last`.
    ///
    /// # Errors
    /// When `last` is not in this range, or `target` or `most` is 0.
    pub fn educated_split_after(
        &self,
        last: &Point,
        before: u64,
        target: u64,
        most: u64,
    ) -> Result<impl Iterator<Item = KeyRange> + use<>, InvalidInput> {
        if !self.contains(last) {
            return Err(InvalidInput::new(
                "the last key handled lies outside the range; give a key of the range",
            ));
        }
        if target == 0 || most == 0 {
            return Err(InvalidInput::new(
                "a split into 0 pieces, or pieces of 0 items, would lose keys; ask for 1 at least",
            ));
        }
        let next = last.next();
        let done = &next.0 - &self.low().0;
        let rest = KeyRange::ordered(next, self.high().clone());
        let pieces = ceil_div(&(rest.width().0 * before), &(done * target));
        let pieces = u64::try_from(&pieces).unwrap_or(u64::MAX);
        Ok(rest.split(pieces.clamp(1, most)))
    }
}

/// Rounded up; 0 if divided by 0.
fn ceil_div(number: &BigUint, by: &BigUint) -> BigUint {
    if by.bits() == 0 || number.bits() == 0 {
        return BigUint::default();
    }
    (number + by - 1u8) / by
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(low: u64, high: u64) -> KeyRange {
        KeyRange::new(low, high).unwrap()
    }

    #[test]
    fn pieces_are_the_range_together_and_all_but_the_last_of_one_width() {
        proptest!(|(low in 0u64..1000, width in 0u64..1000, pieces in 0u64..50)| {
            let all: Vec<KeyRange> = range(low, low + width).split(pieces).collect();
            prop_assert!(all.len() as u64 <= pieces);
            if width == 0 || pieces == 0 {
                prop_assert!(all.is_empty());
                return Ok(());
            }
            let (first, last) = (all.first().unwrap(), all.last().unwrap());
            prop_assert_eq!((first.low(), last.high()), (&Point::from(low), &Point::from(low + width)));
            prop_assert!(all.windows(2).all(|pair| pair[0].high() == pair[1].low()));
            prop_assert!(all.iter().all(|piece| !piece.is_empty() && piece.width() <= first.width()));
            prop_assert!(all[..all.len() - 1].iter().all(|piece| piece.width() == first.width()));
        });
    }

    #[test]
    fn an_educated_split_loses_nothing_after_the_last_key() {
        proptest!(|(low in 0u64..100, width in 1u64..1000, at in 0u64..1000, before: u64, target in 1u64.., most in 1u64..40)| {
            let (whole, last) = (range(low, low + width), low + at % width);
            let all: Vec<KeyRange> = whole.educated_split_after(&last.into(), before, target, most).unwrap().collect();
            prop_assert!(all.len() as u64 <= most);
            prop_assert_eq!(all.is_empty(), last + 1 == low + width);
            let joined: super::super::RangeSet = all.into_iter().collect();
            prop_assert_eq!(joined, range(last + 1, low + width).into());
        });
    }

    #[test]
    fn an_educated_split_goes_by_what_was_learnt() {
        // One item for each key so far: so 16 keys have 16 items, wherever the range begins.
        let all = range(0x10, 0x110).educated_split_after(&0x4f_u64.into(), 0x40, 16, 100).unwrap();
        assert_eq!(all.collect::<Vec<_>>(), range(0x50, 0x110).split(12).collect::<Vec<_>>());
    }

    #[test]
    fn a_split_that_would_lose_keys_is_refused() {
        let whole = range(0x10, 0x100);
        for (last, target, most, says) in
            [(0xf_u64, 8, 4, "outside"), (0x100, 8, 4, "outside"), (0x3f, 0, 4, "lose"), (0x3f, 8, 0, "lose")]
        {
            let Err(error) = whole.educated_split_after(&last.into(), 8, target, most) else {
                panic!("{last}")
            };
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
