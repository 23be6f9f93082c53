//! Programs that are stopped at random for a moment, as a busy or suspended machine stops them.
//!
//! Only the programs of tests are stopped, never their children: tests stop some of these themselves, and one more signal would wake them.

use std::hash::{BuildHasher, RandomState};
use std::process::Command;
use std::time::Duration;

/// From the end of one stop to the next one, and a stop's length, in milliseconds.
const BETWEEN: std::ops::Range<u64> = 200..2_000;
const LENGTH: std::ops::Range<u64> = 10..500;

/// Times are those since the start.
#[derive(Debug)]
pub(crate) struct Stops {
    stopped: Option<u32>,
    next: Duration,
    random: fn() -> u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Stop,
    Continue,
}

impl Default for Stops {
    fn default() -> Self {
        // Each state has keys of its own.
        Stops { stopped: None, next: Duration::ZERO, random: || RandomState::new().hash_one(()) }
    }
}

impl Stops {
    /// What is due now to one of these processes, if anything is.
    pub(crate) fn due(&mut self, now: Duration, running: &[u32]) -> Option<(Signal, u32)> {
        if now < self.next {
            return None;
        }
        if let Some(process) = self.stopped.take() {
            self.next = now + self.within(&BETWEEN);
            return running.contains(&process).then_some((Signal::Continue, process));
        }
        let count = u64::try_from(running.len()).ok().filter(|count| *count > 0)?;
        let which = usize::try_from((self.random)() % count).ok()?;
        self.stopped = running.get(which).copied();
        self.next = now + self.within(&LENGTH);
        Some((Signal::Stop, self.stopped?))
    }

    fn within(&self, range: &std::ops::Range<u64>) -> Duration {
        Duration::from_millis(range.start + (self.random)() % (range.end - range.start))
    }
}

/// Sends it. A process that has just ended needs none.
pub(crate) fn send(signal: Signal, process: u32) {
    let name = match signal {
        Signal::Stop => "-STOP",
        Signal::Continue => "-CONT",
    };
    let sent = Command::new("kill").args([name, &process.to_string()]).status();
    if let Err(error) = sent {
        println!("kill {name} {process}: {error}");
    }
}

#[cfg(test)]
mod tests {
    //! Plan: one process at a time is stopped and goes on, with pauses; one that has ended is left alone; nobody runs.
    use super::*;

    #[test]
    fn one_at_a_time_is_stopped_and_goes_on() {
        let mut stops = Stops { random: || 7, ..Stops::default() };
        let at = Duration::from_millis;
        assert_eq!(stops.due(at(0), &[]), None);
        assert_eq!(stops.due(at(1), &[3, 4]), Some((Signal::Stop, 4)));
        assert_eq!(stops.due(at(17), &[3, 4]), None);
        assert_eq!(stops.due(at(18), &[4, 3]), Some((Signal::Continue, 4)));
        assert_eq!(stops.due(at(224), &[3]), None);
        assert_eq!(stops.due(at(225), &[3]), Some((Signal::Stop, 3)));
        assert_eq!(stops.due(at(300), &[5]), None, "it has ended");
        assert_eq!(stops.due(at(600), &[5]), Some((Signal::Stop, 5)));
    }

    #[test]
    fn lengths_and_pauses_are_within_bounds() {
        let stops = Stops::default();
        let lengths: Vec<Duration> = (0..1_000).map(|_| stops.within(&LENGTH)).collect();
        assert!(lengths.iter().all(|length| (10..500).contains(&length.as_millis())));
        assert!(lengths.iter().any(|length| *length != lengths[0]));
    }
}
