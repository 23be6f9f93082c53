//! `tenure ready`: one question to an agent, as probes ask it.

use crate::args::serve::ReadyArgs;
use crate::exit::{self, Failure};
use crate::text::escaped;
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
    let answer = asked(&socket).map_err(|error| failed(&error.to_string()))?;
    if status(&answer) == Some("200") {
        return Ok(exit::OK);
    }
    Err(failed(&reason(&answer)))
}

fn asked(socket: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(QUESTION)?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
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
    //! Plan: answers of an agent, of something else, and none. That it is asked is a test of real agents.
    use super::*;

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
