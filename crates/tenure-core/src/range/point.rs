//! A place in a key space.

use crate::values::error::InvalidInput;
use num_bigint::BigUint;
use std::fmt;

/// A place in a key space: an unsigned integer of any width.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(pub(super) BigUint);

impl Point {
    /// The number whose bytes, the highest first, these are: a key as most programs store it.
    #[must_use]
    pub fn from_be_bytes(bytes: &[u8]) -> Point {
        Point(BigUint::from_bytes_be(bytes))
    }

    /// The bytes of this number, the highest first, without leading zeros; none for 0.
    #[must_use]
    pub fn to_be_bytes(&self) -> Vec<u8> {
        if self.0.bits() == 0 { Vec::new() } else { self.0.to_bytes_be() }
    }

    /// The number that these hexadecimal digits show, in upper or lower case and with any number of leading zeros.
    ///
    /// # Errors
    /// When there is no digit, or anything that isn't one.
    pub fn from_hex(text: &str) -> Result<Point, InvalidInput> {
        let digits = text.strip_prefix('+').unwrap_or(text);
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = if plain { BigUint::parse_bytes(digits.as_bytes(), 16) } else { None };
        number.map(Point).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            InvalidInput::new(format!(
                "{shown:?} is not a hexadecimal number; write digits 0 to 9 and a to f only"
            ))
        })
    }

    /// The number as hexadecimal digits, padded with zeros to at least `digits` of them.
    #[must_use]
    pub fn to_hex(&self, digits: usize) -> String {
        let plain = self.to_string();
        // A format's width has 16 bits.
        "0".repeat(digits.saturating_sub(plain.len())) + &plain
    }

    /// The place after this one.
    #[must_use]
    pub fn next(&self) -> Point {
        Point(&self.0 + 1u8)
    }

    /// The place before this one; none before 0.
    #[must_use]
    pub fn previous(&self) -> Option<Point> {
        if self.0.bits() == 0 { None } else { Some(Point(&self.0 - 1u8)) }
    }

    pub(crate) fn plus(&self, width: &Point) -> Point {
        Point(&self.0 + &width.0)
    }

    /// For messages: long numbers are cut.
    pub(super) fn brief(&self) -> String {
        const MOST: usize = 80;
        let mut text = self.to_string();
        if text.len() > MOST {
            text.truncate(MOST);
            text.push('…');
        }
        text
    }

    /// How many bits it takes.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.0.bits()
    }
}

/// Lower-case hexadecimal digits without padding.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_str_radix(16))
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Point {
            fn from(number: $integer) -> Point {
                Point(number.into())
            }
        }

        /// As long as it fits.
        impl TryFrom<&Point> for $integer {
            type Error = InvalidInput;

            fn try_from(point: &Point) -> Result<$integer, InvalidInput> {
                <$integer>::try_from(&point.0).map_err(|_| {
                    InvalidInput::new(format!(
                        "the point {} is beyond the highest {}", point.brief(), stringify!($integer)
                    ))
                })
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, u128, usize);

macro_rules! signed_integers {
    ($($integer:ty),*) => {$(
        /// Unless it is negative.
        impl TryFrom<$integer> for Point {
            type Error = InvalidInput;

            fn try_from(number: $integer) -> Result<Point, InvalidInput> {
                let point = BigUint::try_from(number).map_err(|_| {
                    InvalidInput::new(format!(
                        "the number {number} is negative, and points begin at 0; add what is below 0 to each"
                    ))
                });
                point.map(Point)
            }
        }

        /// As long as it fits.
        impl TryFrom<&Point> for $integer {
            type Error = InvalidInput;

            fn try_from(point: &Point) -> Result<$integer, InvalidInput> {
                <$integer>::try_from(&point.0).map_err(|_| {
                    InvalidInput::new(format!(
                        "the point {} is beyond the highest {}", point.brief(), stringify!($integer)
                    ))
                })
            }
        }
    )*};
}

signed_integers!(i8, i16, i32, i64, i128, isize);

/// Its hexadecimal digits, as [`Display`](fmt::Display) writes them.
impl std::str::FromStr for Point {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Point, InvalidInput> {
        Point::from_hex(text)
    }
}

/// As its hexadecimal digits.
#[cfg(feature = "serde")]
impl serde::Serialize for Point {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Point {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Point, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_and_bytes_survive_a_round_trip() {
        proptest!(|(bytes in prop::collection::vec(any::<u8>(), 0..40), pad in 0usize..90)| {
            let point = Point::from_be_bytes(&bytes);
            prop_assert_eq!(&Point::from_be_bytes(&point.to_be_bytes()), &point);
            let text = point.to_hex(pad);
            prop_assert!(text.len() >= pad);
            prop_assert_eq!(&Point::from_hex(&text.to_uppercase()).unwrap(), &point);
        });
        assert_eq!(Point::from(10u64).to_hex(70_000), "0".repeat(69_999) + "a");
    }

    #[test]
    fn what_is_no_number_is_named() {
        for bad in ["", "+", "++1", "-1", " 1", "1 ", "0xf", "1_0", "g", "é"] {
            let error = Point::from_hex(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
        assert!(Point::from_hex(&"z".repeat(10_000)).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn integers_are_points_and_back_as_long_as_they_fit() {
        assert_eq!(u8::try_from(&Point::from(255u64)), Ok(255));
        assert!(u8::try_from(&Point::from(256u64)).is_err());
        assert_eq!("ff".parse(), Ok(Point::from(255usize)));
    }

    #[test]
    fn signed_integers_are_points_from_0_on_and_keep_their_order() {
        let (least, most) = (i64::MIN, i64::MAX);
        assert_eq!(Point::try_from(most), Ok(Point::from(most.unsigned_abs())));
        assert!(Point::try_from(0i8).unwrap() < Point::try_from(1i128).unwrap());
        for error in [Point::try_from(least).unwrap_err(), Point::try_from(-1isize).unwrap_err()] {
            assert!(error.to_string().contains("is negative, and points begin at 0"), "{error}");
        }
        assert_eq!(i16::try_from(&Point::from(32_767u64)), Ok(i16::MAX));
        assert!(i16::try_from(&Point::from(32_768u64)).is_err());
    }

    #[test]
    fn zero_has_no_bytes_and_one_digit() {
        assert_eq!((Point::default().to_be_bytes(), Point::default().to_string()), (vec![], "0".to_owned()));
        assert_eq!(Point::from(255u64).next().to_string(), "100");
        assert_eq!(Point::from(256u64).previous(), Some(Point::from(255u64)));
        assert_eq!(Point::default().previous(), None);
    }
}
