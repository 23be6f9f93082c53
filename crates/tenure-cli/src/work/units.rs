//! The units as they are given: read, checked one by one, each taken once.

use crate::exit::Failure;
use crate::meant::Source;
use crate::text::{count, escaped};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use tenure::Key;

/// Units, each once, and what was noticed about them.
#[derive(Debug, Default)]
pub(crate) struct Units {
    /// Sorted.
    pub(crate) keys: Vec<Key>,
    /// What to tell the user.
    pub(crate) notes: Vec<String>,
}

/// Reads all units from their source. Their keys begin with `prefix`.
pub(crate) fn read(source: &Source, separator: u8, prefix: &str) -> Result<Units, Failure> {
    match source {
        Source::Join => Ok(Units::default()),
        Source::Arguments(units) => {
            let units = units.iter().enumerate().map(|(n, unit)| (n + 1, unit.as_bytes()));
            collect(units, "argument", "", prefix)
        }
        Source::Input => {
            let mut input = std::io::stdin().lock();
            let mut text = Vec::new();
            if !input.is_terminal() {
                let read = input.read_to_end(&mut text);
                read.map_err(|error| {
                    Failure::usage(format!("units can't be read from standard input: {error}"))
                })?;
            }
            collect(split(&text, separator), item(separator), " of standard input", prefix)
        }
        Source::File(path) => {
            let shown = escaped(&path.to_string_lossy());
            let text = std::fs::read(path)
                .map_err(|error| Failure::usage(format!("units can't be read from {shown}: {error}")))?;
            collect(split(&text, separator), item(separator), &format!(" of {shown}"), prefix)
        }
    }
}

fn item(separator: u8) -> &'static str {
    if separator == b'\n' { "line" } else { "item" }
}

fn split(text: &[u8], separator: u8) -> impl Iterator<Item = (usize, &[u8])> {
    text.split(move |byte| *byte == separator)
        .enumerate()
        .map(|(n, unit)| (n + 1, unit))
        .filter(|(_, unit)| !unit.is_empty())
}

fn collect<'a>(
    units: impl Iterator<Item = (usize, &'a [u8])>,
    item: &str,
    of: &str,
    prefix: &str,
) -> Result<Units, Failure> {
    let mut first_seen: BTreeMap<Key, usize> = BTreeMap::new();
    let mut doubles: Vec<String> = Vec::new();
    for (number, unit) in units {
        let at = format!("{item} {number}{of}");
        let key = key_of(prefix, unit).map_err(|why| Failure::usage(format!("{at}: {why}")))?;
        if let Some(first) = first_seen.get(&key) {
            doubles.push(format!("\"{}\" ({item}s {first} and {number})", shown(unit)));
        } else {
            first_seen.insert(key, number);
        }
    }
    let mut notes = Vec::new();
    if !doubles.is_empty() {
        const SHOWN: usize = 5;
        let more = if doubles.len() > SHOWN { ", …" } else { "" };
        let listed = doubles.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        notes.push(format!("{}{of}, run once: {listed}{more}", count(doubles.len(), "duplicate")));
    }
    Ok(Units { keys: first_seen.into_keys().collect(), notes })
}

fn key_of(prefix: &str, unit: &[u8]) -> Result<Key, String> {
    if unit.is_empty() {
        return Err("a unit can't be empty".to_owned());
    }
    let Ok(text) = std::str::from_utf8(unit) else {
        return Err(format!("the unit \"{}\" is not UTF-8 text; rename it", shown(unit)));
    };
    if text.contains('\0') {
        return Err(format!("the unit \"{}\" holds a NUL, which no argument can", shown(unit)));
    }
    let most = Key::MAX_BYTES.saturating_sub(prefix.len());
    if text.len() > most {
        let (is, prefix) = (text.len(), escaped(prefix));
        return Err(format!(
            "the unit \"{}\" has {is} bytes; after \"{prefix}\" the limit is {most}",
            shown(unit)
        ));
    }
    Key::new(format!("{prefix}{text}")).map_err(|error| error.to_string())
}

/// The beginning of a unit, fit for a terminal.
fn shown(unit: &[u8]) -> String {
    const MOST: usize = 60;
    match std::str::from_utf8(unit) {
        Ok(text) if text.chars().count() <= MOST => escaped(text),
        Ok(text) => format!("{}…", escaped(&text.chars().take(MOST).collect::<String>())),
        Err(_) => unit.iter().take(MOST).copied().collect::<Vec<u8>>().escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_lines(text: &[u8], separator: u8) -> Result<Units, Failure> {
        collect(split(text, separator), item(separator), " of f", "work/j/")
    }

    #[test]
    fn units_are_sorted_taken_once_and_duplicates_are_told() {
        let units = read_lines(b"b\na\n\nb\nc", b'\n').unwrap();
        let keys: Vec<&str> = units.keys.iter().map(Key::as_str).collect();
        assert_eq!(keys, ["work/j/a", "work/j/b", "work/j/c"]);
        assert_eq!(units.notes, ["1 duplicate of f, run once: \"b\" (lines 1 and 4)"]);
        assert_eq!(read_lines(b"a b\0c\nd\0", 0).unwrap().keys.len(), 2);
    }

    #[test]
    fn a_bad_unit_is_named_with_its_line() {
        let error = read_lines(b"ok\n\xff\xfe\n", b'\n').unwrap_err().to_string();
        assert!(
            error.starts_with("line 2 of f: ") && error.contains("\\xff") && error.contains("UTF-8"),
            "{error}"
        );
        let long = [b"ok\n".as_slice(), &[b'x'; 506]].concat();
        let error = read_lines(&long, b'\n').unwrap_err().to_string();
        assert!(error.contains("506 bytes") && error.contains("limit is 505"), "{error}");
        let error = read_lines(b"a\0b\n", b'\n').unwrap_err().to_string();
        assert!(error.contains("NUL"), "{error}");
    }
}
