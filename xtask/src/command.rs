//! Programs of the system: run to their end, as another user, with another priority, and apart from all others.

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

/// A chore's command, which is nicer than tests that wait.
pub(crate) fn nice(command: &Command) -> Command {
    by("nice", &["-n", "10"], command)
}

/// The command of what computes: whatever wakes up takes the core from it at once, however nice that is.
pub(crate) fn idle(command: &Command) -> Command {
    by("chrt", &["--idle", "0"], command)
}

/// The command in a namespace of processes, in which it finds nobody else's and of which nothing is left at its end. The first process there is to
/// wait for those that have lost their parents, as `init` does: a shell that does not become the command.
pub(crate) fn apart(command: &Command) -> Command {
    const SHELL: [&str; 3] = ["sh", "-c", r#""$0" "$@"; exit $?"#];
    by("unshare", &[&APART[..], &SHELL].concat(), command)
}

/// Whether we may make such namespaces: root may, but for in some containers.
pub(crate) fn can_be_apart() -> bool {
    succeeds("unshare", &[&APART[..], &["true"]].concat())
}

const APART: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// The command, started by a program that becomes it.
fn by(program: &str, words: &[&str], command: &Command) -> Command {
    let mut started = Command::new(program);
    started.args(words).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        started.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => started.env(name, value),
            None => started.env_remove(name),
        };
    }
    started
}

#[cfg(test)]
mod tests {
    //! Plan: a command that is apart finds itself and what waits for it, no more, keeps its words and its exit code, and leaves nothing behind.
    use super::*;

    #[test]
    fn a_command_that_is_apart_finds_nobody_elses_processes_and_leaves_none() {
        if !can_be_apart() {
            println!("no namespaces here: programs that need one run alone");
            return;
        }
        let script =
            "echo $$ $1; n=0; for p in /proc/[0-9]*; do n=$((n + 1)); done; echo $n; sleep 60 & exit 7";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", "one word"]);
        // Its output ends when nobody is left who could write to it.
        let done = apart(&command).stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!((done.status.code(), told.as_str()), (Some(7), "2 one word\n2\n"));
    }
}
