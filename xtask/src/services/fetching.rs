//! Fetching beside what compiles: it waits for others' servers and for the disk, while the compiler has the cores.
#![allow(clippy::disallowed_methods, reason = "chores take real time")]

use crate::step::CheckStep;
use std::cell::RefCell;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// The words of the chore that fetches all that tests need, and nothing else.
pub(crate) const WORDS: [&str; 2] = ["services", "fetch"];

/// A process of this program that fetches.
#[derive(Debug, Default)]
struct Fetching(RefCell<Option<(Child, PathBuf)>>);

/// The step that begins to fetch all that tests need, and the one that waits for its end.
pub(crate) fn steps(log: PathBuf) -> (CheckStep, CheckStep) {
    let begins = Rc::<Fetching>::default();
    let ends = Rc::clone(&begins);
    (
        CheckStep::check("what tests need begins to be fetched", move || {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            begins.begin(Command::new(program).args(WORDS), log)
        }),
        CheckStep::check("what tests need is fetched", move || ends.end()),
    )
}

impl Fetching {
    fn begin(&self, command: &mut Command, log: PathBuf) -> Result<(), String> {
        let error = |error| format!("{}: {error}", log.display());
        let folder = log.parent().map_or(Ok(()), std::fs::create_dir_all);
        let out = folder.and_then(|()| std::fs::File::create(&log)).map_err(error)?;
        let err = out.try_clone().map_err(error)?;
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let child = child.map_err(|error| format!("{command:?} did not start: {error}"))?;
        self.0.replace(Some((child, log)));
        Ok(())
    }

    /// Waits, and shows what it printed.
    fn end(&self) -> Result<(), String> {
        let Some((mut child, log)) = self.0.take() else { return Ok(()) };
        let status = child.wait().map_err(|error| error.to_string())?;
        let mut printed = Vec::new();
        let read = std::fs::File::open(&log).and_then(|mut file| file.read_to_end(&mut printed));
        read.map_err(|error| format!("{}: {error}", log.display()))?;
        println!("{}", String::from_utf8_lossy(&printed).trim_end());
        if status.success() { Ok(()) } else { Err(format!("{status}; see above, or {}", log.display())) }
    }
}

/// Where a step before has failed, it is let finish: what installs packages must not be killed in the middle of one.
impl Drop for Fetching {
    fn drop(&mut self) {
        // Whatever came of it, something else is told.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what is fetched well, and what fails, which is waited for.
    use super::*;

    #[test]
    fn its_end_is_waited_for_and_a_failure_is_one() {
        let folder = std::env::temp_dir().join(format!("tenure-fetching-{}", std::process::id()));
        let run = |script: &str| {
            let fetching = Fetching::default();
            fetching.begin(Command::new("sh").args(["-c", script]), folder.join("log")).unwrap();
            fetching.end()
        };
        assert_eq!(run(&format!("sleep 0.1; touch {}/done", folder.display())), Ok(()));
        assert!(folder.join("done").exists());
        assert!(run("echo no network; exit 3").unwrap_err().contains("exit status: 3"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Fetching::default().end(), Ok(()), "nothing was begun");
    }
}
