//! What keys of jobs name, and where a unit of a job stands.

use crate::exit::Failure;
use crate::text::{escaped, hex};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use tenure::store::reserved::WORK;
use tenure::{Key, Metadata, Value};

/// The name of a job: 1 to 128 bytes without a slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobName(String);

impl JobName {
    const MAX_BYTES: usize = 128;

    pub(crate) fn new(text: &OsStr) -> Result<JobName, Failure> {
        let Some(name) = text.to_str() else {
            return Err(Failure::usage(format!(
                "the job's name \"{}\" is not UTF-8 text",
                text.as_bytes().escape_ascii()
            )));
        };
        let shown: String = escaped(name).chars().take(40).collect();
        if name.is_empty() || name.len() > Self::MAX_BYTES {
            let (is, most) = (name.len(), Self::MAX_BYTES);
            return Err(Failure::usage(format!(
                "the job's name \"{shown}\" has {is} bytes; allowed are 1 to {most}"
            )));
        }
        if name.contains('/') {
            return Err(Failure::usage(format!(
                "the job's name \"{shown}\" has a slash, which ends a job's name in keys"
            )));
        }
        Ok(JobName(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// As people are told of it.
    pub(crate) fn shown(&self) -> String {
        escaped(&self.0)
    }

    /// What the keys of its units begin with.
    pub(crate) fn prefix(&self) -> String {
        format!("{WORK}{}/", self.0)
    }

    /// The job and the unit that a key names, if it names any.
    pub(crate) fn of_key(key: &Key) -> Option<(&str, &str)> {
        key.as_str().strip_prefix(WORK)?.split_once('/')
    }
}

/// The field that tells where a unit of a job stands.
pub(crate) const STATUS: &str = "status";
/// What the status begins with where the record has the unit's name.
pub(crate) const NAMED: &str = "named-";

/// The field that has the unit's name, where its key can't have it.
pub(crate) const NAME: &str = "name";
/// What stands in a key for a unit that can't stand there itself: a digest of 256 bits.
pub(crate) const DIGEST: &str = "sha256-";

/// Whether the end of a key is no name.
pub(crate) fn is_digest(unit: &str) -> bool {
    unit.strip_prefix(DIGEST)
        .is_some_and(|digest| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The name of a unit whose key has only a digest of it, if the record tells it.
pub(crate) fn kept_name<'m>(key: &Key, metadata: &'m Metadata) -> Option<&'m [u8]> {
    match (JobName::of_key(key)?, metadata.get(NAME)?) {
        ((_, end), Value::Bytes(name)) if is_digest(end) => Some(name.as_slice()),
        _ => None,
    }
}

/// A unit as text, in which bytes that are none are escaped.
pub(crate) fn text_of(unit: &[u8]) -> String {
    std::str::from_utf8(unit).map_or_else(|_| unit.escape_ascii().to_string(), str::to_owned)
}

/// The bytes of one that is no text, of which [`text_of`] tells no other that looks the same.
pub(crate) fn hex_of(unit: &[u8]) -> Option<String> {
    std::str::from_utf8(unit).is_err().then(|| hex(unit))
}

/// Where a unit of a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum UnitStatus {
    /// To be run, again perhaps.
    Pending,
    /// Run with success. Never run again.
    Done,
    /// Given up after too many attempts.
    Failed,
}

impl UnitStatus {
    /// As a record's metadata tell it; none if it is no unit's.
    pub(crate) fn of(metadata: &Metadata) -> Option<UnitStatus> {
        let status = metadata.get(STATUS)?.as_text()?;
        let status = status.strip_prefix(NAMED).unwrap_or(status);
        [UnitStatus::Pending, UnitStatus::Done, UnitStatus::Failed].into_iter().find(|it| it.name() == status)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            UnitStatus::Pending => "pending",
            UnitStatus::Done => "done",
            UnitStatus::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_mix_up_jobs_are_refused() {
        for bad in ["", "a/b", &"x".repeat(129)] {
            assert!(JobName::new(OsStr::new(bad)).is_err(), "{bad}");
        }
        assert!(JobName::new(OsStr::from_bytes(b"\xff")).is_err());
        let key = Key::new("work/job/a/b").unwrap();
        assert_eq!(JobName::of_key(&key), Some(("job", "a/b")));
    }
}
