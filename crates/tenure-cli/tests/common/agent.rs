//! A lease agent, and a client of it that speaks HTTP by hand: what goes over the wire is what is tested.

use super::{Bench, Process, wait_for};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// `tenure serve`, at a socket of its own.
pub struct Agent {
    pub process: Process,
    pub socket: PathBuf,
}

impl Agent {
    /// One on the bench's store that is ready.
    #[track_caller]
    pub fn start(bench: &Bench, more: &[&str]) -> Agent {
        let socket = bench.path("agent.sock");
        let listen = format!("unix:{}", socket.display());
        Agent::of(bench.tenure(&[&["serve", "--listen", &listen], more].concat()), socket)
    }

    /// What this command starts, at this socket.
    #[track_caller]
    pub fn of(mut command: Command, socket: PathBuf) -> Agent {
        let process = Process::from(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let agent = Agent { process, socket };
        wait_for("the agent to listen", || UnixStream::connect(&agent.socket).ok());
        agent
    }

    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(&self.socket)
    }
}

/// One connection.
pub struct Client {
    stream: BufReader<UnixStream>,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Client {
    #[track_caller]
    pub fn connect(socket: &Path) -> Client {
        let stream = wait_for("a connection", || UnixStream::connect(socket).ok());
        stream.set_read_timeout(Some(super::LONG)).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    /// Sends a request without waiting for what is answered.
    pub fn send(&mut self, method: &str, path: &str, body: Option<&Value>) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: tenure\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.stream.get_mut().write_all((head + &body).as_bytes()).unwrap();
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The answer to what was sent.
    pub fn answer(&mut self) -> Answer {
        let status = self.line();
        let status =
            status.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {status:?}")).parse().unwrap();
        let mut length = 0;
        loop {
            let line = self.line().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(told) = line.strip_prefix("content-length:") {
                length = told.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        let body = serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
        Answer { status, body }
    }

    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.send(method, path, body);
        self.answer()
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }

    pub fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, Some(body))
    }

    /// A lease that is free.
    #[track_caller]
    pub fn acquire(&mut self, key: &str) -> Told {
        self.acquire_with(&json!({ "key": key }))
    }

    #[track_caller]
    pub fn acquire_with(&mut self, wish: &Value) -> Told {
        let answer = self.post("/v1/leases", wish);
        assert_eq!(answer.status, 201, "{answer:?}");
        Told(answer.body)
    }

    pub fn beat(&mut self, told: &Told) -> Answer {
        self.post(&format!("/v1/leases/{}/beat", told.id()), &json!({}))
    }

    pub fn release(&mut self, told: &Told) -> Answer {
        self.ask("DELETE", &format!("/v1/leases/{}", told.id()), None)
    }

    /// Listens to events from now on.
    pub fn listen(mut self) -> Events {
        self.send("GET", "/v1/events", None);
        let mut events = Events(self);
        while events.0.line() != ": listening" {}
        events
    }
}

/// What a client was told of a lease.
#[derive(Debug, Clone)]
pub struct Told(pub Value);

impl Told {
    pub fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }

    pub fn number(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// Until when its client believes, by CLOCK_BOOTTIME.
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.number("deadline_boottime_ms"))
    }
}

/// A stream of events.
pub struct Events(Client);

impl Events {
    /// Waits until there are no more of them.
    pub fn end(mut self) {
        let mut line = String::new();
        // A connection that is reset has ended, too.
        while self.0.stream.read_line(&mut line).is_ok_and(|read| read > 0) {}
    }

    /// The next of this kind.
    #[track_caller]
    pub fn next(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.0.stream.read_line(&mut line).unwrap() > 0, "no {kind}: the stream has ended");
            if let Some(data) = line.trim_end().strip_prefix("data: ") {
                let event: Value = serde_json::from_str(data).unwrap();
                if event["event"] == kind {
                    return event;
                }
            }
        }
    }
}
