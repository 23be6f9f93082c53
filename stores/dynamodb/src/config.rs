//! Which table, how it is reached, and how it is used.

use crate::credentials::{HINT, after_scheme, check_credentials};
use crate::dialect::Dialect;
use crate::layout::Layout;
use crate::location::TableLocation;
use crate::shards;
use aws_sdk_dynamodb::Client;
use std::fmt;
use std::time::Duration;
use tenure_core::{Drift, StoreError};
use tenure_store::parts::check_span;
use tenure_store::{Capabilities, Expiry};
use url::{Host, Url};

/// Which table, how it is reached, and how it is used. Everything is checked before any I/O.
#[derive(Clone, PartialEq, Eq)]
pub struct DynamoConfig {
    pub(crate) table: String,
    pub(crate) namespace: String,
    pub(crate) region: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) attested_ages: bool,
    pub(crate) drift: Drift,
    pub(crate) plain_text: bool,
    pub(crate) one_region: Option<String>,
    pub(crate) shards: u16,
}

/// The most writes that one call takes. They are requests of their own: DynamoDB's transactions are all or nothing, and a
/// statement of its PartiQL batches can't say "nothing, or what is vacant" in one.
const BATCH: usize = 100;

impl DynamoConfig {
    /// The longest time that one request may take.
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(60);

    /// The table of this name. Region and credentials come from where every AWS program has them, unless said otherwise.
    #[must_use]
    pub fn new(table: impl Into<String>) -> Self {
        DynamoConfig {
            table: table.into(),
            namespace: "default".to_owned(),
            region: None,
            endpoint: None,
            profile: None,
            timeout: Duration::from_secs(5),
            attested_ages: true,
            drift: Drift::default(),
            plain_text: false,
            one_region: None,
            shards: 1,
        }
    }

    /// Understands a URL, with or without its scheme: `dynamodb://TABLE?region=…&namespace=…&endpoint=…`. Further options are `profile`,
    /// `timeout_ms`, `attested_ages=no`, `drift_per_mille`, `plain_text=yes`, `one_region` and `shards`; each is the method of that name.
    ///
    /// # Errors
    /// `Invalid`, naming the option and those that there are. A password is never repeated.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let bad = |text: String| StoreError::invalid(text);
        let rest = after_scheme(url);
        check_credentials(rest)?;
        let url = Url::parse(&format!("dynamodb:{rest}"))
            .map_err(|error| bad(format!("the URL of the DynamoDB store can't be read ({error}); {HINT}")))?;
        if url.fragment().is_some() {
            return Err(bad(format!(
                "what follows a # in the URL of the DynamoDB store would be left out: write %23 for it; {HINT}"
            )));
        }
        let table = url.host_str().unwrap_or_default();
        if table.is_empty() || url.port().is_some() || !matches!(url.path(), "" | "/") {
            return Err(bad(format!("the URL of the DynamoDB store names no table; {HINT}")));
        }
        let mut config = DynamoConfig::new(table);
        for (name, value) in url.query_pairs() {
            let value = value.into_owned();
            config = match &*name {
                "region" => config.region(value),
                "namespace" => config.namespace(value),
                "endpoint" => config.endpoint(value),
                "profile" => config.profile(value),
                "one_region" => config.one_region(value),
                "timeout_ms" => config.timeout(Duration::from_millis(value.parse().map_err(|_| {
                    bad(format!("timeout_ms={value:?} is no number of milliseconds; write timeout_ms=5000"))
                })?)),
                "attested_ages" => {
                    let attested_ages = yes(&name, &value)?;
                    config.attested_ages(attested_ages)
                }
                "drift_per_mille" => {
                    let drift = value.parse().map_err(|_| {
                        bad(format!(
                            "drift_per_mille={value:?} is no number up to 500; write drift_per_mille=100"
                        ))
                    })?;
                    config.drift(Drift::per_mille(drift).map_err(|error| bad(error.to_string()))?)
                }
                "plain_text" => {
                    let plain_text = yes(&name, &value)?;
                    config.plain_text(plain_text)
                }
                "shards" => config.shards(value.parse().map_err(|_| {
                    bad(format!("shards={value:?} is no number up to {}; write shards=16", shards::MOST))
                })?),
                "dialect" => return Err(Dialect::is_no_store(&value)),
                other => {
                    return Err(bad(format!(
                        "a DynamoDB store has no option {other:?}; there are region, namespace, endpoint, profile, \
                         timeout_ms, attested_ages, drift_per_mille, plain_text, one_region and shards"
                    )));
                }
            };
        }
        config.check()?;
        Ok(config)
    }

    /// The table's name.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Which of the table's namespaces: 1 to 512 bytes, `default` unless said otherwise. Each is a set of records of its
    /// own, so that many applications share a table.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        DynamoConfig { namespace: namespace.into(), ..self }
    }

    /// The table's region. Otherwise it is looked for in AWS_REGION, the profile and the host's own metadata.
    #[must_use]
    pub fn region(self, region: impl Into<String>) -> Self {
        DynamoConfig { region: Some(region.into()), ..self }
    }

    /// Another endpoint than the region's own, such as `http://127.0.0.1:8000`.
    #[must_use]
    pub fn endpoint(self, endpoint: impl Into<String>) -> Self {
        DynamoConfig { endpoint: Some(endpoint.into()), ..self }
    }

    /// The profile of the AWS configuration files that credentials and region are taken from.
    #[must_use]
    pub fn profile(self, profile: impl Into<String>) -> Self {
        DynamoConfig { profile: Some(profile.into()), ..self }
    }

    /// How long one request may take: 10 ms to 60 s, 5 s unless said otherwise. What keeps a lease waits for less:
    /// a sixth of its ttl, or on TableTheory's tables half of what is left of it.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        DynamoConfig { timeout, ..self }
    }

    /// Whether the ages of records are told by the service's clock, for takeover at first sight. Yes, unless said otherwise.
    #[must_use]
    pub fn attested_ages(self, attested_ages: bool) -> Self {
        DynamoConfig { attested_ages, ..self }
    }

    /// How far the rates of this host's clock and of the service's may be off, where ages are told: 10 % unless said otherwise.
    /// Whoever lets `Leases` count with more says the same here.
    #[must_use]
    pub fn drift(self, drift: Drift) -> Self {
        DynamoConfig { drift, ..self }
    }

    /// Whether an endpoint without TLS that is not on loopback is accepted. No, unless said otherwise.
    #[must_use]
    pub fn plain_text(self, plain_text: bool) -> Self {
        DynamoConfig { plain_text, ..self }
    }

    /// Accepts a global table whose replicas are eventually consistent, where the last writer wins, on the promise that every
    /// process uses the replica in `region`. In any other region the store does not open.
    #[must_use]
    pub fn one_region(self, region: impl Into<String>) -> Self {
        DynamoConfig { one_region: Some(region.into()), ..self }
    }

    /// Over how many partition keys the namespace's records are spread: 1 to 128, 1 unless said otherwise. The service does some 1,000 writes
    /// and 3,000 reads a second for each. Every process says the same number: the first write fixes it for good, and whoever says another is
    /// refused. Each page of a listing asks all shards.
    #[must_use]
    pub fn shards(self, shards: u16) -> Self {
        DynamoConfig { shards, ..self }
    }

    /// As [`Self::shards`] says.
    #[must_use]
    pub fn shard_count(&self) -> u16 {
        self.shards
    }

    /// That nothing is said of what a client of the caller's own has already.
    ///
    /// # Errors
    /// `Invalid`: it names a region, an endpoint or a profile.
    pub fn check_bare(&self) -> Result<(), StoreError> {
        if self.region.is_some() || self.endpoint.is_some() || self.profile.is_some() {
            return Err(StoreError::invalid(
                "a client has a region, an endpoint and credentials of its own; leave them out of the configuration",
            ));
        }
        Ok(())
    }

    /// What a store that is opened with this can do where the service dates its answers, as DynamoDB does. Nobody is asked for it.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let expiry = if self.attested_ages { Expiry::AttestedAge } else { Expiry::ObservedSilence };
        let all = Capabilities::native(Duration::from_secs(1)).expiring(expiry).without_watch();
        let mut all = all.aging_within(crate::dates::ERROR);
        all.batch = BATCH;
        all
    }

    /// Where `client` finds the table, which has that layout.
    pub(crate) fn location(&self, client: &Client, layout: Layout) -> TableLocation {
        TableLocation::of(client, self.table.clone(), self.endpoint.clone(), layout)
    }

    /// That a table can be opened by this, as far as can be told before any I/O. Whatever opens one asks for it.
    ///
    /// # Errors
    /// `Invalid`, naming the setting and the remedy.
    pub fn check(&self) -> Result<(), StoreError> {
        let bad = |text: String| Err(StoreError::invalid(text));
        let DynamoConfig { table, namespace, .. } = self;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if !(3..=255).contains(&table.len()) || !table.bytes().all(is_name) {
            return bad(format!(
                "{table:?} can't be a DynamoDB table; its name has 3 to 255 letters, digits, `_`, `.` and `-`"
            ));
        }
        if namespace.is_empty() || namespace.len() > 512 {
            let bytes = namespace.len();
            return bad(format!("a namespace of {bytes} bytes is outside 1 to 512; choose another"));
        }
        if shards::is_partition_of_another(namespace) {
            return bad(format!(
                "the namespace {namespace:?} is called as a shard of another one would be; choose a name without `#`"
            ));
        }
        if !(1..=shards::MOST).contains(&self.shards) {
            return bad(format!(
                "{} shards are outside 1 to {}; 16 are enough for most",
                self.shards,
                shards::MOST
            ));
        }
        for (what, region) in [("region", &self.region), ("one_region", &self.one_region)] {
            let is_region =
                |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if let Some(region) = region
                && !is_region(region)
            {
                return bad(format!("{what} {region:?} can't be an AWS region; one is called eu-west-1"));
            }
        }
        check_span("timeout", self.timeout, Duration::from_millis(10)..=Self::MAX_TIMEOUT)?;
        self.endpoint.as_deref().map_or(Ok(()), |endpoint| check_endpoint(endpoint, self.plain_text))
    }
}

fn check_endpoint(endpoint: &str, plain_text: bool) -> Result<(), StoreError> {
    let bad = |text: &str| Err(StoreError::invalid(format!("the endpoint of the DynamoDB store {text}")));
    let Ok(url) = Url::parse(endpoint) else {
        return bad("is not a URL; write https://HOST or http://127.0.0.1:8000");
    };
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return bad("has more than a host and a port; credentials come from the environment or a profile");
    }
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return bad("names no host; write https://HOST or http://127.0.0.1:8000"),
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback || plain_text => Ok(()),
        "http" => bad("is plain text to another host; use https, or accept that with plain_text=yes"),
        _ => bad("is neither https nor http; write https://HOST or http://127.0.0.1:8000"),
    }
}

/// Whether the option `name` of a URL is `yes` or `no`.
///
/// # Errors
/// `Invalid` when it is neither.
pub fn yes(name: &str, value: &str) -> Result<bool, StoreError> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(StoreError::invalid(format!("{name}={value:?} is neither yes nor no"))),
    }
}

impl fmt::Debug for DynamoConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoConfig")
            .field("table", &self.table)
            .field("namespace", &self.namespace)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a URL with every option; each kind of mistake is named, with a remedy and without a password; plain text only to
    //! loopback or by the option.
    use super::*;

    #[test]
    fn a_url_says_it_all() {
        let url = "//Jobs_1.x?region=eu-west-1&namespace=a%2Fb%20c&endpoint=http%3A%2F%2F127.0.0.1%3A8000&profile=ops\
                   &timeout_ms=250&attested_ages=no&drift_per_mille=200&plain_text=yes&one_region=eu-west-1&shards=16";
        let meant = DynamoConfig::new("Jobs_1.x")
            .region("eu-west-1")
            .namespace("a/b c")
            .endpoint("http://127.0.0.1:8000")
            .profile("ops")
            .timeout(Duration::from_millis(250))
            .attested_ages(false)
            .drift(Drift::per_mille(200).unwrap())
            .plain_text(true)
            .one_region("eu-west-1")
            .shards(16);
        assert_eq!(DynamoConfig::from_url(url), Ok(meant.clone()));
        assert_eq!(DynamoConfig::from_url(&format!("dynamodb:{url}")), Ok(meant), "a whole URL is as good");
        assert_eq!(DynamoConfig::from_url("//jobs"), Ok(DynamoConfig::new("jobs")));
        assert_eq!(DynamoConfig::from_url("//jobs?endpoint=http://localhost:1").unwrap().table(), "jobs");
    }

    #[test]
    fn mistakes_are_named_with_a_remedy() {
        for (url, says) in [
            ("", "names no table"),
            ("jobs", "names no table"),
            ("///x", "names no table"),
            ("//jobs:80", "names no table"),
            ("//jobs/x", "names no table"),
            ("//key:hidden@jobs", "AWS_PROFILE"),
            ("//ab", "3 to 255"),
            ("//a%20b", "3 to 255"),
            ("dynamodb://key:hidden@jobs", "AWS_PROFILE"),
            ("dynamodb:jobs", "names no table"),
            ("//jobs?regoin=x", "no option \"regoin\"; there are region"),
            ("//jobs?region=", "eu-west-1"),
            ("//jobs?region=eu_west", "eu-west-1"),
            ("//jobs?one_region=x/y", "one_region"),
            ("//jobs?namespace=", "1 to 512"),
            ("//jobs?namespace=a%231%2F16", "a shard of another"),
            ("//jobs?namespace=app#billing&shards=16", "write %23"),
            ("//jobs#x", "write %23"),
            ("//jobs?shards=many", "no number up to 128; write shards=16"),
            ("//jobs?shards=0", "outside 1 to 128"),
            ("//jobs?shards=129", "outside 1 to 128"),
            ("//jobs?timeout_ms=soon", "no number of milliseconds"),
            ("//jobs?timeout_ms=9", "10 ms to 60 s"),
            ("//jobs?timeout_ms=60001", "10 ms to 60 s"),
            ("//jobs?attested_ages=true", "neither yes nor no"),
            ("//jobs?drift_per_mille=some", "no number up to 500"),
            ("//jobs?drift_per_mille=501", "over the limit of 500"),
            ("//jobs?endpoint=here", "not a URL"),
            ("//jobs?endpoint=ftp://h", "neither https nor http"),
            ("//jobs?endpoint=https://u:hidden@h", "AWS_PROFILE"),
            ("//jobs?endpoint=https://u:hidden%40h", "credentials come from"),
            ("//key:?hidden=x@jobs", "AWS_PROFILE"),
            ("//key:#hidden@jobs", "AWS_PROFILE"),
            ("//jobs?endpoint=http://10.0.0.1:8000", "plain_text=yes"),
            ("//jobs?endpoint=http://localhost.example", "plain_text=yes"),
        ] {
            let error = DynamoConfig::from_url(url).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hidden"), "{url}: {error}");
        }
        assert!(DynamoConfig::from_url("//jobs?endpoint=http://10.0.0.1&plain_text=yes").is_ok());
        assert!(DynamoConfig::from_url("//jobs?endpoint=http://[::1]:8000").is_ok());
        assert!(DynamoConfig::new("jobs").namespace("x".repeat(513)).check().is_err());
    }
}
