//! Standard error by a thread of its own: lines, events and the bar. Whoever reads them may stand still, as a terminal does after Ctrl-S,
//! and leases are renewed by the thread that tells them.

use super::listener::{PATIENCE, lost_before};
use super::{clear_bar, draw_bar, in_turn_on_stderr, undisturbed_on};
use crate::exit::{Failure, INTERNAL};
use crate::pipe::{takes_more, write_within};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;

/// Events of the log that may wait: some 200 KB.
const MOST_EVENTS: usize = 1024;
/// The same for a file, which takes in all that it is given, but for one whose disk stands still: some 50 MB.
const MOST_EVENTS_OF_FILE: usize = 256 * MOST_EVENTS;
/// How often the bar is drawn.
const FRAME: Duration = Duration::from_millis(100);

/// What the bar shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BarFrame {
    pub(crate) length: u64,
    pub(crate) position: u64,
    pub(crate) message: String,
}

#[derive(Debug, Default)]
enum Bar {
    #[default]
    Absent,
    /// With what is to be drawn next, once that is known.
    Shown(Option<BarFrame>),
    /// It is to be taken off the screen.
    Ending,
}

/// What is to be written.
#[derive(Debug, Default)]
struct Todo {
    lines: VecDeque<String>,
    /// Lines that are not out, with the one that is being written.
    unwritten: usize,
    /// Lines that were lost since the last one that was taken in.
    lost: usize,
    bar: Bar,
    /// Grows with all that is done.
    done: u64,
}

impl Todo {
    /// Takes a line in, or loses it if `most` wait already. Once some are lost there has to be `room` for more than one: one notice tells of
    /// many.
    fn push(&mut self, line: String, most: usize, room: usize) {
        let most = if self.lost > 0 { most.saturating_sub(room) } else { most };
        if self.unwritten >= most {
            self.lost += 1;
            return;
        }
        self.tell_of_lost();
        self.add(line);
    }

    fn add(&mut self, line: String) {
        self.lines.push_back(line);
        self.unwritten += 1;
    }

    fn tell_of_lost(&mut self) {
        if self.lost > 0 {
            let notice = lost_before(std::mem::take(&mut self.lost));
            self.add(notice);
        }
    }

    /// The next line. What was lost is told at the latest once there is no other.
    fn next(&mut self) -> Option<String> {
        if self.lines.is_empty() {
            self.tell_of_lost();
        }
        self.lines.pop_front()
    }

    fn is_all_done(&self) -> bool {
        self.unwritten == 0 && !matches!(self.bar, Bar::Ending)
    }
}

#[derive(Debug, Default)]
struct Shared {
    todo: Mutex<Todo>,
    /// There is more to do.
    more: Condvar,
    /// Something is done.
    done: Condvar,
}

/// Lines on their way to standard error. Nothing here waits for whoever reads them, unless it says so.
#[derive(Debug)]
pub(super) struct StderrQueue {
    shared: Arc<Shared>,
    /// Events that may wait.
    most_events: usize,
}

impl StderrQueue {
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn start(to: &impl AsFd) -> Result<StderrQueue, Failure> {
        let failed = |error: std::io::Error| Failure::new(INTERNAL, error.to_string());
        // Not through its lock, which who writes a piece may hold for ever.
        let out = to.as_fd().try_clone_to_owned().map(File::from).map_err(failed)?;
        let is_file = out.metadata().is_ok_and(|out| out.is_file());
        let most_events = if is_file { MOST_EVENTS_OF_FILE } else { MOST_EVENTS };
        let shared = Arc::<Shared>::default();
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("stderr".to_owned());
        thread.spawn(move || serving.serve(&out)).map_err(Failure::no_thread)?;
        Ok(StderrQueue { shared, most_events })
    }

    /// A line for people.
    pub(super) fn tell(&self, line: String) {
        // There is room for what people are told where events have taken all of theirs.
        self.push(line, 2 * self.most_events);
    }

    fn push(&self, line: String, most: usize) {
        self.shared.todo().push(line, most, self.most_events / 2);
        self.shared.more.notify_one();
    }

    /// An event of the log.
    pub(super) fn log(&self, event: String) {
        self.push(event, self.most_events);
    }

    /// From now on there is a bar.
    pub(super) fn begin_bar(&self) {
        self.shared.todo().bar = Bar::Shown(None);
    }

    /// The bar shows this from its next frame on.
    pub(super) fn show(&self, frame: BarFrame) {
        let mut todo = self.shared.todo();
        if let Bar::Shown(shown) = &mut todo.bar {
            // Whoever waits for the next frame knows when that is.
            if shown.replace(frame).is_none() {
                self.shared.more.notify_one();
            }
        }
    }

    /// Takes the bar off the screen, and waits for that, but not for a terminal that stands still.
    pub(super) fn end_bar(&self) {
        let mut todo = self.shared.todo();
        if matches!(todo.bar, Bar::Shown(_)) {
            todo.bar = Bar::Ending;
            self.shared.more.notify_one();
            let is_there = |todo: &mut Todo| matches!(todo.bar, Bar::Ending);
            let _may_stand_still = self.shared.done.wait_timeout_while(todo, PATIENCE, is_there);
        }
    }

    /// Waits until all is out, for as long as its reader goes on to read, within limits.
    pub(super) fn finish(&self) {
        const LONGEST: Duration = Duration::from_secs(5);
        let end = boottime() + LONGEST;
        let mut todo = self.shared.todo();
        while !todo.is_all_done() && boottime() < end {
            let before = todo.done;
            let waited = self.shared.done.wait_timeout_while(todo, PATIENCE, |todo| todo.done == before);
            let (now, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                return;
            }
            todo = now;
        }
    }
}

impl Shared {
    fn todo(&self) -> MutexGuard<'_, Todo> {
        self.todo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and draws, for as long as the process lives.
    fn serve(&self, out: &File) {
        let mut next_frame = Duration::ZERO;
        let mut todo = self.todo();
        loop {
            let now = boottime();
            if let Some(line) = todo.next() {
                drop(todo);
                write(out, &line);
                todo = self.todo();
                todo.unwritten -= 1;
            } else if matches!(todo.bar, Bar::Ending) {
                drop(todo);
                clear_bar();
                todo = self.todo();
                todo.bar = Bar::Absent;
            } else if let Bar::Shown(Some(frame)) = &todo.bar
                && now >= next_frame
            {
                let frame = frame.clone();
                drop(todo);
                // It is drawn another time where that would have to be waited for, as outputs wait for it. In the background it would be drawn
                // over what its user types.
                if takes_more(out, Duration::ZERO) && is_in_front(out) {
                    draw_bar(&frame);
                }
                next_frame = now + FRAME;
                todo = self.todo();
            } else {
                todo = match &todo.bar {
                    Bar::Shown(Some(_)) => {
                        let waited = self.more.wait_timeout(todo, next_frame.saturating_sub(now));
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                    _ => self.more.wait(todo).unwrap_or_else(PoisonError::into_inner),
                };
                continue;
            }
            todo.done += 1;
            self.done.notify_all();
        }
    }
}

/// Whether this process, and no other job of its terminal, is what its user types to.
fn is_in_front(out: &File) -> bool {
    // Of a terminal that is not this session's, nobody is in front.
    tcgetpgrp(out).is_ok_and(|front| front == getpgrp())
}

/// Writes a line, however long that takes. That nobody can read it is no reason to fail.
fn write(out: &File, line: &str) {
    const LONG: Duration = Duration::from_secs(3600);
    // Before it is our turn: who does not read this may well read pieces.
    while !takes_more(out, LONG) {}
    let _unread = in_turn_on_stderr(|before| {
        let line = format!("{before}{line}");
        undisturbed_on(out, |_| write_within(out, line.as_bytes(), LONG))
    });
}

#[cfg(test)]
mod tests {
    //! Plan: who tells something waits for no reader, and what is too much is lost and counted; a bar that can't be taken off the screen is
    //! waited for a moment, and so is what can't be written in the end.
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn a_file_loses_nothing_of_a_burst() {
        const TOLD: usize = 20 * MOST_EVENTS;
        let file = tempfile::NamedTempFile::new().unwrap();
        let queue = StderrQueue::start(file.as_file()).unwrap();
        (0..TOLD).for_each(|n| queue.log(format!("{n}\n")));
        queue.tell("for people\n".to_owned());
        while !queue.shared.todo().is_all_done() {
            queue.finish();
        }
        let written = std::fs::read_to_string(file.path()).unwrap();
        let expected: String = (0..TOLD).map(|n| format!("{n}\n")).collect();
        assert!(written == expected + "for people\n", "{} lines", written.lines().count());
    }

    #[test]
    fn what_waits_for_its_reader_is_bounded_and_what_is_lost_is_told() {
        const TOLD: usize = 3 * MOST_EVENTS;
        let (reader, writer) = std::io::pipe().unwrap();
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let queue = StderrQueue::start(&writer).unwrap();
        let event = format!("{}\n", "x".repeat(1023));
        // The second time, no other line comes after those that are lost.
        for more in [Some("for people"), None] {
            (0..TOLD).for_each(|_| queue.log(event.clone()));
            more.into_iter().for_each(|line| queue.tell(format!("{line}\n")));
            queue.begin_bar();
            queue.end_bar();
            queue.finish();
            let mut read = 0;
            let notice = loop {
                match lines.next().unwrap() {
                    line if line.starts_with('x') => read += 1,
                    line => break line,
                }
            };
            // A pipe holds 64 of them. The line before may still count as unwritten, though it is read already.
            assert!((MOST_EVENTS - 1..MOST_EVENTS + 100).contains(&read), "{read}");
            assert_eq!(format!("{notice}\n"), lost_before(TOLD - read));
            assert_eq!(more.map(|_| lines.next().unwrap()).as_deref(), more);
        }
    }
}
