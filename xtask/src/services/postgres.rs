//! PostgreSQL and a pooler in front of it, from Debian's packages, and a newer PostgreSQL. None runs as root.

use super::certificate::ServerCertificate;
use super::newer_postgres;
use super::package::need;
use super::server::{Ports, ServerKind};
use crate::command::{command_as, is_root, run};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The user that the package makes.
const USER: &str = "postgres";

pub(super) const KIND: ServerKind = ServerKind {
    name: "PostgreSQL",
    file: "postgres",
    mark: "tenure-postgres-",
    fetch,
    spawn,
    // Fast shutdown: it does not wait for connections that are idle.
    signal: "-INT",
};

/// Another version of it, on which the conformance tests run as well.
pub(super) const NEWER: ServerKind = ServerKind {
    name: "a newer PostgreSQL",
    file: "newer-postgres",
    mark: "tenure-newer-postgres-",
    fetch: fetch_newer,
    spawn: spawn_newer,
    signal: "-INT",
};

/// It lends a connection for one transaction at a time.
pub(super) const POOLER: ServerKind = ServerKind {
    name: "PgBouncer",
    file: "pgbouncer",
    mark: "tenure-pgbouncer-",
    fetch: || need("pgbouncer", "--version", "pgbouncer"),
    spawn: spawn_pooler,
    signal: "-INT",
};

/// The URLs by which tests and the command line find them.
pub(super) fn environment(ports: &Ports) -> Vec<(&'static str, String)> {
    let url = |kind: &ServerKind| {
        ports.get(kind.file).map(|port| format!("postgres://{USER}@127.0.0.1:{port}/postgres"))
    };
    let mut all = Vec::new();
    all.extend(url(&KIND).map(|url| ("TENURE_TEST_POSTGRES", url)));
    let certificate = |port: &u16| ServerCertificate::of(&KIND.place(*port)).file.display().to_string();
    all.extend(ports.get(KIND.file).map(|port| ("TENURE_TEST_POSTGRES_CA", certificate(port))));
    all.extend(url(&POOLER).map(|url| ("TENURE_TEST_PGBOUNCER", url)));
    all.extend(url(&NEWER).map(|url| ("TENURE_TEST_POSTGRES_NEWER", url)));
    // For tests that start one of their own.
    all.extend(programs().map(|programs| ("TENURE_TEST_POSTGRES_BIN", programs.display().to_string())));
    all
}

/// The newest version's folder of programs: Debian keeps them out of the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}

fn fetch() -> Result<(), String> {
    if programs().is_some() {
        Ok(())
    } else {
        need("/usr/lib/postgresql/15/bin/initdb", "--version", "postgresql")
    }
}

fn fetch_newer() -> Result<(), String> {
    // With the user whom it runs as.
    fetch()?;
    newer_postgres::fetch()
}

fn owner() -> Option<&'static str> {
    is_root().then_some(USER)
}

fn spawn(port: u16, _others: &Ports) -> Result<Child, String> {
    let programs = programs().ok_or("PostgreSQL's initdb is not in /usr/lib/postgresql")?;
    let folder = KIND.folder(port, owner())?;
    start(&KIND, &programs, &folder, port)
}

fn spawn_newer(port: u16, _others: &Ports) -> Result<Child, String> {
    let folder = NEWER.folder(port, owner())?;
    let programs = newer_postgres::copy_to(&folder)?;
    start(&NEWER, &programs, &folder, port)
}

/// Makes a new cluster, and starts it.
fn start(kind: &ServerKind, programs: &Path, folder: &Path, port: u16) -> Result<Child, String> {
    let certificate = ServerCertificate::make(folder, command_as(USER, Path::new("openssl")))?;
    let data = folder.join("data");
    // What is tested is not the disk; the tests of power cuts are others.
    let mut initdb = command_as(USER, &programs.join("initdb"));
    initdb
        .args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"])
        .args(["--username", USER, "--pgdata"])
        .arg(&data);
    run(initdb.current_dir(folder))?;
    ask_passwords(&data.join("pg_hba.conf"))?;
    let mut server = command_as(USER, &programs.join("postgres"));
    server
        .args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "fsync=off"])
        // Tests copy it while others write: what the copy needs must not be removed before it has begun to follow.
        .args(["-c", "wal_keep_size=512MB"])
        .args(["-c", "ssl=on", "-c", &format!("ssl_key_file={}", certificate.key.display())])
        .args(["-c", &format!("ssl_cert_file={}", certificate.file.display()), "-p"])
        .arg(port.to_string())
        .arg("-k")
        .arg(folder)
        .arg("-D")
        .arg(&data)
        .current_dir(folder);
    kind.start(&mut server)
}

/// Members of the role `needs_password`, which tests make, are asked for theirs; all others are trusted.
fn ask_passwords(rules: &Path) -> Result<(), String> {
    let error = |error| format!("{}: {error}", rules.display());
    let text = std::fs::read_to_string(rules).map_err(error)?;
    std::fs::write(rules, format!("host all +needs_password all scram-sha-256\n{text}")).map_err(error)
}

fn spawn_pooler(port: u16, others: &Ports) -> Result<Child, String> {
    let server = others.get(KIND.file).ok_or("PgBouncer needs PostgreSQL, which has no port")?;
    let folder = POOLER.folder(port, owner())?;
    let settings = folder.join("pgbouncer.ini");
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={server} user={USER}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = any\npool_mode = transaction\nmax_client_conn = 500\ndefault_pool_size = 20\n"
    );
    write(&settings, &text)?;
    POOLER.start(command_as(USER, Path::new("pgbouncer")).arg(&settings).current_dir(&folder))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    run(Command::new("chmod").arg("a+r").arg(path)).map(drop)
}
