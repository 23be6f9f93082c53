//! What programs on a table of another layout share with the store: a client that asks once, whether the table is fit, what the
//! service's answers mean. [`Dialect`](crate::Dialect) reads URLs for them.
//!
//! It is for the crates `tenure-kcl` and `tenure-tabletheory`, and for others of their kind. Whoever wants leases needs nothing of it.
//!
//! ```no_run
//! use tenure_dynamodb::DynamoConfig;
//! use tenure_dynamodb::aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
//! use tenure_dynamodb::service::{Ended, Layout, Service, text};
//!
//! # async fn example() -> Result<(), tenure_core::StoreError> {
//! let layout = Layout {
//!     whose: "those of these locks",
//!     hash: "name".into(),
//!     range: None,
//!     actions: "the actions PutItem and DescribeTable",
//!     creation: "create one with your other programs",
//!     removal: "old locks",
//! };
//! let service = Service::connect(&DynamoConfig::new("locks").region("eu-west-1"), layout).await?;
//! service.examine().await?;
//! let request = service.client().put_item().table_name(service.table()).item("name", text("nightly"));
//! let request = request.condition_expression("attribute_not_exists(#name)").expression_attribute_names("#name", "name");
//! match service.ended(request.return_values_on_condition_check_failure(AllOld).send().await)? {
//!     Ended::Done(_) => println!("it is ours"),
//!     Ended::Refused(standing) => println!("it is another's: {standing:?}"),
//! }
//! # Ok(()) }
//! ```

pub use crate::conditional::{Conditional, Ended};
pub use crate::config::yes;
pub use crate::item::{Item, number, text};
pub use crate::layout::Layout;
pub use tenure_store::parts::Call;

use crate::config::DynamoConfig;
use crate::connect::{connect, harnessed, once};
use crate::dates::Dates;
use crate::location::TableLocation;
use crate::{conditional, error, table};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, StoreError, Wall};

/// A table of some layout, and a client of it that repeats nothing: a second attempt would hide what became of the first. As
/// text, it is where the table is, as messages name it.
#[derive(Clone)]
pub struct Service {
    client: Client,
    place: TableLocation,
    config: DynamoConfig,
}

impl Service {
    /// The table that the configuration names, with region and credentials as every AWS program finds them unless the configuration
    /// names them. Nothing is asked of the table yet: see [`Self::examine`].
    ///
    /// # Errors
    /// `Invalid`, naming the remedy: the configuration, or no region is known.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn connect(config: &DynamoConfig, layout: Layout) -> Result<Service, StoreError> {
        config.check()?;
        Ok(Service::of(&connect(config).await?, config, layout))
    }

    /// The same with a client of the caller's own, whose region, endpoint, credentials, connections and interceptors are used. Its
    /// retries and timeouts are not: see [`DynamoConfig::timeout`].
    ///
    /// # Errors
    /// `Invalid`: the configuration. That it names what the client has of its own is for [`DynamoConfig::check_bare`].
    pub fn with_client(
        client: &Client,
        config: &DynamoConfig,
        layout: Layout,
    ) -> Result<Service, StoreError> {
        config.check()?;
        Ok(Service::of(client, config, layout))
    }

    fn of(client: &Client, config: &DynamoConfig, layout: Layout) -> Service {
        let client = Client::from_conf(once(client, config.timeout).build());
        let place = config.location(&client, layout);
        Service { client, place, config: config.clone() }
    }

    /// The client, for requests to the table.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The table's name.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.place.table
    }

    /// How long one request may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.config.timeout
    }

    /// Looks at the table (`DescribeTable`): whether it has the layout's keys, can be used, and keeps conditions in all its regions.
    ///
    /// # Errors
    /// Each names the table and the remedy, as those of [`DynamoStore::open`](crate::DynamoStore::open).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn examine(&self) -> Result<(), StoreError> {
        table::examine(&self.client, &self.place, self.config.one_region.as_deref()).await.map(drop)
    }

    /// The service's own time, cut to seconds, as its answer to [`Self::examine`] is dated.
    ///
    /// # Errors
    /// As [`Self::examine`]; `Unavailable` when the answer has no date.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn date(&self, clock: &Arc<dyn Clock>) -> Result<Wall, StoreError> {
        let dates = Dates::new(Arc::clone(clock), self.config.drift);
        let client = harnessed(&self.client, self.config.timeout, dates.clone());
        let dated = Service { client, ..self.clone() };
        dated.examine().await?;
        let missing = || {
            StoreError::unavailable(format!(
                "{self}: its answer has no date; ask the service itself, not a proxy"
            ))
        };
        dates.at_least().map(Wall).ok_or_else(missing)
    }

    /// Makes the table with the layout's keys, billed on demand, and waits until it can be used. False if there was one of that name
    /// already, which is left as it is.
    ///
    /// # Errors
    /// As [`Self::examine`].
    ///
    /// # Cancel safety
    /// The table may have been made, or not.
    pub async fn create(&self) -> Result<bool, StoreError> {
        table::create(&self.client, &self.place).await
    }

    /// Switches the table's time to live on: the service deletes items a while after the time that this attribute tells, in Unix
    /// seconds.
    ///
    /// # Errors
    /// Those of the service.
    ///
    /// # Cancel safety
    /// It may have been switched on, or not.
    pub async fn delete_by(&self, attribute: &str) -> Result<(), StoreError> {
        table::delete_by(&self.client, &self.place, attribute).await
    }

    /// The attribute by which the service deletes items (`DescribeTimeToLive`); none while the table's time to live is off.
    ///
    /// # Errors
    /// Those of the service.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn deleted_by(&self) -> Result<Option<String>, StoreError> {
        table::deleted_by(&self.client, &self.place).await
    }

    /// What an error means to the caller: `Unknown` where a write may have taken effect.
    #[must_use]
    pub fn failed<E>(&self, call: Call, error: SdkError<E, HttpResponse>) -> StoreError
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        error::failed(&self.place, call, error)
    }

    /// How a conditional write ended.
    ///
    /// # Errors
    /// As [`Self::failed`], where it neither took effect nor was refused by its condition.
    pub fn ended<T, E: Conditional>(
        &self,
        answer: Result<T, SdkError<E, HttpResponse>>,
    ) -> Result<Ended<T>, StoreError> {
        conditional::ended(&self.place, answer)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Service").field(&self.place).finish()
    }
}
