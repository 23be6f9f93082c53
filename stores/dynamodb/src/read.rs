//! Reads: of one record, of several. All of them strongly consistent, as a stale one would be a wasted attempt;
//! but for those that ask for nothing else than a recent state, which cost half.

use crate::client::TableClient;
use crate::error::failed;
use crate::item::{self, Item};
use aws_sdk_dynamodb::types::KeysAndAttributes;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure_core::{Key, StoreError, Stored};
use tenure_store::parts::Call;
use tenure_store::{Freshness, Listed};

/// The most keys that one BatchGetItem takes.
const BATCH: usize = 100;
/// How often what was left unprocessed is asked for again.
const ROUNDS: u32 = 6;

pub(crate) async fn one(inner: &TableClient, key: &Key) -> Result<Option<Stored>, StoreError> {
    match item(inner, inner.keys(key)).await? {
        Some(item) => inner.stored(key, &item).map(Some),
        None => Ok(None),
    }
}

pub(crate) async fn item(inner: &TableClient, keys: Item) -> Result<Option<Item>, StoreError> {
    let request = inner.client.get_item().table_name(&inner.place.table).set_key(Some(keys));
    let answer = request.consistent_read(true).send().await;
    Ok(answer.map_err(|error| failed(&inner.place, Call::Read, error))?.item)
}

pub(crate) async fn many(
    inner: &TableClient,
    keys: &[Key],
    freshness: Freshness,
) -> Result<Vec<Listed>, StoreError> {
    // DynamoDB refuses a batch that names a key twice.
    let distinct: Vec<&Key> = keys.iter().collect::<BTreeSet<_>>().into_iter().collect();
    let mut found = Vec::new();
    for batch in distinct.chunks(BATCH) {
        let wanted = batch.iter().map(|key| inner.keys(key)).collect();
        found.extend(batch_get(inner, wanted, freshness).await?);
    }
    Ok(found)
}

async fn batch_get(
    inner: &TableClient,
    mut wanted: Vec<Item>,
    freshness: Freshness,
) -> Result<Vec<Listed>, StoreError> {
    let latest = freshness == Freshness::Latest;
    let table = &inner.place.table;
    let mut found = Vec::new();
    for round in 0..ROUNDS {
        let keys = KeysAndAttributes::builder().set_keys(Some(wanted)).consistent_read(latest).build();
        let keys = keys.map_err(|error| StoreError::invalid(format!("{}: {error}", inner.place)))?;
        let answer = inner.client.batch_get_item().request_items(table, keys).send().await;
        let answer = answer.map_err(|error| failed(&inner.place, Call::Read, error))?;
        for item in answer.responses().and_then(|tables| tables.get(table)).into_iter().flatten() {
            found.push(listed(inner, item)?);
        }
        wanted = answer
            .unprocessed_keys()
            .and_then(|tables| tables.get(table))
            .map_or_else(Vec::new, |rest| rest.keys().to_vec());
        if wanted.is_empty() {
            return Ok(found);
        }
        // The table is throttled, or the answer was too large for one.
        tokio::time::sleep(Duration::from_millis(10) * 2u32.pow(round)).await;
    }
    Err(StoreError::unavailable(format!(
        "{}: throttled; {} of the records asked for were not read; raise the table's capacity, or bill it on demand",
        inner.place,
        wanted.len()
    )))
}

pub(crate) fn listed(inner: &TableClient, item: &Item) -> Result<Listed, StoreError> {
    // It stands for no lease, as nobody can ask for that key; but listings hide nothing.
    let key = item::key(item).map_err(|reason| StoreError::foreign(format!("{}: {reason}", inner.place)))?;
    let stored = inner.stored(&key, item);
    Ok(Listed { key, stored })
}
