//! `--joblog`: a line for each run, in the columns of GNU parallel's. A thread of its own opens the file and writes it: that may be a pipe that
//! nobody reads, or lie on a disk that stands still, and leases are renewed by the thread that tells of runs.

use crate::exit::Failure;
use crate::files;
use crate::output;
use crate::text::{count, escaped, escaped_bytes};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind::{QuotaExceeded, StorageFull};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use tokio::sync::oneshot;

/// Lines that may wait: some 20 MB.
const MOST: usize = 65_536;

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
    pub(crate) command: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Joblog {
    lines: Sender<Vec<u8>>,
    /// Lines that are not out, and won't be where the file can't be written.
    unwritten: Arc<AtomicUsize>,
    /// Lines that were not taken in.
    lost: usize,
    over: oneshot::Receiver<()>,
    /// The option, as it was typed.
    shown: String,
    host: String,
}

impl Joblog {
    /// # Errors
    /// The file can't be written. That it can't be opened yet is no error: lines wait.
    pub(crate) fn open(path: &Path) -> Result<Joblog, Failure> {
        const SOON: Duration = Duration::from_secs(1);
        let shown = format!("--joblog {}", escaped(&path.to_string_lossy()));
        let (tell_opened, opened) = mpsc::channel();
        let (lines, to_write) = mpsc::channel();
        let (told, over) = oneshot::channel();
        let unwritten = Arc::<AtomicUsize>::default();
        let write = {
            let (path, shown, unwritten) = (path.to_owned(), shown.clone(), Arc::clone(&unwritten));
            move || {
                let begun = begin(&path);
                let trouble = begun.as_ref().err().map(|error| format!("{shown}: can't be written: {error}"));
                // Whoever waits for it tells it. Who has gone on has to be told otherwise.
                if let Err(unheard) = tell_opened.send(trouble) {
                    unheard.0.into_iter().for_each(output::note);
                }
                let waits =
                    |error: &io::Error| output::note(format!("{shown}: {error}; lines wait for room"));
                if let Ok(mut file) = begun
                    && let Err(error) = go_on(&mut file, &to_write, &unwritten, waits)
                {
                    output::note(format!("{shown}: {error}; it is not gone on with"));
                }
                let _unheard = told.send(());
            }
        };
        let thread = std::thread::Builder::new().name("joblog".to_owned());
        thread.spawn(write).map_err(Failure::no_thread)?;
        match opened.recv_timeout(SOON) {
            Ok(None) => {}
            Ok(Some(trouble)) => return Err(Failure::usage(format!("{trouble}; give another file"))),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                // What goes wrong from now on is told by the thread.
                drop(opened);
                output::note(format!(
                    "{shown}: can't be opened yet; lines wait until it can, as a pipe once it is read"
                ));
            }
        }
        Ok(Joblog { lines, unwritten, lost: 0, over, shown, host: tenure::clock::host_name() })
    }

    /// Adds a line, and does not wait for that.
    pub(crate) fn add(&mut self, run: &Run) {
        let Run { number, started, finished, exit, signal, received, command } = run;
        let (secs, millis) = (started / 1000, started % 1000);
        let took = finished.saturating_sub(*started) as f64 / 1e3;
        let host = &self.host;
        let exit = if *signal == 0 { *exit } else { 0 };
        let columns =
            format!("{number}\t{host}\t{secs}.{millis:03}\t{took:10.3}\t0\t{received}\t{exit}\t{signal}\t");
        let mut line = columns.into_bytes();
        line.extend(escaped_bytes(command));
        line.push(b'\n');
        if self.unwritten.load(Ordering::Relaxed) >= MOST {
            self.lost += 1;
            return;
        }
        self.unwritten.fetch_add(1, Ordering::Relaxed);
        // What was wrong with it is told already. It stays among those that are not out.
        let _lost = self.lines.send(line);
    }

    /// Waits until all is out, but for no longer than this while nothing comes out, and tells what is not.
    pub(crate) async fn end(self, patience: Duration) {
        let Joblog { lines, unwritten, lost, mut over, shown, .. } = self;
        drop(lines);
        let in_time = loop {
            let before = unwritten.load(Ordering::Relaxed);
            if tokio::time::timeout(patience, &mut over).await.is_ok() {
                // The thread has ended. Where it could not go on, it has told why.
                break "";
            }
            if unwritten.load(Ordering::Relaxed) == before {
                break " in time";
            }
        };
        let lost = unwritten.load(Ordering::Relaxed) + lost;
        if lost > 0 {
            let lines = count(lost, "line");
            output::note(format!("{shown}: {lines} could not be written{in_time}, and are lost"));
        }
    }
}

/// Opens the file, with its heading. Whoever was killed may have left half a line, which gets an end: what comes behind it would be lost to
/// every reader.
fn begin(path: &Path) -> io::Result<File> {
    const HEADING: &str = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let metadata = file.metadata()?;
    if metadata.len() == 0 {
        file.write_all(HEADING.as_bytes())?;
    } else if metadata.is_file()
        // Whoever may only write it can't know.
        && let Ok(before) = File::open(path)
        && files::last_byte(&before)? != Some(b'\n')
    {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// Writes each line in one write: other processes of the job may write to the same file. On a full disk, which `waits` is told of, it waits for
/// room, and goes on where it was.
fn go_on(
    file: &mut impl Write,
    lines: &Receiver<Vec<u8>>,
    unwritten: &AtomicUsize,
    waits: impl Fn(&io::Error),
) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(200);
    let mut is_full = false;
    for line in lines {
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = rest.get(written..).unwrap_or_default();
                    is_full = false;
                }
                Err(error) if matches!(error.kind(), StorageFull | QuotaExceeded) => {
                    if !is_full {
                        waits(&error);
                    }
                    is_full = true;
                    std::thread::sleep(PAUSE);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        unwritten.fetch_sub(1, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes three bytes at a time, and fails before that as it is told.
    struct FullDisk {
        written: Vec<u8>,
        failures: Vec<io::ErrorKind>,
    }

    impl Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.written.len() == 3
                && let Some(failure) = self.failures.pop()
            {
                return Err(failure.into());
            }
            let taken = bytes.len().min(3);
            self.written.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_waited_for_within_a_line_and_other_failures_leave_lines_that_are_counted() {
        for (failures, written, left, told) in [
            (vec![QuotaExceeded, StorageFull], "one\ntwo\n", 0, 1),
            (vec![io::ErrorKind::BrokenPipe, StorageFull], "one", 2, 1),
        ] {
            let (lines, to_write) = mpsc::channel();
            for line in ["one\n", "two\n"] {
                lines.send(line.as_bytes().to_vec()).unwrap();
            }
            drop(lines);
            let (unwritten, waits) = (AtomicUsize::new(2), std::cell::Cell::new(0));
            let mut disk = FullDisk { written: Vec::new(), failures };
            let ended = go_on(&mut disk, &to_write, &unwritten, |_| waits.set(waits.get() + 1));
            assert_eq!(String::from_utf8(disk.written).unwrap(), written);
            assert_eq!((ended.is_err(), unwritten.into_inner(), waits.get()), (left > 0, left, told));
        }
    }

    #[test]
    fn half_a_line_gets_an_end_before_another_comes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for (before, after) in [("Seq\n1\thalf", "Seq\n1\thalf\nnext\n"), ("Seq\n", "Seq\nnext\n")] {
            std::fs::write(&path, before).unwrap();
            begin(&path).unwrap().write_all(b"next\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
    }
}
