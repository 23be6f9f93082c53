//! What the side file says: the keys that were written last of those that somebody may wait for, and in which versions. So whoever waits for another
//! key need not look.
//!
//! It has a mark, a count of all keys that were ever told, and the last of them, as many as fit. Whoever writes it does so in its turn, by one write; a
//! reader that finds a write half done sees it by the sum. A tilde in place of the mark tells of any key: programs of before write that, and whoever
//! writes without its turn.

use fnv::FnvHasher;
use std::fs::File;
use std::hash::Hasher as _;
use std::io;
use std::os::unix::fs::FileExt;
use tenure_core::op::Hint;
use tenure_core::{Key, Version};

const MARK: u8 = b'=';
/// The mark, the count, the sum, and how many bytes of keys follow.
const HEAD: usize = 26;
/// One page.
const MOST: usize = 4096;
/// Beside the length of a key that comes with a version.
const VERSIONED: u16 = 1 << 15;

/// Tells all watchers, in whatever process.
pub(crate) fn tell(side: &File, hints: &[Hint], is_turn: bool) {
    if !is_turn || note(side, hints).is_err() {
        // A hint that fails to go out costs a waiter one poll, so there is nothing to report.
        let _ = side.write_at(b"~", 0);
    }
}

fn note(side: &File, hints: &[Hint]) -> io::Result<()> {
    let page = page(side)?;
    // What others have told of any key, or left half done, is told on by a gap in the count.
    let before =
        SideNews::parse(&page).unwrap_or_else(|| SideNews { count: count(&page) + 1, hints: Vec::new() });
    let told = u64::try_from(hints.len()).unwrap_or(u64::MAX);
    let all = hints.iter().rev().chain(&before.hints);
    side.write_all_at(&written(before.count.saturating_add(told), all), 0)
}

/// All that is there, of what may be.
fn page(side: &File) -> io::Result<Vec<u8>> {
    let mut page = vec![0; MOST];
    let mut length = 0;
    while let Some(rest) = page.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match side.read_at(rest, length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    page.truncate(length);
    Ok(page)
}

fn count(page: &[u8]) -> u64 {
    page.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// What is said, the newest first.
#[derive(Debug, PartialEq, Eq)]
struct SideNews {
    count: u64,
    hints: Vec<Hint>,
}

impl SideNews {
    /// None if it is no news in the form that is known here, or not whole.
    fn parse(page: &[u8]) -> Option<SideNews> {
        let (head, rest) = page.split_at_checked(HEAD)?;
        let length = usize::from(u16::from_le_bytes(head.get(24..26)?.try_into().ok()?));
        let mut left = rest.get(..length)?;
        let count = count(head);
        if *head.first()? != MARK || head.get(16..24)? != sum(count, left).to_le_bytes() {
            return None;
        }
        let mut hints = Vec::new();
        while let Some((length, more)) = left.split_first_chunk::<2>() {
            let length = u16::from_le_bytes(*length);
            let (key, more) = more.split_at_checked(usize::from(length & !VERSIONED))?;
            let key = Key::from_bytes(key).ok()?;
            if length & VERSIONED == 0 {
                hints.push(Hint::Key(key));
                left = more;
            } else {
                let (version, more) = more.split_first_chunk::<16>()?;
                hints.push(Hint::Written(key, Version(u128::from_le_bytes(*version))));
                left = more;
            }
        }
        Some(SideNews { count, hints })
    }
}

/// As many of the hints, from the newest on, as fit.
fn written<'k>(count: u64, hints: impl Iterator<Item = &'k Hint>) -> Vec<u8> {
    let mut page = vec![0; HEAD];
    for hint in hints {
        let Some(bytes) = hint.key().map(|key| key.as_str().as_bytes()) else { break };
        let version = if let Hint::Written(_, version) = hint { Some(version.0.to_le_bytes()) } else { None };
        let Ok(length) = u16::try_from(bytes.len()) else { break };
        let version = version.as_ref().map_or(&[][..], |version| version);
        if page.len() + 2 + bytes.len() + version.len() > MOST {
            break;
        }
        let flag = if version.is_empty() { 0 } else { VERSIONED };
        page.extend((length | flag).to_le_bytes());
        page.extend(bytes);
        page.extend(version);
    }
    let length = u16::try_from(page.len() - HEAD).unwrap_or(0);
    let sum = sum(count, page.get(HEAD..).unwrap_or_default());
    let head =
        [&[MARK, 0, 0, 0, 0, 0, 0, 0][..], &count.to_le_bytes(), &sum.to_le_bytes(), &length.to_le_bytes()];
    for (place, byte) in page.iter_mut().zip(head.concat()) {
        *place = byte;
    }
    page
}

/// Tells a page from a half of one: FNV-1a.
fn sum(count: u64, keys: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(&count.to_le_bytes());
    hasher.write(keys);
    hasher.finish()
}

/// What is new since the last time.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct SideReader {
    seen: u64,
}

#[cfg(target_os = "linux")]
impl SideReader {
    /// One to whom nothing is new.
    pub(crate) fn of(side: &File) -> SideReader {
        SideReader { seen: page(side).map_or(0, |page| count(&page)) }
    }

    /// Of each key that was told; or of any, where that can't be said.
    pub(crate) fn hints(&mut self, side: &File) -> Vec<Hint> {
        let Some(news) = page(side).ok().and_then(|page| SideNews::parse(&page)) else {
            return vec![Hint::Any];
        };
        let new = news.count.checked_sub(std::mem::replace(&mut self.seen, news.count));
        match new.and_then(|new| news.hints.get(..usize::try_from(new).ok()?)) {
            Some(hints) => hints.iter().rev().cloned().collect(),
            None => vec![Hint::Any],
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    //! Plan: keys are told once, in their order, to each reader; more than fit, what older programs write, and what is half written, tell of any key.
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    /// Every other is of a version.
    fn keys(names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<Hint> {
        let hint = |name: String| {
            let key = Key::new(&name).unwrap();
            match name.as_bytes() {
                [.., last] if last % 2 == 0 => Hint::Written(key, Version(7 << 100 | u128::from(*last))),
                _ => Hint::Key(key),
            }
        };
        names.into_iter().map(|name| hint(name.as_ref().to_owned())).collect()
    }

    fn told(names: &[&str]) -> Vec<Hint> {
        keys(names)
    }

    #[test]
    fn the_sum_is_that_of_other_versions() {
        assert_eq!(sum(3, b"ab"), 0x8134_f0cf_a334_25e5);
    }

    #[test]
    fn each_reader_hears_of_each_key_once() {
        let side = tempfile::tempfile().unwrap();
        let mut early = SideReader::of(&side);
        // What stands there is no news of this kind.
        assert_eq!(early.hints(&side), [Hint::Any]);
        tell(&side, &keys(["a"]), true);
        assert_eq!(early.hints(&side), [Hint::Any], "something else may have been told before");
        let mut late = SideReader::of(&side);
        tell(&side, &keys(["b", "c"]), true);
        tell(&side, &keys(["d"]), true);
        assert_eq!(early.hints(&side), told(&["b", "c", "d"]));
        assert_eq!(early.hints(&side), []);
        tell(&side, &keys(["e"]), true);
        assert_eq!(late.hints(&side), told(&["b", "c", "d", "e"]));
        assert_eq!(early.hints(&side), told(&["e"]));
    }

    #[test]
    fn more_than_fit_are_any() {
        let side = tempfile::tempfile().unwrap();
        tell(&side, &keys(["a"]), true);
        let mut reader = SideReader::of(&side);
        let many = keys((0..40).map(|n| format!("{n:0>200}")));
        tell(&side, &many, true);
        assert_eq!(reader.hints(&side), [Hint::Any]);
        assert!(side.metadata().unwrap().len() <= MOST as u64);
        tell(&side, &keys(["b"]), true);
        assert_eq!(reader.hints(&side), told(&["b"]));
        let longest = "k".repeat(512);
        tell(&side, &keys([&longest]), true);
        assert_eq!(reader.hints(&side), told(&[&longest]));
    }

    #[test]
    fn what_others_write_and_what_is_half_written_is_any_also_to_who_reads_later() {
        let side = tempfile::tempfile().unwrap();
        tell(&side, &keys(["a"]), true);
        let (mut one, mut other) = (SideReader::of(&side), SideReader::of(&side));
        let spoil =
            [|side: &File| tell(side, &[], false), |side: &File| side.write_all_at(b"x", 27).unwrap()];
        for spoil in spoil {
            spoil(&side);
            assert_eq!(one.hints(&side), [Hint::Any]);
            assert_eq!(one.hints(&side), [Hint::Any], "it stands there still");
            tell(&side, &keys(["b"]), true);
            for reader in [&mut one, &mut other] {
                assert_eq!(reader.hints(&side), [Hint::Any]);
            }
            tell(&side, &keys(["c"]), true);
            for reader in [&mut one, &mut other] {
                assert_eq!(reader.hints(&side), told(&["c"]));
            }
        }
    }
}
