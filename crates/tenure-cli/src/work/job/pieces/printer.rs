//! The thread that writes pieces: whoever reads them may be slow, and leases must not wait for that.

use super::capture::{Captured, Captures, is_empty};
use super::order::Order;
use crate::config::Form;
use crate::exit::Failure;
use crate::files;
use crate::output;
use crate::text::escaped;
use crate::work::units::text_of;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use tenure::Cancelled;
use tokio::sync::oneshot;

/// What one run has written.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The run's number.
    pub(crate) run: usize,
    pub(crate) unit: Vec<u8>,
    pub(crate) captured: Captured,
    /// Its exit code, if it ended by itself.
    pub(crate) exit: Option<i64>,
    /// It is to be run once more: what it has written to standard output comes from that run. Its errors are its own.
    pub(crate) is_retried: bool,
    /// The unit's lease.
    pub(crate) lease: Cancelled,
    /// Gone once nobody waits for what comes of the run.
    pub(crate) wanted: Weak<()>,
}

impl Piece {
    /// Whether nothing of it is to be written.
    fn is_empty(&self) -> bool {
        is_empty(&self.captured.err) && (is_empty(&self.captured.out) || self.is_dropped())
    }

    /// Whether what it has written to standard output is dropped at once. To empty a large file takes time, and is the thread's work.
    fn is_dropped(&self) -> bool {
        const MOST: u64 = 1 << 20;
        self.is_retried && self.captured.out.metadata().is_ok_and(|out| out.len() <= MOST)
    }

    /// Whether this process has the unit still, and waits for what comes of it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.strong_count() > 0 && !self.lease.is_cancelled()
    }
}

/// What is kept until its turn has come.
enum KeptPiece {
    /// In its files, which stay open.
    Caught(Piece),
    /// So little that it takes no more room than the result of its unit.
    Small { unit: Vec<u8>, out: Vec<u8>, err: Vec<u8> },
}

/// So much is kept in memory, all in all.
const MOST_IN_MEMORY: usize = 64 << 20;

impl KeptPiece {
    /// Files that are not needed for it go back to `captures`. `has_room`: it may be kept in memory.
    fn of(piece: Piece, captures: &Captures, has_room: bool) -> KeptPiece {
        if !has_room {
            return KeptPiece::Caught(piece);
        }
        let out = if piece.is_dropped() { Some(Vec::new()) } else { little(&piece.captured.out) };
        match (out, little(&piece.captured.err)) {
            (Some(out), Some(err)) => {
                captures.give_back(piece.captured);
                KeptPiece::Small { unit: piece.unit, out, err }
            }
            _ => KeptPiece::Caught(piece),
        }
    }

    /// How much of memory it takes.
    fn in_memory(&self) -> usize {
        match self {
            KeptPiece::Caught(_) => 0,
            KeptPiece::Small { unit, out, err } => unit.len() + out.len() + err.len(),
        }
    }
}

/// What the thread is to do.
enum Job {
    Write(Piece),
    /// Keep it until its turn has come.
    Keep(usize, KeptPiece),
    /// Write what that run has written, which was kept.
    WriteKept(usize),
    /// Forget what that run has written, which was kept.
    Forget(usize),
}

/// Where a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nothing is to be written.
    Nowhere,
    /// It is being written.
    Out,
    /// It is kept until its turn has come.
    Kept,
}

#[derive(Debug)]
pub(crate) struct Printer {
    /// Runs of which pieces are kept.
    order: Option<Order<usize>>,
    captures: Arc<Captures>,
    jobs: Sender<Job>,
    /// Pieces that are to be written, and are not.
    unwritten: Arc<AtomicUsize>,
    /// How many bytes of what is kept are in memory.
    in_memory: Arc<AtomicUsize>,
    over: oneshot::Receiver<()>,
}

impl Printer {
    /// `written` is told of each run whose piece is out; `trouble` once if nobody reads any more, or what is written is refused.
    pub(crate) fn start(
        form: Form,
        captures: Arc<Captures>,
        written: impl Fn(usize) + Send + 'static,
        trouble: impl FnOnce(io::Error) + Send + 'static,
    ) -> Result<Printer, Failure> {
        // A line must not wait until a piece is written.
        output::tell_by_thread()?;
        let (jobs, to_do) = channel();
        let (told, over) = oneshot::channel();
        let order = form.keep_order.then(Order::default);
        let (unwritten, in_memory) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let writer = Writer {
            form,
            captures: Arc::clone(&captures),
            unwritten: Arc::clone(&unwritten),
            in_memory: Arc::clone(&in_memory),
        };
        let thread = std::thread::Builder::new().name("printer".to_owned());
        let write = move || {
            writer.run(&to_do, written, trouble);
            let _left = told.send(());
        };
        thread.spawn(write).map_err(Failure::no_thread)?;
        Ok(Printer { order, captures, jobs, unwritten, in_memory, over })
    }

    /// Writes it, or keeps it until its turn has come.
    pub(crate) fn print(&mut self, number: Option<usize>, piece: Piece) -> Way {
        match (&mut self.order, number) {
            // Not worth a word to the thread.
            _ if piece.is_empty() => {
                self.captures.give_back(piece.captured);
                Way::Nowhere
            }
            (Some(order), Some(number)) => {
                let run = piece.run;
                order.hold(number, run);
                let has_room = self.in_memory.load(Ordering::Relaxed) < MOST_IN_MEMORY;
                let kept = KeptPiece::of(piece, &self.captures, has_room);
                self.in_memory.fetch_add(kept.in_memory(), Ordering::Relaxed);
                self.send(Job::Keep(run, kept));
                Way::Kept
            }
            _ => {
                self.send(Job::Write(piece));
                Way::Out
            }
        }
    }

    /// Writes what has waited for units that are over now, and so much of it at a time. Numbers count from 0. The runs are returned.
    pub(crate) fn go_on(&mut self, total: usize, most: usize, is_over: impl Fn(usize) -> bool) -> Vec<usize> {
        let due = self.order.as_mut().map(|order| order.due(total, most, is_over)).unwrap_or_default();
        due.iter().for_each(|run| self.send(Job::WriteKept(*run)));
        due
    }

    /// The unit of that number waits for nothing but its turn.
    pub(crate) fn end_of(&mut self, number: usize) {
        if let Some(order) = &mut self.order {
            order.end(number);
        }
    }

    /// Forgets what that unit's last run has written: it is run again.
    pub(crate) fn forget(&mut self, number: usize) {
        if let Some(run) = self.order.as_mut().and_then(|order| order.take_back(number)) {
            self.send(Job::Forget(run));
        }
    }

    /// The number of the unit that others wait for.
    pub(crate) fn awaited(&self) -> Option<usize> {
        self.order.as_ref().and_then(Order::awaited)
    }

    /// Writes the rest, and waits until all is written.
    pub(crate) async fn end(mut self) {
        let rest = self.order.as_mut().map(Order::rest).unwrap_or_default();
        rest.into_iter().for_each(|run| self.send(Job::WriteKept(run)));
        drop(self.jobs);
        let _over = self.over.await;
    }

    /// How many pieces wait for whoever reads them. What waits for its turn alone is not among them.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten.load(Ordering::Relaxed)
    }

    fn send(&self, job: Job) {
        if matches!(job, Job::Write(_) | Job::WriteKept(_)) {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
        }
        // Nobody takes it any more after trouble, which was told.
        let _untold = self.jobs.send(job);
    }
}

struct Writer {
    form: Form,
    captures: Arc<Captures>,
    unwritten: Arc<AtomicUsize>,
    in_memory: Arc<AtomicUsize>,
}

impl Writer {
    /// What was kept of a run, which is not any more.
    fn taken(&self, kept: &mut BTreeMap<usize, KeptPiece>, run: usize) -> Option<KeptPiece> {
        let piece = kept.remove(&run)?;
        self.in_memory.fetch_sub(piece.in_memory(), Ordering::Relaxed);
        Some(piece)
    }

    fn run(&self, jobs: &Receiver<Job>, written: impl Fn(usize), trouble: impl FnOnce(io::Error)) {
        let mut kept = BTreeMap::new();
        for job in jobs {
            if let Err(error) = self.work(job, &mut kept, &written) {
                return trouble(error);
            }
        }
    }

    fn work(
        &self,
        job: Job,
        kept: &mut BTreeMap<usize, KeptPiece>,
        written: impl Fn(usize),
    ) -> io::Result<()> {
        match job {
            Job::Write(piece) => {
                let run = piece.run;
                self.write(piece)?;
                self.unwritten.fetch_sub(1, Ordering::Relaxed);
                written(run);
            }
            Job::Keep(run, piece) => drop(kept.insert(run, piece)),
            Job::WriteKept(run) => {
                match self.taken(kept, run) {
                    Some(KeptPiece::Caught(piece)) => self.write(piece)?,
                    Some(KeptPiece::Small { unit, out, err }) => {
                        let [out, err] = [&out, &err].map(|it| it.last().map(|last| (it.as_slice(), *last)));
                        self.put(&unit, out, err)?;
                    }
                    None => {}
                }
                self.unwritten.fetch_sub(1, Ordering::Relaxed);
                written(run);
            }
            Job::Forget(run) => {
                if let Some(KeptPiece::Caught(piece)) = self.taken(kept, run) {
                    self.captures.give_back(piece.captured);
                }
            }
        }
        Ok(())
    }

    fn write(&self, Piece { unit, mut captured, is_retried, .. }: Piece) -> io::Result<()> {
        captured.out.rewind()?;
        captured.err.rewind()?;
        let out = if is_retried { None } else { files::last_byte(&captured.out)? };
        let err = files::last_byte(&captured.err)?;
        self.put(&unit, out.map(|last| (&captured.out, last)), err.map(|last| (&captured.err, last)))?;
        self.captures.give_back(captured);
        Ok(())
    }

    /// Writes this to standard output, and that to standard error, each with its last byte.
    fn put(
        &self,
        unit: &[u8],
        to_out: Option<(impl Read, u8)>,
        to_err: Option<(impl Read, u8)>,
    ) -> io::Result<()> {
        let tag = self.form.tag.then(|| format!("{}\t", escaped(&text_of(unit))));
        let tag = tag.as_deref();
        let to_out = |bar| {
            let copied = to_out.map(|from| copy(from, &mut io::stdout().lock(), tag, bar));
            copied.transpose()
        };
        let to_err = to_err.map(|from| {
            move |bar| match copy(from, &mut io::stderr().lock(), tag, bar) {
                // What is saved is not lost.
                Err(_) if self.form.results.is_some() => Ok(None),
                copied => copied.map(Some),
            }
        });
        output::in_turn(to_out, to_err)
    }
}

/// What is in a file, if that is little.
fn little(file: &File) -> Option<Vec<u8>> {
    const MOST: u64 = 1024;
    let length = file.metadata().ok()?.len();
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= MOST)?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

/// Copies all of what is not empty, and ends with this byte, each line behind the tag. A last line without an end is given one if it `must_end`.
/// Returns the byte with which it ends then.
fn copy(
    (mut from, last): (impl Read, u8),
    to: &mut impl Write,
    tag: Option<&str>,
    must_end: bool,
) -> io::Result<u8> {
    match tag {
        Some(tag) => copy_tagged(BufReader::new(from), to, tag)?,
        None => drop(io::copy(&mut from, to)?),
    }
    // Behind a tag, the next piece begins with a tag of its own.
    let is_ended = last != b'\n' && (must_end || tag.is_some());
    if is_ended {
        to.write_all(b"\n")?;
    }
    to.flush()?;
    Ok(if is_ended { b'\n' } else { last })
}

/// A line may be longer than what there is of memory: of each is known only whether it has begun.
fn copy_tagged(mut from: impl BufRead, to: &mut impl Write, tag: &str) -> io::Result<()> {
    let mut is_begun = false;
    loop {
        let some = from.fill_buf()?;
        if some.is_empty() {
            return Ok(());
        }
        for part in some.split_inclusive(|byte| *byte == b'\n') {
            if !is_begun {
                to.write_all(tag.as_bytes())?;
            }
            to.write_all(part)?;
            is_begun = !part.ends_with(b"\n");
        }
        let length = some.len();
        from.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps what is written, and how much was written at a time at most.
    #[derive(Default)]
    struct Sink {
        all: Vec<u8>,
        largest: usize,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.largest = self.largest.max(bytes.len());
            self.all.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_behind_a_tag_is_copied_bit_by_bit_however_long_it_is() {
        let long = "x".repeat(8 << 20);
        for (text, told) in [
            (format!("a\n\n{long}\nb"), format!("u\ta\nu\t\nu\t{long}\nu\tb\n")),
            (format!("{long}\n"), format!("u\t{long}\n")),
        ] {
            let (mut sink, last) = (Sink::default(), *text.as_bytes().last().unwrap());
            assert_eq!(copy((text.as_bytes(), last), &mut sink, Some("u\t"), false).unwrap(), b'\n');
            assert!(sink.all == told.as_bytes(), "{} bytes", sink.all.len());
            assert!(sink.largest <= 64 << 10, "{}", sink.largest);
        }
    }
}
