//! PostgreSQL and a pooler in front of it, from Debian's packages. Neither runs as root.

use super::certificate::certify;
use super::package::{is_root, need};
use super::server::{Kind, Ports, command_as, folder, path, run};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The user that the package makes.
const USER: &str = "postgres";

pub(super) const KIND: Kind = Kind {
    name: "PostgreSQL",
    file: "postgres",
    mark: "tenure-postgres-",
    fetch,
    spawn,
    // Fast shutdown: it does not wait for connections that are idle.
    signal: "-INT",
};

/// It lends a connection for one transaction at a time.
pub(super) const POOLER: Kind = Kind {
    name: "PgBouncer",
    file: "pgbouncer",
    mark: "tenure-pgbouncer-",
    fetch: || need("pgbouncer", "--version", "pgbouncer"),
    spawn: spawn_pooler,
    signal: "-INT",
};

/// The URLs by which tests and the command line find them.
pub(super) fn environment(ports: &Ports) -> Vec<(&'static str, String)> {
    let url =
        |kind: &Kind| ports.get(kind.file).map(|port| format!("postgres://{USER}@127.0.0.1:{port}/postgres"));
    let mut all = Vec::new();
    all.extend(url(&KIND).map(|url| ("TENURE_TEST_POSTGRES", url)));
    all.extend(
        ports.get(KIND.file).map(|port| ("TENURE_TEST_POSTGRES_CA", certificate(&path(&place(*port))))),
    );
    all.extend(url(&POOLER).map(|url| ("TENURE_TEST_PGBOUNCER", url)));
    // For tests that start one of their own.
    all.extend(programs().map(|programs| ("TENURE_TEST_POSTGRES_BIN", programs.display().to_string())));
    all
}

/// The server's folder, below that for temporary files.
fn place(port: u16) -> String {
    format!("postgres-{port}")
}

/// Its certificate, for the name `localhost`, which is its own authority.
fn certificate(folder: &Path) -> String {
    folder.join("server.crt").display().to_string()
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

fn owner() -> Option<&'static str> {
    is_root().then_some(USER)
}

/// Makes a new cluster, and starts it.
fn spawn(port: u16, _others: &Ports) -> Result<Child, String> {
    let programs = programs().ok_or("PostgreSQL's initdb is not in /usr/lib/postgresql")?;
    let folder = folder(&place(port), owner())?;
    let key = folder.join("server.key").display().to_string();
    certify(command_as(USER, Path::new("openssl")), Path::new(&key), &certificate(&folder))?;
    let data = folder.join("data");
    // What is tested is not the disk; the tests of power cuts are others.
    let made = command_as(USER, &programs.join("initdb"))
        .args([
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--username",
            USER,
            "--pgdata",
        ])
        .arg(&data)
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("initdb did not start: {error}"))?;
    if !made.status.success() {
        return Err(format!("initdb: {}: {}", made.status, String::from_utf8_lossy(&made.stderr)));
    }
    let [out, err] = KIND.output()?;
    command_as(USER, &programs.join("postgres"))
        .args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "fsync=off"])
        .args(["-c", "ssl=on", "-c", &format!("ssl_key_file={key}")])
        .args(["-c", &format!("ssl_cert_file={}", certificate(&folder)), "-p"])
        .arg(port.to_string())
        .arg("-k")
        .arg(&folder)
        .arg("-D")
        .arg(&data)
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|error| format!("postgres did not start: {error}"))
}

fn spawn_pooler(port: u16, others: &Ports) -> Result<Child, String> {
    let server = others.get(KIND.file).ok_or("PgBouncer needs PostgreSQL, which has no port")?;
    let folder = folder(&format!("pgbouncer-{port}"), owner())?;
    let settings = folder.join("pgbouncer.ini");
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={server} user={USER}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = any\npool_mode = transaction\nmax_client_conn = 500\ndefault_pool_size = 20\n"
    );
    write(&settings, &text)?;
    let [out, err] = POOLER.output()?;
    command_as(USER, Path::new("pgbouncer"))
        .arg(&settings)
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|error| format!("pgbouncer did not start: {error}"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    run("chmod", &["a+r", &path.display().to_string()])
}
