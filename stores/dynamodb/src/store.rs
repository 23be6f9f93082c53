//! The store itself.

use crate::client::TableClient;
use crate::config::DynamoConfig;
use crate::connect::{connect, harnessed};
use crate::dates::Dates;
use crate::layout::Layout;
use crate::released::ReleasedFences;
use crate::service::Service;
use crate::shards::Shards;
use crate::shards::claim::fix;
use crate::{guard, inspect, list, mend, read, table, write};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::TransactWriteItem;
use std::fmt;
use std::sync::Arc;
use tenure_core::op::{Freshness, Listed, Outcome, Write};
use tenure_core::{Clock, Fence, Key, Record, StoreError, Stored, Version};
use tenure_store::parts::{Admission, Right};
use tenure_store::{Capabilities, Changes, Expiry, Image, Inspection, Store};

/// Records in one namespace of a DynamoDB table. Clones share their connections.
///
/// By a client of your own ([`Self::with_client`]), each few minutes one request loads credentials for all of them within the SDK, which wait for that
/// request's future. So poll each future of such a store until it ends, or drop it; in a `select!` whose other branch takes long, spawn it. A client
/// whose `identity_cache` is `IdentityCache::no_cache()` does not wait so: it asks its provider for each request.
#[derive(Clone)]
pub struct DynamoStore {
    inner: Arc<TableClient>,
}

impl DynamoStore {
    /// Opens the store, with region and credentials as every AWS program finds them unless the configuration names them. It
    /// looks at the table (`DescribeTable`), which it never makes, and at the number of the namespace's shards (`GetItem`).
    ///
    /// `clock` bridges the time between the service's own dates: `tenure::clock::system()`.
    ///
    /// # Errors
    /// Each names the table and the remedy. `Invalid`: the configuration, or a table that is not fit for leases, or a role that
    /// may not use it, or a namespace of another number of shards. `Unavailable`: no such table, or the service can't be reached, or there are no credentials.
    ///
    /// # Cancel safety
    /// Nothing is changed, so nothing is left behind.
    pub async fn open(config: DynamoConfig, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        config.check()?;
        let client = connect(&config).await?;
        Self::start(&client, config, clock).await
    }

    /// Opens the store with a client of the caller's own, whose region, endpoint, credentials, connections and interceptors are
    /// used. Its retries and timeouts are not: see [`DynamoConfig::timeout`].
    ///
    /// # Errors
    /// As [`Self::open`]; and `Invalid` when the configuration names what the client has of its own.
    ///
    /// # Cancel safety
    /// As [`Self::open`].
    pub async fn with_client(
        client: &Client,
        config: DynamoConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        config.check()?;
        config.check_bare()?;
        Self::start(client, config, clock).await
    }

    /// Makes the table, billed on demand, and waits until it can be used. False if there was one of that name already, which
    /// is left as it is.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Cancel safety
    /// The table may have been made, or not.
    pub async fn create_table(config: &DynamoConfig) -> Result<bool, StoreError> {
        Service::connect(config, Layout::native()).await?.create().await
    }

    async fn start(client: &Client, config: DynamoConfig, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let dates = Dates::new(clock, config.drift);
        let client = harnessed(client, config.timeout, dates.clone());
        let place = config.location(&client, Layout::native());
        let table = table::examine(&client, &place, config.one_region.as_deref()).await?;
        // The answer to that was the first to tell the service's time, if it tells it at all.
        let dates = (config.attested_ages && dates.at_least().is_some()).then_some(dates);
        let mut capabilities = config.capabilities();
        if dates.is_none() {
            capabilities = capabilities.expiring(Expiry::ObservedSilence);
        }
        let id = format!("dynamodb:{table}/{}", config.namespace);
        let shards = Shards::open(&client, &place, config.namespace, config.shards).await?;
        let inner = TableClient {
            client,
            place,
            shards,
            dates,
            released: ReleasedFences::default(),
            id,
            capabilities,
            admission: Admission::default(),
        };
        inner.admission.granted(Right::Login);
        Ok(DynamoStore { inner: Arc::new(inner) })
    }

    /// What the service says of the table beyond what opening refuses: how it is billed, its other regions, the service's clock.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn inspect(&self) -> Inspection {
        inspect::inspect(&self.inner).await
    }

    /// Conditions for the caller's own `TransactWriteItems` in the same region: with them, the transaction is refused unless
    /// the record of `key` shows a tenure with the fence `fence`. If that tenure is attached to a session, the session's record must show
    /// a tenure, too, and the fence that it was attached to. So the transaction can't land after the loss of the lease, however late it
    /// is, and whatever the clocks did.
    ///
    /// There are one or two of them. The session is looked up by one read, which takes nothing away from the conditions: if
    /// the lease is lost meanwhile, they don't hold. They hold for as long as the lease does, and can be used many times. The
    /// role needs `dynamodb:ConditionCheckItem`.
    ///
    /// `key` is the key as it is in this namespace. A lease that was acquired through a `PrefixedStore` has its prefix there
    /// before the key. If it is attached to a session, the conditions never hold, because the session's key in the record lacks the
    /// prefix: give such a lease a ttl of its own.
    ///
    /// # Errors
    /// As [`Store::read`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn guard(&self, key: &Key, fence: Fence) -> Result<Vec<TransactWriteItem>, StoreError> {
        self.inner.judged(Right::Read, |_| true, guard::checks(&self.inner, key, fence).await)
    }
}

/// Whether an answer has anything: for nothing, nobody need have been asked.
#[allow(clippy::ptr_arg, reason = "it is called with what was answered")]
fn has_some<T>(answered: &Vec<T>) -> bool {
    !answered.is_empty()
}

impl fmt::Debug for DynamoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoStore")
            .field("table", &self.inner.place.table)
            .field("namespace", &self.inner.shards.namespace())
            .field("id", &self.inner.id)
            .finish_non_exhaustive()
    }
}

impl Store for DynamoStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities
    }

    fn id(&self) -> String {
        self.inner.id.clone()
    }

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.inner.judged(Right::Read, |_| true, read::one(&self.inner, key).await)
    }

    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.inner.judged(Right::ReadMany, has_some, read::many(&self.inner, keys, freshness).await)
    }

    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        let written = async {
            fix(&self.inner).await?;
            write::one(&self.inner, &write).await
        };
        self.inner.judged(Right::Write, |_| true, written.await)
    }

    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.inner.capabilities.check_batch(writes.len())?;
        let written = async {
            fix(&self.inner).await?;
            write::many(&self.inner, writes).await
        };
        self.inner.judged(Right::Write, has_some, written.await)
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.inner.judged(Right::List, has_some, list::list(&self.inner, prefix, after, limit).await)
    }

    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.inner.judged(Right::Remove, |_| true, write::remove(&self.inner, key, version).await)
    }

    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.inner.judged(Right::Read, |_| true, mend::image(&self.inner, key).await)
    }

    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        // The one is an update, the other a deletion.
        let right = if instead.is_some() { Right::Write } else { Right::Remove };
        self.inner.judged(
            right,
            |is_done| *is_done,
            mend::mend(&self.inner, key, seen, instead.as_ref()).await,
        )
    }

    fn changed(&self, _prefix: &str) -> Result<Changes, StoreError> {
        Err(StoreError::unsupported("DynamoDB does not tell of changes by itself; poll instead"))
    }
}
