//! The units as they are given: read, checked one by one, each taken once.

use crate::config::UnitSource;
use crate::exit::Failure;
use crate::output;
use crate::text::{count, escaped, hex};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tenure::Key;

/// The units that were given, each once.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Each with the number of the argument, line or item where it stands first.
    units: BTreeMap<Vec<u8>, usize>,
    /// What such a number counts, and of what.
    item: &'static str,
    of: String,
    /// The file that they were read from, if that path leads to it again.
    pub(crate) file: Option<PathBuf>,
    /// What to tell the user.
    notes: Vec<String>,
    /// What is no unit, and why.
    bad: Vec<String>,
}

/// A unit of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) key: Key,
    /// Its name, where the key only has its digest.
    pub(crate) name: Option<Vec<u8>>,
}

impl Given {
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// In byte order, however they were given.
    pub(crate) fn units(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.units.keys().map(Vec::as_slice)
    }

    /// How many were left out, as nothing can be run for them.
    pub(crate) fn left_out(&self) -> usize {
        self.bad.len()
    }

    /// Adds what came after it.
    pub(crate) fn extend(&mut self, later: Given) {
        for (unit, number) in later.units {
            self.units.entry(unit).or_insert(number);
        }
        self.notes.extend(later.notes);
        self.bad.extend(later.bad);
    }

    /// Keeps only the units that are wanted.
    pub(super) fn keep(&mut self, mut is_wanted: impl FnMut(&[u8]) -> bool) {
        self.units.retain(|unit, _| is_wanted(unit));
    }

    /// All but the last ones, which are too few for a command that takes so many; they stay here. None if all are too few.
    pub(super) fn take_whole(&mut self, most: usize) -> Option<Given> {
        let mut numbers: Vec<usize> = self.units.values().copied().collect();
        numbers.sort_unstable();
        let whole = numbers.len() - numbers.len() % most.max(1);
        if whole == 0 {
            return None;
        }
        let rest = numbers.get(whole).copied().unwrap_or(usize::MAX);
        let all = std::mem::take(&mut self.units).into_iter();
        let (units, rest) = all.partition(|(_, number)| *number < rest);
        let rest = Given { units: rest, item: self.item, of: self.of.clone(), ..Given::default() };
        Some(Given { units, ..std::mem::replace(self, rest) })
    }

    /// Whether there is nothing to run, and nothing to tell.
    pub(super) fn is_nothing(&self) -> bool {
        self.units.is_empty() && self.notes.is_empty() && self.bad.is_empty()
    }

    /// Tells the user what there is to tell of them: what is given twice, and what is left out.
    pub(crate) fn tell(&self) {
        self.notes.iter().for_each(output::note);
        self.tell_left_out();
    }

    /// Tells the user what is left out.
    pub(crate) fn tell_left_out(&self) {
        self.bad.iter().for_each(|bad| output::note(format!("{bad}; it is left out")));
    }

    /// The same units, so many in each.
    ///
    /// # Errors
    /// One holds a newline, which is what stands between them then; or so many are too long together.
    pub(crate) fn batched(self, most: usize) -> Result<Given, Failure> {
        if most <= 1 {
            return Ok(self);
        }
        let mut numbered: Vec<(usize, &Vec<u8>)> =
            self.units.iter().map(|(unit, number)| (*number, unit)).collect();
        numbered.sort_unstable();
        if let Some((number, unit)) = numbered.iter().find(|(_, unit)| unit.contains(&b'\n')) {
            let (item, of, unit) = (self.item, &self.of, shown(unit));
            return Err(Failure::usage(format!(
                "{item} {number}{of}: the unit \"{unit}\" holds a newline, by which --max-args joins units; leave that out"
            )));
        }
        let join = |some: &[(usize, &Vec<u8>)]| {
            let units: Vec<&[u8]> = some.iter().map(|(_, unit)| unit.as_slice()).collect();
            let (joined, number) = (units.join(&b'\n'), some.first().map_or(0, |(number, _)| *number));
            if joined.len() > MOST_BYTES {
                let (item, of, more, bytes) = (self.item, &self.of, some.len() - 1, joined.len());
                return Err(Failure::usage(format!(
                    "{item} {number}{of} and the {more} after it are one unit of {bytes} bytes by --max-args {most}; the limit is {MOST_BYTES}: give a smaller one"
                )));
            }
            Ok((joined, number))
        };
        let units = numbered.chunks(most).map(join).collect::<Result<_, Failure>>()?;
        Ok(Given { units, ..self })
    }

    /// What was given of a job, in the order in which it was given.
    pub(crate) fn named(&self, prefix: &str) -> Result<Vec<Named>, Failure> {
        let mut numbered: Vec<(usize, &Vec<u8>)> =
            self.units.iter().map(|(unit, number)| (*number, unit)).collect();
        numbered.sort_unstable();
        numbered.into_iter().map(|(_, unit)| named(prefix, unit)).collect()
    }

    /// The keys of a fleet's units in byte order, each with `prefix` before the unit.
    pub(crate) fn keys(&self, prefix: &str) -> Result<Vec<Key>, Failure> {
        if let Some(bad) = self.bad.first() {
            return Err(Failure::usage(bad));
        }
        let key = |(unit, number): (&Vec<u8>, &usize)| {
            let at = format!("{} {number}{}", self.item, self.of);
            key_of(prefix, unit).map_err(|why| Failure::usage(format!("{at}: {why}")))
        };
        self.units.iter().map(key).collect()
    }
}

/// The longest name: as long as a path may be. A record's metadata have twice the room, and what is told of a run stands beside it.
const MOST_BYTES: usize = 4096;
/// What stands in a key for a unit that can't stand there itself: a digest of 256 bits.
const DIGEST: &str = "sha256-";

/// The unit of a job that is called so. Names that are not UTF-8, or are too long for a key, stand in the record.
pub(crate) fn named(prefix: &str, unit: &[u8]) -> Result<Named, Failure> {
    let is_fit = !std::str::from_utf8(unit).is_ok_and(is_digest);
    if let (true, Ok(key)) = (is_fit, key_of(prefix, unit)) {
        return Ok(Named { key, name: None });
    }
    let digest = hex(&Sha256::digest(unit));
    Ok(Named { key: Key::new(format!("{prefix}{DIGEST}{digest}"))?, name: Some(unit.to_vec()) })
}

/// Whether the end of a key is no name.
pub(crate) fn is_digest(unit: &str) -> bool {
    unit.strip_prefix(DIGEST)
        .is_some_and(|digest| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Reads all units from their source, to its end, and tells the user what there is to tell of them.
pub(crate) fn read(source: &UnitSource, separator: u8) -> Result<Given, Failure> {
    let given = take(source, separator)?;
    given.notes.iter().for_each(output::note);
    Ok(given)
}

fn take(source: &UnitSource, separator: u8) -> Result<Given, Failure> {
    match source {
        UnitSource::Join => Ok(Given::default()),
        UnitSource::Arguments(units) => {
            let units = units.iter().enumerate().map(|(n, unit)| (n + 1, unit.as_bytes()));
            collect(units, "argument", "")
        }
        UnitSource::Input => {
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
        UnitSource::File(path) => {
            let shown = escaped(&path.to_string_lossy());
            let text = std::fs::read(path)
                .map_err(|error| Failure::usage(format!("units can't be read from {shown}: {error}")))?;
            let given = collect(split(&text, separator), item(separator), &format!(" of {shown}"))?;
            Ok(Given { file: lasting(path), ..given })
        }
    }
}

/// The file that standard input is, if its path leads to it again. Nothing tells where the system has no such table of files.
pub(crate) fn input_file() -> Option<PathBuf> {
    lasting(Path::new("/proc/self/fd/0"))
}

/// What a pipe or a deleted file is called (`--from <(ls)`) names something else the next time.
fn lasting(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

pub(super) fn item(separator: u8) -> &'static str {
    if separator == b'\n' { "line" } else { "item" }
}

fn split(text: &[u8], separator: u8) -> impl Iterator<Item = (usize, &[u8])> {
    text.split(move |byte| *byte == separator)
        .enumerate()
        .map(|(n, unit)| (n + 1, unit))
        .filter(|(_, unit)| !unit.is_empty())
}

pub(super) fn collect<'a>(
    units: impl Iterator<Item = (usize, &'a [u8])>,
    item: &'static str,
    of: &str,
) -> Result<Given, Failure> {
    let mut first_seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut doubles: Vec<String> = Vec::new();
    let mut bad: Vec<String> = Vec::new();
    for (number, unit) in units {
        if let Err(why) = check(unit) {
            let why = format!("{item} {number}{of}: {why}");
            if of.is_empty() {
                // Typed by somebody who is there to type it again.
                return Err(Failure::usage(why));
            }
            bad.push(why);
        } else if let Some(first) = first_seen.get(unit) {
            doubles.push(format!("\"{}\" ({item}s {first} and {number})", shown(unit)));
        } else {
            first_seen.insert(unit.to_owned(), number);
        }
    }
    let mut notes = Vec::new();
    if !doubles.is_empty() {
        const SHOWN: usize = 5;
        let more = if doubles.len() > SHOWN { ", …" } else { "" };
        let listed = doubles.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        notes.push(format!("{}{of}, run once: {listed}{more}", count(doubles.len(), "duplicate")));
    }
    Ok(Given { units: first_seen, item, of: of.to_owned(), file: None, notes, bad })
}

/// Whether it can be a command's argument.
fn check(unit: &[u8]) -> Result<(), String> {
    if unit.is_empty() {
        return Err("a unit can't be empty".to_owned());
    }
    if unit.contains(&0) {
        return Err(format!("the unit \"{}\" holds a NUL, which no argument can", shown(unit)));
    }
    if unit.len() > MOST_BYTES {
        return Err(format!(
            "the unit \"{}\" has {} bytes; the limit is {MOST_BYTES}",
            shown(unit),
            unit.len()
        ));
    }
    Ok(())
}

fn key_of(prefix: &str, unit: &[u8]) -> Result<Key, String> {
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

/// A unit as text that is not mistaken for another's.
pub(crate) fn text_of(unit: &[u8]) -> String {
    std::str::from_utf8(unit).map_or_else(|_| unit.escape_ascii().to_string(), str::to_owned)
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
    fn a_bad_unit_of_a_fleet_is_named_with_its_line() {
        let error = keys(b"ok\n\xff\xfe\n").unwrap_err().to_string();
        assert!(
            error.starts_with("line 2 of f: ") && error.contains("\\xff") && error.contains("UTF-8"),
            "{error}"
        );
        let error = keys(b"a\0b\n").unwrap_err().to_string();
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

    #[test]
    fn what_is_no_unit_is_left_out_and_counted() {
        let long = "x".repeat(4097);
        let given = read_lines(format!("ok\na\0b\n{long}\n").as_bytes(), b'\n').unwrap();
        assert_eq!((given.units().count(), given.left_out()), (1, 2));
        assert!(
            given.bad[0].starts_with("line 2 of f: ")
                && given.bad[1].contains("4097 bytes; the limit is 4096")
        );
    }

    #[test]
    fn units_are_put_together_in_the_order_in_which_they_were_given() {
        let batched = |text: &[u8]| read_lines(text, 0).unwrap().batched(2);
        let given = batched(b"c\0a\0b\0").unwrap();
        let all: Vec<_> =
            given.named("p/").unwrap().into_iter().map(|unit| unit.key.as_str().to_owned()).collect();
        assert_eq!(all, ["p/c\na", "p/b"]);
        assert!(
            batched(b"c\nd\0a\0")
                .unwrap_err()
                .to_string()
                .contains("item 1 of f: the unit \"c\\nd\" holds a newline")
        );
    }

    #[test]
    fn units_that_are_one_have_no_more_bytes_together_than_one_may_have() {
        // With the newline between them 4096 bytes, and one more.
        let (half, rest) = ("x".repeat(2048), "y".repeat(2047));
        let batched = |text: String| read_lines(text.as_bytes(), b'\n').unwrap().batched(2);
        assert_eq!(batched(format!("{half}\n{rest}\nz\n")).unwrap().units().count(), 2);
        let told = batched(format!("a\nb\n{half}\n{rest}y\n")).unwrap_err().to_string();
        assert!(
            told.starts_with("line 3 of f and the 1 after it are one unit of 4097 bytes by --max-args 2"),
            "{told}"
        );
    }

    #[test]
    fn only_a_file_that_is_found_again_has_a_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        std::fs::write(&path, "a\n").unwrap();
        let given = read(&UnitSource::File(path.clone()), b'\n').unwrap();
        assert_eq!(given.file, Some(path.canonicalize().unwrap()));
        let gone = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (end, mut other) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut other, b"b\n").unwrap();
        drop(other);
        for (fd, unit) in
            [(std::os::fd::AsRawFd::as_raw_fd(&gone), "a"), (std::os::fd::AsRawFd::as_raw_fd(&end), "b")]
        {
            let given = read(&UnitSource::File(format!("/proc/self/fd/{fd}").into()), b'\n').unwrap();
            assert_eq!((given.units().collect::<Vec<_>>(), &given.file), (vec![unit.as_bytes()], &None));
        }
    }
}
