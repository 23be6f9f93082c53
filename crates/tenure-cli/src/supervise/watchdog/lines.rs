//! What a watchdog is told by the pipe from tenure, line by line.
//!
//! | line | says |
//! |---|---|
//! | `?` and `!` | a command is about to be started; it was, or was not |
//! | `+PGID` and `-PGID` | this process group is to be watched; it is gone |
//! | `=PID START` | this process has lost its parent, and is tenure's child now |
//! | `deadline NANOS` | until when the lease is good, of CLOCK_BOOTTIME |
//! | `first` and `after PID` | whose turn it is |
//! | `late` | this watchdog was started after commands were |
//! | `will JSON` | what to give back when tenure is dead, and nothing of all that is alive |
//! | `bye` | tenure ends, and has seen to all of it |

use super::super::will::Will;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::time::Duration;

/// One line.
pub(super) enum WatchdogLine {
    Starts,
    HasStarted,
    Group(i32),
    GroupGone(i32),
    Adopted(Option<(i32, u64)>),
    Deadline(Duration),
    First,
    After(i32),
    Late,
    Will(Option<Will>),
    Bye,
}

impl WatchdogLine {
    /// None of a line that says nothing to this version.
    fn of(line: &str) -> Option<WatchdogLine> {
        let number = |text: &str| text.parse::<i32>().ok();
        match line {
            "?" => return Some(WatchdogLine::Starts),
            "!" => return Some(WatchdogLine::HasStarted),
            "first" => return Some(WatchdogLine::First),
            "late" => return Some(WatchdogLine::Late),
            "bye" => return Some(WatchdogLine::Bye),
            _ => {}
        }
        if let Some(group) = line.strip_prefix('+') {
            number(group).map(WatchdogLine::Group)
        } else if let Some(group) = line.strip_prefix('-') {
            number(group).map(WatchdogLine::GroupGone)
        } else if let Some(process) = line.strip_prefix('=') {
            let process =
                process.split_once(' ').and_then(|(pid, start)| Some((number(pid)?, start.parse().ok()?)));
            Some(WatchdogLine::Adopted(process))
        } else if let Some(nanos) = line.strip_prefix("deadline ") {
            nanos.parse().ok().map(|nanos| WatchdogLine::Deadline(Duration::from_nanos(nanos)))
        } else if let Some(first) = line.strip_prefix("after ") {
            number(first).map(WatchdogLine::After)
        } else {
            line.strip_prefix("will ").map(|will| WatchdogLine::Will(Will::read(will)))
        }
    }
}

/// The pipe's end, and what has come of a line whose rest is on its way.
pub(super) struct LineReader {
    input: File,
    text: Vec<u8>,
}

impl LineReader {
    pub(super) fn new(input: File) -> LineReader {
        LineReader { input, text: Vec::new() }
    }

    /// Waits until there is something to read; false when `within` is over.
    pub(super) fn is_readable(&self, within: Option<Duration>) -> bool {
        polled(&self.input, PollFlags::POLLIN, within)
    }

    /// Waits for so long, or until the other end is closed.
    pub(super) fn wait_for_end(&self, within: Duration) {
        let _is_over = polled(&self.input, PollFlags::empty(), Some(within));
    }

    /// The lines that have come. None if the other end is closed.
    pub(super) fn read(&mut self) -> Option<Vec<WatchdogLine>> {
        let mut buffer = [0; 4096];
        match self.input.read(&mut buffer) {
            Ok(0) => return None,
            Ok(n) => self.text.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Some(Vec::new()),
            Err(_) => return None,
        }
        let end = self.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines: Vec<u8> = self.text.drain(..end).collect();
        Some(String::from_utf8_lossy(&lines).lines().filter_map(WatchdogLine::of).collect())
    }

    /// Whether all that was read was whole lines.
    pub(super) fn is_at_end_of_line(&self) -> bool {
        self.text.is_empty()
    }
}

/// Waits until there is one of these, or the other end is closed; false when `within` is over.
fn polled(input: &impl AsFd, what: PollFlags, within: Option<Duration>) -> bool {
    let timeout = match within {
        Some(Duration::ZERO) => PollTimeout::ZERO,
        // Rounded up, so that a wait is never over a little before its time.
        Some(within) => PollTimeout::try_from(within.as_millis() + 1).unwrap_or(PollTimeout::MAX),
        None => PollTimeout::NONE,
    };
    let mut fds = [PollFd::new(input.as_fd(), what)];
    poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
}
