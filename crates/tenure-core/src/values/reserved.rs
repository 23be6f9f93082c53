//! Keys of tenure's own records. A lock or an election on one of these would overwrite a record that its owners need.

use crate::values::error::InvalidInput;
use crate::values::key::Key;

/// What the keys of units of jobs begin with (`tenure work`).
pub const WORK: &str = "work/";
/// What the keys of records begin with that keep what ran at which tick ([`crate::once`]).
pub const ONCE: &str = "once/";
/// What the keys of all fleets' records begin with.
pub const FLEET: &str = "fleet/";
/// What the keys of sessions begin with, unless another prefix was chosen.
pub const SESSION: &str = "session/";
/// What the keys of sections begin with: [`crate::section::PREFIX`].
pub(crate) const SECTION: &str = "section/";
/// What the keys of semaphores begin with: [`crate::semaphore::PREFIX`].
pub(crate) const SEMAPHORE: &str = "semaphore/";

const ROOMS: [(&str, &str); 6] = [
    (SESSION, "a process's session"),
    (SECTION, "a section of ranges"),
    (SEMAPHORE, "a semaphore"),
    (FLEET, "a fleet's record"),
    (WORK, "a unit of a job"),
    (ONCE, "what runs once per tick"),
];

/// Whether `key` is free for a lock or an election of anyone's.
///
/// # Errors
/// When its record is one of tenure's own: the text says what it is, and what to choose instead.
pub fn check(key: &Key) -> Result<(), InvalidInput> {
    match ROOMS.iter().find(|(prefix, _)| key.as_str().starts_with(prefix)) {
        None => Ok(()),
        Some((prefix, what)) => Err(refusal(key, what, prefix)),
    }
}

/// As [`check`], where sessions' keys begin with `prefix`.
///
/// # Errors
/// As [`check`].
pub fn check_with_sessions(key: &Key, prefix: &str) -> Result<(), InvalidInput> {
    if !prefix.is_empty() && key.as_str().starts_with(prefix) {
        return Err(refusal(key, "a process's session", prefix));
    }
    check(key)
}

fn refusal(key: &Key, what: &str, prefix: &str) -> InvalidInput {
    InvalidInput::new(format!("{key} is the key of {what}; choose a name that doesn't begin with {prefix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_tenures_own_records_are_refused_by_what_they_are() {
        for (text, what) in [
            ("session/a", "a process's session"),
            ("section/x", "a section of ranges"),
            ("semaphore/x", "a semaphore"),
            ("fleet/f/unit/u", "a fleet's record"),
            ("work/j/u", "a unit of a job"),
            ("once/j", "what runs once per tick"),
        ] {
            let error = check(&Key::new(text).unwrap()).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("doesn't begin with"), "{error}");
        }
        for text in ["work", "sessions/a", "a/work/b", "Work/x"] {
            assert_eq!(check(&Key::new(text).unwrap()), Ok(()), "{text}");
        }
    }

    #[test]
    fn sessions_may_be_elsewhere() {
        let key = Key::new("process/a").unwrap();
        assert!(check(&key).is_ok() && check_with_sessions(&key, "").is_ok());
        assert!(
            check_with_sessions(&key, "process/").unwrap_err().to_string().contains("a process's session")
        );
    }

    #[test]
    fn a_fleets_records_are_where_its_name_says() {
        let name = crate::fleet::FleetName::new("f").unwrap();
        assert!(name.prefix().starts_with(FLEET));
    }
}
