//! Redis, and Valkey, which acknowledges what is in its append-only file: with other settings it promises less, and so does its store.

use super::{ClusterMember, StoreKind, until};
use crate::net::NetMachine;
use crate::process::OwnedProcess;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Where `cargo xtask faults` says that Valkey is.
const VALKEY: &str = "TENURE_TEST_VALKEY_SERVER";

const SENTINEL_LOG: &str = "sentinel.log";

fn program(kind: StoreKind) -> Result<OsString, String> {
    match kind {
        StoreKind::Valkey => std::env::var_os(VALKEY)
            .ok_or_else(|| format!("{VALKEY} does not say where Valkey is: run this by cargo xtask faults")),
        _ => Ok("redis-server".into()),
    }
}

/// One that starts with its file, or follows another one.
pub(super) fn command(kind: StoreKind, member: &ClusterMember, of: Option<&str>) -> Result<Command, String> {
    let file = member.disk.path.join("redis.conf");
    let dir = member.disk.path.display();
    let mut text = format!(
        "bind 0.0.0.0\nprotected-mode no\nport 6379\ndir {dir}\nappendonly yes\nappendfsync always\nsave \"\"\nset-proc-title no\n\
         repl-diskless-sync-delay 0\n"
    );
    if let Some(of) = of {
        text.push_str(&format!("replicaof {of} 6379\n"));
    }
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let program = program(kind)?;
    let mut command = member.place().command(Path::new(&program), None, &member.clocks.environment());
    command.arg(&file);
    Ok(command)
}

fn cli(member: &ClusterMember, words: &[&str]) -> Result<String, String> {
    member.machine.run(&[&["redis-cli", "-e"], words].concat())
}

pub(super) fn follows(member: &ClusterMember) -> Result<bool, String> {
    cli(member, &["INFO", "replication"]).map(|info| info.contains("master_link_status:up"))
}

pub(super) fn is_primary(member: &ClusterMember) -> Result<bool, String> {
    cli(member, &["ROLE"]).map(|role| role.starts_with("master"))
}

/// Starts a Sentinel there, which decides alone, and soon; waits until it knows who follows the primary.
pub(super) fn sentinel(
    kind: StoreKind,
    machine: &NetMachine,
    primary: &ClusterMember,
    follower: &ClusterMember,
    folder: &Path,
) -> Result<OwnedProcess, String> {
    let file = folder.join("sentinel.conf");
    // A Sentinel that stands still for longer than its time for a failover gives it up, and makes the promoted one a follower again. One that takes
    // the primary for dead as it starts, on a busy machine, gives that failover up for want of a follower, and tries no other for twice that time.
    let text = format!(
        "port 26379\nprotected-mode no\ndir {}\nsentinel monitor faults {} 6379 1\n\
         sentinel down-after-milliseconds faults 60000\nsentinel failover-timeout faults 60000\n",
        folder.display(),
        primary.machine.address
    );
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = machine.place.command(Path::new(&program(kind)?), None, &[]);
    command.arg(&file).arg("--sentinel");
    let process = OwnedProcess::logged(&mut command, &folder.join(SENTINEL_LOG))?;
    let ask = |words: &[&str]| machine.run(&[&["redis-cli", "-e", "-p", "26379"], words].concat());
    until("Sentinel does not know who follows", || {
        // By itself it waits for ten seconds before it makes a follower of an old primary that is back.
        ask(&["SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PUBLISH-PERIOD", "100"])?;
        let known = ask(&["SENTINEL", "REPLICAS", "faults"])?;
        Ok(known.contains(&follower.machine.address) && known.contains("master-link-status\nok"))
    })?;
    ask(&["SENTINEL", "SET", "faults", "down-after-milliseconds", "500"])?;
    Ok(process)
}

/// What Sentinel wrote last, on one line of a table, for whoever waited for it in vain.
pub(super) fn last_words_of_sentinel(folder: &Path) -> String {
    const LINES: usize = 20;
    let log = std::fs::read_to_string(folder.join(SENTINEL_LOG)).unwrap_or_default();
    let last: Vec<&str> = log.lines().rev().take(LINES).collect();
    last.into_iter().rev().collect::<Vec<_>>().join(" / ")
}

pub(super) fn promote(member: &ClusterMember) -> Result<(), String> {
    cli(member, &["REPLICAOF", "NO", "ONE"]).map(drop)
}

/// Writes more than what is left of its file's last page: it ends when it can't.
pub(super) fn use_up(member: &ClusterMember) -> bool {
    cli(member, &["SET", "filler", &"x".repeat(20_000)]).is_err()
}
