//! Commands of sh(1) beside the one that is run: they tell others of what becomes of a lease, and must not hold it up for ever.

use super::kill::signal_group;
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A hook that takes longer is killed: the next one waits for it.
const LONGEST: Duration = Duration::from_secs(60);

/// `command`, for sh(1), without input.
pub(crate) fn shell(command: &OsStr) -> Command {
    let mut shell = Command::new("sh");
    // The address of TENURE_METRICS is taken, by us.
    shell.arg("-c").arg(command).stdin(Stdio::null()).env_remove("TENURE_METRICS");
    shell
}

/// Runs it to its end, and tells how it ended; or until `is_over`, when nobody asks for that.
pub(crate) fn run(hook: &mut Command, is_over: &AtomicBool) -> std::io::Result<Option<ExitStatus>> {
    const STEP: Duration = Duration::from_millis(10);
    let mut child = hook.process_group(0).spawn()?;
    let mut left = LONGEST;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let is_over = is_over.load(Ordering::SeqCst);
        if is_over || left.is_zero() {
            signal_group(i32::try_from(child.id()).unwrap_or(0), Signal::SIGKILL);
            child.wait()?;
            if is_over {
                return Ok(None);
            }
            return Err(std::io::Error::other(format!("killed after {LONGEST:?}")));
        }
        std::thread::sleep(STEP);
        left = left.saturating_sub(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_does_not_find_the_address_at_which_we_listen() {
        let hook = shell(OsStr::new("true"));
        assert!(hook.get_envs().any(|(name, value)| name == "TENURE_METRICS" && value.is_none()));
    }
}
