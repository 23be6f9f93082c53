//! `tenure ready`: one question to an agent, as probes ask it.

use crate::args::serve::ReadyArgs;
use crate::config::serve::is_in_tmp;
use crate::exit::{self, Failure};
use crate::text::escaped;
use nix::unistd::{Uid, geteuid};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// For each step. The agent itself waits for its store for two seconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// No answer of an agent is longer.
const MOST: u64 = 64 * 1024;
const QUESTION: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: agent\r\nconnection: close\r\n\r\n";

pub(crate) fn ready(typed: &ReadyArgs) -> Result<u8, Failure> {
    let socket = typed.socket()?;
    let place = escaped(&socket.to_string_lossy());
    let failed =
        |why: &str| Failure::new(exit::UNAVAILABLE, format!("the agent at {place} is not ready: {why}"));
    let user = is_in_tmp(&socket).then(geteuid);
    let answer = asked(&socket, user).map_err(|error| failed(&error.to_string()))?;
    if status(&answer) == Some("200") {
        return Ok(exit::OK);
    }
    Err(failed(&reason(&answer)))
}

/// Asks whoever listens there; where a user is named, only that one's agent or root's.
fn asked(socket: &Path, user: Option<Uid>) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    if let Some(user) = user {
        check_listener(&stream, user)?;
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(QUESTION)?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// In /tmp another user may have come first, and would answer in the agent's place.
fn check_listener(stream: &UnixStream, user: Uid) -> std::io::Result<()> {
    let listener = listener(stream)?;
    if listener == user || listener.is_root() {
        return Ok(());
    }
    Err(std::io::Error::other(format!(
        "the user with the id {listener} listens there; set XDG_RUNTIME_DIR, or name the agent by its address"
    )))
}

/// The user of the process that listens at the other end.
#[cfg(target_os = "linux")]
fn listener(stream: &UnixStream) -> nix::Result<Uid> {
    use nix::sys::socket::{getsockopt, sockopt};
    Ok(Uid::from_raw(getsockopt(stream, sockopt::PeerCredentials)?.uid()))
}

#[cfg(not(target_os = "linux"))]
fn listener(stream: &UnixStream) -> nix::Result<Uid> {
    nix::unistd::getpeereid(stream).map(|(user, _)| user)
}

fn status(answer: &str) -> Option<&str> {
    answer.strip_prefix("HTTP/1.1 ")?.split(' ').next()
}

/// What the agent says of it; else what came in the place of that.
fn reason(answer: &str) -> String {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let told: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = told.as_ref().and_then(|told| told["message"].as_str());
    let first = answer.lines().next().filter(|line| !line.is_empty()).unwrap_or("it says nothing");
    escaped(message.unwrap_or(first))
}

#[cfg(test)]
mod tests {
    //! Plan: answers of an agent, of something else, and none; a listener of another user. That it is asked is a test of real agents.
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    /// Answers as an agent at a socket that it makes as this user, and tells once it listens.
    const LISTENER: &str = "import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as own:
    own.bind(sys.argv[1])
    own.listen()
    print(flush=True)
    while True:
        with own.accept()[0] as asked:
            if asked.recv(1024):
                asked.sendall(b'HTTP/1.1 200 OK')
";

    #[test]
    fn where_another_user_may_have_come_first_only_an_own_agent_or_root_s_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let socket = folder.path().join("agent.sock");
        // Where this runs as root, somebody else listens; and elsewhere this is somebody else for the moment.
        let (listener, other) = match geteuid().as_raw() {
            0 => (65_534, 0),
            own => (own, own + 1),
        };
        let mut command = Command::new("python3");
        command.args(["-c", LISTENER]).arg(&socket).arg(listener.to_string()).stdout(Stdio::piped());
        let mut running = command.spawn().unwrap();
        running.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let refused = asked(&socket, Some(Uid::from_raw(other))).map_err(|error| error.to_string());
        let believed = [Some(Uid::from_raw(listener)), None].map(|user| asked(&socket, user));
        running.kill().unwrap();
        running.wait().unwrap();
        let says = format!("the user with the id {listener} listens there; ");
        assert!(refused.as_ref().is_err_and(|error| error.starts_with(&says)), "{refused:?}");
        assert!(
            believed.iter().flatten().filter_map(|answer| status(answer)).eq(["200", "200"]),
            "{believed:?}"
        );
    }

    #[test]
    fn an_answer_is_read_whoever_gives_it() {
        for (answer, expected, why) in [
            ("HTTP/1.1 200 OK\r\nx: y\r\n\r\nok\n", Some("200"), "HTTP/1.1 200 OK"),
            (
                "HTTP/1.1 503 Service Unavailable\r\n\r\n{\"code\":\"stopping\",\"message\":\"it\\nstops\"}",
                Some("503"),
                "it\\nstops",
            ),
            ("HTTP/1.1 404 Not Found\r\n\r\nno", Some("404"), "HTTP/1.1 404 Not Found"),
            ("220 mail", None, "220 mail"),
            ("", None, "it says nothing"),
        ] {
            assert_eq!((status(answer), reason(answer).as_str()), (expected, why), "{answer:?}");
        }
    }
}
