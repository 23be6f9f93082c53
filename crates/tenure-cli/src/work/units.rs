//! The units as they are given: read, checked one by one, each taken once.

use crate::config::Source;
use crate::exit::Failure;
use crate::output;
use crate::text::{count, escaped};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tenure::Key;

/// The units that were given, each once.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Each with the number of the argument, line or item where it stands first.
    units: BTreeMap<String, usize>,
    /// What such a number counts, and of what.
    item: &'static str,
    of: String,
    /// The file that they were read from, if that path leads to it again.
    pub(crate) file: Option<PathBuf>,
    /// What to tell the user.
    notes: Vec<String>,
}

impl Given {
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// In byte order, however they were given.
    pub(crate) fn units(&self) -> impl ExactSizeIterator<Item = &str> {
        self.units.keys().map(String::as_str)
    }

    /// Their keys, which are these, in the order in which they were given.
    pub(crate) fn in_order(&self, keys: &[Key]) -> Vec<Key> {
        let mut numbered: Vec<(usize, &Key)> = self.units.values().copied().zip(keys).collect();
        numbered.sort_unstable();
        numbered.into_iter().map(|(_, key)| key.clone()).collect()
    }

    /// Their keys in byte order, each with `prefix` before the unit.
    pub(crate) fn keys(&self, prefix: &str) -> Result<Vec<Key>, Failure> {
        let key = |(unit, number): (&String, &usize)| {
            let at = format!("{} {number}{}", self.item, self.of);
            key_of(prefix, unit).map_err(|why| Failure::usage(format!("{at}: {why}")))
        };
        self.units.iter().map(key).collect()
    }
}

/// Reads all units from their source, to its end, and tells the user what there is to tell of them.
pub(crate) fn read(source: &Source, separator: u8) -> Result<Given, Failure> {
    let given = take(source, separator)?;
    given.notes.iter().for_each(output::note);
    Ok(given)
}

fn take(source: &Source, separator: u8) -> Result<Given, Failure> {
    match source {
        Source::Join => Ok(Given::default()),
        Source::Arguments(units) => {
            let units = units.iter().enumerate().map(|(n, unit)| (n + 1, unit.as_bytes()));
            collect(units, "argument", "")
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
            collect(split(&text, separator), item(separator), " of standard input")
        }
        Source::File(path) => {
            let shown = escaped(&path.to_string_lossy());
            let text = std::fs::read(path)
                .map_err(|error| Failure::usage(format!("units can't be read from {shown}: {error}")))?;
            let given = collect(split(&text, separator), item(separator), &format!(" of {shown}"))?;
            // What a pipe or a deleted file is called (`--from <(ls)`) names something else the next time.
            let file = path.canonicalize().ok().filter(|path| path.is_file());
            Ok(Given { file, ..given })
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
    item: &'static str,
    of: &str,
) -> Result<Given, Failure> {
    let mut first_seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut doubles: Vec<String> = Vec::new();
    for (number, unit) in units {
        let at = format!("{item} {number}{of}");
        let text = text_of(unit).map_err(|why| Failure::usage(format!("{at}: {why}")))?;
        if let Some(first) = first_seen.get(text) {
            doubles.push(format!("\"{}\" ({item}s {first} and {number})", shown(unit)));
        } else {
            first_seen.insert(text.to_owned(), number);
        }
    }
    let mut notes = Vec::new();
    if !doubles.is_empty() {
        const SHOWN: usize = 5;
        let more = if doubles.len() > SHOWN { ", …" } else { "" };
        let listed = doubles.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        notes.push(format!("{}{of}, run once: {listed}{more}", count(doubles.len(), "duplicate")));
    }
    Ok(Given { units: first_seen, item, of: of.to_owned(), file: None, notes })
}

fn text_of(unit: &[u8]) -> Result<&str, String> {
    if unit.is_empty() {
        return Err("a unit can't be empty".to_owned());
    }
    let Ok(text) = std::str::from_utf8(unit) else {
        return Err(format!("the unit \"{}\" is not UTF-8 text; rename it", shown(unit)));
    };
    if text.contains('\0') {
        return Err(format!("the unit \"{}\" holds a NUL, which no argument can", shown(unit)));
    }
    Ok(text)
}

fn key_of(prefix: &str, unit: &str) -> Result<Key, String> {
    let most = Key::MAX_BYTES.saturating_sub(prefix.len());
    if unit.len() > most {
        let (shown, is, prefix) = (shown(unit.as_bytes()), unit.len(), escaped(prefix));
        return Err(format!("the unit \"{shown}\" has {is} bytes; after \"{prefix}\" the limit is {most}"));
    }
    Key::new(format!("{prefix}{unit}")).map_err(|error| error.to_string())
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

    fn read_lines(text: &[u8], separator: u8) -> Result<Given, Failure> {
        collect(split(text, separator), item(separator), " of f")
    }

    fn keys(text: &[u8]) -> Result<Vec<Key>, Failure> {
        read_lines(text, b'\n').unwrap().keys("work/j/")
    }

    #[test]
    fn units_are_sorted_taken_once_and_duplicates_are_told() {
        let text = b"b\na\n\nb\nc";
        let all = keys(text).unwrap();
        assert_eq!(all.iter().map(Key::as_str).collect::<Vec<_>>(), ["work/j/a", "work/j/b", "work/j/c"]);
        let given = read_lines(text, b'\n').unwrap();
        assert_eq!(given.notes, ["1 duplicate of f, run once: \"b\" (lines 1 and 4)"]);
        assert_eq!(read_lines(b"a b\0c\nd\0", 0).unwrap().units().len(), 2);
    }

    #[test]
    fn a_bad_unit_is_named_with_its_line() {
        let error = read_lines(b"ok\n\xff\xfe\n", b'\n').unwrap_err().to_string();
        assert!(
            error.starts_with("line 2 of f: ") && error.contains("\\xff") && error.contains("UTF-8"),
            "{error}"
        );
        let error = read_lines(b"a\0b\n", b'\n').unwrap_err().to_string();
        assert!(error.contains("NUL"), "{error}");
        let long = [b"ok\n".as_slice(), &[b'x'; 506]].concat();
        let error = keys(&long).unwrap_err().to_string();
        assert!(
            error.starts_with("line 2 of f: ")
                && error.contains("506 bytes")
                && error.contains("limit is 505"),
            "{error}"
        );
    }

    #[test]
    fn only_a_file_that_is_found_again_has_a_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        std::fs::write(&path, "a\n").unwrap();
        let given = read(&Source::File(path.clone()), b'\n').unwrap();
        assert_eq!(given.file, Some(path.canonicalize().unwrap()));
        let gone = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (end, mut other) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut other, b"b\n").unwrap();
        drop(other);
        for (fd, unit) in
            [(std::os::fd::AsRawFd::as_raw_fd(&gone), "a"), (std::os::fd::AsRawFd::as_raw_fd(&end), "b")]
        {
            let given = read(&Source::File(format!("/proc/self/fd/{fd}").into()), b'\n').unwrap();
            assert_eq!((given.units().collect::<Vec<_>>(), &given.file), (vec![unit], &None));
        }
    }
}
