//! The units as they are given: read, checked one by one, each taken once.

mod duplicates;
mod lines;
mod name;

use crate::config::UnitSource;
use crate::exit::Failure;
pub(crate) use crate::keys::{hex_of, is_digest, text_of};
use crate::output;
use crate::text::escaped;
pub(super) use duplicates::Duplicates;
pub(super) use lines::{Line, Lines};
use name::{MOST_BYTES, check, key_of, shown};
pub(crate) use name::{Named, named};
use nix::sys::stat::{FileStat, SFlag, fstat};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal};
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
    duplicates: Duplicates,
    /// What is no unit, and why.
    bad: Vec<String>,
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
        if self.of.is_empty() {
            (self.item, self.of) = (later.item, later.of);
        }
        self.duplicates.extend(later.duplicates);
        self.bad.extend(later.bad);
    }

    /// Keeps only the units that are new. The others are duplicates.
    pub(super) fn keep_new(&mut self, mut is_new: impl FnMut(&[u8]) -> bool) {
        let (item, duplicates) = (self.item, &mut self.duplicates);
        self.units.retain(|unit, number| {
            let is_new = is_new(unit);
            if !is_new {
                duplicates.add(|| format!("\"{}\" ({item} {number}, and before)", shown(unit)));
            }
            is_new
        });
    }

    /// What was given more than once; nothing of that is left here.
    pub(super) fn take_duplicates(&mut self) -> Duplicates {
        std::mem::take(&mut self.duplicates)
    }

    pub(super) fn add_duplicates(&mut self, more: Duplicates) {
        self.duplicates.extend(more);
    }

    /// All but the last ones, which may be too few for a command that takes so many; they stay here. None if all may be too few.
    pub(super) fn take_whole(&mut self, most: usize) -> Option<Given> {
        let numbered = self.numbered();
        let ends = ends(&numbered, most);
        let start = ends.len().checked_sub(2).and_then(|last| ends.get(last)).copied().unwrap_or_default();
        let whole = if numbered.len() - start == most { numbered.len() } else { start };
        if whole == 0 {
            return None;
        }
        let rest = numbered.get(whole).map_or(usize::MAX, |(number, _)| *number);
        let all = std::mem::take(&mut self.units).into_iter();
        let (units, rest) = all.partition(|(_, number)| *number < rest);
        let rest = Given { units: rest, item: self.item, of: self.of.clone(), ..Given::default() };
        Some(Given { units, ..std::mem::replace(self, rest) })
    }

    /// Whether there is nothing to run, and nothing to tell.
    pub(super) fn is_nothing(&self) -> bool {
        self.units.is_empty() && self.duplicates.is_empty() && self.bad.is_empty()
    }

    /// Tells the user what there is to tell of them: what is given twice, and what is left out.
    pub(crate) fn tell(&self) {
        self.tell_duplicates();
        self.tell_left_out();
    }

    fn tell_duplicates(&self) {
        self.told_duplicates().iter().for_each(output::tell);
    }

    pub(super) fn told_duplicates(&self) -> Option<String> {
        self.duplicates.note(&self.of)
    }

    /// Tells the user what is left out.
    pub(crate) fn tell_left_out(&self) {
        self.bad.iter().for_each(|bad| output::note(format!("{bad}; it is left out")));
    }

    /// The same units, so many in each, or as many as there is room for. One that holds a newline, which is what stands between them then, is
    /// left out.
    ///
    /// # Errors
    /// Such a one was typed.
    pub(crate) fn batched(mut self, most: usize) -> Result<Given, Failure> {
        if most <= 1 {
            return Ok(self);
        }
        let is_typed = self.of.is_empty();
        let told = self.leave_out_newlines();
        if let Some(bad) = told.filter(|_| is_typed) {
            return Err(Failure::usage(format!("{bad}; leave that out")));
        }
        let numbered = self.numbered();
        let (mut start, mut units) = (0, BTreeMap::new());
        for end in ends(&numbered, most) {
            let some = numbered.get(start..end).unwrap_or_default();
            let joined: Vec<&[u8]> = some.iter().map(|(_, unit)| *unit).collect();
            units.insert(joined.join(&b'\n'), some.first().map_or(0, |(number, _)| *number));
            start = end;
        }
        Ok(Given { units, ..self })
    }

    /// Leaves out what can't be one of several units of a command, and says what the first one of it was.
    pub(super) fn leave_out_newlines(&mut self) -> Option<String> {
        let (item, of) = (self.item, &self.of);
        let odd = self.units.iter().filter(|(unit, _)| unit.contains(&b'\n'));
        let told: Vec<String> = odd
            .map(|(unit, number)| {
                let unit = shown(unit);
                format!("{item} {number}{of}: the unit \"{unit}\" holds a newline, by which --max-args joins units")
            })
            .collect();
        self.units.retain(|unit, _| !unit.contains(&b'\n'));
        let first = told.first().cloned();
        self.bad.extend(told);
        first
    }

    /// In the order in which they were given.
    fn numbered(&self) -> Vec<(usize, &[u8])> {
        let mut numbered: Vec<_> =
            self.units.iter().map(|(unit, number)| (*number, unit.as_slice())).collect();
        numbered.sort_unstable();
        numbered
    }

    /// What was given of a job, in the order in which it was given.
    pub(crate) fn named(&self, prefix: &str) -> Result<Vec<Named>, Failure> {
        self.numbered().into_iter().map(|(_, unit)| named(prefix, unit)).collect()
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

/// Behind which units a command has all of its own: so many, or as many as have room in one name with what stands between them. That depends on
/// what was given before it alone, so all processes make the same of the same list.
fn ends(numbered: &[(usize, &[u8])], most: usize) -> Vec<usize> {
    let (mut ends, mut held, mut bytes) = (Vec::new(), 0, 0);
    for (n, (_, unit)) in numbered.iter().enumerate() {
        if held == most || held > 0 && bytes + 1 + unit.len() > MOST_BYTES {
            ends.push(n);
            (held, bytes) = (0, 0);
        }
        bytes += usize::from(held > 0) + unit.len();
        held += 1;
    }
    ends.extend((held > 0).then_some(numbered.len()));
    ends
}

/// Reads all units from their source, to its end, and tells the user what there is to tell of them.
pub(crate) fn read(source: &UnitSource, separator: u8) -> Result<Given, Failure> {
    let given = take(source, separator)?;
    given.tell_duplicates();
    Ok(given)
}

fn take(source: &UnitSource, separator: u8) -> Result<Given, Failure> {
    match source {
        UnitSource::Join => Ok(Given::default()),
        UnitSource::Arguments(units) => {
            let units = units.iter().enumerate().map(|(n, unit)| {
                let unit = unit.as_bytes().to_owned();
                Line { number: n + 1, bytes: unit.len(), unit }
            });
            collect(units, "argument", "")
        }
        UnitSource::Input => {
            let input = std::io::stdin().lock();
            let of = " of standard input";
            if input.is_terminal() {
                return Ok(Given { item: item(separator), of: of.to_owned(), ..Given::default() });
            }
            collect_lines(input, separator, of).map_err(|error| {
                Failure::usage(format!("units can't be read from standard input: {error}"))
            })?
        }
        UnitSource::File(path) => {
            let shown = escaped(&path.to_string_lossy());
            let read = std::fs::File::open(path).and_then(|file| {
                collect_lines(BufReader::with_capacity(64 << 10, file), separator, &format!(" of {shown}"))
            });
            let given =
                read.map_err(|error| Failure::usage(format!("units can't be read from {shown}: {error}")))??;
            Ok(Given { file: lasting(path), ..given })
        }
    }
}

/// Whether standard input may be a list: no terminal, and not the device that is always empty.
pub(crate) fn is_input_a_list() -> bool {
    let is_device =
        |input: FileStat| SFlag::from_bits_truncate(input.st_mode) & SFlag::S_IFMT == SFlag::S_IFCHR;
    !fstat(std::io::stdin()).is_ok_and(is_device)
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

pub(super) fn collect(
    lines: impl Iterator<Item = Line>,
    item: &'static str,
    of: &str,
) -> Result<Given, Failure> {
    let mut collector = UnitCollector::new(item, of);
    for line in lines {
        collector.add(line)?;
    }
    Ok(collector.given)
}

/// All of them, to the end; empty ones are skipped.
fn collect_lines(input: impl BufRead, separator: u8, of: &str) -> std::io::Result<Result<Given, Failure>> {
    let (mut lines, mut collector) = (Lines::new(input, separator), UnitCollector::new(item(separator), of));
    while let Some(line) = lines.next()? {
        if !line.unit.is_empty()
            && let Err(failure) = collector.add(line)
        {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(collector.given))
}

/// Puts together what is given.
struct UnitCollector {
    given: Given,
}

impl UnitCollector {
    fn new(item: &'static str, of: &str) -> UnitCollector {
        UnitCollector { given: Given { item, of: of.to_owned(), ..Given::default() } }
    }

    fn add(&mut self, Line { number, unit, bytes }: Line) -> Result<(), Failure> {
        let Given { units, item, of, duplicates, bad, .. } = &mut self.given;
        if let Err(why) = check(&unit, bytes) {
            let why = format!("{item} {number}{of}: {why}");
            if of.is_empty() {
                // Typed by somebody who is there to type it again.
                return Err(Failure::usage(why));
            }
            bad.push(why);
        } else if let Some(first) = units.get(&unit) {
            duplicates.add(|| format!("\"{}\" ({item}s {first} and {number})", shown(&unit)));
        } else {
            units.insert(unit, number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_lines(text: &[u8], separator: u8) -> Result<Given, Failure> {
        collect_lines(text, separator, " of f").unwrap()
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
        let told = given.duplicates.note(&given.of).unwrap();
        assert_eq!(told, "1 duplicate of f, run once: \"b\" (lines 1 and 4)");
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
        let given = batched(b"c\nd\0a\0b\0").unwrap();
        assert_eq!((given.units().collect::<Vec<_>>(), given.left_out()), (vec![b"a\nb".as_slice()], 1));
        assert!(
            given.bad[0].starts_with("item 1 of f: the unit \"c\\nd\" holds a newline"),
            "{:?}",
            given.bad
        );
        let typed = [Line { number: 1, unit: b"c\nd".to_vec(), bytes: 3 }].into_iter();
        let told = collect(typed, "argument", "").unwrap().batched(2).unwrap_err().to_string();
        assert!(told.starts_with("argument 1: ") && told.ends_with("leave that out"), "{told}");
    }

    #[test]
    fn units_that_are_one_have_no_more_bytes_together_than_one_may_have() {
        // With the newline between them 4096 bytes, and one more.
        let (half, rest) = ("x".repeat(2048), "y".repeat(2047));
        let batched = |text: String| read_lines(text.as_bytes(), b'\n').unwrap().batched(3).unwrap();
        let sizes = |text: String| batched(text).named("").unwrap().iter().map(bytes).collect::<Vec<_>>();
        fn bytes(unit: &Named) -> usize {
            unit.name.as_ref().map_or(unit.key.as_str().len(), Vec::len)
        }
        assert_eq!(sizes(format!("{half}\n{rest}\nz\n")), [4096, 1]);
        assert_eq!(sizes(format!("a\nb\nc\n{half}\n{rest}y\nz\n")), [5, 2048, 2050], "a group ends sooner");
        assert_eq!(batched(format!("{half}\n{rest}y\n")).left_out(), 0);
    }

    #[test]
    fn a_line_without_end_is_counted_and_not_kept() {
        let mut long = vec!["é".as_bytes(); 1_000_000].concat();
        long.extend(b"\nb");
        let mut lines = Lines::new(BufReader::new(long.as_slice()), b'\n');
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.number, line.unit.len(), line.bytes), (1, MOST_BYTES + 1, 2_000_000));
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.number, line.unit.as_slice(), line.bytes), (2, b"b".as_slice(), 1));
        assert!(lines.next().unwrap().is_none());
        let given = read_lines(&long, b'\n').unwrap();
        assert!(given.bad[0].contains("ééé") && given.bad[0].contains("2000000 bytes"), "{:?}", given.bad);
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
