//! Names: keys and holders, checked once where they enter.

use crate::values::error::InvalidInput;
use crate::values::steering::steers_terminals;
use std::fmt;
use std::sync::Arc;

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// The longest text allowed, in bytes of UTF-8.
            pub const MAX_BYTES: usize = $max;

            /// Checks and takes `text`.
            ///
            /// # Errors
            /// When it is empty or longer than [`Self::MAX_BYTES`].
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidInput> {
                let text = text.as_ref();
                if text.is_empty() {
                    return Err(InvalidInput::new(concat!("a ", $what, " can't be empty")));
                }
                if text.len() > Self::MAX_BYTES {
                    let shown: String = text.chars().take(40).collect();
                    return Err(InvalidInput::new(format!(
                        "the {} {:?}… has {} bytes; the limit is {}", $what, shown, text.len(), Self::MAX_BYTES
                    )));
                }
                Ok(Self(text.into()))
            }

            /// Checks and takes bytes that should be UTF-8 text.
            ///
            /// # Errors
            /// As [`Self::new`], and when the bytes are not UTF-8.
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidInput> {
                match std::str::from_utf8(bytes) {
                    Ok(text) => Self::new(text),
                    Err(_) => Err(InvalidInput::new(format!(
                        "the {} \"{}\" is not UTF-8 text", $what, bytes[..bytes.len().min(40)].escape_ascii()
                    ))),
                }
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $type {
            type Err = InvalidInput;

            fn from_str(text: &str) -> Result<Self, InvalidInput> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $type {
            type Error = InvalidInput;

            fn try_from(text: &str) -> Result<Self, InvalidInput> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidInput;

            fn try_from(text: String) -> Result<Self, InvalidInput> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.as_ref().to_owned()
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        /// Checked as by `new`.
        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        /// Escaped as by [`steers_terminals`], so that a name can't steer a terminal.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for c in self.0.chars() {
                    if steers_terminals(c) { write!(f, "{}", c.escape_default())? } else { fmt::Write::write_char(f, c)? }
                }
                Ok(())
            }
        }
    };
}

name! {
    /// The name of one lease in a store: UTF-8 text of 1 to 512 bytes.
    Key, "key", 512
}

name! {
    /// One process instance: unique for each start, never a host name alone; 1 to 256 bytes.
    HolderId, "holder id", 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_names_are_refused_with_the_limit() {
        assert_eq!(Key::new("").unwrap_err().to_string(), "a key can't be empty");
        let long = Key::new("x".repeat(513)).unwrap_err().to_string();
        assert!(long.contains("513 bytes") && long.contains("limit is 512"), "{long}");
        assert!(Key::new("x".repeat(512)).is_ok());
        assert!(HolderId::new("x".repeat(257)).is_err());
        let bytes = Key::from_bytes(b"a\xffb").unwrap_err().to_string();
        assert!(bytes.contains("not UTF-8") && bytes.contains("\\xff"), "{bytes}");
    }

    #[test]
    fn control_characters_are_escaped_for_people() {
        assert_eq!(Key::new("a\u{1b}[31m\n").unwrap().to_string(), "a\\u{1b}[31m\\n");
        assert_eq!(Key::new("é\u{202e}b\u{2028}").unwrap().to_string(), "é\\u{202e}b\\u{2028}");
    }
}
