//! Acquires, refreshes and releases.

use super::calls::Calls;
use super::error::{LeaseError, LeaseKey};
use super::item::ItemLease;
use super::judge;
use super::lease::{Belief, HeldLease};
use super::machine::{LeaseAcquisition, LeaseOperation, LeaseRefresh, LeaseRelease, OperationEnd};
use super::options::TableTheoryOptions;
use super::orphans::OrphanedClaims;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, InvalidInput, StoreError};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::service::Service;

/// TableTheory's leases in one table. Clones share their connections.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<SharedManager>,
}

struct SharedManager {
    calls: Calls,
    clock: Arc<dyn Clock>,
    tokens: Box<dyn Fn() -> String + Send + Sync>,
    orphans: Arc<OrphanedClaims>,
}

impl Manager {
    /// Leases in the table that the options name, with region and credentials as every AWS program finds them unless the options
    /// name them. It looks at the table once (`DescribeTable`), and never makes it.
    ///
    /// `clock` is `tenure::clock::system()`. `tokens` draws a UUID of version 4 for each acquisition: `tenure::clock::uuid`.
    ///
    /// # Errors
    /// Each names the table and the remedy. `Invalid`: the options, a table with other keys, or a role that may not use it.
    /// `Unavailable`: no such table, or the service can't be reached, or there are no credentials.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn open(
        options: TableTheoryOptions,
        clock: Arc<dyn Clock>,
        tokens: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Manager, StoreError> {
        options.check()?;
        let service = Service::connect(&options.place, options.layout()).await?;
        service.examine().await?;
        Ok(Manager::start(service, options, clock, tokens))
    }

    /// The same with a client of the caller's own, whose region, endpoint, credentials, connections and interceptors are used.
    /// Its retries and timeouts are not. Nothing is asked of the service yet, so a role without `DescribeTable` will do.
    ///
    /// # Errors
    /// `Invalid`: the options, or they name what the client has of its own.
    pub fn with_client(
        client: &Client,
        options: TableTheoryOptions,
        clock: Arc<dyn Clock>,
        tokens: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Manager, StoreError> {
        options.check()?;
        options.place.check_bare()?;
        let service = Service::with_client(client, &options.place, options.layout())?;
        Ok(Manager::start(service, options, clock, tokens))
    }

    fn start(
        service: Service,
        options: TableTheoryOptions,
        clock: Arc<dyn Clock>,
        tokens: impl Fn() -> String + Send + Sync + 'static,
    ) -> Manager {
        let calls = Calls { service, options };
        let orphans = Arc::default();
        let inner = SharedManager { calls, clock, tokens: Box::new(tokens), orphans };
        Manager { inner: Arc::new(inner) }
    }

    /// The lease whose sort key is the lock sort key of the options, `LOCK` by default; otherwise as [`Manager::acquire_key`].
    ///
    /// # Errors
    /// As [`Manager::acquire_key`].
    ///
    /// # Cancel safety
    /// As [`Manager::acquire_key`].
    pub async fn acquire(&self, pk: &str, duration: Duration) -> Result<HeldLease, LeaseError> {
        self.acquire_key(pk, &self.options().lock_sort_key, duration).await
    }

    /// The lease, if nobody holds it. It lasts for `duration`, cut so that it ends at a whole second, and is held for the skew
    /// margin less.
    ///
    /// # Errors
    /// [`LeaseError::Held`]. [`LeaseError::Invalid`], before anything is sent: also of a duration of no more than a second and the skew margin,
    /// of which nothing may be left. `Foreign`, when the item is no lease: it is left as
    /// it is. `Unknown`, when the service could not be asked either what became of the request: whoever asks this manager
    /// again gets the lease if it was won.
    ///
    /// # Cancel safety
    /// When the future is dropped, the lease may have been won. It then ends by itself, unless this manager is asked for it
    /// again before.
    pub async fn acquire_key(&self, pk: &str, sk: &str, duration: Duration) -> Result<HeldLease, LeaseError> {
        let options = self.options();
        let mut lease = HeldLease::known_by(pk, sk, "");
        options.check_key(&lease.key)?;
        options.check_held(duration)?;
        lease.token = self.token()?;
        let orphans = Arc::clone(&self.inner.orphans);
        let acquisition = LeaseAcquisition::new(duration, options.skew, orphans);
        match self.perform(acquisition, &mut lease).await? {
            OperationEnd::Done => Ok(lease),
            OperationEnd::Gone(until) => Err(LeaseError::Held { key: lease.key, until }),
            OperationEnd::Failed(error) => Err(error.into()),
        }
    }

    /// Prolongs the lease, so that it ends in `duration` from now: later than before, or sooner.
    ///
    /// One whose belief has ended can be refreshed all the same, as long as its item says that it is ours and not over.
    ///
    /// # Errors
    /// [`LeaseError::NotOwned`] when it is another's or over: it isn't held any more. `Foreign` likewise. After all other errors
    /// it is held for as long as it says.
    ///
    /// # Cancel safety
    /// When the future is dropped, the lease may have been prolonged; it is held for as long as it says.
    pub async fn refresh(&self, lease: &mut HeldLease, duration: Duration) -> Result<(), LeaseError> {
        let options = self.options();
        options.check_lease(lease)?;
        options.check_duration(duration)?;
        match self.perform(LeaseRefresh::new(duration, options.skew), lease).await? {
            OperationEnd::Done => Ok(()),
            OperationEnd::Gone(_) => Err(LeaseError::NotOwned { key: lease.key.clone() }),
            OperationEnd::Failed(error) => Err(error.into()),
        }
    }

    /// Gives the lease back. That it is over, or another's, is no error, and changes nothing. It isn't held any more, whatever
    /// comes of this.
    ///
    /// # Errors
    /// When the service can't be reached or refuses. The same may be tried again; else the lease ends by itself. Where it may still be given
    /// back by what is on its way, a refresh after all changes the token.
    ///
    /// # Cancel safety
    /// When the future is dropped, the lease may have been given back or not; it isn't held.
    pub async fn release(&self, lease: &mut HeldLease) -> Result<(), LeaseError> {
        let release = LeaseRelease::of(lease);
        self.options().check_lease(lease)?;
        match self.perform(release, lease).await? {
            OperationEnd::Done | OperationEnd::Gone(_) => Ok(()),
            OperationEnd::Failed(error) => Err(error.into()),
        }
    }

    /// Sends what the operation asks for, one request after the other, until it has ended.
    async fn perform(
        &self,
        mut operation: impl LeaseOperation,
        lease: &mut HeldLease,
    ) -> Result<OperationEnd, InvalidInput> {
        loop {
            let request = operation.request(lease, self.clock().now(), &|| self.token())?;
            let answer = self.calls().send(&lease.key, &request).await;
            if let Some(end) = operation.on(lease, answer) {
                return Ok(end);
            }
        }
    }

    /// The lease as its item shows it, whoever holds it; none if there is no item. One whose expiry has come is free.
    ///
    /// # Errors
    /// `Foreign` when the item is no lease; and as every read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn look(&self, pk: &str, sk: &str) -> Result<Option<ItemLease>, LeaseError> {
        let key = LeaseKey { pk: pk.to_owned(), sk: sk.to_owned() };
        Ok(self.inner.calls.read(&key).await?)
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &TableTheoryOptions {
        &self.inner.calls.options
    }

    /// The clock by which leases are held.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.inner.calls
    }

    /// What would be believed of a lease of `duration` that was asked for now.
    pub(crate) fn prospect(&self, duration: Duration) -> Belief {
        let now = self.inner.clock.now();
        Belief::of(now, judge::expiry(now.wall, duration), self.options().skew)
    }

    fn token(&self) -> Result<String, InvalidInput> {
        let token = (self.inner.tokens)();
        if token.is_empty() && self.options().validated {
            return Err(InvalidInput::new(
                "the generator of tokens has drawn an empty one; let it draw UUIDs",
            ));
        }
        Ok(token)
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("table", &self.inner.calls.service.table()).finish_non_exhaustive()
    }
}
