//! Redis, which acknowledges what is in its append-only file: with other settings it promises less, and so does its store.

use super::Member;
use std::path::Path;
use std::process::Command;

/// One that starts with its file, or follows another one.
pub(super) fn command(member: &Member, of: Option<&str>) -> Result<Command, String> {
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
    let mut command = member.place().command(Path::new("redis-server"), None, &member.wall.environment());
    command.arg(&file);
    Ok(command)
}

fn cli(member: &Member, words: &[&str]) -> Result<String, String> {
    member.machine.run(&[&["redis-cli", "-e"], words].concat())
}

pub(super) fn follows(member: &Member) -> Result<bool, String> {
    cli(member, &["INFO", "replication"]).map(|info| info.contains("master_link_status:up"))
}

pub(super) fn promote(member: &Member) -> Result<(), String> {
    cli(member, &["REPLICAOF", "NO", "ONE"]).map(drop)
}

/// Writes more than what is left of its file's last page: it ends when it can't.
pub(super) fn use_up(member: &Member) -> bool {
    cli(member, &["SET", "filler", &"x".repeat(20_000)]).is_err()
}
