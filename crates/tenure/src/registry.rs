//! Stores by name: which kinds there are, and how each is opened from a URL such as `sqlite:leases.db`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure::registry::{Opening, Registry};
//!
//! let stores = Registry::standard();
//! let store = stores.open("memory:", Opening::default()).await?;
//! let error = stores.open("paper:notebook", Opening::default()).await.unwrap_err();
//! assert!(error.to_string().contains("memory"), "what there is, is listed");
//! # Ok(()) }
//! ```

use crate::clock;
#[cfg(any(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
use crate::home::Homed;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tenure_core::{Clock, InvalidInput, StoreError};
use tenure_store::{AnyStore, MemoryStore, Store};

/// How a store is to be opened: [`Opening::default`], and what is to be otherwise.
#[derive(Clone)]
#[non_exhaustive]
pub struct Opening {
    /// Whether one that isn't there yet is made. Yes, by default.
    pub create: bool,
    /// Whether that goes for what is not ours alone, too: a table in DynamoDB, a schema of a PostgreSQL database. No, by default.
    pub create_table: bool,
    /// Whether one that this process can't write to is opened all the same, to be read only. No, by default.
    pub look: bool,
    /// Whether a server's connections are made on the runtime around, and not on the thread that renews leases. No, by default.
    pub here: bool,
    /// The clock that a store tells ages by, or bridges the time between its service's own dates.
    pub clock: Arc<dyn Clock>,
}

impl Default for Opening {
    fn default() -> Self {
        Opening { create: true, create_table: false, look: false, here: false, clock: clock::system() }
    }
}

impl Opening {
    /// Whether one that isn't there yet is made. Yes, by default.
    #[must_use]
    pub fn create(mut self, on: bool) -> Self {
        self.create = on;
        self
    }

    /// Whether that goes for a table in DynamoDB or a schema of a PostgreSQL database, too. No, by default.
    #[must_use]
    pub fn create_table(mut self, on: bool) -> Self {
        self.create_table = on;
        self
    }

    /// Whether one that this process can't write to is opened all the same, to be read only. No, by default.
    #[must_use]
    pub fn look(mut self, on: bool) -> Self {
        self.look = on;
        self
    }

    /// Whether a server's connections are made on the runtime around, which is where leases are to be renewed then
    /// ([`LeasesBuilder::runtime`](crate::LeasesBuilder::runtime)), and not on the thread that renews leases. No, by default.
    #[must_use]
    pub fn here(mut self, on: bool) -> Self {
        self.here = on;
        self
    }

    /// Another clock than the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening")
            .field("create", &self.create)
            .field("create_table", &self.create_table)
            .field("look", &self.look)
            .field("here", &self.here)
            .finish_non_exhaustive()
    }
}

/// The feature of this crate that brings the store with this scheme, in this build or not; none if there is no such store.
#[must_use]
pub fn feature_of(scheme: &str) -> Option<&'static str> {
    match scheme {
        "dynamodb" => Some("dynamodb"),
        "etcd" | "etcds" => Some("etcd"),
        "postgres" | "postgresql" => Some("postgres"),
        "redis" | "rediss" => Some("redis"),
        "sqlite" => Some("sqlite"),
        _ => None,
    }
}

type Opened = Pin<Box<dyn Future<Output = Result<AnyStore, StoreError>> + Send>>;
type Opener = Arc<dyn Fn(String, Opening) -> Opened + Send + Sync>;

/// Kinds of stores by id, which is the scheme of their URLs.
#[derive(Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<String, Opener>,
}

impl Registry {
    /// A registry without any kind.
    #[must_use]
    pub fn new() -> Registry {
        Registry::default()
    }

    /// All kinds that this build has.
    #[must_use]
    pub fn standard() -> Registry {
        let mut kinds: BTreeMap<String, Opener> = BTreeMap::new();
        kinds.insert("memory".to_owned(), opener(memory));
        #[cfg(feature = "dynamodb")]
        kinds.insert(
            "dynamodb".to_owned(),
            opener(|rest, opening| housed(opening.here, dynamodb(rest, opening))),
        );
        #[cfg(feature = "etcd")]
        for id in ["etcd", "etcds"] {
            kinds.insert(
                id.to_owned(),
                opener(move |rest, opening| housed(opening.here, etcd(format!("{id}:{rest}")))),
            );
        }
        #[cfg(feature = "postgres")]
        for id in ["postgres", "postgresql"] {
            kinds
                .insert(id.to_owned(), opener(|rest, opening| housed(opening.here, postgres(rest, opening))));
        }
        #[cfg(feature = "redis")]
        for id in ["redis", "rediss"] {
            kinds.insert(
                id.to_owned(),
                opener(move |rest, opening| housed(opening.here, redis(id, rest, opening))),
            );
        }
        #[cfg(feature = "sqlite")]
        kinds.insert("sqlite".to_owned(), opener(sqlite));
        Registry { kinds }
    }

    /// Adds a kind. `open` gets what follows `id:` in a URL, and opens a store of whatever type.
    ///
    /// # Errors
    /// When there is such a kind already, or the id is not lower-case letters, digits, `+`, `-` and `.` that begin with a letter.
    pub fn register<F, Fut, S>(&mut self, id: &str, open: F) -> Result<(), InvalidInput>
    where
        F: Fn(String, Opening) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S, StoreError>> + Send + 'static,
        S: Store,
    {
        let is_scheme =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
        if !id.starts_with(|c: char| c.is_ascii_lowercase()) || !id.bytes().all(is_scheme) {
            return Err(InvalidInput::new(format!(
                "{id:?} can't be the id of a store; take lower-case letters and digits, beginning with a letter"
            )));
        }
        if self.kinds.contains_key(id) {
            return Err(InvalidInput::new(format!(
                "there is a store {id:?} already; register this one by another id"
            )));
        }
        self.kinds.insert(id.to_owned(), opener(open));
        Ok(())
    }

    /// The ids of all kinds, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// Opens the store at `url`. The connections of tenure's own kinds are made on the thread that renews leases, whichever runtime asks.
    ///
    /// # Errors
    /// `Invalid` when the URL has no scheme or one that is not known: that lists those that are, or names the feature of this crate that
    /// brings it; otherwise as the store's own
    /// opening. No error repeats more of the URL than its scheme, as the rest may hold a password.
    ///
    /// # Cancel safety
    /// When the future is dropped the store may have been made, or not.
    pub async fn open(&self, url: &str, opening: Opening) -> Result<AnyStore, StoreError> {
        let known = || self.ids().collect::<Vec<_>>().join(", ");
        let Some((id, rest)) = url.split_once(':') else {
            let text =
                format!("the store's URL has no scheme; write one of {}, a colon, and the place", known());
            return Err(StoreError::invalid(text));
        };
        match self.kinds.get(id) {
            Some(open) => open(rest.to_owned(), opening).await,
            None => {
                let shown: String = id.chars().take(20).collect();
                let text = match feature_of(id) {
                    Some(feature) => format!(
                        "this build has no store for \"{shown}:\"; add the feature {feature:?} of the crate tenure, or \
                         \"all-stores\" (it knows {})",
                        known()
                    ),
                    None => format!("no store is called {shown:?}; this build knows {}", known()),
                };
                Err(StoreError::invalid(text))
            }
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ids()).finish()
    }
}

fn opener<F, Fut, S>(open: F) -> Opener
where
    F: Fn(String, Opening) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S, StoreError>> + Send + 'static,
    S: Store,
{
    Arc::new(move |rest, opening| {
        let opened = open(rest, opening);
        Box::pin(async { opened.await.map(AnyStore::new) })
    })
}

/// Opens the store of a server, on the thread that renews leases or here.
#[cfg(any(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
async fn housed<F>(here: bool, open: F) -> Result<AnyStore, StoreError>
where
    F: Future<Output = Result<AnyStore, StoreError>> + Send + 'static,
{
    if here { open.await } else { Homed::open(open).await }
}

/// What a URL says. It may name a file with a password, which is read once to see whether that can be done, and not by the thread that renews leases.
#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis"))]
async fn understood<C: Send + 'static>(
    url: &str,
    parse: impl FnOnce() -> Result<C, StoreError> + Send + 'static,
) -> Result<C, StoreError> {
    if !url.contains("password-file") {
        return parse();
    }
    // The longest time that a URL can say for a call, which is not known yet.
    let limit = std::time::Duration::from_secs(60);
    tenure_store::parts::aside("reading the password file", limit, parse).await
}

async fn memory(rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    if !rest.is_empty() {
        return Err(StoreError::invalid("the store memory: takes nothing after the colon"));
    }
    Ok(AnyStore::new(MemoryStore::new(format!("memory:{:016x}", clock::instance()), opening.clock)))
}

#[cfg(feature = "dynamodb")]
async fn dynamodb(rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    use tenure_dynamodb::{DynamoConfig, DynamoStore};
    let config = DynamoConfig::from_url(&rest)?;
    if opening.create_table {
        DynamoStore::create_table(&config).await?;
    }
    Ok(AnyStore::new(DynamoStore::open(config, opening.clock).await?))
}

#[cfg(feature = "etcd")]
async fn etcd(url: String) -> Result<AnyStore, StoreError> {
    use tenure_etcd::{EtcdConfig, EtcdStore};
    let config = understood(&url.clone(), move || EtcdConfig::from_url(&url)).await?;
    Ok(AnyStore::new(EtcdStore::open(config).await?))
}

#[cfg(feature = "postgres")]
async fn postgres(rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    use tenure_postgres::{PostgresConfig, PostgresStore};
    let config = understood(&rest.clone(), move || PostgresConfig::from_url(&rest)).await?;
    if opening.create_table {
        PostgresStore::migrate(&config).await?;
    }
    Ok(AnyStore::new(PostgresStore::open(config).await?))
}

#[cfg(feature = "redis")]
async fn redis(scheme: &'static str, rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    use tenure_redis::{RedisConfig, RedisStore};
    let config =
        understood(&rest.clone(), move || RedisConfig::from_url(&format!("{scheme}:{rest}"))).await?;
    Ok(AnyStore::new(RedisStore::open(config.create(opening.create || opening.create_table)).await?))
}

#[cfg(feature = "sqlite")]
async fn sqlite(rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    let path = rest.strip_prefix("//").unwrap_or(&rest);
    if path.is_empty() {
        return Err(StoreError::invalid(
            "the store sqlite: names no file; write sqlite:leases.db, for example",
        ));
    }
    let config = tenure_sqlite::SqliteConfig::new(path).create(opening.create).look(opening.look);
    // A thread of its own: the runtime's panic where there is none to be had.
    let (tell, opened) = tokio::sync::oneshot::channel();
    let open = move || {
        let _nobody_waits = tell.send(tenure_sqlite::SqliteStore::open(config));
    };
    let thread = std::thread::Builder::new().name("tenure-sqlite-open".to_owned()).spawn(open);
    thread.map_err(|error| StoreError::unavailable(format!("can't start a thread: {error}")))?;
    match opened.await {
        Ok(store) => Ok(AnyStore::new(store?)),
        Err(_) => Err(StoreError::unavailable("the store's code failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn kinds_are_opened_by_their_ids_and_an_unknown_one_is_told_which_there_are() {
        let mut stores = Registry::standard();
        assert!(stores.register("memory", memory).unwrap_err().to_string().contains("already"));
        for bad in ["", "A", "1a", "a b", "a:"] {
            assert!(stores.register(bad, memory).is_err(), "{bad:?}");
        }
        stores.register("ours", |_, opening| memory(String::new(), opening)).unwrap();
        assert!(stores.open("ours:anything", Opening::default()).await.is_ok());
        // A store of whatever type, shared or not.
        let one = Arc::new(MemoryStore::new("one", clock::system()));
        stores.register("one", move |_, _| std::future::ready(Ok(Arc::clone(&one)))).unwrap();
        assert_eq!(stores.open("one:", Opening::default()).await.unwrap().id(), "one");
        assert!(stores.ids().any(|id| id == "ours"));
        let error = stores.open("paper://u:secret@h/d", Opening::default()).await.unwrap_err().to_string();
        assert!(error.contains("memory, one, ours") && !error.contains("secret"), "{error}");
        for bad in ["leases.db", "memory:x", ""] {
            assert!(stores.open(bad, Opening::default()).await.is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_store_that_this_build_lacks_is_told_with_the_feature_that_brings_it() {
        let standard = Registry::standard();
        for (scheme, has) in [
            ("dynamodb", cfg!(feature = "dynamodb")),
            ("etcd", cfg!(feature = "etcd")),
            ("etcds", cfg!(feature = "etcd")),
            ("postgres", cfg!(feature = "postgres")),
            ("postgresql", cfg!(feature = "postgres")),
            ("redis", cfg!(feature = "redis")),
            ("rediss", cfg!(feature = "redis")),
            ("sqlite", cfg!(feature = "sqlite")),
        ] {
            let feature = feature_of(scheme).unwrap();
            assert_eq!(standard.ids().any(|id| id == scheme), has, "{scheme}");
            // As any build that lacks it.
            let error = Registry::new().open(&format!("{scheme}://u:secret@h/d"), Opening::default()).await;
            let text = error.unwrap_err().to_string();
            assert!(text.contains(&format!("the feature \"{feature}\" of the crate tenure")), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
        let without_feature = standard.ids().filter(|id| feature_of(id).is_none());
        assert_eq!(without_feature.collect::<Vec<_>>(), ["memory"]);
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_sqlite_file_is_opened_by_its_url() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("a.db").display());
        let stores = Registry::standard();
        let missing = Opening::default().create(false);
        assert!(stores.open(&url, missing.clone()).await.is_err());
        stores.open(&url, Opening::default()).await.unwrap();
        assert!(stores.open(&url, missing).await.is_ok());
        assert!(stores.open("sqlite:", Opening::default()).await.is_err());
    }

    #[cfg(feature = "etcd")]
    #[tokio::test]
    async fn an_etcd_url_is_checked_before_anything_is_asked() {
        let stores = Registry::standard();
        for (url, says) in [
            ("etcd:", "two slashes"),
            ("etcd://u:secret@10.0.0.7/p", "etcds: for TLS"),
            ("etcds://u:secret@10.0.0.7/p?tls=off", "contradict"),
        ] {
            let error = stores.open(url, Opening::default()).await.unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == tenure_core::ErrorKind::Invalid && text.contains(says), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn a_postgres_url_is_checked_before_anything_is_asked() {
        let stores = Registry::standard();
        for (url, says) in [
            ("postgres:", "two slashes"),
            ("postgresql://u:secret@h/d?schema=public", "of tenure's own"),
            ("postgres://u:secret@h/d?shcema=x", "shcema"),
        ] {
            let error = stores.open(url, Opening::default()).await.unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == tenure_core::ErrorKind::Invalid && text.contains(says), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[cfg(feature = "redis")]
    #[tokio::test]
    async fn a_redis_url_is_checked_before_anything_is_asked() {
        let stores = Registry::standard();
        for (url, says) in [
            ("redis:", "rediss://USER@HOST"),
            ("redis://u:secret@db.example", "plain text"),
            ("rediss://u:secret@db.example?nmaespace=x", "nmaespace"),
        ] {
            let error = stores.open(url, Opening::default()).await.unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == tenure_core::ErrorKind::Invalid && text.contains(says), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[cfg(feature = "dynamodb")]
    #[tokio::test]
    async fn a_dynamodb_url_is_checked_before_anything_is_asked() {
        let stores = Registry::standard();
        for (url, says) in
            [("dynamodb:", "names no table"), ("dynamodb://jobs?regoin=x", "region, namespace")]
        {
            let error = stores.open(url, Opening::default()).await.unwrap_err();
            assert!(
                error.kind() == tenure_core::ErrorKind::Invalid && error.to_string().contains(says),
                "{error}"
            );
        }
    }
}
