//! etcd, from Debian's packages: one member, and a cluster of three, whose data go with them; and one member of a newer version. Tests that
//! break clusters, or need TLS or users, start their own.

use super::package::{Unpacked, need};
use super::server::{Ports, ServerKind};
use crate::command::run;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

pub(super) const KIND: ServerKind =
    ServerKind { name: "etcd", file: "etcd", mark: "tenure-etcd-", fetch, spawn, signal: "-INT" };

/// Another version of it, on which the conformance tests run as well.
pub(super) const NEWER: ServerKind = ServerKind {
    name: "a newer etcd",
    file: "newer-etcd",
    mark: "tenure-newer-etcd-",
    fetch: || NEWER_SERVER.fetch(),
    spawn: |port, _| start(&NEWER, &NEWER_SERVER.path()?, port, &ALONE),
    signal: "-INT",
};

/// From the next release of Debian, whose program runs on this one, too.
const NEWER_SERVER: Unpacked = Unpacked {
    program: "etcd",
    // An option since 3.5; an older one refuses it.
    call: &["--socket-reuse-port", "--version"],
    folder: "usr/bin",
    packages: &["etcd-server"],
    suite: "trixie",
};

pub(super) const CLUSTER: [ServerKind; 3] = [
    ServerKind {
        name: "the first etcd of a cluster",
        file: "clustered-etcd-1",
        mark: "tenure-clustered-etcd-1-",
        fetch,
        spawn: |port, others| spawn_member(0, port, others),
        signal: "-INT",
    },
    ServerKind {
        name: "the second etcd of a cluster",
        file: "clustered-etcd-2",
        mark: "tenure-clustered-etcd-2-",
        fetch,
        spawn: |port, others| spawn_member(1, port, others),
        signal: "-INT",
    },
    ServerKind {
        name: "the third etcd of a cluster",
        file: "clustered-etcd-3",
        mark: "tenure-clustered-etcd-3-",
        fetch,
        spawn: |port, others| spawn_member(2, port, others),
        signal: "-INT",
    },
];

/// The URLs by which tests and the command line find them.
pub(super) fn environment(ports: &Ports) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let url = |kind: &ServerKind| ports.get(kind.file).map(|port| format!("etcd://127.0.0.1:{port}"));
    all.extend(url(&KIND).map(|url| ("TENURE_TEST_ETCD", url)));
    all.extend(url(&NEWER).map(|url| ("TENURE_TEST_ETCD_NEWER", url)));
    let members: Option<Vec<String>> =
        CLUSTER.iter().map(|kind| ports.get(kind.file).map(|port| format!("127.0.0.1:{port}"))).collect();
    all.extend(members.map(|members| ("TENURE_TEST_ETCD_CLUSTER", format!("etcd://{}", members.join(",")))));
    all
}

fn fetch() -> Result<(), String> {
    need(PROGRAM, "--version", "etcd-server")?;
    // An operator's hand in tests, which also makes users and roles.
    need("etcdctl", "version", "etcd-client")
}

/// It is installed.
const PROGRAM: &str = "etcd";

/// No other member comes, so any port will do.
const ALONE: [&str; 2] = ["--listen-peer-urls", "http://127.0.0.1:0"];

fn spawn(port: u16, _others: &Ports) -> Result<Child, String> {
    start(&KIND, Path::new(PROGRAM), port, &ALONE)
}

fn start(kind: &ServerKind, program: &Path, port: u16, settings: &[&str]) -> Result<Child, String> {
    let folder = kind.folder(port, None)?;
    let clients = format!("http://127.0.0.1:{port}");
    let mut etcd = Command::new(program);
    etcd.arg("--data-dir")
        .arg(folder.join("data"))
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--logger", "zap", "--log-level", "warn"])
        .args(settings);
    kind.start(&mut etcd)
}

/// The first member begins alone, and each other one is announced to it before it starts.
fn spawn_member(member: usize, port: u16, others: &Ports) -> Result<Child, String> {
    let kind = &CLUSTER[member];
    let peer = format!("http://127.0.0.1:{}", tenure_ports::unused_port()?);
    let (members, state) = match member {
        0 => (format!("{}={peer}", kind.file), "new"),
        _ => (announce(kind.file, &peer, others)?, "existing"),
    };
    let settings = ["--name", kind.file, "--initial-cluster", &members, "--initial-cluster-state", state];
    let peers = ["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer];
    // Members come one after the other, before they have known each other for long.
    let hasty = ["--strict-reconfig-check=false"];
    start(kind, Path::new(PROGRAM), port, &[&settings[..], &peers, &hasty].concat())
}

/// Tells the cluster of a new member; answers with all members, as that one has to be told.
#[allow(clippy::disallowed_methods, reason = "chores take real time")]
fn announce(name: &str, peer: &str, others: &Ports) -> Result<String, String> {
    /// A busy machine takes some seconds to elect a leader.
    const LIMIT: Duration = Duration::from_secs(60);
    let first = others.get(CLUSTER[0].file).ok_or("the first member of etcd's cluster has no port")?;
    let start = Instant::now();
    loop {
        let mut add = Command::new("etcdctl");
        add.env("ETCDCTL_API", "3").args([
            "--endpoints",
            &format!("127.0.0.1:{first}"),
            "member",
            "add",
            name,
        ]);
        match run(add.args(["--peer-urls", peer])) {
            Ok(told) => {
                let members = told.lines().find_map(|line| line.strip_prefix("ETCD_INITIAL_CLUSTER="));
                let members = members.ok_or(format!("etcdctl member add says {told:?}"))?;
                return Ok(members.trim_matches('"').to_owned());
            }
            Err(error) if start.elapsed() > LIMIT => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}
