//! Redis, from Debian's package: one server, one that speaks TLS only, a cluster of three, and one more that speaks TLS only; and one server
//! of Valkey, from Debian's backports.

use super::certificate::ServerCertificate;
use super::package::{Unpacked, need};
use super::server::{Ports, ServerKind};
use crate::command::run;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const PROGRAM: &str = "redis-server";

pub(super) const KIND: ServerKind = ServerKind {
    name: "Redis",
    file: "redis",
    mark: "tenure-redis-",
    fetch,
    spawn: |port, _| spawn(&KIND, port, &format!("port {port}")),
    signal: "-TERM",
};

pub(super) const VALKEY: ServerKind = ServerKind {
    name: "Valkey",
    file: "valkey",
    mark: "tenure-valkey-",
    fetch: fetch_valkey,
    spawn: spawn_valkey,
    signal: "-TERM",
};

pub(super) const TLS: ServerKind = ServerKind {
    name: "Redis with TLS",
    file: "rediss",
    mark: "tenure-rediss-",
    fetch,
    spawn: spawn_tls,
    signal: "-TERM",
};

pub(super) const CLUSTER: [ServerKind; 3] = [
    ServerKind {
        name: "the first Redis of a cluster",
        file: "clustered-redis-1",
        mark: "tenure-clustered-redis-1-",
        fetch,
        spawn: |port, _| spawn_member(0, port),
        signal: "-TERM",
    },
    ServerKind {
        name: "the second Redis of a cluster",
        file: "clustered-redis-2",
        mark: "tenure-clustered-redis-2-",
        fetch,
        spawn: |port, _| spawn_member(1, port),
        signal: "-TERM",
    },
    ServerKind {
        name: "the third Redis of a cluster",
        file: "clustered-redis-3",
        mark: "tenure-clustered-redis-3-",
        fetch,
        spawn: spawn_last,
        signal: "-TERM",
    },
];

/// Its members speak TLS also among themselves, and tell clients of each other by the name in the certificate.
pub(super) const TLS_CLUSTER: [ServerKind; 3] = [
    ServerKind {
        name: "the first Redis of a cluster with TLS",
        file: "clustered-rediss-1",
        mark: "tenure-clustered-rediss-1-",
        fetch,
        spawn: |port, others| spawn_tls_member(0, port, others),
        signal: "-TERM",
    },
    ServerKind {
        name: "the second Redis of a cluster with TLS",
        file: "clustered-rediss-2",
        mark: "tenure-clustered-rediss-2-",
        fetch,
        spawn: |port, others| spawn_tls_member(1, port, others),
        signal: "-TERM",
    },
    ServerKind {
        name: "the third Redis of a cluster with TLS",
        file: "clustered-rediss-3",
        mark: "tenure-clustered-rediss-3-",
        fetch,
        spawn: spawn_last_with_tls,
        signal: "-TERM",
    },
];

/// The URLs by which tests and the command line find them, and where the faults find Valkey's program.
pub(super) fn environment(ports: &Ports) -> Result<Vec<(&'static str, String)>, String> {
    let port = |kind: &ServerKind| ports.get(kind.file).copied();
    let mut all = Vec::new();
    all.extend(port(&KIND).map(|port| ("TENURE_TEST_REDIS", format!("redis://127.0.0.1:{port}"))));
    all.extend(port(&VALKEY).map(|port| ("TENURE_TEST_VALKEY", format!("redis://127.0.0.1:{port}"))));
    all.extend(port(&TLS).map(|port| ("TENURE_TEST_REDISS", format!("rediss://localhost:{port}"))));
    let certificate = |port| ServerCertificate::of(&TLS.place(port)).file.display().to_string();
    all.extend(port(&TLS).map(|port| ("TENURE_TEST_REDIS_CA", certificate(port))));
    for (variable, scheme, host, members) in [
        ("TENURE_TEST_REDIS_CLUSTER", "redis", "127.0.0.1", &CLUSTER),
        ("TENURE_TEST_REDISS_CLUSTER", "rediss", "localhost", &TLS_CLUSTER),
    ] {
        let members: Option<Vec<String>> =
            members.iter().map(|kind| port(kind).map(|port| format!("{host}:{port}"))).collect();
        all.extend(members.map(|members| (variable, format!("{scheme}://{}", members.join(",")))));
    }
    all.push(("TENURE_TEST_VALKEY_SERVER", VALKEY_SERVER.path()?.display().to_string()));
    Ok(all)
}

fn fetch() -> Result<(), String> {
    need(PROGRAM, "--version", "redis-server")
}

/// It needs the libraries that Redis needs, which is installed.
const VALKEY_SERVER: Unpacked = Unpacked {
    program: "valkey-server",
    call: &["--version"],
    folder: "usr/bin",
    packages: &["valkey-server", "valkey-tools"],
    suite: "bookworm-backports",
};

fn fetch_valkey() -> Result<(), String> {
    fetch()?;
    VALKEY_SERVER.fetch()
}

/// Starts a server with an append-only file. It keeps its command line, by which it is known again.
fn spawn(kind: &ServerKind, port: u16, settings: &str) -> Result<Child, String> {
    let folder = kind.folder(port, None)?;
    start(kind, Path::new(PROGRAM), &folder, settings)
}

fn start(kind: &ServerKind, program: &Path, folder: &Path, settings: &str) -> Result<Child, String> {
    let file = folder.join("redis.conf");
    let dir = folder.display();
    let text =
        format!("bind 127.0.0.1\ndir {dir}\nappendonly yes\nsave \"\"\nset-proc-title no\n{settings}\n");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    kind.start(Command::new(program).arg(&file))
}

fn spawn_valkey(port: u16, _others: &Ports) -> Result<Child, String> {
    let folder = VALKEY.folder(port, None)?;
    start(&VALKEY, &VALKEY_SERVER.path()?, &folder, &format!("port {port}"))
}

fn spawn_tls(port: u16, _others: &Ports) -> Result<Child, String> {
    let folder = TLS.folder(port, None)?;
    let certificate = ServerCertificate::make(&folder, Command::new("openssl"))?;
    start(&TLS, Path::new(PROGRAM), &folder, &with_tls(port, &certificate))
}

/// What has a server speak TLS only.
fn with_tls(port: u16, certificate: &ServerCertificate) -> String {
    let (file, key) = (certificate.file.display(), certificate.key.display());
    format!(
        "port 0\ntls-port {port}\ntls-cert-file {file}\ntls-key-file {key}\ntls-ca-cert-file {file}\ntls-auth-clients no"
    )
}

/// The one of the server with TLS, which its cluster shows as well.
fn certificate(others: &Ports) -> Result<ServerCertificate, String> {
    let port = others.get(TLS.file).ok_or("a cluster with TLS needs Redis with TLS, which has no port")?;
    Ok(ServerCertificate::of(&TLS.place(*port)))
}

/// What has a server be one of a cluster.
fn clustered() -> Result<String, String> {
    let bus = tenure_ports::unused_port()?;
    Ok(format!("cluster-enabled yes\ncluster-port {bus}\ncluster-node-timeout 5000"))
}

fn spawn_member(member: usize, port: u16) -> Result<Child, String> {
    spawn(&CLUSTER[member], port, &format!("port {port}\n{}", clustered()?))
}

fn spawn_tls_member(member: usize, port: u16, others: &Ports) -> Result<Child, String> {
    let (tls, clustered) = (with_tls(port, &certificate(others)?), clustered()?);
    let names = "cluster-announce-hostname localhost\ncluster-preferred-endpoint-type hostname";
    spawn(&TLS_CLUSTER[member], port, &format!("{tls}\ntls-cluster yes\n{clustered}\n{names}"))
}

fn spawn_last(port: u16, others: &Ports) -> Result<Child, String> {
    joined(spawn_member(2, port)?, &CLUSTER, port, others, &client)
}

fn spawn_last_with_tls(port: u16, others: &Ports) -> Result<Child, String> {
    let authority = certificate(others)?.file;
    let client = |port: u16| {
        let mut client = client(port);
        client.args(["-h", "localhost", "--tls", "--cacert"]).arg(&authority);
        client
    };
    joined(spawn_tls_member(2, port, others)?, &TLS_CLUSTER, port, others, &client)
}

/// With the last one, they become a cluster.
fn joined(
    mut last: Child,
    members: &[ServerKind; 3],
    port: u16,
    others: &Ports,
    client: &dyn Fn(u16) -> Command,
) -> Result<Child, String> {
    let joined = join(members, port, others, client);
    if joined.is_err() {
        let _ = last.kill();
        let _ = last.wait();
    }
    joined.map(|()| last)
}

/// Gives each a third of the slots, introduces them to each other, and waits until all agree.
#[allow(clippy::disallowed_methods, reason = "chores take real time")]
fn join(
    members: &[ServerKind; 3],
    last: u16,
    others: &Ports,
    client: &dyn Fn(u16) -> Command,
) -> Result<(), String> {
    /// A busy machine takes some seconds.
    const LIMIT: Duration = Duration::from_secs(60);
    let known =
        |kind: &ServerKind| others.get(kind.file).copied().ok_or(format!("{} has no port", kind.name));
    let ports = [known(&members[0])?, known(&members[1])?, last];
    let cli = |port: u16, command: &str| run(client(port).args(command.split(' ')));
    let start = Instant::now();
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        while !holds() {
            if start.elapsed() > LIMIT {
                return Err(format!("Redis's cluster: {what} after {} s", LIMIT.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    };
    until("the last server does not answer", &|| {
        cli(last, "PING").is_ok_and(|answer| answer.contains("PONG"))
    })?;
    for (port, slots) in ports.into_iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        cli(port, &format!("CLUSTER ADDSLOTSRANGE {slots}"))?;
    }
    for port in &ports[..2] {
        let bus = cli(*port, "CONFIG GET cluster-port")?;
        let bus = bus.lines().last().unwrap_or_default().to_owned();
        cli(last, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}"))?;
    }
    let agrees = |port: u16| {
        cli(port, "CLUSTER INFO").is_ok_and(|info| {
            info.contains("cluster_state:ok")
                && info.contains("cluster_known_nodes:3")
                && info.contains("cluster_size:3")
        })
    };
    until("its servers do not agree", &|| ports.into_iter().all(agrees))
}

/// Redis's own client.
fn client(port: u16) -> Command {
    let mut client = Command::new("redis-cli");
    client.args(["-e", "-p", &port.to_string()]);
    client
}
