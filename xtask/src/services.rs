//! The servers that tests need, and the programs that share them: fetched if they are missing, started on loopback at a port of their own, stopped by id.

mod certificate;
mod dynamodb;
mod etcd;
mod go;
mod maven;
mod newer_postgres;
mod package;
mod peers;
mod postgres;
mod promtool;
mod reaper;
mod redis;
mod rust;
mod server;

use crate::background::{self, AtFailure};
use crate::processor_time;
use crate::step::CheckStep;
use crate::workspace::built;
use reaper::Reaper;
use server::{Ports, Server, ServerKind};
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;
use tenure_ports::unused_port;

/// All kinds, in the order in which they are started: each after those that it needs.
const KINDS: [ServerKind; 18] = [
    dynamodb::KIND,
    postgres::KIND,
    postgres::POOLER,
    postgres::NEWER,
    etcd::KIND,
    etcd::NEWER,
    etcd::CLUSTER[0],
    etcd::CLUSTER[1],
    etcd::CLUSTER[2],
    redis::KIND,
    redis::VALKEY,
    redis::TLS,
    redis::CLUSTER[0],
    redis::CLUSTER[1],
    redis::CLUSTER[2],
    redis::TLS_CLUSTER[0],
    redis::TLS_CLUSTER[1],
    redis::TLS_CLUSTER[2],
];

/// What the tests of `tenure-dynamodb` and of the command line ask for.
const ENDPOINT: &str = "TENURE_TEST_DYNAMODB";

/// What DynamoDB Local takes, as it takes any; and nobody is to look for others.
const CREDENTIALS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "local"),
    ("AWS_SECRET_ACCESS_KEY", "local"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
];

/// The words of the chore that fetches all that tests need.
const FETCH: [&str; 2] = ["services", "fetch"];

/// The words of the chore that ends the servers of one that was killed.
const REAP: [&str; 2] = ["services", "reap"];

/// What `cargo xtask services` was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServicesRequest {
    /// Start them, and leave them running.
    Up,
    /// Stop those that are running.
    Down,
    /// Fetch what is missing of all that tests need.
    Fetch,
    /// End the servers of a chore that was killed; it alone asks this, on standard input.
    Reap,
    /// Run a command with servers of its own, which end with it.
    Run(Vec<String>),
}

/// Understands the words after `services`.
pub(crate) fn parse(words: &[String]) -> Result<ServicesRequest, String> {
    match words {
        [word] if word == "up" => Ok(ServicesRequest::Up),
        [word] if word == "down" => Ok(ServicesRequest::Down),
        [word] if word == "fetch" => Ok(ServicesRequest::Fetch),
        [word] if word == "reap" => Ok(ServicesRequest::Reap),
        [word, dashes, command @ ..] if word == "run" && dashes == "--" && !command.is_empty() => {
            Ok(ServicesRequest::Run(command.to_vec()))
        }
        _ => Err(format!("\"services\" takes up, down, fetch, or run -- COMMAND; not {words:?}")),
    }
}

/// The steps; with `run`, servers that end when `RunningServers` is dropped.
pub(crate) fn steps(asked: ServicesRequest) -> Result<(Vec<CheckStep>, Option<Rc<RunningServers>>), String> {
    match asked {
        ServicesRequest::Up => {
            let mut steps = fetch();
            steps.push(CheckStep::check("up", up));
            Ok((steps, None))
        }
        ServicesRequest::Down => Ok((vec![CheckStep::check("down", down)], None)),
        ServicesRequest::Reap => {
            let reap = || reaper::reap(std::io::stdin());
            Ok((vec![CheckStep::check("servers of a chore that was killed are ended", reap)], None))
        }
        ServicesRequest::Fetch => {
            let toolchains = [need_java, need_go, need_node];
            let toolchains = CheckStep::check("toolchains of clients are fetched", move || {
                toolchains.into_iter().try_for_each(|need| need())
            });
            let steps = fetch().into_iter().chain(fetch_for_faults()).chain([toolchains]);
            Ok((steps.collect(), None))
        }
        ServicesRequest::Run(words) => {
            let servers = RunningServers::new()?;
            let mut steps = fetch();
            steps.extend(servers.start());
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            steps.push(servers.known_to(CheckStep::command(&words[0], command))?);
            Ok((steps, Some(servers)))
        }
    }
}

/// The step that begins to fetch all that tests need, and nothing else, and the one that waits for its end.
pub(crate) fn fetch_beside() -> (CheckStep, CheckStep) {
    let program = || {
        let mut program = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
        program.args(FETCH);
        Ok(vec![program])
    };
    let what = ["what tests need begins to be fetched", "what tests need is fetched"];
    background::steps(what, program, built().join("services").join("fetching.log"), AtFailure::Finish)
}

/// Fetches what is missing of them, and of their partners in tests.
pub(crate) fn fetch() -> Vec<CheckStep> {
    let servers = KINDS.map(|kind| CheckStep::check(format!("{} is fetched", kind.name), kind.fetch));
    let others = [
        CheckStep::check("the KCL is fetched", || peers::KCL.fetch()),
        CheckStep::check("promtool is fetched", || promtool::PROMTOOL.fetch()),
        CheckStep::check("Chromium is fetched", || package::need("chromium", "--version", "chromium")),
    ];
    servers.into_iter().chain(others).collect()
}

/// Fetches the servers that faults happen to, and what makes them.
pub(crate) fn fetch_for_faults() -> Vec<CheckStep> {
    let servers = [dynamodb::KIND, postgres::KIND, etcd::KIND, redis::KIND, redis::VALKEY];
    let servers = servers.map(|kind| CheckStep::check(format!("{} is fetched", kind.name), kind.fetch));
    let tools = CheckStep::check("tools for networks and disks are fetched", || {
        package::need("ip", "-V", "iproute2")?;
        package::need("iptables", "--version", "iptables")?;
        package::need("mkfs.ext4", "-V", "e2fsprogs")?;
        package::need("xfs_io", "-V", "xfsprogs")
    });
    servers.into_iter().chain([tools]).collect()
}

/// Has the shells whose jobs the tests control, what shows manual pages, and the program whose options the tests compare with.
pub(crate) fn need_tools() -> Result<(), String> {
    package::need("bash", "--version", "bash")?;
    package::need("zsh", "--version", "zsh")?;
    // With groff, which it shows pages by.
    package::need("man", "--version", "man-db")?;
    package::need("curl", "--version", "curl")?;
    package::need_that("python3", &["-c", "import ensurepip, venv"], "python3-venv")?;
    need_parallel()
}

/// Has what generators and programs in Java ask for.
pub(crate) fn need_java() -> Result<(), String> {
    package::need("javac", "-version", "default-jdk-headless")?;
    package::need("mvn", "--version", "maven")
}

/// Has Go.
pub(crate) fn need_go() -> Result<(), String> {
    go::need()
}

/// How a program finds Go that may have been fetched.
pub(crate) fn go_environment() -> Result<[(&'static str, OsString); 2], String> {
    go::environment()
}

/// Has Node.js and npm.
pub(crate) fn need_node() -> Result<(), String> {
    package::need("node", "--version", "nodejs")?;
    package::need("npm", "--version", "npm")
}

/// Fetches what only benches compare with that need no server.
pub(crate) fn fetch_for_work() -> CheckStep {
    CheckStep::check("GNU parallel is fetched", need_parallel)
}

fn need_parallel() -> Result<(), String> {
    package::need("parallel", "--version", "parallel")
}

/// Fetches what only benches compare with.
pub(crate) fn fetch_for_benches() -> [CheckStep; 3] {
    [
        CheckStep::check("AWS's lock client is fetched", || peers::LOCK_CLIENT.fetch()),
        CheckStep::check("the peers in Go are built", go::build),
        CheckStep::check("the peers in Rust are built", rust::build),
    ]
}

/// The servers of one run of steps. They end when this is dropped, however the steps ended; and where the process is killed first.
#[derive(Debug)]
pub(crate) struct RunningServers {
    ports: Ports,
    /// In the order in which they were started: who stands on another one comes after it.
    running: RefCell<Vec<Server>>,
    /// From the first server on.
    reaper: RefCell<Option<Reaper>>,
}

impl RunningServers {
    /// None of them runs yet, but it is known where they will listen.
    pub(crate) fn new() -> Result<Rc<RunningServers>, String> {
        let ports =
            KINDS.iter().map(|kind| Ok((kind.file, unused_port()?))).collect::<Result<Ports, String>>()?;
        Ok(Rc::new(RunningServers { ports, running: RefCell::default(), reaper: RefCell::default() }))
    }

    /// Starts them, once they have been fetched.
    pub(crate) fn start(self: &Rc<RunningServers>) -> Vec<CheckStep> {
        let start = |kind: ServerKind| {
            let servers = Rc::clone(self);
            CheckStep::check(format!("{} is started", kind.name), move || {
                let mut server = Server::start(kind, servers.ports[kind.file], &servers.ports)?;
                servers.at_a_kill(&server)?;
                server.await_answer()?;
                servers.running.borrow_mut().push(server);
                Ok(())
            })
        };
        KINDS.into_iter().map(start).collect()
    }

    /// Has the server end where we are killed.
    fn at_a_kill(&self, server: &Server) -> Result<(), String> {
        let mut reaper = self.reaper.borrow_mut();
        if reaper.is_none() {
            *reaper = Some(Reaper::start()?);
        }
        reaper.as_mut().map_or(Ok(()), |reaper| reaper.tell(server))
    }

    /// The processor time that they have taken until now.
    pub(crate) fn processor(&self) -> Option<Duration> {
        let roots: Vec<u32> = self.running.borrow().iter().map(Server::id).collect();
        processor_time::of_trees(&roots)
    }

    /// What it takes to find them.
    pub(crate) fn environment(&self) -> Result<Vec<(&'static str, String)>, String> {
        environment(&self.ports)
    }

    /// The step with what it takes to find them.
    pub(crate) fn known_to(&self, step: CheckStep) -> Result<CheckStep, String> {
        let all = self.environment()?;
        Ok(all.into_iter().fold(step, |step, (name, value)| step.env(name, &value)))
    }
}

impl Drop for RunningServers {
    fn drop(&mut self) {
        // The last one first.
        while let Some(server) = self.running.borrow_mut().pop() {
            drop(server);
        }
    }
}

fn environment(ports: &Ports) -> Result<Vec<(&'static str, String)>, String> {
    let mut all = Vec::new();
    all.extend(ports.get(dynamodb::KIND.file).map(|port| (ENDPOINT, format!("http://127.0.0.1:{port}"))));
    // For tests that start one of their own.
    all.extend(dynamodb::parts()?);
    all.extend(CREDENTIALS.map(|(name, value)| (name, value.to_owned())));
    for peer in [peers::KCL, peers::LOCK_CLIENT] {
        all.push((peer.variable, peer.class_path()?));
    }
    all.push((go::VARIABLE, go::program()?.display().to_string()));
    all.push((rust::VARIABLE, rust::program()?.display().to_string()));
    all.push((promtool::VARIABLE, promtool::PROMTOOL.path()?.display().to_string()));
    all.extend(postgres::environment(ports));
    all.extend(etcd::environment(ports));
    all.extend(redis::environment(ports)?);
    Ok(all)
}

/// Where downloads, logs and the ids of running servers are.
fn workshop() -> Result<PathBuf, String> {
    let shop = crate::workspace::built().join("services");
    std::fs::create_dir_all(&shop).map_err(|error| format!("{}: {error}", shop.display()))?;
    std::path::absolute(&shop).map_err(|error| format!("{}: {error}", shop.display()))
}

fn up() -> Result<(), String> {
    let mut ports = Ports::new();
    for kind in KINDS {
        let port = kind.up(&ports)?;
        ports.insert(kind.file, port);
    }
    println!("The servers listen; for tests and the command line:\n");
    environment(&ports)?.iter().for_each(|(name, value)| println!("export {name}='{value}'"));
    Ok(())
}

fn down() -> Result<(), String> {
    KINDS.iter().rev().try_for_each(ServerKind::down)
}

#[cfg(test)]
mod tests {
    //! Plan: what may be asked; a step is told where the servers listen.
    use super::*;

    #[test]
    fn what_is_asked_is_understood() {
        let asked = |line: &str| parse(&crate::words(line));
        assert_eq!(asked("up"), Ok(ServicesRequest::Up));
        assert_eq!(asked("down"), Ok(ServicesRequest::Down));
        assert_eq!(asked("run -- cargo test"), Ok(ServicesRequest::Run(vec!["cargo".into(), "test".into()])));
        for line in ["", "run", "run --", "run cargo", "up now"] {
            assert!(asked(line).unwrap_err().contains("run -- COMMAND"), "{line}");
        }
    }

    #[test]
    fn a_step_is_told_where_they_listen() {
        let servers = RunningServers::new().unwrap();
        let step = servers.known_to(CheckStep::command("tests", Command::new("true"))).unwrap().to_string();
        assert!(
            step.contains(&format!("TENURE_TEST_DYNAMODB='http://127.0.0.1:{}'", servers.ports["dynamodb"])),
            "{step}"
        );
        assert!(step.contains("TENURE_TEST_POSTGRES='postgres://postgres@127.0.0.1:"), "{step}");
        assert!(step.contains("TENURE_TEST_ETCD='etcd://127.0.0.1:"), "{step}");
        assert!(step.contains("TENURE_TEST_ETCD_CLUSTER='etcd://127.0.0.1:"), "{step}");
        assert!(step.contains("TENURE_TEST_REDIS='redis://127.0.0.1:"), "{step}");
        assert!(step.contains("TENURE_TEST_VALKEY='redis://127.0.0.1:"), "{step}");
        assert!(step.contains("TENURE_TEST_REDIS_CLUSTER='redis://127.0.0.1:"), "{step}");
        assert!(step.contains("TENURE_TEST_REDISS_CLUSTER='rediss://localhost:"), "{step}");
        assert!(step.contains("TENURE_TEST_POSTGRES_NEWER='postgres://postgres@127.0.0.1:"), "{step}");
        assert!(step.contains("TENURE_TEST_ETCD_NEWER='etcd://127.0.0.1:"), "{step}");
        assert!(step.contains("TENURE_TEST_PROMTOOL='"), "{step}");
        assert!(step.contains("AWS_EC2_METADATA_DISABLED='true'"), "{step}");
        assert!(step.contains("services/kcl-3.5.1-program:/"), "a program before its library: {step}");
        assert!(step.contains("services/lock-client-1.4.0/*'"), "{step}");
    }
}
