//! What all calls of a store share: the client of the service, the table, and what is known of it.

use crate::dates::Dates;
use crate::item::{self, Item};
use crate::location::TableLocation;
use crate::released::ReleasedFences;
use crate::shards::Shards;
use aws_sdk_dynamodb::Client;
use tenure_core::{Key, StoreError, Stored};
use tenure_store::Capabilities;

pub(crate) struct TableClient {
    pub(crate) client: Client,
    pub(crate) place: TableLocation,
    pub(crate) shards: Shards,
    pub(crate) dates: Option<Dates>,
    pub(crate) released: ReleasedFences,
    pub(crate) id: String,
    pub(crate) capabilities: Capabilities,
}

impl TableClient {
    /// The record of an item.
    pub(crate) fn stored(&self, key: &Key, item: &Item) -> Result<Stored, StoreError> {
        item::stored(key, item, self.dates.as_ref().and_then(Dates::at_least))
    }

    pub(crate) fn keys(&self, key: &Key) -> Item {
        item::keys(&self.shards.partition(key), key.as_str())
    }
}
