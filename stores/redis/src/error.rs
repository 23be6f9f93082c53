//! What Redis's errors mean to the caller.
//!
//! A script fails as a whole only before it has written anything, and the server refuses a write before it does it. So a command that
//! was answered with an error had no effect. A connection that ended, or an answer that did not come, leaves a write unknown. Texts
//! name the place and the remedy; the server's own words hold no secrets.

use redis::{ErrorKind, RedisError};
use tenure_core::StoreError;
pub(crate) use tenure_store::parts::Call;

/// The error of a command that was sent.
pub(crate) fn failed(place: &str, call: Call, error: &RedisError) -> StoreError {
    if is_answer(error) {
        return refused(place, error);
    }
    let broken = if call == Call::Read {
        StoreError::unavailable(format!("{place}: {error}"))
    } else {
        StoreError::unknown(format!("{place}: the connection failed under a write: {error}"))
    };
    broken.because(error.clone())
}

/// Whether the server said so itself; the connection is as good as before then.
pub(crate) fn is_answer(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

/// The server refused a connection, or there is none.
pub(crate) fn not_connected(place: &str, error: &RedisError) -> StoreError {
    match error.kind() {
        ErrorKind::AuthenticationFailed => wrong_password(place, "the user or the password is wrong"),
        _ if is_answer(error) => return refused(place, error),
        _ => StoreError::unavailable(format!(
            "{place}: {error}; is a Redis server listening there, and does it speak what the URL says (redis:// or rediss://)?"
        )),
    }
    .because(error.clone())
}

/// A command had no answer in time.
pub(crate) fn unanswered(place: &str, call: Call) -> StoreError {
    call.unanswered(format!("{place}: no answer in time"))
}

/// No connection was made in time, or what is at its other end says nothing.
pub(crate) fn unconnected(place: &str) -> StoreError {
    StoreError::unavailable(format!(
        "{place}: no answer in time; is a Redis server listening there, and does a firewall let this host through?"
    ))
}

pub(crate) fn evicting(place: &str, policy: &str) -> StoreError {
    StoreError::invalid(format!(
        "{place}: when its memory is full it drops keys (maxmemory-policy {policy}), and leases with them; set maxmemory-policy to \
         noeviction, or accept that only fences protect then, with eviction=accept"
    ))
}

fn wrong_password(place: &str, says: &str) -> StoreError {
    StoreError::invalid(format!("{place}: {says}; check the user (ACL LIST) and the password"))
}

fn refused(place: &str, error: &RedisError) -> StoreError {
    refused_as(place, error.code().unwrap_or("ERR"), error.detail().unwrap_or_default())
        .because(error.clone())
}

/// What the server has said to a script, which went on.
pub(crate) fn refused_in_script(place: &str, says: &str) -> StoreError {
    let (code, detail) = says.trim_start_matches('-').split_once(' ').unwrap_or(("ERR", says));
    refused_as(place, code, detail)
}

fn refused_as(place: &str, code: &str, detail: &str) -> StoreError {
    // A script's error has its own code at the beginning, or what went wrong in the script's own terms.
    let says = format!("{code} {detail}");
    let says = says.trim();
    let is = |word: &str| says.split([' ', ':']).any(|found| found == word);
    if is("NOAUTH") {
        return wrong_password(place, "it wants a password");
    }
    if is("WRONGPASS") {
        return wrong_password(place, "the user or the password is wrong");
    }
    // Of a command in a script, some versions say so in words only.
    if is("NOPERM") || detail.contains("The user executing the script can't") {
        return StoreError::invalid(format!(
            "{place}: {says}; grant the user what tenure_redis::acl says, and for gc +hdel +zrem besides"
        ));
    }
    if is("WRONGTYPE") {
        return StoreError::foreign(format!(
            "{place}: another program uses keys of this namespace ({says}); name another with namespace=…"
        ));
    }
    if code == "ERR" && detail.contains("unknown command") {
        return StoreError::invalid(format!("{place}: {says}; Redis 6.2 or newer, or Valkey, is needed"));
    }
    if code == "ERR" && (detail.contains("DB index") || detail.contains("SELECT is not allowed")) {
        return StoreError::invalid(format!("{place}: {says}; name a database that exists, in a cluster /0"));
    }
    let hint = match () {
        () if is("READONLY") => {
            "it is a read-only replica; name the primary, or all servers with commas between"
        }
        () if is("OOM") => {
            "its memory is full, so nothing can be acquired or renewed; raise maxmemory or free some"
        }
        () if is("MISCONF") => "it can't save to its disk, so it takes no writes; free space there",
        () if is("NOREPLICAS") => "it has fewer replicas than min-replicas-to-write, so it takes no writes",
        () if is("CLUSTERDOWN") => "the cluster has no primary for this namespace at present",
        () if is("LOADING") => "it is loading its data",
        () if is("BUSY") => "another program's script keeps it busy",
        () => "it refused the command",
    };
    StoreError::unavailable(format!("{place}: {hint} ({says})"))
}
