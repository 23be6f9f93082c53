//! What all calls of a store share: the client of the service, the table, and what is known of it.

use crate::dates::Dates;
use crate::error::{is_denial, is_turned_away};
use crate::item::{self, Item};
use crate::location::TableLocation;
use crate::released::ReleasedFences;
use crate::shards::Shards;
use aws_sdk_dynamodb::Client;
use tenure_core::{Key, StoreError, Stored};
use tenure_store::Capabilities;
use tenure_store::parts::{Admission, Right};

pub(crate) struct TableClient {
    pub(crate) client: Client,
    pub(crate) place: TableLocation,
    pub(crate) shards: Shards,
    pub(crate) dates: Option<Dates>,
    pub(crate) released: ReleasedFences,
    pub(crate) id: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) admission: Admission,
}

impl TableClient {
    /// What comes of a call that needs a right: the service looks at rights before it looks at items. `shows`: whether anything was asked of it.
    pub(crate) fn judged<T>(
        &self,
        right: Right,
        shows: impl FnOnce(&T) -> bool,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let answer = self.admission.judged(right, is_denial, shows, answer);
        self.admission.judged(Right::Login, is_turned_away, |_| false, answer)
    }

    /// The record of an item.
    pub(crate) fn stored(&self, key: &Key, item: &Item) -> Result<Stored, StoreError> {
        item::stored(key, item, self.dates.as_ref().and_then(Dates::at_least))
    }

    pub(crate) fn keys(&self, key: &Key) -> Item {
        item::keys(&self.shards.partition(key), key.as_str())
    }
}
