//! The servers that tests need, and the programs that share them: fetched if they are missing, started on loopback at a port of their own, stopped by id.

mod dynamodb;
mod maven;
mod peers;

use crate::step::Step;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What the tests of `tenure-dynamodb` and of the command line ask for.
const ENDPOINT: &str = "TENURE_TEST_DYNAMODB";

/// What DynamoDB Local takes, as it takes any; and nobody is to look for others.
const CREDENTIALS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "local"),
    ("AWS_SECRET_ACCESS_KEY", "local"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
];

/// What `cargo xtask services` was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Start them, and leave them running.
    Up,
    /// Stop those that are running.
    Down,
    /// Run a command with servers of its own, which end with it.
    Run(Vec<String>),
}

/// Understands the words after `services`.
pub(crate) fn parse(words: &[String]) -> Result<Asked, String> {
    match words {
        [word] if word == "up" => Ok(Asked::Up),
        [word] if word == "down" => Ok(Asked::Down),
        [word, dashes, command @ ..] if word == "run" && dashes == "--" && !command.is_empty() => {
            Ok(Asked::Run(command.to_vec()))
        }
        _ => Err(format!("\"services\" takes up, down, or run -- COMMAND; not {words:?}")),
    }
}

/// The steps; with `run`, servers that end when `Servers` is dropped.
pub(crate) fn steps(asked: Asked) -> Result<(Vec<Step>, Option<Rc<Servers>>), String> {
    match asked {
        Asked::Up => {
            let mut steps = Vec::from(fetch());
            steps.push(Step::check("up", up));
            Ok((steps, None))
        }
        Asked::Down => Ok((vec![Step::check("down", down)], None)),
        Asked::Run(words) => {
            let servers = Servers::new()?;
            let mut steps = Vec::from(fetch());
            steps.push(servers.start());
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            steps.push(servers.known_to(Step::command(&words[0], command))?);
            Ok((steps, Some(servers)))
        }
    }
}

/// Fetches what is missing of them, and of their partners in tests.
pub(crate) fn fetch() -> [Step; 2] {
    [
        Step::check("DynamoDB Local is fetched", || dynamodb::LIBRARY.fetch()),
        Step::check("the KCL is fetched", || peers::KCL.fetch()),
    ]
}

/// Fetches what only benches compare with.
pub(crate) fn fetch_for_benches() -> Step {
    Step::check("AWS's lock client is fetched", || peers::LOCK_CLIENT.fetch())
}

/// The servers of one run of steps. They end when this is dropped, however the steps ended.
#[derive(Debug)]
pub(crate) struct Servers {
    port: u16,
    dynamodb: std::cell::RefCell<Option<Server>>,
}

impl Servers {
    /// None of them runs yet, but it is known where they will listen.
    pub(crate) fn new() -> Result<Rc<Servers>, String> {
        Ok(Rc::new(Servers { port: free_port()?, dynamodb: Default::default() }))
    }

    /// Starts them, once they have been fetched.
    pub(crate) fn start(self: &Rc<Servers>) -> Step {
        let servers = Rc::clone(self);
        Step::check("DynamoDB Local is started", move || {
            *servers.dynamodb.borrow_mut() = Some(Server::start(servers.port)?);
            Ok(())
        })
    }

    /// The step with what it takes to find them.
    pub(crate) fn known_to(&self, step: Step) -> Result<Step, String> {
        let all = environment(self.port)?;
        Ok(all.into_iter().fold(step, |step, (name, value)| step.env(name, &value)))
    }
}

fn environment(port: u16) -> Result<Vec<(&'static str, String)>, String> {
    let mut all = vec![(ENDPOINT, format!("http://127.0.0.1:{port}"))];
    // For tests that start one of their own.
    all.extend(dynamodb::parts()?);
    all.extend(CREDENTIALS.map(|(name, value)| (name, value.to_owned())));
    for peer in [peers::KCL, peers::LOCK_CLIENT] {
        all.push((peer.variable, peer.class_path()?));
    }
    Ok(all)
}

/// A server that ends with this value.
#[derive(Debug)]
struct Server(Child);

impl Server {
    fn start(port: u16) -> Result<Server, String> {
        let mut server = Server(dynamodb::spawn(port)?);
        server.await_answer(port)?;
        Ok(server)
    }

    /// Waits until it takes connections.
    #[allow(clippy::disallowed_methods, reason = "chores take real time")]
    fn await_answer(&mut self, port: u16) -> Result<(), String> {
        /// A busy machine takes some seconds.
        const LIMIT: Duration = Duration::from_secs(90);
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Err(format!("DynamoDB Local has ended ({status}); see {}", log().display()));
            }
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("DynamoDB Local does not listen after {} s; see {}", LIMIT.as_secs(), log().display()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already can't be killed, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| format!("no port is free on loopback: {error}"))
}

/// Where downloads, logs and the ids of running servers are.
fn workshop() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let shop = target.join("services");
    std::fs::create_dir_all(&shop).map_err(|error| format!("{}: {error}", shop.display()))?;
    std::path::absolute(&shop).map_err(|error| format!("{}: {error}", shop.display()))
}

fn log() -> PathBuf {
    workshop().unwrap_or_default().join("dynamodb.log")
}

/// What is written down of a server that outlives us: its process's id, and its port.
fn note() -> Result<PathBuf, String> {
    Ok(workshop()?.join("dynamodb.pid"))
}

fn noted() -> Result<Option<(u32, u16)>, String> {
    let Ok(text) = std::fs::read_to_string(note()?) else { return Ok(None) };
    let mut words = text.split_whitespace();
    let both = words.next().zip(words.next());
    Ok(both.and_then(|(pid, port)| Some((pid.parse().ok()?, port.parse().ok()?))))
}

/// Whether the process of this id is still the one that we started: ids are used again.
fn is_ours(pid: u32) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(dynamodb::PROGRAM)
}

fn up() -> Result<(), String> {
    let port = match noted()?.filter(|(pid, _)| is_ours(*pid)) {
        Some((_, port)) => port,
        None => {
            let port = free_port()?;
            let server = Server::start(port)?;
            let pid = server.0.id();
            // It goes on after us.
            std::mem::forget(server);
            let path = note()?;
            std::fs::write(&path, format!("{pid} {port}\n"))
                .map_err(|error| format!("{}: {error}", path.display()))?;
            port
        }
    };
    println!("DynamoDB Local listens; for tests and the command line:\n");
    environment(port)?.iter().for_each(|(name, value)| println!("export {name}='{value}'"));
    Ok(())
}

fn down() -> Result<(), String> {
    if let Some((pid, _)) = noted()?.filter(|(pid, _)| is_ours(*pid)) {
        let killed = Command::new("kill").arg(pid.to_string()).stdin(Stdio::null()).status();
        if !killed.as_ref().is_ok_and(|status| status.success()) {
            return Err(format!("kill {pid}: {killed:?}"));
        }
    }
    // That there was no note is no mistake.
    let _ = std::fs::remove_file(note()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Plan: what may be asked; a step is told where the servers listen; a process that isn't ours is not taken for a server; a
    //! server that ends at once is an error that names its log, not a wait.
    use super::*;

    #[test]
    fn what_is_asked_is_understood() {
        let asked = |line: &str| parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(asked("up"), Ok(Asked::Up));
        assert_eq!(asked("down"), Ok(Asked::Down));
        assert_eq!(asked("run -- cargo test"), Ok(Asked::Run(vec!["cargo".into(), "test".into()])));
        for line in ["", "run", "run --", "run cargo", "up now"] {
            assert!(asked(line).unwrap_err().contains("run -- COMMAND"), "{line}");
        }
    }

    #[test]
    fn a_step_is_told_where_they_listen() {
        let servers = Servers::new().unwrap();
        let step = servers.known_to(Step::command("tests", Command::new("true"))).unwrap().to_string();
        assert!(
            step.contains(&format!("TENURE_TEST_DYNAMODB='http://127.0.0.1:{}'", servers.port)),
            "{step}"
        );
        assert!(step.contains("AWS_EC2_METADATA_DISABLED='true'"), "{step}");
        assert!(step.contains("services/kcl-3.5.1-program:/"), "a program before its library: {step}");
        assert!(step.contains("services/lock-client-1.4.0/*'"), "{step}");
    }

    #[test]
    fn a_process_that_is_not_a_server_is_left_alone() {
        assert!(!is_ours(std::process::id()));
    }

    #[test]
    fn a_server_that_ends_is_an_error() {
        let child = Command::new("false").stdin(Stdio::null()).spawn().unwrap();
        let error = Server(child).await_answer(free_port().unwrap()).unwrap_err();
        assert!(error.contains("has ended") && error.contains("dynamodb.log"), "{error}");
    }
}
