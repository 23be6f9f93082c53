//! Which server and which schema, and how they are used.

use percent_encoding::percent_decode_str;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::{Password, UrlOption, check_login, check_span, is_loopback};
use tenure_store::{Capabilities, Expiry};
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// What errors call it.
const URL: &str = "the PostgreSQL store's URL";
/// Words that PostgreSQL 13 to 18 take for a schema's name in quotes only.
const RESERVED: &str = "\
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column concurrently \
    constraint create cross current_catalog current_date current_role current_schema current_time current_timestamp current_user default \
    deferrable desc distinct do else end except false fetch for foreign freeze from full grant group having ilike in initially inner \
    intersect into is isnull join lateral leading left like limit localtime localtimestamp natural not notnull null offset on only or order \
    outer overlaps placing primary references returning right select session_user similar some symmetric system_user table tablesample then to \
    trailing true union unique user using variadic verbose when where window with";

/// What a URL may say besides what every PostgreSQL client understands.
const OPTIONS: &str =
    "schema, connections, timeout-ms, push, ages, prepare, sslmode, sslrootcert, password-file";

/// Why plain text and TLS are not asked for at once, whichever comes first.
const CONTRADICTION: &str = "sslmode=disable and sslrootcert= or sslmode=require contradict each other; leave sslmode=disable out for TLS, or \
                             name nothing else for plain text";

/// Where the records are, and how the server is used. Everything is checked by [`crate::PostgresStore::open`] before any I/O.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) server: tokio_postgres::Config,
    pub(crate) schema: String,
    pub(crate) tls: Tls,
    pub(crate) connections: usize,
    pub(crate) timeout: Duration,
    pub(crate) push: bool,
    pub(crate) attested_ages: bool,
    pub(crate) prepare: Prepare,
    password: Option<Password>,
}

/// Whether statements are prepared on a connection, so that the server plans each of them once. That takes a session of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prepare {
    /// Where the server's session is seen to be the connection's own. Through a pooler that lends sessions it is not.
    Automatic,
    /// Always: the caller knows that whatever stands between keeps prepared statements of its clients apart, as PgBouncer does from 1.21
    /// on with `max_prepared_statements` above 0. One that does not may run *another client's* statement in place of ours.
    Always,
    /// Never.
    Never,
}

// etcd's store has a type of its own: it refuses what this one does by itself, plain text or TLS, and has certificates for clients, too.
/// How the connection is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tls {
    /// Plain text to a Unix socket or a loopback address, TLS with a verified certificate to everything else.
    Automatic,
    /// TLS always. The certificate must be signed by an authority of this PEM file, or of the system's where there is none.
    Verified(Option<PathBuf>),
    /// Plain text, also across a network: whoever can listen there reads the password and can take leases.
    Plain,
}

impl PostgresConfig {
    /// The longest time to wait for an answer.
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(60);

    /// The schema `tenure` of the database that `server` names.
    #[must_use]
    pub fn new(server: tokio_postgres::Config) -> Self {
        PostgresConfig {
            server,
            schema: "tenure".to_owned(),
            tls: Tls::Automatic,
            connections: 8,
            timeout: Duration::from_secs(5),
            push: true,
            attested_ages: true,
            prepare: Prepare::Automatic,
            password: None,
        }
    }

    /// Understands a URL such as `postgres://app@db.example/jobs?schema=leases`, with or without its scheme.
    ///
    /// Besides the options of every PostgreSQL client there are `schema`, `connections`, `timeout-ms`, `push=off`, `ages=off`,
    /// `prepare=on|off`, `sslmode=disable|require` (`require` verifies the certificate), `sslrootcert=FILE` and `password-file=FILE`. A
    /// password is best kept out of the URL: in that file, whose first line it is. The file is read for each new connection, so a
    /// password may be changed there.
    ///
    /// # Errors
    /// `Invalid`, which names the option but never repeats a value that could hold a password.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let rest = url.strip_prefix("postgres:").or_else(|| url.strip_prefix("postgresql:")).unwrap_or(url);
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !place.starts_with("//") {
            return Err(StoreError::invalid(
                "the PostgreSQL store is named as postgres://USER@HOST/DATABASE; two slashes come first",
            ));
        }
        check_login(URL, rest)?;
        let mut own = Vec::new();
        let mut theirs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(bad("an option has no value; write NAME=VALUE"));
            };
            if OPTIONS.split(", ").any(|option| option == name) {
                own.push((name, value))
            } else {
                theirs.push(pair)
            }
        }
        let plain = if theirs.is_empty() { String::new() } else { format!("?{}", theirs.join("&")) };
        let server =
            format!("postgres:{place}{plain}").parse::<tokio_postgres::Config>().map_err(|error| {
                // Its source names the option that is wrong: behind password= that may be a part of one. The error itself never
                // repeats the text.
                let has_password = theirs.iter().any(|pair| pair.starts_with("password="));
                let why = std::error::Error::source(&error).filter(|_| !has_password);
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                bad(&format!("{error}{why}; tenure's own options are {OPTIONS}"))
            })?;
        own.into_iter()
            .try_fold(PostgresConfig::new(server), |config, (name, value)| config.with(name, value))
    }

    /// The configuration with one option of a URL.
    fn with(mut self, name: &str, value: &str) -> Result<Self, StoreError> {
        let value =
            percent_decode_str(value).decode_utf8().map_err(|_| bad(&format!("{name} is not UTF-8")))?;
        let option = UrlOption { url: URL, name, value: &value };
        match name {
            "schema" => self.schema = value.into_owned(),
            "connections" => self.connections = option.number()? as usize,
            "timeout-ms" => self.timeout = option.millis()?,
            "push" => self.push = option.is("on", "off")?,
            "ages" => self.attested_ages = option.is("on", "off")?,
            "prepare" => {
                self.prepare = if option.is("on", "off")? { Prepare::Always } else { Prepare::Never };
            }
            "sslmode" => match &*value {
                "disable" if matches!(self.tls, Tls::Verified(_)) => return Err(bad(CONTRADICTION)),
                "disable" => self.tls = Tls::Plain,
                "require" | "verify-full" if self.tls == Tls::Plain => return Err(bad(CONTRADICTION)),
                "require" | "verify-full" if self.tls == Tls::Automatic => self.tls = Tls::Verified(None),
                "require" | "verify-full" => {}
                _ => {
                    return Err(bad(
                        "sslmode is disable or require, which verifies the server's certificate",
                    ));
                }
            },
            "sslrootcert" if self.tls == Tls::Plain => return Err(bad(CONTRADICTION)),
            "sslrootcert" => self.tls = Tls::Verified(Some(value.into_owned().into())),
            "password-file" => self.password = Some(Password::in_file(&*value)?),
            _ => return Err(bad(&format!("{name} is no option; there are {OPTIONS}"))),
        }
        Ok(self)
    }

    /// Another schema: a set of records of its own. At most 40 of `a`–`z`, `0`–`9` and `_`, not beginning with a digit.
    #[must_use]
    pub fn schema(self, schema: impl Into<String>) -> Self {
        PostgresConfig { schema: schema.into(), ..self }
    }

    /// How the connection is protected. [`Tls::Automatic`], unless said otherwise.
    #[must_use]
    pub fn tls(self, tls: Tls) -> Self {
        PostgresConfig { tls, ..self }
    }

    /// The most connections, besides the one that listens: 1 to 100, 8 unless said otherwise. Each is shared by all who have something
    /// to ask once there are no idle ones. What was given up, as under a lock, may keep as many more busy at the server (two at least), until the server
    /// gives it up, too: a lock is waited for a second at the most. A commit whose standby is away is never given up, nor is a wait for a
    /// lock where a pooler takes no `lock_timeout`: then as many again as all these are open at the most, and calls fail once they are taken.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        PostgresConfig { connections, ..self }
    }

    /// How long a call waits for its answer: 10 ms to 60 s, 5 s unless said otherwise.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        PostgresConfig { timeout, ..self }
    }

    /// Whether [`changed`](tenure_store::Store::changed) works, by a connection that listens. Yes, unless said otherwise. A pooler
    /// that lends connections for a transaction passes no notifications on: waiters behind one poll.
    #[must_use]
    pub fn push(self, push: bool) -> Self {
        PostgresConfig { push, ..self }
    }

    /// Whether the server's clock tells the ages of records. Yes, unless said otherwise.
    #[must_use]
    pub fn attested_ages(self, attested_ages: bool) -> Self {
        PostgresConfig { attested_ages, ..self }
    }

    /// Whether statements are prepared. [`Prepare::Automatic`], unless said otherwise. A pool of the caller's own is used without.
    #[must_use]
    pub fn prepare(self, prepare: Prepare) -> Self {
        PostgresConfig { prepare, ..self }
    }

    /// Whether the server is reached without a network. Where an address is given besides a host, that is connected to.
    pub(crate) fn is_local(&self) -> bool {
        let is_near = |host: &Host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => is_loopback(name),
        };
        let server = &self.server;
        server.get_hosts().iter().all(is_near) && server.get_hostaddrs().iter().all(IpAddr::is_loopback)
    }

    /// What a store that is opened with this can do. Nobody is asked for it.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let expiry = if self.attested_ages { Expiry::AttestedAge } else { Expiry::ObservedSilence };
        let all = Capabilities::native(Duration::from_millis(100)).expiring(expiry);
        if self.push { all } else { all.without_watch() }
    }

    /// For connections of the store's own.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.check_records()?;
        let bad = |text: String| Err(StoreError::invalid(text));
        if self.server.get_hosts().is_empty() {
            return bad("the PostgreSQL URL names no host; write postgres://USER@HOST/DATABASE".into());
        }
        if !(1..=100).contains(&self.connections) {
            return bad(format!(
                "{} connections are outside 1 to 100; choose a number within",
                self.connections
            ));
        }
        Ok(())
    }

    /// For a pool of the caller's, beside which only the one connection is made that listens.
    pub(crate) fn check_beside_pool(&self) -> Result<(), StoreError> {
        self.check_records()?;
        if self.push && self.server.get_hosts().is_empty() {
            return Err(StoreError::invalid(
                "the configuration beside a pool names no host at which to listen for changes; name the pool's host, or switch push off",
            ));
        }
        Ok(())
    }

    /// What has to be right whoever makes the connections.
    fn check_records(&self) -> Result<(), StoreError> {
        let bad = |text: String| Err(StoreError::invalid(text));
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let schema = &self.schema;
        if schema.is_empty()
            || schema.len() > 40
            || !schema.bytes().all(is_word)
            || schema.as_bytes()[0].is_ascii_digit()
        {
            return bad(format!(
                "{schema:?} can't be tenure's schema; take at most 40 lower-case letters, digits and _, not beginning with a digit"
            ));
        }
        if RESERVED.split_whitespace().any(|word| word == schema) {
            return bad(format!(
                "the schema {schema:?} is a reserved word of SQL; name another, such as tenure"
            ));
        }
        if schema.starts_with("pg_") || schema == "public" || schema == "information_schema" {
            return bad(format!(
                "the schema {schema:?} belongs to others; name one of tenure's own, such as tenure"
            ));
        }
        check_span("timeout", self.timeout, Duration::from_millis(10)..=Self::MAX_TIMEOUT)
    }

    /// What the driver is given: the caller's settings, and bounds on how long a dead connection goes unnoticed.
    pub(crate) async fn driver(&self) -> Result<tokio_postgres::Config, StoreError> {
        let mut server = self.server.clone();
        if let Some(password) = &self.password {
            let text = tokio::time::timeout(self.connecting(), password.text()).await;
            server.password(text.unwrap_or_else(|_| {
                Err(StoreError::unavailable(format!(
                    "{}: the file {password:?} was not read in time",
                    self.place()
                )))
            })?);
        }
        if server.get_application_name().is_none() {
            server.application_name("tenure");
        }
        if server.get_connect_timeout().is_none() {
            server.connect_timeout(self.connecting());
        }
        if server.get_tcp_user_timeout().is_none() {
            server.tcp_user_timeout(self.timeout);
        }
        // Of several hosts, the one that takes writes is meant.
        if server.get_hosts().len() > 1 {
            server.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        server.ssl_mode(if self.uses_tls() { SslMode::Require } else { SslMode::Disable });
        Ok(server)
    }

    /// How long a connection may take to be made: so that there is time left to say that it was not.
    pub(crate) fn connecting(&self) -> Duration {
        self.timeout * 4 / 5
    }

    /// How long a statement waits for a lock at the most. Drivers give calls up after a small part of a ttl, and what they gave up waits on.
    pub(crate) fn lock_timeout(&self) -> Duration {
        const LONGEST: Duration = Duration::from_secs(1);
        self.connecting().min(LONGEST)
    }

    pub(crate) fn uses_tls(&self) -> bool {
        match self.tls {
            Tls::Automatic => !self.is_local(),
            Tls::Verified(_) => true,
            Tls::Plain => false,
        }
    }

    /// The server, database and schema, for people. Nothing secret is in it.
    pub(crate) fn place(&self) -> String {
        if self.server.get_hosts().is_empty() {
            return format!("PostgreSQL of the caller's pool, schema {:?}", self.schema);
        }
        let ports = self.server.get_ports();
        let port = |i: usize| ports.get(i).or(ports.first()).copied().unwrap_or(5432);
        let host = |(i, host): (usize, &Host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(i)),
            Host::Unix(path) => path.display().to_string(),
        };
        let hosts: Vec<String> = self.server.get_hosts().iter().enumerate().map(host).collect();
        let database = self.server.get_dbname().or(self.server.get_user()).unwrap_or("?");
        format!("PostgreSQL {}, database {database:?}, schema {:?}", hosts.join(","), self.schema)
    }
}

fn bad(why: &str) -> StoreError {
    StoreError::invalid(format!("{URL}: {why}"))
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("place", &self.place())
            .field("tls", &self.tls)
            .field("connections", &self.connections)
            .field("timeout", &self.timeout)
            .field("push", &self.push)
            .field("attested_ages", &self.attested_ages)
            .field("prepare", &self.prepare)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what a URL says; what it may not say; that no password is repeated; when plain text is spoken.
    use super::*;

    fn parsed(url: &str) -> Result<PostgresConfig, StoreError> {
        PostgresConfig::from_url(url).and_then(|config| config.check().map(|()| config))
    }

    #[test]
    fn a_url_says_where_and_how() {
        let config = parsed(
            "postgres://app:secret@db.example:5433/jobs?schema=leases&connections=3&timeout-ms=700&push=off&ages=off",
        )
        .unwrap();
        assert_eq!(config.place(), "PostgreSQL db.example:5433, database \"jobs\", schema \"leases\"");
        assert_eq!((config.connections, config.timeout), (3, Duration::from_millis(700)));
        assert!(!config.push && !config.attested_ages && config.uses_tls());
        assert!(!format!("{config:?}").contains("secret"));
    }

    #[test]
    fn bad_input_is_refused_with_its_name_and_a_remedy() {
        for (url, says) in [
            ("db.example/jobs", "two slashes"),
            ("//", "names no host"),
            ("//u:secret@h/d?shcema=x", "shcema"),
            ("//u:secret@h/d?schema", "NAME=VALUE"),
            ("//u:secret@h/d?schema=Up", "lower-case"),
            ("//u:secret@h/d?schema=public", "of tenure's own"),
            ("//u:secret@h/d?schema=user", "reserved word"),
            ("//u:secret@h/d?schema=with", "reserved word"),
            ("//u:secret@h/d?connections=many", "connections takes a whole number"),
            ("//u:secret@h/d?connections=0", "1 to 100"),
            ("//u:secret@h/d?timeout-ms=1", "10 ms to 60 s"),
            ("//u:secret@h/d?push=maybe", "push is on or off"),
            ("//u:secret@h/d?prepare=auto", "prepare is on or off"),
            ("//u:secret@h/d?sslmode=prefer", "disable or require"),
            ("//u:secret@h/d?sslrootcert=/ca.pem&sslmode=disable", "sslmode=disable and sslrootcert="),
            ("//u:secret@h/d?sslmode=disable&sslrootcert=/ca.pem", "leave sslmode=disable out"),
            ("//u:secret@h/d?sslmode=require&sslmode=disable", "contradict each other"),
            ("//u:secret@h/d?sslmode=disable&sslmode=require", "contradict each other"),
            ("//u:secret@h/d?password-file=/nowhere/pw", "/nowhere/pw"),
            ("//u:pa@secret@h/d", "%40 for @"),
            ("//u:pa@sec@secret@h/d?schema=x", "%40 for @"),
            ("//u:12?secret=x@h/d", "%40 for @"),
            ("//u:pa?secret@h/d", "%40 for @"),
            ("//u@h/d?password=x&secret=y", "own options are"),
        ] {
            let error = parsed(url).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn plain_text_is_spoken_to_this_host_only_unless_asked_for() {
        for (url, is_plain) in [
            ("//u@localhost/d", true),
            ("//u@127.0.0.1/d", true),
            ("//u@%2Frun%2Fpostgresql/d", true),
            ("//u@10.0.0.7/d", false),
            ("//u@127.0.0.1,db.example/d", false),
            ("//u@localhost/d?hostaddr=127.0.0.1", true),
            ("//u@localhost/d?hostaddr=10.0.0.7", false),
            ("//u@%2Frun%2Fpostgresql/d?hostaddr=10.0.0.7", false),
            ("//u@db.example/d?hostaddr=127.0.0.1", false),
            ("//u@10.0.0.7/d?sslmode=disable", true),
            ("//u@localhost/d?sslmode=require", false),
            ("//u@localhost/d?sslrootcert=/ca.pem&sslmode=require", false),
        ] {
            assert_eq!(!parsed(url).unwrap().uses_tls(), is_plain, "{url}");
        }
    }
}
