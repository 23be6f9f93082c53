//! `--joblog`: a line for each run, in the columns of GNU parallel's.

use crate::exit::Failure;
use crate::text::escaped;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What is told of a run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) number: usize,
    /// Both in Unix milliseconds.
    pub(crate) started: u64,
    pub(crate) finished: u64,
    pub(crate) exit: i64,
    pub(crate) signal: i32,
    /// Bytes of its output, where that was caught.
    pub(crate) received: u64,
    pub(crate) command: String,
}

#[derive(Debug)]
pub(crate) struct Joblog {
    file: File,
    path: PathBuf,
    host: String,
}

impl Joblog {
    pub(crate) fn open(path: &Path) -> Result<Joblog, Failure> {
        let failed = |error: std::io::Error| {
            let path = escaped(&path.to_string_lossy());
            Failure::usage(format!("--joblog {path}: can't be written: {error}; give another file"))
        };
        let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() == 0 {
            const HEADING: &str =
                "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";
            file.write_all(HEADING.as_bytes()).map_err(failed)?;
        }
        Ok(Joblog { file, path: path.to_owned(), host: tenure::clock::host_name() })
    }

    /// Adds a line, in one write: other processes of the job may write to the same file.
    pub(crate) fn add(&mut self, run: &Run) -> Result<(), String> {
        let Run { number, started, finished, exit, signal, received, command } = run;
        let (secs, millis) = (started / 1000, started % 1000);
        let took = finished.saturating_sub(*started) as f64 / 1e3;
        let (host, command) = (&self.host, escaped(command));
        let exit = if *signal == 0 { *exit } else { 0 };
        let line = format!(
            "{number}\t{host}\t{secs}.{millis:03}\t{took:10.3}\t0\t{received}\t{exit}\t{signal}\t{command}\n"
        );
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| format!("--joblog {}: {error}", escaped(&self.path.to_string_lossy())))
    }
}
