//! Files that catch what a command writes. They have no names, so nothing is left of them however tenure ends.

use crate::exit::Failure;
use crate::files;
use crate::text::escaped;
use nix::errno::Errno;
use nix::sys::statvfs::{Statvfs, fstatvfs};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What one command writes.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) out: File,
    pub(crate) err: File,
    /// Something may be alive that still writes here.
    pub(crate) is_open_elsewhere: bool,
}

/// Pairs of files that are empty, to be used again: most commands write little, and to make a file takes longer than that.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    idle: Mutex<Vec<Captured>>,
    /// How many files there are in all pairs.
    made: AtomicU64,
}

impl Captures {
    pub(crate) fn take(&self) -> io::Result<Captured> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(captured) => Ok(captured),
            None => {
                // Those of outputs whose turn has not come are all open (--keep-order). As many others may be.
                let made = self.made.fetch_add(2, Ordering::Relaxed) + 2;
                files::allow(made.saturating_mul(2));
                Ok(Captured { out: nameless()?, err: nameless()?, is_open_elsewhere: false })
            }
        }
    }

    /// To be called once nothing writes to it any more that is known. What something else may write to is no other command's.
    pub(crate) fn give_back(&self, captured: Captured) {
        if captured.is_open_elsewhere {
            self.made.fetch_sub(2, Ordering::Relaxed);
            return;
        }
        if emptied(&captured.out).and_then(|()| emptied(&captured.err)).is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(captured);
        }
    }
}

impl Captured {
    /// For a command's standard output and standard error.
    pub(crate) fn stdio(&self) -> io::Result<(Stdio, Stdio)> {
        Ok((self.out.try_clone()?.into(), self.err.try_clone()?.into()))
    }

    /// Whether the end of what the command has written may be missing, or all of it: there is no room for more. Tried only where little is
    /// left, since to try takes longer than to ask.
    pub(crate) fn is_cut(&self) -> bool {
        const LITTLE: u64 = 1 << 20;
        let left = |all: Statvfs| all.blocks_available().saturating_mul(all.fragment_size());
        fstatvfs(&self.out).map_or(0, left) < LITTLE
            && [&self.out, &self.err].iter().any(|file| has_no_room(file))
    }

    /// The last lines of its errors, or else of its output; none if it has written nothing.
    pub(crate) fn tail(&self) -> Option<String> {
        [&self.err, &self.out].into_iter().find_map(|file| tail(file).ok()?)
    }
}

/// Whether nothing was written there.
pub(super) fn is_empty(file: &File) -> bool {
    file.metadata().is_ok_and(|file| file.len() == 0)
}

/// Whether what commands write can be caught at all, before anything is run.
pub(crate) fn check_directory() -> Result<(), Failure> {
    match nameless() {
        // Want of room or of open files may pass.
        Err(error) if is_wrong_place(&error) => Err(wrong_place(&error)),
        _ => Ok(()),
    }
}

/// Whether the directory is one where this process can never make a file.
pub(crate) fn is_wrong_place(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    [NotFound, NotADirectory, PermissionDenied, ReadOnlyFilesystem].contains(&error.kind())
}

/// What is wrong with it, and what can be done.
pub(crate) fn wrong_place(error: &io::Error) -> Failure {
    let place = match std::env::var_os("TMPDIR") {
        Some(place) => format!("TMPDIR is {}", escaped(&place.to_string_lossy())),
        None => "TMPDIR is not set".to_owned(),
    };
    Failure::usage(format!("{place}: {error}; set TMPDIR to a directory in which files can be made"))
}

/// Whether there are as many open files as there may be, of this process or of all.
pub(crate) fn are_too_many_open(error: &io::Error) -> bool {
    [Errno::EMFILE, Errno::ENFILE].iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

fn has_no_room(mut file: &File) -> bool {
    const MORE: usize = 4096;
    let Ok(length) = file.metadata().map(|file| file.len()) else { return true };
    let written = file.write(&[0; MORE]);
    file.set_len(length).is_err() || !written.is_ok_and(|written| written == MORE)
}

fn tail(file: &File) -> io::Result<Option<String>> {
    const MOST_BYTES: u64 = 1024;
    const MOST_LINES: usize = 10;
    let length = file.metadata()?.len();
    let mut bytes = vec![0; usize::try_from(length.min(MOST_BYTES)).unwrap_or(0)];
    file.read_exact_at(&mut bytes, length.saturating_sub(MOST_BYTES))?;
    let text = String::from_utf8_lossy(&bytes);
    // What is no text grows by becoming some, and a record has only so much room.
    let most = usize::try_from(MOST_BYTES).unwrap_or(0);
    let from = (text.len().saturating_sub(most)..=text.len()).find(|at| text.is_char_boundary(*at));
    let text = text.get(from.unwrap_or(0)..).unwrap_or_default();
    let mut lines: Vec<&str> =
        text.lines().rev().filter(|line| !line.trim().is_empty()).take(MOST_LINES).collect();
    lines.reverse();
    Ok((!lines.is_empty()).then(|| lines.join("\n")))
}

fn nameless() -> io::Result<File> {
    files::nameless(&std::env::temp_dir()).map_err(|(path, error)| {
        if are_too_many_open(&error) {
            return error;
        }
        let text = format!("{} can't be written, which catches output: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

fn emptied(mut file: &File) -> io::Result<()> {
    if file.metadata()?.len() > 0 {
        file.set_len(0)?;
    }
    io::Seek::rewind(&mut file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_used_again_empty_and_the_tail_is_that_of_the_errors() {
        let captures = Captures::default();
        let mut one = captures.take().unwrap();
        assert_eq!(one.tail(), None);
        one.out.write_all(b"out\n").unwrap();
        assert_eq!(one.tail().as_deref(), Some("out"));
        one.err.write_all(("x".repeat(2000) + "\na\n\nb\n").as_bytes()).unwrap();
        let tail = one.tail().unwrap();
        assert!(tail.len() <= 1024 && tail.ends_with("x\na\nb"), "{tail}");
        one.err.write_all(&[0xff; 3000]).unwrap();
        assert!((1000..=1024).contains(&one.tail().unwrap().len()), "bytes that are no text");
        captures.give_back(one);
        let mut again = captures.take().unwrap();
        assert!(captures.idle.lock().unwrap().is_empty());
        again.out.write_all(b"2").unwrap();
        assert_eq!((again.tail().as_deref(), again.out.metadata().unwrap().len()), (Some("2"), 1));
    }
}
