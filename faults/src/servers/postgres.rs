//! PostgreSQL, as Debian packages it, with its defaults as far as durability goes.

use super::{ClusterMember, until};
use crate::process::run;
use std::path::PathBuf;
use std::process::Command;

/// The user that the package makes: it does not run as root.
const USER: &str = "postgres";

/// The newest version's folder of programs: Debian keeps them out of the path.
fn programs() -> Result<PathBuf, String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bins = versions.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").exists());
    bins.max()
        .ok_or_else(|| "PostgreSQL is not in /usr/lib/postgresql: cargo xtask faults installs it".into())
}

fn act(member: &ClusterMember, program: &str) -> Result<Command, String> {
    let mut command = member.place().command(&programs()?.join(program), Some(USER), &[]);
    command.current_dir(&member.disk.path);
    Ok(command)
}

/// Makes a new cluster of databases. Its log comes in small pieces, so that a full disk is felt soon.
pub(super) fn make(member: &ClusterMember) -> Result<(), String> {
    let data = member.data();
    let mut command = act(member, "initdb")?;
    command.args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "--wal-segsize=1"]);
    run(command.args(["--username", USER, "--pgdata"]).arg(&data))?;
    let path = data.join("pg_hba.conf");
    let error = |error| format!("{}: {error}", path.display());
    let mut rules = std::fs::read_to_string(&path).map_err(error)?;
    rules.push_str("host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n");
    std::fs::write(&path, rules).map_err(error)
}

/// Starts it with what is on its disk, as a primary or as what follows one.
pub(super) fn command(member: &ClusterMember) -> Result<Command, String> {
    let program = programs()?.join("postgres");
    let mut command = member.place().command(&program, Some(USER), &member.clocks.environment());
    command
        .args(["-c", "listen_addresses=*", "-c", "max_connections=60", "-c", "shared_buffers=16MB"])
        .args([
            "-c",
            "max_wal_size=32MB",
            "-c",
            "min_wal_size=2MB",
            "-c",
            "autovacuum=off",
            "-p",
            "5432",
            "-k",
        ])
        .arg(&member.disk.path)
        // A client whose connection was reset on its side alone is forgotten soon: else such connections use up all that there may be.
        .args([
            "-c",
            "tcp_keepalives_idle=1",
            "-c",
            "tcp_keepalives_interval=1",
            "-c",
            "tcp_keepalives_count=10",
        ])
        .arg("-D")
        .arg(member.data())
        .current_dir(&member.disk.path);
    Ok(command)
}

/// Fills its disk with a copy of the primary's, which it will follow.
pub(super) fn copy(member: &ClusterMember, of: &str) -> Result<(), String> {
    let mut command = act(member, "pg_basebackup")?;
    command.args(["-h", of, "-U", USER, "-R", "-X", "stream", "-c", "fast", "-w", "-D"]).arg(member.data());
    run(&mut command)?;
    run(Command::new("chmod").arg("700").arg(member.data())).map(drop)
}

fn query(member: &ClusterMember, sql: &str) -> Result<String, String> {
    let dir = member.disk.path.display().to_string();
    member.machine.run(&["psql", "-h", &dir, "-U", USER, "-A", "-t", "-c", sql])
}

/// Whether whoever follows this primary has all of it.
pub(super) fn follows(primary: &ClusterMember) -> Result<bool, String> {
    let sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
    query(primary, sql).map(|count| count.trim() == "1")
}

/// Until its data are those of another one, which does not wait.
pub(super) fn wait_for_follower(primary: &ClusterMember) -> Result<(), String> {
    query(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")?;
    query(primary, "SELECT pg_reload_conf()")?;
    let sql = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    until("the standby is not synchronous", || query(primary, sql).map(|count| count.trim() == "1"))
}

pub(super) fn promote(member: &ClusterMember) -> Result<(), String> {
    query(member, "SELECT pg_promote(true, 60)")
        .and_then(|done| if done.trim() == "t" { Ok(()) } else { Err("the standby was not promoted".into()) })
}

/// Fills what it has made of its log beforehand, until it can't any more: then it crashes, and may come back with what that frees.
pub(super) fn use_up(member: &ClusterMember) -> bool {
    let sql = "SELECT pg_logical_emit_message(false, 'faults', repeat('x', 900000))";
    (0..100).any(|_| query(member, sql).is_err())
}
