//! Two ranges. Plan: what overlaps and what only touches; what is in both; what is empty. Which integers ends can be. How ends are asked for as texts.
//! And a point is the same, however wide the
//! number is that it comes from.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use tenure_core::range::{KeyRange, Point};

fn range(low: u64, high: u64) -> KeyRange {
    KeyRange::new(Point::from(low), Point::from(high)).unwrap()
}

#[test]
fn ranges_overlap_where_some_point_is_in_both() {
    let (empty, one) = (range(5, 5), range(0, 10));
    for (other, both) in [
        (range(0, 10), Some((0, 10))),
        (range(9, 20), Some((9, 10))),
        (range(2, 3), Some((2, 3))),
        (range(10, 20), None),
        (range(11, 20), None),
        (empty.clone(), None),
    ] {
        assert_eq!((one.overlaps(&other), other.overlaps(&one)), (both.is_some(), both.is_some()), "{other}");
        let common = one.intersection(&other);
        assert_eq!(common, other.intersection(&one));
        match both {
            Some((low, high)) => assert_eq!(common, range(low, high)),
            None => assert!(common.is_empty(), "{common}"),
        }
    }
    assert!(empty.is_empty() && !one.is_empty() && !empty.overlaps(&empty));
    assert_eq!(one.intersection(&range(11, 20)), range(11, 11), "the empty range where it would begin");
}

#[test]
fn ends_are_integers_of_any_kind_from_0_on() {
    let (low, high): (i64, i64) = (16, i64::MAX);
    assert_eq!(KeyRange::new(low, high).unwrap().to_string(), "10_7fffffffffffffff");
    assert_eq!(KeyRange::new(0, 1000u64), Ok(range(0, 1000)), "a literal is an i32");
    assert_eq!(KeyRange::span_inclusive(0i8, Point::from(9u8)), Ok(range(0, 10)));
    // Points of negative numbers would begin anew at 0, or lie above all others.
    for refused in [KeyRange::new(-1, 5), KeyRange::new(0, -5i64), KeyRange::span_inclusive(-2i128, -1i128)] {
        assert!(refused.unwrap_err().to_string().contains("negative"));
    }
    let error = KeyRange::new(5, 4).unwrap_err().to_string();
    assert!(error.contains("ends before it begins"), "{error}");
}

#[test]
fn ends_at_the_last_key_are_texts_of_keys_and_an_end_beyond_it_is_after_all_texts() {
    let bounds = |low, high| range(low, high).query_bounds(1).map_err(|error| error.to_string());
    let text = |low: &str, high: &str| Ok((low.to_owned(), high.to_owned()));
    assert_eq!(bounds(0x80, 0xff), text("80", "ff"));
    assert_eq!(bounds(0xff, 0x100), text("ff", "g"));
    assert!(bounds(0x100, 0x101).unwrap_err().contains("beyond keys of 1 bytes"));
}

#[test]
fn a_point_is_the_same_from_any_number() {
    for number in [0, 1, u64::MAX] {
        assert_eq!(Point::from(u128::from(number)), Point::from(number));
    }
    assert!(Point::from(u128::MAX) > Point::from(u64::MAX));
}
