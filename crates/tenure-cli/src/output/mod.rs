//! What is said to people: on standard error, one line at a time, with the program's name.

pub(crate) mod about;
mod holders;
pub(crate) mod json;
pub(crate) mod json_list;
pub(crate) mod lines;
mod listener;
pub(crate) mod permits;
pub(crate) mod problem;
pub(crate) mod section;
pub(crate) mod silence;
mod stderr;
pub(crate) mod ticks;
pub(crate) mod view;

pub(crate) use stderr::BarFrame;

use crate::exit;
use crate::exit::Failure;
use crate::output::listener::OutputReader;
use crate::output::stderr::StderrQueue;
use crate::text::escaped_lines;
use indicatif::ProgressBar;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::fstat;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{ErrorKind, LeaseError, Loss, StoreError};

/// The bar that is drawn on the terminal, if one is. Held while something is drawn, or written beside it: for ever, where the terminal
/// stands still.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);
/// Held by who writes a piece or a line to standard output, so that they are not mixed. Where a pipe is full that may be for ever.
static OUT_TURN: Mutex<()> = Mutex::new(());
/// The same for standard error, where that is another place.
static ERR_TURN: Mutex<()> = Mutex::new(());
/// What commands have written there last may have no newline at its end. Changed by whose turn it is.
static OUT_IS_WITHIN_LINE: AtomicBool = AtomicBool::new(false);
/// The same of standard error.
static ERR_IS_WITHIN_LINE: AtomicBool = AtomicBool::new(false);
/// Whoever reads standard error, where no thread writes it.
static LISTENER: Mutex<OutputReader> = Mutex::new(OutputReader::new());
/// The thread that writes standard error, where there is one.
static STDERR: OnceLock<StderrQueue> = OnceLock::new();
/// Only what goes wrong is told.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From now on a thread writes what is told, and whoever tells it does not wait for who reads it.
pub(crate) fn tell_by_thread() -> Result<(), Failure> {
    if STDERR.get().is_none() {
        let queue = StderrQueue::start(&std::io::stderr())?;
        // Nobody else has set it meanwhile: this is the main thread.
        let _ = STDERR.set(queue);
    }
    Ok(())
}

/// Waits at the end until what was told is out, if anybody reads it.
pub(crate) fn finish() {
    STDERR.get().into_iter().for_each(StderrQueue::finish);
}

/// An event of the log, which needs [`tell_by_thread`].
pub(crate) fn log(event: String) {
    if let Some(queue) = STDERR.get() {
        queue.log(event);
    }
}

/// Draws this bar from now on. Whatever is written here, or undisturbed, is not mixed with it. Needs [`tell_by_thread`].
pub(crate) fn begin_bar(bar: ProgressBar) {
    *locked(&BAR) = Some(bar);
    STDERR.get().into_iter().for_each(StderrQueue::begin_bar);
}

/// The bar shows this from its next frame on.
pub(crate) fn show_bar(frame: BarFrame) {
    if let Some(queue) = STDERR.get() {
        queue.show(frame);
    }
}

/// Takes the bar off the screen.
pub(crate) fn end_bar() {
    STDERR.get().into_iter().for_each(StderrQueue::end_bar);
}

fn draw_bar(frame: &BarFrame) {
    if let Some(bar) = &*locked(&BAR) {
        bar.set_length(frame.length);
        bar.set_position(frame.position);
        bar.set_message(frame.message.clone());
    }
}

fn clear_bar() {
    let mut bar = locked(&BAR);
    bar.iter().for_each(ProgressBar::finish_and_clear);
    *bar = None;
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a piece of output, in which nothing else stands: its part of standard output, and then its part of standard error. Each is told
/// whether a bar is drawn below it, and tells the last byte that it has written.
pub(crate) fn in_turn(
    to_out: impl FnOnce(bool) -> std::io::Result<Option<u8>>,
    to_err: Option<impl FnOnce(bool) -> std::io::Result<Option<u8>>>,
) -> std::io::Result<()> {
    let (out, err) = (std::io::stdout(), std::io::stderr());
    let is_shared = is_one_place(&out, &err);
    let ours = locked(&OUT_TURN);
    note_last(undisturbed_on(&out, to_out)?, true, is_shared);
    // Nobody's turn is waited for with nothing to write.
    let Some(to_err) = to_err else { return Ok(()) };
    let _ours = if is_shared {
        ours
    } else {
        drop(ours);
        locked(&ERR_TURN)
    };
    match undisturbed_on(&err, to_err) {
        Ok(last) => {
            note_last(last, is_shared, true);
            Ok(())
        }
        // That nobody reads it is no reason to stop.
        Err(error) if is_without_reader(&error) => Ok(()),
        Err(error) => Err(std::io::Error::other(format!("standard error can't be written: {error}"))),
    }
}

/// That was the last byte written there, if anything was.
fn note_last(last: Option<u8>, on_out: bool, on_err: bool) {
    let Some(last) = last else { return };
    for (is_there, is_within) in [(on_out, &OUT_IS_WITHIN_LINE), (on_err, &ERR_IS_WITHIN_LINE)] {
        if is_there {
            is_within.store(last != b'\n', Ordering::Relaxed);
        }
    }
}

/// Commands have written to standard output themselves: nobody knows whether a line has its end.
pub(crate) fn may_be_within_line() {
    OUT_IS_WITHIN_LINE.store(true, Ordering::Relaxed);
}

/// Whether what is written is refused since it has no reader: a pipe's has ended, a terminal has hung up, or there is neither.
fn is_without_reader(error: &std::io::Error) -> bool {
    const WITHOUT: [Errno; 3] = [Errno::EPIPE, Errno::EIO, Errno::EBADF];
    error.raw_os_error().is_some_and(|raw| WITHOUT.contains(&Errno::from_raw(raw)))
}

/// Writes a line to standard error. Who writes a piece elsewhere is not waited for. `write` is told what is to stand before it: the end of a
/// line that has none.
fn in_turn_on_stderr<T>(write: impl FnOnce(&'static str) -> T) -> T {
    let is_shared = is_one_place(&std::io::stderr(), &std::io::stdout());
    let _ours = locked(if is_shared { &OUT_TURN } else { &ERR_TURN });
    let is_within = ERR_IS_WITHIN_LINE.load(Ordering::Relaxed);
    note_last(Some(b'\n'), is_shared, true);
    write(if is_within { "\n" } else { "" })
}

/// Writes while no bar is on the screen, if it may be the same one: a bar must not wait for a pipe. `write` is told whether there is one. It
/// is drawn where the text ends then, and takes with it what stands in that line.
fn undisturbed_on<O: IsTerminal, T>(out: &O, write: impl FnOnce(bool) -> T) -> T {
    if !out.is_terminal() {
        return write(false);
    }
    match &*locked(&BAR) {
        Some(bar) => bar.suspend(|| write(true)),
        None => write(false),
    }
}

/// From now on, only what goes wrong is told.
pub(crate) fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// A line for the user. That nobody can read it is no reason to fail. Others' words may stand in it, which must not steer a terminal.
pub(crate) fn note(text: impl AsRef<str>) {
    say(&format!("tenure: {}\n", escaped_lines(text.as_ref())));
}

/// Lines for the user without the program's name, which must not steer a terminal either.
pub(crate) fn plain(text: &str) {
    say(&escaped_lines(text));
}

/// A note that is due at each of many tries: another text is said at once, and the same one once a minute.
#[derive(Debug, Default)]
pub(crate) struct RepeatedNote(Option<(String, Duration)>);

impl RepeatedNote {
    pub(crate) fn say(&mut self, text: String) {
        const SELDOM: Duration = Duration::from_secs(60);
        let now = boottime();
        if self.0.as_ref().is_none_or(|(last, at)| *last != text || now.saturating_sub(*at) >= SELDOM) {
            note(&text);
            self.0 = Some((text, now));
        }
    }
}

/// Why a verb failed, as one line of JSON: for the programs that want their results so, too.
pub(crate) fn fail(code: u8, text: &str) {
    let document = serde_json::json!({"error": {"code": code, "message": text}});
    say(&format!("{}\n", json::line(&document)));
}

/// A line that says nothing that is wrong.
pub(crate) fn tell(text: impl AsRef<str>) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        note(text);
    }
}

/// Writes to standard error, in one piece, as others may write to the same place.
fn say(line: &str) {
    if let Some(queue) = STDERR.get() {
        return queue.tell(line.to_owned());
    }
    // Nobody writes pieces: for that, there is that thread.
    let err = std::io::stderr();
    let Ok(mut own) = err.as_fd().try_clone_to_owned().map(File::from) else { return };
    locked(&LISTENER).say(&mut own, line);
}

/// Whether both lead to the same file, pipe or terminal, as far as can be told.
fn is_one_place(one: &impl AsFd, other: &impl AsFd) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => true,
    }
}

/// Whether nobody can read what is written to standard output any more.
pub(crate) fn is_unread() -> bool {
    let out = std::io::stdout();
    let mut fds = [PollFd::new(out.as_fd(), PollFlags::empty())];
    let is_over = |fd: &PollFd<'_>| fd.revents().is_some_and(|seen| seen.contains(PollFlags::POLLERR));
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) && fds.iter().any(is_over)
}

/// Writes a result to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The same, of one line. It begins where no other has begun, whatever commands have written before it.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    let is_within = OUT_IS_WITHIN_LINE.swap(false, Ordering::Relaxed);
    print(&format!("{}{text}\n", if is_within { "\n" } else { "" }))
}

/// What follows from it for a verb that something was written to standard output, or was not.
pub(crate) fn printed(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Ok(()) => Ok(()),
        // As in `tenure ls | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Failure::silent(exit::OK)),
        Err(error) => Err(Failure::new(exit::INTERNAL, format!("standard output can't be written: {error}"))),
    }
}

/// One JSON document.
pub(crate) fn json(document: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{}\n", json::indented(document)))
}

/// Asks before something that can hurt. Without a terminal there is nobody to ask, and `--yes` is needed.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    check_asked(question)?;
    say(&format!("{} [y/N] ", escaped_lines(question)));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    match read {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::new(exit::USAGE, "nothing was changed")),
    }
}

/// Whether there is a terminal on which somebody can be asked.
pub(crate) fn check_asked(question: &str) -> Result<(), Failure> {
    if std::io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage(format!("{question} Say --yes if so.")))
}

/// What outlasts a loss that came of delays.
pub(crate) const AGAINST_DELAYS: &str =
    "a longer --ttl outlasts longer delays, and `tenure doctor` looks for their cause";
/// What mends a record that was damaged.
const AGAINST_DAMAGE: &str = "`tenure show KEY` shows that record, and `tenure rm --damaged KEY` removes it";
/// What reads a record that a newer version has written.
const AGAINST_NEWER: &str = "a newer tenure has written that record: upgrade this one";
/// What helps where the store refuses for good.
const AGAINST_REFUSAL: &str = "check the rights of its login; `tenure doctor` tries them";
/// What finds a cause that nothing more is known of.
const AGAINST_OTHERS: &str = "`tenure doctor` looks for the cause";

/// Why a lease was lost, and what can be done against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) why: String,
    /// None where somebody wanted it.
    pub(crate) remedy: Option<&'static str>,
}

impl Lost {
    pub(crate) fn of(loss: &Loss) -> Lost {
        let remedy = match loss {
            Loss::Expired | Loss::Taken(_) => Some(AGAINST_DELAYS),
            Loss::Unreachable(error) => Some(Self::against(error)),
            Loss::Deleted => Some("`tenure release` and `tenure revoke` end leases, and leave their records"),
            Loss::Revoked | Loss::Released | Loss::Overran | Loss::Stopped => None,
            // One that is new: nobody is known to have wanted it.
            _ => Some(AGAINST_OTHERS),
        };
        Lost { why: LeaseError::Lost(loss.clone()).to_string(), remedy }
    }

    /// What can be done against a store's trouble that has cost a lease.
    fn against(error: &StoreError) -> &'static str {
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Unknown => AGAINST_DELAYS,
            ErrorKind::Foreign if error.is_newer() => AGAINST_NEWER,
            ErrorKind::Foreign => AGAINST_DAMAGE,
            ErrorKind::Unsupported | ErrorKind::Invalid => AGAINST_REFUSAL,
            _ => AGAINST_OTHERS,
        }
    }

    /// Whether it came of delays: then what the store's trouble was says more.
    pub(crate) fn is_of_delays(&self) -> bool {
        self.remedy == Some(AGAINST_DELAYS)
    }

    /// Whether somebody wanted it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.remedy.is_none()
    }
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)?;
        self.remedy.map_or(Ok(()), |remedy| write!(f, " ({remedy})"))
    }
}

/// Text with a colour if `stream` is a terminal that may have one.
pub(crate) fn coloured(text: &str, code: &str, stream: &impl IsTerminal) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || !stream.is_terminal();
    if plain { text.to_owned() } else { format!("\u{1b}[{code}m{text}\u{1b}[0m") }
}

#[cfg(test)]
mod tests {
    //! Plan: what is said against a loss fits its cause, also where that is the store's trouble; whoever wanted it is told of no remedy.
    use super::*;

    #[test]
    fn what_is_said_against_a_loss_fits_its_cause() {
        for (loss, remedy) in [
            (Loss::Expired, Some(AGAINST_DELAYS)),
            (Loss::Taken(None), Some(AGAINST_DELAYS)),
            (Loss::from(StoreError::unavailable("no answer")), Some(AGAINST_DELAYS)),
            (Loss::from(StoreError::unknown("no answer")), Some(AGAINST_DELAYS)),
            (Loss::from(StoreError::foreign("cut off")), Some(AGAINST_DAMAGE)),
            (Loss::from(StoreError::newer("version 9")), Some(AGAINST_NEWER)),
            (Loss::from(StoreError::invalid("access denied")), Some(AGAINST_REFUSAL)),
            (Loss::from(StoreError::unsupported("read-only")), Some(AGAINST_REFUSAL)),
            (Loss::Revoked, None),
            (Loss::Released, None),
            (Loss::Overran, None),
            (Loss::Stopped, None),
        ] {
            let lost = Lost::of(&loss);
            assert_eq!((lost.remedy, lost.is_wanted()), (remedy, remedy.is_none()), "{loss:?}");
            assert_eq!(lost.is_of_delays(), remedy == Some(AGAINST_DELAYS), "{loss:?}");
            let told = remedy.map_or_else(String::new, |remedy| format!(" ({remedy})"));
            assert_eq!(lost.to_string(), format!("the lease is lost: {loss}{told}"));
        }
    }
}
