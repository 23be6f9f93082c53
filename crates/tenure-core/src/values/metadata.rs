//! Typed fields that a lease carries for its users: a checkpoint, a status, the holder's address.

use crate::values::error::InvalidInput;
use std::collections::{BTreeMap, BTreeSet};

/// The field that others than the holder write too: a holder that writes other metadata keeps what stands there, unless it
/// knows of it.
pub const RESERVED: &str = "tenure";

/// In the reserved field of a unit: whether there is still work to do on it.
pub(crate) const STATUS: &str = "status";

/// Named values, ordered by name.
pub type Metadata = BTreeMap<String, Value>;

/// One value of a lease's metadata. The kinds are those that stores with typed attributes tell apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A decimal number, kept to the digit.
    Number(Number),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Values in order.
    List(Vec<Value>),
    /// Named values.
    Map(Metadata),
    /// A set of texts.
    TextSet(BTreeSet<String>),
    /// A set of numbers.
    NumberSet(BTreeSet<Number>),
    /// A set of byte strings.
    BytesSet(BTreeSet<Vec<u8>>),
}

impl Value {
    /// The deepest nesting of lists and maps that a record may carry.
    pub const MAX_DEPTH: usize = 16;

    /// The text, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// The number as an integer, if this is one that fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        if let Value::Number(number) = self { number.as_str().parse().ok() } else { None }
    }

    /// How deep lists and maps are nested in this value; a plain value has depth 1.
    #[must_use]
    pub fn depth(&self) -> usize {
        1 + match self {
            Value::List(values) => values.iter().map(Value::depth).max().unwrap_or(0),
            Value::Map(fields) => fields.values().map(Value::depth).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// A decimal number as text, so that no digit is lost between stores: `-12`, `0.5`, `1e-7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "String"))]
pub struct Number(String);

impl TryFrom<String> for Number {
    type Error = InvalidInput;

    fn try_from(text: String) -> Result<Self, InvalidInput> {
        Number::new(&text)
    }
}

impl Number {
    /// The longest number, in characters.
    pub const MAX_BYTES: usize = 64;

    /// Checks and takes a decimal number.
    ///
    /// # Errors
    /// When `text` is not a finite decimal number of at most 64 characters.
    pub fn new(text: &str) -> Result<Number, InvalidInput> {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
        if text.len() > Self::MAX_BYTES || !plain || !text.parse::<f64>().is_ok_and(f64::is_finite) {
            let shown: String = text.chars().take(Self::MAX_BYTES).collect();
            return Err(InvalidInput::new(format!(
                "{shown:?} is not a decimal number of at most 64 characters"
            )));
        }
        Ok(Number(text.to_owned()))
    }

    /// The number's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Number(number.to_string())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Number(number.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_refuse_what_is_not_one() {
        let digits = "0.10000000000000000000000000000000000001";
        assert_eq!(Number::new(digits).unwrap().as_str(), digits);
        for bad in ["", "inf", "NaN", "1e999", "0x10", "1_000", "--1", " 1", &"1".repeat(65)] {
            assert!(Number::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn depth_counts_the_longest_branch() {
        let deep = Value::List(vec![Value::Null, Value::Map([("a".into(), Value::List(vec![]))].into())]);
        assert_eq!(deep.depth(), 3);
        assert_eq!(Value::Null.depth(), 1);
    }

    #[test]
    fn a_value_is_taken_for_what_it_is() {
        assert_eq!((Value::from(1).as_i64(), Value::from(1).as_text()), (Some(1), None));
        assert_eq!((Value::from("1").as_i64(), Value::from("1").as_text()), (None, Some("1")));
    }
}
