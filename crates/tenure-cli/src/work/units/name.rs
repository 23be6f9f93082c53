//! The name of a unit: what can be one, and the key under which it stands.

use crate::exit::Failure;
use crate::keys::{DIGEST, is_digest};
use crate::text::{escaped, hex};
use sha2::{Digest, Sha256};
use tenure::Key;

/// The longest name: as long as a path may be. A record's metadata have twice the room, and what is told of a run stands beside it.
pub(super) const MOST_BYTES: usize = 4096;

/// A unit of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) key: Key,
    /// Its name, where the key only has its digest.
    pub(crate) name: Option<Vec<u8>>,
}

/// The unit of a job that is called so. Names that are not UTF-8, or are too long for a key, stand in the record.
pub(crate) fn named(prefix: &str, unit: &[u8]) -> Result<Named, Failure> {
    let is_fit = !std::str::from_utf8(unit).is_ok_and(is_digest);
    if let (true, Ok(key)) = (is_fit, key_of(prefix, unit)) {
        return Ok(Named { key, name: None });
    }
    let digest = hex(&Sha256::digest(unit));
    Ok(Named { key: Key::new(format!("{prefix}{DIGEST}{digest}"))?, name: Some(unit.to_vec()) })
}

/// Whether it can be a command's argument.
pub(super) fn check(unit: &[u8], bytes: usize) -> Result<(), String> {
    if unit.is_empty() {
        return Err("a unit can't be empty".to_owned());
    }
    if unit.contains(&0) {
        return Err(format!("the unit \"{}\" holds a NUL, which no argument can", shown(unit)));
    }
    if bytes > MOST_BYTES {
        return Err(format!("the unit \"{}\" has {bytes} bytes; the limit is {MOST_BYTES}", shown(unit)));
    }
    Ok(())
}

pub(super) fn key_of(prefix: &str, unit: &[u8]) -> Result<Key, String> {
    let Ok(text) = std::str::from_utf8(unit) else {
        return Err(format!("the unit \"{}\" is not UTF-8 text; rename it", shown(unit)));
    };
    let most = Key::MAX_BYTES.saturating_sub(prefix.len());
    if unit.len() > most {
        let (shown, is, prefix) = (shown(unit), unit.len(), escaped(prefix));
        return Err(format!("the unit \"{shown}\" has {is} bytes; after \"{prefix}\" the limit is {most}"));
    }
    Key::new(format!("{prefix}{text}")).map_err(|error| error.to_string())
}

/// The beginning of a unit, fit for a terminal.
pub(super) fn shown(unit: &[u8]) -> String {
    const MOST: usize = 60;
    let text = std::str::from_utf8(unit).or_else(|error| match unit.get(..error.valid_up_to()) {
        // Only the beginning was kept, whose last character may be half a one.
        Some(whole) if error.error_len().is_none() && unit.len() > MOST_BYTES => std::str::from_utf8(whole),
        _ => Err(error),
    });
    match text {
        Ok(text) if text.chars().count() <= MOST => escaped(text),
        Ok(text) => format!("{}…", escaped(&text.chars().take(MOST).collect::<String>())),
        Err(_) => unit.iter().take(MOST).copied().collect::<Vec<u8>>().escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_key_can_hold_stands_in_the_record_and_no_other_is_taken_for_it() {
        let named = |unit: &[u8]| named("work/j/", unit).unwrap();
        assert_eq!(named("é x".as_bytes()), Named { key: Key::new("work/j/é x").unwrap(), name: None });
        for odd in [b"a\xff".as_slice(), &[b'x'; 506], &[b'x'; 4096]] {
            let Named { key, name } = named(odd);
            let end = key.as_str().strip_prefix("work/j/").unwrap();
            assert!(is_digest(end), "{end}");
            assert_eq!(name.as_deref(), Some(odd));
            assert_ne!(named(end.as_bytes()).key, key, "a unit that is called as that key's end is another");
        }
        assert!(!is_digest("sha256-") && !is_digest("a"));
    }
}
