//! The mark of a tenure process: a variable in the environment of all that it has started, by which that is told from everything else.

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::time::Duration;

/// The environment variable that marks what tenure has started, with a value that no other tenure process has.
pub(super) const MARK: &str = "TENURE_MARK";

/// The marks in the environment that a process was started with, from that of the outermost tenure to that of the innermost.
/// None if it has none, or they may not be read.
pub(super) fn marks_of(pid: i32) -> Vec<String> {
    settled_marks_of(pid, &Cell::new(0))
}

/// The same of a process that may be just about to become another program: it shows no environment for a moment then, and is looked at again, as long
/// as there are `tries` left.
pub(super) fn settled_marks_of(pid: i32, tries: &Cell<u32>) -> Vec<String> {
    const MOMENT: Duration = Duration::from_millis(1);
    let read = || std::fs::read(format!("/proc/{pid}/environ"));
    let mut environment = read();
    while tries.get() > 0 && environment.as_ref().is_ok_and(Vec::is_empty) {
        tries.set(tries.get() - 1);
        std::thread::sleep(MOMENT);
        environment = read();
    }
    let environment = environment.unwrap_or_default();
    let name = format!("{MARK}=");
    let value =
        environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(name.as_bytes()));
    let value = value.map(|value| OsString::from_vec(value.to_vec()).to_string_lossy().into_owned());
    value.map(|value| value.split(':').map(str::to_owned).collect()).unwrap_or_default()
}

/// Whether `mark` is that of a command of the tenure process that marks with `whose`.
pub(super) fn is_of(mark: &str, whose: &str) -> bool {
    mark.strip_prefix(whose).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The list of marks of a command: those of the commands that we run in, and its own.
pub(super) fn marked(own: &str) -> String {
    match std::env::var(MARK) {
        Ok(outer) if !outer.is_empty() => format!("{outer}:{own}"),
        _ => own.to_owned(),
    }
}

/// Marks what is started beside the commands, so that it is not taken for something of theirs.
pub(crate) fn mark_beside(command: &mut Command, holder: &str) {
    command.env(MARK, marked(&format!("{}.beside", holder.replace(':', "_"))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_belongs_to_one_process_alone() {
        assert!(is_of("h-1.7", "h-1") && is_of("h-1", "h-1"));
        assert!(!is_of("h-12", "h-1") && !is_of("h-1-hook", "h-1") && !is_of("h", "h-1"));
    }
}
