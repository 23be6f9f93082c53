//! Errors at the boundary to a store, sorted by what the caller must do about them.

use crate::values::steering::harmless;
use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

/// The caller's mistake, told before any I/O. The text names the input and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidInput(String);

impl InvalidInput {
    /// An error with the given text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        InvalidInput(text.into())
    }
}

/// Of a conversion that can't fail.
impl From<Infallible> for InvalidInput {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// What kind of failure a store call met, which is to say: what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call did not take effect and may be repeated.
    Unavailable,
    /// The call may or may not have taken effect, or may still: read the record and compare its nonce.
    Unknown,
    /// The record is not ours, is damaged, or was written by a newer version: it is left as it is.
    Foreign,
    /// The store can't do this; its capabilities say so.
    Unsupported,
    /// The caller's mistake.
    Invalid,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Unavailable => "store unavailable",
            ErrorKind::Unknown => "outcome unknown",
            ErrorKind::Foreign => "foreign or damaged record",
            ErrorKind::Unsupported => "not supported by this store",
            ErrorKind::Invalid => "invalid input",
        })
    }
}

/// A failed store call.
#[derive(Clone)]
pub struct StoreError {
    kind: ErrorKind,
    text: Arc<str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    is_newer: bool,
    record: Option<Arc<RecordCause>>,
}

/// What is wrong with the record of a key, of which an error tells.
struct RecordCause {
    key: Box<str>,
    text: Arc<str>,
}

impl StoreError {
    /// An error of `kind` with a text that names what failed and, where there is one, the remedy. What would steer a terminal is escaped in it: servers'
    /// own words and the names of others stand in such texts, which end on terminals, in logs and in answers.
    pub fn new(kind: ErrorKind, text: impl Into<Arc<str>>) -> Self {
        let text: Arc<str> = text.into();
        let text = match harmless(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(escaped) => escaped.into(),
        };
        StoreError { kind, text, source: None, is_newer: false, record: None }
    }

    /// The same with the error that it came from, for those who look at [`source`](std::error::Error::source). The text says it already.
    /// No error in the chain may show a secret.
    #[must_use]
    pub fn because(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        StoreError { source: Some(Arc::from(source.into())), ..self }
    }

    /// The call did not take effect and may be repeated.
    pub fn unavailable(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unavailable, text)
    }

    /// The call may or may not have taken effect.
    pub fn unknown(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unknown, text)
    }

    /// The record is not ours or is damaged.
    pub fn foreign(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Foreign, text)
    }

    /// The record was written by a newer version, which can read it: nothing of it is to be mended, or removed.
    pub fn newer(text: impl Into<Arc<str>>) -> Self {
        StoreError { is_newer: true, ..Self::foreign(text) }
    }

    /// The store can't do this.
    pub fn unsupported(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Unsupported, text)
    }

    /// The caller's mistake.
    pub fn invalid(text: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorKind::Invalid, text)
    }

    /// The same, of something that is named first.
    #[must_use]
    pub fn about(&self, what: impl fmt::Display) -> Self {
        let told = StoreError::new(self.kind, format!("{what}: {}", self.text));
        StoreError { text: told.text, ..self.clone() }
    }

    /// The same, of what a store has for `key` and leaves as it is. `what` is the store's own word for that, as in "the row of".
    #[must_use]
    pub fn about_record(&self, what: &str, key: impl AsRef<str>) -> Self {
        let key = key.as_ref();
        let record = RecordCause { key: key.into(), text: Arc::clone(&self.text) };
        let about = self.about(format_args!("{what} key {key} is left as it is"));
        StoreError { record: Some(Arc::new(record)), ..about }
    }

    /// The same, where it asks the caller for something else.
    #[must_use]
    pub fn of_kind(self, kind: ErrorKind) -> Self {
        StoreError { kind, ..self }
    }

    /// What to do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What it says, without its kind.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same for whoever has named `key` already: without the words of [`Self::about_record`], where they are about that one. Only whoever has
    /// read the record knows these apart: what is sent as text does not tell them.
    #[must_use]
    pub fn cause_of(&self, key: impl AsRef<str>) -> &str {
        let record = self.record.as_ref().filter(|record| *record.key == *key.as_ref());
        record.map_or(&*self.text, |record| &*record.text)
    }

    /// Whether a newer version has written the record. Only whoever has read the record knows: what is sent as text does not tell it.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        self.is_newer
    }

    /// Whether repeating the call can help.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Unknown)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError").field("kind", &self.kind).field("text", &self.text).finish()
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl StoreError {
    /// What it says, by which errors are compared: where they came from is for people.
    fn says(&self) -> (ErrorKind, &str) {
        (self.kind, &self.text)
    }
}

impl PartialEq for StoreError {
    fn eq(&self, other: &Self) -> bool {
        self.says() == other.says()
    }
}

impl Eq for StoreError {}

impl PartialOrd for StoreError {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StoreError {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.says().cmp(&other.says())
    }
}

impl std::hash::Hash for StoreError {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.says().hash(state);
    }
}

/// As `{"kind": "Unavailable", "text": "…"}`; its source is left out.
#[cfg(feature = "serde")]
impl serde::Serialize for StoreError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut fields = serializer.serialize_struct("StoreError", 2)?;
        fields.serialize_field("kind", &self.kind)?;
        fields.serialize_field("text", &*self.text)?;
        fields.end()
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for StoreError {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<StoreError, D::Error> {
        #[derive(serde::Deserialize)]
        struct Said {
            kind: ErrorKind,
            text: String,
        }
        Said::deserialize(deserializer).map(|Said { kind, text }| StoreError::new(kind, text))
    }
}

impl From<InvalidInput> for StoreError {
    fn from(error: InvalidInput) -> Self {
        StoreError::invalid(error.to_string()).because(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_where_it_came_from_and_is_compared_by_what_it_says() {
        use std::error::Error as _;
        let plain = StoreError::unavailable("no answer");
        let error = plain.clone().because(std::io::Error::other("reset by peer"));
        assert!(error == plain && plain.source().is_none());
        let about = error.about("the row of k");
        assert_eq!(about.source().map(ToString::to_string).as_deref(), Some("reset by peer"));
        assert_eq!(about.to_string(), "store unavailable: the row of k: no answer");
        let input = StoreError::from(InvalidInput::new("too long"));
        assert!(input.source().is_some_and(|source| source.is::<InvalidInput>()));
    }

    #[test]
    fn what_would_steer_a_terminal_is_escaped() {
        let said = "ERR \u{1b}[31mred\u{1b}]0;title\u{7}\n\u{202e}\u{9b}2J é";
        let told = "ERR \\u{1b}[31mred\\u{1b}]0;title\\u{7}\\n\\u{202e}\\u{9b}2J é";
        let error = StoreError::unavailable(said);
        assert_eq!(error.to_string(), format!("store unavailable: {told}"));
        // Nothing is escaped twice.
        assert_eq!(StoreError::unavailable(told), error);
        assert_eq!(error.about("a\tb").to_string(), format!("store unavailable: a\\tb: {told}"));
    }

    #[test]
    fn what_a_newer_version_has_written_is_known_as_such_whatever_is_said_of_it() {
        let newer = StoreError::newer("version 9").about("the row of k");
        assert_eq!((newer.kind(), newer.is_newer()), (ErrorKind::Foreign, true));
        assert!(newer.because(std::io::Error::other("read")).is_newer());
        assert!(!StoreError::foreign("it is of a newer version; upgrade it").is_newer());
    }

    #[test]
    fn whoever_has_named_the_key_is_told_the_cause_alone() {
        let key = "k\u{1b}";
        let plain = StoreError::newer("version 9");
        let error = plain.about_record("the row of", key);
        assert_eq!(error.text(), "the row of key k\\u{1b} is left as it is: version 9");
        assert_eq!((error.is_newer(), error.cause_of(key)), (true, "version 9"));
        // It is known whatever else is said of it, and of this key only.
        let more = error.about("a page").because(std::io::Error::other("read")).of_kind(ErrorKind::Unknown);
        assert_eq!((more.cause_of(key), more.cause_of("k")), ("version 9", more.text()));
        assert_eq!((plain.cause_of(key), plain.text()), ("version 9", "version 9"));
        // Nothing is cut from what only reads like it.
        let alike = StoreError::foreign(error.text());
        assert_eq!(alike.cause_of(key), error.text());
    }

    #[test]
    fn an_error_about_something_says_its_kind_once() {
        let error = StoreError::foreign("not ours").about("the row of k");
        assert_eq!(error.to_string(), "foreign or damaged record: the row of k: not ours");
        assert_eq!(error.kind(), ErrorKind::Foreign);
    }
}
