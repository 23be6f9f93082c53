//! What is said to people: on standard error, one line at a time, with the program's name.

pub(crate) mod section;
pub(crate) mod view;

use crate::exit;
use crate::exit::Failure;
use std::io::{IsTerminal, Write};
use tenure::{LeaseError, Loss};

/// A line for the user. That nobody can read it is no reason to fail.
pub(crate) fn note(text: impl AsRef<str>) {
    // In one piece, as others may write to the same place.
    let line = format!("tenure: {}\n", text.as_ref());
    let _unread = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Writes a result to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(()),
        // As in `tenure ls | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Failure::silent(exit::OK)),
        Err(error) => Err(Failure::new(exit::INTERNAL, format!("standard output can't be written: {error}"))),
    }
}

/// One JSON document.
pub(crate) fn json(document: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{document:#}\n"))
}

/// Asks before something that can hurt. Without a terminal there is nobody to ask, and `--yes` is needed.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{question} Say --yes if so.")));
    }
    let _unread = write!(std::io::stderr().lock(), "{question} [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    match read {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::new(exit::USAGE, "nothing was changed")),
    }
}

/// A loss in words.
pub(crate) fn loss(loss: &Loss) -> String {
    LeaseError::Lost(loss.clone()).to_string()
}

/// Text with a colour if `stream` is a terminal that may have one.
pub(crate) fn coloured(text: &str, code: &str, stream: &impl IsTerminal) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || !stream.is_terminal();
    if plain { text.to_owned() } else { format!("\u{1b}[{code}m{text}\u{1b}[0m") }
}
