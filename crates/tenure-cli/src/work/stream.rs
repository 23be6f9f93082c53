//! Units from standard input as they come: the first ones are run before the last ones are there.

use super::units::{Duplicates, Given, Line, Lines, collect, item};
use crate::exit::Failure;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::io::{BufReader, IsTerminal, Read};
use std::time::Duration;
use tokio::sync::mpsc;

/// Parts of a list that is being read. Only so many are read ahead: whoever writes the list waits for the store, too.
pub(crate) struct Stream(mpsc::Receiver<Result<Given, Failure>>);

impl Stream {
    /// Reads standard input, unless that is a terminal, in a thread. Of `most` units each is made one, across parts.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(separator: u8, most: usize) -> Result<Stream, Failure> {
        const AHEAD: usize = 4;
        let (parts, stream) = mpsc::channel(AHEAD);
        let read = move || {
            let input = std::io::stdin().lock();
            if !input.is_terminal() {
                let input = BufReader::with_capacity(64 << 10, input);
                let mut reader = Reader::new(input, separator, most);
                while let Some(part) = reader.next() {
                    let is_over = part.is_err();
                    // Nobody listens any more when the process is about to end.
                    if parts.blocking_send(part).is_err() || is_over {
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("units".to_owned()).spawn(read);
        thread.map_err(Failure::no_thread)?;
        Ok(Stream(stream))
    }

    /// The list, if it is over soon; otherwise its beginning, with a unit at least, and what is to come.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) async fn begin(mut self) -> Result<(Given, Option<Stream>), Failure> {
        const SOON: Duration = Duration::from_millis(300);
        /// Whoever writes nothing for so long has more to do than to write: the first units are begun meanwhile.
        const SILENT: Duration = Duration::from_millis(30);
        let mut given = Given::default();
        while given.is_empty() {
            match self.next().await {
                Some(part) => given.extend(part?),
                None => return Ok((given, None)),
            }
        }
        let mut soon = std::pin::pin!(tokio::time::sleep(SOON));
        loop {
            tokio::select! {
                biased;
                part = self.next() => match part {
                    Some(part) => given.extend(part?),
                    None => return Ok((given, None)),
                },
                () = &mut soon => return Ok((given, Some(self))),
                () = tokio::time::sleep(SILENT) => return Ok((given, Some(self))),
            }
        }
    }

    /// The next part; none at the end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Result<Given, Failure>> {
        self.0.recv().await
    }
}

struct Reader<R> {
    lines: Lines<BufReader<R>>,
    separator: u8,
    most: usize,
    /// What was read and not given yet.
    waiting: Vec<Line>,
    /// Those that are too few for one yet. Where a pipe is cut must make no difference to what becomes one.
    few: Given,
    /// Digests of all units so far: what has come before is left out, before several become one. So many bits of SHA-256 that no two units
    /// have the same.
    seen: BTreeSet<[u8; 16]>,
    /// Told once, at the end.
    duplicates: Duplicates,
}

impl<R: Read> Reader<R> {
    fn new(input: BufReader<R>, separator: u8, most: usize) -> Reader<R> {
        let (waiting, few, seen, duplicates) = Default::default();
        let lines = Lines::new(input, separator);
        Reader { lines, separator, most, waiting, few, seen, duplicates }
    }

    /// What there is to read now, in whole units; waits for some.
    fn next(&mut self) -> Option<Result<Given, Failure>> {
        /// So many are registered together.
        const LARGEST: usize = 4096;
        let mut is_over = false;
        loop {
            match self.lines.next() {
                Ok(None) => is_over = true,
                Ok(Some(line)) if line.unit.is_empty() => {}
                Ok(Some(line)) => self.waiting.push(line),
                Err(error) => {
                    let text = format!("units can't be read from standard input: {error}");
                    return Some(Err(Failure::usage(text)));
                }
            }
            // More of them have come already: then they are told together.
            let has_more = self.lines.input.buffer().contains(&self.separator);
            let are_few = self.waiting.is_empty() || self.waiting.len() < LARGEST && has_more;
            if are_few && !is_over {
                continue;
            }
            let part = std::mem::take(&mut self.waiting);
            match collect(part.into_iter(), item(self.separator), " of standard input") {
                Ok(given) => {
                    if let Some(given) = self.whole(given, is_over) {
                        return Some(given.batched(self.most));
                    }
                }
                Err(failure) => return Some(Err(failure)),
            }
            if is_over {
                return None;
            }
        }
    }

    /// What can be given now that this has come, if anything.
    fn whole(&mut self, mut given: Given, is_over: bool) -> Option<Given> {
        given.keep_new(|unit| self.seen.insert(digest(unit)));
        self.duplicates.extend(given.take_duplicates());
        if self.most > 1 {
            given.leave_out_newlines();
            let mut all = std::mem::take(&mut self.few);
            all.extend(given);
            if !is_over {
                let whole = all.take_whole(self.most);
                self.few = all;
                return whole;
            }
            given = all;
        }
        if is_over {
            given.add_duplicates(std::mem::take(&mut self.duplicates));
        }
        (!given.is_nothing()).then_some(given)
    }
}

fn digest(unit: &[u8]) -> [u8; 16] {
    let (mut short, all) = ([0; 16], Sha256::digest(unit));
    short.iter_mut().zip(all).for_each(|(short, byte)| *short = byte);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is given is there at once, and then nothing for a while.
    struct Chunks(Vec<&'static [u8]>);

    impl Read for Chunks {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            self.0.remove(0).read(buffer)
        }
    }

    fn parts(most: usize, chunks: &[&'static [u8]]) -> Vec<Vec<String>> {
        let input = BufReader::new(Chunks(chunks.to_vec()));
        let mut reader = Reader::new(input, b'\n', most);
        std::iter::from_fn(|| reader.next())
            .map(|part| {
                let named = part.unwrap().named("").unwrap();
                named.into_iter().map(|unit| unit.key.as_str().to_owned()).collect()
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    #[allow(clippy::disallowed_methods, reason = "time of the test runtime")]
    async fn the_first_units_do_not_wait_for_who_is_silent_nor_for_a_list_without_end() {
        const PAUSE: Duration = Duration::from_millis(20);
        let part = |name: &str| {
            let line = Line { number: 1, unit: name.as_bytes().to_vec(), bytes: name.len() };
            Ok(collect([line].into_iter(), "line", "").unwrap())
        };
        let (parts, stream) = mpsc::channel(4);
        parts.send(part("a")).await.unwrap();
        let began = tokio::time::Instant::now();
        let (given, rest) = Stream(stream).begin().await.unwrap();
        assert_eq!((given.units().len(), rest.is_some()), (1, true));
        assert!(began.elapsed() < 3 * PAUSE, "{:?}", began.elapsed());
        let (parts, stream) = mpsc::channel(4);
        tokio::spawn(async move {
            for n in 0.. {
                tokio::time::sleep(PAUSE).await;
                if parts.send(part(&n.to_string())).await.is_err() {
                    return;
                }
            }
        });
        let began = tokio::time::Instant::now();
        let (given, rest) = Stream(stream).begin().await.unwrap();
        assert!(given.units().len() > 5 && rest.is_some() && began.elapsed() < 20 * PAUSE);
        let (parts, stream) = mpsc::channel(4);
        parts.send(part("a")).await.unwrap();
        parts.send(part("b")).await.unwrap();
        drop(parts);
        let (given, rest) = Stream(stream).begin().await.unwrap();
        assert_eq!((given.units().len(), rest.is_some()), (2, false), "a list that is over is all of it");
    }

    #[test]
    fn what_has_come_is_a_part_and_half_a_line_waits_for_its_end() {
        assert_eq!(parts(1, &[b"b\na\nc", b"c\n", b"\n\nd"]), [vec!["b", "a"], vec!["cc"], vec!["d"]]);
        assert_eq!(parts(2, &[b"1\n2\n3\n", b"4\n5\n"]), [vec!["1\n2"], vec!["3\n4"], vec!["5"]]);
        assert_eq!(parts(1, &[b"\n"]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn what_becomes_one_is_the_same_wherever_a_pipe_is_cut() {
        // Twice in a row, again later, and a line that is no unit.
        let list: &'static [u8] = b"a\na\nb\nx\0x\nc\nd\na\nb\ne\nf\nf\ng\n";
        let whole = parts(2, &[list]).concat();
        assert_eq!(whole, ["a\nb", "c\nd", "e\nf", "g"]);
        for first in 1..list.len() {
            for second in first..list.len() {
                let cut = [&list[..first], &list[first..second], &list[second..]];
                let cut: Vec<_> = cut.into_iter().filter(|chunk| !chunk.is_empty()).collect();
                assert_eq!(parts(2, &cut).concat(), whole, "{first} {second}");
            }
        }
        let lines: Vec<&'static [u8]> = list.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(parts(3, &lines).concat(), ["a\nb\nc", "d\ne\nf", "g"]);
        assert_eq!(parts(2, &[b"a\n", b"a\n", b"a"]).concat(), ["a"]);
    }

    #[test]
    fn groups_that_end_for_want_of_room_are_the_same_wherever_a_pipe_is_cut() {
        let (long, other) = ("x".repeat(3000), "y".repeat(3000));
        let list: &'static [u8] = Vec::leak(format!("a\n{long}\n{other}\nb\nc\nd\n").into_bytes());
        let whole: Vec<usize> = parts(3, &[list]).concat().iter().map(String::len).collect();
        assert_eq!(whole.len(), 3, "{whole:?}");
        for cut in (1..list.len()).step_by(97) {
            let (first, second) = list.split_at(cut);
            let parts: Vec<usize> = parts(3, &[first, second]).concat().iter().map(String::len).collect();
            assert_eq!(parts, whole, "{cut}");
        }
    }

    #[test]
    fn duplicates_are_told_once_at_the_end() {
        let input = BufReader::new(Chunks(vec![b"a\nb\n", b"a\nc\nc\n", b"b\na\n"]));
        let mut reader = Reader::new(input, b'\n', 1);
        let parts: Vec<Given> = std::iter::from_fn(|| reader.next().map(Result::unwrap)).collect();
        let told: Vec<String> = parts.iter().filter_map(Given::told_duplicates).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("4 duplicates of standard input, run once: \"a\" (line 3, and before)")
                || told[0].starts_with("4 duplicates of standard input, run once: \"c\" (lines 4 and 5)"),
            "{told:?}"
        );
    }

    #[test]
    fn what_is_no_unit_is_told_though_no_unit_comes() {
        let input = BufReader::new(Chunks(vec![b"x\0x\n"]));
        let mut reader = Reader::new(input, b'\n', 2);
        let given = reader.next().unwrap().unwrap();
        assert_eq!((given.is_empty(), given.left_out()), (true, 1));
        assert!(reader.next().is_none());
    }
}
