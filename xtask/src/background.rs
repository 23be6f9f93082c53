//! Commands beside the steps: what waits for others' servers and for the disk, or leaves a core idle, while the steps have the cores.
#![allow(clippy::disallowed_methods, reason = "chores take real time")]

use crate::step::CheckStep;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long nobody looks whether a command has ended.
const LOOK: Duration = Duration::from_millis(50);

/// What becomes of the commands when a step before their end has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtFailure {
    /// They are let finish: what installs packages must not be killed in the middle of one.
    Finish,
    /// The one that runs is killed, and no other is begun.
    Stop,
}

/// Commands that run one after another until one fails. They have the priority of the steps: what is built as one unit after another takes longest.
#[derive(Debug)]
struct Background {
    running: RefCell<Option<Running>>,
    at_failure: AtFailure,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<Result<(), String>>,
    is_stopped: Arc<AtomicBool>,
    log: PathBuf,
}

/// The step that begins the commands that are told then, and the one that waits for their end and shows what they printed; by these names.
pub(crate) fn steps(
    [begin, end]: [&str; 2],
    commands: impl FnOnce() -> Result<Vec<Command>, String> + 'static,
    log: PathBuf,
    at_failure: AtFailure,
) -> (CheckStep, CheckStep) {
    let begins = Rc::new(Background { running: RefCell::default(), at_failure });
    let ends = Rc::clone(&begins);
    (
        CheckStep::check(begin, move || begins.begin(commands()?, log)),
        CheckStep::check(end, move || ends.end()),
    )
}

impl Background {
    fn begin(&self, commands: Vec<Command>, log: PathBuf) -> Result<(), String> {
        let error = |error| format!("{}: {error}", log.display());
        let folder = log.parent().map_or(Ok(()), std::fs::create_dir_all);
        folder.and_then(|()| std::fs::write(&log, "")).map_err(error)?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (its_log, its_stop) = (log.clone(), Arc::clone(&is_stopped));
        let thread = std::thread::spawn(move || {
            commands.into_iter().try_for_each(|command| run(command, &its_log, &its_stop))
        });
        self.running.replace(Some(Running { thread, is_stopped, log }));
        Ok(())
    }

    /// Waits, and shows what they printed.
    fn end(&self) -> Result<(), String> {
        let Some(Running { thread, log, .. }) = self.running.take() else { return Ok(()) };
        let result = thread.join().unwrap_or_else(|_| Err("its thread panicked".into()));
        let printed = std::fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        println!("{}", String::from_utf8_lossy(&printed).trim_end());
        result.map_err(|error| format!("{error}; see above, or {}", log.display()))
    }
}

/// Runs a command to its end, unless it is stopped.
fn run(mut command: Command, log: &Path, is_stopped: &AtomicBool) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let error = |error| format!("{program} did not start: {error}");
    let out = std::fs::OpenOptions::new().append(true).open(log).map_err(error)?;
    let err = out.try_clone().map_err(error)?;
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(error)?;
    loop {
        if is_stopped.load(Ordering::Relaxed) {
            // That it has just ended by itself is as good.
            let _ = child.kill().and_then(|()| child.wait());
            return Err("stopped".into());
        }
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) => std::thread::sleep(LOOK),
            Err(error) => return Err(format!("{program} was lost: {error}")),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(running) = self.running.get_mut()
            && self.at_failure == AtFailure::Stop
        {
            running.is_stopped.store(true, Ordering::Relaxed);
        }
        // Whatever came of it, something else is told.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    //! Plan: commands that go well, in their order; one that fails, which is waited for; and what becomes of them when nobody waits for their end.
    use super::*;
    use std::time::Instant;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tenure-background-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn begun(scripts: &[String], folder: &Path, at_failure: AtFailure) -> Background {
        let background = Background { running: RefCell::default(), at_failure };
        let scripts = scripts.iter().map(|script| shell(script)).collect();
        background.begin(scripts, folder.join("log")).unwrap();
        background
    }

    #[test]
    fn their_end_is_waited_for_and_a_failure_is_one() {
        let folder = folder("end");
        let at = folder.display();
        let run = |scripts: &[String]| begun(scripts, &folder, AtFailure::Finish).end();
        assert_eq!(run(&[format!("sleep 0.1; touch {at}/a"), format!("mv {at}/a {at}/b")]), Ok(()));
        assert!(folder.join("b").exists());
        let failed = run(&["echo no network; exit 3".into(), format!("touch {at}/never")]);
        assert!(failed.unwrap_err().contains("exit status: 3"));
        assert!(!folder.join("never").exists());
        assert_eq!(std::fs::read_to_string(folder.join("log")).unwrap(), "no network\n");
        std::fs::remove_dir_all(&folder).unwrap();
        let nothing = Background { running: RefCell::default(), at_failure: AtFailure::Stop };
        assert_eq!(nothing.end(), Ok(()), "nothing was begun");
    }

    #[test]
    fn where_a_step_has_failed_they_are_let_finish_or_stopped() {
        let folder = folder("dropped");
        let at = folder.display();
        drop(begun(&[format!("sleep 0.1; touch {at}/finished")], &folder, AtFailure::Finish));
        assert!(folder.join("finished").exists());
        let start = Instant::now();
        let scripts = ["exec sleep 600".into(), format!("touch {at}/never")];
        drop(begun(&scripts, &folder, AtFailure::Stop));
        assert!(start.elapsed() < Duration::from_secs(60) && !folder.join("never").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
