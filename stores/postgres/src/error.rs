//! What PostgreSQL's errors mean to the caller.
//!
//! A statement that the server refused was rolled back, so it certainly took no effect. A connection that ended, or an answer
//! that did not come, leaves a write unknown. Texts name the place and the remedy; the server's own words hold no secrets.

use deadpool_postgres::{PoolError, Status, TimeoutType};
use tenure_core::StoreError;
pub use tenure_store::parts::Call;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

/// The error of a statement that was sent.
pub(crate) fn failed(place: &str, call: Call, error: Error) -> StoreError {
    meaning(place, call, &error).because(error)
}

fn meaning(place: &str, call: Call, error: &Error) -> StoreError {
    match error.as_db_error() {
        Some(refusal) if call == Call::Write && ends_unknown(refusal.parsed_severity(), refusal.code()) => {
            StoreError::unknown(format!(
                "{place}: {} (SQLSTATE {})",
                refusal.message(),
                refusal.code().code()
            ))
        }
        Some(refusal) => refused(place, call, refusal.code(), refusal.message()),
        None if call == Call::Read => StoreError::unavailable(format!("{place}: {}", words(error))),
        None => {
            StoreError::unknown(format!("{place}: the connection failed under a write: {}", words(error)))
        }
    }
}

/// A connection could not be had, so nothing was sent.
pub(crate) fn unconnected(place: &str, error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => not_connected(place, error),
        PoolError::Timeout(TimeoutType::Create) => unreached(place).because(error),
        PoolError::Timeout(_) => {
            StoreError::unavailable(format!("{place}: no connection was free or made in time")).because(error)
        }
        other => StoreError::unavailable(format!("{place}: {other}")).because(other),
    }
}

/// The caller's pool gave no connection in time.
pub(crate) fn exhausted(place: &str, pool: Status) -> StoreError {
    let Status { max_size, size, waiting, .. } = pool;
    StoreError::unavailable(format!(
        "{place}: no connection was free or made in time; the caller's pool has {size} of at most {max_size}, and {waiting} more callers wait: give it \
         room for the store (max_size), or open the store without a pool"
    ))
}

/// The server refused a connection, or there is none.
pub(crate) fn not_connected(place: &str, error: Error) -> StoreError {
    let meaning = match error.as_db_error() {
        Some(refusal) => refused(place, Call::Read, refusal.code(), refusal.message()),
        None => without_answer(place, &words(&error)),
    };
    meaning.because(error)
}

/// The driver gave up by itself: over what it was given, or since what is at the other end is no server that may be used, or none at all.
fn without_answer(place: &str, says: &str) -> StoreError {
    if says.contains("password missing") {
        return StoreError::invalid(format!(
            "{place}: the server asks for a password, and none is given; add password-file=FILE"
        ));
    }
    if says.contains("invalid configuration") {
        return StoreError::invalid(format!("{place}: {says}"));
    }
    let remedy = if says.contains("invalid peer certificate") {
        "name the host as its certificate does, or the authority that signed it with sslrootcert=FILE"
    } else {
        "is a PostgreSQL server listening there, and does it speak what the URL says (sslmode)?"
    };
    StoreError::unavailable(format!("{place}: {says}; {remedy}"))
}

/// No connection was made in time.
pub(crate) fn unreached(place: &str) -> StoreError {
    StoreError::unavailable(format!(
        "{place}: no connection was made in time; is a PostgreSQL server listening there, and does a firewall let this host through?"
    ))
}

/// A statement had no answer in time.
pub(crate) fn unanswered(place: &str, call: Call) -> StoreError {
    call.unanswered(format!("{place}: no answer in time"))
}

fn refused(place: &str, call: Call, code: &SqlState, says: &str) -> StoreError {
    let is = |codes: &[SqlState]| codes.contains(code);
    if is(&[SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME]) {
        return missing_tables(place);
    }
    if is(&[SqlState::UNDEFINED_COLUMN]) {
        return StoreError::foreign(format!(
            "{place}: the schema has tables that aren't tenure's ({says}); name another with schema=…"
        ));
    }
    if is(&[SqlState::INSUFFICIENT_PRIVILEGE]) {
        return StoreError::invalid(format!(
            "{place}: {says}; grant the role USAGE on the schema, SELECT, INSERT, UPDATE on its table and EXECUTE on its functions; gc, work rm, \
             fleet rm --all and rm --damaged also need DELETE"
        ));
    }
    if is(&[SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION]) {
        return StoreError::invalid(format!("{place}: {says}; check user, password and pg_hba.conf"));
    }
    if is(&[SqlState::INVALID_CATALOG_NAME]) {
        return StoreError::invalid(format!("{place}: {says}; name a database that exists"));
    }
    if is(&[SqlState::READ_ONLY_SQL_TRANSACTION]) {
        return StoreError::unavailable(format!(
            "{place}: the server is read-only ({says}): a replica, or in recovery; name the primary"
        ));
    }
    if is(&[SqlState::TOO_MANY_CONNECTIONS]) {
        return StoreError::unavailable(format!(
            "{place}: {says}; raise max_connections or the role's CONNECTION LIMIT, take fewer by connections=…, or put a pooler between"
        ));
    }
    if is(&[SqlState::DISK_FULL]) {
        return StoreError::unavailable(format!(
            "{place}: {says}; the server's disk is full: make room there, and all goes on"
        ));
    }
    let pooler = (*code == SqlState::PROTOCOL_VIOLATION).then(|| said_by_pooler(says));
    if leaves_open(code) && call == Call::Write {
        let remedy = pooler.map(|(_, remedy)| format!("; {remedy}")).unwrap_or_default();
        return StoreError::unknown(format!("{place}: {says}{remedy}"));
    }
    if let Some((passes, remedy)) = pooler {
        let text = format!("{place}: {says}; {remedy}");
        return if passes { StoreError::unavailable(text) } else { StoreError::invalid(text) };
    }
    let text = format!("{place}: {says} (SQLSTATE {})", code.code());
    if passes(code) { StoreError::unavailable(text) } else { StoreError::invalid(text) }
}

/// Whether the server takes no writes, or not any more.
pub(crate) fn is_demoted(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// Whether the server, or a pooler, refused for want of a right, or of what was there before.
pub(crate) fn is_denial(error: &StoreError) -> bool {
    let codes = [
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::PROTOCOL_VIOLATION,
    ];
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Error>());
    source.and_then(Error::code).is_some_and(|code| codes.contains(code))
}

/// Whether what a pooler says by this code passes, and what helps. PgBouncer has it for all that it refuses, also for what it heard of the
/// server, so its words have to tell.
fn said_by_pooler(says: &str) -> (bool, &'static str) {
    let has = |words: &[&str]| words.iter().any(|words| says.contains(words));
    match () {
        // It may go on with what the server has said at last.
        () if has(&["login has been failing", "query_wait_timeout", "cannot connect to server"]) => {
            (true, "a pooler has no connection to the server: is that up, and is the pool large enough?")
        }
        () if has(&[
            "password authentication failed",
            "authentication failed",
            "auth failed",
            "no such user",
        ]) =>
        {
            (false, "check user and password, and the pooler's auth_file or auth_query")
        }
        () if has(&["no such database"]) || has(&["database \""]) && has(&["does not exist"]) => {
            (false, "name a database that exists, and that the pooler knows")
        }
        () if has(&["max_client_conn", "max_db_client_connections", "max_user_client_connections"]) => {
            (true, "raise that limit of the pooler's, or take fewer by connections=…")
        }
        () if has(&["SSL required"]) => (false, "leave sslmode=disable out of the URL"),
        () => (true, "if a pooler stands between, its log says more"),
    }
}

/// Whether it is open what became of a statement. Shutting down in the middle of a commit leaves it open whether the commit was recorded; and
/// other servers of PostgreSQL's protocol say by a code of its own (40003) that they don't know.
fn leaves_open(code: &SqlState) -> bool {
    [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN]
        .contains(code)
        || code.code().starts_with("08")
}

/// Whether a failure of this severity leaves open what became of a statement. A server that panics may have logged the commit, which its recovery
/// does then. PgCat says by FATAL and 58000 whatever befalls a statement that it has passed on already. And a `transaction_timeout` may strike right
/// after a commit.
fn ends_unknown(severity: Option<Severity>, code: &SqlState) -> bool {
    let is_internal = ["58", "XX"].iter().any(|class| code.code().starts_with(class));
    match severity {
        Some(Severity::Panic) => true,
        Some(Severity::Fatal) => is_internal || code.code() == "25P04",
        _ => false,
    }
}

/// Whatever passes: forgotten statements, resources, limits, locks, a restart, a queue of notifications that is full. All else is about
/// what was asked.
fn passes(code: &SqlState) -> bool {
    let classes = ["08", "26", "40", "53", "55", "57", "58", "XX"];
    // Times that are over: of a transaction that was idle, and of one as a whole (PostgreSQL 17).
    ["25P03", "25P04"].contains(&code.code())
        || *code == SqlState::PROGRAM_LIMIT_EXCEEDED
        || classes.iter().any(|class| code.code().starts_with(class))
}

/// What stands where tenure's tables should.
pub(crate) fn missing_tables(place: &str) -> StoreError {
    StoreError::invalid(format!(
        "{place}: tenure's tables are not there; `tenure doctor --create-table` or PostgresStore::migrate makes them"
    ))
}

/// An error with its causes: the driver's own text leaves them out.
fn words(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    //! Plan: which of the server's codes pass, which are about what was asked, and after which nobody knows what became of a write.
    use super::*;

    #[test]
    fn codes_tell_what_leaves_a_write_unknown() {
        for code in ["40003", "08007", "08006", "57P01", "57P02"] {
            assert!(leaves_open(&SqlState::from_code(code)), "{code}");
        }
        for code in ["40001", "40P01", "55P03", "57014", "25006", "53300"] {
            assert!(!leaves_open(&SqlState::from_code(code)), "{code}");
        }
    }

    #[test]
    fn a_server_that_panics_or_a_pooler_that_fails_leaves_a_write_unknown() {
        let is_open = |severity, code| ends_unknown(Some(severity), &SqlState::from_code(code));
        for code in ["58030", "53100", "XX000"] {
            assert!(is_open(Severity::Panic, code), "{code}");
        }
        assert!(is_open(Severity::Fatal, "58000") && is_open(Severity::Fatal, "XX000"));
        // What could not be done, and a session that is over before its statement was.
        assert!(!is_open(Severity::Error, "58030") && !is_open(Severity::Error, "XX000"));
        assert!(is_open(Severity::Fatal, "25P04"));
        assert!(!is_open(Severity::Fatal, "25P03") && !is_open(Severity::Fatal, "53300"));
        assert!(!ends_unknown(None, &SqlState::from_code("58000")));
    }

    #[test]
    fn codes_tell_what_passes() {
        for (code, is_passing) in [
            // A full queue of notifications, which is the whole cluster's.
            ("54000", true),
            ("08006", true),
            ("26000", true),
            ("40P01", true),
            ("53100", true),
            ("53300", true),
            ("55P03", true),
            ("57014", true),
            ("57P03", true),
            ("25P03", true),
            ("25P04", true),
            ("58030", true),
            ("XX000", true),
            ("25P02", false),
            ("22P02", false),
            ("23505", false),
            ("42601", false),
            ("54001", false),
            ("TNF01", false),
        ] {
            assert_eq!(passes(&SqlState::from_code(code)), is_passing, "{code}");
        }
    }

    /// What PgBouncer 1.18 and newer ones say, all by one code.
    #[test]
    fn what_a_pooler_says_is_told_with_its_remedy() {
        use tenure_core::ErrorKind::{Invalid, Unavailable, Unknown};
        for (says, kind, remedy) in [
            ("password authentication failed", Invalid, "check user and password"),
            ("SASL authentication failed", Invalid, "auth_file"),
            ("no such user: app", Invalid, "check user"),
            ("no such database: nodb", Invalid, "name a database that exists"),
            ("database \"nodb\" does not exist", Invalid, "name a database that exists"),
            (
                "no more connections allowed (max_client_conn)",
                Unavailable,
                "raise that limit of the pooler's",
            ),
            ("query_wait_timeout", Unavailable, "is that up"),
            (
                "server login has been failing, cached error: password authentication failed (server_login_retry)",
                Unavailable,
                "no connection to the server",
            ),
            ("SSL required", Invalid, "sslmode"),
            ("pgbouncer is in a mood", Unavailable, "its log"),
        ] {
            let error = refused("there", Call::Read, &SqlState::PROTOCOL_VIOLATION, says);
            let text = error.to_string();
            assert!(
                error.kind() == kind && text.contains(says) && text.contains(remedy),
                "{says}: {error:?}"
            );
            // Whether it came before or after the statement went on to the server is not known.
            let write = refused("there", Call::Write, &SqlState::PROTOCOL_VIOLATION, says);
            assert!(write.kind() == Unknown && write.to_string().contains(remedy), "{says}: {write:?}");
        }
    }

    #[test]
    fn a_certificate_that_is_not_trusted_has_a_remedy_of_its_own() {
        for (says, remedy, other) in [
            ("invalid peer certificate: UnknownIssuer", "sslrootcert=FILE", "listening there"),
            (
                "invalid peer certificate: certificate not valid for name \"h\"",
                "name the host as",
                "listening there",
            ),
            ("connection refused", "listening there", "certificate"),
        ] {
            let text = without_answer("there", says).to_string();
            assert!(
                text.contains(says) && text.contains(remedy) && !text.replace(says, "").contains(other),
                "{text}"
            );
        }
    }

    #[test]
    fn a_missing_right_is_told_with_all_that_is_granted() {
        let says = "permission denied for function write_absent";
        let text = refused("there", Call::Write, &SqlState::INSUFFICIENT_PRIVILEGE, says).to_string();
        assert!(
            ["USAGE", "SELECT, INSERT, UPDATE", "EXECUTE"].iter().all(|right| text.contains(right)),
            "{text}"
        );
    }
}
