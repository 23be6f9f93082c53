//! Processes that work on one lease table: real ones of the Kinesis Client Library, and ours.

#![allow(dead_code, reason = "each test uses its part")]

use crate::belief::Said;
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
pub(crate) fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// What all processes of a table are told.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) endpoint: String,
    pub(crate) table: String,
    pub(crate) failover: Duration,
    pub(crate) steals: usize,
}

/// One process, and what it has said.
pub(crate) struct Party {
    pub(crate) id: String,
    process: Child,
    heard: Arc<(Mutex<Vec<Said>>, Condvar)>,
    listener: std::thread::JoinHandle<()>,
}

impl Party {
    /// A process of the Kinesis Client Library with one worker.
    pub(crate) fn kcl(id: &str, terms: &Terms) -> Party {
        let class_path = std::env::var("TENURE_TEST_KCL").expect(
            "TENURE_TEST_KCL does not say where the KCL is: `cargo xtask services up` fetches it and prints that",
        );
        let mut command = Command::new("java");
        // Quick to start and small, for there are several.
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]);
        command.args(["-classpath", &class_path, "KclWorker", &terms.endpoint, &terms.table]);
        command.arg(terms.failover.as_millis().to_string()).arg("1000").arg(terms.steals.to_string());
        command.args(["20", id]);
        // It has much to say about a logger that it lacks.
        Party::start(id, command.stderr(Stdio::null()))
    }

    /// A process that says what it takes and loses.
    pub(crate) fn start(id: &str, command: &mut Command) -> Party {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = process.stdout.take().unwrap();
        let heard: Arc<(Mutex<Vec<Said>>, Condvar)> = Arc::default();
        let told = Arc::clone(&heard);
        let listener = std::thread::spawn(move || {
            for said in BufReader::new(output).lines().map_while(Result::ok) {
                told.0.lock().unwrap().extend(Said::parse(&said));
                told.1.notify_all();
            }
        });
        Party { id: id.to_owned(), process, heard, listener }
    }

    /// Waits until it works.
    pub(crate) fn await_ready(&self) {
        let (said, changed) = &*self.heard;
        let silent = |said: &mut Vec<Said>| !said.contains(&Said::Ready);
        let waited = changed.wait_timeout_while(said.lock().unwrap(), PATIENCE, silent).unwrap().1;
        assert!(!waited.timed_out(), "{} does not start", self.id);
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> Vec<Said> {
        self.heard.0.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// The leases in which it believes by what it has said.
    pub(crate) fn held(&self) -> BTreeSet<String> {
        let mut held = BTreeSet::new();
        for said in self.heard.0.lock().unwrap().iter() {
            match said {
                Said::Ready => {}
                Said::Taken { key, .. } => drop(held.insert(key.clone())),
                Said::Lost { key, .. } => drop(held.remove(key)),
            }
        }
        held
    }

    /// Ends it without a warning, and tells what it said and until when it lived.
    pub(crate) fn kill(mut self) -> (Vec<Said>, u64) {
        // It has surely lived until now; afterwards, this process may be the one that stands still.
        let dead = monotonic();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.listener.join().unwrap();
        let said = self.heard.0.lock().unwrap().clone();
        (said, dead)
    }

    /// Lets it end as it would, and tells what it said and when it had ended.
    pub(crate) fn stop(mut self) -> (Vec<Said>, u64) {
        self.process.stdin.take().unwrap().write_all(b"stop\n").unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{}: {status}", self.id);
        let gone = monotonic();
        self.listener.join().unwrap();
        let said = self.heard.0.lock().unwrap().clone();
        (said, gone)
    }
}
