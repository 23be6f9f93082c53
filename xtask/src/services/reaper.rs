//! What ends the servers of a run that was itself killed: then no destructor of ours runs. It is a process that reads, from a pipe,
//! which servers there are. The kernel closes the pipe at our end, however it comes.

use super::server::{Note, Server};
use super::{KINDS, REAP};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The process, as long as we live.
#[derive(Debug)]
pub(super) struct Reaper {
    child: Child,
    told: Option<ChildStdin>,
}

impl Reaper {
    pub(super) fn start() -> Result<Reaper, String> {
        let error = |error| format!("what ends servers after a kill did not start: {error}");
        let mut program = Command::new(std::env::current_exe().map_err(error)?);
        // In a group of its own, since Ctrl-C at a terminal would end it with us.
        program.args(REAP).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = program.spawn().map_err(error)?;
        let told = child.stdin.take();
        Ok(Reaper { child, told })
    }

    /// Has it end this one, too.
    pub(super) fn tell(&mut self, server: &Server) -> Result<(), String> {
        let line = format!("{} {}\n", server.kind().file, server.note());
        let told = self.told.as_mut().map_or(Ok(()), |pipe| pipe.write_all(line.as_bytes()));
        told.map_err(|error| format!("what ends servers after a kill has ended itself: {error}"))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.told.take());
        let _ = self.child.wait();
    }
}

/// Reads to the end, which is that of whoever writes; then ends what still runs of the servers, the last one first.
pub(super) fn reap(input: impl std::io::Read) -> Result<(), String> {
    let servers = std::io::read_to_string(input).map_err(|error| format!("standard input: {error}"))?;
    for line in servers.lines().rev() {
        let named = line.split_once(' ').and_then(|(file, note)| {
            Some((KINDS.into_iter().find(|kind| kind.file == file)?, note.parse::<Note>().ok()?))
        });
        let (kind, note) = named.ok_or_else(|| format!("{line:?} names no server"))?;
        kind.end(note);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Plan: a server that still runs is ended, and its folder removed; one that has ended, whose id another process may have, is left alone.
    use super::*;
    use crate::services::etcd;

    /// Its command line is like a server's. The system shows that a moment after the start.
    #[allow(clippy::disallowed_methods, reason = "the system takes real time")]
    fn process(mark: &str) -> Child {
        let child = Command::new("sleep").arg0(mark).arg("600").stdin(Stdio::null()).spawn().unwrap();
        let shown = || std::fs::read_to_string(format!("/proc/{}/cmdline", child.id())).unwrap();
        while !shown().starts_with(mark) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child
    }

    #[test]
    fn servers_of_a_run_that_was_killed_are_ended() {
        let port = tenure_ports::unused_port().unwrap();
        let folder = etcd::KIND.folder(port, None).unwrap();
        let (mut server, mut other) = (process(etcd::KIND.mark), process("another"));
        let lines = format!("etcd {} {port}\nredis {} 1\n", server.id(), other.id());
        reap(lines.as_bytes()).unwrap();
        assert!(!server.wait().unwrap().success());
        assert!(!folder.exists());
        assert_eq!(other.try_wait().unwrap(), None, "its command line is no server's");
        other.kill().and_then(|()| other.wait()).unwrap();
    }

    #[test]
    fn what_it_is_told_is_understood_or_refused() {
        assert!(reap(&b"nobody 1 2\n"[..]).unwrap_err().contains("nobody"));
        assert_eq!(reap(&b""[..]), Ok(()));
    }
}
