//! Which cluster and which prefix, and how they are used.

use percent_encoding::percent_decode_str;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::{Password, UrlOption, check_login, check_span, is_loopback};
use tenure_store::{Capabilities, Expiry};

/// What errors call it.
const URL: &str = "the etcd store's URL";
/// What a URL may say after its question mark.
const OPTIONS: &str = "timeout-ms, push, tls, ca, cert, key, password-file";
/// Why plain text and TLS are not asked for at once, whichever comes first.
const CONTRADICTION: &str = "tls=off and ca= or tls=on contradict each other; leave tls=off out for TLS, or name nothing else for plain text";
/// How many writes one transaction takes: etcd counts 128 operations, those of the transactions within it too.
pub(crate) const BATCH: usize = 100;
/// Where etcd listens for clients, unless said otherwise.
const PORT: u16 = 2379;

/// Where the records are, and how the cluster is used. Everything is checked by [`crate::EtcdStore::open`] before any I/O.
#[derive(Clone)]
pub struct EtcdConfig {
    pub(crate) endpoints: Vec<String>,
    pub(crate) prefix: String,
    pub(crate) user: Option<User>,
    pub(crate) tls: Tls,
    pub(crate) timeout: Duration,
    pub(crate) push: bool,
}

// PostgreSQL's store has a type of its own: it takes TLS by itself where this one refuses, and has no certificate for clients.
/// How the connection is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tls {
    /// Plain text to loopback addresses; everything else is refused.
    LocalOnly,
    /// Plain text, also across a network: whoever can listen there reads the password and can take leases.
    Plain,
    /// TLS with a verified certificate.
    Verified {
        /// A PEM file of the authorities that are trusted; the system's where there is none.
        authorities: Option<PathBuf>,
        /// PEM files of this client's own certificate and its key, where the cluster asks for one.
        identity: Option<(PathBuf, PathBuf)>,
    },
}

/// Who calls.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) password: Password,
}

impl EtcdConfig {
    /// The longest time to wait for an answer.
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(60);

    /// The prefix `tenure` of the cluster with these endpoints, each a host with or without a port.
    #[must_use]
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        EtcdConfig {
            endpoints: endpoints.into_iter().map(|endpoint| with_port(endpoint.into())).collect(),
            prefix: "tenure".to_owned(),
            user: None,
            tls: Tls::LocalOnly,
            timeout: Duration::from_secs(4),
            push: true,
        }
    }

    /// Understands a URL such as `etcds://app@a.example,b.example,c.example/leases?password-file=/etc/app/etcd-password`, with or
    /// without its scheme. `etcd:` is plain text to this host, `etcds:` is TLS.
    ///
    /// Options: `timeout-ms`, `push=off`, `tls` (as `etcds:`) or `tls=off` (plain text across a network), `ca=FILE`, `cert=FILE` with
    /// `key=FILE`, and `password-file=FILE`. A password is best kept out of the URL: in that file, whose first line it is. The file is
    /// read for each login, so a password may be changed there.
    ///
    /// # Errors
    /// `Invalid`, which names the option but never repeats a value that could hold a password.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let (secure, rest) = match (url.strip_prefix("etcds:"), url.strip_prefix("etcd:")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => (false, url),
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let Some(place) = place.strip_prefix("//") else {
            return Err(bad("etcd is named as etcd://HOST,HOST,HOST/PREFIX; two slashes come first"));
        };
        check_login(URL, rest)?;
        let (authority, prefix) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let mut config = EtcdConfig::new(hosts.split(',').filter(|host| !host.is_empty()));
        if !prefix.is_empty() {
            config.prefix = decoded("the prefix", prefix)?.trim_end_matches('/').to_owned();
        }
        if let Some(user) = user {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            let (name, password) = (decoded("the user", name)?, decoded("the password", password)?);
            config.user = Some(User { name, password: Password::new(password) });
        }
        if secure {
            config.tls = Tls::Verified { authorities: None, identity: None };
        }
        let mut identity = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name, decoded("an option", value)?),
                None if pair == "tls" => (pair, "on".to_owned()),
                None => return Err(bad("an option has no value; write NAME=VALUE")),
            };
            match name {
                "cert" => identity.0 = Some(value.into()),
                "key" => identity.1 = Some(value.into()),
                _ => config.set(name, value, secure)?,
            }
        }
        match identity {
            (Some(certificate), Some(key)) => config.present(certificate, key),
            (None, None) => Ok(config),
            _ => Err(bad("cert= and key= belong together: name both files")),
        }
    }

    /// Sets one option of a URL.
    fn set(&mut self, name: &str, value: String, secure: bool) -> Result<(), StoreError> {
        let option = UrlOption { url: URL, name, value: &value };
        match name {
            "timeout-ms" => self.timeout = option.millis()?,
            "push" => self.push = option.is("on", "off")?,
            "tls" => match (option.is("on", "off")?, secure) {
                (false, true) => return Err(bad("etcds: and tls=off contradict each other")),
                (true, _) if self.tls == Tls::Plain => return Err(bad(CONTRADICTION)),
                (true, _) if matches!(self.tls, Tls::Verified { .. }) => {}
                (true, _) => self.tls = Tls::Verified { authorities: None, identity: None },
                (false, false) if matches!(self.tls, Tls::Verified { .. }) => return Err(bad(CONTRADICTION)),
                (false, false) => self.tls = Tls::Plain,
            },
            "ca" if self.tls == Tls::Plain => return Err(bad(CONTRADICTION)),
            "ca" => self.tls = Tls::Verified { authorities: Some(value.into()), identity: None },
            "password-file" => {
                let password = Password::in_file(value)?;
                let user = self.user.as_mut().ok_or_else(|| {
                    bad("password-file= is for a user, and none is named; write etcd://USER@HOST/PREFIX")
                })?;
                user.password = password;
            }
            _ => return Err(bad(&format!("{name} is no option; there are {OPTIONS}"))),
        }
        Ok(())
    }

    fn present(mut self, certificate: PathBuf, key: PathBuf) -> Result<Self, StoreError> {
        match &mut self.tls {
            Tls::Verified { identity, .. } => *identity = Some((certificate, key)),
            _ => return Err(bad("cert= and key= are for TLS; write etcds:")),
        }
        Ok(self)
    }

    /// Another prefix: a set of records of its own. At most 200 printable characters of ASCII, without `:`, which ends it: so no two
    /// prefixes' records mix, whichever they are.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        EtcdConfig { prefix: prefix.into(), ..self }
    }

    /// Who calls, for a cluster that asks for that.
    #[must_use]
    pub fn user(self, name: impl Into<String>, password: impl Into<String>) -> Self {
        EtcdConfig { user: Some(User { name: name.into(), password: Password::new(password) }), ..self }
    }

    /// How the connection is protected. [`Tls::LocalOnly`], unless said otherwise.
    #[must_use]
    pub fn tls(self, tls: Tls) -> Self {
        EtcdConfig { tls, ..self }
    }

    /// How long a call waits for its answer: 100 ms to 60 s, 4 s unless said otherwise.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        EtcdConfig { timeout, ..self }
    }

    /// Whether [`changed`](tenure_store::Store::changed) works, by a watch. Yes, unless said otherwise.
    #[must_use]
    pub fn push(self, push: bool) -> Self {
        EtcdConfig { push, ..self }
    }

    /// What a store that is opened with this can do. Nobody is asked for it.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let mut all = Capabilities::native(Duration::from_millis(500)).expiring(Expiry::ObservedSilence);
        all.batch = BATCH;
        if self.push { all } else { all.without_watch() }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let bad = |text: String| Err(StoreError::invalid(text));
        if self.endpoints.is_empty() {
            return bad("the etcd URL names no host; write etcd://HOST/PREFIX".into());
        }
        for endpoint in &self.endpoints {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
            let port = endpoint.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if !endpoint.bytes().all(is_name) || port.is_none_or(|port| port == 0) {
                return bad(format!(
                    "{endpoint:?} is no host and port; write HOST, HOST:PORT or [IPV6]:PORT"
                ));
            }
            if self.tls == Tls::LocalOnly && !is_local(endpoint) {
                return bad(format!(
                    "etcd: is plain text, and {endpoint} is across a network; write etcds: for TLS, or add tls=off if all who can \
                     listen there may take leases"
                ));
            }
        }
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if self.prefix.is_empty() || self.prefix.len() > 200 || !self.prefix.bytes().all(is_plain) {
            return bad(format!(
                "{:?} can't be tenure's prefix; take at most 200 letters, digits and signs, without \":\"",
                self.prefix
            ));
        }
        if self.user.as_ref().is_some_and(|user| user.name.is_empty()) {
            return bad("the etcd URL has a password and no user; write etcd://USER@HOST/PREFIX".into());
        }
        check_span("timeout", self.timeout, Duration::from_millis(100)..=Self::MAX_TIMEOUT)
    }

    /// The cluster and the prefix, for people. Nothing secret is in it.
    pub(crate) fn place(&self) -> String {
        format!("etcd {}, prefix {:?}", self.endpoints.join(","), self.prefix)
    }
}

fn with_port(endpoint: String) -> String {
    let has_port = match endpoint.rsplit_once(']') {
        Some((_, rest)) => rest.starts_with(':'),
        None => endpoint.contains(':'),
    };
    if has_port { endpoint } else { format!("{endpoint}:{PORT}") }
}

fn is_local(endpoint: &str) -> bool {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    is_loopback(host.trim_start_matches('[').trim_end_matches(']'))
}

fn decoded(what: &str, text: &str) -> Result<String, StoreError> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| bad(&format!("{what} is not UTF-8")))?;
    Ok(text.into_owned())
}

fn bad(why: &str) -> StoreError {
    StoreError::invalid(format!("{URL}: {why}"))
}

impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("place", &self.place())
            .field("user", &self.user.as_ref().map(|user| &user.name))
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .field("push", &self.push)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what a URL says; what it may not say; that no password is repeated; when plain text is spoken.
    use super::*;

    fn parsed(url: &str) -> Result<EtcdConfig, StoreError> {
        EtcdConfig::from_url(url).and_then(|config| config.check().map(|()| config))
    }

    #[test]
    fn a_url_says_where_and_how() {
        let config = parsed("etcds://app:se%63ret@a.example,b.example:2380,[::1]/team/leases/?timeout-ms=700&push=off&ca=/ca.pem&cert=/c&key=/k")
            .unwrap();
        assert_eq!(config.place(), "etcd a.example:2379,b.example:2380,[::1]:2379, prefix \"team/leases\"");
        assert_eq!((config.timeout, config.push), (Duration::from_millis(700), false));
        let files = (Some("/ca.pem".into()), Some(("/c".into(), "/k".into())));
        assert_eq!(config.tls, Tls::Verified { authorities: files.0, identity: files.1 });
        assert!(!format!("{config:?}").contains("secret"));
        assert_eq!(config.user.unwrap().password, Password::new("secret"));
        assert_eq!(parsed("etcd://localhost").unwrap().prefix, "tenure");
    }

    #[test]
    fn bad_input_is_refused_with_its_name_and_a_remedy() {
        for (url, says) in [
            ("etcd:localhost/jobs", "two slashes"),
            ("etcd://", "names no host"),
            ("etcd://u:secret@/p", "names no host"),
            ("etcd://:secret@localhost/p", "no user"),
            ("etcd://u:secret@local host/p", "no host and port"),
            ("etcd://u:secret@localhost:0/p", "no host and port"),
            ("etcd://u:secret@localhost:http/p", "no host and port"),
            ("etcd://u:secret@localhost/p?timeuot-ms=1", "timeuot-ms is no option"),
            ("etcd://u:secret@localhost/p?push", "NAME=VALUE"),
            ("etcd://u:secret@localhost/p?push=maybe", "push is on or off"),
            ("etcd://u:secret@localhost/p?timeout-ms=soon", "timeout-ms takes a whole number"),
            ("etcd://u:secret@localhost/p?timeout-ms=1", "100 ms to 60 s"),
            ("etcd://u:secret@localhost/p?password-file=/nowhere/pw", "/nowhere/pw"),
            ("etcd://u:secret@localhost/a:b", "without \":\""),
            ("etcd://u:secret@localhost/a%20b", "can't be tenure's prefix"),
            ("etcd://u:1?secret=x@localhost/p", "%3F for ?"),
            ("etcd://u:1/secret:@localhost/p", "%2F for /"),
            ("etcd://u:sec@secret@localhost/p", "%40 for @"),
            ("etcds://u:secret@h/p?tls=off", "contradict"),
            ("etcds://u:secret@h/p?ca=/ca.pem&tls=off", "etcds: and tls=off contradict"),
            ("etcds://u:secret@h/p?tls=off&ca=/ca.pem", "etcds: and tls=off contradict"),
            ("etcd://u:secret@h/p?ca=/ca.pem&tls=off", "tls=off and ca="),
            ("etcd://u:secret@h/p?tls=off&ca=/ca.pem", "leave tls=off out"),
            ("etcd://u:secret@h/p?tls&tls=off", "contradict each other"),
            ("etcd://u:secret@h/p?tls=off&tls=on", "contradict each other"),
            ("etcds://u:secret@h/p?cert=/c", "belong together"),
            ("etcd://u:secret@localhost/p?cert=/c&key=/k", "write etcds:"),
            ("etcd://u:secret@h/p?tls=off&cert=/c&key=/k", "write etcds:"),
        ] {
            let error = parsed(url).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn plain_text_is_spoken_to_this_host_only_unless_asked_for() {
        for (url, is_plain) in [
            ("etcd://localhost,127.0.0.1:1,[::1]:2/p", true),
            ("etcd://10.0.0.7/p?tls=off", true),
            ("etcds://localhost/p", false),
            ("etcd://10.0.0.7/p?tls", false),
            ("etcd://10.0.0.7/p?tls=on&ca=/ca", false),
            ("etcd://10.0.0.7/p?ca=/ca&tls=on", false),
        ] {
            assert_eq!(!matches!(parsed(url).unwrap().tls, Tls::Verified { .. }), is_plain, "{url}");
        }
        let error = parsed("etcd://127.0.0.1,10.0.0.7/p").unwrap_err().to_string();
        assert!(error.contains("10.0.0.7:2379 is across a network") && error.contains("etcds:"), "{error}");
        assert!(matches!(
            parsed("etcd://10.0.0.7/p?ca=/ca&tls=on").unwrap().tls,
            Tls::Verified { authorities: Some(_), .. }
        ));
    }
}
