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

mod standard;

use crate::clock;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tenure_core::{Clock, InvalidInput, StoreError};
use tenure_store::{AnyStore, Store};

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
        Registry { kinds: standard::kinds() }
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

#[cfg(test)]
mod tests {
    use super::standard::memory;
    use super::*;
    use tenure_store::MemoryStore;

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
}
