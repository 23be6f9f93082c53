//! Exit codes, in one place. `run` passes its command's own status on, so tenure's own codes keep away from the usual
//! ones: they are those of sysexits(3), which commands rarely use.

use std::fmt;
use tenure::once::OnceError;
use tenure::{AcquireError, ErrorKind, InvalidInput, Key, LeaseError, StoreError};

/// The verb did what was asked.
pub(crate) const OK: u8 = 0;
/// `work`: some units failed. `fleet adopt`: some rows could not be moved. `doctor`: a check failed. `sim`: a promise was broken.
pub(crate) const SOME_FAILED: u8 = 1;
/// `doctor`: no check failed, and it warns of something.
pub(crate) const HAZARDS: u8 = 2;
/// The command line, or something that it names, is wrong.
pub(crate) const USAGE: u8 = 64;
/// A record is damaged, or was not written by tenure.
pub(crate) const DAMAGED: u8 = 65;
/// There is no such record, or nobody holds it.
pub(crate) const ABSENT: u8 = 66;
/// The store can't be reached, or fails. A file that this user may not write is bad input. `ready`: the agent is not ready.
pub(crate) const UNAVAILABLE: u8 = 69;
/// tenure itself failed.
pub(crate) const INTERNAL: u8 = 70;
/// All was done before, and nothing was run.
pub(crate) const DONE_BEFORE: u8 = 73;
/// Another holds the key.
pub(crate) const HELD: u8 = 75;
/// The lease was lost, or withdrawn, while the command ran.
pub(crate) const LOST: u8 = 76;
/// The command can't be executed.
pub(crate) const CANNOT_EXECUTE: u8 = 126;
/// The command isn't found.
pub(crate) const NOT_FOUND: u8 = 127;
/// Plus its number: ended by that signal.
pub(crate) const SIGNAL: u8 = 128;

/// For `--help` and the man page.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done
    1  work: some units failed; fleet adopt: some rows could not be moved;
       doctor: a check failed; sim: a promise was broken
    2  doctor: no check failed, and it warns: a setting can lose leases, a
       right is missing, a fleet has no worker or too few, or space is short
   64  bad usage, or bad input: the message names it
   65  a record is damaged, isn't tenure's, or is a newer version's; it is
       left as it is (see rm --damaged, which takes none of a newer version)
   66  no such record, or nobody holds it
   69  the store can't be reached, or fails; ready: the agent is not ready
   70  tenure itself failed
   73  work without --name: all units were done by an earlier run; nothing
       was run (see --fresh)
   75  held by another (run --try, or --wait is over; wait: held still;
       range: all of it; work --fresh, work rm, fleet rm: others are at work;
       revoke, release: no longer by whom it was shown to be; rm: the record
       has changed)
   76  the lease was lost or withdrawn, or its time was over, while CMD ran;
       CMD was stopped, or had ended before that was found (also: CMD can't
       be killed, so its lease is left to expire)
  126  CMD can't be executed
  127  CMD isn't found
128+N  ended by signal N (130: interrupted)
Any other status is that of the CMD of `run`, `elect` or `range`, which is
passed on.";

/// How the user has asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// By this signal to this process.
    Signal(i32),
    /// By an interrupt of the terminal that was lent to the command.
    Keyboard,
}

impl Asked {
    pub(crate) fn signal(self) -> i32 {
        match self {
            Asked::Signal(signal) => signal,
            Asked::Keyboard => nix::sys::signal::Signal::SIGINT as i32,
        }
    }

    /// Ends this process by the signal, as one that doesn't handle it: a shell or a program that called it sees why it
    /// ended, and a script does not go on. Returns if that is not to be.
    pub(crate) fn end(self) {
        if self == Asked::Keyboard {
            // The terminal would have sent it to all of our group, had the command been in it: to the script that called us, too.
            let _nobody = nix::sys::signal::killpg(nix::unistd::getpgrp(), nix::sys::signal::Signal::SIGINT);
        }
        end_by_default(self.signal());
    }
}

/// Ends this process as the signal does where nobody handles it. Returns where that is not to be: the first process of a container is
/// spared by all signals that it does not handle, so that raising one there would end in a crash.
pub(crate) fn end_by_default(signal: i32) {
    if std::process::id() != 1 {
        let _returned = signal_hook::low_level::emulate_default_handler(signal);
    }
}

/// Why a verb ends without having done what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// What is said on standard error; nothing if it is empty.
    pub(crate) text: String,
    /// The signal that this process ends by, so that whoever called it knows.
    pub(crate) by: Option<Asked>,
    /// The user does not want to wait for anything.
    pub(crate) is_urgent: bool,
}

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Failure {
        Failure { code, text: text.into(), by: None, is_urgent: false }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure::new(USAGE, text)
    }

    /// What the store says of `key`. What is wrong with the key itself names it already.
    pub(crate) fn about(key: &Key, error: StoreError) -> Failure {
        let is_named = error.kind() == ErrorKind::Invalid;
        let failure = Failure::from(error);
        if is_named { failure } else { Failure::new(failure.code, format!("{key}: {}", failure.text)) }
    }

    /// There is no thread to be had for something that is needed.
    pub(crate) fn no_thread(error: std::io::Error) -> Failure {
        let text = format!("no thread can be started: {error}; allow more processes (ulimit -u), or memory");
        Failure::new(INTERNAL, text)
    }

    /// All has been said already.
    pub(crate) fn silent(code: u8) -> Failure {
        Failure::new(code, String::new())
    }

    /// Whether nothing more is to be said, and nobody has asked to stop.
    pub(crate) fn is_silent(&self) -> bool {
        self.by.is_none() && self.text.is_empty()
    }

    pub(crate) fn by_signal(signal: i32) -> Failure {
        Failure::asked(Asked::Signal(signal))
    }

    /// The user has asked to stop.
    pub(crate) fn asked(by: Asked) -> Failure {
        let code = SIGNAL.saturating_add(u8::try_from(by.signal()).unwrap_or(0));
        Failure { by: Some(by), ..Failure::silent(code) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<InvalidInput> for Failure {
    fn from(error: InvalidInput) -> Self {
        Failure::usage(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match error.kind() {
            ErrorKind::Invalid | ErrorKind::Unsupported => USAGE,
            ErrorKind::Foreign => DAMAGED,
            _ => UNAVAILABLE,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Store(error) => error.into(),
            AcquireError::Held(_) => Failure::new(HELD, error.to_string()),
            AcquireError::Absent => Failure::new(ABSENT, error.to_string()),
            error => Failure::new(INTERNAL, error.to_string()),
        }
    }
}

impl<T> From<OnceError<T>> for Failure {
    fn from(error: OnceError<T>) -> Self {
        match error {
            OnceError::Acquire(error) => error.into(),
            error => Failure::new(INTERNAL, error.to_string()),
        }
    }
}

impl From<LeaseError> for Failure {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Store(error) => error.into(),
            LeaseError::Lost(_) | LeaseError::NotOurs(_) => Failure::new(LOST, error.to_string()),
            LeaseError::NotHeld => Failure::new(ABSENT, error.to_string()),
            error => Failure::new(INTERNAL, error.to_string()),
        }
    }
}
