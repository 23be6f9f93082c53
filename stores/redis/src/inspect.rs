//! What a server says of itself: what of its configuration can lose leases, how full it is, what time it has.

use crate::connect::info_field;
use crate::connection_manager::ConnectionManager;
use redis::Cmd;
use std::time::Duration;
use tenure_core::Wall;
use tenure_store::{Inspection, ServerClock};

/// What follows from writes that are lost, after whatever loses them.
const TWO: &str = "two may hold a lease then: fences protect";

/// Asks the server that has the namespace.
pub(crate) async fn inspect(connections: &ConnectionManager) -> Inspection {
    let mut found = Inspection::default();
    match connections.ask::<String>(&redis::cmd("INFO")).await {
        Ok(info) => {
            let info = Info(info);
            add_role(&info, &mut found);
            add_durability(&info, connections, &mut found).await;
            add_failover(&info, connections, &mut found).await;
            add_memory(&info, &mut found);
        }
        Err(error) => found.note("server", format!("what can lose leases on it can't be told: {error}")),
    }
    // Seconds, and microseconds of the next.
    if let Ok((seconds, micros)) = connections.ask::<(u64, u64)>(&redis::cmd("TIME")).await {
        let wall = Wall(seconds.saturating_mul(1000).saturating_add(micros / 1000));
        found.clock = Some(ServerClock::new(wall, Duration::from_millis(1)));
    }
    found
}

/// What INFO answers.
struct Info(String);

impl Info {
    fn text(&self, name: &str) -> String {
        info_field(&self.0, name).unwrap_or_default()
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }
}

fn add_role(info: &Info, found: &mut Inspection) {
    let valkey = info.text("valkey_version");
    let version = if valkey.is_empty() {
        format!("Redis {}", info.text("redis_version"))
    } else {
        format!("Valkey {valkey}")
    };
    if info.text("role") == "master" {
        let role = if info.number("cluster_enabled") == 1 { ", a cluster's primary" } else { ", a primary" };
        found.fine("server", format!("{version}{role}"));
    } else {
        found.hazard("server", format!("{version}, a read-only replica; name the primary"));
    }
    if info.number("loading") == 1 {
        found.hazard("server", "it is loading its data, and answers nothing until then");
    }
}

/// What facts about restarts and crashes are filed under.
const DURABILITY: &str = "durability";

/// What a restart or a crash can take away.
async fn add_durability(info: &Info, connections: &ConnectionManager, found: &mut Inspection) {
    if info.number("aof_enabled") == 0 {
        found.hazard(
            DURABILITY,
            format!("it keeps no append-only file (appendonly no): a restart loses all since its last snapshot, and {TWO}"),
        );
        return;
    }
    if info.text("aof_last_write_status") == "err" {
        found.hazard(
            DURABILITY,
            "its append-only file can't be written: it takes no writes until there is space",
        );
    }
    match setting(connections, "appendfsync").await {
        Some(fsync) if fsync == "always" => {
            add_rewrites(setting(connections, "no-appendfsync-on-rewrite").await.as_deref(), found);
        }
        Some(fsync) => {
            found.hazard(
                DURABILITY,
                format!("a crash of its machine can lose the last writes (appendfsync {fsync}), and {TWO}"),
            );
        }
        None => found
            .note(DURABILITY, "when its append-only file is synced is not told to this user (+config|get)"),
    }
}

/// Whether each write is synced also while a child of the server writes to the disk (`no-appendfsync-on-rewrite`), where that can be told.
fn add_rewrites(skips: Option<&str>, found: &mut Inspection) {
    match skips {
        Some("yes") => found.hazard(
            DURABILITY,
            format!(
                "while it rewrites its append-only file or saves a snapshot, writes are not synced (no-appendfsync-on-rewrite yes): a crash of \
                 its machine can lose them then, and {TWO}; CONFIG SET no-appendfsync-on-rewrite no"
            ),
        ),
        Some(_) => found.fine(DURABILITY, "each write is on its disk before it is answered"),
        None => found.note(
            DURABILITY,
            "whether writes are synced while its append-only file is rewritten is not told to this user (+config|get)",
        ),
    }
}

/// What another server's promotion can take away.
async fn add_failover(info: &Info, connections: &ConnectionManager, found: &mut Inspection) {
    const ABOUT: &str = "failover";
    let replicas = info.number("connected_slaves");
    if replicas > 0 {
        let cut_off = match setting(connections, "min-replicas-to-write").await.as_deref() {
            Some("0") => "; a primary that is cut off from them goes on granting (min-replicas-to-write 0)",
            _ => "",
        };
        found.hazard(
            ABOUT,
            format!(
                "its replicas ({replicas}) follow asynchronously: a failover can lose the last writes, and {TWO}{cut_off}"
            ),
        );
    } else {
        found
            .fine(ABOUT, "no replicas are connected now; one that is away lacks what has been written since");
    }
    let primaries: Vec<String> = connections.primaries().await.iter().map(ToString::to_string).collect();
    if primaries.len() > 1 {
        found.hazard(
            ABOUT,
            format!(
                "{} are primaries, and each process uses the one that answers first: {TWO}; name one primary and its own replicas",
                primaries.join(" and ")
            ),
        );
    }
    // Sentinels talk to each other by this channel of each server that they watch.
    let mut ask = Cmd::new();
    ask.arg("PUBSUB").arg("NUMSUB").arg("__sentinel__:hello");
    match connections.ask::<(String, u64)>(&ask).await {
        Ok((_, sentinels)) if sentinels > 0 => found.hazard(
            ABOUT,
            "Sentinels watch it, and promote a replica without asking anybody; tenure doesn't ask them: name all servers, with commas \
             between",
        ),
        Ok(_) => {}
        Err(_) => found.note(ABOUT, "whether Sentinels watch it is not told to this user (+pubsub|numsub)"),
    }
}

/// What becomes of keys when its memory is full.
fn add_memory(info: &Info, found: &mut Inspection) {
    const ABOUT: &str = "memory";
    let (used, most) = (info.number("used_memory"), info.number("maxmemory"));
    let policy = info.text("maxmemory_policy");
    if most == 0 {
        found.fine(ABOUT, "it has no limit of its own (maxmemory 0)");
        return;
    }
    if policy.starts_with("allkeys-") {
        found.hazard(
            ABOUT,
            format!("it drops keys when its memory is full (maxmemory-policy {policy}), and {TWO}"),
        );
    }
    let share = used.saturating_mul(100) / most;
    let text = format!("{share} % of its memory is used (maxmemory {most}, {policy})");
    if share >= 90 {
        found.hazard(
            ABOUT,
            format!("{text}; once it is full, nothing can be acquired or renewed: raise maxmemory"),
        );
    } else {
        found.fine(ABOUT, text);
    }
}

/// A setting, if this user may see it.
async fn setting(connections: &ConnectionManager, name: &str) -> Option<String> {
    let mut ask = Cmd::new();
    ask.arg("CONFIG").arg("GET").arg(name);
    let pair: Vec<String> = connections.ask(&ask).await.ok()?;
    pair.into_iter().nth(1)
}

#[cfg(test)]
mod tests {
    //! Plan: what a crash can lose though each write is to be synced, by what is told of rewrites.
    use super::*;
    use tenure_store::Bearing;

    #[test]
    fn a_sync_that_rewrites_skip_is_a_hazard() {
        for (skips, says, bearing) in [
            (Some("no"), "each write is on its disk", Bearing::Fine),
            (Some("yes"), "CONFIG SET no-appendfsync-on-rewrite no", Bearing::Hazard),
            (None, "+config|get", Bearing::Note),
        ] {
            let mut found = Inspection::default();
            add_rewrites(skips, &mut found);
            let [fact] = &found.facts[..] else { panic!("{skips:?}: {found:?}") };
            assert!(fact.text.contains(says) && fact.bearing == bearing, "{skips:?}: {fact:?}");
        }
    }
}
