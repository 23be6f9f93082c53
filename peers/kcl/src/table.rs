//! The table: its rows, read and changed one request at a time, with outcomes that are known.

mod requests;

use super::change::{Edit, RowChange, forced};
use super::error::LeaseError;
use super::format::{Format, Peers};
use super::place::Place;
use super::row::{Fields, LEASE_COUNTER, LEASE_KEY, Row, bare, check_worker, name};
use super::schema;
use super::settling::{ChangeAnswer, Settled, Settling};
use super::shards::OpenShards;
use requests::{RetryPause, open_if};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, ErrorKind, StoreError};
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::operation::scan::ScanOutput;
use tenure_dynamodb::aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
use tenure_dynamodb::service::{Call, Ended, Item, Service, text};

/// A lease table in the KCL's or `a8m/lease`'s layout. Clones share their connections.
#[derive(Clone)]
pub struct Table {
    inner: Arc<SharedTable>,
}

struct SharedTable {
    service: Service,
    format: Format,
    clock: Arc<dyn Clock>,
}

impl RowListing {
    /// Whose rows these seem to be: the KCL's have a checkpoint, and `a8m/lease` spells nobody `NULL`. None where nothing tells,
    /// or where both do.
    #[must_use]
    pub fn made_by(&self) -> Option<Peers> {
        let of_kcl = self.rows.iter().any(Row::has_checkpoint);
        let of_a8m = self.rows.iter().any(|row| row.is_spelled_null() || !row.has_checkpoint());
        match (of_kcl, of_a8m) {
            (true, false) => Some(Peers::Kcl),
            (false, true) => Some(Peers::A8m),
            _ => None,
        }
    }

    /// How many leases nobody has although there is work: all without an owner, but, where [rows are shards](crate::Options::shards), those
    /// of shards that were read to their end or wait for their parents.
    #[must_use]
    pub fn unowned(&self, are_shards: bool) -> usize {
        let open = are_shards.then(|| OpenShards::of(&self.rows, &self.unreadable));
        let is_work = |row: &&Row| open.as_ref().is_none_or(|open| !open.gives_no_work(row));
        let unowned = self.rows.iter().filter(|row| row.owner().is_none() && row.holder().is_none());
        unowned.filter(is_work).count()
    }
}

/// All rows of a table.
#[derive(Debug, Default, Clone, PartialEq)]
#[non_exhaustive]
pub struct RowListing {
    /// The leases, by name.
    pub rows: Vec<Row>,
    /// What was found besides and can't be read as leases: it is left as it is.
    pub foreign: Vec<StoreError>,
    /// Those of them that have a name and no counter, by name. A program that writes fields without a condition makes such a row
    /// when there is none (any more).
    pub bare: Vec<String>,
    /// The names of all of them that have one. A child whose parent is among them waits, as for any parent that was not read to its end.
    pub unreadable: Vec<String>,
    /// How many rows were passed over because they are no leases by the KCL: they have another `entityType`.
    pub skipped: usize,
}

impl Table {
    /// Opens the table, with region and credentials as every AWS program finds them unless the configuration names them. It
    /// looks at the table once (`DescribeTable`), and never makes it.
    ///
    /// # Errors
    /// Each names the table and the remedy, as those of [`DynamoStore::open`](tenure_dynamodb::DynamoStore::open).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn open(
        config: DynamoConfig,
        format: Format,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        Self::start(Service::connect(&config, schema::layout()).await?, format, clock).await
    }

    /// Opens the table that a URL names.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn at(place: Place, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open(place.config, place.format, clock).await
    }

    /// As [`Self::create_table`], of the table that a URL names.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Cancel safety
    /// The table may have been made, or not.
    pub async fn create_at(place: &Place) -> Result<bool, StoreError> {
        Self::create_table(&place.config).await
    }

    /// Opens the table with a client of the caller's own. Its retries and timeouts are not used.
    ///
    /// # Errors
    /// As [`Self::open`]; and `Invalid`, if `config` names a region, an endpoint or a profile: the client has its own.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn with_client(
        client: &Client,
        config: DynamoConfig,
        format: Format,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        config.check_bare()?;
        Self::start(Service::with_client(client, &config, schema::layout())?, format, clock).await
    }

    /// Makes a table with the HASH key that leases have, billed on demand, and waits until it can be used. False if there was one
    /// of that name already, which is left as it is.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Cancel safety
    /// The table may have been made, or not.
    pub async fn create_table(config: &DynamoConfig) -> Result<bool, StoreError> {
        Service::connect(config, schema::layout()).await?.create().await
    }

    async fn start(service: Service, format: Format, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        service.examine().await?;
        Ok(Table { inner: Arc::new(SharedTable { service, format, clock }) })
    }

    pub(crate) fn client(&self) -> &Client {
        self.inner.service.client()
    }

    pub(crate) fn name(&self) -> &str {
        self.inner.service.table()
    }

    pub(crate) fn format(&self) -> Format {
        self.inner.format
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// The row of this name.
    ///
    /// # Errors
    /// `Unavailable`; `Foreign` when there is one that is no lease.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn read(&self, key: &str) -> Result<Option<Row>, StoreError> {
        let request = self.inner.service.client().get_item().table_name(self.inner.service.table());
        let request = request.key(LEASE_KEY, text(key)).consistent_read(true);
        let answer = request.send().await.map_err(|error| self.inner.service.failed(Call::Read, error))?;
        self.row(answer.item.as_ref())
    }

    /// All rows, over all pages, by consistent reads. A page that is refused for a reason that passes, such as a throttled one, is asked for
    /// again until its time is over.
    ///
    /// # Errors
    /// `Unavailable`. Rows that can't be read are in the listing, each with its error.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn list(&self) -> Result<RowListing, StoreError> {
        self.list_for(self.inner.service.timeout()).await
    }

    /// The same with so much patience for each page.
    pub(crate) async fn list_for(&self, patience: Duration) -> Result<RowListing, StoreError> {
        let mut listing = RowListing::default();
        let mut start = None;
        loop {
            let answer = self.page(start, patience).await?;
            for item in answer.items() {
                match Row::read(self.inner.format, item) {
                    Ok(Some(row)) => listing.rows.push(row),
                    Ok(None) => listing.skipped += 1,
                    Err(error) => {
                        listing.foreign.push(error);
                        listing.bare.extend(bare(item));
                        listing.unreadable.extend(name(item));
                    }
                }
            }
            // A page may be short, or empty, without being the last.
            start = answer.last_evaluated_key;
            if start.is_none() {
                listing.rows.sort_by(|a, b| a.key().cmp(b.key()));
                return Ok(listing);
            }
        }
    }

    /// One page. What was read before is not paid for again because this one is throttled.
    async fn page(&self, start: Option<Item>, patience: Duration) -> Result<ScanOutput, StoreError> {
        const LONGEST: Duration = Duration::from_secs(1);
        let deadline = self.inner.clock.held().after(patience);
        let mut pause = Duration::from_millis(25);
        loop {
            let request = self.inner.service.client().scan().table_name(self.inner.service.table());
            let request = request.consistent_read(true).set_exclusive_start_key(start.clone());
            let error = match request.send().await {
                Ok(page) => return Ok(page),
                Err(error) => self.inner.service.failed(Call::Read, error),
            };
            if !error.is_passing() || self.inner.clock.held().after(pause) >= deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Creates a lease that nobody has.
    ///
    /// # Errors
    /// [`LeaseError::Exists`]: there is a row of that name, which stays as it is. A store error of kind `Unknown`: it may have been created.
    ///
    /// # Cancel safety
    /// The row may have been created, or not.
    pub async fn create(&self, key: &str, fields: Fields) -> Result<Row, LeaseError> {
        let row = Row::new(self.inner.format, key, fields)?;
        let mut may_be_made = false;
        let mut pause = RetryPause::default();
        let deadline = self.inner.clock.held().after(self.inner.service.timeout());
        loop {
            let request = self.inner.service.client().put_item().table_name(self.inner.service.table());
            let request = request
                .set_item(Some(row.item()))
                .condition_expression("attribute_not_exists(#leaseKey)")
                .expression_attribute_names("#leaseKey", LEASE_KEY)
                .return_values_on_condition_check_failure(AllOld);
            let error = match self.inner.service.ended(request.send().await) {
                Ok(Ended::Done(_)) => return Ok(row),
                Ok(Ended::Refused(old)) => {
                    let standing = self.standing(key, old).await;
                    let standing = standing.map_err(|error| open_if(may_be_made, error))?;
                    let is_ours = may_be_made && standing.as_ref() == Some(&row);
                    return if is_ours { Ok(row) } else { Err(LeaseError::Exists(key.to_owned())) };
                }
                Err(error) => error,
            };
            may_be_made |= error.kind() == ErrorKind::Unknown;
            self.pause_or(&mut pause, open_if(may_be_made, error), deadline).await?;
        }
    }

    /// Changes the users' fields of a row, whoever has it, without any condition but that it is there. Its owner, if it has one,
    /// notices nothing: [`Coordinator::update`](super::Coordinator::update) is for owners.
    ///
    /// # Errors
    /// [`LeaseError::Missing`]: there is no such row, and none is made. A store error of kind `Unknown`: the change may have been made.
    ///
    /// # Cancel safety
    /// The change may have been made, or not.
    pub async fn force_update(&self, key: &str, edit: &Edit) -> Result<(), LeaseError> {
        edit.check(self.inner.format)?;
        if edit.is_empty() {
            let found = self.read(key).await?;
            return found.map(drop).ok_or_else(|| LeaseError::Missing(key.to_owned()));
        }
        let deadline = self.inner.clock.held().after(self.inner.service.timeout());
        let (mut pause, mut may_be_made) = (RetryPause::default(), false);
        loop {
            let error = match self.update(key, &forced(edit)).await {
                Ok(ChangeAnswer::Made(_)) => return Ok(()),
                Ok(ChangeAnswer::Refused(_)) => return Err(LeaseError::Missing(key.to_owned())),
                Err(error) => error,
            };
            may_be_made |= error.kind() == ErrorKind::Unknown;
            self.pause_or(&mut pause, open_if(may_be_made, error), deadline).await?;
        }
    }

    /// Takes the lease from whoever has it, if the row is still as it was read: as its owner, if nobody has it or its counter
    /// has not changed for a failover time. The row as it is then; its counter is the fence of this tenure.
    ///
    /// This is for tools that judge by themselves; a [`Coordinator`](super::Coordinator) takes, renews and believes by itself.
    ///
    /// # Errors
    /// [`LeaseError::Changed`]: it is not as it was read.
    ///
    /// # Cancel safety
    /// The lease may have been taken, or not.
    pub async fn take(&self, row: &Row, worker: &str) -> Result<Row, LeaseError> {
        check_worker(worker)?;
        self.made(RowChange::take(self.inner.format, row, worker)).await
    }

    /// Renews the lease for whoever has it in `row`, and changes its users' fields.
    ///
    /// # Errors
    /// As [`Self::take`].
    ///
    /// # Cancel safety
    /// It may have been renewed, or not.
    pub async fn renew(&self, row: &Row, edit: &Edit) -> Result<Row, LeaseError> {
        edit.check(self.inner.format)?;
        self.made(RowChange::renew(self.inner.format, row, edit)).await
    }

    /// Makes the lease nobody's, if the row is still as it was read. Its owner notices at its next renewal: with the lease taken
    /// by another meanwhile, both work on it until then. To give up one's own, see
    /// [`Coordinator::release`](super::Coordinator::release).
    ///
    /// # Errors
    /// As [`Self::take`].
    ///
    /// # Cancel safety
    /// The lease may have been evicted, or not.
    pub async fn evict(&self, row: &Row) -> Result<(), LeaseError> {
        self.made(RowChange::evict(self.inner.format, row)).await.map(drop)
    }

    /// Deletes the row, if it is still as it was read, or gone already.
    ///
    /// # Errors
    /// As [`Self::take`].
    ///
    /// # Cancel safety
    /// The row may have been deleted, or not.
    pub async fn delete(&self, row: &Row) -> Result<(), LeaseError> {
        self.made(RowChange::delete(self.inner.format, row)).await.map(drop)
    }

    /// Deletes a row that has no counter, and so is no lease: see [`RowListing::bare`]. False if there is none, or it has one by now.
    ///
    /// # Errors
    /// A store error; if its kind is `Unknown`, the row may have been deleted.
    ///
    /// # Cancel safety
    /// The row may have been deleted, or not.
    pub async fn delete_bare(&self, key: &str) -> Result<bool, StoreError> {
        let request = self.inner.service.client().delete_item().table_name(self.inner.service.table());
        let request = request
            .key(LEASE_KEY, text(key))
            .condition_expression("attribute_exists(#leaseKey) AND attribute_not_exists(#leaseCounter)")
            .expression_attribute_names("#leaseKey", LEASE_KEY)
            .expression_attribute_names("#leaseCounter", LEASE_COUNTER);
        Ok(matches!(self.inner.service.ended(request.send().await)?, Ended::Done(_)))
    }

    async fn made(&self, change: RowChange) -> Result<Row, LeaseError> {
        let deadline = self.inner.clock.held().after(self.inner.service.timeout());
        let (after, key) = (change.after.clone(), change.before.key().to_owned());
        match self.settle(Settling::new(change, deadline)).await? {
            Settled::Made(_, row) => Ok(row.unwrap_or(after)),
            Settled::Refused(_) => Err(LeaseError::Changed(key)),
        }
    }

    /// Makes a change, repeating it until its outcome is known or the deadline has come.
    pub(crate) async fn settle(&self, mut settling: Settling) -> Result<Settled, StoreError> {
        let mut pause = RetryPause::default();
        loop {
            let sent = self.inner.clock.held();
            let sending = self.send(&settling.change);
            let answer = match tokio::time::timeout(settling.patience(sent), sending).await {
                Ok(answer) => answer,
                Err(_) => Err(StoreError::unknown(format!(
                    "{}: no answer to a write within what was left of the lease",
                    self.inner.service
                ))),
            };
            match settling.on(sent, answer) {
                Ok(settled) => return Ok(settled),
                Err(error) => self.pause_or(&mut pause, error, settling.deadline).await?,
            }
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("place", &self.inner.service)
            .field("format", &self.inner.format)
            .finish_non_exhaustive()
    }
}
