//! Processes of a run: each ends with its handle, and with the thread that started it.

use crate::raw;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Whether what bears this process id, which its name begins with, is left of a run that has ended. A name without one is not.
pub(crate) fn is_left_over(name: &str) -> bool {
    let pid: String = name.chars().take_while(char::is_ascii_digit).collect();
    !pid.is_empty() && !Path::new("/proc").join(pid).exists()
}

/// Runs a program that must succeed; tells what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} did not start: {error}", command.get_program().to_string_lossy()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{} {}: {}: {}",
        command.get_program().to_string_lossy(),
        words.join(" "),
        output.status,
        said.trim()
    ))
}

/// Where a process runs: on the host, or on a machine of a network, which is a namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetNamespace(pub(crate) Option<String>);

impl NetNamespace {
    /// `program` there. Variables reach the program alone: what is preloaded is for it, not for those who start it.
    pub(crate) fn command(&self, program: &Path, user: Option<&str>, env: &[(&str, String)]) -> Command {
        let mut words: Vec<String> = Vec::new();
        if let Some(namespace) = &self.0 {
            words.extend(["ip", "netns", "exec", namespace].map(str::to_owned));
        }
        // Nothing outlives the run, even if that is killed.
        words.extend(["setpriv", "--pdeathsig", "KILL"].map(str::to_owned));
        if let Some(user) = user {
            words.extend(["--reuid", user, "--regid", user, "--init-groups"].map(str::to_owned));
        }
        words.extend(["--", "env"].map(str::to_owned));
        words.extend(env.iter().map(|(name, value)| format!("{name}={value}")));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program);
        command
    }
}

/// A process that ends with this value, with all that descends from it.
#[derive(Debug)]
pub(crate) struct OwnedProcess {
    child: Child,
}

impl OwnedProcess {
    /// One whose output goes to a file.
    pub(crate) fn logged(command: &mut Command, log: &Path) -> Result<OwnedProcess, String> {
        let error = |error| format!("{}: {error}", log.display());
        let out = std::fs::File::options().create(true).append(true).open(log).map_err(error)?;
        let err = out.try_clone().map_err(error)?;
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let child = child.map_err(|error| format!("a process did not start: {error}"))?;
        Ok(OwnedProcess { child })
    }

    /// One that is told lines, and whose own lines `hear` gets, on a thread of its own.
    pub(crate) fn talking(
        command: &mut Command,
        mut hear: impl FnMut(&str) + Send + 'static,
    ) -> Result<OwnedProcess, String> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("a process did not start: {error}"))?;
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                // What was cut off by a kill has no end of line, and is no line.
                let mut lines = BufReader::new(out);
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|count| count > 0) && line.ends_with('\n') {
                    hear(line.trim_end());
                    line.clear();
                }
            });
        }
        Ok(OwnedProcess { child })
    }

    /// Tells it a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), String> {
        let told = match &mut self.child.stdin {
            Some(stdin) => stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush()),
            None => Ok(()),
        };
        told.map_err(|error| format!("a process was told {line:?} and is gone: {error}"))
    }

    /// Sends it a signal, and all that descends from it.
    pub(crate) fn signal(&self, signal: Signal) {
        for pid in self.family() {
            // One that is gone is as good.
            let _ = kill_process(pid, signal);
        }
    }

    /// How many of these processes stand still.
    pub(crate) fn stopped(&self) -> u64 {
        let is_stopped =
            |pid: &Pid| field(pid.as_raw_nonzero().get().unsigned_abs(), 0).is_some_and(|state| state == "T");
        self.family().iter().filter(|pid| is_stopped(pid)).count() as u64
    }

    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn end(&mut self, signal: Signal, limit: Duration) {
        let start = raw::now();
        self.signal(signal);
        while !self.has_ended() && raw::since(start) < limit {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }

    /// The process and its descendants. A child of PostgreSQL's has a process group of its own.
    fn family(&self) -> Vec<Pid> {
        let mut family = vec![self.child.id()];
        let parents = parents();
        let mut known = 0;
        while known < family.len() {
            let parent = family[known];
            family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
            known += 1;
        }
        family.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).collect()
    }
}

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// All processes, each with its parent.
fn parents() -> Vec<(u32, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, field(pid, 1)?.parse().ok()?))).collect()
}

/// What Linux tells of a process, by the place after its name.
fn field(pid: u32, place: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have any character.
    stat.rsplit_once(')')?.1.split_whitespace().nth(place).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    //! Plan: a process that is stopped is told from one that is not, and so are those below it.
    use super::*;
    use std::process::Stdio;

    #[test]
    fn processes_that_stand_still_are_counted() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600; true"]).stdin(Stdio::null());
        let process = OwnedProcess { child: command.spawn().unwrap() };
        let until = |what: &dyn Fn() -> bool| {
            while !what() {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        // A shell that is just starting its command stands still with it, but not as one that is stopped.
        let name = |pid: &Pid| std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        let sleeps = |pid: &Pid| name(pid).is_ok_and(|name| name.trim() == "sleep");
        until(&|| process.family().get(1).is_some_and(sleeps));
        assert_eq!(process.stopped(), 0);
        process.signal(Signal::STOP);
        until(&|| process.stopped() == 2);
        process.signal(Signal::CONT);
        until(&|| process.stopped() == 0);
    }
}
