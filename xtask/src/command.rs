//! Programs of the system: run to their end, and as another user.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program that must succeed; what it prints.
pub(crate) fn run(program: &mut Command) -> Result<String, String> {
    let output = program.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program:?} did not start: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    let quiet = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

/// Whether we may do everything.
pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// `program` as another user, in a process of the same id, where we are root; as we are otherwise.
pub(crate) fn command_as(user: &str, program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--init-groups", "--"]).arg(program);
    command
}
