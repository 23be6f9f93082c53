//! One server on loopback: how a kind of it is started, and how one that runs is stopped.

use super::workshop;
use crate::command::run;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tenure_ports::unused_port;

/// A kind of server, by what differs between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerKind {
    /// For people.
    pub(super) name: &'static str,
    /// What its log and its note are called.
    pub(super) file: &'static str,
    /// What the command line of its process contains, and no other's does.
    pub(super) mark: &'static str,
    /// Fetches or installs it.
    pub(super) fetch: fn() -> Result<(), String>,
    /// Starts it at a port; where it was told which other ports there are.
    pub(super) spawn: fn(port: u16, others: &Ports) -> Result<Child, String>,
    /// What asks it to end in good order.
    pub(super) signal: &'static str,
}

/// Where all servers of a run listen, by kind.
pub(super) type Ports = std::collections::BTreeMap<&'static str, u16>;

impl ServerKind {
    pub(super) fn log(&self) -> PathBuf {
        workshop().unwrap_or_default().join(format!("{}.log", self.file))
    }

    /// Starts its program, whose output goes to its log.
    pub(super) fn start(&self, program: &mut Command) -> Result<Child, String> {
        let path = self.log();
        let error = |error| format!("{}: {error}", path.display());
        let out = std::fs::File::create(&path).map_err(error)?;
        let err = out.try_clone().map_err(error)?;
        let started = program.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        started.map_err(|error| format!("{} did not start: {error}", self.name))
    }

    /// Where the folder is of the one at this port.
    pub(super) fn place(&self, port: u16) -> PathBuf {
        std::env::temp_dir().join(format!("tenure-{}-{port}", self.file))
    }

    /// Makes that folder, empty, for the user which it runs as. It is not in our target: that one may be unreadable to others.
    pub(super) fn folder(&self, port: u16, owner: Option<&str>) -> Result<PathBuf, String> {
        let path = self.place(port);
        let error = |error: std::io::Error| format!("{}: {error}", path.display());
        // What an earlier run left there; that there was none is no mistake.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).map_err(error)?;
        if let Some(owner) = owner {
            run(Command::new("chown").arg(owner).arg(&path))?;
        }
        Ok(path)
    }

    /// What is written down of a server that outlives us: its process's id, and its port.
    fn note(&self) -> Result<PathBuf, String> {
        Ok(workshop()?.join(format!("{}.pid", self.file)))
    }

    fn noted(&self) -> Result<Option<Note>, String> {
        let Ok(text) = std::fs::read_to_string(self.note()?) else { return Ok(None) };
        Ok(text.parse().ok())
    }

    /// Whether the process of this id is still the one that we started: ids are used again.
    fn is_ours(&self, pid: u32) -> bool {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(self.mark)
    }

    /// Has one that goes on after us; tells its port.
    pub(super) fn up(&self, others: &Ports) -> Result<u16, String> {
        if let Some(note) = self.noted()?.filter(|note| self.is_ours(note.pid)) {
            return Ok(note.port);
        }
        let port = unused_port()?;
        let mut server = Server::start(*self, port, others)?;
        server.await_answer()?;
        let note = server.note();
        std::mem::forget(server);
        let path = self.note()?;
        std::fs::write(&path, format!("{note}\n")).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(port)
    }

    pub(super) fn down(&self) -> Result<(), String> {
        if let Some(note) = self.noted()?.filter(|note| self.is_ours(note.pid)) {
            signal(self.signal, note.pid)?;
        }
        // That there was no note is no mistake.
        let _ = std::fs::remove_file(self.note()?);
        Ok(())
    }

    /// Ends one that was started by a process which is no more, and removes its folder.
    pub(super) fn end(&self, note: Note) {
        self.end_while(note, || self.is_ours(note.pid));
    }

    /// Asks a server to end for as long as it `lives`, ends it without its leave if it does not, and removes its folder.
    #[allow(clippy::disallowed_methods, reason = "chores take real time")]
    fn end_while(&self, Note { pid, port }: Note, mut lives: impl FnMut() -> bool) {
        // One that has ended meanwhile can't be asked to, which is as good.
        for (signal_name, limit) in [(self.signal, END_LIMIT), ("-KILL", KILL_LIMIT)] {
            let start = Instant::now();
            let asked = lives() && signal(signal_name, pid).is_ok();
            while asked && lives() && start.elapsed() < limit {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // One that keeps nothing on disk has no folder.
        let _ = std::fs::remove_dir_all(self.place(port));
    }
}

/// Long enough for a server that was killed in the middle of a checkpoint; then it goes without its leave.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Nothing outlives this signal for longer, unless the disk hangs.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// Which process a server is, and where it listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    pid: u32,
    port: u16,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.pid, self.port)
    }
}

impl std::str::FromStr for Note {
    type Err = String;

    fn from_str(text: &str) -> Result<Note, String> {
        let mut words = text.split_whitespace();
        let mut next = || words.next().ok_or_else(|| format!("{text:?} is no process and port"));
        let (pid, port) = (next()?, next()?);
        let error = |error: std::num::ParseIntError| format!("{text:?}: {error}");
        Ok(Note { pid: pid.parse().map_err(error)?, port: port.parse().map_err(error)? })
    }
}

fn signal(signal: &str, pid: u32) -> Result<(), String> {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).stdin(Stdio::null()).status();
    if sent.as_ref().is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err(format!("kill {signal} {pid}: {sent:?}"))
    }
}

/// A server that ends with this value.
#[derive(Debug)]
pub(super) struct Server {
    kind: ServerKind,
    port: u16,
    child: Child,
}

impl Server {
    pub(super) fn start(kind: ServerKind, port: u16, others: &Ports) -> Result<Server, String> {
        Ok(Server { kind, port, child: (kind.spawn)(port, others)? })
    }

    pub(super) fn kind(&self) -> &ServerKind {
        &self.kind
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn note(&self) -> Note {
        Note { pid: self.child.id(), port: self.port }
    }

    /// Waits until it takes connections.
    #[allow(clippy::disallowed_methods, reason = "chores take real time")]
    pub(super) fn await_answer(&mut self) -> Result<(), String> {
        /// A busy machine takes some seconds.
        const LIMIT: Duration = Duration::from_secs(90);
        let (name, log) = (self.kind.name, self.kind.log());
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{name} has ended ({status}); see {}", log.display()));
            }
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("{name} does not listen after {} s; see {}", LIMIT.as_secs(), log.display()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let (kind, note) = (self.kind, self.note());
        kind.end_while(note, || matches!(self.child.try_wait(), Ok(None)));
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a process that isn't ours is not taken for a server; a server that ends at once is an error that names its log, not a
    //! wait.
    use super::super::dynamodb;
    use super::*;

    #[test]
    fn a_process_that_is_not_a_server_is_left_alone() {
        assert!(!dynamodb::KIND.is_ours(std::process::id()));
    }

    #[test]
    fn a_server_that_ends_is_an_error() {
        let child = Command::new("false").stdin(Stdio::null()).spawn().unwrap();
        let mut server = Server { kind: dynamodb::KIND, port: unused_port().unwrap(), child };
        let error = server.await_answer().unwrap_err();
        assert!(error.contains("has ended") && error.contains("dynamodb.log"), "{error}");
    }
}
