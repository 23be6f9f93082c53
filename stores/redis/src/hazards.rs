//! What of a server's configuration can lose leases: for `doctor`, and for people.

use crate::connect::info_field;
use crate::lines::Lines;
use redis::Cmd;
use tenure_core::StoreError;

/// A sentence for each.
pub(crate) async fn hazards(lines: &Lines) -> Result<Vec<String>, StoreError> {
    let info: String = lines.ask(&redis::cmd("INFO")).await?;
    let number = |name: &str| info_field(&info, name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let fsync = setting(lines, "appendfsync").await;
    let least = setting(lines, "min-replicas-to-write").await;
    let mut found = Vec::new();
    if number("aof_enabled") == 0 {
        found.push(
            "it keeps no append-only file (appendonly no): a restart loses all since its last snapshot"
                .to_owned(),
        );
    } else if let Some(fsync) = fsync.filter(|fsync| fsync != "always") {
        found.push(format!("a crash of its machine can lose the last writes (appendfsync {fsync})"));
    }
    let replicas = number("connected_slaves");
    if replicas > 0 {
        let cut_off = match least.as_deref() {
            Some("0") => "; a primary that is cut off from them goes on granting (min-replicas-to-write 0)",
            _ => "",
        };
        found.push(format!(
            "its replicas ({replicas}) follow asynchronously: a failover can lose the last writes{cut_off}"
        ));
    }
    let policy = info_field(&info, "maxmemory_policy").unwrap_or_default();
    if number("maxmemory") > 0 && policy.starts_with("allkeys-") {
        found.push(format!("it drops keys when its memory is full (maxmemory-policy {policy})"));
    }
    Ok(found)
}

/// A setting, if this user may see it.
async fn setting(lines: &Lines, name: &str) -> Option<String> {
    let mut ask = Cmd::new();
    ask.arg("CONFIG").arg("GET").arg(name);
    let pair: Vec<String> = lines.ask(&ask).await.ok()?;
    pair.into_iter().nth(1)
}
