//! Processes that say which leases they take and lose.

use crate::belief::ProcessReport;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long a process may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time that every process of this machine shares, in ns.
#[allow(clippy::disallowed_methods, reason = "what several processes believed when is compared by one clock")]
#[must_use]
pub fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// One process, and what it has said.
pub struct Party {
    /// What it is called.
    pub id: String,
    process: Child,
    heard: Arc<(Mutex<Vec<ProcessReport>>, Condvar)>,
    listener: std::thread::JoinHandle<()>,
}

impl Party {
    /// A process that says what it takes and loses.
    #[must_use]
    pub fn start(id: &str, command: &mut Command) -> Party {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = process.stdout.take().unwrap();
        let heard: Arc<(Mutex<Vec<ProcessReport>>, Condvar)> = Arc::default();
        let told = Arc::clone(&heard);
        let listener = std::thread::spawn(move || {
            for said in BufReader::new(output).lines().map_while(Result::ok) {
                told.0.lock().unwrap().extend(ProcessReport::parse(&said));
                told.1.notify_all();
            }
        });
        Party { id: id.to_owned(), process, heard, listener }
    }

    /// Waits until it works.
    pub fn await_ready(&self) {
        let (said, changed) = &*self.heard;
        let silent = |said: &mut Vec<ProcessReport>| !said.contains(&ProcessReport::Ready);
        let waited = changed.wait_timeout_while(said.lock().unwrap(), PATIENCE, silent).unwrap().1;
        assert!(!waited.timed_out(), "{} does not start", self.id);
    }

    /// What it has said so far.
    #[must_use]
    pub fn said(&self) -> Vec<ProcessReport> {
        self.heard.0.lock().unwrap().clone()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// The leases in which it believes by what it has said.
    #[must_use]
    pub fn held(&self) -> BTreeSet<String> {
        let mut held = BTreeSet::new();
        for said in self.heard.0.lock().unwrap().iter() {
            match said {
                ProcessReport::Ready => {}
                ProcessReport::Taken { key, .. } => drop(held.insert(key.clone())),
                ProcessReport::Lost { key, .. } => drop(held.remove(key)),
            }
        }
        held
    }

    /// Ends it without a warning, and tells what it said and until when it lived.
    pub fn kill(mut self) -> (Vec<ProcessReport>, u64) {
        // It has surely lived until now; afterwards, this process may be the one that stands still.
        let dead = monotonic();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.listener.join().unwrap();
        let said = self.heard.0.lock().unwrap().clone();
        (said, dead)
    }

    /// Lets it end as it would, and tells what it said and when it had ended.
    pub fn stop(mut self) -> (Vec<ProcessReport>, u64) {
        self.process.stdin.take().unwrap().write_all(b"stop\n").unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{}: {status}", self.id);
        let gone = monotonic();
        self.listener.join().unwrap();
        let said = self.heard.0.lock().unwrap().clone();
        (said, gone)
    }
}
