//! Which server and which namespace, and how they are used.

use percent_encoding::percent_decode_str;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::{Password, UrlOption, check_login, check_span, is_loopback};
use tenure_store::{Capabilities, Expiry};

/// What errors call it.
const URL: &str = "the Redis store's URL";
/// What a URL may say after its question mark.
const OPTIONS: &str = "namespace, timeout-ms, push, ages, ca, password-file, plain, eviction, wait";
const HINT: &str = "write rediss://USER@HOST:PORT/DB?namespace=NAME";
const PORT: u16 = 6379;

/// Where one server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl ServerAddress {
    /// `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
    pub(crate) fn parse(text: &str) -> Option<ServerAddress> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                (host, port.strip_prefix(':'))
            }
            // An IPv6 address without brackets, as servers redirect to.
            None if text.matches(':').count() > 1 => {
                text.rsplit_once(':').map(|(host, port)| (host, Some(port)))?
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Some(PORT), |port| port.parse().ok())?;
        Some(ServerAddress { host: host.to_owned(), port })
    }

    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Where the records are, and how the server is used. Everything is checked by [`crate::RedisStore::open`] before any I/O.
#[derive(Clone)]
pub struct RedisConfig {
    pub(crate) hosts: Vec<ServerAddress>,
    pub(crate) tls: bool,
    pub(crate) authority: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Password>,
    pub(crate) db: u16,
    pub(crate) namespace: String,
    pub(crate) timeout: Duration,
    pub(crate) push: bool,
    pub(crate) attested_ages: bool,
    pub(crate) accepts_plain: bool,
    pub(crate) accepts_eviction: bool,
    pub(crate) wait: u16,
    pub(crate) create: bool,
}

impl RedisConfig {
    /// The longest time to wait for an answer.
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(60);

    /// Understands a URL such as `rediss://app@db.example:6379/0?namespace=jobs`.
    ///
    /// `rediss` is TLS with a verified certificate; `redis` is plain text, to this host only unless `plain=accept` says otherwise.
    /// Several hosts, with commas between, are the nodes of a cluster, or a primary and its replicas: the primary is found.
    ///
    /// Options: `namespace`, `timeout-ms`, `push=off`, `ages=off`, `ca=FILE` (the authority of the server's certificate, as PEM),
    /// `password-file=FILE`, `plain=accept`, `eviction=accept`, `wait=N`. A password is best kept out of the URL: in that file,
    /// whose first line it is. The file is read for each new connection, so a password may be changed there.
    ///
    /// # Errors
    /// `Invalid`, which names the option but never repeats a value that could hold a password.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad(HINT))?;
        let tls = match scheme {
            "redis" => false,
            "rediss" => true,
            _ => return Err(bad("its scheme is redis, or rediss for TLS")),
        };
        check_login(URL, rest)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, db) = place.split_once('/').unwrap_or((place, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let filled = |text: &str| decoded(text).map(|text| (!text.is_empty()).then_some(text));
        let hosts = hosts.split(',').map(|host| {
            ServerAddress::parse(host)
                .filter(|address| !address.host.is_empty())
                .ok_or_else(|| bad(&format!("a host is not HOST or HOST:PORT; {HINT}")))
        });
        let config = RedisConfig {
            hosts: hosts.collect::<Result<_, _>>()?,
            tls,
            authority: None,
            user: filled(user)?,
            password: filled(password)?.map(Password::new),
            db: if db.is_empty() {
                0
            } else {
                db.parse().map_err(|_| bad("the database is a number, such as /0"))?
            },
            namespace: "default".to_owned(),
            timeout: Duration::from_secs(3),
            push: true,
            attested_ages: true,
            accepts_plain: false,
            accepts_eviction: false,
            wait: 0,
            create: true,
        };
        query.split('&').filter(|pair| !pair.is_empty()).try_fold(config, |config, pair| {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| bad("an option has no value; write NAME=VALUE"))?;
            config.with(name, &decoded(value)?)
        })
    }

    /// The configuration with one option of a URL.
    fn with(mut self, name: &str, value: &str) -> Result<Self, StoreError> {
        let option = UrlOption { url: URL, name, value };
        match name {
            "namespace" => self.namespace = value.to_owned(),
            "timeout-ms" => self.timeout = option.millis()?,
            "push" => self.push = option.is("on", "off")?,
            "ages" => self.attested_ages = option.is("on", "off")?,
            "plain" => self.accepts_plain = option.is("accept", "refuse")?,
            "eviction" => self.accepts_eviction = option.is("accept", "refuse")?,
            "wait" => {
                self.wait =
                    u16::try_from(option.number()?).map_err(|_| bad("wait takes a number below 65536"))?
            }
            "ca" if self.tls => self.authority = Some(value.into()),
            "ca" => return Err(bad("ca is for rediss://, which is TLS")),
            "password-file" => self.password = Some(Password::in_file(value)?),
            _ => return Err(bad(&format!("{name} is no option; there are {OPTIONS}"))),
        }
        Ok(self)
    }

    /// Another namespace: a set of records of its own. At most 64 of `a`–`z`, `0`–`9`, `_`, `-` and `.`. It is `default` unless the URL
    /// names one.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        RedisConfig { namespace: namespace.into(), ..self }
    }

    /// The password, from wherever the caller keeps it.
    #[must_use]
    pub fn password(self, password: impl Into<String>) -> Self {
        RedisConfig { password: Some(Password::new(password)), ..self }
    }

    /// How long a call waits for its answer: 10 ms to 60 s, 3 s unless said otherwise.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        RedisConfig { timeout, ..self }
    }

    /// Whether [`changed`](tenure_store::Store::changed) works, by a connection of its own that subscribes. Yes, unless said
    /// otherwise.
    #[must_use]
    pub fn push(self, push: bool) -> Self {
        RedisConfig { push, ..self }
    }

    /// Whether the server's clock tells the ages of records. Yes, unless said otherwise.
    #[must_use]
    pub fn attested_ages(self, attested_ages: bool) -> Self {
        RedisConfig { attested_ages, ..self }
    }

    /// Whether plain text may cross a network: whoever can listen there reads the password and can take leases. No, unless said
    /// otherwise.
    #[must_use]
    pub fn accept_plain(self, accepts_plain: bool) -> Self {
        RedisConfig { accepts_plain, ..self }
    }

    /// Whether a server may be used that evicts keys when its memory is full. It drops all leases of a namespace at once then, and
    /// two may hold one; only fences protect. No, unless said otherwise.
    #[must_use]
    pub fn accept_eviction(self, accepts_eviction: bool) -> Self {
        RedisConfig { accepts_eviction, ..self }
    }

    /// How many replicas must have confirmed a write before it counts: 0, unless said otherwise. See the crate's documentation for
    /// what that does not give.
    #[must_use]
    pub fn wait(self, replicas: u16) -> Self {
        RedisConfig { wait: replicas, ..self }
    }

    /// Whether a namespace that was never used is begun. Yes, unless said otherwise. If a namespace has records and nothing that describes
    /// it, as after a restart that lost data, the description is written anew all the same.
    #[must_use]
    pub fn create(self, create: bool) -> Self {
        RedisConfig { create, ..self }
    }

    /// What a store that is opened with this can do. Nobody is asked for it.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let expiry = if self.attested_ages { Expiry::AttestedAge } else { Expiry::ObservedSilence };
        let all = Capabilities::native(Duration::from_millis(100)).expiring(expiry);
        if self.push { all } else { all.without_watch() }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let bad = |text: String| Err(StoreError::invalid(text));
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.".contains(&byte);
        let namespace = &self.namespace;
        if namespace.is_empty() || namespace.len() > 64 || !namespace.bytes().all(is_word) {
            return bad(format!(
                "{namespace:?} can't be a namespace; take at most 64 lower-case letters, digits, _, - and ."
            ));
        }
        check_span("timeout", self.timeout, Duration::from_millis(10)..=Self::MAX_TIMEOUT)?;
        if self.user.is_some() && self.password.is_none() {
            return bad("the Redis URL names a user and no password; add password-file=FILE".into());
        }
        self.hosts.iter().try_for_each(|host| self.check_plain(host))
    }

    /// Whether a server may be spoken to in the way that is configured.
    pub(crate) fn check_plain(&self, address: &ServerAddress) -> Result<(), StoreError> {
        if self.tls || self.accepts_plain || address.is_loopback() {
            return Ok(());
        }
        Err(StoreError::invalid(format!(
            "redis:// is plain text, and {address} is another host; write rediss:// for TLS, or add plain=accept where nobody else can listen"
        )))
    }

    /// A key or channel of this namespace. The braces make a cluster put all of them into one slot.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("tenure:{{{}}}:{what}", self.namespace)
    }

    /// The servers, database and namespace, for people. Nothing secret is in it.
    pub(crate) fn place(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        let database = if self.db == 0 { String::new() } else { format!(", database {}", self.db) };
        format!("Redis {}{database}, namespace {:?}", hosts.join(","), self.namespace)
    }
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|_| bad("what follows a % is not UTF-8"))
}

fn bad(why: &str) -> StoreError {
    StoreError::invalid(format!("{URL}: {why}"))
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("place", &self.place())
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .field("push", &self.push)
            .field("attested_ages", &self.attested_ages)
            .field("accepts_plain", &self.accepts_plain)
            .field("accepts_eviction", &self.accepts_eviction)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what a URL says; what it may not say; that no password is repeated; when plain text is spoken.
    use super::*;

    fn parsed(url: &str) -> Result<RedisConfig, StoreError> {
        RedisConfig::from_url(url).and_then(|config| config.check().map(|()| config))
    }

    #[test]
    fn a_url_says_where_and_how() {
        let config = parsed(
            "rediss://app:se%40cret@a.example:7000,b.example,[::1]:7001/3?namespace=jobs&timeout-ms=700&push=off&ages=off\
             &eviction=accept&wait=2&ca=/etc/ca.pem",
        )
        .unwrap();
        assert_eq!(
            config.place(),
            "Redis a.example:7000,b.example:6379,[::1]:7001, database 3, namespace \"jobs\""
        );
        assert_eq!((config.timeout, config.wait), (Duration::from_millis(700), 2));
        assert!(config.tls && !config.push && !config.attested_ages && config.accepts_eviction);
        assert!(config.authority.is_some() && !config.accepts_plain);
        assert_eq!(config.name("records"), "tenure:{jobs}:records");
        assert!(!format!("{config:?}").contains("cret"));
        assert_eq!((config.user.as_deref(), config.password), (Some("app"), Some(Password::new("se@cret"))));
        let plain = parsed("redis://:secret@localhost").unwrap();
        assert_eq!((plain.user, plain.password), (None, Some(Password::new("secret"))));
    }

    #[test]
    fn bad_input_is_refused_with_its_name_and_a_remedy() {
        for (url, says) in [
            ("db.example/jobs", "rediss://USER@HOST"),
            ("redis:", "rediss://USER@HOST"),
            ("http://u:secret@h", "rediss for TLS"),
            ("redis://", "HOST:PORT"),
            ("redis://u:secret@h:port", "HOST:PORT"),
            ("redis://localhost,", "HOST:PORT"),
            ("redis://u:secret@localhost/one", "is a number"),
            ("redis://u:secret@localhost/?nmaespace=x", "nmaespace"),
            ("redis://u:secret@localhost/?namespace", "NAME=VALUE"),
            ("redis://u:secret@localhost/?namespace=Up", "lower-case"),
            ("redis://u:secret@localhost/?namespace=a}b", "lower-case"),
            ("redis://u:secret@localhost/?namespace=", "lower-case"),
            ("redis://u:secret@localhost/?timeout-ms=1", "10 ms to 60 s"),
            ("redis://u:secret@localhost/?timeout-ms=many", "a whole number"),
            ("redis://u:secret@localhost/?push=maybe", "push is on or off"),
            ("redis://u:secret@localhost/?eviction=yes", "eviction is accept or refuse"),
            ("redis://u:secret@localhost/?wait=-1", "wait takes a whole number"),
            ("redis://u:secret@localhost/?ca=/ca.pem", "rediss://"),
            ("redis://u:%ff@localhost", "UTF-8"),
            ("redis://u@localhost", "password-file"),
            ("redis://u:1?secret=x@localhost", "%3F for ?"),
            ("redis://u:1/secret@localhost", "%2F for /"),
            ("redis://u:sec@secret@localhost", "%40 for @"),
            ("redis://u:secret@localhost/?password-file=/nowhere/pw", "/nowhere/pw"),
        ] {
            let error = parsed(url).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn plain_text_is_spoken_to_this_host_only_unless_asked_for() {
        for (url, is_allowed) in [
            ("redis://localhost", true),
            ("redis://127.0.0.1:7000", true),
            ("redis://[::1]", true),
            ("redis://10.0.0.7", false),
            ("redis://127.0.0.1,db.example", false),
            ("redis://10.0.0.7?plain=accept", true),
            ("rediss://10.0.0.7", true),
        ] {
            assert_eq!(parsed(url).is_ok(), is_allowed, "{url}");
        }
        let elsewhere = ServerAddress::parse("10.0.0.7").unwrap();
        let config = parsed("redis://localhost").unwrap();
        assert!(config.check_plain(&elsewhere).is_err());
        let accepting = config.accept_plain(true);
        assert!(accepting.check_plain(&elsewhere).is_ok());
        assert!(accepting.accept_plain(false).check_plain(&elsewhere).is_err());
    }

    #[test]
    fn addresses_are_read_as_servers_redirect_to_them() {
        for (text, host, port) in [
            ("a:1", "a", 1),
            ("::1:7000", "::1", 7000),
            ("[::1]:7", "::1", 7),
            (":6380", "", 6380),
            ("b", "b", PORT),
        ] {
            assert_eq!(ServerAddress::parse(text), Some(ServerAddress { host: host.into(), port }), "{text}");
        }
        assert_eq!(ServerAddress::parse("a:b"), None);
    }
}
