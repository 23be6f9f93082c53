//! The store itself.

use crate::client::PostgresClient;
use crate::config::PostgresConfig;
use crate::connect::tls;
use crate::connections::Connections;
use crate::guard::SqlGuard;
use crate::listen;
use crate::sql::{MendSql, ReadSql, WriteSql};
use crate::{inspect, mend, read, schema, write};
use deadpool_postgres::Pool;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tenure_core::op::{Freshness, Listed, Outcome, Write};
use tenure_core::{Fence, Key, Record, StoreError, Stored, Version};
use tenure_store::parts::{Right, aside};
use tenure_store::{Capabilities, Changes, Image, Inspection, Store};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Records in one schema of a PostgreSQL database. Clones share their connections.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<PostgresClient>,
}

impl PostgresStore {
    /// Opens the store. It looks at its tables once, and never makes them: see [`Self::migrate`].
    ///
    /// # Errors
    /// Each names the server, the database, the schema and the remedy, and none a password. `Invalid`: the configuration, the user,
    /// the database, a missing right, or tables that aren't there. `Foreign`: the schema is another's, or newer than this program.
    /// `Unavailable`: the server can't be reached.
    ///
    /// # Cancel safety
    /// Nothing is changed, so nothing is left behind.
    pub async fn open(config: PostgresConfig) -> Result<Self, StoreError> {
        let connections = opened(&config).await?;
        Self::start(connections.tls(), connections, config).await
    }

    /// Opens the store over a pool of the caller's own, whose connections, limits and TLS are used, and no others but for
    /// [`changed`](Store::changed): that listens by a connection of its own, made as `config` says. With [`PostgresConfig::push`] off
    /// `config` needs no host: `PostgresConfig::new(tokio_postgres::Config::new())` will do. Its schema, timeout and ages matter all the
    /// same.
    ///
    /// A connection that was left in the middle of something is taken out of the pool. Under a lock it stays at the server until that is free,
    /// unless its `lock_timeout` is below the timeout here; with a commit whose standby is away, until that is back. The pool makes others meanwhile. A pool that is used by others besides must have
    /// room for both: a call that finds no free connection within the timeout is `Unavailable`.
    ///
    /// # Errors
    /// As [`Self::open`]. `Invalid`: push is on, and `config` names no host to listen at, or the certificates for that can't be read: better told now
    /// than by waiters that are slow.
    ///
    /// # Cancel safety
    /// As [`Self::open`].
    pub async fn with_pool(pool: Pool, config: PostgresConfig) -> Result<Self, StoreError> {
        config.check_beside_pool()?;
        let tls = match config.push {
            true => beside(&config, tls).await.map_err(|error| {
                error
                    .about("the connection that listens for changes beside the pool (push(false) needs none)")
            })?,
            false => None,
        };
        Self::start(tls, Connections::of(pool, &config), config).await
    }

    /// Makes the schema and its tables, or brings them up to date, in one transaction. False if they were so already. The role needs
    /// `CREATE` on the database; the one that uses the store does not.
    ///
    /// # Errors
    /// As [`Self::open`]. `Foreign`: the schema has tables that aren't tenure's; nothing is changed then.
    ///
    /// # Cancel safety
    /// All is made, or nothing.
    pub async fn migrate(config: &PostgresConfig) -> Result<bool, StoreError> {
        schema::migrate(&opened(config).await?, &config.schema).await
    }

    async fn start(
        tls: Option<MakeRustlsConnect>,
        connections: Connections,
        config: PostgresConfig,
    ) -> Result<Self, StoreError> {
        let id = schema::examine(&connections, &config.schema).await?;
        connections.admission.granted(Right::Login);
        let channel = format!("tenure_{}", config.schema);
        let (tells_ages, capabilities) = (config.attested_ages, config.capabilities());
        let inner = PostgresClient {
            connections,
            writes: WriteSql::new(&config.schema, &channel),
            reads: ReadSql::new(&config.schema),
            mends: MendSql::new(&config.schema),
            channel,
            tells_ages,
            config,
            tls,
            id,
            capabilities,
            listener: Mutex::default(),
        };
        Ok(PostgresStore { inner: Arc::new(inner) })
    }

    /// What the server says of itself: what of its configuration can lose leases, as commits that are not synced or standbys that
    /// lag; what this role may do; whether a pooler stands between; its clock. What the role may not see is noted.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn inspect(&self) -> Inspection {
        inspect::inspect(&self.inner.connections, &self.inner.config).await
    }

    /// A condition for the caller's own transactions in the same database: true only while the record of `key` shows a tenure with
    /// the fence `fence`. If that tenure is attached to a session, the session's record must show a tenure, too, and the fence that it was attached to.
    ///
    /// A write with this condition can't land after the loss of the lease, however late it is, and whatever the clocks did. The
    /// condition locks the record until the transaction's end, and whoever takes the key over has to write it. The role needs
    /// `SELECT` and `UPDATE` on the table for that.
    ///
    /// `key` is the key as it is in this schema. A lease that was acquired through a `PrefixedStore` has its prefix there before the
    /// key. If it is attached to a session, the condition is never true, because the session's key in the record lacks the prefix: give
    /// such a lease a ttl of its own. Nor is it ever true for permits of a semaphore: their record has no tenure, but a list of holders.
    #[must_use]
    pub fn guard(&self, key: &Key, fence: Fence) -> SqlGuard {
        SqlGuard::new(&self.inner.config.schema, key.clone(), fence)
    }
}

/// Connections of the store's own.
async fn opened(config: &PostgresConfig) -> Result<Connections, StoreError> {
    beside(config, Connections::open).await
}

/// What is made of the configuration and the files that it names, which are not read on the thread that renews leases.
async fn beside<T: Send + 'static>(
    config: &PostgresConfig,
    make: fn(&PostgresConfig) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let (limit, config) = (config.timeout, config.clone());
    aside("reading the file of sslrootcert=", limit, move || make(&config)).await
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("place", &self.inner.connections.place)
            .field("id", &self.inner.id)
            .finish_non_exhaustive()
    }
}

impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities
    }

    fn id(&self) -> String {
        self.inner.id.clone()
    }

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.inner.judged(Right::Read, read::one(&self.inner, key).await)
    }

    async fn read_many(&self, keys: &[Key], _freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.inner.judged(Right::Read, read::many(&self.inner, keys).await)
    }

    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.inner.judged(Right::Write, write::one(&self.inner, &write).await)
    }

    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.inner.capabilities.check_batch(writes.len())?;
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.inner.judged(Right::Write, write::many(&self.inner, &writes).await)
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.inner.judged(Right::Read, read::list(&self.inner, prefix, after, limit).await)
    }

    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.inner.judged(Right::Remove, write::remove(&self.inner, key, version).await)
    }

    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.inner.judged(Right::Read, mend::image(&self.inner, key).await)
    }

    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        self.inner.judged(Right::Remove, mend::mend(&self.inner, key, seen, instead).await)
    }

    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        if !self.inner.capabilities.watch {
            return Err(StoreError::unsupported(
                "push of the PostgreSQL store is switched off; poll instead",
            ));
        }
        let mut listener = self.inner.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(changes) = listener.as_ref().and_then(|running| running.subscribe(prefix)) {
            return Ok(changes);
        }
        let started =
            listen::start(self.inner.config.clone(), self.inner.tls.clone(), self.inner.channel.clone())?;
        let over = || StoreError::unavailable("the runtime is about to end; poll instead");
        listener.insert(started).subscribe(prefix).ok_or_else(over)
    }
}
