//! What Redis's errors mean to the caller.
//!
//! A script fails as a whole only before it has written anything, and the server refuses a write before it does it. So a command that
//! was answered with an error had no effect. A connection that ended, or an answer that did not come, leaves a write unknown. Texts
//! name the place and the remedy; the server's own words hold no secrets.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tenure_core::StoreError;
pub(crate) use tenure_store::parts::Call;

/// The error of a command that was sent.
pub(crate) fn failed(place: &str, call: Call, error: &RedisError) -> StoreError {
    if is_answer(error) {
        return refused(place, error);
    }
    let broken = if call == Call::Read {
        StoreError::unavailable(format!("{place}: {}", words(error)))
    } else {
        StoreError::unknown(format!("{place}: the connection failed under a write: {}", words(error)))
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
        _ => {
            // The driver counts one that was never made among them.
            let is_ended = error.is_connection_dropped() && !error.is_connection_refusal();
            strange(place, &words(error), is_ended)
        }
    }
    .because(error.clone())
}

/// What the library of TLS says of a certificate that it refuses.
const BAD_CERTIFICATE: &str = "invalid peer certificate";

/// Whether a certificate is refused for its name, or for who has signed it. What is to be mended is then how its server is named, or what is trusted here.
/// Where the authority that signed it only has the name of one that is trusted, the signature is what is bad.
fn is_misnamed(says: &str) -> bool {
    const WORDS: [&str; 4] = ["not valid for name", "NotValidForName", "UnknownIssuer", "BadSignature"];
    says.contains(BAD_CERTIFICATE) && WORDS.iter().any(|words| says.contains(words))
}

/// TLS was not agreed on with a server to which its cluster sends calls. Unless it is told otherwise, a cluster names servers by their addresses.
pub(crate) fn misnamed(place: &str, error: &RedisError) -> StoreError {
    let says = words(error);
    if !is_misnamed(&says) {
        return not_connected(place, error);
    }
    StoreError::unavailable(format!(
        "{place}: {says}; its cluster sends calls there: have its servers tell the names in their certificates (cluster-announce-hostname, \
         cluster-preferred-endpoint-type hostname), signed by an authority of ca=FILE"
    ))
    .because(error.clone())
}

/// What is at the other end is no server that may be used, or none at all. One that ended the connection may have said why, and what it said is lost
/// where the login came behind.
fn strange(place: &str, says: &str, is_ended: bool) -> StoreError {
    let remedy = if is_misnamed(says) {
        "name the host as its certificate does, or the authority that signed it with ca=FILE"
    } else if says.contains(BAD_CERTIFICATE) {
        "its server needs another certificate, or this host's clock has to be set"
    } else if is_ended {
        "is a Redis server listening there, does it speak what the URL says (redis:// or rediss://), and has it room for another client (maxclients)?"
    } else {
        "is a Redis server listening there, and does it speak what the URL says (redis:// or rediss://)?"
    };
    StoreError::unavailable(format!("{place}: {says}; {remedy}"))
}

/// The driver's words, in one line: what it could not read has several.
fn words(error: &RedisError) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A command had no answer in time.
pub(crate) fn unanswered(place: &str, call: Call) -> StoreError {
    call.unanswered(format!("{place}: no answer in time"))
}

/// No connection was made in time, or what is at its other end says nothing. A server that takes TLS's greeting for a command does so.
pub(crate) fn unconnected(place: &str, is_tls: bool) -> StoreError {
    let question = if is_tls { ", does it speak TLS (rediss://)," } else { "," };
    StoreError::unavailable(format!(
        "{place}: no answer in time; is a Redis server listening there{question} and does a firewall let this host through?"
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

/// What the driver said of it.
fn source_of(error: &StoreError) -> Option<&RedisError> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Whether a server said so itself.
pub(crate) fn is_said(error: &StoreError) -> bool {
    source_of(error)
        .is_some_and(|source| is_answer(source) || source.kind() == ErrorKind::AuthenticationFailed)
}

/// Whether the server refused a command for want of a right.
pub(crate) fn is_denial(error: &StoreError) -> bool {
    source_of(error).is_some_and(|source| {
        let detail = source.detail().unwrap_or_default();
        source.code() == Some("NOPERM") || lacks_right(detail)
    })
}

/// Of a command in a script, some versions say so in words only.
fn lacks_right(says: &str) -> bool {
    has_word(says, "NOPERM") || says.contains("The user executing the script can't")
}

/// Whether the server takes no writes, as it is a replica.
pub(crate) fn is_read_only(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || is_answer(error) && has_word(error.detail().unwrap_or_default(), "READONLY")
}

/// Whether the server refuses what another one that is named may do: a primary that is cut off, or that has just come back, and a node that was
/// taken out of its cluster.
pub(crate) fn is_turned_away(error: &RedisError) -> bool {
    const WORDS: [&str; 3] = ["CLUSTERDOWN", "NOREPLICAS", "LOADING"];
    let detail = error.detail().unwrap_or_default();
    is_answer(error) && WORDS.iter().any(|word| error.code() == Some(word) || has_word(detail, word))
}

/// Whether one of the words that errors begin with stands there. Redis 6.2 tells the errors of a script's commands amid words of the script's
/// own, with the mark of an error before them.
fn has_word(says: &str, word: &str) -> bool {
    says.split([' ', ':']).any(|found| found.trim_start_matches('-') == word)
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
    let is = |word: &str| has_word(says, word);
    if is("NOAUTH") {
        return wrong_password(place, "it wants a password");
    }
    if is("WRONGPASS") {
        return wrong_password(place, "the user or the password is wrong");
    }
    if lacks_right(says) {
        return StoreError::invalid(format!(
            "{place}: {says}; grant the user what tenure_redis::acl says; for gc +hdel +zrem besides, and for \
             guarded values +set and their names"
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
        () if detail.contains("max number of clients") => {
            "it has no room for another client; raise maxclients, or end idle ones"
        }
        () if is("MISCONF") => "it can't save to its disk, so it takes no writes; free space there",
        () if is("NOREPLICAS") => "it has fewer replicas than min-replicas-to-write, so it takes no writes",
        () if is("CLUSTERDOWN") => "the cluster has no primary for this namespace at present",
        () if is("LOADING") => "it is loading its data",
        () if is("BUSY") => "a script keeps it busy",
        () => "it refused the command",
    };
    StoreError::unavailable(format!("{place}: {hint} ({says})"))
}

#[cfg(test)]
mod tests {
    //! Plan: what the server refuses is told with the remedy, and what is no server of Redis's, in one line.
    use super::*;

    #[test]
    fn what_the_server_refuses_is_told_with_the_remedy() {
        for (code, detail, says, kept) in [
            ("ERR", "max number of clients reached", "raise maxclients", "max number of clients reached"),
            ("ERR", "max number of clients + cluster connections reached", "raise maxclients", "cluster"),
            ("BUSY", "Redis is busy running a script.", ": a script keeps it busy", "BUSY"),
            ("OOM", "command not allowed", "raise maxmemory", "OOM"),
        ] {
            let error = refused_as("there", code, detail);
            let text = error.to_string();
            assert!(text.contains(says) && text.contains(kept), "{text}");
            assert_eq!(error.kind(), tenure_core::ErrorKind::Unavailable, "{text}");
        }
    }

    #[test]
    fn what_redis_6_2_says_of_a_scripts_commands_is_told_as_what_newer_ones_say() {
        let amid_words = |says: &str| {
            format!(
                "Error running script (call to f_1): @user_script:37: @user_script: 37: -{says} You can't."
            )
        };
        for (word, remedy) in [("READONLY", "name the primary"), ("OOM", "raise maxmemory")] {
            let text = refused_as("there", "ERR", &amid_words(word)).to_string();
            assert!(text.contains(remedy), "{text}");
            let text =
                refused_in_script("there", &format!("@user_script: 37: -{word} You can't.")).to_string();
            assert!(text.contains(remedy), "{text}");
        }
        let kind = ErrorKind::Server(ServerErrorKind::ResponseError);
        let error = |says: &str| RedisError::from((kind, "An error", amid_words(says)));
        assert!(is_read_only(&error("READONLY")) && !is_read_only(&error("OOM")));
        assert!(is_turned_away(&error("NOREPLICAS")) && !is_turned_away(&error("OOM")));
    }

    #[test]
    fn what_another_server_may_do_is_told_apart() {
        for (kind, is_so) in [
            (ServerErrorKind::ClusterDown, true),
            (ServerErrorKind::BusyLoading, true),
            (ServerErrorKind::ReadOnly, false),
            (ServerErrorKind::NoPerm, false),
        ] {
            let error = RedisError::from((ErrorKind::Server(kind), "An error"));
            assert_eq!(is_turned_away(&error), is_so, "{error}");
        }
    }

    #[test]
    fn what_is_no_server_of_redis_s_is_told_in_one_line_with_what_may_help() {
        let parse = RedisError::from((
            ErrorKind::Parse,
            "Parse error",
            "at 1\nUnexpected `33`\nExpected one of".to_owned(),
        ));
        let ended = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let refused = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        for (error, says, is_told) in
            [(&parse, "maxclients", false), (&ended, "maxclients", true), (&refused, "maxclients", false)]
        {
            let text = not_connected("there", error).to_string();
            assert!(!text.contains('\n') && text.contains("is a Redis server listening there"), "{text:?}");
            assert_eq!(text.contains(says), is_told, "{text}");
        }
        let text = failed("there", Call::Read, &parse).to_string();
        assert!(!text.contains('\n'), "{text:?}");
        for (says, remedy) in [
            ("invalid peer certificate: UnknownIssuer", "ca=FILE"),
            ("invalid peer certificate: BadSignature", "ca=FILE"),
            ("invalid peer certificate: certificate not valid for name \"h\"", "name the host as"),
        ] {
            let text = strange("there", says, false).to_string();
            assert!(text.contains(says) && text.contains(remedy) && !text.contains("listening"), "{text}");
        }
        let refused =
            |why: &str| RedisError::from(std::io::Error::other(format!("invalid peer certificate: {why}")));
        for (error, says, is_about_names) in [
            (refused("certificate not valid for name \"h\""), "cluster-announce-hostname", true),
            (refused("NotValidForName"), "cluster-announce-hostname", true),
            (refused("UnknownIssuer"), "cluster-announce-hostname", true),
            (refused("certificate expired: verification time 9 (UNIX)"), "clock", false),
            (refused("certificate not valid yet: verification time 9 (UNIX)"), "clock", false),
            (refused("Revoked"), "another certificate", false),
            (ended, "listening", false),
        ] {
            let text = misnamed("there", &error).to_string();
            assert!(text.contains(says), "{text}");
            let elsewhere = not_connected("there", &error).to_string();
            for (text, remedy) in [
                (&text, "hostname"),
                (&text, "ca=FILE"),
                (&elsewhere, "name the host"),
                (&elsewhere, "ca=FILE"),
            ] {
                assert_eq!(text.contains(remedy), is_about_names, "{text}");
            }
        }
        for (is_tls, is_asked) in [(true, true), (false, false)] {
            assert_eq!(unconnected("there", is_tls).to_string().contains("does it speak TLS"), is_asked);
        }
    }
}
